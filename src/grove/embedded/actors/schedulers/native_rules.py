"""How kube-scheduler decides about one group, per Kubernetes minor, in its own words.

Each class answers for one minor what happens to a group of pods whose members are given: hold it silently,
place it whole, or say why not. Bookings go to the ledger through a trial; nothing is written to the API here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from grove.embedded.actors.objects import (
    Key,
    Resource,
    condition,
    is_gated,
    key_of,
    node_of,
    priority_of,
)
from grove.embedded.actors.schedulers.desk import SCHEDULER_ERROR, UNSCHEDULABLE, Desk, Outcome, Refusal
from grove.embedded.actors.schedulers.gangs import Branch, Candidate, Group, Leaf, Shortage, Verdict, attempt
from grove.embedded.actors.schedulers.placement import Diagnosis, Trial
from grove.embedded.actors.schedulers.preemption import (
    Mates,
    Owner,
    evict_for_group,
    evict_for_pods,
    single,
)
from grove.embedded.errors import Manifest

WORKLOADS = Resource("scheduling.k8s.io", "v1alpha1", "workloads", kind="Workload")
PODGROUPS_136 = Resource("scheduling.k8s.io", "v1alpha2", "podgroups", kind="PodGroup")
PODGROUPS_137 = Resource("scheduling.k8s.io", "v1beta1", "podgroups", kind="PodGroup")
COMPOSITES = Resource("scheduling.k8s.io", "v1alpha3", "compositepodgroups", kind="CompositePodGroup")

NO_CLAIMS = "no new claims to deallocate"
WAP = "preemption: not eligible due to workload aware preemption enabled"
NO_VICTIMS = "No preemption victims found for incoming preemptor"
GROUP_UNSCHEDULABLE = "pod group is unschedulable"
ADMITTED = "All required pods have been scheduled"

Members = Callable[[str, str], Sequence[Manifest]]
"""(namespace, pod group) -> its live pods."""


def in_order(pods: Iterable[Manifest]) -> list[Manifest]:
    """Higher priority first, then the older, then by name."""
    return sorted(
        pods,
        key=lambda pod: (
            -priority_of(pod),
            pod["metadata"].get("creationTimestamp") or "",
            pod["metadata"]["name"],
        ),
    )


def waiting_pods(pods: Iterable[Manifest]) -> list[Manifest]:
    return in_order(pod for pod in pods if not node_of(pod) and not is_gated(pod))


def placed_nodes(pods: Iterable[Manifest]) -> tuple[str, ...]:
    return tuple(node_of(pod) for pod in pods if node_of(pod))


def gang_minimum(spec: Manifest) -> int | None:
    """minCount of a gang policy; None for the basic policy."""
    gang = (spec.get("schedulingPolicy") or {}).get("gang")
    return int(gang.get("minCount") or 1) if gang else None


def topology_key(spec: Manifest) -> tuple[str, ...]:
    """The one hard topology key; the API sends null lists too."""
    terms = (spec.get("schedulingConstraints") or {}).get("topology") or ()
    return tuple(term["key"] for term in terms[:1])


def decide_pod(desk: Desk, pod: Manifest, mates: Mates) -> Outcome:
    """A pod without a group: placed alone, or told why not; `mates` go with a pod that it preempts."""
    outcome = Outcome()
    shape = desk.shape(pod)
    node = Trial(desk.ledger).place(key_of(pod), shape)
    if node is not None:
        outcome.binds.append((pod, node))
    else:
        diagnosis = desk.ledger.diagnose(shape)
        evict_for_pods(desk, outcome, [pod], mates=mates)
        outcome.refusals.append(Refusal(pod, lone_text(diagnosis, preempts=bool(outcome.victims))))
        outcome.waits = True
    return outcome


def lone_text(diagnosis: Diagnosis, *, preempts: bool = False) -> str:
    if not diagnosis.nodes or preempts:
        return diagnosis.text
    return f"{diagnosis.text} {NO_CLAIMS}, {diagnosis.preemption}"


class Permit:
    """Kubernetes 1.35: pods are placed one by one and wait at Permit until the gang is complete."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.held: dict[tuple[str, ...], dict[Key, str]] = {}
        """Gang -> pods that wait at Permit, with the node that is kept for each."""

    def decide(self, gang: tuple[str, ...], pods: Sequence[Manifest], workload: Manifest | None) -> Outcome:
        outcome = Outcome()
        minimum = self.minimum(gang, workload)
        if self._policy(gang, workload) is None or len(pods) < minimum:
            return outcome
        held = self.held.setdefault(gang, {})
        self._forget_gone(held, pods)
        trial = Trial(self._desk.ledger)
        unfit: list[Manifest] = []
        candidates = iter(waiting_pods(pod for pod in pods if key_of(pod) not in held))
        for pod in candidates:
            node = trial.place(key_of(pod), self._desk.shape(pod))
            if node is not None:
                held[key_of(pod)] = node
                # Pods of all gangs stand in one queue: those of another one may come before the next.
                outcome.again = any(candidates)
                break
            unfit.append(pod)
        evict_for_pods(self._desk, outcome, unfit)
        helped = {key_of(pod) for _, pod in outcome.victims}
        for pod in unfit:
            diagnosis = self._desk.ledger.diagnose(self._desk.shape(pod))
            text = lone_text(diagnosis, preempts=key_of(pod) in helped)
            outcome.refusals.append(Refusal(pod, text))
        outcome.waits = bool(unfit) and not outcome.again
        self._release_if_whole(held, pods, minimum, outcome)
        return outcome

    def minimum(self, gang: tuple[str, ...], workload: Manifest | None) -> int:
        """minCount of the gang; 0 for the basic policy and for a gang that no Workload describes yet."""
        policy = (self._policy(gang, workload) or {}).get("gang")
        return int(policy.get("minCount") or 1) if policy else 0

    def expire(self, gang: tuple[str, ...], pods: Sequence[Manifest], after: str) -> Outcome:
        """The shared deadline passed: every pod that still waits gives its node back."""
        outcome = Outcome(waits=True)
        held = self.held.pop(gang, {})
        text = f"rejected due to timeout after waiting {after} at plugin GangScheduling"
        for pod in pods:
            if key_of(pod) in held and not node_of(pod):
                self._desk.ledger.release(key_of(pod))
                outcome.refusals.append(Refusal(pod, text))
                outcome.nominations.append((pod, ""))
        return outcome

    def _release_if_whole(
        self, held: dict[Key, str], pods: Sequence[Manifest], minimum: int, outcome: Outcome
    ) -> None:
        by_key = {key_of(pod): pod for pod in pods}
        if len(held) + len(placed_nodes(pods)) >= minimum:
            outcome.binds.extend((by_key[key], node) for key, node in held.items())
            held.clear()
        else:
            outcome.nominations.extend((by_key[key], node) for key, node in held.items())

    def _forget_gone(self, held: dict[Key, str], pods: Sequence[Manifest]) -> None:
        alive = {key_of(pod) for pod in pods if not node_of(pod)}
        for key in [key for key in held if key not in alive]:
            del held[key]

    def _policy(self, gang: tuple[str, ...], workload: Manifest | None) -> Manifest | None:
        for group in ((workload or {}).get("spec") or {}).get("podGroups") or ():
            if group.get("name") == gang[2]:
                return group.get("policy") or {}
        return None


