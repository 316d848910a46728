"""Whether the device claims that pods share are defined, named once and filtered by names that exist."""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from grove.admission.naming import CLIQUES, GROUPS, TEMPLATE, is_dns_label, unique
from grove.api import names
from grove.api.cliqueset import (
    ALL_REPLICAS,
    PER_REPLICA,
    PodCliqueSet,
    PodCliqueSetTemplate,
    ResourceClaimTemplate,
    ResourceSharing,
)
from grove.errors import FieldError
from grove.plan.sharing import MOST_SHARERS

#: What is left of the 253 characters of a claim's name for the name of its template.
_LONGEST: Final = 253 - names.LABEL_LIMIT - len("-all-")


def validate_sharing(cliqueset: PodCliqueSet) -> Iterator[FieldError]:
    """Everything wrong with resource claim templates and with who shares them."""
    template = cliqueset.template
    internal = {each.name for each in template.resource_claim_templates}
    yield from _templates(template.resource_claim_templates)
    cliques = {clique.name for clique in template.cliques}
    groups = {group.name for group in template.pod_clique_scaling_groups}
    field = f"{TEMPLATE}.resourceSharing"
    yield from _shared(field, template.resource_sharing, internal)
    yield from _filters(field, template.resource_sharing, cliques, groups)
    for index, group in enumerate(template.pod_clique_scaling_groups):
        field = f"{GROUPS}[{index}].resourceSharing"
        yield from _shared(field, group.resource_sharing, internal)
        yield from _filters(field, group.resource_sharing, set(group.clique_names), None)
    for index, clique in enumerate(template.cliques):
        yield from _shared(f"{CLIQUES}[{index}].resourceSharing", clique.resource_sharing, internal)
    yield from _name_clashes(cliqueset)


def _name_clashes(cliqueset: PodCliqueSet) -> Iterator[FieldError]:
    """Claims of different levels that would have the same name, in some replica or for some pod."""
    seen: list[tuple[str, _Name]] = []
    for field, name in _claim_names(cliqueset):
        other = next((place for place, known in seen if _may_be_equal(known, name)), None)
        if other is not None:
            yield FieldError(
                f"{field}.name", f"claims would have the same names as those of {other}; rename a template"
            )
        seen.append((field, name))


#: The parts of a name between its hyphens; None where a number stands.
_Name = tuple[str | None, ...]


def _claim_names(cliqueset: PodCliqueSet) -> Iterator[tuple[str, _Name]]:
    """Where each claim is asked for, and what its names look like."""
    template, prefix = cliqueset.template, tuple(cliqueset.name.split("-"))
    yield from _named(f"{TEMPLATE}.resourceSharing", prefix, template.resource_sharing)
    within: dict[str, _Name] = {}
    for index, group in enumerate(template.pod_clique_scaling_groups):
        owner = (*prefix, None, *group.name.split("-"))
        yield from _named(f"{GROUPS}[{index}].resourceSharing", owner, group.resource_sharing)
        within |= dict.fromkeys(group.clique_names, owner)
    for index, role in enumerate(template.cliques):
        owner = (*within.get(role.name, prefix), None, *role.name.split("-"))
        yield from _named(f"{CLIQUES}[{index}].resourceSharing", owner, role.resource_sharing)


def _named(field: str, owner: _Name, shared: Sequence[ResourceSharing]) -> Iterator[tuple[str, _Name]]:
    for index, each in enumerate(shared):
        middle = "all" if each.scope == ALL_REPLICAS else None
        yield f"{field}[{index}]", (*owner, middle, *each.name.split("-"))


def _may_be_equal(one: _Name, other: _Name) -> bool:
    return len(one) == len(other) and all(
        mine == theirs or (mine is None and _is_number(theirs)) or (theirs is None and _is_number(mine))
        for mine, theirs in zip(one, other, strict=True)
    )


def _is_number(part: str | None) -> bool:
    return part is not None and part.isascii() and part.isdigit() and (part == "0" or part[0] != "0")


def crowded_claims(cliqueset: PodCliqueSet) -> Iterator[FieldError]:
    """Claims that more pods would share than Kubernetes lets use one at a time."""
    for field, sharing, pods in _sharers(cliqueset):
        if pods > MOST_SHARERS:
            yield FieldError(
                field,
                f"{pods} pods share a claim of {sharing.name!r}, and Kubernetes lets {MOST_SHARERS} use one "
                "at a time: the others wait",
            )


