"""What an edit of a set changes in its children, what waits for gangs on nodes, and whose a child is."""

from dataclasses import replace

import msgspec
import pytest
from tests.plan.looks import ROLES, again, bare, grown, patches, plan_children, whole_manifest, written

from grove.api import kinds, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.revision import next_revision
from grove.meta import Manifest
from grove.plan.changes import Create, Patch
from grove.plan.children import CliqueSetState, Settled, edit_pending, sort_children, waiting_edits
from grove.testing import make


def roles(replicas: int, minimum: int | None = None) -> list[Manifest]:
    role = make.template("w", replicas)
    if minimum is not None:
        role["spec"]["minAvailable"] = minimum
    return [role]


def test_replicas_of_a_template_reach_a_clique_that_nobody_scaled_since() -> None:
    seen = grown(make.cliqueset("t", roles(2, minimum=1)))
    edited = again(seen, make.cliqueset("t", roles(3, minimum=1), generation=2))
    assert patches(edited)["t-0-w"] == {
        "metadata": {"annotations": {labels.TEMPLATE_REPLICAS: "3"}},
        "spec": {"replicas": 3},
    }


def test_replicas_of_a_template_reach_a_clique_that_somebody_scaled_before_the_edit() -> None:
    seen = grown(make.cliqueset("t", roles(2, minimum=1)))
    scaled = msgspec.structs.replace(
        seen.cliques["t-0-w"], spec=msgspec.structs.replace(seen.cliques["t-0-w"].spec, replicas=7)
    )
    edited = again(seen, make.cliqueset("t", roles(3, minimum=1), generation=2), cliques={"t-0-w": scaled})
    assert patches(edited)["t-0-w"]["spec"] == {"replicas": 3}


def test_a_clique_from_before_replicas_were_remembered_keeps_its_own() -> None:
    seen = grown(make.cliqueset("t", roles(2, minimum=1)))
    whole = whole_manifest(seen.cliques["t-0-w"])
    del whole["metadata"]["annotations"][labels.TEMPLATE_REPLICAS]
    old = {"t-0-w": make.view(PodClique, whole)}
    edited = again(seen, make.cliqueset("t", roles(3, minimum=1), generation=2), cliques=old)
    assert patches(edited)["t-0-w"] == {"metadata": {"annotations": {labels.TEMPLATE_REPLICAS: "3"}}}


def test_a_minimum_that_was_left_out_does_not_move_when_replicas_are_edited() -> None:
    seen = grown(make.cliqueset("t", roles(2)))
    edited = again(seen, make.cliqueset("t", roles(5), generation=2))
    changed = patches(edited)
    assert changed["t-0-w"]["spec"] == {"replicas": 5}, "and minAvailable stays 2"
    assert "t-0" not in changed, "the gang needs 2 pods, as before"


def test_a_replica_that_comes_later_gets_the_minimum_that_was_decided_for_the_first() -> None:
    seen = grown(make.cliqueset("t", roles(2)))
    edited = again(seen, make.cliqueset("t", roles(5), replicas=2, generation=2))
    created = [
        change.manifest for change in plan_children(edited, Settled()).changes if isinstance(change, Create)
    ]
    assert [(each["kind"], each["metadata"]["name"]) for each in created] == [
        ("Service", "t-1"),
        ("PodGang", "t-1"),
        ("PodClique", "t-1-w"),
    ]
    assert created[1]["spec"]["podgroups"][0]["minReplicas"] == 2
    assert created[2]["spec"]["minAvailable"] == 2
    assert created[2]["spec"]["replicas"] == 5


MINIMA: dict[str, tuple[dict[str, frozenset[str]], bool]] = {
    "a gang without pods on nodes takes it at once": ({}, True),
    "a gang with pods on nodes takes it where its scheduler can be told": (
        {"t-0": frozenset({"minimum"})},
        True,
    ),
    "a gang with pods on nodes keeps its own where its scheduler cannot": ({"t-0": frozenset()}, False),
    "what another gang can be told does not matter": (
        {"t-0": frozenset(), "t-9": frozenset({"minimum"})},
        False,
    ),
}


