"""Where pods fit: the books of all nodes, trials that can be undone, and the reasons of a failure.

Pure bookkeeping on values of `shapes`; no requests, no clock. A pod goes to the node that suits its
preferences best, then to the emptiest (ties by name), so equal states give equal placements.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from grove.embedded.actors.objects import Key
from grove.embedded.actors.schedulers.shapes import NodeFacts, PodShape

UNSCHEDULABLE_NODE = "node(s) were unschedulable"
UNTOLERATED = "node(s) had untolerated taint(s)"
AFFINITY = "node(s) didn't match Pod's node affinity/selector"
POD_AFFINITY = "node(s) didn't match pod affinity rules"
TOO_MANY_PODS = "Too many pods"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"

Heap = list[tuple[int, float, str, int]]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why one shape found no node: how many nodes said what."""

    nodes: int
    reasons: Mapping[str, int]
    hopeless: int
    """Nodes that could not take the pod even when empty."""

    @property
    def text(self) -> str:
        """The sentence of kube-scheduler."""
        listed = ", ".join(sorted(f"{count} {reason}" for reason, count in self.reasons.items()))
        if not self.nodes:
            return "no nodes available to schedule pods"
        return f"0/{self.nodes} nodes are available: {listed}."

    @property
    def preemption(self) -> str:
        """What default preemption adds, in a cluster where nobody may be preempted."""
        parts = {NOT_HELPFUL: self.hopeless, NO_VICTIMS: self.nodes - self.hopeless}
        listed = ", ".join(sorted(f"{count} {reason}" for reason, count in parts.items() if count))
        return f"preemption: 0/{self.nodes} nodes are available: {listed}."


