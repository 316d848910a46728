"""What of a stored PodCliqueSet cannot be changed any more: `validate_update(new, old)`.

Equality is of meaning: absent and empty are the same. Cliques and scaling groups are compared by name.
"""

from collections.abc import Iterator
from typing import Final

from grove.admission.naming import CLIQUES, GROUPS, TEMPLATE
from grove.api.cliqueset import ANY_ORDER, PodCliqueSet, PodCliqueTemplate
from grove.api.constraints import constraints
from grove.api.topology import TopologyConstraint
from grove.errors import FieldError
from grove.words import counted

IMMUTABLE: Final = "field is immutable"


def validate_update(new: PodCliqueSet, old: PodCliqueSet) -> list[FieldError]:
    """Every change from `old` to `new` that is not allowed. A set that is being deleted may always change."""
    if new.terminating:
        return []
    errors = [
        *_composition(new, old),
        *_cliques(new, old),
        *_groups(new, old),
        *_template(new, old),
        *_topology(new, old),
    ]
    return list(dict.fromkeys(errors))


def _same(field: str, new: object, old: object) -> Iterator[FieldError]:
    if (new or None) != (old or None):
        yield FieldError(field, IMMUTABLE)


def _composition(new: PodCliqueSet, old: PodCliqueSet) -> Iterator[FieldError]:
    names = [clique.name for clique in new.template.cliques]
    before = [clique.name for clique in old.template.cliques]
    if len(names) != len(before):
        yield FieldError(
            CLIQUES,
            f"not allowed to change clique composition: {counted(len(before), 'clique')} became {len(names)}",
        )
    added = [name for name in names if name not in before]
    if added:
        yield FieldError(
            f"{CLIQUES}.name",
            f"not allowed to change clique composition: {', '.join(added)} was not there before",
        )
    elif new.template.clique_startup_type != ANY_ORDER and len(names) == len(before) and names != before:
        yield FieldError(
            CLIQUES, f"the order of cliques cannot change with {new.template.clique_startup_type}"
        )


def _cliques(new: PodCliqueSet, old: PodCliqueSet) -> Iterator[FieldError]:
    before = {clique.name: clique for clique in old.template.cliques}
    for index, clique in enumerate(new.template.cliques):
        if clique.name in before:
            yield from _clique(index, clique, before[clique.name])


def _clique(index: int, new: PodCliqueTemplate, old: PodCliqueTemplate) -> Iterator[FieldError]:
    yield from _same(f"{CLIQUES}.spec.roleName", new.spec.role_name, old.spec.role_name)
    # A role that slept when it was created has no minimum yet; its first one is not a change.
    if old.spec.min_available is not None:
        yield from _same(f"{CLIQUES}.spec.minAvailable", new.spec.min_available, old.spec.min_available)
    yield from _same(f"{CLIQUES}.spec.startsAfter", new.spec.starts_after, old.spec.starts_after)
    names = [str(clique.spec.pod_spec.get("schedulerName") or "") for clique in (new, old)]
    yield from _same(f"{CLIQUES}.spec.podSpec.schedulerName", names[0], names[1])
    yield from _same(f"{CLIQUES}[{index}].resourceSharing", new.resource_sharing, old.resource_sharing)


def _groups(new: PodCliqueSet, old: PodCliqueSet) -> Iterator[FieldError]:
    groups = new.template.pod_clique_scaling_groups
    before = {group.name: group for group in old.template.pod_clique_scaling_groups}
    if len(groups) != len(before):
        yield FieldError(
            GROUPS,
            f"not allowed to add or remove PodCliqueScalingGroupConfigs: {len(before)} became {len(groups)}",
        )
    for index, group in enumerate(groups):
        known = before.get(group.name)
        if known is None:
            yield FieldError(f"{GROUPS}.name", f"{group.name!r} was not there before; {IMMUTABLE}")
            continue
        yield from _same(f"{GROUPS}[{index}].cliqueNames", group.clique_names, known.clique_names)
        yield from _same(
            f"{GROUPS}[{index}].minAvailable", group.min_available or 1, known.min_available or 1
        )
        yield from _same(f"{GROUPS}[{index}].resourceSharing", group.resource_sharing, known.resource_sharing)


def _template(new: PodCliqueSet, old: PodCliqueSet) -> Iterator[FieldError]:
    after, before = new.template, old.template
    yield from _same(f"{TEMPLATE}.cliqueStartupType", after.clique_startup_type, before.clique_startup_type)
    yield from _same(
        f"{TEMPLATE}.resourceClaimTemplates", after.resource_claim_templates, before.resource_claim_templates
    )
    yield from _same(f"{TEMPLATE}.resourceSharing", after.resource_sharing, before.resource_sharing)


def _topology(new: PodCliqueSet, old: PodCliqueSet) -> Iterator[FieldError]:
    """No change, except the move away from packDomain and the repair of sets that name no binding."""
    repairing = any(each.constraint.pack_domain and not each.topology_name for each in constraints(old))
    for field, after, before in _pairs(new, old):
        if _meaning(after) == _meaning(before) and not _goes_back(after, before):
            continue
        if not (repairing and _adds_name(after, before)):
            yield FieldError(field, f"{IMMUTABLE}: topology constraints are decided when the set is created")


def _pairs(
    new: PodCliqueSet, old: PodCliqueSet
) -> Iterator[tuple[str, TopologyConstraint | None, TopologyConstraint | None]]:
    yield f"{TEMPLATE}.topologyConstraint", new.template.topology_constraint, old.template.topology_constraint
    cliques = {clique.name: clique.topology_constraint for clique in old.template.cliques}
    for index, clique in enumerate(new.template.cliques):
        if clique.name in cliques:
            yield f"{CLIQUES}[{index}].topologyConstraint", clique.topology_constraint, cliques[clique.name]
    groups = {group.name: group.topology_constraint for group in old.template.pod_clique_scaling_groups}
    for index, group in enumerate(new.template.pod_clique_scaling_groups):
        if group.name in groups:
            yield f"{GROUPS}[{index}].topologyConstraint", group.topology_constraint, groups[group.name]


def _meaning(constraint: TopologyConstraint | None) -> tuple[str, str | None, str | None] | None:
    """What a constraint says; packDomain says the same as pack.required."""
    if constraint is None:
        return None
    return constraint.topology_name, constraint.required, constraint.preferred


def _goes_back(after: TopologyConstraint | None, before: TopologyConstraint | None) -> bool:
    """Whether the deprecated packDomain takes the place of pack.required."""
    return after is not None and before is not None and bool(after.pack_domain) and not before.pack_domain


def _adds_name(after: TopologyConstraint | None, before: TopologyConstraint | None) -> bool:
    return (
        after is not None
        and before is not None
        and not before.topology_name
        and bool(after.topology_name)
        and (after.pack_domain, after.pack) == (before.pack_domain, before.pack)
    )
