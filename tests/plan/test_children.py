"""What a set creates, mends and removes."""

import random
import tracemalloc
from collections.abc import Mapping
from dataclasses import replace

import msgspec
import pytest
from tests.plan.at_once import at_once

from grove.api import kinds, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.revision import next_revision
from grove.api.service import Service
from grove.controllers.apply import MOST_AT_ONCE, Batch, first_batch
from grove.meta import Manifest, Object
from grove.plan.changes import Change, Create, Delete, Patch
from grove.plan.children import KINDS, CliqueSetState, Settled, edit_pending, sort_children, waiting_edits
from grove.plan.children import plan_children as lazily
from grove.plan.edits import decided_minima
from grove.plan.slices import Work
from grove.testing import make

ROLES = {"leader": 1, "worker": 2}
RESOURCES = {kind.resource.kind: kind.resource for kind in KINDS}


def planning_children(seen: CliqueSetState, settled: Settled, *, most: int = MOST_AT_ONCE) -> Work[Batch]:
    """What one look at the set would write."""
    return first_batch(lazily(seen, settled), most)


def plan_children(seen: CliqueSetState, settled: Settled, *, most: int = MOST_AT_ONCE) -> Batch:
    return at_once(planning_children(seen, settled, most=most))


def grown(cliqueset: PodCliqueSet) -> CliqueSetState:
    """The set with every child as the plan itself would create it."""
    plan = plan_children(bare(cliqueset), Settled())
    found: dict[str, dict[str, Object]] = {kind.resource.kind: {} for kind in KINDS}
    types = {kind.resource.kind: kind.view for kind in KINDS}
    for number, change in enumerate(plan.changes):
        assert isinstance(change, Create)
        manifest = {**change.manifest, "metadata": {**change.manifest["metadata"]}}
        manifest["metadata"] |= {"uid": f"uid-{number}", "resourceVersion": str(number)}
        kind = manifest["kind"]
        found[kind][manifest["metadata"]["name"]] = make.view(types[kind], manifest)
    return observed(cliqueset, found)


def observed(cliqueset: PodCliqueSet, found: Mapping[str, Mapping[str, Object]]) -> CliqueSetState:
    seen = CliqueSetState(
        cliqueset, {RESOURCES[kind]: items for kind, items in found.items()}, backend="default"
    )
    return replace(seen, decided=decided_minima(cliqueset, seen.cliques))


def bare(cliqueset: PodCliqueSet) -> CliqueSetState:
    return CliqueSetState(cliqueset, backend="default", decided=decided_minima(cliqueset, {}))


def again(
    seen: CliqueSetState,
    cliqueset: PodCliqueSet,
    *,
    services: Mapping[str, Service] | None = None,
    gangs: Mapping[str, PodGang] | None = None,
    cliques: Mapping[str, PodClique] | None = None,
    **facts: object,
) -> CliqueSetState:
    """The same children but for these, for the set as it is since it was edited."""
    others = {kinds.SERVICES: services, kinds.GANGS: gangs, kinds.CLIQUES: cliques}
    found = {**seen.children, **{kind: items for kind, items in others.items() if items is not None}}
    changed = replace(seen, cliqueset=cliqueset, children=found, **facts)  # type: ignore[arg-type]
    return replace(changed, decided=decided_minima(cliqueset, changed.cliques))


def written(plan: Batch) -> list[str]:
    return [_told(change) for change in plan.changes]


def _told(change: Change) -> str:
    if isinstance(change, Create):
        return f"create {change.manifest['kind']} {change.manifest['metadata']['name']}"
    assert isinstance(change, (Patch, Delete))
    return f"{type(change).__name__.lower()} {change.resource.kind} {change.key.name}"


def test_every_replica_gets_a_service_a_gang_and_its_cliques_in_that_order() -> None:
    plan = plan_children(bare(make.cliqueset("t", ROLES, replicas=2)), Settled())
    assert written(plan) == [
        "create Service t-0",
        "create PodGang t-0",
        "create PodClique t-0-leader",
        "create PodClique t-0-worker",
        "create Service t-1",
        "create PodGang t-1",
        "create PodClique t-1-leader",
        "create PodClique t-1-worker",
    ]


def test_a_gang_is_born_with_its_podgroups_and_no_references() -> None:
    plan = plan_children(bare(make.cliqueset("t", ROLES)), Settled())
    gang = next(
        change.manifest
        for change in plan.changes
        if isinstance(change, Create) and change.manifest["kind"] == "PodGang"
    )
    assert gang["spec"]["podgroups"] == [
        {"name": "t-0-leader", "podReferences": [], "minReplicas": 1},
        {"name": "t-0-worker", "podReferences": [], "minReplicas": 2},
    ]
    assert gang["metadata"]["labels"][labels.SCHEDULER_BACKEND] == "default"


