"""What a set creates, mends and removes."""

import random
import tracemalloc
from collections.abc import Mapping

import pytest
from tests.plan.looks import (
    RESOURCES,
    ROLES,
    again,
    bare,
    grown,
    observed,
    plan_children,
    planning_children,
    whole_manifest,
    written,
)

from grove.api import kinds, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.controller_revision import ControllerRevision
from grove.api.gang import PodGang
from grove.api.service import Service
from grove.controllers.apply import MOST_AT_ONCE, Batch
from grove.meta import Manifest, Object
from grove.plan.changes import Create, Delete, Patch
from grove.plan.children import KINDS, CliqueSetState, Settled
from grove.testing import make


def test_every_replica_gets_a_service_a_gang_and_its_cliques_in_that_order() -> None:
    plan = plan_children(bare(make.cliqueset("t", ROLES, replicas=2)), Settled())
    assert written(plan) == [
        "create ControllerRevision t",
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
    scaled = make.view(
        PodClique, {**whole_manifest(clique), "spec": {**whole_manifest(clique)["spec"], "replicas": 7}}
    )
    plan = plan_children(again(seen, seen.cliqueset, cliques={"t-0-w": scaled}), Settled())
    assert manifest["spec"]["replicas"] == scaled.spec.replicas == 7
    assert written(plan) == []


def test_a_changed_template_reaches_the_clique_whole() -> None:
    before = grown(make.cliqueset("t", [make.template("w", pod={"nodeSelector": {"a": "1", "b": "2"}})]))
    after = make.cliqueset("t", [make.template("w", pod={"nodeSelector": {"a": "1"}})], generation=2)
    plan = plan_children(again(before, after), Settled())
    patches = [change for change in plan.changes if isinstance(change, Patch)]
    assert [patch.key.name for patch in patches] == ["t-0", "t-0-w"]
    assert patches[0].patch.keys() == {"metadata"}, "the gang says which templates it follows"
    assert patches[1].patch["spec"] == {"podSpec": {"nodeSelector": {"b": None}}}
    assert labels.POD_TEMPLATE_HASH in patches[1].patch["metadata"]["labels"]


def test_references_survive_a_change_of_the_gang() -> None:
    seen = grown(make.cliqueset("t", {"w": 1}))
    whole = whole_manifest(seen.gangs["t-0"])
    whole["spec"]["podgroups"][0]["podReferences"] = [{"namespace": "default", "name": "p", "uid": "u"}]
    gang = make.view(PodGang, whole)
    prior = make.cliqueset("t", {"w": 1}, template={"priorityClassName": "high"}, generation=2)
    plan = plan_children(again(seen, prior, gangs={"t-0": gang}), Settled())
    patch = next(change for change in plan.changes if isinstance(change, Patch) and change.key.name == "t-0")
    assert patch.patch["spec"] == {"priorityClassName": "high"}


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
    ours = {labels.GENERATION_HASH, labels.TEMPLATE_REVISION}
    mirrored = {key: value for key, value in seen.gangs["t-0"].annotations.items() if key not in ours}
    assert mirrored == {"owner": "me", labels.MIRRORED: '{"annotations":["owner"]}'}


def test_settled_children_are_not_compared_again_until_they_change() -> None:
    seen = grown(make.cliqueset("t", {"w": 1}))
    settled = plan_children(seen, Settled()).settled
    revision = f"t-{seen.present.hash}"
    assert {name for found in settled.children.values() for name in found} == {"t-0", "t-0-w", revision}
    whole = whole_manifest(seen.children[kinds.SERVICES]["t-0"])
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
    whole = whole_manifest(seen.gangs["t-0"])
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
        grown_to_three.recorded,
        grown_to_three.children[kinds.SERVICES],
        grown_to_three.gangs,
        grown_to_three.cliques,
    )
    left = [{name: child for name, child in each.items() if name not in gone} for each in found]
    names = ("ControllerRevision", "Service", "PodGang", "PodClique")
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
    (revision,) = seen.recorded.values()
    found = {
        "ControllerRevision": {revision.name: _marked(ControllerRevision, revision, field, key, value)},
        "Service": {"t-0": _marked(Service, seen.children[kinds.SERVICES]["t-0"], field, key, value)},
        "PodGang": {"t-0": _marked(PodGang, seen.gangs["t-0"], field, key, value)},
        "PodClique": {"t-0-w": _marked(PodClique, seen.cliques["t-0-w"], field, key, value)},
    }
    assert written(plan_children(observed(seen.cliqueset, found), Settled())) == []