@pytest.mark.parametrize(("placed", "taken"), MINIMA.values(), ids=MINIMA)
def test_an_edited_minimum(placed: dict[str, frozenset[str]], taken: bool) -> None:
    seen = grown(make.cliqueset("t", roles(3, minimum=1)))
    changed = patches(again(seen, make.cliqueset("t", roles(3, minimum=2), generation=2), placed=placed))
    if not taken:
        field = "spec.template.cliques[0].spec.minAvailable"
        pending = {"metadata": {"annotations": {labels.EDIT_PENDING: field}}}
        assert changed == {"t-0": pending}, "gang and clique agree on the minimum, or no pod would be made"
        return
    assert changed["t-0-w"] == {"spec": {"minAvailable": 2}}
    assert changed["t-0"]["spec"]["podgroups"][0]["minReplicas"] == 2


def test_a_held_edit_is_written_when_the_gang_has_no_pods_on_nodes_any_more() -> None:
    """Nothing about the set or its children changes then, only where pods are."""
    seen = grown(make.cliqueset("t", roles(3, minimum=1)))
    edited = make.cliqueset("t", roles(3, minimum=2), generation=2)
    gang = whole_manifest(seen.gangs["t-0"])
    gang["metadata"]["annotations"][labels.EDIT_PENDING] = "spec.template.cliques[0].spec.minAvailable"
    marked = {"t-0": make.view(PodGang, gang)}
    held = plan_children(again(seen, edited, gangs=marked, placed={"t-0": frozenset()}), Settled())
    assert written(held) == [], "the gang says already what waits"
    freed = plan_children(again(seen, edited, gangs=marked, placed={}), held.settled)
    assert written(freed) == ["patch PodGang t-0", "patch PodClique t-0-w"]
    patch = next(change.patch for change in freed.changes if isinstance(change, Patch))
    assert patch["metadata"] == {"annotations": {labels.EDIT_PENDING: None}}, "in the same write as the edit"
    assert patch["spec"]["podgroups"][0]["minReplicas"] == 2


def test_an_edit_that_is_taken_back_waits_no_longer() -> None:
    seen = grown(make.cliqueset("t", roles(3, minimum=1)))
    gang = whole_manifest(seen.gangs["t-0"])
    gang["metadata"]["annotations"][labels.EDIT_PENDING] = "spec.template.cliques[0].spec.minAvailable"
    marked = {"t-0": make.view(PodGang, gang)}
    back = again(seen, seen.cliqueset, gangs=marked, placed={"t-0": frozenset()})
    assert patches(back) == {"t-0": {"metadata": {"annotations": {labels.EDIT_PENDING: None}}}}


def test_an_edited_priority_waits_where_the_scheduler_cannot_be_told() -> None:
    seen = grown(make.cliqueset("t", {"w": 1}))
    edited = make.cliqueset("t", {"w": 1}, template={"priorityClassName": "high"}, generation=2)
    waiting = patches(again(seen, edited, placed={"t-0": frozenset()}))["t-0"]
    assert "spec" not in waiting
    assert waiting["metadata"]["annotations"][labels.EDIT_PENDING] == "spec.template.priorityClassName"
    for placed in ({}, {"t-0": frozenset({"priority"})}):
        assert patches(again(seen, edited, placed=placed))["t-0"]["spec"] == {"priorityClassName": "high"}


def test_a_role_that_is_scaled_to_none_is_not_waited_for_until_it_is_scaled_up_again() -> None:
    cliqueset = make.cliqueset("t", ROLES)
    seen = grown(cliqueset)

    def workers(replicas: int) -> CliqueSetState:
        clique = seen.cliques["t-0-worker"]
        scaled = msgspec.structs.replace(clique, spec=msgspec.structs.replace(clique.spec, replicas=replicas))
        return again(seen, cliqueset, cliques={**seen.cliques, "t-0-worker": scaled})

    asleep = plan_children(workers(0), Settled())
    (patch,) = (change for change in asleep.changes if isinstance(change, Patch))
    assert (patch.key.name, patch.patch["spec"]["podgroups"][1]["minReplicas"]) == ("t-0", 0)
    assert patch.patch["spec"]["podgroups"][0]["minReplicas"] == 1
    assert written(plan_children(workers(2), asleep.settled)) == [], "its minimum is as it was"


