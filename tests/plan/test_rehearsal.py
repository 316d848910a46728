"""How a planned change is told: which fields it writes, and in which fields two templates differ."""

from typing import Any

import pytest

from grove.api import kinds
from grove.meta import Key, Manifest
from grove.plan.changes import Apply, Create, Delete, JsonPatch, Patch
from grove.plan.rehearsal import (
    Ends,
    Verb,
    differing_fields,
    left_behind,
    object_change,
    patched,
    patched_fields,
    surplus_reason,
)
from grove.testing import make

DIFFERENCES: dict[str, tuple[Any, Any, list[str]]] = {
    "the same": ({"a": 1, "b": [{"name": "x"}]}, {"b": [{"name": "x"}], "a": 1}, []),
    "absent and empty": ({"a": "", "b": [], "c": {}, "d": None}, {}, []),
    "an empty mapping within an item": (
        {"terms": [{"namespaceSelector": {}, "a": ""}], "volumes": [{"name": "v"}]},
        {"terms": [{}], "volumes": [{"name": "v", "emptyDir": {}}]},
        ["at.terms[0].namespaceSelector", "at.volumes[v].emptyDir"],
    ),
    "a value": ({"a": {"b": 1}}, {"a": {"b": 2}}, ["at.a.b"]),
    "one more": ({"a": 1}, {}, ["at.a"]),
    "one less": ({}, {"a": 1}, ["at.a"]),
    "an item by its name": (
        {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}]},
        {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
        ["at.env[B].value"],
    ),
    "an item that comes and one that goes": (
        {"env": [{"name": "B"}]},
        {"env": [{"name": "A"}]},
        ["at.env[B]", "at.env[A]"],
    ),
    "the order of named items": (
        {"env": [{"name": "A"}, {"name": "B"}]},
        {"env": [{"name": "B"}, {"name": "A"}]},
        ["at.env: their order"],
    ),
    "items without names, by their position": ({"args": ["a", "c"]}, {"args": ["a", "b"]}, ["at.args[1]"]),
    "more items without names": ({"args": ["a", "b"]}, {"args": ["a"]}, ["at.args"]),
    "a key with dots": (
        {"nodeSelector": {"example.com/a": "1"}},
        {"nodeSelector": {"example.com/a": "2"}},
        ["at.nodeSelector[example.com/a]"],
    ),
    "an object for a value": ({"a": {"b": 1}}, {"a": 1}, ["at.a"]),
}


@pytest.mark.parametrize(("want", "have", "fields"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_two_values_differ_in_the_deepest_fields(want: Any, have: Any, fields: list[str]) -> None:
    assert list(differing_fields(want, have, "at")) == fields


PATCHES: dict[str, tuple[Manifest, Manifest, list[str]]] = {
    "values, new and gone": (
        {"metadata": {"labels": {"a.b/c": "1"}, "finalizers": None}, "spec": {"replicas": 2}},
        {"metadata": {"finalizers": ["x"]}, "spec": {"replicas": 1}},
        ["metadata.labels[a.b/c]", "metadata.finalizers", "spec.replicas"],
    ),
    "a list that is written whole": (
        {"spec": {"podSpec": {"containers": [{"name": "c", "image": "2"}]}}},
        {"spec": {"podSpec": {"containers": [{"name": "c", "image": "1"}]}}},
        ["spec.podSpec.containers[c].image"],
    ),
    "a list where there was none": ({"spec": {"subjects": [1]}}, {}, ["spec.subjects"]),
}


@pytest.mark.parametrize(("patch", "have", "fields"), PATCHES.values(), ids=PATCHES)
def test_a_patch_writes_these_fields(patch: Manifest, have: Manifest, fields: list[str]) -> None:
    assert list(patched_fields(patch, have)) == fields


def test_a_patched_object_has_what_is_new_and_lacks_what_went() -> None:
    before = make.clique("train-0-w", labels={"a": "1", "b": "2"})
    after = patched(before, {"metadata": {"labels": {"a": None, "c": "3"}}, "spec": {"replicas": 7}})
    assert ("a" in after.labels, after.labels["b"], after.labels["c"]) == (False, "2", "3")
    assert after.spec.replicas == 7
    assert after.uid == before.uid


def test_changes_are_told_by_what_they_do() -> None:
    key, manifest = Key("default", "x"), {"metadata": {"name": "x"}}
    told = [
        object_change(change)
        for change in (
            Create(kinds.CLIQUES, manifest),
            Apply(kinds.GANGS, manifest),
            Apply(kinds.GANGS, manifest, uid="u"),
            Delete(kinds.PODS, key, "u"),
            JsonPatch(kinds.PODS, key, ({"op": "test", "path": "/a"}, {"op": "remove", "path": "/b"})),
            Patch(kinds.PODS, key, {"metadata": {"labels": {"a": "1"}}}),
        )
    ]
    assert [(each.verb, each.kind, each.fields) for each in told] == [
        (Verb.CREATE, "PodClique", ()),
        (Verb.CREATE, "PodGang", ()),
        (Verb.WRITE, "PodGang", ()),
        (Verb.REMOVE, "Pod", ()),
        (Verb.WRITE, "Pod", ("/b",)),
        (Verb.WRITE, "Pod", ("metadata.labels[a]",)),
    ]


HASH = "grove.io/pod-template-hash"


def test_pods_are_left_behind_for_the_field_that_changes_or_for_the_gangs_reason() -> None:
    old = make.clique("train-0-w", labels={HASH: "a"})
    new = patched(old, {"metadata": {"labels": {HASH: "b"}}, "spec": {"podSpec": {"nodeName": "n"}}})
    pod = make.pod("train-0-w", 0, node="n1", labels={HASH: "a"})
    assert left_behind(old, new, [pod]) == ([pod], "spec.podSpec.nodeName")
    renamed = patched(old, {"metadata": {"labels": {HASH: "b"}}})
    assert left_behind(old, renamed, [pod])[1] == f"metadata.labels[{HASH}]"
    gang = ("spec.priorityClassName",)
    assert left_behind(old, renamed, [pod], others=gang)[1] == "spec.priorityClassName"
    assert left_behind(old, old, [pod])[0] == []


def test_of_several_reasons_for_one_pod_the_first_counts_and_restarts_come_first() -> None:
    running, waiting = make.pod("w", 0, node="n1"), make.pod("w", 1)
    ends = Ends()
    ends.add([waiting, running], "first")
    ends.add([running], "second")
    assert [(end.name, end.reason, end.restarts) for end in ends.sorted()] == [
        (running.name, "first", True),
        (waiting.name, "first", False),
    ]


def test_a_surplus_pod_names_what_makes_it_one() -> None:
    clique = make.clique("train-0-w")
    assert surplus_reason(clique, make.pod("train-0-w", 0, node="n1")).startswith("spec.replicas")
    assert surplus_reason(clique, make.pod("train-0-w", 0)).startswith("metadata.annotations")
