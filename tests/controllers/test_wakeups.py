"""Who is asked to look when a pod comes, changes or goes, and how soon."""

import pytest
from tests.controllers.stores import cache

from grove.api import labels
from grove.api.pod import Pod
from grove.controllers.wakeups import CLIQUE, TABLE, as_soon_as_all_exist, listener
from grove.meta import Key
from grove.runtime.cache import Cache
from grove.testing import make

GANG = make.gang("train-0", {"train-0-worker": 2})


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
