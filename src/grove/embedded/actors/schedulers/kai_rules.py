"""What KAI reads in a PodGroup, and the words it finds for a failure. Pure.

A PodGroup becomes a tree of `gangs`: leaf subGroups hold pods, parents need their children, and topology
constraints become label keys of the named Topology's levels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grove.embedded.actors.objects import Resource, is_gated, key_of, labels_of, node_of
from grove.embedded.actors.schedulers.gangs import Branch, Candidate, Group, Keys, Leaf, Shortage, leaves
from grove.embedded.actors.schedulers.placement import TOO_MANY_PODS, Diagnosis
from grove.embedded.actors.schedulers.shapes import PodShape
from grove.embedded.errors import Manifest

PODGROUPS = Resource("scheduling.run.ai", "v2alpha2", "podgroups", kind="PodGroup")
QUEUES = Resource("scheduling.run.ai", "v2", "queues", namespaced=False, kind="Queue")
TOPOLOGIES = Resource("kai.scheduler", "v1alpha1", "topologies", namespaced=False, kind="Topology")

GROUP_ANNOTATION = "pod-group-name"
SUBGROUP_LABEL = "kai.scheduler/subgroup-name"
DEFAULT_SUBGROUP = "default"
ROOT = "the pod group"

POD_ERRORS = "PodSchedulingErrors"
NO_QUEUE = "QueueDoesNotExist"
UNABLE = "Unable to schedule podgroup"
#: Not a word but a sentence, although it stands where others have a reason's name.
NO_DOMAIN = "Not enough resources for the workload"

_RESOURCE_WORDS = {"nvidia.com/gpu": "GPUs", "cpu": "CPU cores", "memory": "memory"}


class UnknownTopology(Exception):
    """A constraint names a Topology or a level that does not exist."""


@dataclass(frozen=True, slots=True)
class Verdictless:
    """A group that cannot even be tried, with the reason KAI gives."""

    reason: str
    message: str
    #: What stood against each domain that was tried, where topology is the reason.
    beside: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Everything in one text, as KAI puts it on the group and on its pods."""
        if self.beside:
            return f"{UNABLE}: {{}}.".format(". \n".join(sorted((*self.beside, self.message))))
        return f"{self.reason}: {self.message}." if self.reason else self.message

    @property
    def reasons(self) -> list[Manifest]:
        """The list beside that text; a group that merely cannot be tried has none."""
        listed = [{"reason": NO_DOMAIN, "message": text} for text in self.beside]
        return [*listed, {"reason": self.reason, "message": self.message}] if self.reason else []


def members_by_subgroup(pods: Sequence[Manifest]) -> dict[str, list[Manifest]]:
    found: dict[str, list[Manifest]] = {}
    for pod in pods:
        found.setdefault(labels_of(pod).get(SUBGROUP_LABEL) or DEFAULT_SUBGROUP, []).append(pod)
    return found


def leaf_minimums(spec: Manifest) -> dict[str, int]:
    """Leaf subGroups and their minMember; without subGroups one leaf named `default`."""
    subgroups = spec.get("subGroups") or ()
    if not subgroups:
        return {DEFAULT_SUBGROUP: int(spec.get("minMember") or 1)}
    parents = {subgroup.get("parent") for subgroup in subgroups}
    return {s["name"]: int(s.get("minMember") or 0) for s in subgroups if s["name"] not in parents}


def not_ready(spec: Manifest, members: Mapping[str, Sequence[Manifest]]) -> str:
    """The sentence of the NotReady event, or nothing when every required leaf has its pods."""
    short: dict[str, str] = {}
    for name, minimum in leaf_minimums(spec).items():
        pods = members.get(name, ())
        gated = sum(is_gated(pod) for pod in pods)
        if len(pods) - gated < minimum:
            of, end = ("", "") if name == DEFAULT_SUBGROUP else (f" for SubGroup {name}", ".")
            short[name] = (
                f" Waiting for {minimum} pods{of}, currently {len(pods)} exist, {gated} are gated{end}"
            )
    if not short or _enough(spec, frozenset(short)):
        return ""
    return "Job is not ready for scheduling." + "".join(short.values())


def _enough(spec: Manifest, short: frozenset[str]) -> bool:
    """Whether the minSubGroup rules are met without the leaves that are short."""
    subgroups = spec.get("subGroups") or ()
    if not subgroups:
        return False

    def met(name: str) -> bool:
        children = [s for s in subgroups if s.get("parent") == name]
        own = next(s for s in subgroups if s["name"] == name)
        if not children:
            return name not in short
        return sum(met(s["name"]) for s in children) >= _needed(own, len(children))

    top = [s for s in subgroups if not s.get("parent")]
    return sum(met(s["name"]) for s in top) >= _needed(spec, len(top))


def _needed(holder: Manifest, children: int) -> int:
    wanted = holder.get("minSubGroup")
    return children if wanted is None else int(wanted)


