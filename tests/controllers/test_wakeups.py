"""Which changes of a pod and of a gang somebody waits for, and which only go into a status."""

import pytest
from tests.controllers.stores import cache

from grove.api import labels
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.controllers.differences import (
    gang_changed,
    gang_listed,
    gang_revision_changed,
    pod_needs_action,
    pod_progressed,
    scheduler_choice_changed,
)
from grove.controllers.wakeups import CLIQUE, TABLE, as_soon_as_all_exist, listener
from grove.meta import Key
from grove.runtime.cache import Cache
from grove.testing import make

GATED = make.pod(gates=["grove.io/gate"])
WAITING = make.pod()
MARKS = dict(WAITING.labels)


@pytest.mark.parametrize(
    "after",
    [
        make.pod(labels={**MARKS, "grove.io/podgang": "another"}),
        make.pod(annotations={"example.com/seen": "yes"}),
        make.pod(phase="Failed"),
        make.pod(uid="another"),
    ],
)
def test_a_pod_that_ended_or_means_something_else_now_counts(after: Pod) -> None:
    assert pod_needs_action(WAITING, after)
    assert not pod_progressed(WAITING, after)


def test_a_gate_that_opened_counts() -> None:
    assert pod_needs_action(GATED, WAITING)


def test_a_pod_that_was_bound_only_stands_elsewhere_though_it_got_the_labels_of_its_place() -> None:
    place = {"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "b"}
    bound = make.pod(node="node-0", labels={**MARKS, **place}, generation=3)
    assert bound.labels != WAITING.labels
    assert pod_progressed(WAITING, bound)


GANG = make.gang("train-0", {"train-0-worker": 2})
LISTING = make.podgroup("train-0-worker", 2)
LISTING["podReferences"] = [{"namespace": "default", "name": "a", "uid": "a"}]
TOLD = {"status": {"phase": "Running", "conditions": [{"type": "Scheduled", "status": "True"}]}}

GANGS: dict[str, tuple[PodGang, bool]] = {
    "another gang of the name": (make.gang("train-0", {"train-0-worker": 2}, uid="another"), True),
    "a gang that goes": (make.gang("train-0", {"train-0-worker": 2}, deleted=True), True),
    "another minimum": (make.gang("train-0", {"train-0-worker": 1}), True),
    "another priority": (make.gang("train-0", {"train-0-worker": 2}, priority="high"), True),
    "another pod template": (
        make.gang("train-0", {"train-0-worker": 2}, annotations={labels.GENERATION_HASH: "another"}),
        True,
    ),
    "a gang that is restarted": (
        make.gang("train-0", {"train-0-worker": 2}, annotations={labels.RESTARTS: "1"}),
        True,
    ),
    "another scheduler": (
        make.gang("train-0", {"train-0-worker": 2}, labels={labels.SCHEDULER_BACKEND: "kai"}),
        True,
    ),
    "pods that are listed": (make.gang("train-0", [LISTING], generation=2), False),
    "a label of somebody": (make.gang("train-0", {"train-0-worker": 2}, labels={"team": "a"}), False),
    "how it stands": (
        make.view(PodGang, {**make.gang_manifest("train-0", {"train-0-worker": 2}), **TOLD}),
        False,
    ),
}


@pytest.mark.parametrize(("after", "want"), GANGS.values(), ids=GANGS)
def test_cliques_are_woken_when_pods_must_be_made_otherwise(after: PodGang, want: bool) -> None:
    assert gang_revision_changed(GANG, after) is want


@pytest.mark.parametrize(("living", "at_once"), [(1, False), (2, True)])
def test_a_gang_is_looked_at_at_once_when_the_last_pod_comes_and_not_for_those_that_go(
    living: int, at_once: bool
) -> None:
    """Pods that terminate one after the other while others take their places would make it look for each."""
    marks = {labels.POD_GANG: "train-0"}
    going = [make.pod(index=index, name=f"old-{index}", deleted=True, labels=marks) for index in range(2)]
    there = [make.pod(index=index, name=f"new-{index}", labels=marks) for index in range(living)]
    known = cache(GANG, make.clique("train-0-worker", 2), *going, *there)
    assert (as_soon_as_all_exist(GANG.key, known) == 0) is at_once


def test_gangs_and_cliques_look_when_their_set_gets_another_template_and_not_when_it_is_scaled() -> None:
    before = make.cliqueset("train", {"worker": 2}, replicas=500, generation=1)
    scaled = make.cliqueset("train", {"worker": 2}, replicas=250, generation=2)
    edited = make.cliqueset("train", {"worker": 3}, replicas=500, generation=2)
    again = make.cliqueset("train", {"worker": 2}, replicas=500, uid="another")
    assert not scheduler_choice_changed(before, scaled)
    assert scheduler_choice_changed(before, edited)
    assert scheduler_choice_changed(before, again)


LISTED = make.gang("train-0", [LISTING], generation=2)


def test_the_list_of_pods_is_no_change_of_a_gang_that_somebody_waits_for() -> None:
    assert gang_listed(GANG, LISTED)
    assert not gang_changed(GANG, LISTED)


@pytest.mark.parametrize(
    "after",
    [
        make.gang("train-0", {"train-0-worker": 1}, generation=2),
        make.gang("train-0", [LISTING], generation=2, priority="high"),
        make.gang("train-0", [LISTING], generation=2, deleted=True),
        make.gang("train-0", [LISTING], generation=2, annotations={"example.com/seen": "yes"}),
    ],
)
def test_a_gang_that_changed_otherwise_is_looked_at_at_once_whatever_it_lists(after: PodGang) -> None:
    assert gang_changed(GANG, after)
    assert not gang_listed(GANG, after)


class Queue:
    """A controller that remembers whom it was asked to look at, and how soon."""

    def __init__(self) -> None:
        self.asked: dict[Key, float] = {}

    def enqueue(self, key: Key) -> None:
        self.asked[key] = 0.0

    def enqueue_after(self, key: Key, seconds: float) -> None:
        self.asked[key] = min(seconds, self.asked.get(key, seconds))


def cliques_woken(known: Cache, old: Pod | None, new: Pod | None) -> dict[Key, float]:
    """Which cliques look when a pod changes so, and after how many seconds."""
    queue = Queue()
    for row in TABLE:
        if row.type is Pod and row.controller == CLIQUE:
            listener(row, known, queue)(old, new)
    return queue.asked


OWNED = make.pod(labels={labels.POD_GANG: "train-0", labels.POD_CLIQUE: "train-0-worker"})
GOING = make.pod(labels=dict(OWNED.labels), deleted=True)
WORKERS = make.clique("train-0-worker", 2)


def test_a_pod_that_outlives_its_clique_wakes_it_all_the_same_and_one_that_goes_too_does_not() -> None:
    assert cliques_woken(cache(GANG), None, OWNED)
    assert not cliques_woken(cache(GANG), OWNED, GOING)
    assert not cliques_woken(cache(GANG), GOING, None)


def test_a_clique_looks_soon_for_a_pod_that_it_lost_and_late_for_one_that_came_or_opened() -> None:
    known, gated = cache(GANG, WORKERS), make.pod(labels=dict(OWNED.labels), gates=["grove.io/gate"])
    late = [cliques_woken(known, None, OWNED), cliques_woken(known, gated, OWNED)]
    soon = [cliques_woken(known, OWNED, GOING), cliques_woken(known, OWNED, None)]
    assert [set(each) for each in (*late, *soon)] == [{WORKERS.key}] * 4
    assert max(max(each.values()) for each in soon) < min(min(each.values()) for each in late)
