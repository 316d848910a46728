"""The shape of a gang, the same for every scheduler: which pod is in which podgroup, and how many are placed.

Facts about sets, gangs and pods only; nothing here knows a scheduler. Never reads the cluster, never decides.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from grove.api import conditions, labels, names
from grove.api.cliqueset import PodCliqueSet
from grove.api.constraints import constraints
from grove.api.gang import GangTopologyConstraint, PodGang, PodGroup, TopologyConstraintGroup
from grove.api.kinds import CLIQUESETS, GANGS
from grove.api.minimum import above_minimum
from grove.api.pod import Pod
from grove.api.revision import ADOPTED, next_revision
from grove.api.topology import TopologyConstraint
from grove.backends.base import Context, Reading, Verdict
from grove.errors import FieldError, InvalidInput, Unsupported
from grove.meta import Manifest, owner_reference
from grove.words import counted

#: How long the name of most objects may be.
NAME_LIMIT: Final = 253
#: What nodes lack, as kube-scheduler says it and those that are made of it; without what preemption tried.
NODES_LACK: Final = re.compile(r"\d+/\d+ nodes are available: .+?\.(?=[\s,]|$)")


def owned_metadata(gang: PodGang, name: str) -> Manifest:
    """The metadata of a scheduler object: beside the gang, found by its labels, gone with the gang."""
    return owned_by(gang)(name)


def owned_by(gang: PodGang) -> Callable[[str], Manifest]:
    """The same for several objects of one gang: what does not depend on the name is found out once."""
    marks = {labels.MANAGED_BY: labels.MANAGER, labels.POD_GANG: gang.name}
    if cliqueset := gang.labels.get(labels.PART_OF):
        marks[labels.PART_OF] = cliqueset
    namespace, reference = gang.namespace, owner_reference(gang, GANGS.gvk)
    return lambda name: {
        "name": name,
        "namespace": namespace,
        "labels": {**marks},
        "ownerReferences": [{**reference}],
    }


def was_placed(gang: PodGang, context: Context) -> bool:
    """Whether the gang is on nodes: all of it, or what is left of it since it fell below its minimum."""
    told = (conditions.SCHEDULED, conditions.UNHEALTHY)
    return any(context.bound.values()) and any(
        each.is_true for each in gang.status.conditions if each.type in told
    )


def revision(gang: PodGang, context: Context) -> str:
    """The revision that goes into the names of the gang's objects and of the pods' links.

    Of a standalone gang there is only one: its pods are not ours to create.
    """
    if context.revision:
        return context.revision
    return next_revision(gang) if is_ours(gang) else names.suffix(gang.uid, length=10)


def is_ours(gang: PodGang) -> bool:
    """Whether the gang comes from a set of ours, and its pods from us.

    One that lost its label belongs to its set all the same, which gives it the label back.
    """
    if gang.metadata.labels.get(labels.MANAGED_BY) == labels.MANAGER:
        return True
    owner = gang.owner
    return owner is not None and owner.kind == CLIQUESETS.kind


def named(base: str, gang: PodGang, context: Context, limit: int = NAME_LIMIT) -> str:
    """The name of a scheduler object of this gang: a gang that is restarted gets other names."""
    suffix = f"-{revision(gang, context)}"
    return names.shortened(base, limit - len(suffix)) + suffix


def is_adopted(context: Context) -> bool:
    """Whether the pods of the gang are those that the Go operator made, and what replaced them."""
    return context.revision == ADOPTED


def main_name(base: str, gang: PodGang, context: Context) -> str:
    """The name of the one object that speaks for the whole gang; the Go operator named it like the gang."""
    return gang.name if is_adopted(context) else named(base, gang, context)


def constraints_of(cliqueset: PodCliqueSet) -> Iterator[tuple[str, TopologyConstraint]]:
    """Every topology constraint of a set with its field: its own, those of groups, those of cliques."""
    for placed in constraints(cliqueset):
        yield placed.field, placed.constraint


def gang_constraints(gang: PodGang) -> Iterator[GangTopologyConstraint]:
    """Every topology constraint of a gang: its own, those of groups, those of podgroups."""
    spec = gang.spec
    found = [spec.topology_constraint]
    found += [group.topology_constraint for group in spec.topology_constraint_group_configs]
    found += [podgroup.topology_constraint for podgroup in spec.podgroups]
    yield from filter(None, found)


def groups_by_podgroup(gang: PodGang) -> Mapping[str, TopologyConstraintGroup]:
    """Which constraint group contains each podgroup; raises Unsupported when two groups claim one."""
    known = {podgroup.name for podgroup in gang.spec.podgroups}
    found: dict[str, TopologyConstraintGroup] = {}
    for group in gang.spec.topology_constraint_group_configs:
        for name in group.pod_group_names:
            if name not in known:
                raise Unsupported(
                    f"gang {gang.key}: group {group.name!r} names podgroup {name!r}, which the gang lacks"
                )
            if name in found and found[name].name != group.name:
                raise Unsupported(
                    f"gang {gang.key}: podgroup {name!r} is in the groups {found[name].name!r} "
                    f"and {group.name!r}; "
                    "a podgroup can be in one"
                )
            found[name] = group
    return found


def podgroup_of(pod: Manifest, gang: PodGang) -> PodGroup:
    """The podgroup that a pod fills, by its clique label."""
    clique = _labels(pod).get(labels.POD_CLIQUE, "")
    for podgroup in gang.spec.podgroups:
        if podgroup.name == clique:
            return podgroup
    problem = f"{clique!r} is not a podgroup of gang {gang.key}" if clique else "is missing"
    raise InvalidInput([FieldError(f"metadata.labels[{labels.POD_CLIQUE}]", problem)])


def pod_index(pod: Manifest) -> int:
    """The pod's place in its podgroup, by its index label."""
    text = _labels(pod).get(labels.POD_INDEX, "")
    if not text.isdigit():
        raise InvalidInput([FieldError(f"metadata.labels[{labels.POD_INDEX}]", f"{text!r} is not an index")])
    return int(text)


