"""Server-side apply and managedFields: conflicts, co-ownership, removal, lists, subresources."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grove.embedded.errors import ApiError
from grove.embedded.machinery.fieldsets import Tree, difference, intersection, paths, union
from grove.embedded.machinery.schema import builtin_schema, custom_schema
from grove.embedded.machinery.ssa import apply, track

Manifest = dict[str, Any]

CONFIG_MAP = builtin_schema("1.36", "", "v1", "ConfigMap")
POD = builtin_schema("1.36", "", "v1", "Pod")
GANG = custom_schema(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "minMember": {"type": "integer"},
                    "roles": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {
                            "type": "object",
                            "properties": {"name": {"type": "string"}, "count": {"type": "integer"}},
                        },
                    },
                    "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                    "steps": {"type": "array", "items": {"type": "string"}},
                },
            },
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        },
    }
)


def config_map(**values: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s"}, "data": values}


def gang(**spec: Any) -> Manifest:
    return {"apiVersion": "x.y/v1", "kind": "Gang", "metadata": {"name": "g"}, "spec": spec}


def applied(
    live: Manifest | None,
    obj: Manifest,
    manager: str,
    *,
    schema: Any = CONFIG_MAP,
    force: bool = False,
    now: str = "t1",
    **more: Any,
) -> Manifest:
    return apply(live, copy.deepcopy(obj), manager=manager, schema=schema, force=force, now=now, **more)


def owners(obj: Manifest) -> dict[tuple[str, str], Manifest]:
    return {(m["manager"], m["operation"]): m["fieldsV1"] for m in obj["metadata"].get("managedFields", [])}


def test_the_first_apply_owns_what_it_names() -> None:
    obj = applied(None, config_map(a="1", b="1"), "a")
    assert obj["metadata"]["managedFields"] == [
        {
            "manager": "a",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": "t1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:a": {}, "f:b": {}}},
        }
    ]


def test_taking_anothers_field_is_a_conflict_that_names_the_owner() -> None:
    live = applied(None, config_map(a="1"), "a")
    with pytest.raises(ApiError) as refused:
        applied(live, config_map(a="2"), "b")
    assert refused.value.status == 409
    assert refused.value.message == 'Apply failed with 1 conflict: conflict with "a": .data.a'
    assert refused.value.details == {
        "causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "a"', "field": ".data.a"}]
    }


def test_several_conflicts_are_listed_by_owner() -> None:
    live = applied(None, config_map(a="1", b="1"), "a")
    track(None, created := config_map(c="1"), manager="kubectl", schema=CONFIG_MAP, now="t0")
    live["data"] |= created["data"]
    live["metadata"]["managedFields"] += created["metadata"]["managedFields"]
    with pytest.raises(ApiError) as refused:
        applied(live, config_map(a="2", b="2", c="2"), "x")
    assert refused.value.message == (
        'Apply failed with 3 conflicts: conflicts with "a":\n- .data.a\n- .data.b\nconflicts with "kubectl" using v1:\n- .data.c'
    )


def test_two_managers_may_own_the_same_value_and_one_may_let_go() -> None:
    live = applied(None, config_map(a="1", b="1"), "a")
    live = applied(live, config_map(a="1"), "b")
    live = applied(live, config_map(c="3"), "a")
    assert live["data"] == {"a": "1", "c": "3"}
    assert owners(live) == {("a", "Apply"): {"f:data": {"f:c": {}}}, ("b", "Apply"): {"f:data": {"f:a": {}}}}


def test_force_takes_the_field_and_the_loser_no_longer_owns_it() -> None:
    live = applied(None, config_map(a="1", c="3"), "a")
    live = applied(live, config_map(a="9"), "c", force=True)
    assert live["data"] == {"a": "9", "c": "3"}
    assert owners(live) == {("a", "Apply"): {"f:data": {"f:c": {}}}, ("c", "Apply"): {"f:data": {"f:a": {}}}}


def test_an_update_takes_over_what_it_changes() -> None:
    live = applied(None, config_map(a="1", c="3"), "a")
    new = copy.deepcopy(live)
    new["data"]["a"] = "10"
    track(live, new, manager="upd", schema=CONFIG_MAP, now="t2")
    assert owners(new) == {
        ("a", "Apply"): {"f:data": {"f:c": {}}},
        ("upd", "Update"): {"f:data": {"f:a": {}}},
    }


def test_applying_the_same_again_changes_nothing() -> None:
    live = applied(None, config_map(a="1"), "a", now="t1")
    assert applied(live, config_map(a="1"), "a", now="t2") == live


def test_a_create_owns_its_maps_too() -> None:
    obj = config_map(a="1")
    obj["metadata"]["labels"] = {"a": "b"}
    track(None, obj, manager="mm", schema=CONFIG_MAP, now="t")
    assert owners(obj) == {
        ("mm", "Update"): {"f:data": {".": {}, "f:a": {}}, "f:metadata": {"f:labels": {".": {}, "f:a": {}}}}
    }


def test_a_pods_containers_and_ports_are_owned_by_key() -> None:
    obj = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {
            "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}], "resources": {}}],
            "tolerations": [{"key": "x"}],
        },
    }
    track(None, obj, manager="m", schema=POD, now="t")
    port = 'k:{"containerPort":80,"protocol":"TCP"}'
    assert owners(obj)["m", "Update"] == {
        "f:spec": {
            "f:containers": {
                'k:{"name":"c"}': {
                    ".": {},
                    "f:name": {},
                    "f:image": {},
                    "f:ports": {".": {}, port: {".": {}, "f:containerPort": {}}},
                    "f:resources": {},
                }
            },
            "f:tolerations": {},
        }
    }


def test_items_of_a_keyed_list_belong_to_whoever_applied_them() -> None:
    live = applied(
        None,
        gang(minMember=1, roles=[{"name": "x", "count": 1}, {"name": "y", "count": 1}]),
        "a",
        schema=GANG,
    )
    live = applied(live, gang(roles=[{"name": "z", "count": 5}]), "b", schema=GANG)
    assert [role["name"] for role in live["spec"]["roles"]] == ["x", "y", "z"]
    live = applied(live, gang(minMember=1, roles=[{"name": "y", "count": 1}]), "a", schema=GANG)
    assert live["spec"]["roles"] == [{"name": "y", "count": 1}, {"name": "z", "count": 5}]


def test_sets_merge_and_atomic_lists_are_replaced() -> None:
    live = applied(None, gang(tags=["a"], steps=["1"]), "a", schema=GANG)
    live = applied(live, gang(tags=["b"]), "b", schema=GANG)
    assert live["spec"]["tags"] == ["a", "b"]
    with pytest.raises(ApiError) as refused:
        applied(live, gang(steps=["1", "2"]), "b", schema=GANG)
    assert ".spec.steps" in refused.value.message
    live = applied(live, gang(steps=["1"]), "a", schema=GANG)
    assert live["spec"] == {"tags": ["b"], "steps": ["1"]}


def test_an_emptied_map_goes_with_its_last_field() -> None:
    live = applied(None, config_map(a="1"), "a")
    live = applied(live, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s"}}, "a")
    assert "data" not in live


def test_status_is_owned_through_its_subresource_only() -> None:
    live = applied(None, gang(minMember=1), "a", schema=GANG)
    asked = {**gang(minMember=9), "status": {"phase": "Ok"}}
    live = applied(live, asked, "ctl", schema=GANG, subresource="status")
    entry = next(m for m in live["metadata"]["managedFields"] if m["manager"] == "ctl")
    assert (entry["subresource"], entry["fieldsV1"], live["status"]) == (
        "status",
        {"f:status": {"f:phase": {}}},
        {"phase": "Ok"},
    )
    assert live["spec"] == {"minMember": 1}


def test_an_untracked_object_has_one_owner_before_its_first_apply() -> None:
    with pytest.raises(ApiError) as refused:
        applied(config_map(a="1"), config_map(a="2"), "b")
    assert (
        refused.value.message
        == 'Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.a'
    )


def test_lazy_tracking_starts_with_the_first_apply() -> None:
    old = config_map(a="1")
    new = config_map(a="2")
    track(old, new, manager="u", schema=CONFIG_MAP, now="t", mode="lazy")
    assert "managedFields" not in new["metadata"]
    live = applied(old, config_map(b="1"), "a")
    later = copy.deepcopy(live)
    later["data"]["b"] = "2"
    track(live, later, manager="u", schema=CONFIG_MAP, now="t", mode="lazy")
    assert owners(later)["u", "Update"] == {"f:data": {"f:b": {}}}


def test_a_write_that_changes_nothing_keeps_the_owners_and_their_times() -> None:
    live = applied(None, config_map(a="1"), "a", now="t1")
    again = copy.deepcopy(live)
    track(live, again, manager="u", schema=CONFIG_MAP, now="t9")
    assert again == live


def test_a_removed_field_is_nobodys() -> None:
    live = applied(None, config_map(a="1", b="2"), "a")
    new = copy.deepcopy(live)
    del new["data"]["a"]
    track(live, new, manager="u", schema=CONFIG_MAP, now="t")
    assert owners(new) == {("a", "Apply"): {"f:data": {"f:b": {}}}}


def test_an_owner_list_that_the_client_sends_is_taken_as_it_is() -> None:
    live = applied(None, config_map(a="1"), "a")
    new = copy.deepcopy(live)
    new["metadata"]["managedFields"][0]["manager"] = "renamed"
    track(live, new, manager="u", schema=CONFIG_MAP, now="t")
    assert list(owners(new)) == [("renamed", "Apply")]


PATHS = st.frozensets(
    st.lists(st.sampled_from(["f:a", "f:b", "f:c"]), min_size=1, max_size=3).map(tuple), max_size=8
)


def tree(members: frozenset[tuple[str, ...]]) -> Tree:
    """The FieldsV1 tree of some paths."""
    result: Tree = {}
    for path in members:
        branch: Tree = {path[-1]: {}}
        for element in reversed(path[:-1]):
            branch = {element: branch}
        result = union(result, branch)
    return result


@given(PATHS, PATHS)
def test_field_sets_obey_the_laws_of_sets(
    left: frozenset[tuple[str, ...]], right: frozenset[tuple[str, ...]]
) -> None:
    a, b = tree(left), tree(right)
    assert set(paths(a)) == left
    assert set(paths(union(a, b))) == left | right
    assert set(paths(difference(a, b))) == left - right
    assert set(paths(intersection(a, b))) == left & right


VALUES = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["1", "2"]), max_size=3)


@given(st.lists(st.tuples(st.sampled_from(["x", "y"]), VALUES), min_size=1, max_size=6))
def test_after_forced_applies_the_object_is_what_its_owners_last_applied(
    history: list[tuple[str, dict[str, str]]],
) -> None:
    live: Manifest | None = None
    for manager, values in history:
        live = applied(live, config_map(**values), manager, force=True)
        before = copy.deepcopy(live)
        assert applied(live, config_map(**values), manager) == before
        assert all((live.get("data") or {})[key] == value for key, value in values.items())
    assert live is not None
    owned = {path[1][2:] for entry in owners(live).values() for path in paths(entry) if len(path) == 2}
    assert set(live.get("data") or {}) == owned
