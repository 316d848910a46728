"""The status of a scaling group: what it counts, and which replica it names as the first that waits."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
import pytest

from grove.api import kinds, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.scaling_group import PodCliqueScalingGroup
from grove.meta import Manifest
from grove.plan.scaling_group_status import desired_group_status
from grove.testing import make

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
GROUP: Final = "llm-1-decode"
ROLES: Final = ("leader", "worker")

#: Placed and ready pods of a clique that needs one.
WAITS: Final = (0, 0)
STARTS: Final = (1, 0)
READY: Final = (1, 1)


def group(replicas: int, minimum: int = 1) -> PodCliqueScalingGroup:
    marks = {**labels.owned_by("llm"), labels.SET_REPLICA_INDEX: "1"}
    spec: Manifest = {"replicas": replicas, "minAvailable": minimum, "cliqueNames": [*ROLES]}
    return make.view(
        PodCliqueScalingGroup, make.object_manifest(kinds.SCALING_GROUPS, GROUP, spec, labels=marks)
    )


def clique(name: str, placed: int, ready: int) -> PodClique:
    manifest = make.object_manifest(kinds.CLIQUES, name, {"replicas": 1, "minAvailable": 1, "podSpec": {}})
    counts = {"scheduledReplicas": placed, "readyReplicas": ready, "updatedReplicas": ready}
    return make.view(PodClique, {**manifest, "status": counts})


@dataclass(frozen=True)
class Case:
    replicas: int
    #: For each replica that has cliques, how far its leader and its worker are.
    there: list[tuple[tuple[int, int], tuple[int, int]]]
    want: str
    minimum: int = 1


CASES: Final = {
    "all are available": Case(2, [(READY, READY)] * 2, "2 of 2 replicas are available"),
    "scaled to zero": Case(0, [], "0 of 0 replicas are available"),
    "a replica of the base gang waits": Case(
        1, [(WAITS, WAITS)], "0 of 1 replicas are available; replica 0 (gang llm-1) is not placed"
    ),
    "one of its cliques starts": Case(
        1, [(READY, STARTS)], "0 of 1 replicas are available; replica 0 (gang llm-1) is not ready"
    ),
    "the replica above the minimum waits": Case(
        2,
        [(READY, READY), (READY, WAITS)],
        "1 of 2 replicas are available; replica 1 (gang llm-1-decode-0) is not placed",
    ),
    "gangs are counted from the minimum": Case(
        4,
        [(READY, READY)] * 3 + [(STARTS, STARTS)],
        "3 of 4 replicas are available; replica 3 (gang llm-1-decode-1) is not ready",
        minimum=2,
    ),
    "the first of several is named": Case(
        3,
        [(READY, READY), (STARTS, READY), (WAITS, WAITS)],
        "1 of 3 replicas are available; replica 1 (gang llm-1-decode-0) is not ready",
    ),
    "a replica has no cliques yet": Case(
        3,
        [(READY, READY), (READY, READY)],
        "2 of 3 replicas are available; replica 2 (gang llm-1-decode-1) is not placed",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_group_says_which_replica_is_the_first_that_waits(case: Case) -> None:
    cliques = {
        (name := f"{GROUP}-{number}-{role}"): clique(name, *counts)
        for number, replica in enumerate(case.there)
        for role, counts in zip(ROLES, replica, strict=True)
    }
    status = desired_group_status(group(case.replicas, case.minimum), cliques, now=NOW)
    (ready,) = [each for each in status["conditions"] if each["type"] == "Ready"]
    assert ready["message"] == case.want


def test_replicas_are_counted_by_their_least_advanced_clique() -> None:
    there = {"0": (READY, READY), "1": (READY, STARTS), "2": (STARTS, WAITS)}
    cliques = {
        (name := f"{GROUP}-{number}-{role}"): clique(name, *counts)
        for number, replica in there.items()
        for role, counts in zip(ROLES, replica, strict=True)
    }
    status = desired_group_status(group(3), cliques, now=NOW)
    counted = {field: status[field] for field in ("replicas", "scheduledReplicas", "availableReplicas")}
    assert counted == {"replicas": 3, "scheduledReplicas": 2, "availableReplicas": 1}


def breached_for_hours(name: str, *, reached: bool) -> PodClique:
    told = [true_since_hours("MinAvailableBreached")]
    told += [true_since_hours("MinAvailableReached")] if reached else []
    manifest = make.object_manifest(kinds.CLIQUES, name, {"replicas": 1, "minAvailable": 1, "podSpec": {}})
    return make.view(PodClique, {**manifest, "status": {"conditions": told}})


def true_since_hours(type: str) -> Manifest:
    since = (NOW - timedelta(hours=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"type": type, "status": "True", "reason": "R", "message": "", "lastTransitionTime": since}


def says_that_it_is_recycled(
    cliques: Iterable[PodClique],
    replicas: int = 1,
    *,
    refused: bool = False,
    told: Iterable[str] = ("MinAvailableBreached",),
) -> bool:
    manifest = msgspec.to_builtins(group(replicas))
    there = make.view(
        PodCliqueScalingGroup,
        {**manifest, "status": {"conditions": [true_since_hours(each) for each in told]}},
    )
    known = {each.name: each for each in cliques}
    accepted = {"type": "Accepted", "status": "False" if refused else "True", "reason": "R", "message": ""}
    of = make.view(PodCliqueSet, {**make.cliqueset_manifest("llm"), "status": {"conditions": [accepted]}})
    status = desired_group_status(there, known, of, now=NOW)
    return "GangTerminationInProgress" in {each["type"] for each in status["conditions"]}


def test_a_group_that_worked_and_was_broken_for_too_long_says_that_it_is_recycled() -> None:
    assert says_that_it_is_recycled(breached_for_hours(f"{GROUP}-0-{role}", reached=True) for role in ROLES)


def test_a_group_of_a_refused_set_says_nothing_of_recycling_unless_it_was_recycled_before() -> None:
    broken = [breached_for_hours(f"{GROUP}-0-{role}", reached=True) for role in ROLES]
    assert not says_that_it_is_recycled(broken, refused=True)
    recycled = ("MinAvailableBreached", "GangTerminationInProgress")
    assert says_that_it_is_recycled(broken, refused=True, told=recycled)


def test_a_group_that_waits_for_its_first_placement_says_nothing_of_recycling_however_long_it_waits() -> None:
    waits = [breached_for_hours(f"{GROUP}-0-{role}", reached=False) for role in ROLES]
    assert not says_that_it_is_recycled(waits)


def test_a_broken_replica_that_the_group_can_spare_is_no_loss_of_its_minimum() -> None:
    broken = [breached_for_hours(f"{GROUP}-1-{role}", reached=True) for role in ROLES]
    works = [clique(f"{GROUP}-0-{role}", *READY) for role in ROLES]
    assert not says_that_it_is_recycled([*works, *broken], replicas=2)


def test_a_broken_replica_beside_one_that_only_waits_is_a_loss_of_the_minimum() -> None:
    broken = [breached_for_hours(f"{GROUP}-1-{role}", reached=True) for role in ROLES]
    waits = [breached_for_hours(f"{GROUP}-0-{role}", reached=False) for role in ROLES]
    assert says_that_it_is_recycled([*waits, *broken], replicas=2)
