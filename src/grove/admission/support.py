"""Which parts of a set this release does not act on yet.

A set that needs them is refused whole with the field named, rather than run without what it asked for.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from grove.admission.naming import is_dns_label
from grove.admission.sharing import crowded_claims, shared_fields
from grove.api import kinds, labels, names
from grove.api.cliqueset import PodCliqueSet
from grove.backends.base import Cluster
from grove.errors import FieldError
from grove.plan.domains import NO_GROUP, asks_for_gpus

#: Annotations of ours that do something wherever they stand.
_EFFECTIVE: Final = frozenset({labels.MNNVL_GROUP})
_SET: Final = "metadata"
_ROLE: Final = "spec.template.cliques"
#: Those that do something in one place only: scheduler, budgets, pauses, protection and another look are for
#: whole sets.
_PLACES: Final = {
    labels.SCHEDULER_BACKEND: _SET,
    labels.DISRUPTION_BUDGET: _SET,
    labels.UPDATE_PAUSED: _SET,
    labels.RECONCILE_TRIGGER: _SET,
    labels.DISABLE_PROTECTION: _SET,
    labels.RESTARTED_AT: _ROLE,
}
#: What to do with an annotation that has no effect.
_INSTEAD: Final = {
    _SET: "it belongs in metadata.annotations of the set",
    _ROLE: "it belongs in the annotations of a role, spec.template.cliques[].annotations",
    labels.TOPOLOGY_NAME: "topologyConstraint.topologyName names the ClusterTopologyBinding",
}


def unsupported(cliqueset: PodCliqueSet, cluster: Cluster | None = None) -> list[FieldError]:
    """The fields of a set whose meaning this release could not honour, or not in this cluster."""
    if cluster is None or cluster.serves(kinds.RESOURCE_CLAIMS):
        return []
    return [
        FieldError(
            field,
            f"the cluster does not serve {kinds.RESOURCE_CLAIMS} in version v1, so that pods "
            "cannot share devices; it needs Kubernetes 1.34 or newer",
        )
        for field in shared_fields(cliqueset.template)
    ]


def unsupported_domains(
    cliqueset: PodCliqueSet, cluster: Cluster | None, *, enabled: bool
) -> list[FieldError]:
    """Where a set asks for NVLink domains that the operator or the cluster does not have."""
    if not enabled:
        why = (
            "MNNVL is not enabled in the operator configuration: set network.autoMNNVLEnabled, or remove the "
            f"annotation when the set is created; {NO_GROUP!r} is always allowed"
        )
    elif cluster is not None and not cluster.serves(kinds.COMPUTE_DOMAINS):
        why = f"the cluster does not serve {kinds.COMPUTE_DOMAINS}, v1beta1: install NVIDIA's DRA driver"
    else:
        return []
    return [
        FieldError(f"{place}.annotations[{labels.MNNVL_GROUP}]", why)
        for place, annotations in _annotated(cliqueset)
        if annotations.get(labels.MNNVL_GROUP, NO_GROUP) != NO_GROUP
    ]


def annotation_errors(cliqueset: PodCliqueSet) -> Iterator[FieldError]:
    """Annotations of ours with a value that cannot be meant."""
    for place, annotations in _annotated(cliqueset):
        group = annotations.get(labels.MNNVL_GROUP)
        if group is not None and not (is_dns_label(group) and len(group) <= names.LABEL_LIMIT):
            yield FieldError(
                f"{place}.annotations[{labels.MNNVL_GROUP}]",
                f"{group!r} must be a DNS label: the name of a group of roles, or {NO_GROUP!r}",
            )


def notices(cliqueset: PodCliqueSet) -> list[FieldError]:
    """What of a set is accepted but has no effect."""
    found = [
        FieldError(f"{place}.annotations[{key}]", f"has no effect here: {_instead(key)}")
        for place, annotations in _annotated(cliqueset)
        for key in annotations
        if key.startswith(labels.GROVE_PREFIX) and key not in _EFFECTIVE and not _is_in_place(place, key)
    ]
    return [*found, *_domains_without_gpus(cliqueset), *crowded_claims(cliqueset)]


def _instead(key: str) -> str:
    """What whoever wrote an annotation that has no effect probably wants."""
    return _INSTEAD.get(_PLACES.get(key, key), "remove it, or correct its name")


def _is_in_place(place: str, key: str) -> bool:
    return key in _PLACES and place.startswith(_PLACES[key])


def _domains_without_gpus(cliqueset: PodCliqueSet) -> list[FieldError]:
    """Where a group of NVLink is chosen although no pod that it is chosen for asks for GPUs."""
    roles = cliqueset.template.cliques
    places = list(_annotated(cliqueset))
    concerned = [
        roles,
        *(
            [role for role in roles if role.name in group.clique_names]
            for group in cliqueset.template.pod_clique_scaling_groups
        ),
        *([role] for role in roles),
    ]
    return [
        FieldError(
            f"{place}.annotations[{labels.MNNVL_GROUP}]",
            "none of its pods asks for nvidia.com/gpu, so that none joins an NVLink domain",
        )
        for (place, annotations), members in zip(places, concerned, strict=True)
        if annotations.get(labels.MNNVL_GROUP, NO_GROUP) != NO_GROUP
        and not any(asks_for_gpus(role.spec.pod_spec) for role in members)
    ]


def _annotated(cliqueset: PodCliqueSet) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Where annotations of ours may stand."""
    template = cliqueset.template
    yield "metadata", cliqueset.annotations
    for index, group in enumerate(template.pod_clique_scaling_groups):
        yield f"spec.template.podCliqueScalingGroups[{index}]", group.annotations
    for index, clique in enumerate(template.cliques):
        yield f"spec.template.cliques[{index}]", clique.annotations
