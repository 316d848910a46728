"""Merge patch, JSON patch and strategic merge patch."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from grove.embedded.errors import ApiError
from grove.embedded.machinery.patch import json_patch, merge_patch, strategic_patch
from grove.embedded.machinery.schema import builtin_schema

Manifest = dict[str, Any]

MERGES: dict[str, tuple[Any, Any, Any]] = {
    "null removes": ({"data": {"a": "1"}}, {"data": {"a": None, "b": "2"}}, {"data": {"b": "2"}}),
    "lists are replaced": ({"x": [1, 2]}, {"x": [3]}, {"x": [3]}),
    "an object replaces a scalar": ({"x": 1}, {"x": {"y": None, "z": 1}}, {"x": {"z": 1}}),
    "removing what is absent is fine": ({}, {"x": None}, {}),
}


@pytest.mark.parametrize(("target", "patch", "want"), MERGES.values(), ids=MERGES)
def test_merge_patch(target: Any, patch: Any, want: Any) -> None:
    before = copy.deepcopy(target)
    assert merge_patch(target, patch) == want
    assert target == before


OPERATIONS: dict[str, tuple[Manifest, list[Manifest], Manifest]] = {
    "add to an object": ({"a": {}}, [{"op": "add", "path": "/a/b", "value": 1}], {"a": {"b": 1}}),
    "append to a list": ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
    "insert into a list": ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
    "remove from a list": ({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}),
    "replace": ({"a": 1}, [{"op": "replace", "path": "/a", "value": 2}], {"a": 2}),
    "test, then remove": (
        {"a": [{"name": "g"}]},
        [{"op": "test", "path": "/a/0/name", "value": "g"}, {"op": "remove", "path": "/a/0"}],
        {"a": []},
    ),
    "an absent field tests as null": ({"a": 1}, [{"op": "test", "path": "/b", "value": None}], {"a": 1}),
    "move": ({"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}),
    "copy": ({"a": [1]}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": [1], "b": [1]}),
    "escaped names": ({"m": {}}, [{"op": "add", "path": "/m/a~1b~0c", "value": 1}], {"m": {"a/b~c": 1}}),
}


@pytest.mark.parametrize(("target", "operations", "want"), OPERATIONS.values(), ids=OPERATIONS)
def test_json_patch(target: Manifest, operations: list[Manifest], want: Manifest) -> None:
    before = copy.deepcopy(target)
    assert json_patch(target, operations) == want
    assert target == before


REFUSED: dict[str, tuple[Any, int]] = {
    "a test that fails": ([{"op": "test", "path": "/a", "value": 9}], 422),
    "true is not one": ([{"op": "test", "path": "/a", "value": True}], 422),
    "a path that is not there": ([{"op": "remove", "path": "/zzz"}], 422),
    "replace needs a parent": ([{"op": "replace", "path": "/zzz/y", "value": 1}], 422),
    "an index beyond the end": ([{"op": "remove", "path": "/l/7"}], 422),
    "an operation that does not exist": ([{"op": "frobnicate", "path": "/a"}], 422),
    "no list": ({"op": "remove"}, 400),
}


@pytest.mark.parametrize(("operations", "want"), REFUSED.values(), ids=REFUSED)
def test_a_json_patch_that_does_not_apply_is_refused_as_a_whole(operations: Any, want: int) -> None:
    with pytest.raises(ApiError) as refused:
        json_patch({"a": 1, "l": [1]}, operations)
    assert refused.value.status == want


def container(**fields: Any) -> Manifest:
    return {"name": "c", **fields}


def env(*names: str) -> list[Manifest]:
    return [{"name": name, "value": name.lower()} for name in names]


STRATEGIC: dict[str, tuple[Manifest, Manifest, Manifest]] = {
    "keyed lists merge by key and items can be deleted": (
        {"containers": [container(env=env("A"))]},
        {"containers": [container(env=[{"name": "B", "value": "2"}, {"name": "A", "$patch": "delete"}])]},
        {"containers": [container(env=[{"name": "B", "value": "2"}])]},
    ),
    "another item stays": (
        {"containers": [container(image="1"), {"name": "d"}]},
        {"containers": [{"name": "d", "image": "2"}]},
        {"containers": [container(image="1"), {"name": "d", "image": "2"}]},
    ),
    "a list can be replaced": (
        {"containers": [container(env=env("A", "B"))]},
        {"containers": [container(env=[{"$patch": "replace"}, {"name": "C"}])]},
        {"containers": [container(env=[{"name": "C"}])]},
    ),
    "an atomic list is replaced": (
        {"tolerations": [{"key": "a"}]},
        {"tolerations": [{"key": "b"}]},
        {"tolerations": [{"key": "b"}]},
    ),
    "an object can be replaced": (
        {"securityContext": {"runAsUser": 1, "fsGroup": 2}},
        {"securityContext": {"$patch": "replace", "runAsUser": 3}},
        {"securityContext": {"runAsUser": 3}},
    ),
    "an object can be deleted": (
        {"securityContext": {"runAsUser": 1}},
        {"securityContext": {"$patch": "delete"}},
        {},
    ),
    "keys can be retained": (
        {"volumes": [{"name": "v", "emptyDir": {}}]},
        {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]},
        {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]},
    ),
    "the order of items can be set": (
        {"containers": [{"name": "a"}, {"name": "b"}]},
        {
            "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
            "containers": [{"name": "a", "image": "1"}],
        },
        {"containers": [{"name": "b"}, {"name": "a", "image": "1"}]},
    ),
}


@pytest.mark.parametrize(("spec", "patch", "want"), STRATEGIC.values(), ids=STRATEGIC)
def test_strategic_merge_of_a_pod_spec(spec: Manifest, patch: Manifest, want: Manifest) -> None:
    schema = builtin_schema("1.36", "", "v1", "Pod")
    target = {"spec": spec}
    before = copy.deepcopy(target)
    assert strategic_patch(target, {"spec": patch}, schema) == {"spec": want}
    assert target == before


def test_values_can_be_deleted_from_a_list_of_strings() -> None:
    schema = builtin_schema("1.36", "", "v1", "Pod")
    target = {"metadata": {"finalizers": ["a", "b"]}}
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}}
    assert strategic_patch(target, patch, schema) == {"metadata": {"finalizers": ["b", "c"]}}


def test_an_item_without_its_key_is_refused() -> None:
    schema = builtin_schema("1.36", "", "v1", "Pod")
    with pytest.raises(ApiError) as refused:
        strategic_patch({"spec": {}}, {"spec": {"containers": [{"image": "x"}]}}, schema)
    assert (refused.value.status, "does not contain declared merge key: name" in refused.value.message) == (
        400,
        True,
    )