def _labels(pod: Manifest) -> Mapping[str, str]:
    return (pod.get("metadata") or {}).get("labels") or {}


@dataclass(frozen=True, slots=True)
class PlacementProgress:
    """How far a gang's pods are: what is placed, and of what is not, what holds it."""

    wanted: int
    placed: int
    #: The podgroups that have fewer bound pods than they need.
    lacking: frozenset[str]
    #: The living pods of lacking podgroups that no node has yet.
    pending: tuple[Pod, ...]
    missing: int
    gated: int
    #: How many pods the gang has, those above the minimum included.
    living: int = 0
    #: How many of those have done their work.
    completed: int = 0

    @property
    def complete(self) -> bool:
        return not self.lacking

    @property
    def sentence(self) -> str:
        return f"{self.placed} of {self.wanted} pods placed"

    def waiting(self) -> Reading:
        """Why nobody can say yet whether the gang fits."""
        if not self.wanted:
            return Reading(
                Verdict.WAITING,
                "ScaledToZero",
                "Every role of the gang is scaled to zero; there is nothing to place.",
            )
        if self.missing:
            there = self.wanted - self.missing
            return Reading(Verdict.WAITING, "WaitingForPods", f"{there} of {self.wanted} pods exist.")
        if self.gated:
            return Reading(
                Verdict.WAITING,
                "SchedulingGated",
                f"{self.sentence}; {self.gated} still behind scheduling gates.",
            )
        return Reading(Verdict.WAITING, "WaitingForScheduler", f"{self.sentence}; {self._undecided()}.")

    def _undecided(self) -> str:
        waits = "the scheduler has not decided yet"
        if not self.completed:
            return waits
        done = counted(self.completed, "completed pod")
        # Most schedulers count only pods that run, so that others would wait for ever.
        return f"{waits}; {done} may not count for it: if it stays so, delete all pods of the gang"


def progress(gang: PodGang, pods: Sequence[Pod]) -> PlacementProgress:
    """The gang's progress by its pods alone: the one signal that can also go back.

    A pod that succeeded on a node was placed and stays so.
    """
    namespace, there, bound = gang.namespace, dict[str, int](), dict[str, int]()
    living = [pod for pod in pods if pod.keeps_place and pod.metadata.namespace == namespace]
    for pod in living:
        clique = pod.labels.get(labels.POD_CLIQUE, "")
        there[clique] = there.get(clique, 0) + 1
        bound[clique] = bound.get(clique, 0) + pod.bound
    placed = missing = 0
    lacking = []
    for each in gang.spec.podgroups:
        on_nodes, wanted = bound.get(each.name, 0), each.min_replicas
        placed += min(on_nodes, wanted)
        missing += max(0, wanted - there.get(each.name, 0))
        if on_nodes < wanted:
            lacking.append(each.name)
    pending = tuple(_pending(gang, living, lacking)) if lacking else ()
    return PlacementProgress(
        wanted=gang.minimum,
        placed=placed,
        lacking=frozenset(lacking),
        pending=pending,
        missing=missing,
        gated=len([pod for pod in pending if pod.spec.scheduling_gates]),
        living=len(living),
        completed=sum(pod.succeeded for pod in living) if lacking else 0,
    )


def _pending(gang: PodGang, living: Sequence[Pod], lacking: Collection[str]) -> Iterator[Pod]:
    """The pods without a node of podgroups that lack some; not those above the minimum, which wait."""
    above = above_minimum(gang)
    for pod in living:
        if pod.bound or pod.labels.get(labels.POD_CLIQUE, "") not in lacking:
            continue
        if not (pod.spec.scheduling_gates and above(pod)):
            yield pod


def verdict_of(gang: PodGang, seen: PlacementProgress) -> Reading | None:
    """What the pods alone decide; None when a reason must be looked for."""
    if not gang.spec.podgroups:
        return Reading(Verdict.WAITING, "WaitingForPods", "The gang lists no podgroups yet.")
    if not seen.wanted and not seen.living:
        return seen.waiting()
    if seen.complete:
        return Reading(Verdict.SCHEDULED, "Scheduled", f"{seen.sentence}.")
    # While pods are missing or gated no scheduler has judged the gang as it is; what it said before is stale.
    return seen.waiting() if seen.missing or seen.gated else None
