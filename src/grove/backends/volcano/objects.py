"""Volcano's PodGroup for one gang: minima, policies of subgroups, queue, priority, network topology."""

from collections.abc import Mapping, Sequence
from typing import Final

from grove.api import labels, names
from grove.api.gang import PodGang, PodGroup
from grove.backends.base import Context
from grove.backends.shape import main_name, owned_metadata
from grove.backends.volcano.queue import DEFAULT_QUEUE
from grove.backends.volcano.sight import GROUP
from grove.backends.volcano.topology import Packing, merged_groups
from grove.meta import Manifest, resource

PODGROUPS: Final = resource(GROUP, "v1beta1", "PodGroup")

#: Field facts, in the form of `Cluster.fields`: Volcano has both since 1.14.
SUBGROUPS_PATH: Final = "spec.subGroupPolicy"
TIER_NAME_PATH: Final = "spec.networkTopology.highestTierName"
SUBGROUPS_FIELD: Final = f"podgroups.{GROUP}:{SUBGROUPS_PATH}"
TIER_NAME_FIELD: Final = f"podgroups.{GROUP}:{TIER_NAME_PATH}"

#: The scheduler reads the first; other tools of Volcano read the second.
GROUP_ANNOTATION: Final = "scheduling.k8s.io/group-name"
OTHER_GROUP_ANNOTATION: Final = "scheduling.volcano.sh/group-name"
TASK_ANNOTATION: Final = "volcano.sh/task-spec"


def knows_subgroups(context: Context) -> bool:
    """Whether this Volcano has subGroupPolicy."""
    return SUBGROUPS_FIELD in context.cluster.fields


def knows_tiers(context: Context) -> bool:
    """Whether this Volcano takes tiers by name."""
    return TIER_NAME_FIELD in context.cluster.fields


def podgroup_name(gang: PodGang, context: Context) -> str:
    """The name of the gang's PodGroup, by which its pods find it."""
    return main_name(gang.name, gang, context)


def podgroup_manifest(gang: PodGang, queue: str, plan: Packing, context: Context) -> Manifest:
    """The PodGroup of a gang."""
    spec: Manifest = {"minMember": gang.minimum}
    if queue != DEFAULT_QUEUE:
        spec["queue"] = queue
    if gang.spec.priority_class_name:
        spec["priorityClassName"] = gang.spec.priority_class_name
    if plan.whole:
        spec["networkTopology"] = plan.whole
    if knows_subgroups(context):
        spec |= _subgroups(gang, plan)
    else:
        spec["minTaskMember"] = _minimums(gang.spec.podgroups)
    return {
        "apiVersion": PODGROUPS.api_version,
        "kind": PODGROUPS.kind,
        "metadata": owned_metadata(gang, podgroup_name(gang, context)),
        "spec": spec,
    }


def _subgroups(gang: PodGang, plan: Packing) -> Manifest:
    merged = merged_groups(gang)
    alone = [each for each in gang.spec.podgroups if each.name not in merged]
    policies = [
        _policy(each.name, labels.POD_CLIQUE, each.name, each.min_replicas, plan.podgroups.get(each.name))
        for each in alone
    ]
    if not merged:
        return {"subGroupPolicy": policies}
    for group in gang.spec.topology_constraint_group_configs:
        members = [each for each in gang.spec.podgroups if merged.get(each.name) is group]
        if members:
            minimum = sum(each.min_replicas for each in members)
            policies.append(
                _policy(
                    group.name, labels.TOPOLOGY_GROUP, mark(group.name), minimum, plan.groups.get(group.name)
                )
            )
    together = [each for each in gang.spec.podgroups if each.name in merged]
    return {"subGroupPolicy": policies, "minTaskMember": _minimums(together)}


def _policy(name: str, key: str, value: str, minimum: int, network: Mapping[str, str] | None) -> Manifest:
    policy: Manifest = {
        "name": name,
        "labelSelector": {"matchLabels": {key: value}},
        "matchLabelKeys": [key],
        "subGroupSize": max(1, minimum),
        "minSubGroups": 1 if minimum > 0 else 0,
    }
    if network:
        policy["networkTopology"] = dict(network)
    return policy


def _minimums(podgroups: Sequence[PodGroup]) -> dict[str, int]:
    return {each.name: each.min_replicas for each in podgroups if each.min_replicas > 0}


def mark(group: str) -> str:
    """The label value by which the pods of a group of podgroups are one subgroup."""
    return names.shortened(group, names.LABEL_LIMIT)
