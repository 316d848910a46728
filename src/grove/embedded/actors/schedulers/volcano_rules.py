"""What Volcano reads in a PodGroup and its pods, and the words it finds for a failure. Pure.

A PodGroup becomes a tree of `gangs`: a branch for each policy with the subgroups that its match labels make,
and a leaf for the pods that no policy claims. What a tree cannot say (minMember, minTaskMember) is judged
afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from grove.embedded.actors.objects import (
    Key,
    Resource,
    annotations_of,
    is_gated,
    key_of,
    labels_of,
    node_of,
    phase_of,
)
from grove.embedded.actors.schedulers.gangs import Branch, Candidate, Group, Keys, Leaf
from grove.embedded.actors.schedulers.placement import TOO_MANY_PODS, Diagnosis
from grove.embedded.actors.schedulers.shapes import PodShape
from grove.embedded.actors.schedulers.volcano_topology import Map, highest_tier, tier_label
from grove.embedded.errors import Manifest
from grove.embedded.machinery.selectors import matches_label_selector

PODGROUPS = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", kind="PodGroup")
QUEUES = Resource("scheduling.volcano.sh", "v1beta1", "queues", namespaced=False, kind="Queue")
HYPERNODES = Resource("topology.volcano.sh", "v1alpha1", "hypernodes", namespaced=False, kind="HyperNode")
CONFIG_MAPS = Resource("", "v1", "configmaps", kind="ConfigMap")

GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
TASK = "volcano.sh/task-spec"
ROOT = "the pod group"
UNCLAIMED = "pods of no policy"

UNSCHEDULABLE, SCHEDULABLE, UNDETERMINED = "Unschedulable", "Schedulable", "Undetermined"


@dataclass(slots=True)
class Members:
    """The pods of one subgroup."""

    name: str
    size: int
    pods: list[Manifest] = field(default_factory=list)


@dataclass(slots=True)
class Policy:
    """One subGroupPolicy and the subgroups that it splits its pods into."""

    spec: Manifest
    subgroups: dict[tuple[str, ...], Members] = field(default_factory=dict)


def minimum_of(spec: Manifest) -> int:
    return int(spec.get("minMember") or 0)


def sorted_out(spec: Manifest, pods: Iterable[Manifest]) -> tuple[list[Policy], Members]:
    """Each pod in the subgroup of the first policy that claims it, and the pods that none does."""
    policies = [Policy(each) for each in spec.get("subGroupPolicy") or ()]
    rest = Members(UNCLAIMED, 0)
    for pod in pods:
        for policy in policies:
            values = _match_values(policy.spec, labels_of(pod))
            if values is not None:
                size = int(policy.spec.get("subGroupSize") or 1)
                name = "/".join((str(policy.spec.get("name") or ""), *values))
                policy.subgroups.setdefault(values, Members(name, size)).pods.append(pod)
                break
        else:
            rest.pods.append(pod)
    return policies, rest


def _match_values(policy: Manifest, labels: Mapping[str, str]) -> tuple[str, ...] | None:
    """The values that name the subgroup; a policy without match labels claims nobody."""
    selector = policy.get("labelSelector")
    if selector and not matches_label_selector(selector, dict(labels)):
        return None
    keys = policy.get("matchLabelKeys") or ()
    found = tuple(labels[key] for key in keys if key in labels)
    return found or None


def is_best_effort(shape: PodShape) -> bool:
    """Asks for nothing but a place among the pods of a node."""
    return all(name == "pods" for name, _ in shape.requests)


def tree(
    spec: Manifest, pods: Sequence[Manifest], shapes: Mapping[Key, PodShape], world: Map, *, plugin: bool
) -> Group:
    """What must be placed; best-effort pods count as placed and take no part."""
    policies, rest = sorted_out(spec, pods)
    if not policies:
        # Without policies the whole is what must be placed together.
        whole = Members(ROOT, minimum_of(spec), list(pods))
        return _leaf(whole, shapes, ((), ()))
    children: list[Group] = []
    for policy in policies:
        keys = _keys(policy.spec.get("networkTopology"), world, plugin=plugin)
        leaves = tuple(_leaf(each, shapes, keys) for each in policy.subgroups.values())
        children.append(
            Branch(str(policy.spec.get("name") or ""), leaves, int(policy.spec.get("minSubGroups") or 0))
        )
    children.append(_leaf(rest, shapes, ((), ())))
    return Branch(ROOT, tuple(children), len(children))


def _leaf(members: Members, shapes: Mapping[Key, PodShape], keys: tuple[Keys, Keys]) -> Leaf:
    waiting = [pod for pod in members.pods if not node_of(pod) and not is_gated(pod)]
    light = sum(is_best_effort(shapes[key_of(pod)]) for pod in waiting)
    heavy = [pod for pod in waiting if not is_best_effort(shapes[key_of(pod)])]
    placed = tuple(node_of(pod) for pod in members.pods if node_of(pod))
    minimum = max(0, members.size - light)
    if keys[0]:
        # A domain must have room for all that is pending, as Volcano filters them before it tries.
        minimum = max(minimum, len(placed) + len(heavy))
    candidates = tuple(Candidate(key_of(pod), shapes[key_of(pod)]) for pod in heavy)
    return Leaf(members.name, candidates, minimum, placed, *keys)


def _keys(constraint: Manifest | None, world: Map, *, plugin: bool) -> tuple[Keys, Keys]:
    """The labels that a subgroup must share, and those that it should: the smallest domains come first."""
    # By a number only: in a policy Volcano does not look a tier's name up, and says nothing about it.
    numbered = {key: value for key, value in (constraint or {}).items() if key != "highestTierName"}
    mode, tier = highest_tier(numbered, world, plugin=plugin)
    smallest = world.tiers[0] if mode else 0
    if mode == "hard" and tier is not None:
        usable = [each for each in world.tiers if each <= tier]
        return (tier_label(max(usable, default=tier)),), ((tier_label(smallest),) if smallest < tier else ())
    return (), ((tier_label(smallest),) if mode else ())


def asks_for_domains(spec: Manifest) -> bool:
    """Whether the whole or a part of it has a network topology."""
    parts = [spec, *(spec.get("subGroupPolicy") or ())]
    return any(each.get("networkTopology") for each in parts)


def gradient(spec: Manifest, world: Map, *, plugin: bool) -> list[Keys]:
    """The domains to try for the whole group, one tier after the other; no label is the whole cluster."""
    mode, tier = highest_tier(spec.get("networkTopology"), world, plugin=plugin)
    if mode == "hard" and tier is not None:
        return [(tier_label(each),) for each in world.tiers if each <= tier]
    if mode == "soft":
        return [*((tier_label(each),) for each in world.tiers), ()]
    return [()]


def is_ready(spec: Manifest, pods: Sequence[Manifest], placed: frozenset[Key]) -> bool:
    """Whether the gang has what it demands, with these pods placed or as good as placed."""
    there = [pod for pod in pods if key_of(pod) in placed]
    if len(there) < minimum_of(spec):
        return False
    tasks = {task: int(least) for task, least in (spec.get("minTaskMember") or {}).items()}
    if minimum_of(spec) >= sum(tasks.values()):
        found = Counter(_task(pod) for pod in there)
        if any(found[task] < least for task, least in tasks.items()):
            return False
    policies, _ = sorted_out(spec, there)
    return all(
        sum(len(each.pods) >= each.size for each in policy.subgroups.values())
        >= int(policy.spec.get("minSubGroups") or 0)
        for policy in policies
    )


def _task(pod: Manifest) -> str:
    return annotations_of(pod).get(TASK) or labels_of(pod).get(TASK) or ""


def without_count(words: str) -> str:
    """The gang's words as its pods repeat them: they do not say how many of them are concerned."""
    return words.partition("tasks in gang unschedulable: ")[2] or words


