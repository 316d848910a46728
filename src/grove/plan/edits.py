"""What an edit of a set does to gangs that are placed already. Pure.

A gang without pods on nodes takes every edit: it gets another revision and new pods. Of a gang with pods on
nodes a scheduler can be told only some things (`backends.base.Edit`). Whatever else is edited waits until the
gang is placed again, so that a pod lost meanwhile belongs to the same gang as the others and is placed
again.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from grove.api import conditions, labels, names
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import GangTopologyConstraint, PodGang, PodGroup
from grove.api.revision import revision_with
from grove.errors import FieldError
from grove.meta import Manifest
from grove.plan.layout import Layout, PlannedGang
from grove.plan.moves import PodsOf, backend_of

MINIMUM: Final = "minimum"
PRIORITY: Final = "priority"
TOPOLOGY: Final = "topology"


class GangFields(NamedTuple):
    """The fields of a set from which the parts of a gang come."""

    #: The constraint of the whole gang.
    constraint: str
    #: By podgroup, the role.
    roles: Mapping[str, str]
    #: By group of podgroups, the scaling group.
    groups: Mapping[str, str]


class EditedGang(NamedTuple):
    """A gang as the set asks for it now, and where that stands in the set."""

    manifest: Manifest
    fields: GangFields


def fields_of(layout: Layout, planned: PlannedGang) -> GangFields:
    """Where in the set each part of a gang stands."""
    configs = {config.name: f"{_GROUPS}[{index}]" for index, config in enumerate(layout.groups_of_template)}
    group = planned.group
    own = group is not None and group.config.topology_constraint is not None
    return GangFields(
        f"{configs[group.config.name]}.topologyConstraint" if group is not None and own else _TOPOLOGY_FIELD,
        {each.name: f"{_CLIQUES}[{layout.position(each.role.name)}]" for each in planned.cliques},
        {each.group.name: configs[each.group.config.name] for each in planned.cliques if each.group},
    )


def is_placed(gang: PodGang, pods_of: PodsOf) -> bool:
    """Whether pods of a gang are on nodes; of one that says so the pods are not counted again."""
    told = {each.type for each in gang.status.conditions if each.is_true}
    if conditions.SCHEDULED in told or conditions.INITIALIZED not in told:
        return conditions.SCHEDULED in told
    return any(pod.active and pod.bound and labels.POD_CLIQUE in pod.labels for pod in pods_of(gang))


def placed_gangs(
    gangs: Mapping[str, PodGang], pods_of: PodsOf, editable: Callable[[PodGang], Collection[str]]
) -> dict[str, frozenset[str]]:
    """The gangs that have pods on nodes, and which edits their schedulers can be told of.

    `editable` is asked for one gang of each backend.
    """
    found: dict[str, frozenset[str]] = {}
    known: dict[str, frozenset[str]] = {}
    for name, gang in gangs.items():
        if is_placed(gang, pods_of):
            backend = backend_of(gang)
            if backend not in known:
                known[backend] = frozenset(editable(gang))
            found[name] = known[backend]
    return found


def decided_minima(
    cliqueset: PodCliqueSet, cliques: Mapping[str, PodClique], gangs: Mapping[str, PodGang]
) -> dict[str, int]:
    """By role without a minimum of its own, the one that was decided for the first clique of it that exists.

    The default, all replicas of the template, is decided once. Neither an edit of `replicas` moves it
    afterwards, nor the loss of the clique: the first gang has it too.
    """
    decided = {}
    groups = cliqueset.template.pod_clique_scaling_groups
    group_of = {role: group.name for group in groups for role in group.clique_names}
    for template in cliqueset.template.cliques:
        if template.spec.min_available is not None:
            continue
        group = group_of.get(template.name, "")
        first = _first(cliqueset, template.name, group, cliques)
        name = first.name if first is not None else _names_of_role(cliqueset, template.name, group)(0)
        replica = names.set_replica(cliqueset.name, name) or 0
        there = _minimum_in(gangs.get(names.base_gang(cliqueset.name, replica)), name)
        wanted = template.spec.minimum
        decided[template.name] = there or wanted if first is None else _decided(first, there, wanted)
    return decided


def _names_of_role(cliqueset: PodCliqueSet, role: str, group: str) -> Callable[[int], str]:
    """By replica, the name of the clique of a role; of a scaling group that of its first replica."""

    def name_in(replica: int) -> str:
        if not group:
            return names.clique(cliqueset.name, replica, role)
        return names.group_clique(names.scaling_group(cliqueset.name, replica, group), 0, role)

    return name_in


def _minimum_in(gang: PodGang | None, clique: str) -> int:
    """What a gang that had pods needs of a clique; 0 where it has none, or one that is scaled to zero."""
    groups = gang.spec.podgroups if gang is not None else ()
    if not any(each.pod_references for each in groups):
        return 0
    return next((each.min_replicas for each in groups if each.name == clique), 0)


def _first(
    cliqueset: PodCliqueSet, role: str, group: str, cliques: Mapping[str, PodClique]
) -> PodClique | None:
    """The clique of a role in the lowest replica that has one, among those that the set keeps.

    Of a scaling group the first replica is asked: it is the last to go.
    """
    name_in = _names_of_role(cliqueset, role, group)
    kept = range(cliqueset.spec.replicas)
    first = cliques.get(name_in(0)) if kept else None
    if first is not None:
        return first
    # Only the replicas that exist are tried: a set may ask for any number of them.
    numbers = {names.set_replica(cliqueset.name, name) for name in cliques}
    there = sorted(number for number in numbers if number is not None and number in kept)
    return next(filter(None, (cliques.get(name_in(number)) for number in there)), None)


def _decided(clique: PodClique, there: int, most: int) -> int:
    """What was decided for a clique. Where its record was edited, its minimum or that of its gang tells.

    `there` is what its gang needs of it, and `most` are the replicas of its template.
    """
    text, minimum = clique.annotations.get(labels.DECIDED_MINIMUM, ""), clique.spec.minimum
    if not (text.isascii() and text.isdigit()):
        return minimum
    said = int(text)
    if said == minimum or 0 < said == there:
        return said
    if minimum == there or not 0 < said <= max(most, clique.spec.replicas):
        return minimum
    return said


def differing_fields(edited: EditedGang, gang: PodGang, editable: Collection[str]) -> list[str]:
    """The fields of a set that a placed gang has otherwise and its scheduler cannot be told."""
    spec, fields = edited.manifest["spec"], []
    if PRIORITY not in editable and (spec["priorityClassName"] or "") != gang.spec.priority_class_name:
        fields.append(_PRIORITY_FIELD)
    if TOPOLOGY not in editable:
        fields += _differing_constraints(edited, gang)
    for wanted, group in _matched(edited.manifest, gang):
        asleep = 0 in (wanted["minReplicas"], group.min_replicas)
        if MINIMUM not in editable and not asleep and wanted["minReplicas"] != group.min_replicas:
            fields.append(f"{edited.fields.roles[group.name]}.spec.minAvailable")
    return list(dict.fromkeys(fields))


def _differing_constraints(edited: EditedGang, gang: PodGang) -> Iterator[str]:
    spec, fields = edited.manifest["spec"], edited.fields
    if _pack(spec["topologyConstraint"]) != _packed(gang.spec.topology_constraint):
        yield fields.constraint
    wanted, there = _packs_by_group(edited.manifest), _packed_by_group(gang)
    for name in sorted(wanted.keys() | there.keys()):
        if wanted.get(name) != there.get(name) and name in fields.groups:
            yield f"{fields.groups[name]}.topologyConstraint"
    for each, group in _matched(edited.manifest, gang):
        if _pack(each["topologyConstraint"]) != _packed(group.topology_constraint):
            yield f"{fields.roles[group.name]}.topologyConstraint"


def shape_of(desired: Manifest) -> tuple[object, ...]:
    """What a scheduler is told of a desired gang, without the names of its podgroups."""
    spec = desired["spec"]
    groups = [(each["minReplicas"], _pack(each["topologyConstraint"])) for each in spec["podgroups"]]
    packs = [_pack(each["topologyConstraint"]) for each in spec["topologyConstraintGroupConfigs"] or ()]
    return spec["priorityClassName"] or "", _pack(spec["topologyConstraint"]), groups, packs


def has_shape(gang: PodGang, shape: tuple[object, ...]) -> bool:
    """Whether a gang is told in this way; it costs little, and most gangs of a set are."""
    spec = gang.spec
    groups = [(each.min_replicas, _packed(each.topology_constraint)) for each in spec.podgroups]
    packs = [_packed(each.topology_constraint) for each in spec.topology_constraint_group_configs]
    return (spec.priority_class_name, _packed(spec.topology_constraint), groups, packs) == shape


def is_as_placed(desired: Manifest, gang: PodGang, revision: str) -> bool:
    """Whether a gang was placed as it is desired now, whatever somebody wrote into it since."""
    spec = desired["spec"]
    podgroups = [
        (each["name"], each["minReplicas"], _pack(each["topologyConstraint"])) for each in spec["podgroups"]
    ]
    groups = [
        (each["name"], tuple(each["podGroupNames"]), _pack(each["topologyConstraint"]))
        for each in spec["topologyConstraintGroupConfigs"] or ()
    ]
    constraint, priority = _pack(spec["topologyConstraint"]), spec["priorityClassName"] or ""
    return revision_with(gang, podgroups, groups, constraint, priority) == revision


def defer_edits(edited: EditedGang, gang: PodGang, editable: Collection[str]) -> None:
    """Keep what a placed gang cannot be told as the gang has it, changing the manifest."""
    desired = edited.manifest
    fields, spec = differing_fields(edited, gang, editable), desired["spec"]
    if _PRIORITY_FIELD in fields:
        spec["priorityClassName"] = gang.spec.priority_class_name or None
    for wanted, group in _matched(desired, gang):
        if MINIMUM not in editable and 0 not in (wanted["minReplicas"], group.min_replicas):
            wanted["minReplicas"] = group.min_replicas
    if not any(field.endswith("topologyConstraint") for field in fields):
        return
    spec["topologyConstraint"] = _constraint(gang.spec.topology_constraint)
    spec["topologyConstraintGroupConfigs"] = [
        {
            "name": each.name,
            "podGroupNames": list(each.pod_group_names),
            "topologyConstraint": _constraint(each.topology_constraint),
        }
        for each in gang.spec.topology_constraint_group_configs
    ] or None
    for wanted, group in _matched(desired, gang):
        wanted["topologyConstraint"] = _constraint(group.topology_constraint)
    # KAI takes constraints of a named topology only.
    for name in (labels.TOPOLOGY_NAME, labels.SCHEDULER_TOPOLOGY):
        desired["metadata"]["annotations"][name] = gang.annotations.get(name)


def _matched(desired: Manifest, gang: PodGang) -> Iterator[tuple[Manifest, PodGroup]]:
    """The desired podgroups that the gang has already, each with its counterpart."""
    there = {group.name: group for group in gang.spec.podgroups}
    for wanted in desired["spec"]["podgroups"]:
        if wanted["name"] in there:
            yield wanted, there[wanted["name"]]


_CLIQUES: Final = "spec.template.cliques"
_GROUPS: Final = "spec.template.podCliqueScalingGroups"
_PRIORITY_FIELD: Final = "spec.template.priorityClassName"
_TOPOLOGY_FIELD: Final = "spec.template.topologyConstraint"


def impossible_edits(
    cliqueset: PodCliqueSet,
    layout: Layout,
    cliques: Mapping[str, PodClique],
    gangs: Mapping[str, PodGang],
    placed: Collection[str],
) -> list[FieldError]:
    """What cannot be done to a set of which gangs are placed, with the way out."""
    for name in sorted(placed):
        replica = names.set_replica(cliqueset.name, name)
        if replica is None or replica >= cliqueset.spec.replicas:
            continue
        planned = layout.find_gang(replica, name)
        if planned is None:
            # A scaled gang that goes.
            continue
        wanted = {clique.name for clique in planned.cliques}
        there = {group.name for group in gangs[name].spec.podgroups}
        # A podgroup that somebody took from the gang or put into it is no edit of the set: it is put right.
        changed = {each for each in there ^ wanted if (each in cliques) is (each in there)}
        if changed:
            prefix = names.clique(cliqueset.name, replica, "")
            listed = ", ".join(sorted(each.removeprefix(prefix) for each in changed))
            message = (
                f"roles were added or removed ({listed}) while gang {name} is placed, which its "
                "scheduler does not support; delete the set and create it again"
            )
            return [FieldError("spec.template.cliques", message)]
    return _below_decided(cliqueset, cliques, gangs)


def _below_decided(
    cliqueset: PodCliqueSet, cliques: Mapping[str, PodClique], gangs: Mapping[str, PodGang]
) -> list[FieldError]:
    """Roles with fewer replicas than the minimum that was decided by default, but more than none."""
    errors, decided = [], decided_minima(cliqueset, cliques, gangs)
    for position, template in enumerate(cliqueset.template.cliques):
        if template.spec.min_available is not None:
            continue
        minimum = decided.get(template.name, 0)
        if 0 < template.spec.replicas < minimum:
            errors.append(
                FieldError(
                    f"spec.template.cliques[{position}].spec.replicas",
                    f"{template.spec.replicas} is below minAvailable, which is {minimum}: it was left out "
                    "and became the replicas that the set had when it was created; set minAvailable too",
                )
            )
    return errors


def pending_sentence(waiting: Mapping[str, Sequence[str]], namespace: str) -> str:
    """What waits for which gangs, and how to make it take effect."""
    gangs = sorted(waiting)
    others = f" and {len(gangs) - 1} more" if len(gangs) > 1 else ""
    fields = ", ".join(dict.fromkeys(field for name in gangs for field in waiting[name]))
    return (
        f"{fields}: edited while pods of gang {gangs[0]}{others} are on nodes, which its scheduler does "
        f"not support; takes effect when the gang is placed again: kubectl delete pods -n {namespace} "
        f"-l {labels.POD_GANG}={gangs[0]} does that at once"
    )


def _pack(constraint: Manifest | None) -> tuple[str | None, str | None]:
    pack = (constraint or {}).get("packConstraint") or {}
    return pack.get("required"), pack.get("preferred")


def _packed(constraint: GangTopologyConstraint | None) -> tuple[str | None, str | None]:
    return (constraint.required, constraint.preferred) if constraint is not None else (None, None)


def _packs_by_group(desired: Manifest) -> dict[str, tuple[str | None, str | None]]:
    configs = desired["spec"]["topologyConstraintGroupConfigs"] or ()
    return {each["name"]: _pack(each["topologyConstraint"]) for each in configs}


def _packed_by_group(gang: PodGang) -> dict[str, tuple[str | None, str | None]]:
    configs = gang.spec.topology_constraint_group_configs
    return {each.name: _packed(each.topology_constraint) for each in configs}


def _constraint(constraint: GangTopologyConstraint | None) -> Manifest | None:
    required, preferred = _packed(constraint)
    return (
        {"packConstraint": {"required": required, "preferred": preferred}} if required or preferred else None
    )
