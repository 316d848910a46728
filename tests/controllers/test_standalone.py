"""The pods of gangs that somebody else made are read as a whole, once for each of their versions."""

import asyncio
from typing import cast

from tests.controllers.stores import cache
from tests.plan.gang.states import GATE, PLAIN, ROLE

from grove.api import labels
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import Context
from grove.controllers.standalone import StandalonePods
from grove.errors import NotFound
from grove.kube.client import Client
from grove.meta import Key, Manifest, Resource
from grove.plan.changes import Patch
from grove.testing import make

GANG = make.view(PodGang, make.gang_manifest("guest", {ROLE: 1}))


class Server:
    """Has these manifests, and counts how often it is asked."""

    def __init__(self, *pods: Manifest) -> None:
        self.pods = {each["metadata"]["name"]: each for each in pods}
        self.asked = 0

    async def get(self, resource: Resource, key: Key, *, type: type[Manifest]) -> Manifest:
        self.asked += 1
        if key.name not in self.pods:
            raise NotFound(f"{key} not found")
        return self.pods[key.name]


def pod(version: str = "1", **fields: object) -> Manifest:
    given: dict[str, object] = {"gates": (GATE,), **fields}
    manifest = make.pod_manifest(ROLE, 0, name="p0", uid="uid-p0", **given)  # type: ignore[arg-type]
    manifest["metadata"]["resourceVersion"] = version
    return manifest


def prepared(pods: StandalonePods, *manifests: Manifest) -> list[tuple[bool, tuple[str, ...]]]:
    """Whether each pod is to be changed, and what it lacks; the first answer is about pods of no role."""
    seen = [make.view(Pod, each) for each in manifests]
    found = asyncio.run(pods.preparations(GANG, seen, PLAIN, Context()))
    return [(isinstance(each.change, Patch), each.problems) for each in found]


def test_a_pod_is_read_once_while_it_stays_as_it_is_and_its_change_is_kept_until_it_is_made() -> None:
    server = Server(pod())
    pods = StandalonePods(cast(Client, server), cache(make.view(Pod, pod())))
    assert prepared(pods, pod()) == [(False, ()), (True, ())]
    assert prepared(pods, pod()) == [(False, ()), (True, ())]
    assert server.asked == 1


def test_another_version_of_it_is_read_again() -> None:
    server = Server(pod())
    pods = StandalonePods(cast(Client, server), cache(make.view(Pod, pod())))
    prepared(pods, pod())
    server.pods["p0"] = pod("2", labels={"example.com/group": "guest"})
    assert prepared(pods, pod("2")) == [(False, ()), (False, ())]
    assert server.asked == 2


def test_a_pod_on_a_node_is_not_read() -> None:
    server = Server(pod(node="n1"))
    pods = StandalonePods(cast(Client, server), cache())
    assert prepared(pods, pod(node="n1")) == [(False, ())]
    assert server.asked == 0


def test_one_that_is_gone_needs_nothing() -> None:
    pods = StandalonePods(cast(Client, Server()), cache())
    assert prepared(pods, pod()) == [(False, ()), (False, ())]


def test_a_pod_that_names_no_podgroup_is_told_of() -> None:
    lost = pod()
    lost["metadata"]["labels"][labels.POD_CLIQUE] = "nobody"
    ((_, problems),) = prepared(StandalonePods(cast(Client, Server()), cache()), lost)
    assert problems == ("pod p0: label grove.io/podclique is 'nobody'; it must name a podgroup",)


def test_nothing_is_remembered_of_a_pod_that_is_gone() -> None:
    server = Server(pod())
    pods = StandalonePods(cast(Client, server), cache(make.view(Pod, pod())))
    prepared(pods, pod())
    pods.forget("uid-p0")
    prepared(pods, pod())
    assert server.asked == 2
