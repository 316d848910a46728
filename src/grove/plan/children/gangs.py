"""The gangs of a set: what must be placed together or not at all. Pure.

What a set asks for now, and what of it a gang whose pods are on nodes can be told: see `plan.edits`.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

import msgspec

from grove.api import kinds, labels
from grove.api.cliqueset import PodCliqueSet, PodCliqueSetTemplate
from grove.api.gang import PodGang
from grove.api.topology import ClusterTopologyBinding, TopologyConstraint
from grove.meta import Manifest, Object
from grove.plan.children.rows import ChildRow
from grove.plan.children.state import CliqueSetState
from grove.plan.edits import EditedGang, defer_edits, differing_fields, fields_of, is_as_placed
from grove.plan.layout import GroupReplica, PlannedGang
from grove.plan.mirroring import record
from grove.plan.update.revisions import TemplateRevision

#: Metadata of a set that means something to one client only and is not mirrored onto its gangs.
_PRIVATE_PREFIXES: Final = (labels.GROVE_PREFIX, "kubectl.kubernetes.io/")


class Gangs:
    """A base gang for each replica, and a gang for each replica of a scaling group above its minimum.

    Which pods a gang lists and how often it was started is not ours.
    """

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
            tuple(sorted(seen.layout(0).scaled_to.items())),
            (topology.uid, topology.metadata.generation) if topology is not None else None,
            tuple(sorted(seen.references.items())),
        )

    def child_depends_on(self, child: Object) -> object:
        seen = self._seen
        name, follows = child.name, seen.followed_by(child)
        if follows is not None and (planned := find_gang(seen, name)) is not None:
            follows = seen.gang_built_from(planned).hash
        return seen.staying.get(name), seen.placed.get(name), follows

    def rows(self, replica: int) -> Iterator[ChildRow]:
        for gang in self._seen.layout(replica).gangs(replica):
            yield self.row(gang)

    def find(self, name: str) -> ChildRow | None:
        gang = find_gang(self._seen, name)
        return self.row(gang) if gang is not None else None

    def row(self, gang: PlannedGang) -> ChildRow:
        """The row of one gang."""
        revision = self._seen.gang_built_from(gang)
        build = partial(self._build, gang)
        return self._seen.row(self.resource, gang.name, gang.replica, build, _mend, revision=revision)

    def _build(self, planned: PlannedGang, row: ChildRow) -> Manifest:
        """The gang of a replica; of one that is placed, what its scheduler cannot be told stays as it is."""
        seen, gang = self._seen, self._seen.gangs.get(row.name)
        edited = edited_gang(seen, planned)
        annotations = edited.manifest["metadata"]["annotations"]
        annotations[labels.EDIT_PENDING] = None
        if gang is not None and waits(seen, edited, gang):
            fields = differing_fields(edited, gang, seen.placed[row.name])
            annotations[labels.EDIT_PENDING] = ", ".join(fields)
            defer_edits(edited, gang, seen.placed[row.name])
        if gang is not None and row.name in seen.placed:
            # By which templates the gang was started, and what the replica had to share then.
            for name in (labels.GENERATION_HASH, labels.REPLICA_REQUIRED, labels.REPLICA_PREFERRED):
                annotations[name] = gang.annotations.get(name)
        return edited.manifest


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


def find_gang(seen: CliqueSetState, name: str) -> PlannedGang | None:
    """The gang of this name that the set should have."""
    replica = seen.replica_in(name)
    return seen.layout(replica).find_gang(replica, name) if replica is not None else None


def edited_gang(seen: CliqueSetState, planned: PlannedGang) -> EditedGang:
    """The gang as the set asks for it now."""
    backend = seen.staying.get(planned.name, seen.backend)
    manifest = desired_gang(
        seen.cliqueset,
        planned,
        seen.gang_built_from(planned),
        backend=backend,
        external=backend in seen.external,
        topology=seen.topology,
        reference=seen.references.get(backend, ""),
        minima=_minima(seen, planned),
    )
    return EditedGang(manifest, fields_of(seen.layout(planned.replica), planned))


def _minima(seen: CliqueSetState, planned: PlannedGang) -> dict[str, int]:
    """By clique, how many pods the gang needs where the template does not say: none while scaled to zero."""
    minima = {}
    for each in planned.cliques:
        clique = seen.cliques.get(each.name)
        if not each.exists or (clique is not None and clique.spec.replicas == 0):
            minima[each.name] = 0
        elif each.role.name in seen.decided:
            minima[each.name] = seen.decided[each.role.name]
    return minima


def waits(seen: CliqueSetState, edited: EditedGang, gang: PodGang) -> bool:
    """Whether the set was edited since the gang was placed, and the scheduler cannot be told."""
    editable = seen.placed.get(gang.name)
    if editable is None or not differing_fields(edited, gang, editable):
        return False
    # What only the gang has otherwise, somebody wrote into it: that is mended.
    return not is_as_placed(edited.manifest, gang, seen.revision(gang.name))


def desired_gang(
    cliqueset: PodCliqueSet,
    planned: PlannedGang,
    revision: TemplateRevision,
    *,
    backend: str,
    external: bool = False,
    topology: ClusterTopologyBinding | None = None,
    reference: str = "",
    minima: Mapping[str, int] | None = None,
) -> Manifest:
    """A gang as it is born: its podgroups listed, no pod referenced yet.

    `reference` is the scheduler's own topology object, where it is not named like `topology`. `minima` says
    by clique how many pods the gang cannot do without, where that is not the template's.
    """
    template = revision.template
    groups: list[Manifest] = [
        {
            "name": clique.name,
            "podReferences": [],
            "minReplicas": (minima or {}).get(clique.name, clique.role.spec.minimum),
            "topologyConstraint": _constraint(clique.role.topology_constraint, topology),
        }
        for clique in planned.cliques
    ]
    constraint = _constraint(_own_constraint(planned, template), topology)
    packs = list(_packed_groups(planned, topology))
    packed = constraint or packs or any(group["topologyConstraint"] for group in groups)
    mirrored = _mirrored(cliqueset.labels), _mirrored(cliqueset.annotations)
    return {
        "apiVersion": kinds.GANGS.api_version,
        "kind": kinds.GANGS.kind,
        "metadata": {
            "name": planned.name,
            "namespace": cliqueset.namespace,
            "labels": {**mirrored[0], **_labels(cliqueset, planned, backend)},
            "annotations": {
                **mirrored[1],
                **record(*mirrored),
                labels.TOPOLOGY_NAME: topology.name if topology is not None and packed else None,
                labels.SCHEDULER_TOPOLOGY: reference if packed and reference else None,
                **_shared_by_replica(planned, template, topology),
                labels.EXTERNAL_BACKEND: "true" if external else None,
                labels.GENERATION_HASH: revision.hash or None,
                labels.TEMPLATE_REVISION: revision.hash or None,
            },
        },
        "spec": {
            "podgroups": groups,
            "topologyConstraint": constraint,
            "topologyConstraintGroupConfigs": packs or None,
            "priorityClassName": template.priority_class_name or None,
        },
    }


def _labels(cliqueset: PodCliqueSet, planned: PlannedGang, backend: str) -> dict[str, str]:
    found = {
        **labels.owned_by(cliqueset.name),
        labels.NAME: planned.name,
        labels.COMPONENT: labels.COMPONENT_GANG,
        labels.SET_REPLICA_INDEX: str(planned.replica),
        labels.SCHEDULER_BACKEND: backend,
        labels.SCHEDULER_NAME: backend,
    }
    if planned.group is not None:
        found[labels.BASE_POD_GANG] = planned.base
        found[labels.SCALING_GROUP] = planned.group.group
        found[labels.SCALING_GROUP_REPLICA_INDEX] = str(planned.group.number)
    return found


def _own_constraint(planned: PlannedGang, template: PodCliqueSetTemplate) -> TopologyConstraint | None:
    """The constraint of the whole gang: a scaled gang has that of its group, if the group has one."""
    own = planned.group.config.topology_constraint if planned.group is not None else None
    return own or template.topology_constraint


def _shared_by_replica(
    planned: PlannedGang, template: PodCliqueSetTemplate, topology: ClusterTopologyBinding | None
) -> Manifest:
    """What the set asks of all pods of a replica: nobody but a scaled gang itself can be told of it."""
    asked = _constraint(template.topology_constraint, topology) if planned.group is not None else None
    pack = asked["packConstraint"] if asked is not None else {}
    return {labels.REPLICA_REQUIRED: pack.get("required"), labels.REPLICA_PREFERRED: pack.get("preferred")}


def _packed_groups(planned: PlannedGang, topology: ClusterTopologyBinding | None) -> Iterator[Manifest]:
    """The replicas of scaling groups within a base gang that have a constraint of their own."""
    if planned.group is not None:
        return
    members: dict[str, tuple[GroupReplica, list[str]]] = {}
    for clique in planned.cliques:
        if clique.group is not None:
            members.setdefault(clique.group.name, (clique.group, []))[1].append(clique.name)
    for name, (group, cliques) in members.items():
        constraint = _constraint(group.config.topology_constraint, topology)
        if constraint is not None:
            yield {"name": name, "podGroupNames": cliques, "topologyConstraint": constraint}


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
