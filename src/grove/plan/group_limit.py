"""How many replicas scaling groups may have: no set has more pods in all than the configuration allows. Pure.

A set that asks for too much is refused before it has children; this is about groups that are scaled by
themselves afterwards. What the template gives a group is always granted, and what exists is not taken away.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from grove.api import names
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet, ScalingGroupConfig
from grove.api.labels import SCALING_GROUP
from grove.api.scaling_group import PodCliqueScalingGroup
from grove.plan.layout import pods_of_a_replica


class GrantedReplicas(NamedTuple):
    """The groups that may not have all replicas that they ask for: how many they may have, and why."""

    replicas: Mapping[str, int]
    sentences: tuple[str, ...] = ()


#: No group is limited.
ALL_GRANTED: Final = GrantedReplicas({})


def grant_replicas(
    cliqueset: PodCliqueSet,
    groups: Mapping[str, PodCliqueScalingGroup],
    cliques: Mapping[str, PodClique],
    most: int,
) -> GrantedReplicas:
    """Give each group what its template says and, while there is room, what it was scaled to."""
    template = cliqueset.template
    left = max(0, most - cliqueset.spec.replicas * pods_of_a_replica(template))
    pods = {role.name: role.spec.replicas for role in template.cliques}
    configs = {config.name: config for config in template.pod_clique_scaling_groups}
    granted: dict[str, int] = {}
    sentences = []
    for name, group in sorted(groups.items()):
        config = _config_of(cliqueset, name, configs)
        extra = group.spec.replicas - config.initial_replicas if config is not None else 0
        if config is None or extra <= 0:
            continue
        each = max(1, sum(pods.get(role, 0) for role in config.clique_names))
        room = min(extra, left // each)
        left -= room * each
        if room < extra:
            allowed = max(config.initial_replicas + room, _there(name, cliques))
            granted[name] = min(allowed, group.spec.replicas)
        if name in granted and granted[name] < group.spec.replicas:
            sentences.append(
                f"scaling group {name}: {group.spec.replicas} replicas are asked for and {granted[name]} may "
                f"exist, because this operator allows {most} pods in one set; scale the group down, or raise "
                "limits.podsPerSet in the operator's configuration"
            )
    return GrantedReplicas(granted, tuple(sentences))


def _config_of(
    cliqueset: PodCliqueSet, name: str, configs: Mapping[str, ScalingGroupConfig]
) -> ScalingGroupConfig | None:
    replica = names.set_replica(cliqueset.name, name)
    if replica is None:
        return None
    return configs.get(name.removeprefix(names.scaling_group(cliqueset.name, replica, "")))


def _there(group: str, cliques: Mapping[str, PodClique]) -> int:
    """How many replicas of a group have cliques; by their names, since a label may have been edited."""
    found = [
        names.indexed(clique.name.removeprefix(f"{group}-"))
        for clique in cliques.values()
        if clique.labels.get(SCALING_GROUP) == group and not clique.terminating
    ]
    return max((each[0] for each in found if each is not None), default=-1) + 1
