"""What an edit of a set does to gangs that are placed already."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import pytest

from grove.api import labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.api.revision import next_revision
from grove.backends.base import Edit
from grove.meta import Manifest
from grove.plan.children.gangs import desired_gang
from grove.plan.edits import (
    MINIMUM,
    PRIORITY,
    TOPOLOGY,
    EditedGang,
    GangFields,
    decided_minima,
    defer_edits,
    differing_fields,
    impossible_edits,
    is_as_placed,
    is_placed,
    pending_sentence,
    placed_gangs,
)
from grove.plan.layout import layout_of
from grove.plan.update.revisions import TemplateRevision
from grove.testing import make

RACK, ZONE = "example.com/rack", "topology.kubernetes.io/zone"


def role(name: str = "worker", replicas: int = 3, minimum: int | None = None) -> Manifest:
    made = make.template(name, replicas)
    if minimum is not None:
        made["spec"]["minAvailable"] = minimum
    return made


def clique(name: str, replicas: int, minimum: int) -> PodClique:
    return make.clique(name, replicas, spec={"minAvailable": minimum})


def test_the_edits_are_those_that_a_backend_can_name() -> None:
    assert {MINIMUM, PRIORITY, TOPOLOGY} == {str(each) for each in Edit}


# The minimum --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Decided:
    role: Manifest
    want: dict[str, int]
    #: By clique, its minimum and what was decided for it when it was made.
    there: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    replicas: int = 3


DECIDED = {
    "left out, it is all replicas when the first clique is made": Decided(role("w", 3), {"w": 3}),
    "left out, it stays what was decided when replicas are edited": Decided(
        role("w", 5), {"w": 3}, {"t-0-w": (3, "3")}
    ),
    "left out, it stays what was decided when replicas are edited to fewer": Decided(
        role("w", 2), {"w": 3}, {"t-0-w": (3, "3")}
    ),
    "what was decided counts more than the minimum that a placed gang keeps": Decided(
        role("w", 5), {"w": 3}, {"t-0-w": (1, "3")}
    ),
    "a clique that says nothing of a decision has its own minimum": Decided(
        role("w", 5), {"w": 2}, {"t-0-w": (2, "")}
    ),
    "a decision that nobody can read is none": Decided(role("w", 5), {"w": 2}, {"t-0-w": (2, "many")}),
    "the first replica that exists decides": Decided(
        role("w", 5), {"w": 2}, {"t-1-w": (2, "2"), "t-2-w": (4, "4")}
    ),
    "the first replica is the lowest number, not the first name in order": Decided(
        role("w", 5), {"w": 2}, {"t-2-w": (2, "2"), "t-10-w": (4, "4")}, replicas=11
    ),
    "replicas that go do not decide": Decided(role("w", 5), {"w": 5}, {"t-3-w": (2, "2")}),
    "the last replica that goes does not decide": Decided(
        role("w", 5), {"w": 5}, {"t-0-w": (2, "2")}, replicas=0
    ),
    "a role whose name ends alike does not decide": Decided(role("w", 5), {"w": 5}, {"t-0-big-w": (2, "2")}),
    "a role whose name ends alike does not decide in later replicas either": Decided(
        role("w", 5), {"w": 5}, {"t-1-big-w": (2, "2")}
    ),
    "more replicas are asked for than anybody could go through": Decided(
        role("w", 5), {"w": 2}, {"t-1-w": (2, "2")}, replicas=2**31 - 1
    ),
    "cliques of other sets do not decide": Decided(role("w", 5), {"w": 5}, {"other-0-w": (2, "2")}),
    "said, nothing is decided": Decided(role("w", 5, minimum=1), {}, {"t-0-w": (3, "3")}),
    "said to be none, nothing is decided": Decided(role("w", 5, minimum=0), {}),
}


@pytest.mark.parametrize("case", DECIDED.values(), ids=DECIDED)
def test_a_minimum_that_is_left_out_is_decided_once(case: Decided) -> None:
    cliques = {
        name: make.clique(
            name,
            9,
            spec={"minAvailable": minimum},
            annotations={labels.DECIDED_MINIMUM: decided} if decided else {},
        )
        for name, (minimum, decided) in case.there.items()
    }
    cliqueset = make.cliqueset("t", [case.role], replicas=case.replicas)
    assert decided_minima(cliqueset, cliques, {}) == case.want


#: By what was written into the record of a decision: the minimum of the clique, what its gang needs, the decision.
RECORDS = {
    "more, by hand": ("3", 2, 2, 2),
    "none, by hand": ("0", 2, 2, 2),
    "none, before there is a gang": ("0", 2, 0, 2),
    "more than there are pods, before there is a gang": ("99", 2, 0, 2),
    "what the gang needs, where the clique was edited": ("2", 3, 2, 2),
    "what the clique needs, where the gang was edited": ("2", 2, 3, 2),
    "something else, before there is a gang": ("3", 2, 0, 3),
    "no number": ("-3", 2, 2, 2),
}


@pytest.mark.parametrize(("record", "minimum", "needed", "want"), RECORDS.values(), ids=RECORDS)
def test_a_record_of_a_decision_that_somebody_edited(
    record: str, minimum: int, needed: int, want: int
) -> None:
    marks, spec = {labels.DECIDED_MINIMUM: record}, {"minAvailable": minimum}
    cliques = {"t-0-w": make.clique("t-0-w", 5, spec=spec, annotations=marks)}
    listed = {"podReferences": [{"namespace": "default", "name": "p"}]}
    gangs = {"t-0": make.gang("t-0", [{**make.podgroup("t-0-w", needed), **listed}])} if needed else {}
    assert decided_minima(make.cliqueset("t", [role("w", 5)]), cliques, gangs) == {"w": want}


def test_each_role_is_decided_by_itself() -> None:
    cliqueset = make.cliqueset("t", [role("leader", 1), role("worker", 5), role("spare", 2, minimum=1)])
    assert decided_minima(cliqueset, {"t-0-worker": clique("t-0-worker", 5, 3)}, {}) == {
        "leader": 1,
        "worker": 3,
    }


# Held edits ---------------------------------------------------------------------------------------

PRIORITY_FIELD = "spec.template.priorityClassName"
GANG_FIELD = "spec.template.topologyConstraint"
ROLE_FIELD = "spec.template.cliques[1].topologyConstraint"
LEADER_MINIMUM, WORKER_MINIMUM = (f"spec.template.cliques[{index}].spec.minAvailable" for index in range(2))
ALL: frozenset[str] = frozenset({MINIMUM, PRIORITY, TOPOLOGY})
ANY = [frozenset(each) for size in range(len(ALL) + 1) for each in combinations(sorted(ALL), size)]


def placed_gang(
    *,
    priority: str = "",
    required: str = "",
    preferred: str = "",
    role_required: str = "",
    minima: tuple[int, int] = (1, 3),
) -> PodGang:
    groups = [
        make.podgroup("t-0-leader", minima[0]),
        make.podgroup("t-0-worker", minima[1], required=role_required),
    ]
    topology = {labels.TOPOLOGY_NAME: "old"} if required or preferred or role_required else {}
    return make.gang(
        "t-0", groups, priority=priority, required=required, preferred=preferred, annotations=topology
    )


def wanted_gang(
    *,
    priority: str = "",
    required: str = "",
    preferred: str = "",
    role: str = "",
    minima: Mapping[str, int] | None = None,
) -> Manifest:
    """The gang that a set asks for; levels by their domain in the topology."""
    worker = make.template("worker", 3)
    if role:
        worker["topologyConstraint"] = {"topologyName": "new", "pack": {"required": role}}
    template: Manifest = {"priorityClassName": priority} if priority else {}
    pack = {key: value for key, value in (("required", required), ("preferred", preferred)) if value}
    if pack:
        template["topologyConstraint"] = {"topologyName": "new", "pack": pack}
    cliqueset = make.cliqueset("t", [make.template("leader"), worker], template=template)
    binding = make.topology_binding("new")
    revision = TemplateRevision(cliqueset.template)
    base = layout_of(cliqueset, {}).base_gang(0)
    minima = {f"t-0-{role}": least for role, least in (minima or {}).items()}
    return desired_gang(cliqueset, base, revision, backend="default", topology=binding, minima=minima)


def edited(manifest: Manifest) -> EditedGang:
    """What the set asks for, with the fields of a set of these two roles."""
    roles = {"t-0-leader": "spec.template.cliques[0]", "t-0-worker": "spec.template.cliques[1]"}
    return EditedGang(manifest, GangFields(GANG_FIELD, roles, {}))


@dataclass(frozen=True)
class Held:
    gang: PodGang
    wanted: Manifest
    #: The fields that differ, by what a scheduler would have to be told.
    fields: Mapping[str, Sequence[str]]


EDITS = {
    "nothing was edited": Held(
        placed_gang(priority="low", required=RACK), wanted_gang(priority="low", required="rack"), {}
    ),
    "a priority is added": Held(placed_gang(), wanted_gang(priority="high"), {PRIORITY: [PRIORITY_FIELD]}),
    "a priority is taken away": Held(
        placed_gang(priority="low"), wanted_gang(), {PRIORITY: [PRIORITY_FIELD]}
    ),
    "a priority is another one": Held(
        placed_gang(priority="low"), wanted_gang(priority="high"), {PRIORITY: [PRIORITY_FIELD]}
    ),
    "a required level is added": Held(placed_gang(), wanted_gang(required="rack"), {TOPOLOGY: [GANG_FIELD]}),
    "a required level is taken away": Held(
        placed_gang(required=RACK), wanted_gang(), {TOPOLOGY: [GANG_FIELD]}
    ),
    "a required level is another one": Held(
        placed_gang(required=RACK), wanted_gang(required="zone"), {TOPOLOGY: [GANG_FIELD]}
    ),
    "a required level becomes a preferred one": Held(
        placed_gang(required=RACK), wanted_gang(preferred="rack"), {TOPOLOGY: [GANG_FIELD]}
    ),
    "a role gets a level of its own": Held(placed_gang(), wanted_gang(role="rack"), {TOPOLOGY: [ROLE_FIELD]}),
    "a role loses its own level": Held(
        placed_gang(role_required=RACK), wanted_gang(), {TOPOLOGY: [ROLE_FIELD]}
    ),
    "a minimum is lowered": Held(
        placed_gang(), wanted_gang(minima={"worker": 2}), {MINIMUM: [WORKER_MINIMUM]}
    ),
    "a minimum is raised": Held(
        placed_gang(minima=(1, 2)), wanted_gang(minima={"worker": 3}), {MINIMUM: [WORKER_MINIMUM]}
    ),
    "two minima are others": Held(
        placed_gang(),
        wanted_gang(minima={"leader": 2, "worker": 2}),
        {MINIMUM: [LEADER_MINIMUM, WORKER_MINIMUM]},
    ),
    "a role is scaled to none, which is no edit of its minimum": Held(
        placed_gang(), wanted_gang(minima={"worker": 0}), {}
    ),
    "a role wakes up, which is no edit of its minimum": Held(placed_gang(minima=(1, 0)), wanted_gang(), {}),
    "everything is another": Held(
        placed_gang(priority="low", required=RACK, role_required=RACK),
        wanted_gang(priority="high", required="zone", role="zone", minima={"leader": 2}),
        {PRIORITY: [PRIORITY_FIELD], TOPOLOGY: [GANG_FIELD, ROLE_FIELD], MINIMUM: [LEADER_MINIMUM]},
    ),
}


@pytest.mark.parametrize("editable", ANY, ids=lambda each: "+".join(sorted(each)) or "nothing")
@pytest.mark.parametrize("case", EDITS.values(), ids=EDITS)
def test_an_edit_of_a_placed_gang_is_told_or_held(case: Held, editable: frozenset[str]) -> None:
    held = [field for about, fields in case.fields.items() if about not in editable for field in fields]
    assert sorted(differing_fields(edited(case.wanted), case.gang, editable)) == sorted(held)


def copied(manifest: Manifest) -> Manifest:
    return wanted_gang() | {
        "metadata": {**manifest["metadata"], "annotations": dict(manifest["metadata"]["annotations"])},
        "spec": {**manifest["spec"], "podgroups": [dict(each) for each in manifest["spec"]["podgroups"]]},
    }


@pytest.mark.parametrize("editable", ANY, ids=lambda each: "+".join(sorted(each)) or "nothing")
@pytest.mark.parametrize("case", EDITS.values(), ids=EDITS)
def test_what_is_held_is_written_as_the_gang_has_it(case: Held, editable: frozenset[str]) -> None:
    desired = copied(case.wanted)
    defer_edits(edited(desired), case.gang, editable)
    told = [field for about, fields in case.fields.items() if about in editable for field in fields]
    assert sorted(differing_fields(edited(desired), case.gang, ())) == sorted(told)
    keeps_place = TOPOLOGY in case.fields and TOPOLOGY not in editable
    name = case.gang.annotations.get(labels.TOPOLOGY_NAME)
    named = desired["metadata"]["annotations"][labels.TOPOLOGY_NAME]
    assert named == (name if keeps_place else case.wanted["metadata"]["annotations"][labels.TOPOLOGY_NAME])


def test_what_is_held_is_written_with_the_constraints_and_the_priority_of_the_gang() -> None:
    desired = wanted_gang(priority="high", required="zone", role="zone")
    defer_edits(edited(desired), placed_gang(priority="low", required=RACK), ())
    assert desired["spec"]["priorityClassName"] == "low"
    # The level that is not asked for is mentioned, so that it goes from a gang that has it.
    assert desired["spec"]["topologyConstraint"] == {"packConstraint": {"required": RACK, "preferred": None}}
    assert [
        (each["name"], each["minReplicas"], each["topologyConstraint"])
        for each in desired["spec"]["podgroups"]
    ] == [
        ("t-0-leader", 1, None),
        ("t-0-worker", 3, None),
    ]


def test_a_role_that_sleeps_or_wakes_up_does_so_though_the_scheduler_cannot_be_told_of_minima() -> None:
    for gang, minima, want in (
        (placed_gang(), {"worker": 0}, [1, 0]),
        (placed_gang(minima=(1, 0)), {"worker": 3}, [1, 3]),
    ):
        desired = wanted_gang(minima=minima)
        defer_edits(edited(desired), gang, ())
        assert [each["minReplicas"] for each in desired["spec"]["podgroups"]] == want


@pytest.mark.parametrize("had", [True, False], ids=["a level that it had", "a level that is new"])
def test_roles_in_another_order_are_compared_with_their_own(had: bool) -> None:
    """A gang lists its podgroups as the set did when it was made."""
    before = placed_gang(role_required=RACK if had else "")
    desired = wanted_gang(role="rack")
    desired["spec"]["podgroups"].reverse()
    assert differing_fields(edited(desired), before, ()) == ([] if had else [ROLE_FIELD])
    defer_edits(edited(desired), before, ())
    assert differing_fields(edited(desired), before, ()) == []
    levels = {
        each["name"]: ((each["topologyConstraint"] or {}).get("packConstraint") or {}).get("required")
        for each in desired["spec"]["podgroups"]
    }
    assert levels == {"t-0-leader": None, "t-0-worker": RACK if had else None}


def reordered(desired: Manifest) -> Manifest:
    return {**desired, "spec": {**desired["spec"], "podgroups": desired["spec"]["podgroups"][::-1]}}


AS_PLACED = {
    "what the set wants is what the pods on nodes were made for": (wanted_gang(priority="low"), True),
    "the set was edited since": (wanted_gang(priority="high"), False),
    "the set lists its roles in another order": (reordered(wanted_gang(priority="low")), True),
    "another minimum": (wanted_gang(priority="low", minima={"worker": 2}), False),
    "another level of the gang": (wanted_gang(priority="low", required="rack"), False),
    "another level of a role": (wanted_gang(priority="low", role="rack"), False),
}


@pytest.mark.parametrize(("desired", "want"), AS_PLACED.values(), ids=AS_PLACED)
def test_what_was_written_into_a_placed_gang_is_told_from_an_edit_of_its_set(
    desired: Manifest, want: bool
) -> None:
    """The pods on nodes tell what the gang was when it was placed, whatever it has become since."""
    placed_for = next_revision(placed_gang(priority="low"))
    for now in (placed_gang(priority="low"), placed_gang(priority="scribbled", minima=(9, 9))):
        assert is_as_placed(desired, now, placed_for) is want


# Impossible edits ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Impossible:
    cliqueset: PodCliqueSet
    want: list[str]
    placed: Collection[str] = ()
    cliques: Mapping[str, int] = field(default_factory=dict)


GANGS = {
    name: make.gang(name, {f"{name}-leader": 1, f"{name}-worker": 3}, cliqueset="t")
    for name in ("t-0", "t-1")
}
ADDED = (
    "spec.template.cliques: roles were added or removed (router) while gang t-0 is placed, which its "
    "scheduler does not support; delete the set and create it again"
)
RENAMED = (
    "spec.template.cliques: roles were added or removed (router, worker) while gang t-1 is placed, which its "
    "scheduler does not support; delete the set and create it again"
)
BELOW = (
    "spec.template.cliques[1].spec.replicas: 2 is below minAvailable, which is 3: it was left out and became the "
    "replicas that the set had when it was created; set minAvailable too"
)
THREE = {"leader": 1, "worker": 3, "router": 1}
RENAMED_ROLES = {"leader": 1, "router": 3}
THERE = {"t-0-leader": 1, "t-0-worker": 3}

IMPOSSIBLE = {
    "nothing was edited": Impossible(make.cliqueset("t", {"leader": 1, "worker": 3}), [], {"t-0"}, THERE),
    "a role is added while a gang is placed": Impossible(make.cliqueset("t", THREE), [ADDED], {"t-0"}, THERE),
    "a role is renamed while a gang is placed": Impossible(
        make.cliqueset("t", RENAMED_ROLES, replicas=2), [RENAMED], {"t-1"}, {"t-1-leader": 1, "t-1-worker": 3}
    ),
    "a podgroup was taken from a placed gang whose clique is there": Impossible(
        make.cliqueset("t", THREE), [], {"t-0"}, {**THERE, "t-0-router": 1}
    ),
    "a podgroup was put into a placed gang without a clique": Impossible(
        make.cliqueset("t", {"leader": 1}), [], {"t-0"}, {"t-0-leader": 1}
    ),
    "a role is added while no gang is placed": Impossible(make.cliqueset("t", THREE), [], (), THERE),
    "a role is added while only a gang is placed that goes": Impossible(
        make.cliqueset("t", THREE), [], {"t-1"}
    ),
    "roles in another order are the same roles": Impossible(
        make.cliqueset("t", {"worker": 3, "leader": 1}), [], {"t-0"}, THERE
    ),
    "replicas are edited below a minimum that was left out": Impossible(
        make.cliqueset("t", {"leader": 1, "worker": 2}), [BELOW], {"t-0"}, THERE
    ),
    "replicas are edited below it while nothing is placed: pods may be, in a moment": Impossible(
        make.cliqueset("t", {"leader": 1, "worker": 2}), [BELOW], (), THERE
    ),
    "replicas are edited below a minimum that the set says itself is for admission to refuse": Impossible(
        make.cliqueset("t", [role("leader", 1), role("worker", 2, minimum=2)]), [], (), THERE
    ),
    "replicas are edited up": Impossible(make.cliqueset("t", {"leader": 1, "worker": 9}), [], {"t-0"}, THERE),
    "a set that is new has decided nothing": Impossible(make.cliqueset("t", {"leader": 1, "worker": 2}), []),
}


@pytest.mark.parametrize("case", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_impossible_edits(case: Impossible) -> None:
    cliques = {name: clique(name, minimum, minimum) for name, minimum in case.cliques.items()}
    layout = layout_of(case.cliqueset, {})
    assert [
        str(error) for error in impossible_edits(case.cliqueset, layout, cliques, GANGS, case.placed)
    ] == case.want


# Words --------------------------------------------------------------------------------------------


def test_what_waits_says_what_to_do_about_it() -> None:
    waiting = {"t-0": [PRIORITY_FIELD, GANG_FIELD]}
    assert pending_sentence(waiting, "team-a") == (
        "spec.template.priorityClassName, spec.template.topologyConstraint: edited while pods of gang t-0 are on "
        "nodes, which its scheduler does not support; takes effect when the gang is placed again: "
        "kubectl delete pods -n team-a -l grove.io/podgang=t-0 does that at once"
    )


def test_what_waits_for_several_gangs_is_said_once() -> None:
    waiting = {"t-2": [GANG_FIELD], "t-1": [PRIORITY_FIELD], "t-3": [PRIORITY_FIELD]}
    assert pending_sentence(waiting, "team-a").startswith(
        "spec.template.priorityClassName, spec.template.topologyConstraint: edited while pods of gang t-1 and 2 more "
        "are on nodes, "
    )


def gang_of(name: str, *told: str, backend: str = "kai") -> PodGang:
    """A gang of which these conditions are true."""
    manifest = make.gang_manifest(name, {f"{name}-w": 1}, labels={labels.SCHEDULER_BACKEND: backend})
    manifest["status"] = {"conditions": [{"type": each, "status": "True"} for each in told]}
    return make.view(PodGang, manifest)


ON_NODE, GATED = make.pod("t-0-w", 0, node="n1"), make.pod("t-0-w", 1, gates=["grove.io/podgang"])
PLACED: dict[str, tuple[tuple[str, ...], list[Pod], bool]] = {
    "one that says so": (("Initialized", "Scheduled"), [], True),
    "one whose gates are closed": ((), [ON_NODE], False),
    "one of which a pod is on a node already": (("Initialized",), [GATED, ON_NODE], True),
    "one whose pods wait": (("Initialized",), [GATED], False),
    "one whose last placed pod has ended": (
        ("Initialized",),
        [make.pod("t-0-w", node="n", phase="Failed")],
        False,
    ),
}


@pytest.mark.parametrize(("told", "pods", "want"), PLACED.values(), ids=PLACED)
def test_which_gangs_are_placed(told: tuple[str, ...], pods: list[Pod], want: bool) -> None:
    assert is_placed(gang_of("t-0", *told), lambda gang: pods) == want


def test_of_each_backend_it_is_asked_once_what_placed_gangs_can_be_told() -> None:
    gangs = {
        "t-0": gang_of("t-0", "Scheduled"),
        "t-1": gang_of("t-1", "Scheduled"),
        "t-2": gang_of("t-2", "Scheduled", backend="volcano"),
        "t-3": gang_of("t-3"),
    }
    asked: list[str] = []

    def editable(gang: PodGang) -> Collection[str]:
        asked.append(gang.name)
        return {MINIMUM} if gang.labels[labels.SCHEDULER_BACKEND] == "kai" else ()

    kai, volcano = frozenset({MINIMUM}), frozenset[str]()
    assert placed_gangs(gangs, lambda gang: (), editable) == {"t-0": kai, "t-1": kai, "t-2": volcano}
    assert asked == ["t-0", "t-2"]
