"""The laws that faults are held to can be broken, and then they say so."""

from __future__ import annotations

from itertools import count

import pytest
from tests.e2e.judges import JUDGES
from tests.e2e.laws import (
    assert_gates_opened_on_whole_gangs_only,
    assert_no_pod_was_created_twice,
    longest_partial,
)
from tests.e2e.ledger import Ledger, Seen
from tests.e2e.scene import Scene

from grove.api import kinds, labels
from grove.kube.client import Client
from grove.meta import Manifest

GATE = [{"name": "scheduling.k8s.io/workload"}]


def pod(index: int, uid: str, *, gated: bool = True) -> Manifest:
    marks = {labels.POD_CLIQUE: "train-0-worker", labels.POD_INDEX: str(index), labels.POD_GANG: "train-0"}
    spec = {"schedulingGates": GATE} if gated else {}
    return {"metadata": {"name": f"worker-{uid}", "uid": uid, "labels": marks}, "spec": spec}


def gang(initialized: str) -> Manifest:
    condition = {"type": "Initialized", "status": initialized}
    return {"metadata": {"name": "train-0", "uid": "g"}, "status": {"conditions": [condition]}}


def seen(*states: Manifest) -> Scene:
    """A scene in which these states were seen, one a second."""
    ledger = Ledger.__new__(Ledger)
    versions = count(1)
    ledger.history = [
        Seen(float(at), next(versions), kinds.GANGS if "status" in each else kinds.PODS, "MODIFIED", each)
        for at, each in enumerate(states)
    ]
    return Scene(JUDGES["1.36"], "story", Client.__new__(Client), ledger)


WHOLE = (pod(0, "a"), pod(1, "b"), gang("True"), pod(0, "a", gated=False), pod(1, "b", gated=False))


def test_a_gang_that_was_whole_before_its_gates_opened_breaks_no_law() -> None:
    scene = seen(*WHOLE)
    assert_gates_opened_on_whole_gangs_only(scene, "train-0", 2)
    assert_no_pod_was_created_twice(scene)
    assert len(scene.ledger.history) == len(WHOLE)


@pytest.mark.parametrize(
    "states",
    {
        "a pod is missing": (pod(0, "a"), gang("True"), pod(0, "a", gated=False), pod(1, "b")),
        "not initialized": (pod(0, "a"), pod(1, "b"), pod(0, "a", gated=False), gang("True")),
        "never initialized": (pod(0, "a"), pod(1, "b"), gang("False"), pod(0, "a", gated=False)),
        "no gate ever opened": (pod(0, "a"), pod(1, "b"), gang("True")),
    }.items(),
    ids=lambda item: item[0],
)
def test_a_gate_that_opens_early_breaks_the_law(states: tuple[str, tuple[Manifest, ...]]) -> None:
    with pytest.raises(AssertionError):
        assert_gates_opened_on_whole_gangs_only(seen(*states[1]), "train-0", 2)


def test_a_second_pod_in_the_same_place_breaks_the_law() -> None:
    with pytest.raises(AssertionError):
        assert_no_pod_was_created_twice(seen(*WHOLE, pod(1, "c")))


def placed(uid: str, *, leaving: bool = False) -> Manifest:
    found = pod(0, uid, gated=False)
    gone = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if leaving else {}
    return {"metadata": {**found["metadata"], **gone}, "spec": {"nodeName": "n"}}


PARTS = {
    "nothing was ever placed": ((pod(0, "a"), pod(1, "b")), 0.0),
    "whole a moment after the first binding": ((placed("a"), placed("b")), 1.0),
    "a part that stays counts until now": ((placed("a"), pod(1, "b")), 9.0),
    "what leaves is no part": (
        (placed("a"), placed("b"), placed("a", leaving=True), placed("b", leaving=True)),
        1.0,
    ),
    "of two parts the longer one": (
        (placed("a"), placed("a", leaving=True), placed("b"), pod(1, "c"), pod(1, "d"), placed("c")),
        3.0,
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_is_timed_from_its_first_binding(name: str) -> None:
    states, want = PARTS[name]
    scene = seen(*states)
    assert longest_partial(scene, "train-0", 2, now=9.0) == want
    assert longest_partial(scene, "other-0", 2, now=9.0) == 0.0
