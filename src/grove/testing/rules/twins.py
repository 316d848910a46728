"""Gangs that differ in one property: the same name and UID, the same podgroups, one thing more or another."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from grove.api import labels
from grove.api.gang import PodGang
from grove.meta import Manifest
from grove.testing import make

#: Node labels that the gangs ask for: `contexts()` of a backend that honours topology must know both.
RACK: Final = "example.com/rack"
ZONE: Final = "example.com/zone"

#: The levels of a gang at which it can ask for something.
GANG: Final = "twin"
GROUP: Final = "twin-pair"
PODGROUPS: Final = ("twin-a", "twin-b", "twin-c")
LEVELS: Final = (GANG, GROUP, *PODGROUPS)

MINIMUM: Final = 2
_USUAL: Final = dict.fromkeys(PODGROUPS, MINIMUM)
_NAMED: Final = {labels.TOPOLOGY_NAME: "cluster"}


@dataclass(frozen=True, slots=True)
class Twin:
    """A gang, and what distinguishes it from the others, for the text of a failure."""

    text: str
    gang: PodGang
    #: The same gang without its constraint, if it has one.
    without: PodGang | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """Two gangs that no scheduler may take for the same, and the level at which they differ."""

    level: str
    one: Twin
    other: Twin

    @property
    def both_constrained(self) -> bool:
        return self.one.without is not None and self.other.without is not None


def plain(text: str) -> Twin:
    """The gang that asks for nothing but its minima; `text` says what it lacks beside its twin."""
    return Twin(text, make.gang(GANG, _USUAL, annotations=_NAMED))


def raised(podgroup: str) -> Twin:
    """The same with a higher minimum of one podgroup."""
    gang = make.gang(GANG, {**_USUAL, podgroup: MINIMUM + 1}, annotations=_NAMED)
    return Twin(f"minReplicas {MINIMUM + 1} of {podgroup}", gang)


def single(minimum: int) -> Twin:
    """A gang of one podgroup."""
    name = PODGROUPS[0]
    return Twin(f"minReplicas {minimum}", make.gang(GANG, {name: minimum}, annotations=_NAMED))


def urgent(priority: str) -> Twin:
    """A gang with a priority class."""
    gang = make.gang(GANG, _USUAL, priority=priority, annotations=_NAMED)
    return Twin(f"priorityClassName {priority}", gang)


def queued(annotation: str, queue: str) -> Twin:
    """A gang that names its queue."""
    gang = make.gang(GANG, _USUAL, annotations={**_NAMED, annotation: queue})
    return Twin(f"the annotation {annotation}={queue}", gang)


def returning(before: str) -> Twin:
    """A gang that may take over the place of another."""
    gang = make.gang(GANG, _USUAL, reuse=before, annotations=_NAMED)
    return Twin(f"reuseReservationRef {before}", gang)


def scaled(required: str = "", preferred: str = "") -> Twin:
    """A scaled gang, and what its set asks of all pods of the replica."""
    asked = {labels.REPLICA_REQUIRED: required, labels.REPLICA_PREFERRED: preferred}
    notes = {name: key for name, key in asked.items() if key}
    gang = make.gang(
        GANG,
        _USUAL,
        cliqueset="twins",
        labels={labels.BASE_POD_GANG: "twins-0", labels.SET_REPLICA_INDEX: "0"},
        annotations={**_NAMED, **notes},
    )
    text = " and ".join(f"{name}={key}" for name, key in notes.items())
    return Twin(text or "nothing that its replica shares", gang)


def packed(
    level: str, *, required: str = "", preferred: str = "", members: Sequence[str] = PODGROUPS[:2]
) -> Twin:
    """A gang with one pack constraint, at one level."""
    bare, asking = (_constrained(level, each, members) for each in ({}, make.pack(required, preferred)))
    keys = {"required": required, "preferred": preferred}
    asked = " and ".join(f"{word} {key}" for word, key in keys.items() if key)
    return Twin(f"{asked} on {described(level, members)}", asking, bare)


def _constrained(level: str, constraint: Manifest, members: Sequence[str]) -> PodGang:
    at = {level: constraint}
    manifest = make.gang_manifest(
        GANG,
        [{**make.podgroup(each, MINIMUM), **at.get(each, {})} for each in PODGROUPS],
        groups=[{**make.group(GROUP, members), **constraint}] if level == GROUP else (),
        annotations=_NAMED,
    )
    manifest["spec"].update(at.get(GANG, {}))
    return make.view(PodGang, manifest)


def described(level: str, members: Sequence[str] = PODGROUPS[:2]) -> str:
    """A level in words."""
    if level == GANG:
        return "the gang"
    return f"the group of {' and '.join(members)}" if level == GROUP else f"podgroup {level}"


def constraints(level: str, *, must: bool) -> Iterator[Pair]:
    """A constraint or none, and one node label or the other, required or preferred at one level."""
    first, second = (
        packed(level, required=key) if must else packed(level, preferred=key) for key in (RACK, ZONE)
    )
    where = described(level)
    nothing = Twin("no constraint", _constrained(level, {}, PODGROUPS[:2]))
    yield from (Pair(where, nothing, first), Pair(where, nothing, second), Pair(where, first, second))


def elsewhere(*, must: bool) -> Iterator[Pair]:
    """The same constraint of the gang, of a group, of another group or of a podgroup, two at a time."""
    places = [(level, PODGROUPS[:2]) for level in LEVELS] + [(GROUP, PODGROUPS[1:])]
    word = "required" if must else "preferred"
    found = [
        (described(level, members), packed(level, members=members, **{word: RACK}))
        for level, members in places
    ]
    for (here, one), (there, other) in combinations(found, 2):
        yield Pair(f"{here} or {there}", one, other)
