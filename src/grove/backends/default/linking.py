"""How a pod refers to its gang's native objects, and which preferences become pod affinity.

Link fields cannot change after a pod is created, so they are set here or never.
"""

from collections.abc import Iterator, Sequence

from grove.api import labels
from grove.api.gang import GangTopologyConstraint, PodGang, PodGroup
from grove.backends.default.modes import shape_of
from grove.backends.default.objects import Dialect
from grove.backends.podspec import PREFERRED, REQUIRED, WEIGHT, add_affinity
from grove.backends.shape import pod_index
from grove.meta import Manifest


def link_pod(pod: Manifest, podgroup: PodGroup, dialect: Dialect) -> None:
    """Make the pod a member of its native gang, unless it is above the minimum.

    Such a pod waits behind its gate until the gang is placed, and one gated member would hold up the whole
    gang.
    """
    if pod_index(pod) >= podgroup.min_replicas:
        follow_gang(pod, podgroup, dialect)
        return
    pod["spec"].update(dialect.link(podgroup))


def follow_gang(pod: Manifest, podgroup: PodGroup, dialect: Dialect) -> None:
    """Hold a pod above the minimum to the domains of the gang.

    The terms select pods that the gang counts, never the pod itself, so that it cannot be placed before them.
    """
    if not dialect.generation.topology:
        return
    counted = {each.name for each in dialect.gang.spec.podgroups if each.min_replicas > 0}
    for requirement in shape_of(dialect.gang).requirements:
        members = sorted(requirement.podgroups & counted)
        if podgroup.name not in requirement.podgroups or not members:
            continue
        selector = _selector(dialect.gang, members)
        selector["matchExpressions"].append({"key": labels.POD_INDEX, "operator": "In", "values": ["0"]})
        add_affinity(pod, REQUIRED, {"labelSelector": selector, "topologyKey": requirement.key})


def join_gang(pod: Manifest, podgroup: PodGroup, dialect: Dialect) -> None:
    """Hold a pod to the domains of the gang's pods that are on nodes, without making it a member.

    Where there are none of them the pod selects itself, and the next ones follow it.
    """
    if not dialect.generation.topology:
        return
    for requirement in shape_of(dialect.gang).requirements:
        if podgroup.name in requirement.podgroups:
            selector = _selector(dialect.gang, sorted(requirement.podgroups))
            add_affinity(pod, REQUIRED, {"labelSelector": selector, "topologyKey": requirement.key})


def prefer_domains(pod: Manifest, podgroup: PodGroup, gang: PodGang) -> None:
    """Approximate preferred pack constraints: pods of the same scope attract one another."""
    for key, members in preferences(gang):
        if not members or podgroup.name in members:
            term = {"labelSelector": _selector(gang, members), "topologyKey": key}
            add_affinity(pod, PREFERRED, {"weight": WEIGHT, "podAffinityTerm": term})


def preferences(gang: PodGang) -> Iterator[tuple[str, Sequence[str]]]:
    """The preferred keys of a gang and the podgroups that each is about; none means all."""
    spec = gang.spec
    if key := _preferred(spec.topology_constraint):
        yield key, ()
    for group in spec.topology_constraint_group_configs:
        if key := _preferred(group.topology_constraint):
            yield key, group.pod_group_names
    for podgroup in spec.podgroups:
        if key := _preferred(podgroup.topology_constraint):
            yield key, (podgroup.name,)


def _preferred(constraint: GangTopologyConstraint | None) -> str | None:
    return constraint.preferred if constraint else None


def _selector(gang: PodGang, podgroups: Sequence[str]) -> Manifest:
    selector: Manifest = {"matchLabels": {labels.POD_GANG: gang.name}}
    if podgroups:
        members = {"key": labels.POD_CLIQUE, "operator": "In", "values": list(podgroups)}
        selector["matchExpressions"] = [members]
    return selector