def test_what_is_in_order_is_not_written_again() -> None:
    assert written(plan_children(grown(make.cliqueset("t", ROLES, replicas=3)), Settled())) == []


def test_shrinking_removes_the_gangs_first() -> None:
    seen = grown(make.cliqueset("t", {"w": 1}, replicas=2))
    smaller = make.cliqueset("t", {"w": 1}, replicas=1)
    shrunk = again(seen, smaller)
    assert written(plan_children(shrunk, Settled())) == [
        "delete PodGang t-1",
        "delete PodClique t-1-w",
        "delete Service t-1",
    ]


def test_a_child_of_somebody_else_is_not_removed() -> None:
    seen = grown(make.cliqueset("t", {"w": 1}, replicas=2))
    other = make.cliqueset("t", {"w": 1}, replicas=1, uid="another set of the same name")
    plan = plan_children(again(seen, other), Settled())
    assert not [change for change in plan.changes if isinstance(change, Delete)]


def test_whoever_scales_a_clique_owns_its_replicas() -> None:
    seen = grown(make.cliqueset("t", {"w": 2}))
    manifest = make.clique_manifest("t-0-w", 7)
    clique = seen.cliques["t-0-w"]
    scaled = make.view(PodClique, {**_whole(clique), "spec": {**_whole(clique)["spec"], "replicas": 7}})
    plan = plan_children(again(seen, seen.cliqueset, cliques={"t-0-w": scaled}), Settled())
    assert manifest["spec"]["replicas"] == scaled.spec.replicas == 7
    assert written(plan) == []


def _whole(item: Object) -> Manifest:
    manifest: Manifest = msgspec.to_builtins(item)
    return manifest


def test_a_changed_template_reaches_the_clique_whole() -> None:
    before = grown(make.cliqueset("t", [make.template("w", pod={"nodeSelector": {"a": "1", "b": "2"}})]))
    after = make.cliqueset("t", [make.template("w", pod={"nodeSelector": {"a": "1"}})], generation=2)
    plan = plan_children(again(before, after), Settled())
    patches = [change for change in plan.changes if isinstance(change, Patch)]
    assert [patch.key.name for patch in patches] == ["t-0-w"]
    assert patches[0].patch["spec"] == {"podSpec": {"nodeSelector": {"b": None}}}
    assert labels.POD_TEMPLATE_HASH in patches[0].patch["metadata"]["labels"]


def test_references_survive_a_change_of_the_gang() -> None:
    seen = grown(make.cliqueset("t", {"w": 1}))
    whole = _whole(seen.gangs["t-0"])
    whole["spec"]["podgroups"][0]["podReferences"] = [{"namespace": "default", "name": "p", "uid": "u"}]
    gang = make.view(PodGang, whole)
    prior = make.cliqueset("t", {"w": 1}, template={"priorityClassName": "high"}, generation=2)
    plan = plan_children(again(seen, prior, gangs={"t-0": gang}), Settled())
    patch = next(change for change in plan.changes if isinstance(change, Patch) and change.key.name == "t-0")
    assert patch.patch == {"spec": {"priorityClassName": "high"}}


def test_metadata_of_the_set_is_mirrored_onto_gangs_and_removed_again() -> None:
    seen = grown(make.cliqueset("t", {"w": 1}, labels={"team": "a"}))
    assert seen.gangs["t-0"].labels["team"] == "a"
    plain = make.cliqueset("t", {"w": 1})
    plan = plan_children(again(seen, plain), Settled())
    patch = next(change for change in plan.changes if isinstance(change, Patch))
    assert patch.patch == {"metadata": {"labels": {"team": None}, "annotations": {labels.MIRRORED: None}}}, (
        "the key goes, and so does the record that it was ours to remove"
    )


def test_what_kubectl_keeps_for_itself_is_not_mirrored() -> None:
    noted = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "owner": "me"}
    seen = grown(make.cliqueset("t", {"w": 1}, annotations=noted))
    assert seen.gangs["t-0"].annotations == {"owner": "me", labels.MIRRORED: '{"annotations":["owner"]}'}


