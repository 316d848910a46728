"""Place a whole tree of groups or nothing: minimum counts and topology at every level.

A `Leaf` holds pods, a `Branch` holds groups; each may demand that everything below it shares one topology
domain. Pure: a trial on the ledger, undone when the tree fails. The minimums of all leaves come first, then
the pods above them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from grove.embedded.actors.objects import Key
from grove.embedded.actors.schedulers.placement import Diagnosis, Trial, domains
from grove.embedded.actors.schedulers.shapes import PodShape

Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    key: Key
    shape: PodShape


@dataclass(frozen=True, slots=True)
class Leaf:
    name: str
    pods: tuple[Candidate, ...]
    """Pods that wait for a node, in the order in which they are tried."""
    minimum: int
    placed: tuple[str, ...] = ()
    """Nodes of the members that already have one; they count, and they pin the domain."""
    required: Keys = ()
    """Node labels whose values all members must share."""
    preferred: Keys = ()
    present: Keys = ()
    """Labels that a node must have to be considered at all, with whatever value."""


@dataclass(frozen=True, slots=True)
class Branch:
    name: str
    children: tuple[Group, ...]
    minimum: int
    required: Keys = ()
    preferred: Keys = ()
    present: Keys = ()


Group = Leaf | Branch


@dataclass(frozen=True, slots=True)
class Shortage:
    """What one group lacked when the tree failed."""

    group: str
    minimum: int
    scheduled: int
    remaining: int
    """Pods that had not been tried when the failure was certain."""
    pod: Key | None = None
    diagnosis: Diagnosis | None = None
    domains: int = 0
    """How many topology domains were tried; 0 when the group asks for none."""
    domain: tuple[str, ...] = ()
    """The domain that this shortage was seen in."""
    keys: Keys = ()
    tally: tuple[tuple[tuple[str, ...], int, int], ...] = ()
    """For each tried domain: how many of how many required pods it has room for."""


@dataclass(slots=True)
class Verdict:
    """The end of one attempt: the nodes of the placed pods, or why nothing was placed."""

    placed: dict[Key, str] = field(default_factory=dict)
    shortage: Shortage | None = None
    unfit: dict[Key, Diagnosis] = field(default_factory=dict)
    """Pods that found no node, and why; also of a successful tree (pods above the minimum)."""
    failed: dict[str, Shortage] = field(default_factory=dict)
    """Groups that missed their minimum; in a successful tree they simply stay pending."""

    @property
    def ok(self) -> bool:
        return self.shortage is None


def leaves(group: Group) -> Iterator[Leaf]:
    if isinstance(group, Leaf):
        yield group
        return
    for child in group.children:
        yield from leaves(child)


def attempt(trial: Trial, group: Group, within: frozenset[str] | None = None) -> Verdict:
    """Place the tree; after a failure the ledger is as it was before."""
    run = _Attempt(trial)
    start = trial.mark()
    shortage = run.fit(group, within)
    verdict = Verdict(shortage=shortage, unfit=run.unfit)
    verdict.failed = run.failed
    if shortage is not None:
        trial.undo(start)
        return verdict
    run.place_extras()
    verdict.placed = dict(list(trial.placed.items())[start:])
    return verdict


class _Attempt:
    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.unfit: dict[Key, Diagnosis] = {}
        self.failed: dict[str, Shortage] = {}
        self.extras: dict[str, tuple[Leaf, list[Candidate], frozenset[str] | None]] = {}

    def fit(self, group: Group, within: frozenset[str] | None) -> Shortage | None:
        """None when the group has its minimum, in one domain if it demands one."""
        if group.present:
            labelled = domains(self.trial.ledger.nodes.values(), group.present, within).values()
            within = frozenset(name for names in labelled for name in names)
        if group.required:
            return self._fit_in_one(group, group.required, within)
        return self._fit_preferring(group, within)

    def _fit_in_one(self, group: Group, keys: Keys, within: frozenset[str] | None) -> Shortage | None:
        nodes = self.trial.ledger.nodes
        found = domains(nodes.values(), keys, within)
        pinned = {node for leaf in leaves(group) for node in leaf.placed}
        if pinned:
            found = {values: names for values, names in found.items() if pinned <= names}
        first: Shortage | None = None
        rooms = {values: self._room(group, names) for values, names in found.items()}
        wanted = _required_pods(group)
        # Domains with room for everybody come first, the smallest of them before the roomy ones.
        ranked = sorted(found.items(), key=lambda item: (-rooms[item[0]], len(item[1])))
        for values, names in ranked:
            mark = self.trial.mark()
            shortage = self._fit_preferring(group, names)
            if shortage is None:
                return None
            self.trial.undo(mark)
            first = first or _within(shortage, values, keys, len(found))
        if group.name in self.failed:
            own = self.failed[group.name]
            self.failed[group.name] = replace(own, domains=len(found), keys=keys)
        tally = tuple((v, min(room, wanted - 1), wanted) for v, room in rooms.items())
        none = Shortage(group.name, group.minimum, len(pinned), 0, keys=keys)
        return replace(first or none, tally=tally)

    def _room(self, group: Group, names: Collection[str]) -> int:
        """How many of the waiting pods the nodes could take, shape by shape."""
        ledger = self.trial.ledger
        room = 0
        for shape, count in Counter(pod.shape for leaf in leaves(group) for pod in leaf.pods).items():
            fitting = sum(
                min(ledger.free(name).get(what, 0) // need for what, need in shape.requests)
                for name in names
                if ledger.fits(shape, name)
            )
            room += min(fitting, count)
        return room

    def _fit_preferring(self, group: Group, within: frozenset[str] | None) -> Shortage | None:
        """Try the preferred level first; it is a wish, so failing there costs nothing."""
        if group.preferred:
            mark = self.trial.mark()
            kept = (dict(self.unfit), dict(self.failed), dict(self.extras))
            if self._fit_in_one(self._plain(group), group.preferred, within) is None:
                return None
            self.trial.undo(mark)
            self.unfit, self.failed, self.extras = kept
        return self._fit_here(group, within)

    def _plain(self, group: Group) -> Group:
        if isinstance(group, Leaf):
            return Leaf(group.name, group.pods, group.minimum, group.placed)
        return Branch(group.name, group.children, group.minimum)

    def _fit_here(self, group: Group, within: frozenset[str] | None) -> Shortage | None:
        if isinstance(group, Leaf):
            return self._fit_leaf(group, within)
        return self._fit_branch(group, within)

    def _fit_branch(self, branch: Branch, within: frozenset[str] | None) -> Shortage | None:
        done = left = 0
        first: Shortage | None = None
        for position, child in enumerate(branch.children):
            mark = self.trial.mark()
            shortage = self.fit(child, within)
            if shortage is None:
                self.failed.pop(child.name, None)
                done += 1
                continue
            self.trial.undo(mark)
            self._give_up(child, shortage)
            first = first or shortage
            left = len(branch.children) - position - 1
            if done + left < branch.minimum:
                break
        if done >= branch.minimum:
            return None
        own = Shortage(branch.name, branch.minimum, done, left)
        self.failed[branch.name] = own
        return first or own

    def _give_up(self, child: Group, shortage: Shortage) -> None:
        """The child stays out of this placement: none of its pods above the minimum may come in either."""
        self.failed.setdefault(child.name, shortage)
        for leaf in leaves(child):
            self.extras.pop(leaf.name, None)

    def _fit_leaf(self, leaf: Leaf, within: frozenset[str] | None) -> Shortage | None:
        need = max(0, leaf.minimum - len(leaf.placed))
        done = 0
        dead: dict[PodShape, Diagnosis] = {}
        why: tuple[Key, Diagnosis] | None = None
        for position, pod in enumerate(leaf.pods):
            if done >= need:
                self.extras[leaf.name] = (leaf, list(leaf.pods[position:]), within)
                return None
            if pod.shape not in dead and self.trial.place(pod.key, pod.shape, within) is not None:
                self.unfit.pop(pod.key, None)
                done += 1
                continue
            diagnosis = dead.get(pod.shape) or self.trial.ledger.diagnose(pod.shape, within)
            dead[pod.shape] = diagnosis
            self.unfit[pod.key] = diagnosis
            why = why or (pod.key, diagnosis)
            remaining = len(leaf.pods) - position - 1
            if done + remaining < need:
                return self._short(leaf, done, remaining, why)
        self.extras.pop(leaf.name, None)
        return None if done >= need else self._short(leaf, done, 0, why)

    def _short(self, leaf: Leaf, done: int, remaining: int, why: tuple[Key, Diagnosis] | None) -> Shortage:
        pod, diagnosis = why or (None, None)
        scheduled = done + len(leaf.placed)
        return Shortage(leaf.name, leaf.minimum, scheduled, remaining, pod, diagnosis)

    def place_extras(self) -> None:
        for _, pods, within in self.extras.values():
            dead: dict[PodShape, Diagnosis] = {}
            for pod in pods:
                if pod.shape not in dead:
                    if self.trial.place(pod.key, pod.shape, within) is not None:
                        self.unfit.pop(pod.key, None)
                        continue
                    dead[pod.shape] = self.trial.ledger.diagnose(pod.shape, within)
                self.unfit[pod.key] = dead[pod.shape]


def _required_pods(group: Group) -> int:
    return sum(max(0, leaf.minimum - len(leaf.placed)) for leaf in leaves(group))


def _within(shortage: Shortage, values: tuple[str, ...], keys: Keys, tried: int) -> Shortage:
    if shortage.domain:
        return shortage
    return replace(shortage, domains=tried, domain=values, keys=keys)