def test_another_pod_template_is_another_start_of_a_gang() -> None:
    seen = grown(make.cliqueset("t", {"w": 1}))
    other = again(seen, make.cliqueset("t", [make.template("w", pod={"hostNetwork": True})], generation=2))
    follows = {labels.GENERATION_HASH: other.present.hash, labels.TEMPLATE_REVISION: other.present.hash}
    assert patches(other)["t-0"] == {"metadata": {"annotations": follows}}
    assert other.present.hash != seen.present.hash


def test_a_gang_with_pods_on_nodes_goes_on_saying_from_which_templates_they_were_made() -> None:
    seen = grown(make.cliqueset("t", {"w": 1}))
    now = again(seen, make.cliqueset("t", [make.template("w", pod={"hostNetwork": True})], generation=2))
    second = {labels.TEMPLATE_REVISION: now.present.hash}
    placed = patches(replace(now, placed={"t-0": frozenset()}))["t-0"]
    assert placed == {"metadata": {"annotations": second}}
    waiting = patches(now)["t-0"]
    assert waiting == {"metadata": {"annotations": {**second, labels.GENERATION_HASH: now.present.hash}}}


TOPOLOGY = make.topology_binding("cluster", {"zone": "example.com/zone", "rack": "example.com/rack"})


def grouped(required: str) -> PodCliqueSet:
    """A set with a scaling group, one replica of which is a scaled gang."""
    return make.cliqueset(
        "t",
        {"w": 1},
        groups=[
            make.scaling_group(
                "g", ["w"], replicas=2, minAvailable=1, topologyConstraint={"pack": {"required": "rack"}}
            )
        ],
        template={"topologyConstraint": {"topologyName": "cluster", "pack": {"required": required}}},
    )


def gangs_of(seen: CliqueSetState) -> dict[str, Manifest]:
    return {
        change.manifest["metadata"]["name"]: change.manifest
        for change in plan_children(seen, Settled()).changes
        if isinstance(change, Create) and change.manifest["kind"] == "PodGang"
    }


def test_a_scaled_gang_is_told_what_the_set_asks_of_the_replica_and_its_base_is_not() -> None:
    made = gangs_of(replace(bare(grouped("zone")), topology=TOPOLOGY))
    notes = {name: gang["metadata"]["annotations"] for name, gang in made.items()}
    assert labels.REPLICA_REQUIRED not in notes["t-0"]
    assert notes["t-0-g-0"][labels.REPLICA_REQUIRED] == "example.com/zone"
    assert made["t-0-g-0"]["spec"]["topologyConstraint"]["packConstraint"] == {"required": "example.com/rack"}


def test_a_scaled_gang_with_pods_on_nodes_keeps_what_its_replica_shares() -> None:
    seen = replace(bare(grouped("zone")), topology=TOPOLOGY)
    there = {
        name: make.view(PodGang, {**gang, "metadata": {**gang["metadata"], "uid": name}})
        for name, gang in gangs_of(seen).items()
    }
    edited = again(grown(seen.cliqueset), grouped("rack"), gangs=there, topology=TOPOLOGY)
    shared = {"metadata": {"annotations": {labels.REPLICA_REQUIRED: "example.com/rack"}}}
    assert patches(edited)["t-0-g-0"] == shared
    assert "t-0-g-0" not in patches(replace(edited, placed={"t-0-g-0": frozenset()}))


def test_a_gang_is_told_of_the_topology_object_that_its_backend_is_referred_to() -> None:
    seen = replace(bare(grouped("zone")), topology=TOPOLOGY, references={"default": "theirs", "kai": "ours"})
    for gang in gangs_of(seen).values():
        notes = gang["metadata"]["annotations"]
        assert (notes[labels.TOPOLOGY_NAME], notes[labels.SCHEDULER_TOPOLOGY]) == ("cluster", "theirs")


