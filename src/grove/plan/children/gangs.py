"""The gangs of a set: what must be placed together or not at all. Pure.

What a set asks for now, and what of it a gang whose pods are on nodes can be told: see `plan.edits`.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from grove.api import kinds, labels, names
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.topology import ClusterTopologyBinding, TopologyConstraint
from grove.meta import Manifest, Object
from grove.plan.children.rows import ChildRow, TemplateRevision
from grove.plan.children.state import CliqueSetState
from grove.plan.edits import defer_edits, differing_fields, is_as_placed
from grove.plan.mirroring import record

#: Metadata of a set that means something to one client only and is not mirrored onto its gangs.
_PRIVATE_PREFIXES: Final = (labels.GROVE_PREFIX, "kubectl.kubernetes.io/")


class Gangs:
    """A base gang for each replica; which pods it lists and how often it was started is not ours."""

    resource: Final = kinds.GANGS
    view: Final = PodGang
    #: First, so that nothing places what goes.
    removal: Final = 0
    selector: Final = ""

    def __init__(self, seen: CliqueSetState) -> None:
        self._seen = seen

    def depends_on(self) -> object:
        seen, topology = self._seen, self._seen.topology
        return (
            seen.backend,
            seen.external,
            frozenset(name for name, clique in seen.cliques.items() if clique.spec.replicas == 0),
            (topology.uid, topology.metadata.generation) if topology is not None else None,
        )

    def child_depends_on(self, child: Object) -> object:
        return self._seen.staying.get(child.name), self._seen.placed.get(child.name)

    def rows(self, replica: int) -> Iterator[ChildRow]:
        yield self.row(replica)

    def find(self, name: str) -> ChildRow | None:
        replica = self._seen.replica_in(name)
        if replica is None or name != names.base_gang(self._seen.cliqueset.name, replica):
            return None
        return self.row(replica)

    def row(self, replica: int) -> ChildRow:
        """The base gang of one replica."""
        name = names.base_gang(self._seen.cliqueset.name, replica)
        return self._seen.row(self.resource, name, replica, self._build, _mend)

    def _build(self, row: ChildRow) -> Manifest:
        """The gang of a replica; of one that is placed, what its scheduler cannot be told stays as it is."""
        seen, gang = self._seen, self._seen.gangs.get(row.name)
        desired = edited_gang(seen, row.replica)
        annotations = desired["metadata"]["annotations"]
        annotations[labels.EDIT_PENDING] = None
        if gang is not None and waits(seen, desired, gang):
            fields = differing_fields(desired, gang, seen.placed[row.name])
            annotations[labels.EDIT_PENDING] = ", ".join(fields)
            defer_edits(desired, gang, seen.placed[row.name])
        if gang is not None and row.name in seen.placed:
            # It says from which templates the pods on nodes were made.
            annotations[labels.GENERATION_HASH] = gang.annotations.get(labels.GENERATION_HASH)
        return desired


def _mend(desired: Manifest, living: Object) -> Manifest:
    """Pod references and the count of restarts are kept; restarts are counted for one scheduler only."""
    assert isinstance(living, PodGang)
    referenced = {group.name: group.pod_references for group in living.spec.podgroups}
    for group in desired["spec"]["podgroups"]:
        group["podReferences"] = [msgspec.to_builtins(ref) for ref in referenced.get(group["name"], ())]
    metadata = desired["metadata"]
    moved = living.labels.get(labels.SCHEDULER_BACKEND) != metadata["labels"][labels.SCHEDULER_BACKEND]
    if not moved and labels.RESTARTS in living.annotations:
        metadata["annotations"][labels.RESTARTS] = living.annotations[labels.RESTARTS]
    return desired


def edited_gang(seen: CliqueSetState, replica: int) -> Manifest:
    """The gang as the set asks for it now."""
    cliqueset, name = seen.cliqueset, names.base_gang(seen.cliqueset.name, replica)
    backend, revision = seen.staying.get(name, seen.backend), seen.built_from(replica)
    minima = dict(seen.decided)
    for role in revision.roles:
        clique = seen.cliques.get(names.clique(cliqueset.name, replica, role))
        if clique is not None and clique.spec.replicas == 0:
            minima[role] = 0
    return desired_gang(
        cliqueset,
        replica,
        revision,
        backend=backend,
        external=backend in seen.external,
        topology=seen.topology,
        minima=minima,
    )


def waits(seen: CliqueSetState, desired: Manifest, gang: PodGang) -> bool:
    """Whether the set was edited since the gang was placed, and the scheduler cannot be told."""
    editable = seen.placed.get(gang.name)
    if editable is None or not differing_fields(desired, gang, editable):
        return False
    # What only the gang has otherwise, somebody wrote into it: that is mended.
    return not is_as_placed(desired, gang, seen.revision(gang.name))


def desired_gang(
    cliqueset: PodCliqueSet,
    replica: int,
    revision: TemplateRevision,
    *,
    backend: str,
    external: bool = False,
    topology: ClusterTopologyBinding | None = None,
    minima: Mapping[str, int] | None = None,
) -> Manifest:
    """The base gang of one replica, as it is born: its podgroups listed, no pod referenced yet.

    `minima` says by role how many pods the gang cannot do without, where that is not what the template says.
    """
    name, template = names.base_gang(cliqueset.name, replica), revision.template
    groups: list[Manifest] = [
        {
            "name": names.clique(cliqueset.name, replica, clique.name),
            "podReferences": [],
            "minReplicas": (minima or {}).get(clique.name, clique.spec.minimum),
            "topologyConstraint": _constraint(clique.topology_constraint, topology),
        }
        for clique in revision.roles.values()
    ]
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
                labels.GENERATION_HASH: revision.hash or None,
            },
        },
        "spec": {
            "podgroups": groups,
            "topologyConstraint": constraint,
            "priorityClassName": template.priority_class_name or None,
        },
    }


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