@dataclass(slots=True)
class GroupCycle:
    """Kubernetes 1.36: all ungated pods of a PodGroup are tried together against one picture."""

    desk: Desk
    owner: Owner = single
    """What is preempted as one."""

    def decide(self, group: Manifest | None, pods: Sequence[Manifest]) -> Outcome:
        outcome = Outcome()
        if group is None:
            return outcome
        spec = group.get("spec") or {}
        gang = gang_minimum(spec)
        candidates = waiting_pods(pods)
        if not candidates or (gang is not None and len(pods) < gang):
            return outcome
        placed = placed_nodes(pods)
        minimum = gang if gang is not None else min(1, len(candidates) if not placed else 0)
        outcome.waits = True
        if len(candidates) + len(placed) < minimum:
            # The rest is gated: the cycle cannot reach the quorum, whatever fits.
            self._tell_group(outcome, group, Shortage(group["metadata"]["name"], minimum, len(placed), 0))
            return outcome
        leaf = _leaf(self.desk, group, candidates, minimum=minimum, placed=placed)
        verdict = attempt(Trial(self.desk.ledger), leaf)
        if verdict.shortage is not None and not leaf.required:
            # A group with a topology constraint never preempts in 1.36.
            evict_for_group(self.desk, outcome, leaf, candidates, owner=self.owner)
        self._tell(outcome, group, candidates, verdict)
        return outcome

    def _tell(
        self, outcome: Outcome, group: Manifest, candidates: Sequence[Manifest], verdict: Verdict
    ) -> None:
        by_shape = {
            self.desk.shape(pod): verdict.unfit[key_of(pod)]
            for pod in candidates
            if key_of(pod) in verdict.unfit
        }
        if verdict.shortage is None:
            _bind(outcome, candidates, verdict)
            admitted = _condition("PodGroupScheduled", "True", "Scheduled", ADMITTED)
            outcome.conditions.append((PODGROUPS_136, group, admitted))
            outcome.waits = bool(verdict.unfit)
        else:
            self._tell_group(outcome, group, verdict.shortage)
        for pod in candidates:
            if key_of(pod) in verdict.placed:
                continue
            diagnosis = verdict.unfit.get(key_of(pod)) or by_shape.get(self.desk.shape(pod))
            text = f"{diagnosis.text} {NO_CLAIMS}, {WAP}" if diagnosis else GROUP_UNSCHEDULABLE
            outcome.refusals.append(Refusal(pod, text))

    def _tell_group(self, outcome: Outcome, group: Manifest, shortage: Shortage) -> None:
        if condition(group, "PodGroupScheduled").get("status") == "True":
            return
        if shortage.keys and not shortage.domains:
            text = "no feasible placements found"
        else:
            text = f"0/{shortage.domains or 1} placements are available, first placement status: "
            silent = shortage.keys or outcome.victims
            text += GROUP_UNSCHEDULABLE if silent else f"{GROUP_UNSCHEDULABLE}, {NO_VICTIMS}"
        refused = _condition("PodGroupScheduled", "False", UNSCHEDULABLE, text)
        outcome.conditions.append((PODGROUPS_136, group, refused))


