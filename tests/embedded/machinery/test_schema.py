"""Structural schemas: defaults, pruning and the sentences of validation errors."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from grove.embedded import data
from grove.embedded.errors import ApiError
from grove.embedded.machinery.schema import builtin_schema, custom_schema

Manifest = dict[str, Any]

GANG: Manifest = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": {
            "type": "object",
            "required": ["minMember"],
            "x-kubernetes-validations": [
                {"rule": "self.minMember <= self.replicas", "message": "minMember must be <= replicas"},
                {"rule": "self.queue == oldSelf.queue", "message": "queue is immutable"},
            ],
            "properties": {
                "minMember": {"type": "integer", "minimum": 1, "maximum": 10000},
                "replicas": {"type": "integer", "default": 4, "minimum": 0},
                "queue": {"type": "string", "default": "default", "maxLength": 63},
                "policy": {"type": "string", "enum": ["Strict", "BestEffort"], "default": "Strict"},
                "timeout": {"type": "string", "pattern": "^[0-9]+[smh]$", "default": "60s"},
                "note": {"type": "string", "nullable": True},
                "ratio": {"type": "number"},
                "tags": {
                    "type": "array",
                    "x-kubernetes-list-type": "set",
                    "items": {"type": "string"},
                    "maxItems": 2,
                },
                "roles": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {
                            "name": {"type": "string"},
                            "count": {"type": "integer", "default": 1},
                        },
                    },
                },
                "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "limits": {"type": "object", "additionalProperties": {"type": "integer"}},
                "closed": {"type": "object"},
                "port": {"x-kubernetes-int-or-string": True},
                "template": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "choice": {
                    "type": "object",
                    "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                    "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
                },
            },
        },
        "status": {
            "type": "object",
            "properties": {"phase": {"type": "string"}, "at": {"type": "string", "format": "date-time"}},
        },
    },
}
SCHEMA = custom_schema(GANG)
UNCHECKED = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


def gang(spec: Manifest, **more: Any) -> Manifest:
    return {
        "apiVersion": "sched.example.com/v1",
        "kind": "Gang",
        "metadata": {"name": "g"},
        "spec": spec,
        **more,
    }


def stored(spec: Manifest) -> Manifest:
    obj = gang(copy.deepcopy(spec))
    SCHEMA.prune(obj)
    SCHEMA.default(obj)
    return obj


def sentences(obj: Manifest, old: Manifest | None = None) -> list[str]:
    return [f"{cause.field}: {cause.message}" for cause in SCHEMA.validate(obj, old)]


# What a kube-apiserver 1.36.4 answered.
INVALID: dict[str, tuple[Manifest, list[str]]] = {
    "a missing field": ({"replicas": 3}, ["spec.minMember: Required value", UNCHECKED]),
    "too small": (
        {"minMember": 0},
        ["spec.minMember: Invalid value: 0: spec.minMember in body should be greater than or equal to 1"],
    ),
    "a wrong type": (
        {"minMember": "two"},
        [
            'spec.minMember: Invalid value: "string": spec.minMember in body must be of type integer: "string"',
            UNCHECKED,
        ],
    ),
    "a float for an integer": (
        {"minMember": 1.0},
        [
            'spec.minMember: Invalid value: "number": spec.minMember in body must be of type integer: "number"',
            UNCHECKED,
        ],
    ),
    "not in the enum": (
        {"minMember": 1, "policy": "No"},
        ['spec.policy: Unsupported value: "No": supported values: "Strict", "BestEffort"', UNCHECKED],
    ),
    "against the pattern": (
        {"minMember": 1, "timeout": "x"},
        ["spec.timeout: Invalid value: \"x\": spec.timeout in body should match '^[0-9]+[smh]$'"],
    ),
    "too long": (
        {"minMember": 1, "queue": "q" * 70},
        ["spec.queue: Too long: may not be more than 63 bytes", UNCHECKED],
    ),
    "a rule broken": ({"minMember": 9}, ["spec: Invalid value: minMember must be <= replicas"]),
    "the same key twice": (
        {"minMember": 1, "roles": [{"name": "a"}, {"name": "a"}]},
        ['spec.roles[1]: Duplicate value: {"name":"a"}'],
    ),
    "the same value twice": ({"minMember": 1, "tags": ["a", "a"]}, ['spec.tags[1]: Duplicate value: "a"']),
    "too many items": (
        {"minMember": 1, "tags": ["a", "b", "c"]},
        ["spec.tags: Too many: 3: must have at most 2 items", UNCHECKED],
    ),
    "neither integer nor string": (
        {"minMember": 1, "port": {"a": 1}},
        [
            'spec.port: Invalid value: "object": spec.port in body must be of type integer,string: "object"',
            UNCHECKED,
        ],
    ),
    "a wrong value in a map": (
        {"minMember": 1, "limits": {"x": "y"}},
        [
            'spec.limits.x: Invalid value: "string": spec.limits.x in body must be of type integer: "string"',
            UNCHECKED,
        ],
    ),
    "two of one": (
        {"minMember": 1, "choice": {"a": "1", "b": "2"}},
        [
            'spec.choice: Invalid value: "": "spec.choice" must validate one and only one schema (oneOf). Found 2 valid alternatives'
        ],
    ),
}


@pytest.mark.parametrize(("spec", "want"), INVALID.values(), ids=INVALID)
def test_an_invalid_object_is_refused_in_the_servers_words(spec: Manifest, want: list[str]) -> None:
    assert sentences(stored(spec)) == want


VALID: dict[str, Manifest] = {
    "a port by name": {"minMember": 1, "port": "http"},
    "a port by number": {"minMember": 1, "port": 80},
    "an allowed null": {"minMember": 1, "note": None},
    "an integer as a number": {"minMember": 1, "ratio": 2},
    "one of two": {"minMember": 1, "choice": {"a": "1"}},
}


@pytest.mark.parametrize("spec", VALID.values(), ids=VALID)
def test_a_valid_object_passes(spec: Manifest) -> None:
    assert sentences(stored(spec)) == []


def test_defaults_are_filled_in_also_inside_list_items_and_for_null() -> None:
    obj = stored({"minMember": 1, "policy": None, "timeout": None, "roles": [{"name": "a"}]})
    assert obj["spec"] == {
        "minMember": 1,
        "replicas": 4,
        "queue": "default",
        "policy": "Strict",
        "timeout": "60s",
        "roles": [{"name": "a", "count": 1}],
    }


def test_a_default_is_not_shared_between_objects() -> None:
    schema = custom_schema(
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "default": {},
                    "properties": {"n": {"type": "integer", "default": 1}},
                }
            },
        }
    )
    first: Manifest = {}
    second: Manifest = {}
    schema.default(first)
    first["spec"]["n"] = 9
    schema.default(second)
    assert second == {"spec": {"n": 1}}


def test_unknown_fields_are_dropped_and_named_and_free_form_is_kept() -> None:
    obj = gang(
        {
            "minMember": 1,
            "bogus": {"x": 1},
            "extra": {"keep": 1},
            "closed": {"gone": 1},
            "roles": [{"name": "a", "z": 1}],
        }
    )
    obj["metadata"]["bogus"] = 1
    unknown = SCHEMA.prune(obj)
    assert sorted(unknown) == ["metadata.bogus", "spec.bogus", "spec.closed.gone", "spec.roles[0].z"]
    assert obj["spec"] == {"minMember": 1, "extra": {"keep": 1}, "closed": {}, "roles": [{"name": "a"}]}


def test_an_embedded_object_keeps_its_type_and_metadata() -> None:
    inner = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"free": True}}
    obj = gang({"minMember": 1, "template": copy.deepcopy(inner)})
    assert (SCHEMA.prune(obj), obj["spec"]["template"]) == ([], inner)


def test_what_an_update_leaves_alone_is_not_judged_again() -> None:
    old = stored({"minMember": 1, "timeout": "x"})
    new = copy.deepcopy(old)
    new["spec"]["replicas"] = 7
    assert sentences(new, old) == []


def test_a_malformed_time_is_named() -> None:
    obj = stored({"minMember": 1})
    obj["status"] = {"at": "yesterday"}
    assert sentences(obj) == [
        'status.at: Invalid value: "yesterday": status.at in body must be of type date-time: "yesterday"'
    ]


def pod(**spec: Any) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


UNDECODABLE: dict[str, tuple[Manifest, str]] = {
    "a string for a boolean": (
        pod(hostNetwork="yes"),
        'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal string into Go struct field Pod.spec.hostNetwork of type bool',
    ),
    "no quantity": (
        pod(containers=[{"name": "c", "resources": {"requests": {"cpu": "abc"}}}]),
        'Pod in version "v1" cannot be handled as a Pod: quantities must match the regular expression '
        "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ),
}


@pytest.mark.parametrize(("obj", "want"), UNDECODABLE.values(), ids=UNDECODABLE)
def test_a_built_in_kind_that_cannot_be_decoded_is_a_bad_request(obj: Manifest, want: str) -> None:
    schema = builtin_schema("1.36", "", "v1", "Pod")
    assert schema is not None
    with pytest.raises(ApiError) as refused:
        schema.validate(obj)
    assert (refused.value.status, refused.value.message) == (400, want)


def test_a_built_in_kinds_unknown_fields_are_named() -> None:
    schema = builtin_schema("1.36", "", "v1", "Pod")
    assert schema is not None
    assert schema.prune(pod(foo=1)) == ["spec.foo"]


def test_nulls_of_a_built_in_kind_count_as_absent() -> None:
    schema = builtin_schema("1.36", "", "v1", "Pod")
    assert schema is not None
    obj = pod(nodeSelector=None, containers=[{"name": "c", "command": None}, None], volumes=None)
    obj["status"] = None
    assert schema.prune(obj) == []
    assert obj == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c"}, {}]},
    }


LINKS = {
    "1.35": ("workloadRef", "schedulingGroup"),
    "1.36": ("schedulingGroup", "workloadRef"),
    "1.37": ("schedulingGroup", "workloadRef"),
}


@pytest.mark.parametrize("minor", LINKS)
def test_each_minor_knows_its_own_gang_link_of_a_pod(minor: str) -> None:
    known, unknown = LINKS[minor]
    schema = builtin_schema(minor, "", "v1", "Pod")
    assert schema is not None
    assert schema.prune(pod(**{known: {}, unknown: {}})) == [f"spec.{unknown}"]


GANG_KINDS = {
    "1.35": {("v1alpha1", "Workload")},
    "1.36": {("v1alpha2", "Workload"), ("v1alpha2", "PodGroup")},
    "1.37": {
        *(("v1beta1", "Workload"), ("v1beta1", "PodGroup")),
        *(("v1alpha3", "Workload"), ("v1alpha3", "PodGroup"), ("v1alpha3", "CompositePodGroup")),
    },
}


@pytest.mark.parametrize("minor", GANG_KINDS)
def test_each_minor_has_the_gang_kinds_that_it_serves(minor: str) -> None:
    versions = ("v1alpha1", "v1alpha2", "v1alpha3", "v1beta1")
    kinds = ("Workload", "PodGroup", "CompositePodGroup")
    found = {(v, k) for v in versions for k in kinds if data.schema_of(minor, "scheduling.k8s.io", v, k)}
    assert found == GANG_KINDS[minor]


@pytest.mark.parametrize("minor", GANG_KINDS)
def test_every_schema_of_a_minor_compiles(minor: str) -> None:
    kinds = [
        (gvk["group"], gvk["version"], gvk["kind"])
        for schema in data.components(minor).values()
        for gvk in schema.get("x-kubernetes-group-version-kind", ())[:1]
    ]
    assert len(kinds) > 60
    assert all(builtin_schema(minor, *kind) is not None for kind in kinds)


def test_an_unknown_minor_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"no schemas for Kubernetes '1\.20'; there are 1\.35, 1\.36, 1\.37"):
        data.components("1.20")
