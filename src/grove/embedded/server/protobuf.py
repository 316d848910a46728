"""Decode `application/vnd.kubernetes.protobuf` request bodies into plain objects.

kubectl and the typed Go clients send them; answers are always JSON, so nothing is encoded here. Fields that
the table does not know are skipped, as protobuf asks.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from grove.embedded.data import protobuf_table
from grove.embedded.errors import Manifest, bad_request

MAGIC = b"k8s\x00"
Fields = dict[int, Any]
_META = "k8s.io.apimachinery.pkg.apis.meta.v1."
_API = "k8s.io.api."
_CRDS = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions."
_META_KINDS = frozenset({"DeleteOptions", "PatchOptions", "CreateOptions", "UpdateOptions", "Status"})
_PACKAGES = {"": "core", "internal.apiserver.k8s.io": "apiserverinternal"}
_INTEGERS = frozenset({"int32", "int64", "uint32", "uint64"})

# Go omits zero values of plain fields from JSON but keeps those behind pointers. The wire does not tell the
# two apart; these optional scalars are pointers.
# fmt: off
_POINTERS = frozenset(
    {
        *("replicas", "parallelism", "completions", "backoffLimit", "value", "gracePeriodSeconds"),
        *("terminationGracePeriodSeconds", "minCount", "ttlSecondsAfterFinished", "tolerationSeconds"),
        *("priority", "activeDeadlineSeconds", "revisionHistoryLimit", "progressDeadlineSeconds"),
        *("defaultMode", "mode", "leaseDurationSeconds", "leaseTransitions", "expirationSeconds"),
        *("runAsUser", "runAsGroup", "fsGroup", "partition", "suspend", "controller", "blockOwnerDeletion"),
        *("optional", "enableServiceLinks", "automountServiceAccountToken", "allowPrivilegeEscalation"),
        *("privileged", "readOnlyRootFilesystem", "runAsNonRoot", "orphanDependents"),
        *("shareProcessNamespace", "hostUsers", "setHostnameAsFQDN", "immutable", "manualSelector"),
        *("minReplicas", "successfulJobsHistoryLimit", "failedJobsHistoryLimit", "startingDeadlineSeconds"),
        *("allocateLoadBalancerNodePorts", "ready", "serving", "terminating"),
        *("attachRequired", "podInfoOnMount", "timeoutSeconds", "port", "targetPort"),
        *("stabilizationWindowSeconds", "averageUtilization"),
    }
)
# fmt: on
_REQUIRED_ZEROES = frozenset(
    {"value", "port", "containerPort", "maxReplicas", "restartCount", "ready", "status"}
)


def decode(body: bytes) -> Manifest:
    """The object inside a `runtime.Unknown` envelope; 400 when the bytes are something else."""
    if body[:4] != MAGIC:
        raise bad_request("the body is not Kubernetes protobuf: it does not start with the bytes k8s\\0")
    try:
        envelope = dict(_fields(body[4:]))
        names = dict(_fields(envelope.get(1, b"")))
        api_version, kind = names.get(1, b"").decode(), names.get(2, b"").decode()
        message = _message(_type_of(api_version, kind), envelope.get(2, b""))
    except (IndexError, ValueError, struct.error, AttributeError, TypeError) as error:
        raise bad_request(f"the protobuf body cannot be decoded: {error}") from error
    return {"apiVersion": api_version, "kind": kind, **message}


def _type_of(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    if kind in _META_KINDS:
        name = _META + kind
    elif group == "apiextensions.k8s.io":
        name = f"{_CRDS}{version}.{kind}"
    else:
        package = _PACKAGES.get(group) or group.split(".")[0]
        name = f"{_API}{package}.{version}.{kind}"
    if name not in protobuf_table():
        raise bad_request(f"{kind} in {api_version} is not understood as protobuf; send it as JSON")
    return name


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number is longer than 64 bits")


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """(field number, raw value) in wire order: int for varints, bytes for everything else."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire = tag & 7
        value: int | bytes
        if wire == 0:
            value, at = _varint(data, at)
        else:
            if wire == 2:
                size, at = _varint(data, at)
            elif wire in (1, 5):
                size = 8 if wire == 1 else 4
            else:
                raise ValueError(f"unknown wire type {wire}")
            if at + size > len(data):
                raise ValueError("the body ends in the middle of a field")
            value = data[at : at + size]
            at += size
        yield tag >> 3, value