def test_what_somebody_writes_into_a_placed_gang_is_mended_and_is_no_edit_of_the_set() -> None:
    """The pods on nodes were made for what the set still says: the scheduler knows it already."""
    seen = grown(make.cliqueset("t", roles(3, minimum=2)))
    whole = whole_manifest(seen.gangs["t-0"])
    whole["spec"]["podgroups"][0]["minReplicas"] = 1
    whole["spec"]["priorityClassName"] = "mine"
    placed_for = next_revision(seen.gangs["t-0"])
    scribbled = again(
        seen,
        seen.cliqueset,
        gangs={"t-0": make.view(PodGang, whole)},
        placed={"t-0": frozenset()},
        revision=lambda name: placed_for,
    )
    changed = patches(scribbled)
    assert changed["t-0"]["spec"]["priorityClassName"] is None
    assert changed["t-0"]["spec"]["podgroups"][0]["minReplicas"] == 2
    assert "t-0-w" not in changed
    assert waiting_edits(scribbled) == {}


def test_a_child_of_an_earlier_set_of_the_name_is_waited_for() -> None:
    cliqueset = make.cliqueset("t", {"w": 1})
    taken = {kinds.GANGS: frozenset({"t-0"}), kinds.CLIQUES: frozenset({"t-0-w"})}
    assert written(plan_children(replace(bare(cliqueset), taken=taken), Settled())) == [
        "create ControllerRevision t",
        "create Service t-0",
    ]
    assert written(plan_children(bare(cliqueset), Settled())) == [
        "create ControllerRevision t",
        "create Service t-0",
        "create PodGang t-0",
        "create PodClique t-0-w",
    ]


def test_whose_a_child_is_its_owner_says_and_not_its_name() -> None:
    cliqueset = make.cliqueset("t", {"w": 1}, uid="ours")
    earlier = make.cliqueset("t", {"w": 1}, uid="an earlier one")
    other = make.cliqueset("other", {"w": 1}, uid="another")
    made = {
        "mine": make.gang("mine", {}, owner=(cliqueset, kinds.CLIQUESETS)),
        "nobodys": make.gang("nobodys", {}),
        "theirs": make.gang("theirs", {}, owner=(other, kinds.CLIQUESETS)),
        "old": make.gang("old", {}, owner=(earlier, kinds.CLIQUESETS)),
    }
    children, taken = sort_children(cliqueset, {kinds.SERVICES: (), kinds.GANGS: made.values()})
    assert (set(children[kinds.GANGS]), taken[kinds.GANGS]) == ({"mine", "nobodys"}, frozenset({"old"}))
    assert (dict(children[kinds.SERVICES]), taken[kinds.SERVICES]) == ({}, frozenset())


def test_the_fields_that_wait_are_told_by_gang() -> None:
    before = grown(make.cliqueset("t", roles(3, minimum=1), replicas=2))
    edited = make.cliqueset(
        "t", roles(3, minimum=2), replicas=2, template={"priorityClassName": "high"}, generation=2
    )
    placed = {"t-0": frozenset[str](), "t-1": frozenset({"minimum", "priority"})}
    assert waiting_edits(again(before, edited, placed=placed)) == {
        "t-0": ["spec.template.priorityClassName", "spec.template.cliques[0].spec.minAvailable"]
    }
    assert waiting_edits(again(before, edited)) == {}, "nothing is on nodes: everything takes effect at once"


def test_an_edit_that_waits_is_a_condition_of_the_set_that_names_fields_and_gang() -> None:
    before = grown(make.cliqueset("t", roles(3, minimum=1)))
    edited = again(before, make.cliqueset("t", roles(3, minimum=2), generation=2))
    pending = edit_pending(replace(edited, placed={"t-0": frozenset()}))
    assert pending is not None
    assert (pending.type, pending.status, pending.reason) == ("EditPending", "True", "PodsStillPlaced")
    assert pending.message.startswith(
        "spec.template.cliques[0].spec.minAvailable: edited while pods of gang t-0"
    )
    assert edit_pending(edited) is None


def test_nothing_waits_for_a_gang_that_goes() -> None:
    before = grown(make.cliqueset("t", roles(3, minimum=1), replicas=2))
    edited = make.cliqueset("t", roles(3, minimum=2), replicas=1, generation=2)
    assert waiting_edits(again(before, edited, placed={"t-1": frozenset()})) == {}