def share_left(free: Iterable[Mapping[str, int]], taken: Iterable[PodShape]) -> dict[str, int]:
    """What the only queue may still use: all that the nodes have, less what the gang would have taken."""
    left: Counter[str] = Counter()
    for amounts in free:
        left.update(amounts)
    for shape in taken:
        left.subtract(dict(shape.requests))
    return dict(left)


def has_share(shape: PodShape, left: Mapping[str, int]) -> bool:
    """Whether the queue may take one more; if not, no node is asked and none is named."""
    return all(left.get(name, 0) >= value for name, value in shape.requests)


def fit_words(diagnosis: Diagnosis | None) -> str:
    """Why one pod found no node."""
    if diagnosis is None or not diagnosis.reasons:
        return "all nodes are unavailable"
    listed = []
    for reason, count in diagnosis.reasons.items():
        listed.append(f"{count} {'node(s) pod number exceeded' if reason == TOO_MANY_PODS else reason}")
    return f"0/{diagnosis.nodes} nodes are unavailable: {', '.join(sorted(listed))}."


def gang_words(spec: Manifest, pods: Sequence[Manifest], fates: Mapping[Key, str], origin: str = "") -> str:
    """Why the gang does not start; `fates` has what the last attempt found for pods that wait."""
    least = minimum_of(spec)
    waiting = [pod for pod in pods if not node_of(pod)]
    good = len(pods) - len(waiting) + sum(fates.get(key_of(pod)) == SCHEDULABLE for pod in waiting)
    states = Counter("Pending" if not node_of(pod) else _state(pod) for pod in pods)
    listed = sorted([f"{count} {state}" for state, count in states.items()] + [f"{least} minAvailable"])
    short = f"{max(0, least - good)}/{len(pods)} tasks in gang unschedulable"
    text = f"{short}: pod group is not ready, {', '.join(listed)}"
    if waiting:
        counted = Counter(fates.get(key_of(pod), UNDETERMINED) for pod in waiting)
        text += "; Pending: " + ", ".join(sorted(f"{count} {fate}" for fate, count in counted.items()))
    return f"{text}. Origin reason is {origin}" if origin else text


def could_words(pod: Key, node: str) -> str:
    """What a pod is told that would fit if the others did."""
    return f"Pod {'/'.join(pod)} can possibly be assigned to {node}, once minAvailable is satisfied"


def ready_words(spec: Manifest, pods: Sequence[Manifest]) -> str:
    """The warning that Volcano gives for a gang that it has just placed."""
    states = f"{len(pods)} Binding, {minimum_of(spec)} minAvailable"
    return f"0/{len(pods)} tasks in gang unschedulable: pod group is ready, {states}"


def _state(pod: Manifest) -> str:
    return "Running" if phase_of(pod) == "Running" else "Bound"
