"""What a set asks for that Volcano cannot do, field by field."""

from collections.abc import Iterator, Mapping
from typing import Any

from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.backends.shape import constraints_of
from grove.errors import FieldError


def topology_errors(cliqueset: PodCliqueSet, unable: str) -> Iterator[FieldError]:
    """Required constraints that cannot be honoured: `unable` says why none can; or one level too many."""
    if unable:
        for field, constraint in constraints_of(cliqueset):
            if constraint.required:
                yield FieldError(
                    f"{field}.pack.required",
                    f"cannot be honoured: {unable}; use pack.preferred, remove the constraint or choose "
                    "another scheduler backend",
                )
        return
    yield from _third_levels(cliqueset)


def requestless(gang: PodGang, cliqueset: PodCliqueSet | None) -> list[str]:
    """The podgroups whose pods request nothing at all, which Volcano calls best effort."""
    if cliqueset is None:
        return []
    idle = [f"-{each.name}" for each in cliqueset.template.cliques if not _requests(each.spec.pod_spec)]
    if not idle:
        return []
    return [each.name for each in gang.spec.podgroups if each.name.endswith(tuple(idle))]


def resources_of(cliqueset: PodCliqueSet | None) -> str:
    """The names of the resources that the set's containers ask for."""
    found: dict[str, None] = {}
    for clique in cliqueset.template.cliques if cliqueset is not None else ():
        for container in clique.spec.pod_spec.get("containers") or ():
            resources = container.get("resources") or {}
            found |= dict.fromkeys({**(resources.get("limits") or {}), **(resources.get("requests") or {})})
    return ", ".join(sorted(found))


def _requests(pod_spec: Mapping[str, Any]) -> bool:
    if pod_spec.get("overhead") or pod_spec.get("resources"):
        return True
    for kind in ("containers", "initContainers"):
        for container in pod_spec.get(kind) or ():
            resources = container.get("resources") or {}
            if resources.get("requests") or resources.get("limits"):
                return True
    return False


def _third_levels(cliqueset: PodCliqueSet) -> Iterator[FieldError]:
    """Roles that must share another domain than the scaling group they are in."""
    template = cliqueset.template
    places = {each.name: index for index, each in enumerate(template.cliques)}
    for group in template.pod_clique_scaling_groups:
        shared = group.topology_constraint.required if group.topology_constraint else None
        whole = len(group.clique_names) == len(template.cliques) and (group.min_available or 1) == 1
        if not shared or whole:
            continue
        for name in group.clique_names:
            own = template.cliques[places[name]].topology_constraint if name in places else None
            if own is not None and own.required and own.required != shared:
                yield FieldError(
                    f"spec.template.cliques[{places[name]}].topologyConstraint.pack.required",
                    f"is {own.required!r} inside the scaling group {group.name!r}, which requires "
                    f"{shared!r}; Volcano packs a gang and its subgroups, and has no third level",
                )
