"""The comparison of rows with children, whatever their kind: lazy, and right wherever it is left off."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import pytest
from tests.plan.at_once import at_once

from grove.api import kinds
from grove.api.cliqueset import PodCliqueSet
from grove.controllers.apply import Batch, first_batch
from grove.meta import Manifest, Object, Resource
from grove.plan.changes import Create, Delete, Patch
from grove.plan.children.engine import Plan, Settled, Tree
from grove.plan.children.rows import ChildRow, Owner, all_ours
from grove.plan.slices import first
from grove.plan.update.revisions import TemplateRevision
from grove.testing import make


@dataclass
class Things:
    """One thing in each replica; counts what it is asked."""

    root: PodCliqueSet
    resource: Resource = kinds.SERVICES
    removal: int = 0
    #: The replicas that were walked, and the names that were built.
    walked: list[int] = field(default_factory=list)
    built: list[str] = field(default_factory=list)
    #: What the row of a thing depends on, by its name.
    facts: dict[str, str] = field(default_factory=dict)
    #: What the root asks for besides its replicas.
    asked: str = ""

    def depends_on(self) -> object:
        return None

    def child_depends_on(self, child: Object) -> object:
        return self.facts.get(child.name)

    def rows(self, replica: int) -> Iterator[ChildRow]:
        self.walked.append(replica)
        yield self._row(replica)

    def find(self, name: str) -> ChildRow | None:
        replica = int(name.removeprefix("thing-"))
        return self._row(replica) if replica < self.root.spec.replicas else None

    def _row(self, replica: int) -> ChildRow:
        owner, revision = Owner(kinds.CLIQUESETS, self.root), TemplateRevision(self.root.template)
        return ChildRow(self.resource, f"thing-{replica}", replica, owner, revision, self._build, all_ours)

    def _build(self, row: ChildRow) -> Manifest:
        self.built.append(row.name)
        metadata = {"name": row.name, "namespace": "default", "labels": {"grove.io/thing": "yes"}}
        return {"apiVersion": "v1", "kind": "Service", "metadata": metadata}


Found = dict[str, Object]


def root(replicas: int) -> PodCliqueSet:
    return make.cliqueset("t", {"w": 1}, replicas=replicas)


def planned(things: Things, found: Found, settled: Settled | None = None) -> Plan:
    children = {things.resource: dict(found)}
    tree = Tree(things.root, things.root.spec.replicas, things.asked, [things], children)
    return Plan(tree, settled or Settled())


def look(things: Things, found: Found, settled: Settled | None = None, most: int = 100) -> Batch:
    return at_once(first_batch(planned(things, found, settled), most))


def carry_out(batch: Batch, found: Found, version: int) -> None:
    for change in batch.changes:
        if isinstance(change, Create):
            name = change.manifest["metadata"]["name"]
            found[name] = _stored(change.manifest, uid=f"uid-{name}-{version}", version=version)
        elif isinstance(change, Patch):
            found[change.key.name] = labelled(found[change.key.name], "yes", version)
        else:
            assert isinstance(change, Delete)
            del found[change.key.name]


def labelled(thing: Object, value: str, version: int) -> Object:
    """The thing with another label."""
    whole: Manifest = msgspec.to_builtins(thing)
    whole["metadata"]["labels"] = {"grove.io/thing": value}
    return _stored(whole, uid=thing.uid, version=version)


def _stored(manifest: Manifest, *, uid: str, version: int) -> Object:
    metadata = {**manifest["metadata"], "uid": uid, "resourceVersion": str(version)}
    return make.view(Object, {**manifest, "metadata": metadata})


def complete(replicas: int) -> tuple[Found, Settled]:
    """All things as they should be, and what a look at them remembers."""
    found: Found = {}
    carry_out(look(Things(root(replicas)), found), found, 1)
    return found, look(Things(root(replicas)), found).settled


def test_a_fact_about_one_child_makes_only_that_child_be_compared_once() -> None:
    found, settled = complete(5)
    placed = Things(root(5), facts={"thing-3": "placed"})
    settled = look(placed, found, settled).settled
    assert placed.built == ["thing-3"]
    again = Things(root(5), facts={"thing-3": "placed"})
    look(again, found, settled)
    assert again.built == []


def test_a_plan_from_which_nobody_takes_anything_computes_nothing() -> None:
    things = Things(root(3))
    plan = planned(things, {})
    assert (things.walked, things.built, plan.settled.reached) == ([], [], 0)


def test_only_what_is_taken_is_built() -> None:
    things = Things(root(3_000_000))
    taken, more = at_once(first(planned(things, {}).creations(), 5))
    assert (len(taken), more) == (5, True)
    assert len(things.built) == 6, "one more, to know that there are more"


def test_all_of_a_plan_may_be_taken() -> None:
    taken = [change for change in planned(Things(root(1000)), {}).creations() if change is not None]
    assert [change.manifest["metadata"]["name"] for change in taken] == [f"thing-{n}" for n in range(1000)]


def test_what_was_in_order_is_neither_built_nor_walked_again() -> None:
    found, settled = complete(50)
    things = Things(root(50))
    assert look(things, found, settled).changes == ()
    assert (things.walked, things.built) == ([], [])


def test_an_edit_of_anything_but_the_number_of_replicas_compares_every_child() -> None:
    found, settled = complete(5)
    things = Things(root(5), asked="something else")
    assert look(things, found, settled).changes == ()
    assert things.built == sorted(found)


def test_scaling_in_builds_nothing_and_removes_what_is_too_much() -> None:
    found, settled = complete(50)
    things = Things(root(20))
    batch = look(things, found, settled)
    assert {type(change) for change in batch.changes} == {Delete}
    assert sorted(change.key.name for change in batch.changes if isinstance(change, Delete)) == sorted(
        f"thing-{number}" for number in range(20, 50)
    )
    assert (things.walked, things.built) == ([], [])
    # A deletion that failed is found again.
    assert len(look(Things(root(20)), found, batch.settled).changes) == 30


def test_scaling_out_walks_only_what_comes_even_if_it_was_there_before() -> None:
    found, settled = complete(50)
    batch = look(Things(root(20)), found, settled)
    carry_out(batch, found, 2)
    things = Things(root(40))
    batch = look(things, found, batch.settled)
    assert [type(change) for change in batch.changes] == [Create] * 20
    assert things.walked == list(range(20, 40))


def test_of_a_lost_child_only_its_own_replica_is_walked() -> None:
    found, settled = complete(50)
    del found["thing-7"]
    things = Things(root(50))
    batch = look(things, found, settled)
    assert [
        change.manifest["metadata"]["name"] for change in batch.changes if isinstance(change, Create)
    ] == ["thing-7"]
    assert things.walked == [7]
    carry_out(batch, found, 2)
    after = look(things, found, batch.settled)
    assert (after.changes, after.settled.incomplete) == ((), frozenset())


def test_a_child_that_is_lost_before_it_was_compared_is_created_again() -> None:
    """With an edit of the set all children must be compared, and few are repaired at once."""
    found, _ = complete(10)
    for name in list(found):
        found[name] = labelled(found[name], "no", 5)
    things = Things(root(10), asked="something else")
    batch = look(things, found, most=2)
    assert (len(batch.changes), batch.more) == (2, True)
    carry_out(batch, found, 6)
    del found["thing-9"]
    again = look(things, found, batch.settled, most=2)
    assert "thing-9" in [
        change.manifest["metadata"]["name"] for change in again.changes if isinstance(change, Create)
    ]


def test_a_child_that_terminates_is_replaced_when_it_is_gone() -> None:
    found, settled = complete(3)
    going = found["thing-1"]
    metadata = {"name": "thing-1", "namespace": "default", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    found["thing-1"] = _stored({"metadata": metadata}, uid=going.uid, version=9)
    waiting = look(Things(root(3)), found, settled)
    assert waiting.changes == ()
    del found["thing-1"]
    assert len(look(Things(root(3)), found, waiting.settled).changes) == 1


def test_what_has_another_owner_is_left_alone_and_what_has_none_is_given_ours() -> None:
    found, _ = complete(2)
    orphan = _stored(
        {"metadata": {"name": "thing-0", "namespace": "default", "labels": {"grove.io/thing": "yes"}}},
        uid="u",
        version=2,
    )
    (patch,) = look(Things(root(2)), {**found, "thing-0": orphan}).changes
    assert isinstance(patch, Patch)
    assert [each["uid"] for each in patch.patch["metadata"]["ownerReferences"]] == [root(2).uid]
    smaller = Things(root(0))
    assert [
        change.key.name
        for change in look(smaller, {**found, "thing-0": orphan}).changes
        if isinstance(change, Delete)
    ] == ["thing-1"]


@pytest.mark.parametrize("seed", range(30))
def test_wherever_a_plan_is_left_off_later_ones_complete_the_tree(seed: int) -> None:
    rng = random.Random(seed)
    found: Found = {}
    settled, replicas, asked = Settled(), 20, ""
    for version in range(2, 60):
        if rng.random() < 0.1:
            replicas = rng.randint(0, 30)
        if rng.random() < 0.05:
            asked = f"edit {version}"
        batch = look(Things(root(replicas), asked=asked), found, settled, most=rng.randint(0, 5))
        for change in batch.changes:
            # Some writes fail.
            if rng.random() < 0.8:
                carry_out(Batch((change,), batch.settled), found, version)
        for name in list(found):
            if rng.random() < 0.03:
                del found[name]
            elif rng.random() < 0.03:
                found[name] = labelled(found[name], "no", version + 1000)
        settled = batch.settled
    things = Things(root(replicas), asked=asked)
    for version in range(60, 100):
        batch = look(things, found, settled, most=5)
        carry_out(batch, found, version)
        settled = batch.settled
    assert sorted(found) == sorted(f"thing-{number}" for number in range(replicas))
    assert {tuple(each.labels.items()) for each in found.values()} <= {(("grove.io/thing", "yes"),)}
    assert (batch.changes, batch.more, settled.reached, settled.incomplete) == (
        (),
        False,
        replicas,
        frozenset(),
    )
