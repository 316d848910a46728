"""What every simulated scheduler shares: the books of the cluster and the writes of a decision.

Follows nodes and pods into a `Ledger`, binds and evicts pods, and says on pods why they wait. It decides
nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from grove.embedded.actors.events import EventWriter
from grove.embedded.actors.mirror import Mirrors
from grove.embedded.actors.objects import (
    NODES,
    PODS,
    STRATEGIC,
    Key,
    Resource,
    is_deleting,
    is_terminal,
    key_of,
    node_of,
    priority_of,
    same_condition,
    uid_of,
)
from grove.embedded.actors.schedulers.placement import Ledger
from grove.embedded.actors.schedulers.shapes import (
    AffinityTerm,
    Expression,
    PodShape,
    node_facts,
    pod_shape,
    required_neighbours,
)
from grove.embedded.clock import Clock, rfc3339
from grove.embedded.errors import ApiError, Manifest
from grove.embedded.local import ActorClient

IN_FLIGHT = 16
Step = Callable[[], Awaitable[None]]
UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A pod that stays pending, and the sentence about it."""

    pod: Manifest
    message: str
    reason: str = UNSCHEDULABLE


@dataclass(slots=True)
class Outcome:
    """All that one decision wants written."""

    binds: list[tuple[Manifest, str]] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    conditions: list[tuple[Resource, Manifest, Manifest]] = field(default_factory=list)
    """(resource, object, condition) for built-in kinds."""
    nominations: list[tuple[Manifest, str]] = field(default_factory=list)
    victims: list[tuple[Manifest, Manifest]] = field(default_factory=list)
    """(pod to evict, pod for which it goes)."""
    waits: bool = False
    """Something is left to schedule: try again when room appears."""
    again: bool = False
    """Something is left to schedule that was not tried yet: its turn comes after that of others."""


async def run_all(steps: Iterable[Step], limit: int = IN_FLIGHT) -> None:
    """Call and await all steps, in order, at most `limit` at a time.

    Each is called when its turn comes: whoever is stopped before leaves nothing behind that was begun.
    """
    pending = list(steps)
    if len(pending) == 1:
        await pending[0]()
        return
    gate = asyncio.Semaphore(limit)

    async def one(step: Step) -> None:
        async with gate:
            await step()

    await asyncio.gather(*(one(step) for step in pending))


