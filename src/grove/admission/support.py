"""Which parts of a set this release does not act on yet.

A set that needs them is refused whole with the field named, rather than run without what it asked for.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from grove.admission.naming import is_dns_label
from grove.admission.sharing import shared_fields
from grove.api import kinds, labels, names
from grove.api.cliqueset import PodCliqueSet
from grove.backends.base import Cluster
from grove.errors import FieldError

#: The value of the NVLink annotation by which a role opts out.
_NO_GROUP: Final = "none"
#: Annotations of ours that a set or a role may have and that do something.
_EFFECTIVE: Final = frozenset({labels.SCHEDULER_BACKEND, labels.TOPOLOGY_NAME, labels.RECONCILE_TRIGGER})


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


def annotation_errors(cliqueset: PodCliqueSet) -> Iterator[FieldError]:
    """Annotations of ours with a value that cannot be meant."""
    for place, annotations in _annotated(cliqueset):
        group = annotations.get(labels.MNNVL_GROUP)
        if group is not None and not (is_dns_label(group) and len(group) <= names.LABEL_LIMIT):
            yield FieldError(
                f"{place}.annotations[{labels.MNNVL_GROUP}]",
                f"{group!r} must be a DNS label: the name of a group of roles, or {_NO_GROUP!r}",
            )


def notices(cliqueset: PodCliqueSet) -> list[FieldError]:
    """What of a set is accepted but has no effect in this release."""
    found = []
    for place, annotations in _annotated(cliqueset):
        for key, value in annotations.items():
            if why := _no_effect(key, value):
                found.append(FieldError(f"{place}.annotations[{key}]", why))
    return found


def _annotated(cliqueset: PodCliqueSet) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Where annotations of ours may stand."""
    template = cliqueset.template
    yield "metadata", cliqueset.annotations
    for index, group in enumerate(template.pod_clique_scaling_groups):
        yield f"spec.template.podCliqueScalingGroups[{index}]", group.annotations
    for index, clique in enumerate(template.cliques):
        yield f"spec.template.cliques[{index}]", clique.annotations


def _no_effect(key: str, value: str) -> str:
    """Why an annotation does nothing; empty when it does, or is none of ours."""
    if key == labels.MNNVL_GROUP:
        none = value == _NO_GROUP
        return "" if none else "no ComputeDomain is created by this release; pods share no NVLink domain"
    if key.startswith(labels.GROVE_PREFIX) and key not in _EFFECTIVE:
        return "has no effect in this release"
    return ""
