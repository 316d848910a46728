"""What may not be changed of a stored set, and which updates pass whatever else is wrong with it. Pure.

Repeats the rules of the definition (`api.rules`) with the values and the way out, so that they hold where the
Go operator's definitions are installed as well. What an edit does that is allowed stands in `plan.edits`.
"""

import operator
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from grove.admission.defaults import default
from grove.admission.naming import CLIQUES, GROUPS, TEMPLATE
from grove.api import labels
from grove.api.cliqueset import (
    ANY_ORDER,
    PodCliqueSet,
    PodCliqueSetSpec,
    PodCliqueTemplate,
    ScalingGroupConfig,
)
from grove.api.decode import decode, means_the_same
from grove.errors import FieldError

#: Clients match these words.
_IMMUTABLE: Final = "field is immutable"
_AGAIN: Final = "delete the PodCliqueSet and create it again to change it"
_MOVE: Final = (
    f"to move the set to another scheduler, change its annotation {labels.SCHEDULER_BACKEND} instead"
)
#: Above this a value is not repeated in a message.
_SHOWN: Final = 60


def only_less(old: PodCliqueSet, new: PodCliqueSet) -> bool:
    """Whether an update leaves the spec as it is, or does nothing but lower replicas.

    What the defaulting webhook adds to a set that was stored without it changes nothing.
    """
    if means_the_same(old.spec, new.spec):
        return True
    before, after = _replicas(old.spec), _replicas(new.spec)
    if len(before) != len(after) or any(map(operator.gt, after, before)):
        return False
    return means_the_same(_without_replicas(old), _without_replicas(new))


def _replicas(spec: PodCliqueSetSpec) -> list[int]:
    template = spec.template
    return [
        spec.replicas,
        *(role.spec.replicas for role in template.cliques),
        *(group.initial_replicas for group in template.pod_clique_scaling_groups),
    ]


def _without_replicas(cliqueset: PodCliqueSet) -> PodCliqueSetSpec:
    """The spec with defaults, but for replicas and what follows from them."""
    replace = msgspec.structs.replace
    spec = decode(default(msgspec.to_builtins(cliqueset)), PodCliqueSet).spec
    roles = tuple(
        replace(role, spec=replace(role.spec, replicas=0, min_available=wrote.spec.min_available))
        for role, wrote in zip(spec.template.cliques, cliqueset.template.cliques, strict=True)
    )
    groups = tuple(replace(group, replicas=0) for group in spec.template.pod_clique_scaling_groups)
    bare = replace(spec.template, cliques=roles, pod_clique_scaling_groups=groups)
    return replace(spec, replicas=0, template=bare)


def forbidden_edits(old: PodCliqueSet, new: PodCliqueSet) -> list[FieldError]:
    """Every field that cannot be changed once the set exists, with the way out."""
    before, after = old.template, new.template
    return [
        *_kept(
            f"{TEMPLATE}.cliqueStartupType",
            before.clique_startup_type or ANY_ORDER,
            after.clique_startup_type or ANY_ORDER,
        ),
        *_kept(f"{TEMPLATE}.resourceSharing", before.resource_sharing, after.resource_sharing),
        *_kept(
            f"{TEMPLATE}.resourceClaimTemplates",
            before.resource_claim_templates,
            after.resource_claim_templates,
        ),
        *_composition(old, new),
        *_roles(before.cliques, after.cliques),
        *_groups(before.pod_clique_scaling_groups, after.pod_clique_scaling_groups),
    ]


def _composition(old: PodCliqueSet, new: PodCliqueSet) -> Iterator[FieldError]:
    before = [role.name for role in old.template.cliques]
    after = [role.name for role in new.template.cliques]
    if sorted(before) != sorted(after):
        changed = _difference(before, after)
        yield FieldError(
            CLIQUES,
            f"not allowed to change clique composition ({changed}); delete the set and create it again",
        )
    elif before != after and (new.template.clique_startup_type or ANY_ORDER) != ANY_ORDER:
        yield FieldError(
            CLIQUES,
            f"the order of cliques cannot change when they start in order; it is {', '.join(before)}",
        )
    groups = [group.name for group in old.template.pod_clique_scaling_groups]
    wanted = [group.name for group in new.template.pod_clique_scaling_groups]
    if sorted(groups) != sorted(wanted):
        changed = _difference(groups, wanted)
        yield FieldError(
            GROUPS, f"not allowed to add or remove PodCliqueScalingGroupConfigs ({changed}); {_AGAIN}"
        )


def _difference(before: Sequence[str], after: Sequence[str]) -> str:
    added = [name for name in after if name not in before]
    removed = [name for name in before if name not in after]
    said = [
        f"{what} {', '.join(map(repr, names))}"
        for what, names in (("added", added), ("removed", removed))
        if names
    ]
    return ", ".join(said) or "a name is there twice"


def _roles(before: Sequence[PodCliqueTemplate], after: Sequence[PodCliqueTemplate]) -> Iterator[FieldError]:
    known = {role.name: role for role in before}
    for index, role in enumerate(after):
        if (was := known.get(role.name)) is None:
            continue
        field = f"{CLIQUES}[{index}]"
        yield from _kept(f"{field}.spec.roleName", was.spec.role_name, role.spec.role_name)
        yield from _kept(f"{field}.spec.startsAfter", was.spec.starts_after, role.spec.starts_after)
        yield from _kept(
            f"{field}.spec.podSpec.schedulerName",
            was.spec.pod_spec.get("schedulerName") or "",
            role.spec.pod_spec.get("schedulerName") or "",
            _MOVE,
        )
        yield from _kept(f"{field}.resourceSharing", was.resource_sharing, role.resource_sharing)
        yield from _kept_domain(field, was.annotations, role.annotations)


def _groups(
    before: Sequence[ScalingGroupConfig], after: Sequence[ScalingGroupConfig]
) -> Iterator[FieldError]:
    known = {group.name: group for group in before}
    for index, group in enumerate(after):
        if (was := known.get(group.name)) is None:
            continue
        field = f"{GROUPS}[{index}]"
        yield from _kept(f"{field}.cliqueNames", was.clique_names, group.clique_names)
        yield from _kept(f"{field}.minAvailable", was.minimum, group.minimum)
        yield from _kept(f"{field}.resourceSharing", was.resource_sharing, group.resource_sharing)
        yield from _kept_domain(field, was.annotations, group.annotations)


def _kept_domain(field: str, before: dict[str, str], after: dict[str, str]) -> Iterator[FieldError]:
    key = labels.MNNVL_GROUP
    yield from _kept(f"{field}.annotations[{key}]", before.get(key, ""), after.get(key, ""))


def _kept(field: str, before: object, after: object, way_out: str = _AGAIN) -> Iterator[FieldError]:
    if before == after:
        return
    shown = f" (it is {_shown(before)}, not {_shown(after)})" if _brief(before, after) else ""
    yield FieldError(field, f"{_IMMUTABLE}{shown}; {way_out}")


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return repr(value) if value != "" else "blank"


def _brief(*values: object) -> bool:
    """Whether values can be repeated: texts, numbers and lists of texts that are not long."""
    plain = [isinstance(each, str | int) for value in values for each in _each(value)]
    return all(plain) and all(len(_shown(value)) <= _SHOWN for value in values)


def _each(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)
