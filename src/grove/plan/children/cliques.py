"""The cliques of a set: one per replica and role. Pure."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from grove.api import kinds, labels, names
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet, PodCliqueTemplate
from grove.meta import Manifest, Object
from grove.plan.changes import replacing
from grove.plan.children.gangs import edited_gang, waits
from grove.plan.children.rows import ChildRow
from grove.plan.children.state import CliqueSetState
from grove.plan.edits import MINIMUM
from grove.plan.hashing import template_hash
from grove.plan.mirroring import record


class Cliques:
    """A clique for each role of each replica; its replicas belong to whoever scales it."""

    resource: Final = kinds.CLIQUES
    view: Final = PodClique
    removal: Final = 1
    selector: Final = ""

    def __init__(self, seen: CliqueSetState) -> None:
        self._seen = seen

    def depends_on(self) -> object:
        return None

    def child_depends_on(self, child: Object) -> object:
        # What a gang that is placed cannot be told decides about the minimum of its cliques.
        return self._seen.placed.get(child.labels.get(labels.POD_GANG, ""))

    def rows(self, replica: int) -> Iterator[ChildRow]:
        for role in self._seen.built_from(replica).roles.values():
            yield self.row(replica, role)

    def find(self, name: str) -> ChildRow | None:
        replica = self._seen.replica_in(name)
        if replica is None:
            return None
        prefix = names.clique(self._seen.cliqueset.name, replica, "")
        role = self._seen.built_from(replica).roles.get(name.removeprefix(prefix))
        return self.row(replica, role) if role is not None and name.startswith(prefix) else None

    def row(self, replica: int, role: PodCliqueTemplate) -> ChildRow:
        """The clique of one role in one replica, which belongs to the replica's base gang."""
        name = names.clique(self._seen.cliqueset.name, replica, role.name)
        return self._seen.row(self.resource, name, replica, partial(self._build, role), _mend)

    def _build(self, role: PodCliqueTemplate, row: ChildRow) -> Manifest:
        seen = self._seen
        return desired_clique(
            row,
            role,
            cliqueset=seen.cliqueset,
            gang=names.base_gang(seen.cliqueset.name, row.replica),
            minimum=_minimum(seen, row, role),
            decided=seen.decided.get(role.name),
        )


def _minimum(seen: CliqueSetState, row: ChildRow, role: PodCliqueTemplate) -> int:
    """How many pods of a role a gang needs; for a role that is scaled to zero, once it is scaled up."""
    name = names.base_gang(seen.cliqueset.name, row.replica)
    wanted = seen.decided.get(role.name, role.spec.minimum)
    gang = seen.gangs.get(name)
    if gang is None or name not in seen.placed or MINIMUM in seen.placed[name]:
        return wanted
    known = {group.name: group.min_replicas for group in gang.spec.podgroups}.get(row.name, wanted)
    if known in (0, wanted) or not waits(seen, edited_gang(seen, row.replica), gang):
        return wanted
    return known


def _mend(desired: Manifest, living: Object) -> Manifest:
    """Replicas are left to whoever scales the clique; of the pod spec everything is ours."""
    assert isinstance(living, PodClique)
    if not _scaled_by_template(desired, living):
        desired["spec"].pop("replicas")
    desired["spec"]["podSpec"] = replacing(desired["spec"]["podSpec"], living.spec.pod_spec)
    return desired


def _scaled_by_template(desired: Manifest, clique: PodClique) -> bool:
    """Whether the replicas of the template were edited since they were last applied to the clique."""
    before = clique.annotations.get(labels.TEMPLATE_REPLICAS)
    now = desired["metadata"]["annotations"][labels.TEMPLATE_REPLICAS]
    return before is not None and before != now and clique.spec.auto_scaling_config is None


def desired_clique(
    row: ChildRow,
    role: PodCliqueTemplate,
    *,
    cliqueset: PodCliqueSet,
    gang: str,
    minimum: int,
    decided: int | None,
) -> Manifest:
    """The clique of one role, as a part of one gang.

    `spec.replicas` belongs to whoever scales the clique, until the template's value is edited: which value
    was applied last stands in an annotation. So does a minimum that was `decided` because the template has
    none.
    """
    spec, autoscaling = role.spec, role.spec.auto_scaling_config
    annotations = {key: value for key, value in role.annotations.items() if key != labels.TOPOLOGY_NAME}
    priority_class = row.revision.template.priority_class_name
    return {
        "apiVersion": kinds.CLIQUES.api_version,
        "kind": kinds.CLIQUES.kind,
        "metadata": {
            "name": row.name,
            "namespace": cliqueset.namespace,
            "labels": {
                **role.labels,
                **labels.owned_by(cliqueset.name),
                labels.NAME: row.name,
                labels.COMPONENT: labels.COMPONENT_CLIQUE,
                labels.SET_REPLICA_INDEX: str(row.replica),
                labels.POD_GANG: gang,
                labels.POD_TEMPLATE_HASH: template_hash(role, priority_class=priority_class),
            },
            "annotations": {
                **annotations,
                **record(role.labels, annotations),
                labels.TEMPLATE_REPLICAS: str(spec.replicas),
                labels.DECIDED_MINIMUM: None if decided is None else str(decided),
            },
        },
        "spec": {
            "roleName": spec.role_name,
            "podSpec": spec.pod_spec,
            "replicas": spec.replicas,
            "minAvailable": minimum,
            "autoScalingConfig": None
            if autoscaling is None
            else {
                "minReplicas": autoscaling.min_replicas,
                "maxReplicas": autoscaling.max_replicas,
                "metrics": list(autoscaling.metrics) or None,
            },
        },
    }
