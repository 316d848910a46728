"""The pods of a gang as the gang lists them. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from grove.api import labels
from grove.api.gang import PodGang, PodGroup
from grove.api.pod import Pod
from grove.api.revision import revision_of
from grove.meta import Manifest

References = Mapping[str, Sequence[Pod]]


def references(gang: PodGang, pods: Iterable[Pod], revision: str = "") -> dict[str, list[Pod]]:
    """The pods of each podgroup that take part in the present start of the gang, by name, in order.

    A failed pod is about to be replaced and is left out; so is one that waits in an earlier start.
    """
    found: dict[str, list[Pod]] = {group.name: [] for group in gang.spec.podgroups}
    for pod in pods:
        clique = pod.labels.get(labels.POD_CLIQUE, "")
        if clique not in found or pod.terminating or pod.status.phase == "Failed":
            continue
        if pod.bound or not revision or revision_of(pod) == revision:
            found[clique].append(pod)
    return {clique: sorted(members, key=attrgetter("name")) for clique, members in found.items()}


def complete(gang: PodGang, found: References, replicas: Mapping[str, int]) -> bool:
    """Whether every clique of the gang is there with all of its pods."""
    return all(
        group.name in replicas and len(found[group.name]) >= replicas[group.name]
        for group in gang.spec.podgroups
    )


def referencing_podgroups(gang: PodGang, found: References) -> list[Manifest] | None:
    """The gang's podgroups with the found pods referenced, or None when they already are."""
    groups = gang.spec.podgroups
    if all(
        [(ref.name, ref.uid) for ref in group.pod_references]
        == [(pod.name, pod.uid) for pod in found[group.name]]
        for group in groups
    ):
        return None
    return [podgroup_manifest(group, found[group.name]) for group in groups]


def podgroup_manifest(group: PodGroup, pods: Iterable[Pod]) -> Manifest:
    """A podgroup as it is written, with these pods referenced."""
    manifest: Manifest = {
        "name": group.name,
        "podReferences": [{"namespace": pod.namespace, "name": pod.name, "uid": pod.uid} for pod in pods],
        "minReplicas": group.min_replicas,
    }
    constraint = group.topology_constraint
    if constraint is not None:
        pack = {"required": constraint.required, "preferred": constraint.preferred}
        manifest["topologyConstraint"] = {"packConstraint": {k: v for k, v in pack.items() if v is not None}}
    return manifest
