"""The cliques of a set: one per replica and role, and for each replica of a scaling group. Pure."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from msgspec.structs import replace as replace_fields

from grove.api import kinds, labels, names
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet, PodCliqueTemplate
from grove.meta import Manifest, Object
from grove.plan.changes import Exactly, present, replacing
from grove.plan.children.gangs import edited_gang, waits
from grove.plan.children.rows import ChildRow, Owner
from grove.plan.children.scaling import keep_scaled
from grove.plan.children.state import CliqueSetState
from grove.plan.domains import domain_group, with_domain
from grove.plan.edits import MINIMUM
from grove.plan.environment import group_environment, with_environment
from grove.plan.layout import Layout, PlannedClique
from grove.plan.mirroring import record
from grove.plan.startup import parent_cliques
from grove.plan.update.revisions import TemplateRevision, follows, means_the_same, of_a_template
from grove.plan.update.template_labels import remembering, template_label


class Cliques:
    """A clique for each role of each replica; its replicas belong to whoever scales it.

    The cliques of a scaling group are owned by the group and come once that exists.
    """

    resource: Final = kinds.CLIQUES
    view: Final = PodClique
    removal: Final = 1
    selector: Final = ""

    def __init__(self, seen: CliqueSetState) -> None:
        self._seen = seen

    def depends_on(self) -> object:
        return tuple(sorted(self._seen.layout(0).scaled_to.items()))

    def child_depends_on(self, child: Object) -> object:
        seen = self._seen
        follows = seen.followed_by(child)
        if follows is not None and (found := self.planned(child.name)) is not None:
            follows = seen.clique_built_from(*found).hash
        # What a gang that is placed cannot be told decides about the minimum of its cliques.
        return seen.placed.get(child.labels.get(labels.POD_GANG, "")), follows

    def rows(self, replica: int) -> Iterator[ChildRow]:
        for clique in self._seen.layout(replica).cliques(replica):
            if (row := self._owned_row(replica, clique)) is not None:
                yield row

    def find(self, name: str) -> ChildRow | None:
        found = self.planned(name)
        return self._owned_row(*found) if found is not None else None

    def planned(self, name: str) -> tuple[int, PlannedClique] | None:
        """The clique with this name as its set plans it, and its replica."""
        replica = self._seen.replica_in(name)
        clique = self._seen.layout(replica).find_clique(replica, name) if replica is not None else None
        return (replica, clique) if replica is not None and clique is not None else None

    def _owned_row(self, replica: int, clique: PlannedClique) -> ChildRow | None:
        """The row of a clique; None while the scaling group that should own it does not exist."""
        if clique.group is None:
            return self.row(replica, clique)
        group = self._seen.groups.get(clique.group.group)
        return self.row(replica, clique, Owner(kinds.SCALING_GROUPS, group)) if group is not None else None

    def row(self, replica: int, clique: PlannedClique, owner: Owner | None = None) -> ChildRow:
        """The row of a clique that the set owns, unless another owner is named."""
        build = partial(self._build, clique)
        revision = self._seen.clique_built_from(replica, clique)
        mend = partial(_mend, self._seen, clique.role.name) if revision.known else _mend_all_but_pods
        return self._seen.row(self.resource, clique.name, replica, build, mend, owner, revision)

    def _build(self, clique: PlannedClique, row: ChildRow) -> Manifest:
        seen = self._seen
        return desired_clique(
            row,
            clique,
            cliqueset=seen.cliqueset,
            minimum=_minimum(seen, row, clique),
            decided=seen.decided.get(clique.role.name),
        )


def _minimum(seen: CliqueSetState, row: ChildRow, clique: PlannedClique) -> int:
    """How many pods of a role a gang needs; for a role that is scaled to zero, once it is scaled up."""
    wanted = seen.decided.get(clique.role.name, clique.role.spec.minimum)
    gang = seen.gangs.get(clique.gang)
    if gang is None or gang.name not in seen.placed or MINIMUM in seen.placed[gang.name]:
        return wanted
    known = {group.name: group.min_replicas for group in gang.spec.podgroups}.get(row.name, wanted)
    if known in (0, wanted):
        return wanted
    planned = seen.layout(row.replica).find_gang(row.replica, gang.name)
    if planned is None or not waits(seen, edited_gang(seen, planned), gang):
        return wanted
    return known


def _mend(seen: CliqueSetState, role: str, desired: Manifest, living: Object) -> Manifest:
    """Replicas are left to whoever scales the clique; of the pod spec everything is ours."""
    assert isinstance(living, PodClique)
    desired = keep_scaled(desired, living, autoscaled=desired["spec"]["autoScalingConfig"] is not None)
    metadata, pods = desired["metadata"], seen.pods_of(living)
    ours, told = metadata["labels"][labels.POD_TEMPLATE_HASH], living.labels.get(labels.POD_TEMPLATE_HASH)
    label = metadata["labels"][labels.POD_TEMPLATE_HASH] = template_label(desired, living, pods)
    metadata["annotations"][labels.TEMPLATE_LABELS] = living.annotations.get(labels.TEMPLATE_LABELS)
    if label != ours and means_the_same(desired, living):
        # Another release or operator wrote it: what it stands for is the same, and pods carry it.
        desired["spec"].pop("podSpec")
        return desired
    if label != told and not means_the_same(desired, living):
        before = seen.update.known(follows(living) or "") if seen.update is not None else None
        known = before.pod_template(role) if before is not None else ""
        metadata["annotations"][labels.TEMPLATE_LABELS] = remembering(living, known, pods)
    wanted = desired["spec"]["podSpec"]
    pod_spec = desired["spec"]["podSpec"] = replacing(wanted, living.spec.pod_spec)
    if wanted.get("volumes"):
        pod_spec["volumes"] = Exactly(present(wanted["volumes"]))
    return desired


def _mend_all_but_pods(desired: Manifest, living: Object) -> Manifest:
    """A clique keeps a pod template that nobody recorded until it has its turn."""
    assert isinstance(living, PodClique)
    desired = keep_scaled(desired, living, autoscaled=desired["spec"]["autoScalingConfig"] is not None)
    desired["spec"].pop("podSpec")
    ours = {key: value for key, value in desired["metadata"]["labels"].items() if not of_a_template(key)}
    ours.pop(labels.POD_TEMPLATE_HASH)
    desired["metadata"]["labels"] = {**living.labels, **ours}
    desired["metadata"]["annotations"] = dict(living.annotations)
    return desired


def has_present_template(seen: CliqueSetState, clique: PodClique) -> bool:
    """Whether a clique that somebody else made has the pod template that the set asks for now."""
    row = Cliques(_without_update(seen)).find(clique.name)
    return row is not None and means_the_same(row.manifest(), clique)


def has_template(seen: CliqueSetState, clique: PodClique, revision: TemplateRevision) -> bool:
    """Whether a clique has the pod template of a revision that is recorded."""
    row = Cliques(_without_update(seen)).find(clique.name)
    return row is not None and means_the_same(row._replace(revision=revision).manifest(), clique)


def with_own_label(seen: CliqueSetState, clique: PodClique) -> PodClique:
    """A clique that follows the present template, with the label that it gets where somebody edited it."""
    cliques = Cliques(_without_update(seen))
    found, told = cliques.planned(clique.name), clique.labels.get(labels.POD_TEMPLATE_HASH)
    row = cliques.find(clique.name) if found is not None else None
    if found is None or row is None:
        return clique
    ours = row.revision.pod_template(found[1].role.name)
    if told == ours and labels.TEMPLATE_LABELS not in clique.annotations:
        return clique
    label = template_label(row.manifest(), clique, seen.pods_of(clique))
    metadata = replace_fields(clique.metadata, labels={**clique.labels, labels.POD_TEMPLATE_HASH: label})
    return replace_fields(clique, metadata=metadata)


def _without_update(seen: CliqueSetState) -> CliqueSetState:
    return seen if seen.update is None else replace(seen, update=None)


def desired_clique(
    row: ChildRow, clique: PlannedClique, *, cliqueset: PodCliqueSet, minimum: int, decided: int | None
) -> Manifest:
    """The clique of one role, as a part of one gang.

    `spec.replicas` belongs to whoever scales the clique, until the template's value is edited: which value
    was applied last stands in an annotation. So does a minimum that was `decided` because the template has
    none.
    """
    template = row.revision.template
    role = row.revision.role(clique.role.name) or clique.role
    spec, layout = clique.role.spec, Layout(cliqueset.name, template)
    annotations = {key: value for key, value in role.annotations.items() if key != labels.TOPOLOGY_NAME}
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
                labels.COMPONENT: _component(clique),
                labels.SET_REPLICA_INDEX: str(row.replica),
                labels.POD_GANG: clique.gang,
                labels.POD_TEMPLATE_HASH: row.revision.pod_template(role.name),
                **_group_labels(clique, base=names.base_gang(cliqueset.name, row.replica)),
            },
            "annotations": {
                **annotations,
                **record(role.labels, annotations),
                labels.TEMPLATE_REPLICAS: str(spec.replicas),
                labels.TEMPLATE_REVISION: row.revision.hash or None,
                labels.DECIDED_MINIMUM: None if decided is None else str(decided),
            },
        },
        "spec": {
            "roleName": spec.role_name,
            "podSpec": _pod_spec(row, clique, cliqueset, role),
            "replicas": spec.replicas,
            "minAvailable": minimum,
            "startsAfter": list(parent_cliques(layout, row.replica, clique)) or None,
            "autoScalingConfig": _autoscaling(clique),
        },
    }


def _component(clique: PlannedClique) -> str:
    return labels.COMPONENT_CLIQUE if clique.group is None else labels.COMPONENT_GROUP_CLIQUE


def _group_labels(clique: PlannedClique, *, base: str) -> dict[str, str]:
    """The labels that say which replica of which scaling group a clique belongs to."""
    group = clique.group
    if group is None:
        return {}
    found = {labels.SCALING_GROUP: group.group, labels.SCALING_GROUP_REPLICA_INDEX: str(group.number)}
    return {**found, labels.BASE_POD_GANG: base} if group.scaled else found


def _pod_spec(
    row: ChildRow, clique: PlannedClique, cliqueset: PodCliqueSet, role: PodCliqueTemplate
) -> Manifest:
    """The role's pod spec; GPUs join their NVLink domain, and containers learn about their scaling group."""
    spec = role.spec.pod_spec
    if group := domain_group(cliqueset, role):
        spec = with_domain(spec, names.compute_domain(cliqueset.name, row.replica, group))
    if clique.group is None:
        return spec
    members = set(clique.group.config.clique_names)
    pods = sum(role.spec.replicas for role in row.revision.template.cliques if role.name in members)
    return with_environment(spec, group_environment(pods))


def _autoscaling(clique: PlannedClique) -> Manifest | None:
    spec = clique.role.spec
    if (config := spec.auto_scaling_config) is None:
        return None
    return {
        "minReplicas": config.lowest(spec.replicas, spec.min_available),
        "maxReplicas": config.max_replicas,
        "metrics": list(config.metrics) or None,
    }
