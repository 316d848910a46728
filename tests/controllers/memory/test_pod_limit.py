"""How many pods cliques get that are scaled beyond their template, when a set may have only so many."""

from typing import cast

from grove.api import kinds, labels
from grove.api.clique import PodClique
from grove.api.pod import Pod
from grove.assembly import set_of
from grove.controllers.memory.pod_limit import BY_SET, PodLimit
from grove.runtime.cache import Cache
from grove.runtime.ports import Reader
from grove.testing import make

SET = make.cliqueset("train", {"leader": 1, "worker": 2})
MARKS = labels.owned_by("train")


def clique(role: str, replicas: int) -> PodClique:
    return make.clique(f"train-0-{role}", replicas, labels=MARKS)


def limit(pods: int, *, most: int) -> PodLimit:
    """A set that has so many pods of workers and may have `most` in all."""
    cache = Cache(cast(Reader, None))
    cache.add(kinds.PODS, Pod, indexes={BY_SET: set_of})
    for number in range(pods):
        manifest = make.object_manifest(kinds.PODS, f"train-0-worker-{number}", {}, labels=MARKS)
        cache.store(Pod).put(make.view(Pod, manifest))
    return PodLimit(cache, most)


def test_what_the_template_gives_is_always_granted() -> None:
    assert limit(0, most=1).grant(clique("worker", 2), SET, have=0) == 2


def test_beyond_it_pods_are_granted_while_there_is_room() -> None:
    pods = limit(2, most=5)
    assert pods.grant(clique("worker", 9), SET, have=2) == 5
    shortage = pods.shortage(clique("worker", 9).key)
    assert shortage is not None
    assert "9 pods are asked for and 5 may exist" in str(shortage)


def test_pods_that_the_cache_does_not_show_yet_take_room_too() -> None:
    pods = limit(2, most=5)
    pods.grant(clique("worker", 4), SET, have=2)
    assert pods.grant(clique("leader", 4), SET, have=0) == 1


def test_asked_again_the_last_grant_is_void() -> None:
    pods = limit(2, most=5)
    assert [pods.grant(clique("worker", 5), SET, have=2) for _ in range(3)] == [5, 5, 5]


def test_nothing_is_taken_away_from_a_clique_that_has_too_much() -> None:
    assert limit(8, most=5).grant(clique("worker", 8), SET, have=8) == 8


def test_a_clique_that_is_gone_leaves_its_room_and_its_shortage() -> None:
    pods = limit(2, most=5)
    pods.grant(clique("worker", 9), SET, have=2)
    pods.forget(clique("worker", 9).key)
    assert pods.shortage(clique("worker", 9).key) is None
    assert pods.grant(clique("leader", 4), SET, have=0) == 3
