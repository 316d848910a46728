"""From a PodCliqueSet to running pods on the embedded cluster: a gang runs whole or waits and says why."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import yaml
from grove.api import kinds
from grove.api.config import load
from grove.meta import Key, Manifest
from grove.testing import make
from grove.testing.world import CRDS, World, WorldOptions, run_world

from grove_coscheduling.backend import PODGROUPS, SCHEDULER
from scheduler import Coscheduler

CRD = Path(__file__).parents[1] / "crds" / "podgroups.yaml"
CONFIGURATION = """
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
scheduler:
  profiles: [{name: coscheduling}]
"""


def training(workers: int) -> Manifest:
    """A leader, three workers that it cannot do without, and as many more as asked; one GPU each."""
    gpu = {"resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}}
    containers = [{"name": "main", "image": "registry.example/train:1", **gpu}]
    leader = make.template("leader", 1, pod={"containers": containers, "schedulerName": SCHEDULER})
    worker = make.template("worker", workers, pod={"containers": containers, "schedulerName": SCHEDULER})
    worker["spec"]["minAvailable"] = 3
    return make.cliqueset_manifest("train", [leader, worker])


def run(story: Callable[[World], Awaitable[None]], *, gpus: int) -> None:
    """A cluster of one node with the plugin and its scheduler, and an operator that found this package."""

    async def with_scheduler(world: World) -> None:
        await world.user.create(CRDS, yaml.safe_load(CRD.read_text()))
        await world.start_operator()
        scheduling = asyncio.create_task(Coscheduler(world.user).run())
        try:
            await story(world)
        finally:
            scheduling.cancel()

    options = WorldOptions(nodes=1, gpus=gpus, configuration=load(CONFIGURATION))
    run_world(with_scheduler, options, operator=False)


def bound(pods: list[Manifest]) -> int:
    return sum(1 for pod in pods if pod["spec"].get("nodeName"))


def test_a_gang_that_fits_runs_and_its_spare_pods_follow() -> None:
    async def story(world: World) -> None:
        await world.apply(training(workers=5))

        async def running() -> bool:
            return await world.phase("train-0") == "Running" and bound(await world.pods()) == 6

        await world.until(running, "all six pods run")
        (podgroup,) = await world.all(PODGROUPS)
        assert podgroup["spec"]["minMember"] == 4
        assert {pod["spec"]["schedulerName"] for pod in await world.pods()} == {SCHEDULER}

    run(story, gpus=8)


def test_spare_pods_wait_until_the_others_are_placed_and_do_not_take_their_room() -> None:
    async def story(world: World) -> None:
        await world.apply(training(workers=5))

        async def running() -> bool:
            return await world.phase("train-0") == "Running"

        await world.until(running, "the gang runs")
        placed = [pod["spec"]["hostname"] for pod in await world.pods() if pod["spec"].get("nodeName")]
        assert sorted(placed) == [
            "train-0-leader-0",
            "train-0-worker-0",
            "train-0-worker-1",
            "train-0-worker-2",
        ]

    run(story, gpus=4)


def test_a_gang_that_is_one_short_has_no_pod_placed_says_why_and_runs_once_there_is_room() -> None:
    async def story(world: World) -> None:
        await world.apply(training(workers=3))

        async def refused() -> bool:
            return (await world.condition("train-0", "Scheduled")).get("reason") == "Unschedulable"

        await world.until(refused, "the gang says why it waits")
        said = (await world.condition("train-0", "Scheduled"))["message"]
        assert "0 of 4 pods placed; optimistic rejection in PostFilter: 3 of 4 pods fit" in said
        assert bound(await world.pods()) == 0
        await world.add_node("more", gpus=1)

        async def running() -> bool:
            return await world.phase("train-0") == "Running"

        await world.until(running, "the gang runs")

    run(story, gpus=3)


def test_deleting_the_set_leaves_nothing() -> None:
    async def story(world: World) -> None:
        await world.apply(training(workers=3))

        async def running() -> bool:
            return await world.phase("train-0") == "Running"

        await world.until(running, "the gang runs")
        await world.user.delete(kinds.CLIQUESETS, Key("default", "train"))

        async def gone() -> bool:
            return not await world.pods() and not await world.all(PODGROUPS)

        await world.until(gone, "pods and PodGroup are gone")

    run(story, gpus=8)
