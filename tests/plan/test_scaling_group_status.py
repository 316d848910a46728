"""The status of a scaling group: what it counts, and which replica it names as the first that waits."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import pytest

from grove.api import kinds, labels
from grove.api.clique import PodClique
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
