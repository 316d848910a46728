"""Pods that left the cache without being deleted: which are asked about, and which still exist."""

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest
from msgspec.structs import replace
from tests.controllers.stores import cache
from tests.controllers.test_members import clique, pod

from grove.api.clique import PodClique, PodCliqueStatus
from grove.api.pod import Pod
from grove.controllers.memory.vanished import Vanished
from grove.errors import NotFound
from grove.kube.client import Client
from grove.kube.reading import Listing
from grove.meta import Key, Object, Resource
from grove.testing import make


class Server:
    """Has these pods, and counts how often it is asked."""

    def __init__(self, *pods: Pod) -> None:
        self.pods = {each.key: each for each in pods}
        self.asked = 0
        self.listed: list[tuple[str, str]] = []

    async def pages(
        self, resource: Resource, *, type: type[Object], namespace: str, labels: str
    ) -> AsyncIterator[Listing[Object]]:
        self.listed.append((namespace, labels))
        yield Listing([each for each in self.pods.values() if not each.labels], "1", "", None)

    async def get(self, resource: Resource, key: Key, *, type: type[Pod]) -> Pod:
        self.asked += 1
        if key not in self.pods:
            raise NotFound(f"{key} not found")
        return self.pods[key]


def going(name: str) -> Pod:
    manifest = make.pod_manifest("train-0-worker", 0, name=name, uid=f"uid-{name}", deleted=True)
    reference = {"apiVersion": "v1", "kind": "PodClique", "name": "train-0-worker", "controller": True}
    manifest["metadata"]["ownerReferences"] = [{**reference, "uid": "uid-clique"}]
    return make.view(Pod, manifest)


A, B = pod("a"), pod("b")
SUCCESSOR = make.view(Pod, {**make.pod_manifest("train-0-worker", 0, name="a", uid="uid-another")})

#: What the cache heard of, what the server has, which pods are found and how often it was asked.
CASES: dict[str, tuple[list[tuple[Pod | None, Pod | None]], list[Pod], list[str], int]] = {
    "a pod that lost its label exists": ([(A, None)], [A], ["a"], 1),
    "one that is gone does not": ([(A, None)], [], [], 1),
    "one that was seen going is not asked about": ([(A, going("a")), (going("a"), None)], [A], [], 0),
    "another of its name is another": ([(A, None)], [SUCCESSOR], [], 1),
    "one that is going by now is as good as gone": ([(A, None)], [going("a")], [], 1),
    "one that came back is not asked about": ([(A, None), (None, A)], [A], [], 0),
    "a pod of no clique is not ours": ([(pod("a", ""), None)], [A], [], 0),
    "several": ([(A, None), (B, None)], [A, B], ["a", "b"], 2),
}


@pytest.mark.parametrize(("heard", "there", "want", "asked"), CASES.values(), ids=CASES)
def test_pods_that_the_cache_no_longer_shows(
    heard: list[tuple[Pod | None, Pod | None]], there: list[Pod], want: list[str], asked: int
) -> None:
    server = Server(*there)
    vanished = Vanished(cast(Client, server), cache(clique()))
    for old, new in heard:
        vanished.saw(old, new)
    assert [each.name for each in asyncio.run(vanished.found(clique(), ()))] == want
    assert server.asked == asked


def test_each_is_asked_about_once() -> None:
    server = Server(A)
    vanished = Vanished(cast(Client, server), cache(clique()))
    vanished.saw(A, None)
    asyncio.run(vanished.found(clique(), ()))
    assert asyncio.run(vanished.found(clique(), ())) == []
    assert server.asked == 1


@pytest.mark.parametrize("owners", [[], [clique(deleted=True)]], ids=["gone", "going"])
def test_pods_that_go_with_their_clique_are_not_asked_about(owners: list[PodClique]) -> None:
    server = Server(A)
    vanished = Vanished(cast(Client, server), cache(*owners))
    vanished.saw(A, None)
    assert asyncio.run(vanished.found(clique(), ())) == []
    assert server.asked == 0


def bare(name: str, owner: str = "uid-clique") -> Pod:
    """A pod without any label."""
    found = pod(name, owner)
    return replace(found, metadata=replace(found.metadata, labels={}))


def saying(replicas: int) -> PodClique:
    """A clique that says that it has so many pods."""
    return replace(clique(), status=PodCliqueStatus(replicas=replicas))


def test_pods_that_lost_their_label_before_anybody_looked_are_listed_once_in_a_namespace() -> None:
    server = Server(bare("a"), bare("b", "uid-other"), bare("c", ""))
    vanished = Vanished(cast(Client, server), cache(clique()))

    async def story() -> None:
        assert [each.name for each in await vanished.found(saying(2), [B])] == ["a"]
        assert await vanished.found(saying(2), [B]) == []

    asyncio.run(story())
    assert server.listed == [("default", "!grove.io/podgang")]


def test_nothing_is_listed_for_a_clique_that_says_no_more_than_the_cache_shows() -> None:
    server = Server(bare("a"))
    vanished = Vanished(cast(Client, server), cache(clique()))
    assert asyncio.run(vanished.found(saying(1), [B])) == []
    assert asyncio.run(vanished.found(saying(0), [])) == []
    assert server.listed == []
