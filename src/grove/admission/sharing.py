"""Whether the device claims that pods share are defined, named once and filtered by names that exist."""

from collections.abc import Collection, Iterator, Sequence

from grove.admission.naming import CLIQUES, GROUPS, TEMPLATE, unique
from grove.api.cliqueset import (
    ALL_REPLICAS,
    PER_REPLICA,
    PodCliqueSet,
    PodCliqueSetTemplate,
    ResourceClaimTemplate,
    ResourceSharing,
)
from grove.errors import FieldError


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
        if not each.name:
            yield FieldError(f"{field}[{index}].name", "is required")
        devices = (each.template_spec.get("spec") or {}).get("devices") or {}
        if not devices.get("requests"):
            yield FieldError(
                f"{field}[{index}].templateSpec.spec.devices.requests",
                "at least one device request is required",
            )
    yield from unique(f"{field}.name", (each.name for each in templates))


def _shared(
    field: str, sharing: Sequence[ResourceSharing], internal: Collection[str]
) -> Iterator[FieldError]:
    for index, each in enumerate(sharing):
        if not each.name:
            yield FieldError(f"{field}[{index}].name", "is required")
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
