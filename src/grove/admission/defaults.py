"""Defaults of a PodCliqueSet: `default(manifest)` fills in what is left out.

Returns a new manifest with the fields filled in; never changes what the user wrote, never looks below
podSpec except for the two fields that the Go operator fills in there. Filling in twice is the same as once.
"""

import copy
from typing import Final

from grove.meta import Manifest

TERMINATION_DELAY: Final = "4h0m0s"
TERMINATION_GRACE_SECONDS: Final = 30


def default(cliqueset: Manifest) -> Manifest:
    """The set with everything that it leaves open filled in."""
    return fill_in(copy.deepcopy(cliqueset))


def fill_in(result: Manifest) -> Manifest:
    """The same for a manifest that belongs to nobody else and is changed: a copy costs more than the rest."""
    _set(_object(result, "metadata"), "namespace", "default")
    spec = _object(result, "spec")
    _set(spec, "replicas", 0)
    if spec.get("updateStrategy") is not None:
        _set(spec["updateStrategy"], "type", "RollingRecreate")
    template = _object(spec, "template")
    _set(template, "cliqueStartupType", "CliqueStartupTypeAnyOrder")
    for clique in template.get("cliques") or ():
        _default_clique(_object(clique, "spec"))
    for group in template.get("podCliqueScalingGroups") or ():
        _default_group(group)
    _set(template, "terminationDelay", TERMINATION_DELAY)
    _set(_object(template, "headlessServiceConfig"), "publishNotReadyAddresses", True)
    return result


def _default_clique(spec: Manifest) -> None:
    pods = _object(spec, "podSpec")
    if not pods.get("restartPolicy"):
        pods["restartPolicy"] = "Always"
    _set(pods, "terminationGracePeriodSeconds", TERMINATION_GRACE_SECONDS)
    # Clients of the typed API read a blank name, not a missing one.
    _set(spec, "roleName", "")
    _set(spec, "replicas", 1)
    # A role that is scaled to zero gets its minimum when it is scaled up: 0 could never be changed again.
    replicas = _count(spec["replicas"])
    if replicas:
        _set(spec, "minAvailable", replicas)
    if spec.get("autoScalingConfig") is not None:
        _set(spec["autoScalingConfig"], "minReplicas", replicas or _count(spec.get("minAvailable")) or 1)


def _default_group(group: Manifest) -> None:
    _set(group, "replicas", 1)
    _set(group, "minAvailable", 1)
    if group.get("scaleConfig") is not None:
        minimum = _count(group["replicas"]) or _count(group["minAvailable"]) or 1
        _set(group["scaleConfig"], "minReplicas", minimum)


def _count(value: object) -> int:
    """A number of replicas from which others may be derived; 0 for what will be refused by itself.

    A default derived from a mistake would be a second mistake, in a field that nobody wrote.
    """
    return value if isinstance(value, int) and value is not True and value > 0 else 0


def _object(parent: Manifest, field: str) -> Manifest:
    """The object in a field, made if it is absent."""
    _set(parent, field, {})
    child: Manifest = parent[field]
    return child


def _set(parent: Manifest, field: str, value: object) -> None:
    """Fill a field in; null is as good as absent."""
    if parent.get(field) is None:
        parent[field] = value
