"""Pods counted on their way, from the events of a watch."""

import msgspec
from bench.tally import Milestone, SeenPod, Tally

from grove.meta import Manifest


def seen(name: str, *, gates: int = 0, phase: str = "Pending", ready: str = "False") -> SeenPod:
    manifest: Manifest = {
        "metadata": {"name": name},
        "spec": {"schedulingGates": [{"name": f"gate-{number}"} for number in range(gates)]},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]},
    }
    return msgspec.convert(manifest, SeenPod)


def running(name: str) -> SeenPod:
    return seen(name, phase="Running", ready="True")


def test_a_milestone_is_reached_by_the_last_pod_and_keeps_its_time() -> None:
    tally = Tally(2)
    tally.saw(seen("a", gates=1), at=1)
    assert tally.reached == {}
    tally.saw(seen("b", gates=1), at=2)
    tally.saw(seen("a"), at=3)
    tally.saw(seen("b"), at=4)
    tally.saw(running("a"), at=5)
    tally.saw(running("b"), at=6)
    tally.saw(running("b"), at=7)
    assert tally.reached == {Milestone.CREATED: 2, Milestone.OPEN: 4, Milestone.RUNNING: 6}


def test_a_pod_seen_twice_counts_once() -> None:
    tally = Tally(2)
    tally.saw(seen("a", gates=1), at=1)
    tally.saw(seen("a", gates=1), at=2)
    assert Milestone.CREATED not in tally.reached


def test_a_gate_of_anybody_keeps_a_pod_from_being_open() -> None:
    tally = Tally(1)
    tally.saw(seen("a", gates=2), at=1)
    tally.saw(seen("a", gates=1), at=2)
    assert Milestone.OPEN not in tally.reached


def test_a_running_pod_that_is_not_ready_is_not_running_yet() -> None:
    tally = Tally(1)
    tally.saw(seen("a", phase="Running", ready="False"), at=1)
    assert Milestone.RUNNING not in tally.reached


def test_a_pod_that_is_replaced_does_not_stand_for_its_replacement() -> None:
    tally = Tally(2)
    tally.saw(running("a"), at=1)
    tally.saw(running("a"), at=2, deleted=True)
    tally.saw(running("b"), at=3)
    assert tally.reached == {}
    tally.saw(running("c"), at=4)
    assert tally.reached[Milestone.RUNNING] == 4


def test_pods_are_gone_when_the_last_one_is() -> None:
    tally = Tally(2)
    for at, name in enumerate("ab"):
        tally.saw(running(name), at=at)
    tally.saw(running("a"), at=5, deleted=True)
    assert Milestone.GONE not in tally.reached
    tally.saw(running("b"), at=6, deleted=True)
    assert tally.reached[Milestone.GONE] == 6


def test_it_says_how_far_it_came() -> None:
    tally = Tally(3)
    tally.saw(seen("a", gates=1), at=1)
    tally.saw(running("b"), at=2)
    assert str(tally) == "2 of 3 pods exist, 1 have their gates open, 1 are running"
