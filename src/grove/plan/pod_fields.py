"""Which values of a pod template mean the same, by the path at which they stand.

A client with Go's types that reads an object and writes it back leaves out what is false, zero or empty in
fields that are no pointers, and writes empty objects where it has structs. So for each such field the value
and its absence are one. Fields that are pointers are not listed: `automountServiceAccountToken: false` is
not its absence. `[]` stands for any item of a list, `*` for any key of a map.
"""

from collections.abc import Mapping
from typing import Any, Final

from grove.api.quantities import usual

Path = tuple[str, ...]

EACH: Final = "[]"
_ANY: Final = "*"
_LISTS: Final = ("containers", "initContainers", "ephemeralContainers")
_CONTAINERS: Final[tuple[Path, ...]] = tuple(("spec", each, EACH) for each in _LISTS)
_VOLUME: Final[Path] = ("spec", "volumes", EACH)
_CLAIM: Final[Path] = (*_VOLUME, "ephemeral", "volumeClaimTemplate")


def _in_containers(*paths: Path) -> list[Path]:
    return [(*container, *path) for container in _CONTAINERS for path in paths]


#: Values that mean the same as their absence because an API server or the Go operator would fill them in.
_DEFAULTS: Final[Mapping[Path, object]] = {
    ("spec", "restartPolicy"): "Always",
    ("spec", "terminationGracePeriodSeconds"): 30,
    ("spec", "dnsPolicy"): "ClusterFirst",
    ("spec", "schedulerName"): "default-scheduler",
    **dict.fromkeys(_in_containers(("ports", EACH, "protocol")), "TCP"),
}
#: Where an empty object says nothing. Elsewhere it may: `namespaceSelector: {}` selects every namespace.
_EMPTY_OBJECTS: Final = frozenset(
    {
        ("labels",),
        ("annotations",),
        ("spec", "affinity"),
        ("spec", "nodeSelector"),
        ("spec", "securityContext"),
        *_in_containers(
            ("resources",), ("resources", "limits"), ("resources", "requests"), ("securityContext",)
        ),
        ("spec", "overhead"),
        *(("spec", "resources", each) for each in ("limits", "requests")),
        *((*_CLAIM, "metadata", *each) for each in ((), ("labels",), ("annotations",))),
        *((*_CLAIM, "spec", "resources", *each) for each in ((), ("limits",), ("requests",))),
        (*_VOLUME, "csi", "volumeAttributes"),
        (*_VOLUME, "flexVolume", "options"),
    }
)
#: In whatever selector it stands, it selects by nothing; the selector around it may mean everything.
_SELECTING: Final = "matchLabels"
#: Texts of which the empty one says something: no storage class is not the default one.
_EMPTY_TEXTS: Final = frozenset({(*_CLAIM, "spec", "storageClassName")})
#: Maps whose keys are names of somebody's choice: a value that is empty is there all the same.
_NAMED: Final = frozenset({"labels", "annotations", "nodeSelector", "matchLabels", "volumeAttributes"})

_READ_ONLY: Final = (
    "awsElasticBlockStore",
    "azureFile",
    "cephfs",
    "cinder",
    "fc",
    "flexVolume",
    "gcePersistentDisk",
    "glusterfs",
    "iscsi",
    "nfs",
    "persistentVolumeClaim",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
)
#: Where false is absence.
_FALSE: Final = frozenset(
    {
        *(("spec", field) for field in ("hostNetwork", "hostPID", "hostIPC")),
        *_in_containers(("stdin",), ("stdinOnce",), ("tty",), ("volumeMounts", EACH, "readOnly")),
        *((*_VOLUME, source, "readOnly") for source in _READ_ONLY),
        *((*_VOLUME, "iscsi", field) for field in ("chapAuthDiscovery", "chapAuthSession")),
        (*_VOLUME, "scaleIO", "sslEnabled"),
    }
)
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_NUMBERS: Final = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)
#: Where zero is absence.
_ZERO: Final = frozenset(
    {
        *_in_containers(
            ("ports", EACH, "hostPort"), *((probe, field) for probe in _PROBES for field in _PROBE_NUMBERS)
        ),
        (*_VOLUME, "gcePersistentDisk", "partition"),
        (*_VOLUME, "awsElasticBlockStore", "partition"),
    }
)
_AMOUNTS: Final[tuple[Path, ...]] = (("resources", "limits", _ANY), ("resources", "requests", _ANY))
#: A struct in Go, which is written as "0" where nothing was said.
_DOWNWARD: Final[Path] = ("downwardAPI", "items", EACH, "resourceFieldRef", "divisor")
_DIVISORS: Final = frozenset(
    {
        *_in_containers(("env", EACH, "valueFrom", "resourceFieldRef", "divisor")),
        (*_VOLUME, *_DOWNWARD),
        (*_VOLUME, "projected", "sources", EACH, *_DOWNWARD),
    }
)
_QUANTITIES: Final = frozenset(
    {
        *_in_containers(*_AMOUNTS),
        *(("spec", *path) for path in _AMOUNTS),
        *((*_CLAIM, "spec", *path) for path in _AMOUNTS),
        ("spec", "overhead", _ANY),
        (*_VOLUME, "emptyDir", "sizeLimit"),
        *_DIVISORS,
    }
)


#: What the paths of quantities end with, so that nearly all other values are told at once.
_AMOUNTS_BY_NAME: Final = frozenset(path[-2] for path in _QUANTITIES if path[-1] == _ANY)
_ONE_AMOUNT: Final = frozenset(path[-1] for path in _QUANTITIES if path[-1] != _ANY)


def usual_value(value: Any, path: Path) -> Any:
    """A value that is no object and no list, in its usual spelling: only quantities have several."""
    if len(path) < 2 or (path[-1] not in _ONE_AMOUNT and path[-2] not in _AMOUNTS_BY_NAME):
        return value
    if path not in _QUANTITIES and (*path[:-1], _ANY) not in _QUANTITIES:
        return value
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return value
    try:
        return usual(str(value))
    except ValueError:
        # Refused where sets are judged; here it is only another text.
        return value


def says_nothing(value: object, path: Path) -> bool:
    """Whether a value, in its usual spelling, means the same at this path as its absence."""
    if isinstance(value, str):
        if value == "":
            return path not in _EMPTY_TEXTS and (len(path) < 2 or path[-2] not in _NAMED)
        if value == "0":
            return path in _DIVISORS
        return path in _DEFAULTS and _DEFAULTS[path] == value
    if value is None or value == []:
        return True
    if value == {}:
        return path in _EMPTY_OBJECTS or path[-1] == _SELECTING
    if value is False:
        return path in _FALSE
    if value == 0:
        return path in _ZERO
    return path in _DEFAULTS and _DEFAULTS[path] == value
