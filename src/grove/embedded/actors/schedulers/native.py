"""kube-scheduler with gang scheduling, as Kubernetes 1.35, 1.36 or 1.37 does it.

Schedules the pods of `default-scheduler`: plain ones one by one, members of a Workload, PodGroup or
CompositePodGroup by the rules of the chosen minor (`native_rules`). Gated pods are never placed. What is more
urgent preempts: a pod for itself, in 1.36 and 1.37 a group for the whole of it. There a group or tree that
asks for it goes as a whole too.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

from grove.embedded.actors.mirror import Mirrors
from grove.embedded.actors.objects import (
    Key,
    condition,
    is_deleting,
    is_gated,
    key_of,
    node_of,
    priority_of,
)
from grove.embedded.actors.schedulers.desk import UNSCHEDULABLE, Outcome
from grove.embedded.actors.schedulers.native_rules import (
    COMPOSITES,
    PODGROUPS_136,
    PODGROUPS_137,
    WORKLOADS,
    GroupCycle,
    Node,
    Permit,
    TreeCycle,
    decide_pod,
    gang_minimum,
)
from grove.embedded.actors.schedulers.preemption import single
from grove.embedded.actors.schedulers.sessions import DecidingScheduler, SessionOptions, is_member
from grove.embedded.actors.schedulers.simulator import Actor, Simulator, Surroundings
from grove.embedded.clock import Clock
from grove.embedded.errors import Manifest
from grove.embedded.local import ActorClient

NAME = "default-scheduler"

Entity = tuple[str, ...]
"""What is scheduled as one: ("pod"|"group"|"tree", namespace, name); a 1.35 group's name has three parts."""


@dataclass(frozen=True, slots=True)
class NativeOptions(SessionOptions):
    permit_seconds: float = 300.0
    """1.35: how long a part of a gang may hold nodes."""
    backoff_seconds: float = 1.0
    """Who preempted, and in 1.37 any unschedulable group, is not tried again before so long."""


