"""What an edit of a set does to gangs that are placed already."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import pytest

from grove.api import labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet, PodCliqueTemplate
from grove.api.gang import PodGang
from grove.backends.base import Edit
from grove.meta import Manifest
from grove.plan.edits import (
    MINIMUM,
    PRIORITY,
    TOPOLOGY,
    decided_minima,
    differing_fields,
    held_edits,
    held_minima,
    impossible_edits,
    minimum_of,
    pending_sentence,
)
from grove.plan.gangs import desired_gang
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
class Minimum:
    #: What the template says now.
    replicas: int
    min_available: int | None
    want: int
    #: What the clique of the gang has, if it exists.
    there: int | None = None
    #: What was decided for the role when its first clique was made.
    decided: Mapping[str, int] = field(default_factory=dict)
    fixed: bool = False


MINIMA = {
    "left out, it is all replicas when the first clique is made": Minimum(3, None, want=3),
    "left out, it stays what was decided when replicas are edited": Minimum(5, None, want=3, there=3),
    "left out, it stays what was decided when replicas are edited to fewer": Minimum(
        2, None, want=3, there=3
    ),
    "left out, a later clique of the role gets what was decided for the first": Minimum(
        5, None, want=3, decided={"worker": 3}
    ),
    "left out, what was decided for another role does not count": Minimum(
        5, None, want=5, decided={"leader": 1}
    ),
    "left out, a clique that exists counts more than the first one": Minimum(
        5, None, want=4, there=4, decided={"worker": 3}
    ),
    "said, it counts": Minimum(3, 2, want=2),
    "said, it counts although another one was decided": Minimum(3, 2, want=2, there=3, decided={"worker": 3}),
    "said later, it waits where the scheduler cannot be told": Minimum(3, 2, want=3, there=3, fixed=True),
    "said, it counts for a clique that does not exist yet, whatever the scheduler can be told": Minimum(
        3, 2, want=2, decided={"worker": 3}, fixed=True
    ),
    "left out after it was said, it stays what it was": Minimum(3, None, want=1, there=1),
    "left out after it was said, it stays where the scheduler cannot be told": Minimum(
        3, None, want=1, there=1, fixed=True
    ),
    "of none it is none": Minimum(3, 0, want=0),
}


@pytest.mark.parametrize("case", MINIMA.values(), ids=MINIMA)
def test_minimum_of(case: Minimum) -> None:
    template = make.cliqueset("t", [role("worker", case.replicas, case.min_available)]).template.cliques[0]
    assert isinstance(template, PodCliqueTemplate)
    there = clique("t-0-worker", 9, case.there) if case.there is not None else None
    assert minimum_of(template, there, case.decided, fixed=case.fixed) == case.want


def test_a_minimum_is_decided_by_the_first_replica_that_exists() -> None:
    cliqueset = make.cliqueset("t", [role("leader"), role("worker"), role("idle")], replicas=3)
    cliques = {
        each.name: each
        for each in (
            clique("t-0-leader", 1, 1),
            clique("t-1-worker", 3, 2),
            clique("t-2-worker", 3, 3),
            clique("t-3-idle", 3, 3),
            clique("other-0-idle", 3, 3),
        )
    }
    decided = decided_minima(cliqueset, cliques)
    assert decided == {"leader": 1, "worker": 2}, "no replica of the set has idle pods: nothing is decided"


# Held edits ---------------------------------------------------------------------------------------

PRIORITY_FIELD = "spec.template.priorityClassName"
GANG_FIELD = "spec.template.topologyConstraint"
ROLE_FIELD = "spec.template.cliques[1].topologyConstraint"
ALL: frozenset[str] = frozenset({MINIMUM, PRIORITY, TOPOLOGY})
ANY = [frozenset(each) for size in range(len(ALL) + 1) for each in combinations(sorted(ALL), size)]


def placed_gang(
    *, priority: str = "", required: str = "", preferred: str = "", role_required: str = ""
) -> PodGang:
    groups = [make.podgroup("t-0-leader"), make.podgroup("t-0-worker", 3, required=role_required)]
    topology = {labels.TOPOLOGY_NAME: "old"} if required or preferred or role_required else {}
    return make.gang(
        "t-0", groups, priority=priority, required=required, preferred=preferred, annotations=topology
    )


def wanted_gang(*, priority: str = "", required: str = "", preferred: str = "", role: str = "") -> Manifest:
    """The gang that a set asks for; levels by their domain in the topology."""
    worker = make.template("worker", 3)
    if role:
        worker["topologyConstraint"] = {"topologyName": "new", "pack": {"required": role}}
    template: Manifest = {"priorityClassName": priority} if priority else {}
    pack = {key: value for key, value in (("required", required), ("preferred", preferred)) if value}
    if pack:
        template["topologyConstraint"] = {"topologyName": "new", "pack": pack}
    cliqueset = make.cliqueset("t", [make.template("leader"), worker], template=template)
    return desired_gang(cliqueset, 0, backend="default", topology=make.topology_binding("new"))


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
    "everything is another": Held(
        placed_gang(priority="low", required=RACK, role_required=RACK),
        wanted_gang(priority="high", required="zone", role="zone"),
        {PRIORITY: [PRIORITY_FIELD], TOPOLOGY: [GANG_FIELD, ROLE_FIELD]},
    ),
}


@pytest.mark.parametrize("editable", ANY, ids=lambda each: "+".join(sorted(each)) or "nothing")
@pytest.mark.parametrize("case", EDITS.values(), ids=EDITS)
def test_an_edit_of_a_placed_gang_is_told_or_held(case: Held, editable: frozenset[str]) -> None:
    held = [field for about, fields in case.fields.items() if about not in editable for field in fields]
    assert differing_fields(case.wanted, case.gang, editable) == held


def copied(manifest: Manifest) -> Manifest:
    return wanted_gang() | {
        "metadata": {**manifest["metadata"], "annotations": dict(manifest["metadata"]["annotations"])},
        "spec": {**manifest["spec"], "podgroups": [dict(each) for each in manifest["spec"]["podgroups"]]},
    }


@pytest.mark.parametrize("editable", ANY, ids=lambda each: "+".join(sorted(each)) or "nothing")
@pytest.mark.parametrize("case", EDITS.values(), ids=EDITS)
def test_what_is_held_is_written_as_the_gang_has_it(case: Held, editable: frozenset[str]) -> None:
    desired = copied(case.wanted)
    held_edits(desired, case.gang, editable)
    assert differing_fields(desired, case.gang, ()) == [
        field for about, fields in case.fields.items() if about in editable for field in fields
    ]
    keeps_place = TOPOLOGY in case.fields and TOPOLOGY not in editable
    name = case.gang.annotations.get(labels.TOPOLOGY_NAME)
    told = desired["metadata"]["annotations"][labels.TOPOLOGY_NAME]
    assert told == (name if keeps_place else case.wanted["metadata"]["annotations"][labels.TOPOLOGY_NAME])


def test_what_is_held_leaves_minima_and_names_as_they_are_wanted() -> None:
    desired = wanted_gang(priority="high", required="zone", role="zone")
    held_edits(desired, placed_gang(priority="low", required=RACK), ())
    assert desired["spec"]["priorityClassName"] == "low"
    assert desired["spec"]["topologyConstraint"] == {"packConstraint": {"required": RACK}}
    assert [
        (each["name"], each["minReplicas"], each["topologyConstraint"])
        for each in desired["spec"]["podgroups"]
    ] == [
        ("t-0-leader", 1, None),
        ("t-0-worker", 3, None),
    ]


@dataclass(frozen=True)
class HeldMinima:
    roles: list[Manifest]
    there: Mapping[str, int]
    want: list[str]
    editable: Collection[str] = ()
    replica: int = 0


def at(position: int) -> str:
    return f"spec.template.cliques[{position}].spec.minAvailable"


HELD_MINIMA = {
    "another minimum is held": HeldMinima([role("w", 3, 2)], {"t-0-w": 1}, [at(0)]),
    "the same minimum is not": HeldMinima([role("w", 3, 2)], {"t-0-w": 2}, []),
    "each role is told by its position": HeldMinima(
        [role("a", 3, 2), role("b", 3, 2), role("c", 3, 2)],
        {"t-0-a": 1, "t-0-b": 2, "t-0-c": 3},
        [at(0), at(2)],
    ),
    "one that was left out is decided and not edited": HeldMinima([role("w", 9)], {"t-0-w": 3}, []),
    "a clique that does not exist yet gets its own": HeldMinima([role("w", 3, 2)], {"t-1-w": 1}, []),
    "the cliques of the gang's own replica count": HeldMinima(
        [role("w", 3, 2)], {"t-0-w": 2, "t-1-w": 1}, [at(0)], replica=1
    ),
    "a scheduler that can be told takes it": HeldMinima(
        [role("w", 3, 2)], {"t-0-w": 1}, [], editable={MINIMUM}
    ),
    "that it can be told of something else does not help": HeldMinima(
        [role("w", 3, 2)], {"t-0-w": 1}, [at(0)], editable={PRIORITY, TOPOLOGY}
    ),
}


@pytest.mark.parametrize("case", HELD_MINIMA.values(), ids=HELD_MINIMA)
def test_held_minima(case: HeldMinima) -> None:
    cliques = {name: clique(name, 3, minimum) for name, minimum in case.there.items()}
    cliqueset = make.cliqueset("t", case.roles, replicas=2)
    assert held_minima(cliqueset, case.replica, cliques, case.editable) == case.want


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
    "spec.template.cliques: roles were added or removed (router) while gang t-0 is placed, and its scheduler "
    "cannot be told; set spec.replicas to 0 first, or delete the set and create it anew"
)
RENAMED = (
    "spec.template.cliques: roles were added or removed (router, worker) while gang t-1 is placed, and its "
    "scheduler cannot be told; set spec.replicas to 0 first, or delete the set and create it anew"
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
        make.cliqueset("t", RENAMED_ROLES, replicas=2), [RENAMED], {"t-1"}
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
    assert [
        str(error) for error in impossible_edits(case.cliqueset, cliques, GANGS, case.placed)
    ] == case.want


# Words --------------------------------------------------------------------------------------------


def test_what_waits_says_what_to_do_about_it() -> None:
    waiting = {"t-0": [PRIORITY_FIELD, GANG_FIELD]}
    assert pending_sentence(waiting, "team-a") == (
        "spec.template.priorityClassName, spec.template.topologyConstraint: edited while pods of gang t-0 are on "
        "nodes, and the scheduler cannot be told; takes effect when the gang is placed anew: "
        "kubectl delete pods -n team-a -l grove.io/podgang=t-0 does that at once"
    )


def test_what_waits_for_several_gangs_is_said_once() -> None:
    waiting = {"t-2": [GANG_FIELD], "t-1": [PRIORITY_FIELD], "t-3": [PRIORITY_FIELD]}
    assert pending_sentence(waiting, "team-a").startswith(
        "spec.template.priorityClassName, spec.template.topologyConstraint: edited while pods of gang t-1 and 2 more "
        "are on nodes, "
    )