def test_settled_children_are_not_compared_again_until_they_change() -> None:
    seen = grown(make.cliqueset("t", {"w": 1}))
    settled = plan_children(seen, Settled()).settled
    assert {name for found in settled.children.values() for name in found} == {"t-0", "t-0-w"}
    whole = _whole(seen.children[kinds.SERVICES]["t-0"])
    whole["spec"]["selector"] = {"edited": "by hand"}
    sneaked = make.view(Service, whole)
    quiet = again(seen, seen.cliqueset, services={"t-0": sneaked})
    assert written(plan_children(quiet, settled)) == [], "same resourceVersion: nothing can have changed"
    whole["metadata"]["resourceVersion"] = "99"
    edited = make.view(Service, whole)
    noticed = again(seen, seen.cliqueset, services={"t-0": edited})
    assert written(plan_children(noticed, settled)) == ["patch Service t-0"]


def test_a_status_write_alone_unsettles_nothing_but_an_edited_label_or_spec_does() -> None:
    seen = grown(make.cliqueset("t", {"w": 1}))
    whole = _whole(seen.gangs["t-0"])
    whole["metadata"]["generation"] = 1

    def looked_at(settled: Settled, **changes: object) -> Batch:
        manifest = {**whole, "metadata": {**whole["metadata"], **changes}}
        # What a comparison would find at once; so whoever does not find it has not compared.
        manifest["spec"] = (
            {**whole["spec"], "priorityClassName": "edited"} if settled.children else whole["spec"]
        )
        gangs = {"t-0": make.view(PodGang, manifest)}
        return plan_children(again(seen, seen.cliqueset, gangs=gangs), settled)

    settled = looked_at(Settled()).settled
    assert written(looked_at(settled, resourceVersion="97")) == []
    assert written(looked_at(settled, resourceVersion="98", generation=2)) == ["patch PodGang t-0"]
    assert written(looked_at(settled, resourceVersion="99", labels={})) == ["patch PodGang t-0"]
    assert written(looked_at(settled, resourceVersion="99", uid="another")) == ["patch PodGang t-0"]


def test_what_is_missing_is_created_in_order_and_what_is_too_much_goes_gangs_first() -> None:
    grown_to_three = grown(make.cliqueset("t", {"w": 1}, replicas=3))
    two = make.cliqueset("t", {"w": 1}, replicas=2, generation=2)
    gone = {"t-0", "t-1", "t-0-w", "t-1-w"}
    found: tuple[Mapping[str, Object], ...] = (
        grown_to_three.children[kinds.SERVICES],
        grown_to_three.gangs,
        grown_to_three.cliques,
    )
    left = [{name: child for name, child in each.items() if name not in gone} for each in found]
    names = ("Service", "PodGang", "PodClique")
    plan = plan_children(observed(two, dict(zip(names, left, strict=True))), Settled())
    assert written(plan) == [
        "create Service t-0",
        "create PodGang t-0",
        "create PodClique t-0-w",
        "create Service t-1",
        "create PodGang t-1",
        "create PodClique t-1-w",
        "delete PodGang t-2",
        "delete PodClique t-2-w",
        "delete Service t-2",
    ]


# What was edited ----------------------------------------------------------------------------------


def patches(seen: CliqueSetState) -> dict[str, Manifest]:
    plan = plan_children(seen, Settled())
    return {change.key.name: change.patch for change in plan.changes if isinstance(change, Patch)}


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
    whole = _whole(seen.cliques["t-0-w"])
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
    gang = _whole(seen.gangs["t-0"])
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
    gang = _whole(seen.gangs["t-0"])
    gang["metadata"]["annotations"][labels.EDIT_PENDING] = "spec.template.cliques[0].spec.minAvailable"
    marked = {"t-0": make.view(PodGang, gang)}
    back = again(seen, seen.cliqueset, gangs=marked, placed={"t-0": frozenset()})
    assert patches(back) == {"t-0": {"metadata": {"annotations": {labels.EDIT_PENDING: None}}}}


def test_an_edited_priority_waits_where_the_scheduler_cannot_be_told() -> None:
    seen = grown(make.cliqueset("t", {"w": 1}))
    edited = make.cliqueset("t", {"w": 1}, template={"priorityClassName": "high"}, generation=2)
    waits = {"metadata": {"annotations": {labels.EDIT_PENDING: "spec.template.priorityClassName"}}}
    assert patches(again(seen, edited, placed={"t-0": frozenset()}))["t-0"] == waits
    for placed in ({}, {"t-0": frozenset({"priority"})}):
        assert patches(again(seen, edited, placed=placed))["t-0"] == {"spec": {"priorityClassName": "high"}}


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
    changed = patches(again(seen, seen.cliqueset, templates="another"))
    assert changed == {"t-0": {"metadata": {"annotations": {labels.GENERATION_HASH: "another"}}}}


