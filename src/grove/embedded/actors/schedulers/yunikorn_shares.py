"""What YuniKorn (1.8) says in events about a request that it does not place, and the shares of queues. Pure.

All nodes together are the share of the root, so that a full cluster is a share that is used up. About a node
without room it says nothing; about one with room it says what the node holds against the pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from grove.embedded.actors.schedulers.placement import AFFINITY, UNTOLERATED, Ledger
from grove.embedded.actors.schedulers.shapes import NodeFacts, PodShape
from grove.embedded.actors.schedulers.yunikorn_rules import shown

#: The reason of the events.
INFORMATIONAL = "Informational"


@dataclass(slots=True)
class Share:
    """What a queue has left: of all nodes together, and of what it and those above it may hold."""

    queue: str
    nodes: dict[str, int]
    configured: dict[str, int]

    def has(self, shape: PodShape) -> bool:
        # A resource that no node has is nobody's limit.
        return _covers(self.nodes, shape) and self.allows(shape)

    def allows(self, shape: PodShape) -> bool:
        """Whether only the nodes are in the way, if anything is."""
        return _covers(self.configured, shape)

    def take(self, shape: PodShape) -> None:
        for left in (self.nodes, self.configured):
            for name, value in shape.requests:
                if name in left:
                    left[name] -= value

    def refusal(self, uid: str, shape: PodShape) -> str:
        least = {name: min(value, self.nodes.get(name, value)) for name, value in self.configured.items()}
        asked, left = shown(shape.demand), shown({**self.nodes, **least})
        return f"Request '{uid}' does not fit in queue '{self.queue}' (requested {asked}, available {left})"

    def relief(self, uid: str) -> str:
        return f"Request '{uid}' has become schedulable in queue '{self.queue}'"


def _covers(left: Mapping[str, int], shape: PodShape) -> bool:
    return all(left.get(name, value) >= value for name, value in shape.requests)


def refusals(uid: str, shape: PodShape, ledger: Ledger) -> str:
    """What the nodes with room hold against a pod; empty when there is none with room."""
    said: Counter[str] = Counter(
        _refusal(shape, node)
        for node in ledger.nodes.values()
        if not node.unschedulable and ledger.fits(shape, node.name)
    )
    listed = "".join(f"{text} ({count}x); " for text, count in sorted(said.items()))
    return f"Unschedulable request '{uid}': {listed}" if listed else ""


def _refusal(shape: PodShape, node: NodeFacts) -> str:
    if shape.untolerated(node) is not None:
        return f"failed plugin: 'TaintToleration'\n{UNTOLERATED}"
    return f"failed plugin: 'NodeAffinity'\n{AFFINITY}"


def free_of(ledger: Ledger) -> dict[str, int]:
    """What all nodes together have left."""
    free: Counter[str] = Counter()
    for node in ledger.nodes:
        free.update(ledger.free(node))
    return dict(free)


def left_of(limits: Mapping[str, Mapping[str, int]], used: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """What is left within all limits, by the path of the queue that has one."""
    left: dict[str, int] = {}
    for path, most in limits.items():
        for name, value in most.items():
            rest = value - used[path].get(name, 0)
            left[name] = min(rest, left.get(name, rest))
    return left
