"""What an operator of this version would do to the sets of a cluster, without doing it. Pure.

The changes are those that the operator plans; here they become sentences: which fields of which object would
be written, and which pods would end for which reason. A pod *restarts* if it is on a node and runs; one that
waits, or has ended, is *replaced*.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from grove.api import kinds, labels
from grove.api.clique import PodClique
from grove.api.pod import Pod
from grove.meta import Key, Manifest, Object
from grove.plan.changes import Apply, Change, Create, Delete, JsonPatch
from grove.plan.hashing import canonical
from grove.plan.update.pods import outdated_pods
from grove.plan.update.revisions import pod_template_of

V = TypeVar("V", bound=Object)

_HASH_LABEL: Final = f"metadata.labels[{labels.POD_TEMPLATE_HASH}]"
#: Maps whose keys are names: a key is written in brackets, since it may have dots.
_NAMED: Final = frozenset({"labels", "annotations", "nodeSelector", "matchLabels", "limits", "requests"})
_NOTHING: Final[tuple[object, ...]] = ("", [], ())
_BEHIND: Final = f"{_HASH_LABEL}: the pod was made from an earlier template of its clique"
_NO_ROW: Final = "the set has no such {kind}"


class Verb(StrEnum):
    """What would be done to an object."""

    CREATE = "create"
    WRITE = "write"
    REMOVE = "remove"


class ObjectChange(NamedTuple):
    """One object that would be created, written or removed, with the fields that would be written."""

    verb: Verb
    kind: str
    name: str
    fields: tuple[str, ...] = ()


class PodEnd(NamedTuple):
    """A pod that would be deleted, and the field that is the reason."""

    name: str
    reason: str
    #: Whether it is on a node and runs.
    restarts: bool


@dataclass(frozen=True)
class SetRehearsal:
    """What would happen to one set."""

    key: Key
    #: How many pods of it are on nodes now.
    pods: int = 0
    #: Why the set would be refused; what it runs goes on running, and nothing of it is written.
    refused: tuple[str, ...] = ()
    changes: tuple[ObjectChange, ...] = ()
    ends: tuple[PodEnd, ...] = ()
    #: What the API server has against new pods of a set that was accepted before: it stays accepted, but no
    #: pod that is lost comes back.
    no_pods: tuple[str, ...] = ()
    #: What keeps pods from being created now, or from being tried, without being wrong with the set.
    notices: tuple[str, ...] = ()

    @property
    def restarts(self) -> list[PodEnd]:
        return [each for each in self.ends if each.restarts]


@dataclass
class Ends:
    """Collects the pods that would end; of several reasons for one pod the first counts."""

    _found: dict[str, PodEnd] = field(default_factory=dict)

    def add(self, pods: Iterable[Pod], reason: str) -> None:
        for pod in pods:
            self._found.setdefault(pod.uid or pod.name, PodEnd(pod.name, reason, runs(pod)))

    def sorted(self) -> tuple[PodEnd, ...]:
        return tuple(sorted(self._found.values(), key=lambda end: (not end.restarts, end.name)))


def runs(pod: Pod) -> bool:
    """Whether a pod is on a node and has not ended."""
    return pod.active and pod.bound


# Objects ------------------------------------------------------------------------------------------


def object_change(change: Change, before: Object | None = None) -> ObjectChange:
    """A planned change in words; `before` is the object that it changes."""
    if isinstance(change, Create | Apply):
        name = str(change.manifest["metadata"]["name"])
        written = isinstance(change, Apply) and bool(change.uid)
        verb = Verb.WRITE if written else Verb.CREATE
        return ObjectChange(verb, change.resource.kind, name)
    if isinstance(change, Delete):
        return ObjectChange(Verb.REMOVE, change.resource.kind, change.key.name)
    if isinstance(change, JsonPatch):
        paths = tuple(str(each["path"]) for each in change.operations if each["op"] != "test")
        return ObjectChange(Verb.WRITE, change.resource.kind, change.key.name, paths)
    have = msgspec.to_builtins(before) if before is not None else {}
    fields = tuple(sorted(set(patched_fields(change.patch, have))))
    return ObjectChange(Verb.WRITE, change.resource.kind, change.key.name, fields)


def patched_fields(patch: Manifest, have: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """The fields that a merge patch writes; of a list that it writes whole, those that differ."""
    for key, want in patch.items():
        at, there = _step(path, key), have.get(key)
        if isinstance(want, dict):
            yield from patched_fields(want, there if isinstance(there, Mapping) else {}, at)
        elif isinstance(want, list) and isinstance(there, (list, tuple)):
            yield from differing_fields(want, there, at)
        else:
            yield at


def patched(item: V, patch: Manifest) -> V:
    """An object as it would be after a merge patch."""
    merged = _merged(msgspec.to_builtins(item), patch)
    return msgspec.convert(merged, type(item), strict=False)


def _merged(have: Any, patch: Manifest) -> Any:
    result = dict(have) if isinstance(have, Mapping) else {}
    for key, want in patch.items():
        if want is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), want) if isinstance(want, dict) else want
    return result


# Pods ---------------------------------------------------------------------------------------------


def template_fields(before: PodClique, after: PodClique) -> list[str]:
    """The fields in which the pod template of a clique would mean something else."""
    found = list(_of_metadata(before, after))
    now, then = (canonical(each.spec.pod_spec, ("spec",)) for each in (after, before))
    return [*found, *differing_fields(now, then, "spec.podSpec")]


def _of_metadata(before: PodClique, after: PodClique) -> Iterator[str]:
    for name in ("labels", "annotations"):
        old, new = getattr(before, name), getattr(after, name)
        for key in sorted(old.keys() | new.keys()):
            ours = key.startswith(labels.GROVE_PREFIX) or key in labels.STANDARD
            if not ours and old.get(key) != new.get(key):
                yield f"metadata.{name}[{key}]"


def left_behind(
    before: PodClique, after: PodClique, pods: Sequence[Pod], *, others: Sequence[str] = ()
) -> tuple[list[Pod], str]:
    """The pods that would have another template than their clique, and why.

    `others` are reasons that its gang has.
    """
    behind = outdated_pods(after, pods)
    if pod_template_of(before) == pod_template_of(after):
        return behind, _BEHIND
    fields = template_fields(before, after) or list(others)
    return behind, ", ".join(fields) or _HASH_LABEL


def surplus_reason(clique: PodClique, pod: Pod) -> str:
    """Why a clique would delete a pod that has its template."""
    if pod.status.phase == "Failed":
        return "status.phase: failed pods are replaced"
    if not pod.bound:
        return f"metadata.annotations[{labels.GANG_REVISION}]: it waits in a start of its gang that is over"
    return f"spec.replicas: PodClique {clique.name} asks for {clique.spec.replicas} pods and has more"


def removed_reason(change: Delete) -> str:
    """Why pods end with a clique or a scaling group."""
    return f"{change.resource.kind} {change.key.name}: {_NO_ROW.format(kind=change.resource.kind)}"


def is_owner(change: Change) -> bool:
    """Whether pods go with what a change deletes."""
    return isinstance(change, Delete) and change.resource in (kinds.CLIQUES, kinds.SCALING_GROUPS)


# Paths --------------------------------------------------------------------------------------------


def differing_fields(want: Any, have: Any, path: str, *, within_item: bool = False) -> Iterator[str]:
    """The deepest fields in which two values differ; items of lists are told by their names.

    Absent and empty mean the same, but for an empty mapping within an item of a list, as for what is written.
    """
    if isinstance(want, dict) and isinstance(have, Mapping):
        for key in [*want, *(key for key in have if key not in want)]:
            yield from differing_fields(
                want.get(key), have.get(key), _step(path, key), within_item=within_item
            )
        return
    if isinstance(want, (list, tuple)) and isinstance(have, (list, tuple)):
        yield from _differing_items(want, have, path)
        return
    nothing: tuple[object, ...] = _NOTHING if within_item else (*_NOTHING, {})
    if (None if want in nothing else want) != (None if have in nothing else have):
        yield path


def _differing_items(want: Sequence[Any], have: Sequence[Any], path: str) -> Iterator[str]:
    wanted, there = _by_name(want), _by_name(have)
    if wanted is None or there is None:
        if len(want) != len(have):
            yield path
            return
        for index, (one, other) in enumerate(zip(want, have, strict=True)):
            yield from differing_fields(one, other, f"{path}[{index}]", within_item=True)
        return
    for name in [*wanted, *(name for name in there if name not in wanted)]:
        if name not in wanted or name not in there:
            yield f"{path}[{name}]"
        else:
            yield from differing_fields(wanted[name], there[name], f"{path}[{name}]", within_item=True)
    if wanted.keys() == there.keys() and list(wanted) != list(there):
        yield f"{path}: their order"


def _by_name(items: Sequence[Any]) -> dict[str, Any] | None:
    """Items by their names; None where they have none, or one twice."""
    names = [item.get("name") if isinstance(item, Mapping) else None for item in items]
    if None in names or len(set(names)) < len(names):
        return None
    return dict(zip(map(str, names), items, strict=True))


def _step(path: str, key: str) -> str:
    if not path:
        return key
    last = path.rpartition(".")[2]
    return f"{path}[{key}]" if last in _NAMED else f"{path}.{key}"
