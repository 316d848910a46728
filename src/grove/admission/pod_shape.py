"""Whether the parts of a pod spec that Grove reads have the shape that Kubernetes gives them. Pure.

Definitions keep pod specs as they are written, so that anything may stand there. Whatever else is wrong with
a pod spec is for the API server to say, which is asked by a dry run.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from grove.api.quantities import quantity
from grove.errors import FieldError
from grove.words import value_in_words

#: What a field must be: text, a list of something, or an object with these fields.
_Shape = str | list["_Shape"] | Mapping[str, "_Shape"]

_TEXT: Final = "text"
_OBJECT: Final = "object"
_AMOUNTS: Final = "amounts"
_RESOURCES: Final[_Shape] = {
    "requests": _AMOUNTS,
    "limits": _AMOUNTS,
    "claims": [{"name": _TEXT}],
}
_CONTAINER: Final[_Shape] = {
    "name": _TEXT,
    "image": _TEXT,
    "restartPolicy": _TEXT,
    "resources": _RESOURCES,
    "env": [{"name": _TEXT}],
    "volumeMounts": [_OBJECT],
    "securityContext": _OBJECT,
}
_TERM: Final[_Shape] = {"nodeSelectorTerms": [_OBJECT]}
_PODS: Final[Mapping[str, _Shape]] = {"requiredDuringSchedulingIgnoredDuringExecution": [_OBJECT]}
_PREFERRED: Final[Mapping[str, _Shape]] = {"preferredDuringSchedulingIgnoredDuringExecution": [_OBJECT]}
_POD: Final[_Shape] = {
    "containers": [_CONTAINER],
    "initContainers": [_CONTAINER],
    "volumes": [{"name": _TEXT}],
    "tolerations": [_OBJECT],
    "schedulingGates": [{"name": _TEXT}],
    "resourceClaims": [{"name": _TEXT}],
    "resources": _RESOURCES,
    "nodeSelector": _OBJECT,
    "imagePullSecrets": [_OBJECT],
    "hostAliases": [_OBJECT],
    "readinessGates": [_OBJECT],
    "securityContext": _OBJECT,
    "affinity": {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _TERM, **_PREFERRED},
        "podAffinity": {**_PODS, **_PREFERRED},
        "podAntiAffinity": {**_PODS, **_PREFERRED},
    },
    "schedulerName": _TEXT,
    "priorityClassName": _TEXT,
    "restartPolicy": _TEXT,
    "serviceAccountName": _TEXT,
    "hostname": _TEXT,
    "subdomain": _TEXT,
    "nodeName": _TEXT,
}


def misshapen(field: str, pods: Mapping[str, object]) -> list[FieldError]:
    """Every part of a pod spec that is of another type than Kubernetes wants."""
    return list(_wrong(field, pods, _POD))


def _wrong(field: str, value: object, shape: _Shape) -> Iterator[FieldError]:
    if value is None:
        return
    if shape == _TEXT:
        if not isinstance(value, str):
            yield _not(field, "text", value)
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield _not(field, "a list", value)
            return
        for index, item in enumerate(value):
            if item is None:
                yield _not(f"{field}[{index}]", "an object", item)
            yield from _wrong(f"{field}[{index}]", item, shape[0])
    elif not isinstance(value, dict):
        yield _not(field, "an object", value)
    elif isinstance(shape, Mapping):
        for name, inner in shape.items():
            yield from _wrong(f"{field}.{name}", value.get(name), inner)
    elif shape == _AMOUNTS:
        for name, amount in value.items():
            if not _is_amount(amount):
                yield _not(f"{field}[{name}]", "a quantity such as 2, 500m or 8Gi", amount)


def _is_amount(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return False
    try:
        quantity(str(value))
    except ValueError:
        return False
    return True


def _not(field: str, wanted: str, value: object) -> FieldError:
    return FieldError(field, f"must be {wanted}, not {value_in_words(value)}")
