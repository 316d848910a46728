"""A replica that gang termination recycled in its turn keeps it until it has been available for a while."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec
import pytest
from tests.plan.test_update_replicas import BEGAN, asked, state, world

from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.pod import Pod
from grove.meta import Condition
from grove.plan.update.recycled import available_since, patience, was_recycled
from grove.plan.update.replicas import SetUpdate, plan_update
from grove.plan.update.words import update_condition
from grove.testing import make

TURN = datetime.fromisoformat(BEGAN)
DELAY = timedelta(seconds=15)


def at(seconds: float) -> str:
    """So many seconds after the turn began."""
    return (TURN + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(created: float, *, deleted: bool = False) -> Pod:
    found = make.pod("t-0-w", 0, deleted=deleted)
    return msgspec.structs.replace(
        found, metadata=msgspec.structs.replace(found.metadata, creation_timestamp=at(created))
    )


def clique(
    *, ended: float | None = None, is_open: bool = False, created: float = -60, available: float | None = None
) -> PodClique:
    """A clique whose update has ended, goes on, or did not begin, and that says since when it is available."""
    found = make.clique_manifest("t-0-w")
    found["metadata"]["creationTimestamp"] = at(created)
    found["status"] = {
        "updateProgress": {"updateStartedAt": BEGAN, "updateEndedAt": None if ended is None else at(ended)}
        if is_open or ended is not None
        else None,
        "conditions": [] if available is None else [told(available)],
    }
    return make.view(PodClique, found)


def told(seconds: float, status: str = "True") -> dict[str, str]:
    return {"type": "Available", "status": status, "reason": "x", "lastTransitionTime": at(seconds)}


@dataclass(frozen=True)
class Case:
    clique: PodClique
    pods: Sequence[Pod]
    want: bool


CASES = {
    "pods that the update made are older than its end": Case(
        clique(ended=40), [pod(10), pod(30)], want=False
    ),
    "pods that are younger by more than the delay were made again": Case(
        clique(ended=40), [pod(56), pod(57)], want=True
    ),
    "pods that were lost soon after the end wait for nobody": Case(
        clique(ended=40), [pod(50), pod(55)], want=False
    ),
    "one that was lost later is no recycled clique": Case(clique(ended=40), [pod(30), pod(90)], want=False),
    "one that goes or has failed counts for nothing": Case(
        clique(ended=40), [pod(30, deleted=True), pod(90)], want=True
    ),
    "while pods are being replaced it is for that": Case(clique(is_open=True), [pod(90)], want=False),
    "of what did not change, younger than the turn": Case(clique(), [pod(20)], want=True),
    "of what was updated before, younger than the turn": Case(clique(ended=-500), [pod(10)], want=False),
    "of what was made meanwhile, younger than itself": Case(clique(created=30), [pod(31)], want=False),
    "without pods there is nothing to be seen": Case(clique(ended=40), [], want=False),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_was_recycled_is_told_by_the_age_of_its_pods(case: Case) -> None:
    assert was_recycled(case.clique, case.pods, TURN, DELAY) is case.want


def test_it_is_waited_for_as_long_as_it_was_made_to_wait_but_not_for_hours() -> None:
    assert patience(DELAY) == DELAY
    assert patience(timedelta(hours=4)) == timedelta(minutes=10)


def test_a_replica_is_available_since_the_last_of_its_cliques_is() -> None:
    assert available_since([clique(available=5), clique(available=9)]) == TURN + timedelta(seconds=10)
    assert available_since([clique(available=5), clique()]) is None
    unavailable = Condition(type="Available", status="False", reason="x", last_transition_time=at(5))
    status = msgspec.structs.replace(clique().status, conditions=(unavailable,))
    assert available_since([msgspec.structs.replace(clique(), status=status)]) is None


def planned(now: float, *, available: float | None, made: float = 60, ready: bool = True) -> SetUpdate:
    """Replica 0 of two has its turn and follows with pods that were made at a time."""
    asks = asked("two", 2, turns=[0])
    template = msgspec.structs.replace(asks.template, termination_delay="15s")
    cliqueset: PodCliqueSet = msgspec.structs.replace(
        asks, spec=msgspec.structs.replace(asks.spec, template=template)
    )
    found = state(world(2, "two", updated=[0]), cliqueset, broken=() if ready else (0,))

    def pods_of(one: PodClique) -> Sequence[Pod]:
        stamp = at(made)
        return [
            msgspec.structs.replace(
                each, metadata=msgspec.structs.replace(each.metadata, creation_timestamp=stamp)
            )
            for each in found.pods_of(one)
        ]

    def saying(one: PodClique) -> PodClique:
        progress = clique(ended=40).status.update_progress
        conditions = clique(available=available).status.conditions
        status = msgspec.structs.replace(one.status, update_progress=progress, conditions=conditions)
        return msgspec.structs.replace(one, status=status)

    cliques = {name: saying(one) for name, one in found.cliques.items()}
    return plan_update(replace(found, cliques=cliques, pods_of=pods_of, now=TURN + timedelta(seconds=now)))


def test_its_turn_does_not_end_with_the_moment_in_which_its_pods_are_ready() -> None:
    found = planned(now=63, available=62)
    assert (found.turns, found.again) == ((0,), 15)
    told = update_condition(found)
    assert told is not None
    assert told.message == (
        "replica 0 was recycled during its update; it keeps its turn until it has been available for 15 s"
    )


def test_it_ends_when_it_has_been_available_for_a_while() -> None:
    found = planned(now=78, available=62)
    assert (found.turns, found.again) == ((1,), None)


def test_until_its_cliques_say_that_they_are_available_nobody_knows_when() -> None:
    for found in (planned(now=63, available=None), planned(now=90, available=62, ready=False)):
        assert (found.turns, found.again) == ((0,), None)


def test_a_replica_that_was_not_recycled_is_waited_for_no_longer() -> None:
    assert planned(now=42, available=41, made=30).turns == (1,)
