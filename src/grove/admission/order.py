"""Whether the startup order of cliques can be kept: known names, no clique after itself, no cycle."""

from collections import Counter
from collections.abc import Iterator, Mapping

from grove.admission.naming import CLIQUES
from grove.api.cliqueset import EXPLICIT, STARTUP_TYPES, PodCliqueSet, PodCliqueTemplate
from grove.errors import FieldError
from grove.plan.startup import CONTAINER, POD_INFO_VOLUME, TOKEN_VOLUME, parent_roles


def validate_order(cliqueset: PodCliqueSet) -> Iterator[FieldError]:
    """Everything wrong with the startup type and, where it is explicit, with `startsAfter`."""
    template = cliqueset.template
    for index, clique in enumerate(template.cliques):
        if parent_roles(template, clique.name):
            yield from _reserved(f"{CLIQUES}[{index}].spec.podSpec", clique)
    if template.clique_startup_type not in STARTUP_TYPES:
        yield FieldError("spec.template.cliqueStartupType", f"can only be one of {', '.join(STARTUP_TYPES)}")
    if template.clique_startup_type != EXPLICIT:
        return
    after = {clique.name: clique.spec.starts_after for clique in template.cliques}
    for index, clique in enumerate(template.cliques):
        yield from _entries(f"{CLIQUES}[{index}].spec.startsAfter", clique.name, clique.spec.starts_after)
    for index, clique in enumerate(template.cliques):
        unknown = sorted({name for name in clique.spec.starts_after if name and name not in after})
        if unknown:
            yield FieldError(
                f"{CLIQUES}[{index}].spec.startsAfter",
                f"must name cliques of the set; unknown: {', '.join(unknown)}",
            )
    cycle = find_cycle(after)
    if cycle:
        index = list(after).index(cycle[0])
        yield FieldError(
            f"{CLIQUES}[{index}].spec.startsAfter",
            f"clique must not have circular dependencies: {' -> '.join(cycle)}",
        )


def order_notices(cliqueset: PodCliqueSet) -> Iterator[FieldError]:
    """Roles that name others to start after, in a set whose type does not ask for it: nothing waits there."""
    kind = cliqueset.template.clique_startup_type
    if kind not in STARTUP_TYPES or kind == EXPLICIT:
        return
    for index, clique in enumerate(cliqueset.template.cliques):
        if clique.spec.starts_after:
            yield FieldError(
                f"{CLIQUES}[{index}].spec.startsAfter",
                f"has no effect with cliqueStartupType {kind}; it is read with {EXPLICIT}, and neither "
                "field can be changed later",
            )


def _reserved(path: str, clique: PodCliqueTemplate) -> Iterator[FieldError]:
    """What a role that waits for others may not call its own: the container that waits has it."""
    taken = {
        "containers": (CONTAINER,),
        "initContainers": (CONTAINER,),
        "volumes": (POD_INFO_VOLUME, TOKEN_VOLUME),
    }
    for kind, ours in taken.items():
        listed = clique.spec.pod_spec.get(kind)
        for position, item in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(item, dict) and item.get("name") in ours:
                yield FieldError(
                    f"{path}.{kind}[{position}].name",
                    f"{item['name']!r} is reserved in a role that starts after others",
                )


def _entries(field: str, name: str, parents: tuple[str, ...]) -> Iterator[FieldError]:
    if any(not parent.strip() for parent in parents):
        yield FieldError(field, "must not contain a blank name")
    if name in parents:
        yield FieldError(field, f"clique {name!r} cannot start after itself")
    twice = sorted(parent for parent, count in Counter(parents).items() if count > 1)
    if twice:
        yield FieldError(field, f"must be unique; used more than once: {', '.join(twice)}")


def find_cycle(after: Mapping[str, tuple[str, ...]]) -> list[str]:
    """A cycle of two or more cliques, first name repeated at its end; empty when there is none."""
    finished: set[str] = set()
    for start in after:
        trail: list[str] = []
        # Each step is a clique and the parents still to look at.
        steps = [(start, iter(after[start]))] if start not in finished else []
        while steps:
            name, parents = steps[-1]
            if len(trail) < len(steps):
                trail.append(name)
            parent = next((p for p in parents if p in after and p != name and p not in finished), None)
            if parent is None:
                finished.add(name)
                trail.pop()
                steps.pop()
            elif parent in trail:
                return [*trail[trail.index(parent) :], parent]
            else:
                steps.append((parent, iter(after[parent])))
    return []