def _marked(type_: type[Object], child: Object, field: str, key: str, value: str) -> Object:
    whole = whole_manifest(child)
    whole["metadata"][field] = {**(whole["metadata"].get(field) or {}), key: value}
    return make.view(type_, whole)


def test_a_key_of_grove_that_nobody_wants_any_more_is_removed() -> None:
    seen = grown(make.cliqueset("t", {"w": 1}))
    stale = _marked(PodGang, seen.gangs["t-0"], "annotations", labels.EXTERNAL_BACKEND, "true")
    plan = plan_children(
        observed(
            seen.cliqueset,
            {
                "ControllerRevision": seen.recorded,
                "Service": seen.children[kinds.SERVICES],
                "PodGang": {"t-0": stale},
                "PodClique": seen.cliques,
            },
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
    changes = plan_children(observed(plain, found), Settled()).changes
    (patch,) = (each for each in changes if isinstance(each, Patch) and each.key.name == "t-0-w")
    assert patch.patch["metadata"]["labels"]["tier"] is None
    assert "theirs" not in patch.patch["metadata"]["labels"]


def test_a_preview_may_ask_for_all_children_at_once() -> None:
    seen = bare(make.cliqueset("t", {"w": 1}, replicas=200))
    assert len(plan_children(seen, Settled(), most=10_000).changes) == 601
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
    found: dict[str, dict[str, Object]] = {name: {} for name in RESOURCES}
    while True:
        plan = plan_children(seen, settled)
        carry_out(plan, found)
        seen, settled = observed(cliqueset, found), plan.settled
        if not plan.more:
            return seen


def carry_out(plan: Batch, found: dict[str, dict[str, Object]]) -> None:
    """Do to the children what the plan says."""
    types: dict[str, type[Object]] = {kind.resource.kind: kind.view for kind in KINDS}
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
    whole = whole_manifest(child)
    whole["metadata"]["labels"].pop(labels.POD_INDEX, None)
    whole["metadata"]["resourceVersion"] = "2"
    return whole


@pytest.mark.parametrize("seed", range(20))
def test_however_children_are_lost_edited_and_left_over_all_looks_together_put_them_right(seed: int) -> None:
    """A few changes a look, with disturbances in between: in the end there is exactly what should be."""
    rng = random.Random(seed)
    found: dict[str, dict[str, Object]] = {kind: {} for kind in RESOURCES}
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
    if not replicas:
        # The template of a set without replicas stays recorded, but is not recorded for its own sake.
        found.pop("ControllerRevision")
    assert {name for children in found.values() for name in children} == want
    assert not any(labels.POD_INDEX in each.labels for some in found.values() for each in some.values())


def _creates(cliqueset: PodCliqueSet) -> list[Create]:
    plan = plan_children(bare(cliqueset), Settled(), most=10_000)
    return [change for change in plan.changes if isinstance(change, Create)]


def _disturb(found: dict[str, dict[str, Object]], rng: random.Random) -> None:
    types: dict[str, type[Object]] = {kind.resource.kind: kind.view for kind in KINDS}
    for kind, children in found.items():
        for name in list(children):
            chance = rng.random()
            if chance < 0.03:
                del children[name]
            elif chance < 0.06:
                edited = whole_manifest(
                    _marked(types[kind], children[name], "labels", labels.POD_INDEX, "by hand")
                )
                edited["metadata"]["resourceVersion"] = str(rng.randint(10, 10**6))
                children[name] = make.view(types[kind], edited)
