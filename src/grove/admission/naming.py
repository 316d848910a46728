"""Whether the names in a PodCliqueSet lead to names that Kubernetes accepts, and to no name twice."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from grove.api import names
from grove.api.cliqueset import PodCliqueSet
from grove.errors import FieldError

TEMPLATE: Final = "spec.template"
CLIQUES: Final = f"{TEMPLATE}.cliques"
GROUPS: Final = f"{TEMPLATE}.podCliqueScalingGroups"

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SET: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def validate_names(cliqueset: PodCliqueSet) -> Iterator[FieldError]:
    """Every name that is malformed, too long, or used twice."""
    template = cliqueset.template
    yield from _set_name(cliqueset.name)
    for index, clique in enumerate(template.cliques):
        yield from dns_label(f"{CLIQUES}[{index}].name", clique.name)
    for index, group in enumerate(template.pod_clique_scaling_groups):
        yield from dns_label(f"{GROUPS}[{index}].name", group.name)
    yield from _budget(cliqueset)
    yield from unique(f"{CLIQUES}.name", (clique.name for clique in template.cliques))
    yield from unique(f"{CLIQUES}.roleName", (clique.spec.role_name for clique in template.cliques))
    yield from unique(f"{GROUPS}.name", (group.name for group in template.pod_clique_scaling_groups))
    yield from _collisions(cliqueset)


def dns_label(field: str, name: str) -> Iterator[FieldError]:
    """An error unless the name can stand in a host name."""
    if not name.strip():
        yield FieldError(field, "is required")
    elif not is_dns_label(name):
        yield FieldError(
            field,
            f"{name!r} must be a DNS label: lower-case letters, digits and '-', beginning and ending "
            "with a letter "
            "or digit",
        )


def is_dns_label(name: str) -> bool:
    """Whether a name can stand in a host name; how long it may be is decided with the names made of it."""
    return _LABEL.fullmatch(name) is not None


def unique(field: str, values: Iterable[str]) -> Iterator[FieldError]:
    """One error that lists what occurs more than once; blanks do not count."""
    twice = sorted(value for value, count in Counter(values).items() if value and count > 1)
    if twice:
        yield FieldError(field, f"must be unique; used more than once: {', '.join(twice)}")


def _set_name(name: str) -> Iterator[FieldError]:
    if not name:
        yield FieldError("metadata.name", "is required")
    elif not _SET.fullmatch(name):
        yield FieldError(
            "metadata.name",
            f"{name!r} must start with a letter and contain only lower-case letters, digits and '-': it "
            "is part of "
            "the names of services and pods",
        )


def _budget(cliqueset: PodCliqueSet) -> Iterator[FieldError]:
    template = cliqueset.template
    grouped = {name for group in template.pod_clique_scaling_groups for name in group.clique_names}
    for index, clique in enumerate(template.cliques):
        if clique.name not in grouped:
            yield from _too_long(f"{CLIQUES}[{index}].name", (cliqueset.name, clique.name))
    for index, group in enumerate(template.pod_clique_scaling_groups):
        for position, member in enumerate(group.clique_names):
            yield from _too_long(
                f"{GROUPS}[{index}].cliqueNames[{position}].name", (cliqueset.name, group.name, member)
            )


def _too_long(field: str, parts: tuple[str, ...]) -> Iterator[FieldError]:
    length = sum(map(len, parts))
    if length > names.NAME_BUDGET:
        message = (
            f"combined resource name length {length} exceeds {names.NAME_BUDGET}-character limit "
            "required for pod "
            f"naming ({' + '.join(f'{part!r} {len(part)}' for part in parts)}); shorten by "
            f"{length - names.NAME_BUDGET}"
        )
        yield FieldError(field, message)
        yield FieldError("metadata.name", message)


def _collisions(cliqueset: PodCliqueSet) -> Iterator[FieldError]:
    """Two children of the set that would bear the same name."""
    template = cliqueset.template
    scaled = {clique.name for clique in template.cliques if clique.spec.auto_scaling_config}
    for index, group in enumerate(template.pod_clique_scaling_groups):
        if group.scale_config and group.name in scaled:
            yield FieldError(
                f"{GROUPS}[{index}].name",
                f"a clique is called {group.name!r} too and both are scaled by load, so their "
                "autoscalers would have "
                "the same name; rename one",
            )
        for clique in cliqueset.standalone_cliques:
            member = re.fullmatch(rf"{re.escape(group.name)}-\d+-(.+)", clique.name)
            if member and member[1] in group.clique_names:
                yield FieldError(
                    f"{CLIQUES}.name",
                    f"{clique.name!r} is also the name that clique {member[1]!r} gets in scaling group "
                    f"{group.name!r}; rename one",
                )
