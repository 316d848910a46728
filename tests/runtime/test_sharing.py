"""Equal parts of cached objects are one value, and nothing that differs is taken for equal."""

from dataclasses import dataclass
from typing import ClassVar

import msgspec
import pytest

from grove.meta import Key, Manifest, Object, UntypedObject, View, resource
from grove.runtime import sharing
from grove.runtime.store import Store

THINGS = resource("grove.io", "v1", "Thing")


class Spec(View):
    node: str = ""
    rules: Manifest = msgspec.field(default_factory=dict)
    gates: tuple[str, ...] = ()


class Thing(Object):
    SHARED: ClassVar[tuple[str, ...]] = ("spec.node", "spec.rules", "spec.gates")

    spec: Spec = Spec()


@dataclass
class Cached:
    """A store, filled as from the wire."""

    store: Store[Thing]

    def put(self, name: str, spec: Manifest, **metadata: object) -> Thing:
        wire = {"metadata": {"name": name, "namespace": "team-a", **metadata}, "spec": spec}
        self.store.put(msgspec.json.decode(msgspec.json.encode(wire), type=Thing))
        found = self.store.get(Key("team-a", name))
        assert found is not None
        read = {"node": found.spec.node, "rules": found.spec.rules, "gates": list(found.spec.gates)}
        assert read == {"node": "", "rules": {}, "gates": []} | spec
        return found


@pytest.fixture
def cached() -> Cached:
    return Cached(Store())


OWNER = {"apiVersion": "grove.io/v1", "kind": "Set", "name": "train", "uid": "u-1", "controller": True}


def test_what_objects_are_made_with_alike_is_one_value(cached: Cached) -> None:
    made: Manifest = {
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "generateName": "train-",
        "ownerReferences": [OWNER],
        "labels": {"grove.io/a-name-that-is-longer-than-most": "worker"},
        "annotations": {"grove.io/hash": "abc"},
    }
    a, b = (cached.put(name, {}, **made).metadata for name in "ab")
    assert a.namespace is b.namespace
    assert a.creation_timestamp is b.creation_timestamp
    assert a.generate_name is b.generate_name
    assert a.owner_references is b.owner_references
    for of_a, of_b in ((a.labels, b.labels), (a.annotations, b.annotations)):
        ((name_a, value_a),), ((name_b, value_b),) = of_a.items(), of_b.items()
        assert name_a is name_b
        assert value_a is value_b


def test_an_object_that_changes_keeps_the_labels_and_annotations_that_did_not(cached: Cached) -> None:
    made = {"uid": "u-a", "labels": {"a": "b"}, "annotations": {"c": "d"}}
    before = cached.put("a", {"node": "n-1"}, resourceVersion="1", finalizers=["f"], **made)
    after = cached.put("a", {"node": "n-2"}, resourceVersion="2", generation=2, deletionTimestamp="t", **made)
    assert after.metadata.labels is before.metadata.labels
    assert after.metadata.annotations is before.metadata.annotations
    metadata = after.metadata
    assert (metadata.resource_version, metadata.generation, metadata.finalizers) == ("2", 2, ())
    assert after.terminating
    moved = cached.put("a", {}, uid="u-a", labels={"a": "x"}, annotations={})
    assert (moved.labels, moved.annotations) == ({"a": "x"}, {})


def test_an_object_of_the_same_name_has_nothing_of_the_one_before(cached: Cached) -> None:
    cached.put("a", {"node": "n-1"}, uid="u-1", creationTimestamp="2026-01-01T00:00:00Z", generation=1)
    after = cached.put("a", {}, uid="u-2", creationTimestamp="2026-01-02T00:00:00Z", generation=1)
    assert (after.uid, after.metadata.creation_timestamp) == ("u-2", "2026-01-02T00:00:00Z")


def test_a_part_that_did_not_change_stays_the_value_that_it_was(cached: Cached) -> None:
    spec: Manifest = {"node": "n-1", "rules": {"a": 1}}
    before = cached.put("a", spec, uid="u-a", generation=1, labels={"a": "b"})
    after = cached.put("a", spec, uid="u-a", generation=1, labels={"a": "c"})
    assert after.spec is before.spec
    edited = cached.put("a", {"node": "n-1", "rules": {"a": True}}, uid="u-a", generation=2)
    assert repr(edited.spec.rules) == "{'a': True}"


def test_fields_that_a_view_names_are_one_value_where_they_are_equal(cached: Cached) -> None:
    spec: Manifest = {"node": "node-1", "rules": {"a": [{"b": 1}]}, "gates": ["gate"]}
    a, b = cached.put("a", spec).spec, cached.put("b", spec).spec
    assert a.node is b.node
    assert a.rules is b.rules
    assert a.gates is b.gates


DIFFERENT: dict[str, tuple[object, object]] = {
    "another value": ({"a": 1}, {"a": 2}),
    "true is not 1": ({"a": [1]}, {"a": [True]}),
    "nor is 1.0": ({"a": {"b": 1}}, {"a": {"b": 1.0}}),
}


@pytest.mark.parametrize("pair", DIFFERENT.values(), ids=DIFFERENT)
def test_mappings_that_say_something_else_stay_apart(cached: Cached, pair: tuple[object, object]) -> None:
    first, second = (
        cached.put(name, {"rules": rules}).spec.rules for name, rules in zip("ab", pair, strict=True)
    )
    assert (repr(first), repr(second)) == (repr(pair[0]), repr(pair[1]))


def test_many_different_values_do_not_pile_up(cached: Cached) -> None:
    for number in range(2 * sharing._MOST):
        cached.put(f"thing-{number}", {"node": f"node-{number}", "rules": {"number": number}})
    assert len(sharing._known) <= sharing._MOST
    assert all(len(recent) <= sharing._COMPARED for recent in sharing._mappings.values())


def test_the_labels_of_a_manifest_are_those_of_its_metadata() -> None:
    store: Store[UntypedObject] = Store()
    manifest = {"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"z": 1}}
    store.put(UntypedObject.of(manifest, THINGS))
    (item,) = store
    assert item.manifest["metadata"] == {"name": "a", "labels": {"x": "y"}}
    assert item.manifest["metadata"]["labels"] is item.metadata.labels


def test_what_was_applied_to_objects_alike_is_one_value() -> None:
    store: Store[UntypedObject] = Store()
    for name in "ab":
        fields = {"f:metadata": {"f:ownerReferences": {f'k:{{"uid":"{name}"}}': {}}}, "f:spec": {"f:z": {}}}
        entry = {"manager": "grove", "operation": "Apply", "fieldsV1": fields}
        store.put(UntypedObject.of({"metadata": {"name": name, "managedFields": [entry]}}, THINGS))
    a, b = store
    assert a.applied == {"grove": {"metadata": {"ownerReferences": {}}, "spec": {"z": {}}}}
    assert a.applied is b.applied