def _sharers(cliqueset: PodCliqueSet) -> Iterator[tuple[str, ResourceSharing, int]]:
    """Everything that is shared: in which field, and by how many pods while nobody scales anything."""
    template = cliqueset.template
    groups = {
        role: (group.name, group.initial_replicas)
        for group in template.pod_clique_scaling_groups
        for role in group.clique_names
    }
    for index, each in enumerate(template.resource_sharing):
        pods = sum(
            role.spec.replicas * groups.get(role.name, ("", 1))[1]
            for role in template.cliques
            if each.reaches(role.name, groups.get(role.name, ("", 1))[0])
        )
        wide = cliqueset.spec.replicas if each.scope == ALL_REPLICAS else 1
        yield f"{TEMPLATE}.resourceSharing[{index}]", each, pods * wide
    for place, group in enumerate(template.pod_clique_scaling_groups):
        for index, each in enumerate(group.resource_sharing):
            members = [role for role in template.cliques if role.name in group.clique_names]
            pods = sum(role.spec.replicas for role in members if each.reaches(role.name))
            wide = group.initial_replicas if each.scope == ALL_REPLICAS else 1
            yield f"{GROUPS}[{place}].resourceSharing[{index}]", each, pods * wide
    for place, role in enumerate(template.cliques):
        for index, each in enumerate(role.resource_sharing):
            pods = role.spec.replicas if each.scope == ALL_REPLICAS else 1
            yield f"{CLIQUES}[{place}].resourceSharing[{index}]", each, pods


def shared_fields(template: PodCliqueSetTemplate) -> Iterator[str]:
    """The fields in which a set shares devices."""
    if template.resource_sharing:
        yield f"{TEMPLATE}.resourceSharing"
    for index, group in enumerate(template.pod_clique_scaling_groups):
        if group.resource_sharing:
            yield f"{GROUPS}[{index}].resourceSharing"
    for index, clique in enumerate(template.cliques):
        if clique.resource_sharing:
            yield f"{CLIQUES}[{index}].resourceSharing"


def _templates(templates: Sequence[ResourceClaimTemplate]) -> Iterator[FieldError]:
    field = f"{TEMPLATE}.resourceClaimTemplates"
    for index, each in enumerate(templates):
        yield from _template_name(f"{field}[{index}].name", each.name)
        spec = each.template_spec.get("spec")
        devices = spec.get("devices") if isinstance(spec, dict) else None
        requests = devices.get("requests") if isinstance(devices, dict) else None
        if not requests or not isinstance(requests, list):
            yield FieldError(
                f"{field}[{index}].templateSpec.spec.devices.requests",
                "at least one device request is required",
            )
    yield from unique(f"{field}.name", (each.name for each in templates))


def _shared(
    field: str, sharing: Sequence[ResourceSharing], internal: Collection[str]
) -> Iterator[FieldError]:
    for index, each in enumerate(sharing):
        yield from _template_name(f"{field}[{index}].name", each.name)
        if each.namespace and each.name in internal:
            yield FieldError(
                f"{field}[{index}].namespace",
                f"must be empty: {each.name!r} is a resource claim template of the set",
            )
        if each.scope not in (ALL_REPLICAS, PER_REPLICA):
            yield FieldError(
                f"{field}[{index}].scope", f"must be {ALL_REPLICAS} or {PER_REPLICA}; got {each.scope!r}"
            )
    yield from unique(f"{field}.name", (each.name for each in sharing))


def _template_name(field: str, name: str) -> Iterator[FieldError]:
    """An error unless the names of claims can end in the name of a template."""
    if not name:
        yield FieldError(field, "is required")
    elif not all(is_dns_label(part) for part in name.split(".")) or len(name) > _LONGEST:
        yield FieldError(
            field,
            f"{name!r} must be a DNS subdomain of at most {_LONGEST} characters: it ends the names of claims",
        )


def _filters(
    field: str, sharing: Sequence[ResourceSharing], cliques: Collection[str], groups: Collection[str] | None
) -> Iterator[FieldError]:
    """Names in filters must exist; `groups` is None where a filter cannot name scaling groups."""
    for index, each in enumerate(sharing):
        if each.filter is None:
            continue
        at = f"{field}[{index}].filter"
        named_groups = each.filter.child_scaling_group_names if groups is not None else ()
        if not each.filter.child_clique_names and not named_groups:
            yield FieldError(at, "must name at least one child; leave the filter out to share with all")
        for position, name in enumerate(each.filter.child_clique_names):
            if name not in cliques:
                yield FieldError(f"{at}.childCliqueNames[{position}]", f"clique {name!r} not found")
        for position, name in enumerate(named_groups):
            if name not in (groups or ()):
                yield FieldError(
                    f"{at}.childScalingGroupNames[{position}]", f"scaling group {name!r} not found"
                )