class Ledger:
    """Nodes, and who takes how much of them. `freed` counts the changes that may make room for somebody."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeFacts] = {}
        self.freed = 0
        self._free: dict[str, dict[str, int]] = {}
        self._stamp: dict[str, int] = {}
        self._taken: dict[Key, tuple[str, PodShape]] = {}
        self._on_node: dict[str, set[Key]] = {}
        self._candidates: dict[PodShape, list[NodeFacts]] = {}

    def put_node(self, facts: NodeFacts) -> bool:
        """Add or change a node; False when nothing that matters to a scheduler changed."""
        if self.nodes.get(facts.name) == facts:
            return False
        self.nodes[facts.name] = facts
        self._recount(facts.name)
        self._candidates.clear()
        self.freed += 1
        return True

    def drop_node(self, name: str) -> None:
        if self.nodes.pop(name, None) is not None:
            self._free.pop(name, None)
            self._candidates.clear()

    def take(self, pod: Key, shape: PodShape, node: str) -> None:
        """Book a pod on a node; booking it again moves it."""
        if self._taken.get(pod) == (node, shape):
            return
        self.release(pod)
        self._taken[pod] = (node, shape)
        self._on_node.setdefault(node, set()).add(pod)
        self._add(node, shape, -1)

    def release(self, pod: Key) -> bool:
        """Give back what a pod took; False when it took nothing."""
        found = self._taken.pop(pod, None)
        if found is None:
            return False
        node, shape = found
        self._on_node[node].discard(pod)
        self._add(node, shape, 1)
        self.freed += 1
        return True

    def node_for(self, pod: Key) -> str | None:
        found = self._taken.get(pod)
        return found[0] if found else None

    def booking(self, pod: Key) -> tuple[str, PodShape] | None:
        """The node that a pod takes from, and how much."""
        return self._taken.get(pod)

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Whatever is booked and released inside is taken back at the end."""
        taken, freed = dict(self._taken), self.freed
        try:
            yield
        finally:
            for pod in [pod for pod in self._taken if pod not in taken]:
                self.release(pod)
            for pod, (node, shape) in taken.items():
                self.take(pod, shape, node)
            self.freed = freed

    def free(self, node: str) -> Mapping[str, int]:
        return self._free.get(node, {})

    def fits(self, shape: PodShape, node: str) -> bool:
        free = self._free[node]
        return all(free.get(name, 0) >= value for name, value in shape.requests)

    def candidates(self, shape: PodShape) -> list[NodeFacts]:
        """Nodes that could ever take the shape, load aside; remembered until a node changes."""
        found = self._candidates.get(shape)
        if found is None:
            found = [node for node in self.nodes.values() if _refusal(shape, node) is None]
            self._candidates[shape] = found
        return found

    def emptiness(self, shape: PodShape, node: NodeFacts) -> float:
        """Mean share that stays free of what the shape asks for: the emptiest node comes first."""
        free = self._free[node.name]
        shares = [
            (free.get(name, 0) - value) / node.allocatable[name]
            for name, value in shape.requests
            if node.allocatable.get(name)
        ]
        return sum(shares) / len(shares) if shares else 0.0

    def stamp(self, node: str) -> int:
        """Moves whenever the free amounts of the node change."""
        return self._stamp.get(node, 0)

    def overfull(self, shape: PodShape) -> Diagnosis:
        """Why no node takes one more of the shape, after each took as many as it can."""
        said = self.diagnose(shape)
        reasons = Counter(said.reasons)
        for node in self.candidates(shape):
            if self.fits(shape, node.name):
                free = self._free[node.name]
                rooms = [(free.get(name, 0) // value, name) for name, value in shape.requests if value]
                scarce = min(rooms, default=(0, "pods"))[1]
                reasons[TOO_MANY_PODS if scarce == "pods" else f"Insufficient {scarce}"] += 1
        return Diagnosis(said.nodes, reasons, said.hopeless)

    def diagnose(self, shape: PodShape, within: Collection[str] | None = None) -> Diagnosis:
        """Why the shape fits nowhere now; nodes outside `within` are not asked."""
        reasons: Counter[str] = Counter()
        hopeless = 0
        asked = [n for n in self.nodes.values() if within is None or n.name in within]
        for node in asked:
            refusal = _refusal(shape, node)
            if refusal is not None:
                reasons[refusal] += 1
                hopeless += 1
                continue
            reasons.update(self._lacks(shape, node))
            hopeless += any(node.allocatable.get(name, 0) < value for name, value in shape.requests)
        return Diagnosis(len(asked), dict(reasons), hopeless)

    def _lacks(self, shape: PodShape, node: NodeFacts) -> list[str]:
        free = self._free[node.name]
        return [
            TOO_MANY_PODS if name == "pods" else f"Insufficient {name}"
            for name, value in shape.requests
            if free.get(name, 0) < value
        ]

    def _recount(self, name: str) -> None:
        self._free[name] = dict(self.nodes[name].allocatable)
        self._stamp[name] = self._stamp.get(name, 0) + 1
        for pod in self._on_node.get(name, ()):
            self._add(name, self._taken[pod][1], -1)

    def _add(self, node: str, shape: PodShape, sign: int) -> None:
        free = self._free.get(node)
        if free is None:
            return
        for name, value in shape.requests:
            free[name] = free.get(name, 0) + sign * value
        self._stamp[node] = self._stamp.get(node, 0) + 1


def _refusal(shape: PodShape, node: NodeFacts) -> str | None:
    """The first thing about the node itself that keeps the shape away, in the real filters' order."""
    if node.unschedulable and not _tolerates_cordon(shape):
        return UNSCHEDULABLE_NODE
    if shape.untolerated(node) is not None:
        return UNTOLERATED
    if not shape.admits(node):
        return AFFINITY
    return None if shape.is_near(node) else POD_AFFINITY


def _tolerates_cordon(shape: PodShape) -> bool:
    cordon = ("node.kubernetes.io/unschedulable", "NoSchedule")
    return any(
        t.operator == "Exists" and t.key in ("", cordon[0]) and t.effect in ("", cordon[1])
        for t in shape.tolerations
    )


class Trial:
    """Tentative bookings of several pods, which end as a whole: `undo` to a mark, or keep them all.

    The bookings are in the ledger while the trial runs, so nothing else may use the ledger in between.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.placed: dict[Key, str] = {}
        self._heaps: dict[tuple[PodShape, Collection[str] | None], Heap] = {}

    def place(self, pod: Key, shape: PodShape, within: frozenset[str] | None = None) -> str | None:
        """Book the pod on the best node (of `within`); None when none has room."""
        heap = self._heap(shape, within)
        ledger = self.ledger
        while heap:
            liking, _, name, stamp = heap[0]
            if stamp != ledger.stamp(name):
                # Somebody of another shape took from this node since: look at it afresh.
                if ledger.fits(shape, name):
                    heapq.heapreplace(heap, self._entry(shape, ledger.nodes[name], liking))
                else:
                    heapq.heappop(heap)
                continue
            ledger.take(pod, shape, name)
            self.placed[pod] = name
            if ledger.fits(shape, name):
                heapq.heapreplace(heap, self._entry(shape, ledger.nodes[name], liking))
            else:
                heapq.heappop(heap)
            return name
        return None

    def mark(self) -> int:
        return len(self.placed)

    def undo(self, mark: int = 0) -> None:
        """Give back everything that was booked after the mark."""
        for pod in list(self.placed)[mark:]:
            del self.placed[pod]
            self.ledger.release(pod)
            # A trial that is taken back makes no room for anybody.
            self.ledger.freed -= 1
        self._heaps.clear()

    def _heap(self, shape: PodShape, within: frozenset[str] | None) -> Heap:
        heap = self._heaps.get((shape, within))
        if heap is None:
            ledger = self.ledger
            heap = [
                self._entry(shape, node, -shape.liking(node))
                for node in ledger.candidates(shape)
                if (within is None or node.name in within) and ledger.fits(shape, node.name)
            ]
            heapq.heapify(heap)
            self._heaps[shape, within] = heap
        return heap

    def _entry(self, shape: PodShape, node: NodeFacts, liking: int) -> tuple[int, float, str, int]:
        return liking, -self.ledger.emptiness(shape, node), node.name, self.ledger.stamp(node.name)


def domains(
    nodes: Iterable[NodeFacts], keys: tuple[str, ...], within: frozenset[str] | None = None
) -> dict[tuple[str, ...], frozenset[str]]:
    """Nodes by the values of the label keys, sorted by value; a node without one of the labels is in none."""
    found: dict[tuple[str, ...], set[str]] = {}
    for node in nodes:
        if within is not None and node.name not in within:
            continue
        values = tuple(node.labels.get(key, "") for key in keys)
        if all(values):
            found.setdefault(values, set()).add(node.name)
    return {values: frozenset(names) for values, names in sorted(found.items())}
