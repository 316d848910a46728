"""What a scheduler is told about a gang: everything that its objects and its prepared pods say.

The names of objects say nothing: each is replaced by the place of its object, also where pods or other
objects mention it. JSON in an annotation is read, so that a part of it can differ.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from grove.api.gang import PodGang
from grove.backends.base import Backend, Capability, Context, Fidelity, Treatment
from grove.errors import Unsupported, Waiting
from grove.meta import Manifest
from grove.testing import make
from grove.testing.rules.twins import MINIMUM, RACK, ZONE, Twin

#: One thing that is said: where, and what.
Statement = tuple[tuple[str | int, ...], str]


@dataclass(frozen=True, slots=True)
class Told:
    """A gang as the scheduler gets to know it, and what the backend says became of its properties."""

    statements: frozenset[Statement] = frozenset()
    treatments: tuple[Treatment, ...] = ()
    refused: bool = False

    def accounts_for(self, about: Sequence[Capability], *, enforced: bool) -> bool:
        """Whether one of these properties is accounted for as enforced, or else as a loss."""
        found = [each for each in self.treatments if each.property in about]
        return any((each.fidelity is Fidelity.ENFORCED) is enforced for each in found)


class Hearing:
    """What a scheduler is told in one context; about each gang it is found out once."""

    def __init__(self, backend: Backend, context: Context) -> None:
        self._backend, self._context = backend, context
        self._known: dict[int, tuple[PodGang, Told]] = {}

    def of(self, gang: PodGang) -> Told:
        """What is told about a gang."""
        if id(gang) not in self._known:
            self._known[id(gang)] = gang, _told(self._backend, gang, self._context)
        return self._known[id(gang)][1]

    def misses(self, twin: Twin) -> bool:
        """Whether nothing is told about the constraint of a gang."""
        bare = twin.without
        return bare is not None and self.of(bare).statements == self.of(twin.gang).statements


def _told(backend: Backend, gang: PodGang, context: Context) -> Told:
    try:
        translation = backend.translate(gang, context)
        pods = [backend.prepare_pod(each, gang, context) for each in _pods(gang)]
    except Unsupported:
        return Told(refused=True)
    except Waiting as error:
        raise AssertionError(
            f"contexts() is not complete: {error}. It must let translate go on, also with the node labels "
            f"{RACK} and {ZONE}"
        ) from None
    objects = [*translation.manifests]
    said = _statements([objects, pods], (), _without_names(objects))
    return Told(frozenset(said), translation.treatments)


def _pods(gang: PodGang) -> Iterator[Manifest]:
    """The pods of each podgroup, up to one more than the usual minimum."""
    for podgroup in gang.spec.podgroups:
        for index in range(MINIMUM + 1):
            yield make.pod_manifest(podgroup.name, index, gang=gang)


def _without_names(objects: Iterable[Manifest]) -> Callable[[str], str]:
    places: dict[str, str] = {}
    for place, each in enumerate(objects):
        places.setdefault(str(each["metadata"]["name"]), f"<object {place}>")
    if not places:
        return lambda text: text
    longest_first = "|".join(re.escape(name) for name in sorted(places, key=len, reverse=True))
    # Whole names only: one may be the beginning of another, or of a podgroup's.
    known = re.compile(rf"(?<![\w.-])(?:{longest_first})(?![\w.-])")
    return lambda text: known.sub(lambda found: places[found[0]], text)


def _statements(
    value: object, path: tuple[str | int, ...], nameless: Callable[[str], str]
) -> Iterator[Statement]:
    if isinstance(value, str):
        value = _read(value)
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _statements(item, (*path, nameless(str(key))), nameless)
    elif isinstance(value, list | tuple) and value:
        for index, item in enumerate(value):
            yield from _statements(item, (*path, index), nameless)
    else:
        yield path, nameless(value) if isinstance(value, str) else repr(value)


def _read(text: str) -> object:
    """A string, or the list or map that it writes down as JSON."""
    if text[:1] not in ("{", "["):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