def tree(
    group: Manifest,
    members: Mapping[str, Sequence[Manifest]],
    *,
    shapes: Mapping[tuple[str, str], PodShape],
    topologies: Mapping[str, Manifest],
) -> Group:
    """The PodGroup as a tree to place; raises `UnknownTopology`."""
    spec = group.get("spec") or {}
    subgroups = spec.get("subGroups") or ()
    minimums = leaf_minimums(spec)

    def leaf(name: str, keys: tuple[Keys, Keys, Keys]) -> Leaf:
        pods = members.get(name, ())
        waiting = [pod for pod in pods if not node_of(pod) and not is_gated(pod)]
        candidates = tuple(Candidate(key_of(pod), shapes[key_of(pod)]) for pod in waiting)
        placed = tuple(node_of(pod) for pod in pods if node_of(pod))
        return Leaf(name, candidates, minimums[name], placed, *keys)

    def build(subgroup: Manifest) -> Group:
        keys = level_keys(subgroup.get("topologyConstraint"), topologies)
        children = tuple(build(s) for s in subgroups if s.get("parent") == subgroup["name"])
        if not children:
            return leaf(subgroup["name"], keys)
        return Branch(subgroup["name"], children, _needed(subgroup, len(children)), *keys)

    keys = level_keys(spec.get("topologyConstraint"), topologies)
    if not subgroups:
        return leaf(DEFAULT_SUBGROUP, keys)
    top = tuple(build(s) for s in subgroups if not s.get("parent"))
    return Branch(ROOT, top, _needed(spec, len(top)), *keys)


def level_keys(constraint: Manifest | None, topologies: Mapping[str, Manifest]) -> tuple[Keys, Keys, Keys]:
    """Label keys of the (required, preferred) levels from the top down, and all that a node must carry."""
    name = (constraint or {}).get("topology")
    if not constraint or not name:
        return (), (), ()
    topology = topologies.get(name)
    if topology is None:
        raise UnknownTopology(name)
    levels = (topology.get("spec") or {}).get("levels") or ()
    labels = [level["nodeLabel"] for level in levels]

    def upto(wanted: str | None) -> Keys:
        if not wanted:
            return ()
        for position, level in enumerate(levels):
            if wanted in (level["nodeLabel"], level.get("alias")):
                return tuple(labels[: position + 1])
        raise UnknownTopology(wanted)

    required = upto(constraint.get("requiredTopologyLevel"))
    preferred = upto(constraint.get("preferredTopologyLevel"))
    return required, preferred, tuple(labels) if required else ()


def queue_problem(name: str, queues: Mapping[str, Manifest]) -> Verdictless | None:
    """Work runs only in a leaf queue whose parents exist."""
    missing = Verdictless(NO_QUEUE, f"Queue '{name}' does not exist")
    queue = queues.get(name)
    if queue is None or any(_parent(q) == name for q in queues.values()):
        return missing
    seen = {name}
    parent = _parent(queue)
    if not parent:
        return missing
    while parent:
        if parent in seen or parent not in queues:
            return missing
        seen.add(parent)
        parent = _parent(queues[parent])
    return None


def _parent(queue: Manifest) -> str:
    return str((queue.get("spec") or {}).get("parentQueue") or "")


def fit_words(diagnosis: Diagnosis | None) -> str:
    """Why one pod found no node."""
    if diagnosis is None or not diagnosis.reasons:
        return "Unable to schedule pod"
    listed = []
    for reason, count in diagnosis.reasons.items():
        what = reason.removeprefix("Insufficient ")
        if what != reason:
            reason = f"node(s) didn't have enough resources: {_RESOURCE_WORDS.get(what, what)}"
        elif reason == TOO_MANY_PODS:
            reason = "node(s) pod number exceeded"
        listed.append(f"{count} {reason}")
    return "no nodes with enough resources were found: " + ".\n".join(sorted(listed)) + "."


def shortage_problem(group: Manifest, root: Group, shortage: Shortage) -> Verdictless:
    """What a shortage looks like on the group."""
    tried = tuple(
        f"node-group {'.'.join(domain)} can allocate only {room} of {wanted} required pods"
        for domain, room, wanted in shortage.tally
    )
    beside = tried if shortage.keys else ()
    return Verdictless(POD_ERRORS, _shortage_words(group, root, shortage), beside)


def _shortage_words(group: Manifest, root: Group, shortage: Shortage) -> str:
    """Why the group as a whole does not start."""
    if shortage.keys:
        return _topology_words(group, shortage)
    why = fit_words(shortage.diagnosis)
    gang = any(leaf.minimum > 1 for leaf in leaves(root))
    if not gang and shortage.pod is not None:
        return f"Resources were not found for pod {'/'.join(shortage.pod)} due to: {why}"
    if shortage.group == DEFAULT_SUBGROUP:
        return (
            f"Resources were found for {shortage.scheduled} pods while {shortage.minimum} are required for "
            f"gang scheduling. Additional pods cannot be scheduled due to: {why}"
        )
    return (
        f"Resources were found for {shortage.scheduled} pods from all sub-groups while sub-group "
        f"{shortage.group} requires {shortage.minimum} pods for gang scheduling. "
        f"Additional pods cannot be scheduled in this sub-group due to: {why}"
    )


def _topology_words(group: Manifest, shortage: Shortage) -> str:
    spec = group.get("spec") or {}
    constraints = [spec.get("topologyConstraint")]
    constraints += [s.get("topologyConstraint") for s in spec.get("subGroups") or ()]
    name = next((c["topology"] for c in constraints if c and c.get("topology")), "")
    return (
        f"topology {name}, requirement {shortage.keys[-1]} couldn't be satisfied for job "
        f"<{'/'.join(key_of(group))}>"
    )
