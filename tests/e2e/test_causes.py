"""Why a gang waits, on every real scheduler: it says what is in its way, and does not name anything else."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Final

import pytest
from tests.e2e.conftest import Plane
from tests.e2e.scene import GPU, NODES, Scene, role, train

from grove.api import kinds
from grove.backends.kai.queue import QUEUES as KAI_QUEUES
from grove.backends.koordinator.quota import QUOTAS as KOORDINATOR_QUOTAS
from grove.backends.volcano.sight import QUEUES as VOLCANO_QUEUES
from grove.kube.client import Client
from grove.meta import Key, Manifest, Resource, resource
from grove.testing import make

pytestmark = pytest.mark.real

CONFIG_MAPS: Final = resource("", "v1", "ConfigMap")
SELECTOR: Final = r"node affinity/selector|node selector|node\(s\) didn't match"
TAINT: Final = r"untolerated taint"
SHORT: Final = r"insufficient|not enough|didn't have enough|no share left|no node has room|too few"
ELSEWHERE: Final = {"nodeSelector": {"kubernetes.io/hostname": "chosen"}}
ONLY_GPUS: Final = [{"key": "gpu", "value": "only", "effect": "NoSchedule"}]
#: YuniKorn gathers its events for two seconds.
SETTLED_SECONDS: Final = 3.0


async def said(scene: Scene, pattern: str, gang: str = "train-0") -> str:
    """What the gang says in the end; it must be of this kind by then."""
    await scene.until(
        lambda: re.search(pattern, scene.said(gang), re.IGNORECASE) is not None, f"{gang} says {pattern!r}"
    )
    await asyncio.sleep(SETTLED_SECONDS)
    text = scene.said(gang)
    assert re.search(pattern, text, re.IGNORECASE), text
    return text


async def too_little_room(scene: Scene) -> None:
    await scene.nodes(2)
    await scene.apply(train())
    text = await said(scene, SHORT)
    assert not re.search(rf"{SELECTOR}|{TAINT}", text)
    assert not re.search(r"insufficient (cpu|memory)|\b(cpu|memory)\b", text, re.IGNORECASE)


async def one_of_two_resources_is_short(scene: Scene) -> None:
    """Pods that ask for cores, too, of which there are plenty."""
    await scene.nodes(2)
    asked = {GPU: "8", "cpu": "1"}
    main = {"name": "main", "image": "registry.example/serve:1", "resources": {"limits": asked}}
    await scene.apply(train(role("worker", 3, pod={"containers": [main]})))
    text = await said(scene, SHORT)
    assert not re.search(rf"{SELECTOR}|{TAINT}", text)
    # YuniKorn's places are told with all that they ask for.
    assert "cpu" not in text.replace("each with cpu 1", "")


async def a_selector_that_no_node_matches(scene: Scene) -> None:
    await scene.nodes(2)
    await scene.apply(train(role("worker", 2, gpus=4, pod=ELSEWHERE)))
    text = await said(scene, SELECTOR)
    assert not re.search(rf"{TAINT}|{SHORT}", text, re.IGNORECASE), text
    await scene.node("chosen")
    await scene.until_running("train-0", 2)


async def a_taint_that_is_not_tolerated(scene: Scene) -> None:
    await scene.nodes(2)
    for name in ("node-0", "node-1"):
        await scene.edit(NODES, name, {"spec": {"taints": ONLY_GPUS}})
    await scene.apply(train(role("worker", 2, gpus=4)))
    text = await said(scene, TAINT)
    assert not re.search(rf"{SELECTOR}|{SHORT}", text, re.IGNORECASE), text
    await scene.node("free")
    await scene.until_running("train-0", 2)


STORIES: Final[dict[str, Callable[[Scene], Awaitable[None]]]] = {
    each.__name__.replace("_", " "): each
    for each in (
        too_little_room,
        one_of_two_resources_is_short,
        a_selector_that_no_node_matches,
        a_taint_that_is_not_tolerated,
    )
}


@pytest.mark.parametrize("name", STORIES)
def test_the_cause_is_named_on_a_real_control_plane(plane: Plane, name: str) -> None:
    plane.play("cause", lambda act: STORIES[name](act.scene))


@pytest.mark.parametrize("name", STORIES)
def test_the_cause_is_named_with_the_scheduler_of_others(other_plane: Plane, name: str) -> None:
    plane = other_plane
    plane.play("cause", lambda act: STORIES[name](act.scene))


QUEUES: Final = """
partitions:
  - name: default
    placementrules: [{name: provided, create: true}, {name: tag, value: namespace, create: true}]
    queues: [{name: root, submitacl: "*", queues: [{name: small, resources: {max: {nvidia.com/gpu: 16}}}]}]
