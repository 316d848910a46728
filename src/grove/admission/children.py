"""Whether somebody else than the operator may write a clique, a scaling group or a gang like this. Pure.

Cliques and groups are written by the operator: what others change of them, but for their replicas, is put
back, and they are told so. Gangs may be anybody's (`plan.gang.standalone`).
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec

from grove.admission.naming import is_dns_label
from grove.admission.validation import validate_pods
from grove.api import kinds, labels, names
from grove.api.clique import PodClique
from grove.api.gang import PodGang
from grove.api.scaling_group import PodCliqueScalingGroup
from grove.backends.registry import Registry
from grove.errors import FieldError
from grove.meta import Object
from grove.plan.gang.standalone import is_standalone

Child = PodClique | PodCliqueScalingGroup

_OWNERS: Final = (kinds.CLIQUESETS.kind, kinds.SCALING_GROUPS.kind)


def validate_clique(clique: PodClique) -> Iterator[FieldError]:
    """What is wrong with a clique by itself."""
    spec = clique.spec
    yield from _not_negative("spec.replicas", spec.replicas)
    yield from _not_negative("spec.minAvailable", spec.min_available or 0)
    yield from validate_pods("spec.podSpec", spec.pod_spec)


def validate_group(group: PodCliqueScalingGroup) -> Iterator[FieldError]:
    """What is wrong with a scaling group by itself."""
    spec = group.spec
    yield from _not_negative("spec.replicas", spec.replicas)
    if spec.minimum < 1:
        yield FieldError("spec.minAvailable", f"must be greater than 0; got {spec.minimum}")
    if not spec.clique_names:
        yield FieldError("spec.cliqueNames", "a scaling group needs at least one clique")
    yield from _once("spec.cliqueNames", spec.clique_names)


def validate_gang(gang: PodGang, registry: Registry) -> Iterator[FieldError]:
    """What is wrong with a gang, whoever made it."""
    groups = [group.name for group in gang.spec.podgroups]
    if not groups:
        yield FieldError("spec.podgroups", "a gang needs at least one podgroup")
    if len(gang.name) > names.LABEL_LIMIT:
        yield FieldError(
            "metadata.name",
            f"may have {names.LABEL_LIMIT} characters, because pods name their gang in the label "
            f"{labels.POD_GANG}; it has {len(gang.name)}",
        )
    for index, group in enumerate(gang.spec.podgroups):
        if not is_dns_label(group.name) or len(group.name) > names.LABEL_LIMIT:
            yield FieldError(
                f"spec.podgroups[{index}].name",
                f"{group.name!r} must be a DNS label of at most {names.LABEL_LIMIT} characters: pods name "
                f"their podgroup in the label {labels.POD_CLIQUE}",
            )
        yield from _not_negative(f"spec.podgroups[{index}].minReplicas", group.min_replicas)
    yield from _once("spec.podgroups", groups)
    for index, config in enumerate(gang.spec.topology_constraint_group_configs):
        unknown = [name for name in config.pod_group_names if name not in groups]
        if unknown:
            yield FieldError(
                f"spec.topologyConstraintGroupConfigs[{index}].podGroupNames",
                f"no podgroup is called {', '.join(map(repr, unknown))}; there are {', '.join(groups)}",
            )
    asked = gang.annotations.get(labels.SCHEDULER_BACKEND, "")
    if asked and is_standalone(gang) and registry.find(asked) is None:
        enabled = ", ".join(each.name for each in registry.enabled)
        yield FieldError(
            f"metadata.annotations[{labels.SCHEDULER_BACKEND}]",
            f"{asked!r}: scheduler backend is not enabled in Grove; enabled: {enabled}",
        )


def child_notices(old: Child | None, new: Child) -> Iterator[str]:
    """What will become of a clique or group that somebody else than the operator writes."""
    owner = _owner(new)
    if old is None:
        if not owner:
            kind = kinds.CLIQUES.kind if isinstance(new, PodClique) else kinds.SCALING_GROUPS.kind
            yield f"nobody acts on a {kind} that no PodCliqueSet owns; create a PodCliqueSet"
        return
    before, after = msgspec.to_builtins(old.spec), msgspec.to_builtins(new.spec)
    changed = [name for name in after if before.get(name) != after[name] and name != "replicas"]
    if changed and owner:
        fields = ", ".join(f"spec.{name}" for name in changed)
        yield f"{fields}: will be put back to what {owner} says; edit the PodCliqueSet instead"


def _owner(item: Object) -> str:
    owner = item.owner
    return f"{owner.kind} {owner.name}" if owner is not None and owner.kind in _OWNERS else ""


def _not_negative(field: str, number: int) -> Iterator[FieldError]:
    if number < 0:
        yield FieldError(field, f"must not be negative; got {number}")


def _once(field: str, values: "list[str] | tuple[str, ...]") -> Iterator[FieldError]:
    twice = sorted(value for value, count in Counter(values).items() if count > 1)
    if twice:
        yield FieldError(field, f"must be unique; used more than once: {', '.join(twice)}")