class NativeScheduler(DecidingScheduler[Entity, Outcome]):
    """Runs until cancelled; `minor` is "1.35", "1.36" or "1.37"."""

    name = NAME

    def __init__(
        self,
        client: ActorClient,
        clock: Clock,
        *,
        minor: str = "1.36",
        mirrors: Mirrors | None = None,
        options: NativeOptions | None = None,
    ) -> None:
        if minor not in ("1.35", "1.36", "1.37"):
            raise ValueError(f"no gang scheduling of Kubernetes {minor} is known; choose 1.35, 1.36 or 1.37")
        self._minor = minor
        self._options = options or NativeOptions()
        super().__init__(client, clock, mirrors=mirrors, options=self._options)
        self._permit = Permit(self._desk)
        self._members: dict[Entity, dict[Key, None]] = {}
        self._gated: dict[Entity, set[Key]] = {}
        self._children: dict[Key, dict[tuple[str, str], None]] = {}
        self._expired: list[tuple[Entity, Outcome]] = []
        self._preemptors: set[Entity] = set()

    async def _open(self) -> None:
        await self._follow_groups()
        await super()._open()

    async def _follow_groups(self) -> None:
        if self._minor == "1.35":
            self._workloads = self._mirrors.of(WORKLOADS)
            self._workloads.subscribe(self._workload_changed)
            await self._mirrors.synced(WORKLOADS)
            return
        resource = PODGROUPS_136 if self._minor == "1.36" else PODGROUPS_137
        self._groups = self._mirrors.of(resource)
        if self._minor == "1.37":
            # Whoever is told of a group asks for its composite: both are there before either is followed.
            self._composites = self._mirrors.of(COMPOSITES)
            self._composites.subscribe(self._composite_changed)
            await self._mirrors.synced(COMPOSITES)
        self._groups.subscribe(self._group_changed)
        await self._mirrors.synced(resource)

    # What wakes whom

    def _pod_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        pod = new or old
        assert pod is not None
        if pod["spec"].get("schedulerName", NAME) != NAME:
            return
        entity = self._entity(pod)
        self._count(entity, key_of(pod), new)
        if new is not None and node_of(new):
            return
        # Our own status writes come back as changes too; only a new demand is worth a look.
        if old is None or new is None or old["spec"] != new["spec"] or is_deleting(new) != is_deleting(old):
            self._activate(self._root(entity))

    def _count(self, entity: Entity, key: Key, pod: Manifest | None) -> None:
        members = self._members.setdefault(entity, {})
        gated = self._gated.setdefault(entity, set())
        gated.discard(key)
        if pod is not None and is_member(pod):
            members[key] = None
            if is_gated(pod):
                gated.add(key)
            return
        members.pop(key, None)
        if not members:
            del self._members[entity], self._gated[entity]

    def _workload_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if new is None:
            return
        namespace, name = key_of(new)
        for group in (new.get("spec") or {}).get("podGroups") or ():
            for entity in [e for e in self._members if e[:4] == ("group", namespace, name, group["name"])]:
                self._activate(entity)

    def _group_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        self._link(old, new, "PodGroup")
        if new is not None and (old is None or old.get("spec") != new.get("spec")):
            self._activate(self._root(("group", *key_of(new))))

    def _composite_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        self._link(old, new, "CompositePodGroup")
        if new is not None and (old is None or old.get("spec") != new.get("spec")):
            self._activate(self._root(("tree", *key_of(new))))

    def _link(self, old: Manifest | None, new: Manifest | None, kind: str) -> None:
        for obj, present in ((old, False), (new, True)):
            parent = ((obj or {}).get("spec") or {}).get("parentCompositePodGroupName")
            if obj is None or not parent:
                continue
            namespace, name = key_of(obj)
            children = self._children.setdefault((namespace, parent), {})
            if present:
                children[kind, name] = None
            else:
                children.pop((kind, name), None)

    def _room(self) -> None:
        """A node came or grew, or a pod went: whoever waited may fit now."""
        loop = asyncio.get_running_loop()
        for entity, tried in list(self._parked.items()):
            rest = tried + self._options.backoff_seconds - loop.time()
            # 1.37 has no event that wakes a group: it is tried again when its backoff ends.
            backs_off = entity in self._preemptors or (self._minor == "1.37" and entity[0] != "pod")
            if backs_off and rest > 0:
                self._retry(entity, rest)
            else:
                self._activate(entity)

    # Whose pods belong together

    def _entity(self, pod: Manifest) -> Entity:
        namespace, name = key_of(pod)
        spec = pod["spec"]
        if self._minor == "1.35":
            link = spec.get("workloadRef")
            if link:
                replica = link.get("podGroupReplicaKey") or ""
                return "group", namespace, link["name"], link["podGroup"], replica
        else:
            group = (spec.get("schedulingGroup") or {}).get("podGroupName")
            if group:
                return "group", namespace, group
        return "pod", namespace, name

    def _root(self, entity: Entity) -> Entity:
        """The entity that decides for this one: in 1.37 the top of its tree, as far as it is known."""
        if self._minor != "1.37" or entity[0] == "pod":
            return entity
        return list(self._line(entity))[-1][0]

    def _line(self, entity: Entity) -> Iterator[tuple[Entity, Manifest]]:
        """A group and what is above it, from the bottom to the top, each with its spec if that is known."""
        seen: set[Entity] = set()
        while entity not in seen:
            seen.add(entity)
            namespace, name = entity[1], entity[2]
            source = self._groups if entity[0] == "group" else self._composites
            spec = (source.get((namespace, name)) or {}).get("spec") or {}
            yield entity, spec
            parent = spec.get("parentCompositePodGroupName")
            if not parent:
                return
            entity = ("tree", namespace, parent)

    def _unit(self, pod: Manifest) -> tuple[Hashable, int]:
        """What is preempted with a pod: the highest group above it that goes as a whole, or the pod."""
        entity = self._entity(pod)
        unit = single(pod)
        if self._minor == "1.35" or entity[0] == "pod":
            return unit
        for above, spec in self._line(entity):
            mode = spec.get("disruptionMode") or ""
            if mode == "PodGroup" or "all" in mode:
                unit = above, int(spec.get("priority") or 0)
        return unit

    def _mates(self, pod: Manifest) -> list[Manifest]:
        """The pod and all that are preempted with it."""
        unit = self._unit(pod)
        if unit == single(pod):
            return [pod]
        return [each for each in self._desk.pods if node_of(each) and self._unit(each) == unit]

    def _pods(self, entity: Entity) -> list[Manifest]:
        """The members, as they will be once the binds in flight have arrived."""
        found = (self._desk.pods.get(key) for key in self._members.get(entity, ()))
        held = self._permit.held.get(entity[1:], {})
        return [pod if key_of(pod) in held else self._desk.as_bound(pod) for pod in found if pod is not None]

    def _node(self, entity: Entity) -> Node | None:
        """The tree under a root, or None while one of its objects is missing."""
        if entity[0] == "group":
            group = self._groups.get((entity[1], entity[2]))
            return None if group is None else Node(group, tuple(self._pods(entity)))
        composite = self._composites.get((entity[1], entity[2]))
        if composite is None:
            return None
        children: list[Node] = []
        for kind, name in sorted(self._children.get((entity[1], entity[2]), ())):
            child = self._node(("group" if kind == "PodGroup" else "tree", entity[1], name))
            if child is not None:
                children.append(child)
        return Node(composite, children=tuple(children))

    # Deciding

    async def _cycle(self) -> None:
        while self._active or self._expired:
            expired, self._expired = self._expired, []
            for entity, refused in expired:
                await self._write(entity, refused)
                self._retry(entity, self._options.backoff_seconds)
            await self._pass()

    def _rank(self, entity: Entity) -> tuple[int, str, Entity]:
        first = self._first_pod(entity)
        if first is None:
            return 0, "", entity
        return -priority_of(first), first["metadata"].get("creationTimestamp") or "", entity

    def _first_pod(self, entity: Entity) -> Manifest | None:
        """A pod that speaks for the entity's priority and age; members of a group share them."""
        for source in (entity, *self._leaf_entities(entity)):
            for key in self._members.get(source, ()):
                pod = self._desk.pods.get(key)
                if pod is not None:
                    return pod
        return None

    def _leaf_entities(self, entity: Entity) -> Iterable[Entity]:
        if entity[0] != "tree":
            return
        for kind, name in self._children.get((entity[1], entity[2]), ()):
            if kind == "PodGroup":
                yield "group", entity[1], name
            else:
                yield from self._leaf_entities(("tree", entity[1], name))

    def _hopeless(self, entity: Entity) -> bool:
        """Cheap look before the real one: pods of a large gang come, and lose their gates, one by one."""
        if entity[0] == "pod":
            return False
        if self._minor == "1.35":
            workload = self._workloads.get((entity[1], entity[2]))
            return len(self._members.get(entity, ())) < self._permit.minimum(entity[1:], workload)
        gated = self._gated.get(entity, ())
        if self._minor == "1.37" and (gated or any(self._gated.get(e) for e in self._leaf_entities(entity))):
            return True
        if entity[0] == "tree":
            return False
        group = self._groups.get((entity[1], entity[2]))
        minimum = gang_minimum((group or {}).get("spec") or {})
        members = len(self._members.get(entity, ()))
        if group is None or minimum is None:
            return group is None
        told = condition(group, "PodGroupScheduled").get("reason") == UNSCHEDULABLE
        return members < minimum or (told and members - len(gated) < minimum)

    def _decide(self, entity: Entity) -> Outcome | None:
        outcome = self._look(entity)
        if outcome is None or not outcome.waits:
            self._preemptors.discard(entity)
            return outcome
        self._park(entity)
        if outcome.victims:
            self._preemptors.add(entity)
        return outcome

    def _look(self, entity: Entity) -> Outcome | None:
        if self._hopeless(entity):
            return None
        outcome: Outcome | None
        root = self._root(entity)
        if root != entity:
            # Its group object came after the pod: now it is known who decides.
            self._activate(root)
            return None
        if entity[0] == "pod":
            outcome = self._decide_pod((entity[1], entity[2]))
        elif self._minor == "1.35":
            workload = self._workloads.get((entity[1], entity[2]))
            outcome = self._permit.decide(entity[1:], self._pods(entity), workload)
            self._watch_permit(entity)
            if outcome.again:
                self._activate(entity)
        elif self._minor == "1.36":
            group = self._groups.get((entity[1], entity[2]))
            outcome = GroupCycle(self._desk, self._unit).decide(group, self._pods(entity))
        else:
            node = self._node(entity)
            outcome = TreeCycle(self._desk, self._unit).decide(node) if node else None
        return outcome

    def _decide_pod(self, key: Key) -> Outcome | None:
        pod = self._desk.pods.get(key)
        if pod is None or self._desk.ledger.node_for(key) or node_of(pod):
            return None
        return None if is_gated(pod) or is_deleting(pod) else decide_pod(self._desk, pod, self._mates)

    # Writing

    async def _write(self, entity: Entity, outcome: Outcome) -> None:
        lost = await self._desk.write(outcome)
        if lost:
            self._retry(entity, self._options.backoff_seconds)

    def _watch_permit(self, entity: Entity) -> None:
        """Keep the gang's shared deadline, which starts with its first waiting pod."""
        if self._permit.held.get(entity[1:]):
            over = functools.partial(self._permit_over, entity)
            self._later(("permit", entity), self._options.permit_seconds, over)
        else:
            self._never(("permit", entity))

    def _permit_over(self, entity: Entity) -> None:
        minutes, rest = divmod(int(self._options.permit_seconds), 60)
        outcome = self._permit.expire(entity[1:], self._pods(entity), f"{minutes}m{rest}s")
        self._expired.append((entity, outcome))
        # The gang itself backs off first, so that others can use what it gave back.
        self._parked.pop(entity, None)
        self._room()
        self._wake.set()


def _actors(around: Surroundings) -> dict[str, Actor]:
    client = around.client("scheduler")
    return {"scheduler": NativeScheduler(client, around.clock, minor=around.minor, mirrors=around.mirrors)}


SIMULATOR = Simulator(_actors)