@dataclass(frozen=True, slots=True)
class Node:
    """One group object of a 1.37 hierarchy with what belongs to it."""

    group: Manifest
    pods: tuple[Manifest, ...] = ()
    children: tuple[Node, ...] = ()

    def leaves(self) -> list[Node]:
        if self.group.get("kind") != "CompositePodGroup":
            return [self]
        return [leaf for child in self.children for leaf in child.leaves()]

    @property
    def name(self) -> str:
        return str(self.group["metadata"]["name"])

    @property
    def minimum(self) -> int:
        spec = self.group.get("spec") or {}
        if self.group.get("kind") == "CompositePodGroup":
            gang = (spec.get("schedulingPolicy") or {}).get("gang")
            return int(gang.get("minGroupCount") or 1) if gang else 1
        gang_count = gang_minimum(spec)
        return 1 if gang_count is None else gang_count

    def complete(self) -> bool:
        """Enough pods and groups are known that the minimums can be reached at all."""
        if self.group.get("kind") != "CompositePodGroup":
            return len(self.pods) >= self.minimum
        return sum(child.complete() for child in self.children) >= self.minimum


@dataclass(slots=True)
class TreeCycle:
    """Kubernetes 1.37: a PodGroup or a whole CompositePodGroup tree is one entity."""

    desk: Desk
    owner: Owner = single
    """What is preempted as one."""

    def decide(self, root: Node) -> Outcome:
        outcome = Outcome()
        leaves = root.leaves()
        pods = [pod for leaf in leaves for pod in leaf.pods]
        candidates = waiting_pods(pods)
        # One gated pod holds the whole entity, and nobody says anything.
        if not candidates or any(is_gated(pod) for pod in pods) or not root.complete():
            return outcome
        outcome.waits = True
        mismatch = self._mismatch(root, pods)
        if mismatch:
            for leaf in leaves:
                self._tell_leaf(outcome, leaf, SCHEDULER_ERROR, mismatch)
            outcome.refusals.extend(Refusal(pod, mismatch, SCHEDULER_ERROR) for pod in candidates)
            return outcome
        tree = self._group(root)
        verdict = attempt(Trial(self.desk.ledger), tree)
        if verdict.shortage is None:
            _bind(outcome, candidates, verdict)
        else:
            evict_for_group(self.desk, outcome, tree, candidates, owner=self.owner)
        self._tell(outcome, root, verdict)
        return outcome

    def _mismatch(self, root: Node, pods: Sequence[Manifest]) -> str:
        wanted = int((root.group.get("spec") or {}).get("priority") or 0)
        for pod in in_order(pods):
            if priority_of(pod) != wanted:
                return (
                    f"pod {'/'.join(key_of(pod))} has priority {priority_of(pod)}, "
                    f"but its pod group {root.name} has priority {wanted}"
                )
        return ""

    def _group(self, node: Node) -> Group:
        if node.group.get("kind") != "CompositePodGroup":
            placed = placed_nodes(node.pods)
            minimum = node.minimum
            if gang_minimum(node.group.get("spec") or {}) is None and placed:
                minimum = 0
            return _leaf(self.desk, node.group, waiting_pods(node.pods), minimum=minimum, placed=placed)
        children = tuple(self._group(child) for child in node.children)
        required = topology_key(node.group.get("spec") or {})
        return Branch(f"{node.name} (composite)", children, node.minimum, required=required)

    def _tell(self, outcome: Outcome, root: Node, verdict: Verdict) -> None:
        whole = verdict.failed.get(f"{root.name} (composite)") or verdict.shortage
        outcome.waits = False
        for leaf in root.leaves():
            pending = [pod for pod in waiting_pods(leaf.pods) if key_of(pod) not in verdict.placed]
            outcome.waits = outcome.waits or bool(pending)
            own = verdict.failed.get(leaf.name)
            if verdict.shortage is not None and verdict.shortage.group == leaf.name:
                own = verdict.shortage
            shortage = own or (whole if verdict.shortage is not None else None)
            if shortage is None:
                self._tell_leaf(outcome, leaf, "Scheduled", ADMITTED)
            else:
                self._tell_leaf(outcome, leaf, UNSCHEDULABLE, self._words(shortage))
            for pod in pending:
                diagnosis = verdict.unfit.get(key_of(pod))
                text = diagnosis.text if diagnosis else self._words(shortage or whole)
                outcome.refusals.append(Refusal(pod, text))

    def _words(self, shortage: Shortage | None) -> str:
        if shortage is None:
            return GROUP_UNSCHEDULABLE
        if shortage.keys and not shortage.domains:
            return f"{GROUP_UNSCHEDULABLE}, no feasible placements found"
        return (
            f"{GROUP_UNSCHEDULABLE}, 0/{shortage.domains or 1} placements are available, "
            f"first placement status: minCount ({shortage.minimum}) cannot be satisfied: "
            f"{shortage.scheduled} scheduled, {shortage.remaining} remaining, "
            f"pod group preemption: {NO_VICTIMS}"
        )

    def _tell_leaf(self, outcome: Outcome, leaf: Node, reason: str, text: str) -> None:
        kind = "PodGroupInitiallyScheduled"
        if condition(leaf.group, kind).get("status") == "True":
            return
        status = "True" if reason == "Scheduled" else "False"
        outcome.conditions.append((PODGROUPS_137, leaf.group, _condition(kind, status, reason, text)))


def _leaf(
    desk: Desk, group: Manifest, candidates: Sequence[Manifest], *, minimum: int, placed: tuple[str, ...]
) -> Leaf:
    pods = tuple(Candidate(key_of(pod), desk.shape(pod)) for pod in candidates)
    required = topology_key(group.get("spec") or {})
    return Leaf(group["metadata"]["name"], pods, minimum, placed, required=required)


def _bind(outcome: Outcome, candidates: Sequence[Manifest], verdict: Verdict) -> None:
    placed = verdict.placed
    outcome.binds.extend((pod, placed[key_of(pod)]) for pod in candidates if key_of(pod) in placed)


def _condition(kind: str, status: str, reason: str, message: str) -> Manifest:
    return {"type": kind, "status": status, "reason": reason, "message": message}
