"""The variables by which a container learns about its place in a set. Pure."""

from collections.abc import Sequence
from typing import Final

from grove.api import labels, names
from grove.api.clique import PodClique
from grove.meta import Manifest

_GROUP_SIZE: Final = "GROVE_PCSG_TEMPLATE_NUM_PODS"


def pod_environment(clique: PodClique, cliqueset: str, replica: int) -> list[Manifest]:
    """What every container learns, in the order that users' `$(VAR)` expansion needs."""
    return [
        {"name": "GROVE_PCS_NAME", "value": cliqueset},
        {"name": "GROVE_PCS_INDEX", "value": str(replica)},
        {"name": "GROVE_PCLQ_NAME", "value": clique.name},
        {
            "name": "GROVE_HEADLESS_SERVICE",
            "value": names.service_domain(cliqueset, replica, clique.namespace),
        },
        {"name": "GROVE_PCLQ_POD_INDEX", "valueFrom": _label(labels.POD_INDEX)},
    ]


def group_environment(pods: int) -> list[Manifest]:
    """What containers of a scaling group learn besides; its template has so many `pods` in one replica."""
    return [
        {"name": "GROVE_PCSG_NAME", "valueFrom": _label(labels.SCALING_GROUP)},
        {"name": _GROUP_SIZE, "value": str(pods)},
        {"name": "GROVE_PCSG_INDEX", "valueFrom": _label(labels.SCALING_GROUP_REPLICA_INDEX)},
    ]


def without_group_size(spec: Manifest) -> Manifest:
    """A pod spec without the size of its scaling group, which is of the moment at which the clique was made.

    Who edits `replicas` of a role that is there already does not ask for other pods.
    """
    changed = {
        field: [_without(container, _GROUP_SIZE) for container in spec[field]]
        for field in ("containers", "initContainers")
        if spec.get(field)
    }
    return {**spec, **changed}


def _without(container: Manifest, name: str) -> Manifest:
    return {**container, "env": [each for each in container.get("env") or () if each.get("name") != name]}


def with_environment(spec: Manifest, variables: Sequence[Manifest]) -> Manifest:
    """A pod spec whose containers have these variables first; the author's of the same name are dropped."""
    changed = {
        field: [_with_variables(container, variables) for container in spec[field]]
        for field in ("containers", "initContainers")
        if spec.get(field)
    }
    return {**spec, **changed}


def _with_variables(container: Manifest, variables: Sequence[Manifest]) -> Manifest:
    reserved = {variable["name"] for variable in variables}
    theirs = [variable for variable in container.get("env") or () if variable.get("name") not in reserved]
    return {**container, "env": [*variables, *theirs]}


def _label(key: str) -> Manifest:
    return {"fieldRef": {"fieldPath": f"metadata.labels['{key}']"}}