def _message(name: str, data: bytes) -> Manifest:
    known = protobuf_table()[name]
    result: Manifest = {}
    for number, raw in _fields(data):
        field = known.get(number)
        if field is None:
            continue
        json_name, shape, kind = field
        if shape == "r":
            result.setdefault(json_name, []).append(_value(kind, raw))
        elif shape == "m":
            entry = dict(_fields(raw))
            key = entry.get(1, b"").decode()
            empty: int | bytes = 0 if kind in _INTEGERS or kind == "bool" else b""
            result.setdefault(json_name, {})[key] = _value(kind, entry.get(2, empty))
        else:
            value = _value(kind, raw)
            if not _omitted(json_name, value):
                result[json_name] = value
    return result


def _omitted(name: str, value: Any) -> bool:
    if value is None:
        return True
    if value == "":
        return name != "storageClassName"  # the one text that means something when it is empty
    if value is False or (value == 0 and type(value) is int):
        return name not in _POINTERS and name not in _REQUIRED_ZEROES
    return False


def _value(kind: str, raw: Any) -> Any:
    if kind in _INTEGERS:
        return _signed(raw)
    scalar = _SCALARS.get(kind)
    if scalar is not None:
        return scalar(raw)
    special = _SPECIAL.get(kind)
    if special is not None:
        return special(dict(_fields(raw)), raw)
    return _message(kind, raw)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _moment(fields: Fields, raw: bytes) -> str | None:
    if not fields.get(1):
        return None
    return datetime.fromtimestamp(_signed(fields[1]), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _precise_moment(fields: Fields, raw: bytes) -> str | None:
    if not fields.get(1):
        return None
    whole = datetime.fromtimestamp(_signed(fields[1]), UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{fields.get(2, 0) // 1000:06d}Z"


def _int_or_string(fields: Fields, raw: bytes) -> int | str:
    return fields.get(3, b"").decode() if fields.get(1) else _signed(fields.get(2, 0))


def _json(fields: Fields, raw: bytes) -> Any:
    return msgspec.json.decode(fields[1]) if fields.get(1) else None


def _schema_or_bool(fields: Fields, raw: bytes) -> Any:
    if 2 in fields:
        return _message(f"{_CRDS}v1.JSONSchemaProps", fields[2])
    return bool(fields.get(1))


def _schema_or_list(fields: Fields, raw: bytes) -> Any:
    if 1 in fields:
        return _message(f"{_CRDS}v1.JSONSchemaProps", fields[1])
    return [_message(f"{_CRDS}v1.JSONSchemaProps", value) for number, value in _fields(raw) if number == 2]


def _texts(fields: Fields, raw: bytes) -> list[str]:
    return [value.decode() for _, value in _fields(raw)]


def _duration(fields: Fields, raw: bytes) -> str:
    return f"{_signed(fields.get(1, 0)) / 1e9:g}s"


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "string": lambda raw: raw.decode(),
    "bool": bool,
    "bytes": lambda raw: base64.b64encode(raw).decode(),
    "double": lambda raw: struct.unpack("<d", raw)[0],
    "float": lambda raw: struct.unpack("<f", raw)[0],
}
_SPECIAL: dict[str, Callable[[Fields, bytes], Any]] = {
    f"{_META}Time": _moment,
    f"{_META}Timestamp": _moment,
    f"{_META}MicroTime": _precise_moment,
    f"{_META}FieldsV1": _json,
    f"{_META}Duration": _duration,
    f"{_META}Verbs": _texts,
    "k8s.io.apimachinery.pkg.api.resource.Quantity": lambda fields, raw: fields.get(1, b"0").decode(),
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    "k8s.io.apimachinery.pkg.runtime.RawExtension": _json,
    "k8s.io.api.authorization.v1.ExtraValue": _texts,
    "k8s.io.api.authentication.v1.ExtraValue": _texts,
    f"{_CRDS}v1.JSON": _json,
    f"{_CRDS}v1.JSONSchemaPropsOrBool": _schema_or_bool,
    f"{_CRDS}v1.JSONSchemaPropsOrArray": _schema_or_list,
}