def test_a_gang_with_pods_on_nodes_goes_on_saying_from_which_templates_they_were_made() -> None:
    seen = replace(bare(make.cliqueset("t", {"w": 1})), templates="first")
    made = next(
        change.manifest
        for change in plan_children(seen, Settled()).changes
        if isinstance(change, Create) and change.manifest["kind"] == "PodGang"
    )
    gang = make.view(PodGang, {**made, "metadata": {**made["metadata"], "uid": "u"}})
    now = again(grown(seen.cliqueset), seen.cliqueset, gangs={"t-0": gang}, templates="second")
    assert patches(replace(now, placed={"t-0": frozenset()})) == {}
    assert patches(now) == {"t-0": {"metadata": {"annotations": {labels.GENERATION_HASH: "second"}}}}


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
    whole = _whole(seen.gangs["t-0"])
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
    assert written(plan_children(replace(bare(cliqueset), taken=taken), Settled())) == ["create Service t-0"]
    assert written(plan_children(bare(cliqueset), Settled())) == [
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


OTHERS = {
    "a label without a domain": ("labels", "team", "ml"),
    "a label of another controller": ("labels", "example.com/owner", "ml"),
    "a common label that Grove does not write": ("labels", "app.kubernetes.io/version", "1"),
    "an annotation of another controller": ("annotations", "example.com/note", "x"),
    "an annotation of Argo CD": ("annotations", "argocd.argoproj.io/tracking-id", "x"),
}


@pytest.mark.parametrize("case", OTHERS.values(), ids=OTHERS)
def test_labels_and_annotations_of_others_stay_on_every_child(case: tuple[str, str, str]) -> None:
    field, key, value = case
    seen = grown(make.cliqueset("t", [make.template("w", labels={"role": "w"})], labels={"env": "prod"}))
    found = {
        "Service": {"t-0": _marked(Service, seen.children[kinds.SERVICES]["t-0"], field, key, value)},
        "PodGang": {"t-0": _marked(PodGang, seen.gangs["t-0"], field, key, value)},
        "PodClique": {"t-0-w": _marked(PodClique, seen.cliques["t-0-w"], field, key, value)},
    }
    assert written(plan_children(observed(seen.cliqueset, found), Settled())) == []


def _marked(type_: type[Object], child: Object, field: str, key: str, value: str) -> Object:
    whole = _whole(child)
    whole["metadata"][field] = {**(whole["metadata"].get(field) or {}), key: value}
    return make.view(type_, whole)


def test_a_key_of_grove_that_nobody_wants_any_more_is_removed() -> None:
    seen = grown(make.cliqueset("t", {"w": 1}))
    stale = _marked(PodGang, seen.gangs["t-0"], "annotations", labels.EXTERNAL_BACKEND, "true")
    plan = plan_children(
        observed(
            seen.cliqueset,
            {"Service": seen.children[kinds.SERVICES], "PodGang": {"t-0": stale}, "PodClique": seen.cliques},
        ),
        Settled(),
    )
    (patch,) = plan.changes
    assert isinstance(patch, Patch)
    assert patch.patch == {"metadata": {"annotations": {labels.EXTERNAL_BACKEND: None}}}


def test_a_label_that_disappears_from_a_role_disappears_from_its_clique() -> None:
    seen = grown(make.cliqueset("t", [make.template("w", labels={"tier": "gpu"})]))
    marked = {"t-0-w": _marked(PodClique, seen.cliques["t-0-w"], "labels", "theirs", "x")}
    plain = make.cliqueset("t", [make.template("w")])
    found = {"Service": seen.children[kinds.SERVICES], "PodGang": seen.gangs, "PodClique": marked}
    (patch,) = plan_children(observed(plain, found), Settled()).changes
    assert isinstance(patch, Patch)
    assert patch.patch["metadata"]["labels"]["tier"] is None
    assert "theirs" not in patch.patch["metadata"]["labels"]


def test_a_preview_may_ask_for_all_children_at_once() -> None:
    seen = bare(make.cliqueset("t", {"w": 1}, replicas=200))
    assert len(plan_children(seen, Settled(), most=10_000).changes) == 600
    first = plan_children(seen, Settled())
    assert (len(first.changes), first.more) == (MOST_AT_ONCE, True)


def test_a_huge_set_costs_what_is_planned_and_not_what_it_asks_for() -> None:
    seen = bare(make.cliqueset("t", {"w": 1}, replicas=3_000_000))
    tracemalloc.start()
    plan = plan_children(seen, Settled())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (len(plan.changes), plan.more) == (MOST_AT_ONCE, True)
    assert peak < 10_000_000


def test_planning_thousands_of_children_pauses_after_every_few_dozen_objects() -> None:
    cliqueset = make.cliqueset("t", {"w": 1}, replicas=1000)
    seen = grown_whole(cliqueset)
    assert 3000 / 60 < sum(1 for _ in planning_children(seen, Settled())) < 3000 / 20
    settled = plan_children(seen, Settled()).settled
    assert sum(1 for _ in planning_children(seen, settled)) <= 1, "nothing is compared twice"


def grown_whole(cliqueset: PodCliqueSet) -> CliqueSetState:
    """Like `grown`, however large the set is."""
    seen, settled = bare(cliqueset), Settled()
    found: dict[str, dict[str, Object]] = {"Service": {}, "PodGang": {}, "PodClique": {}}
    while True:
        plan = plan_children(seen, settled)
        carry_out(plan, found)
        seen, settled = observed(cliqueset, found), plan.settled
        if not plan.more:
            return seen


def carry_out(plan: Batch, found: dict[str, dict[str, Object]]) -> None:
    """Do to the children what the plan says."""
    types: dict[str, type[Object]] = {"Service": Service, "PodGang": PodGang, "PodClique": PodClique}
    for change in plan.changes:
        if isinstance(change, Create):
            kind, name = change.manifest["kind"], change.manifest["metadata"]["name"]
            metadata = {**change.manifest["metadata"], "uid": f"uid-{name}", "resourceVersion": "1"}
            found[kind][name] = make.view(types[kind], {**change.manifest, "metadata": metadata})
        elif isinstance(change, Delete):
            del found[change.resource.kind][change.key.name]
        else:
            assert isinstance(change, Patch)
            kind, name = change.resource.kind, change.key.name
            found[kind][name] = make.view(types[kind], _mended(found[kind][name]))


def _mended(child: Object) -> Manifest:
    """A child without the one edit that the story below makes."""
    whole = _whole(child)
    whole["metadata"]["labels"].pop(labels.POD_INDEX, None)
    whole["metadata"]["resourceVersion"] = "2"
    return whole


@pytest.mark.parametrize("seed", range(20))
def test_however_children_are_lost_edited_and_left_over_all_looks_together_put_them_right(seed: int) -> None:
    """A few changes a look, with disturbances in between: in the end there is exactly what should be."""
    rng = random.Random(seed)
    found: dict[str, dict[str, Object]] = {"Service": {}, "PodGang": {}, "PodClique": {}}
    settled = Settled()
    replicas, generation = 12, 1
    for _ in range(40):
        cliqueset = make.cliqueset("t", ROLES, replicas=replicas, generation=generation)
        plan = plan_children(observed(cliqueset, found), settled, most=4)
        assert len(plan.changes) <= 12
        carry_out(plan, found)
        settled = plan.settled
        _disturb(found, rng)
        if rng.random() < 0.1:
            replicas, generation = rng.randint(0, 15), generation + 1
    cliqueset = make.cliqueset("t", ROLES, replicas=replicas, generation=generation)
    for _ in range(60):
        plan = plan_children(observed(cliqueset, found), settled, most=4)
        carry_out(plan, found)
        settled = plan.settled
    assert (plan.changes, plan.more) == ((), False)
    assert (settled.reached, settled.incomplete) == (replicas, frozenset())
    want = {change.manifest["metadata"]["name"] for change in _creates(cliqueset)}
    assert {name for children in found.values() for name in children} == want
    assert not any(labels.POD_INDEX in each.labels for some in found.values() for each in some.values())


def _creates(cliqueset: PodCliqueSet) -> list[Create]:
    plan = plan_children(bare(cliqueset), Settled(), most=10_000)
    return [change for change in plan.changes if isinstance(change, Create)]


def _disturb(found: dict[str, dict[str, Object]], rng: random.Random) -> None:
    types: dict[str, type[Object]] = {"Service": Service, "PodGang": PodGang, "PodClique": PodClique}
    for kind, children in found.items():
        for name in list(children):
            chance = rng.random()
            if chance < 0.03:
                del children[name]
            elif chance < 0.06:
                edited = _whole(_marked(types[kind], children[name], "labels", labels.POD_INDEX, "by hand"))
                edited["metadata"]["resourceVersion"] = str(rng.randint(10, 10**6))
                children[name] = make.view(types[kind], edited)