class Desk:
    """One scheduler's view of nodes and pods, and its pen."""

    def __init__(
        self,
        client: ActorClient,
        clock: Clock,
        *,
        name: str,
        mirrors: Mirrors,
        tell_bound: bool = True,
        refused: str = "FailedScheduling",
    ) -> None:
        self.client = client
        self.clock = clock
        self.name = name
        self.mirrors = mirrors
        self.ledger = Ledger()
        self.events = EventWriter(client, clock, name)
        self.on_room: Callable[[], None] = lambda: None
        self.on_pod: Callable[[Manifest | None, Manifest | None], None] = lambda old, new: None
        self._tell_bound = tell_bound
        self._refused = refused
        self.evicting: set[Key] = set()
        """Pods that this scheduler evicted and that are still there."""
        self._priorities: Counter[int] = Counter()
        self._shapes: dict[Key, tuple[Manifest, PodShape]] = {}
        self._known: dict[PodShape, PodShape] = {}

    async def open(self) -> None:
        """Start following nodes and pods; returns when both are complete."""
        self.pods = self.mirrors.of(PODS)
        self.nodes = self.mirrors.of(NODES)
        self.nodes.subscribe(self._node_changed)
        self.pods.subscribe(self._pod_changed)
        await self.mirrors.synced(NODES, PODS)

    def close(self) -> None:
        self.nodes.unsubscribe(self._node_changed)
        self.pods.unsubscribe(self._pod_changed)

    def shape(self, pod: Manifest) -> PodShape:
        """The pod's shape; equal shapes are the same value, which makes comparing them cheap."""
        key = key_of(pod)
        found = self._shapes.get(key)
        if found is None or found[0] is not pod:
            shape = pod_shape(pod)
            found = (pod, self._known.setdefault(shape, shape))
            self._shapes[key] = found
        neighbours = required_neighbours(pod) if not node_of(pod) else []
        # Where the neighbours are changes while the pod does not, so that this is not remembered.
        return replace(found[1], near=self._near(pod, neighbours)) if neighbours else found[1]

    def _near(self, pod: Manifest, neighbours: Sequence[AffinityTerm]) -> tuple[Expression, ...]:
        """The values of node labels that a pod's required affinity allows, by the pods that have nodes.

        A pod that would be the first of those it asks for may go anywhere.
        """
        found = []
        for term in neighbours:
            there = [self.as_bound(each) for each in self.pods if term.selects(each)]
            nodes = {node_of(each) for each in there if node_of(each) and not is_terminal(each)}
            labels = (self.ledger.nodes[name].labels for name in nodes if name in self.ledger.nodes)
            values = tuple(sorted({each[term.key] for each in labels if term.key in each}))
            if nodes or not term.selects(pod):
                found.append(Expression(term.key, "In", values))
        return tuple(found)

    def stored(self, pod: Manifest) -> Manifest:
        """The pod as the server last told it: what `shape` remembers it by."""
        return self.pods.get(key_of(pod)) or pod

    def as_bound(self, pod: Manifest) -> Manifest:
        """The pod as it will be once its bind has arrived."""
        booked = self.ledger.node_for(key_of(pod))
        if booked is None or node_of(pod):
            return pod
        return {**pod, "spec": {**pod["spec"], "nodeName": booked}}

    def outranks(self, priority: int) -> bool:
        """Whether any pod on a node has a lower priority: the cheap look before the search for victims."""
        return any(lower < priority for lower in self._priorities)

    def _count_priority(self, pod: Manifest | None, step: int) -> None:
        if pod is None or not node_of(pod) or is_terminal(pod):
            return
        priority = priority_of(pod)
        self._priorities[priority] += step
        if not self._priorities[priority]:
            del self._priorities[priority]

    def _node_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if new is None:
            assert old is not None
            self.ledger.drop_node(old["metadata"]["name"])
        elif self.ledger.put_node(node_facts(new)):
            self.on_room()

    def _pod_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        freed = False
        self._count_priority(old, -1)
        self._count_priority(new, 1)
        if new is None or is_terminal(new):
            key = key_of(new or old or {})
            self.evicting.discard(key)
            freed = self.ledger.release(key)
            if new is None:
                self._shapes.pop(key, None)
        elif node_of(new):
            self.ledger.take(key_of(new), self.shape(new), node_of(new))
        self.on_pod(old, new)
        if freed:
            self.on_room()

    def evict(self, outcome: Outcome, victims: Iterable[tuple[Manifest, Manifest]]) -> None:
        """Decide that pods go; from now on they count as leaving, so that nobody chooses others instead."""
        for victim, urgent in victims:
            if key_of(victim) not in self.evicting and not is_deleting(victim):
                self.evicting.add(key_of(victim))
                outcome.victims.append((victim, urgent))

    async def write(self, outcome: Outcome) -> list[Key]:
        """Write a decision; the keys of pods that could not be bound."""
        lost: list[Key] = []
        await run_all([partial(self._condition, *each) for each in outcome.conditions])
        await run_all([partial(self._bind, pod, node, lost) for pod, node in outcome.binds])
        await run_all([partial(self._nominate, pod, node) for pod, node in outcome.nominations])
        await run_all([partial(self._refuse, refusal) for refusal in outcome.refusals])
        await run_all([partial(self._evict, victim, urgent, lost) for victim, urgent in outcome.victims])
        return lost

    async def _evict(self, victim: Manifest, urgent: Manifest, lost: list[Key]) -> None:
        """Mark the pod as preempted, then delete it with its grace period."""
        text = f"{self.name}: preempting to accommodate a higher priority pod"
        target = self._stamped("DisruptionTarget", "True", "PreemptionByScheduler", text)
        await self.patch_status(PODS, victim, {"conditions": [target]})
        try:
            await self.client.delete(PODS.path(key_of(victim)), {"preconditions": {"uid": uid_of(victim)}})
        except (ApiError, OSError, TimeoutError):
            self.evicting.discard(key_of(victim))
            lost.append(key_of(urgent))
            return
        by = f"Preempted by pod {uid_of(urgent)} on node {node_of(victim)}"
        await self.events.write(victim, "Preempted", by)

    async def _bind(self, pod: Manifest, node: str, lost: list[Key]) -> None:
        namespace, name = key_of(pod)
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": namespace, "name": name, "uid": uid_of(pod)},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self.client.create(PODS.path((namespace, name), "binding"), binding)
        except (ApiError, OSError, TimeoutError):
            current = self.pods.get((namespace, name))
            if current is None or not node_of(current):
                self.ledger.release((namespace, name))
                lost.append((namespace, name))
            return
        if self._tell_bound:
            text = f"Successfully assigned {namespace}/{name} to {node}"
            await self.events.write(pod, "Scheduled", text)

    async def _refuse(self, refusal: Refusal) -> None:
        pod = self.pods.get(key_of(refusal.pod))
        if pod is None or uid_of(pod) != uid_of(refusal.pod) or node_of(pod):
            return
        wanted = self._stamped("PodScheduled", "False", refusal.reason, refusal.message)
        if same_condition(pod, wanted):
            return
        await self.patch_status(PODS, pod, {"conditions": [wanted]})
        await self.events.write(pod, self._refused, refusal.message, kind="Warning")

    async def _nominate(self, pod: Manifest, node: str) -> None:
        status = pod.get("status") or {}
        if (status.get("nominatedNodeName") or "") != node:
            await self.patch_status(PODS, pod, {"nominatedNodeName": node or None})

    async def _condition(self, resource: Resource, obj: Manifest, wanted: Manifest) -> None:
        if not same_condition(obj, wanted):
            stamped = self._stamped(wanted["type"], wanted["status"], wanted["reason"], wanted["message"])
            await self.patch_status(resource, obj, {"conditions": [stamped]})

    def _stamped(self, kind: str, status: str, reason: str, message: str) -> Manifest:
        now = rfc3339(self.clock.now())
        return {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": now,
        }

    async def patch_status(
        self, resource: Resource, obj: Manifest, status: Manifest, *, content_type: str = STRATEGIC
    ) -> None:
        """Patch one status; that the object changed or went away meanwhile is no error here."""
        patch = {"metadata": {"uid": uid_of(obj)}, "status": status}
        try:
            path = resource.path(key_of(obj), "status")
            await self.client.patch(path, patch, content_type=content_type)
        except (ApiError, OSError, TimeoutError):
            return
