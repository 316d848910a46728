"""Which changes of a pod, a gang and a set somebody waits for, and which only go into a status."""

import pytest

from grove.api import labels
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.controllers.differences import (
    gang_changed,
    gang_listed,
    gang_revision_changed,
    pod_lost,
    pod_needs_action,
    scheduler_choice_changed,
)
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
    assert pod_lost(WAITING, after)


def test_a_gate_that_opened_counts() -> None:
    assert pod_needs_action(GATED, WAITING)
    assert not pod_lost(GATED, WAITING), "its clique need not make another"


def test_a_pod_that_was_bound_only_stands_elsewhere_though_it_got_the_labels_of_its_place() -> None:
    place = {"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "b"}
    bound = make.pod(node="node-0", labels={**MARKS, **place}, generation=3)
    assert bound.labels != WAITING.labels
    assert not pod_needs_action(WAITING, bound)


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
