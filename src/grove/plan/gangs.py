"""The gangs of a set: what must be placed together or not at all. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from grove.api import kinds, labels, names
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang, PodGroup
from grove.api.pod import Pod
from grove.api.revision import revision_of
from grove.api.topology import ClusterTopologyBinding, TopologyConstraint
from grove.meta import Manifest, owner_reference
from grove.plan.mirroring import record

#: Metadata of a set that means something to one client only and is not mirrored onto its gangs.
_PRIVATE_PREFIXES = (labels.GROVE_PREFIX, "kubectl.kubernetes.io/")


def desired_gang(
    cliqueset: PodCliqueSet,
    replica: int,
    *,
    backend: str,
    external: bool = False,
    topology: ClusterTopologyBinding | None = None,
    minima: Mapping[str, int] | None = None,
    templates: str = "",
) -> Manifest:
    """The base gang of one replica, as it is born: its podgroups listed, no pod referenced yet.

    `minima` says by role how many pods the gang cannot do without, where that is not what the template says;
    `templates` is the hash of all pod templates of the set.
    """
    name = names.base_gang(cliqueset.name, replica)
    groups: list[Manifest] = [
        {
            "name": names.clique(cliqueset.name, replica, clique.name),
            "podReferences": [],
            "minReplicas": (minima or {}).get(clique.name, clique.spec.minimum),
            "topologyConstraint": _constraint(clique.topology_constraint, topology),
        }
        for clique in cliqueset.standalone_cliques
    ]
    template = cliqueset.template
    mirrored = _mirrored(cliqueset.labels), _mirrored(cliqueset.annotations)
    constraint = _constraint(template.topology_constraint, topology)
    packed = constraint is not None or any(group["topologyConstraint"] for group in groups)
    return {
        "apiVersion": kinds.GANGS.api_version,
        "kind": kinds.GANGS.kind,
        "metadata": {
            "name": name,
            "namespace": cliqueset.namespace,
            "labels": {
                **mirrored[0],
                **labels.owned_by(cliqueset.name),
                labels.NAME: name,
                labels.COMPONENT: labels.COMPONENT_GANG,
                labels.SET_REPLICA_INDEX: str(replica),
                labels.SCHEDULER_BACKEND: backend,
                labels.SCHEDULER_NAME: backend,
            },
            "annotations": {
                **mirrored[1],
                **record(*mirrored),
                labels.TOPOLOGY_NAME: topology.name if topology is not None and packed else None,
                labels.EXTERNAL_BACKEND: "true" if external else None,
                labels.GENERATION_HASH: templates or None,
            },
            "ownerReferences": [owner_reference(cliqueset, kinds.CLIQUESETS.gvk)],
        },
        "spec": {
            "podgroups": groups,
            "topologyConstraint": constraint,
            "priorityClassName": template.priority_class_name or None,
        },
    }


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


def _constraint(
    constraint: TopologyConstraint | None, topology: ClusterTopologyBinding | None
) -> Manifest | None:
    """A constraint in node label keys; domains that the topology does not have are left out and reported."""
    if constraint is None or topology is None:
        return None
    pack = {
        "required": topology.level_key(constraint.required) if constraint.required else None,
        "preferred": topology.level_key(constraint.preferred) if constraint.preferred else None,
    }
    # A key that is no longer asked for must go from a gang that has it.
    return {"packConstraint": pack} if any(pack.values()) else None


def _mirrored(metadata: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in metadata.items() if not key.startswith(_PRIVATE_PREFIXES)}
