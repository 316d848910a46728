"""Protobuf request bodies, as kubectl and the typed Go clients send them."""

from __future__ import annotations

import struct

import pytest

from grove.embedded.errors import ApiError
from grove.embedded.server.protobuf import MAGIC, decode


def varint(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def block(field: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def body(api_version: str, kind: str, message: bytes) -> bytes:
    return MAGIC + block(1, block(1, api_version) + block(2, kind)) + block(2, message)


def test_a_config_map_with_metadata_and_maps() -> None:
    meta = block(1, "cm") + block(3, "d") + block(11, block(1, "app") + block(2, "x"))
    message = block(1, meta) + block(2, block(1, "k") + block(2, "v"))
    assert decode(body("v1", "ConfigMap", message)) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "cm", "namespace": "d", "labels": {"app": "x"}},
        "data": {"k": "v"},
    }


def test_a_pod_with_containers_quantities_and_its_gang() -> None:
    limits = block(1, block(1, "nvidia.com/gpu") + block(2, block(1, "8")))
    container = block(1, "c") + block(2, "image") + block(8, limits)
    spec = block(2, container) + block(38, block(1, "gate")) + block(43, block(1, "group"))
    decoded = decode(body("v1", "Pod", block(2, spec)))
    assert decoded["spec"] == {
        "containers": [{"name": "c", "image": "image", "resources": {"limits": {"nvidia.com/gpu": "8"}}}],
        "schedulingGates": [{"name": "gate"}],
        "schedulingGroup": {"podGroupName": "group"},
    }


def test_a_lease_keeps_microseconds() -> None:
    renewed = number(1, 1_767_225_600) + number(2, 123_456_000)
    spec = block(1, "me") + number(2, 15) + block(4, renewed)
    decoded = decode(body("coordination.k8s.io/v1", "Lease", block(2, spec)))
    assert decoded["spec"] == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "renewTime": "2026-01-01T00:00:00.123456Z",
    }


def test_zero_behind_a_pointer_is_kept_and_a_plain_zero_is_omitted() -> None:
    spec = number(1, 0) + number(5, 0)
    assert decode(body("apps/v1", "Deployment", block(2, spec)))["spec"] == {"replicas": 0}


def test_negative_numbers_and_names_of_ports() -> None:
    assert decode(body("scheduling.k8s.io/v1", "PriorityClass", number(2, -5)))["value"] == -5
    target = number(1, 1) + block(3, "http")
    port = number(3, 80) + block(4, target)
    decoded = decode(body("v1", "Service", block(2, block(1, port))))
    assert decoded["spec"]["ports"] == [{"port": 80, "targetPort": "http"}]


def test_options_of_a_deletion() -> None:
    decoded = decode(body("v1", "DeleteOptions", number(1, 0) + block(4, "Foreground")))
    assert decoded == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Foreground",
    }


def test_a_secrets_bytes_are_written_as_base64() -> None:
    message = block(2, block(1, "k") + block(2, b"\x00\xff"))
    assert decode(body("v1", "Secret", message))["data"] == {"k": "AP8="}


def test_unknown_fields_are_skipped_whatever_their_wire_type() -> None:
    unknown = (
        number(900, 5)
        + block(901, "x")
        + varint(902 << 3 | 1)
        + struct.pack("<d", 1.5)
        + varint(903 << 3 | 5)
        + b"abcd"
    )
    assert decode(body("v1", "ConfigMap", unknown + number(4, 1)))["immutable"] is True


REFUSED = {
    "not protobuf at all": b'{"kind": "Pod"}',
    "cut in the middle": body("v1", "ConfigMap", block(1, "x" * 50))[:-10],
    "a kind that the table does not have": body("v1", "Frobnicator", b""),
    "a wire type that does not exist": body("v1", "ConfigMap", varint(1 << 3 | 7)),
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
def test_a_body_that_cannot_be_decoded_is_a_bad_request(data: bytes) -> None:
    with pytest.raises(ApiError) as refused:
        decode(data)
    assert refused.value.status == 400


def test_a_network_policy_and_a_flow_schema() -> None:
    selector = block(1, block(1, "app") + block(2, "x"))
    policy = block(2, block(1, selector) + block(4, "Ingress"))
    assert decode(body("networking.k8s.io/v1", "NetworkPolicy", policy))["spec"] == {
        "podSelector": {"matchLabels": {"app": "x"}},
        "policyTypes": ["Ingress"],
    }
    flow = block(2, block(1, block(1, "system")) + number(2, 500))
    assert decode(body("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", flow))["spec"] == {
        "priorityLevelConfiguration": {"name": "system"},
        "matchingPrecedence": 500,
    }


def test_a_schema_keeps_what_kubernetes_adds_to_json_schema() -> None:
    schema = block(5, "object") + number(38, 1) + block(44, block(1, "self.a == 1"))
    version = block(1, "v1") + block(4, block(1, schema))
    crd = decode(body("apiextensions.k8s.io/v1", "CustomResourceDefinition", block(2, block(7, version))))
    (found,) = crd["spec"]["versions"]
    assert found["schema"]["openAPIV3Schema"] == {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "x-kubernetes-validations": [{"rule": "self.a == 1"}],
    }
