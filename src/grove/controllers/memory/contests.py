"""Fields of a set's children that another writer keeps overwriting; Grove restores them with a growing delay.

An edit by hand is put back at once. Whoever insists meets ever longer pauses, field by field, so that two
writers do not keep the API server busy; and the set says which field it is and, as far as the API server
knows, who writes it. Forgotten when nobody has touched the field for a while.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from grove.api import labels
from grove.errors import ApiError, FieldError
from grove.kube.client import Client
from grove.meta import Key, Manifest, Resource
from grove.plan.changes import Change, Delete, Patch
from grove.runtime.clock import Clock

FIRST_PAUSE_SECONDS: Final = 0.25
LONGEST_PAUSE_SECONDS: Final = 60.0
#: A field that nobody touched for so long is no longer contested.
FORGET_SECONDS: Final = 180.0
#: Put back so often, a field is called contested.
CONTESTED: Final = 4

Path = tuple[str, ...]
_Target = tuple[Resource, Key]


@dataclass(slots=True)
class _Contest:
    """How often one field of one object was put back, and when that may happen again."""

    times: int = 0
    last: float = 0.0
    writers: tuple[str, ...] = ()

    @property
    def due(self) -> float:
        doubled: float = FIRST_PAUSE_SECONDS * 2 ** min(self.times - 1, 20)
        return self.last + min(LONGEST_PAUSE_SECONDS, doubled)


@dataclass(frozen=True, slots=True)
class Sifted:
    """The changes that may be made now, and in how many seconds those that were held back may be."""

    changes: tuple[Change, ...]
    wait: float | None = None


class Contests:
    """The contested fields of all sets."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._fields: dict[Key, dict[_Target, dict[Path, _Contest]]] = {}

    async def sift(self, owner: Key, changes: Sequence[Change]) -> Sifted:
        """Hold back the repairs whose every field was put back too recently."""
        known, now = self._recent(owner), self._clock.monotonic()
        if not known:
            return Sifted(tuple(changes))
        allowed: list[Change] = []
        waits: list[float] = []
        for change in changes:
            contests = known.get((change.resource, change.key)) if isinstance(change, Patch) else None
            if contests is None or not isinstance(change, Patch):
                allowed.append(change)
                continue
            await self._find_writers(change, contests)
            wait = min((contests[path].due - now if path in contests else 0.0) for path in _paths(change))
            if wait > 0:
                waits.append(wait)
            else:
                allowed.append(change)
        return Sifted(tuple(allowed), min(waits, default=None))

    def put_back(self, owner: Key, changes: Sequence[Change]) -> None:
        """These repairs were made."""
        now = self._clock.monotonic()
        for change in changes:
            if isinstance(change, Delete):
                # Nobody contests a field of what is gone.
                self._fields.get(owner, {}).pop((change.resource, change.key), None)
            if isinstance(change, Patch):
                contests = self._fields.setdefault(owner, {}).setdefault((change.resource, change.key), {})
                for path in _paths(change):
                    contest = contests.setdefault(path, _Contest())
                    contest.times += 1
                    contest.last = now

    def notices(self, owner: Key) -> list[FieldError]:
        """A sentence for each contested field."""
        found = []
        for (resource, key), contests in sorted(self._recent(owner).items()):
            for path, contest in sorted(contests.items()):
                if contest.times >= CONTESTED:
                    by = " and ".join(f'"{each}"' for each in contest.writers) or "another writer"
                    found.append(
                        FieldError(
                            "",
                            f"{resource.kind} {key.name}: {_spelt(path)} is repeatedly overwritten by {by}; "
                            "Grove restores it less and less often until the other writer stops",
                        )
                    )
        return found

    def forget(self, owner: Key) -> None:
        """The set is gone, or asks for something else now."""
        self._fields.pop(owner, None)

    def _recent(self, owner: Key) -> Mapping[_Target, dict[Path, _Contest]]:
        """What is known of a set's fields, without those that were left alone for long."""
        now = self._clock.monotonic()
        targets = self._fields.get(owner, {})
        for target, contests in list(targets.items()):
            for path in [path for path, each in contests.items() if now - each.last > FORGET_SECONDS]:
                del contests[path]
            if not contests:
                del targets[target]
        if not targets:
            self._fields.pop(owner, None)
        return targets

    async def _find_writers(self, change: Patch, contests: Mapping[Path, _Contest]) -> None:
        """Ask who wrote the contested fields, before they are put back."""
        unknown = [
            path
            for path in _paths(change)
            if path in contests and contests[path].times >= CONTESTED - 1 and not contests[path].writers
        ]
        if not unknown:
            return
        try:
            whole: Manifest = await self._client.get(change.resource, change.key, type=dict)
        except ApiError:
            return
        for path in unknown:
            contests[path].writers = tuple(sorted(set(_writers(whole, path))))


def _paths(change: Patch) -> list[Path]:
    return list(_leaves(change.patch, ()))


def _leaves(patch: Manifest, before: Path) -> Iterator[Path]:
    for name, value in patch.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, (*before, name))
        else:
            yield (*before, name)


def _writers(manifest: Manifest, path: Path) -> Iterator[str]:
    """The field managers other than ours that own a field."""
    for entry in manifest["metadata"].get("managedFields") or ():
        fields: object = entry.get("fieldsV1") or {}
        for step in path:
            fields = fields.get(f"f:{step}") if isinstance(fields, dict) else None
        if fields is not None and entry.get("manager") not in (labels.MANAGER, None):
            yield str(entry["manager"])


def _spelt(path: Path) -> str:
    """A path as people write it; a key with dots in brackets."""
    text = ""
    for step in path:
        text += f"[{step}]" if "." in step or "/" in step else f".{step}"
    return text.removeprefix(".")