"""


@dataclass(frozen=True)
class Share:
    """A queue or quota of two nodes' GPUs, in the terms of one scheduler, and what a gang without a share says."""

    label: str
    queue: str
    said: str
    reason: str
    #: What makes it, and takes it away again where the scene does not.
    made: Callable[[Scene], AbstractAsyncContextManager[None]]
    #: That nodes are in the way, of which two are free.
    unsaid: str = "node"


@asynccontextmanager
async def queues_of_yunikorn(scene: Scene) -> AsyncIterator[None]:
    before = await set_queues(scene.user, QUEUES)
    try:
        yield
    finally:
        await set_queues(scene.user, before)


@asynccontextmanager
async def queue_of_kai(scene: Scene) -> AsyncIterator[None]:
    share = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    resources = {"cpu": share, "memory": share, "gpu": {**share, "limit": 16}}
    spec = {"parentQueue": "default-parent-queue", "resources": resources}
    await clusterwide(scene, KAI_QUEUES, {"metadata": {"name": "small"}, "spec": spec})
    yield


@asynccontextmanager
async def queue_of_volcano(scene: Scene) -> AsyncIterator[None]:
    spec = {"capability": {GPU: "16"}}
    await clusterwide(scene, VOLCANO_QUEUES, {"metadata": {"name": "small"}, "spec": spec})
    yield


@asynccontextmanager
async def quota_of_koordinator(scene: Scene) -> AsyncIterator[None]:
    await scene.apply(
        make.object_manifest(KOORDINATOR_QUOTAS, "small", {"max": {GPU: "16"}, "min": {GPU: "0"}})
    )
    yield


async def clusterwide(scene: Scene, of: Resource, manifest: Manifest) -> None:
    scene.made.append((of, manifest["metadata"]["name"]))
    await scene.user.create(of, {"apiVersion": of.api_version, "kind": of.kind, **manifest})


SHARES: Final = {
    "yunikorn": Share(
        "yunikorn.apache.org/queue",
        "root.small",
        "queue 'root.small' has not enough nvidia.com/gpu",
        "SchedulingSkipped",
        queues_of_yunikorn,
    ),
    "kai": Share(
        "kai.scheduler/queue",
        "small",
        "small quota has reached the allowable limit of GPUs. Limit is 16 GPUs",
        "OverLimit",
        queue_of_kai,
    ),
    "volcano": Share(
        "scheduling.volcano.sh/queue-name",
        "small",
        "queue 'small' has no share left of nvidia.com/gpu",
        "ShareUsedUp",
        queue_of_volcano,
        "nodes are unavailable",
    ),
    "koordinator": Share(
        "quota.scheduling.koordinator.sh/name",
        "small",
        "Insufficient quotas, quotaName: small",
        "ShareUsedUp",
        quota_of_koordinator,
    ),
}


def test_a_queue_without_a_share_left_is_named(other_plane: Plane) -> None:
    """There is room on two nodes, which the queue may not use; it is free again when a gang of it goes."""
    share = SHARES[other_plane.judge.name]

    async def story(scene: Scene) -> None:
        async with share.made(scene):
            await scene.nodes(4)
            await scene.apply(in_queue(share, "first"))
            await scene.until_running("first-0", 2)
            await scene.apply(in_queue(share, "second"))
            text = await said(scene, re.escape(share.said), "second-0")
            assert scene.condition(kinds.GANGS, "second-0", "Scheduled")["reason"] == share.reason
            assert not re.search(share.unsaid, text), text
            await scene.delete(kinds.CLIQUESETS, "first")
            await scene.until_running("second-0", 2)

    other_plane.play("share", lambda act: story(act.scene))


def in_queue(share: Share, name: str) -> Manifest:
    made = train(role("worker", 2), name=name)
    made["metadata"]["labels"] = {share.label: share.queue}
    return made


async def set_queues(user: Client, text: str) -> str:
    """Put other queues into YuniKorn's configuration; what was there before."""
    key = Key("yunikorn", "yunikorn-configs")
    found = await user.get(CONFIG_MAPS, key, type=dict)
    await user.merge_patch(CONFIG_MAPS, key, {"data": {"queues.yaml": text}})
    return str(found["data"]["queues.yaml"])


def test_a_kai_queue_that_does_not_exist_is_named(other_plane: Plane) -> None:
    if other_plane.judge.name != "kai":
        pytest.skip("queues of KAI")

    async def story(scene: Scene) -> None:
        await scene.nodes(2)
        made = train(role("worker", 2))
        made["metadata"]["labels"] = {"kai.scheduler/queue": "nowhere"}
        await scene.apply(made)
        await scene.until(
            lambda: scene.condition(kinds.GANGS, "train-0", "Scheduled").get("reason") == "QueueDoesNotExist",
            "the gang says that its queue does not exist",
        )
        assert "nowhere" in scene.said("train-0")
        assert scene.bound() == 0

    other_plane.play("queue", lambda act: story(act.scene))
