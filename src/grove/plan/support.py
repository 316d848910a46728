"""Which parts of a set this release does not act on yet.

A set that needs them is refused whole with the field named, rather than run without what it asked for.
"""

from collections.abc import Iterable

from grove.api import conditions, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import ANY_ORDER, PodCliqueSet
from grove.api.gang import PodGang
from grove.errors import FieldError
from grove.meta import find_condition


def unsupported(cliqueset: PodCliqueSet) -> list[FieldError]:
    """The fields of a set whose meaning this release could not honour."""
    template = cliqueset.template
    errors = []
    if template.pod_clique_scaling_groups:
        errors.append(
            FieldError(
                "spec.template.podCliqueScalingGroups", "scaling groups are not supported by this release"
            )
        )
    if template.clique_startup_type != ANY_ORDER and len(template.cliques) > 1:
        errors.append(
            FieldError(
                "spec.template.cliqueStartupType",
                f"startup order {template.clique_startup_type!r} is not supported by this release; "
                f"use {ANY_ORDER!r}",
            )
        )
    if template.resource_sharing or any(clique.resource_sharing for clique in template.cliques):
        errors.append(
            FieldError(
                "spec.template.resourceSharing", "shared device claims are not supported by this release"
            )
        )
    return errors


def outdated(cliqueset: PodCliqueSet, cliques: Iterable[PodClique]) -> list[FieldError]:
    """What to tell while pods run an older template than the set has: this release does not replace them."""
    old = sum(max(0, clique.status.replicas - clique.status.updated_replicas) for clique in cliques)
    if not old:
        return []
    field = "spec.template.cliques"
    return [
        FieldError(field, f"{old} pods run an older template; a pod takes the new one when it is deleted")
    ]


def unattended(gangs: Iterable[PodGang]) -> list[FieldError]:
    """Gangs that are left to a process of their own backend, which has not looked at them yet."""
    waiting: dict[str, list[str]] = {}
    for gang in gangs:
        if labels.EXTERNAL_BACKEND not in gang.annotations:
            continue
        if find_condition(gang.status.conditions, conditions.SCHEDULED) is None:
            waiting.setdefault(gang.labels.get(labels.SCHEDULER_BACKEND, ""), []).append(gang.name)
    return [
        FieldError(
            "",
            f"{len(names)} gangs (the first is {min(names)}) wait for the process of their backend; does "
            f"`grove backend run {backend}` run?",
        )
        for backend, names in sorted(waiting.items())
    ]


def notices(cliqueset: PodCliqueSet) -> list[FieldError]:
    """The fields of a set that are accepted but have no effect in this release."""
    return [
        FieldError(
            f"spec.template.cliques[{position}].spec.autoScalingConfig",
            "no HorizontalPodAutoscaler is created by this release; scale the PodClique yourself",
        )
        for position, clique in enumerate(cliqueset.template.cliques)
        if clique.spec.auto_scaling_config is not None
    ]
