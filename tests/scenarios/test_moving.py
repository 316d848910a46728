"""A set that changes its scheduler: gangs that run stay and say so, gangs that wait move, nothing is left over."""

from dataclasses import replace

import pytest
from tests.scenarios.stories import (
    PODGROUPS_136,
    STAGES,
    VOLCANO_PODGROUPS,
    pass_time,
    reasons_about,
    until_running,
)

from grove.api import kinds, labels
from grove.backends.kai.backend import PODGROUPS as KAI_PODGROUPS
from grove.meta import Key, Manifest
from grove.testing import make
from grove.testing.world import World, WorldOptions, run_world

KAI = WorldOptions(schedulers=("kai",))
SMALL = WorldOptions(schedulers=("kai",), nodes=1, gpus=1)
GPU = {"resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}}


def training(workers: int = 2, replicas: int = 1) -> Manifest:
    containers = [{"name": "main", "image": "registry.example/train:1", **GPU}]
    role = make.template("worker", workers, pod={"containers": containers})
    marks = {labels.SCHEDULER_BACKEND: "kai"}
    return make.cliqueset_manifest("train", [role], replicas=replicas, annotations=marks)


async def move(world: World, to: str) -> None:
    patch: Manifest = {"metadata": {"annotations": {labels.SCHEDULER_BACKEND: to}}}
    await world.user.merge_patch(kinds.CLIQUESETS, Key("default", "train"), patch)


async def backend(world: World, gang: str = "train-0") -> str:
    found = await world.gang(gang)
    assert found is not None
    marks = found["metadata"]["labels"]
    assert marks[labels.SCHEDULER_BACKEND] == marks[labels.SCHEDULER_NAME]
    return str(marks[labels.SCHEDULER_BACKEND])


async def schedulers(world: World) -> set[str]:
    return {pod["spec"]["schedulerName"] for pod in await world.pods()}


async def until_moved(world: World, to: str, gang: str = "train-0") -> None:
    async def moved() -> bool:
        return await backend(world, gang) == to

    await world.until(moved, f"{gang} is {to}'s")


def test_a_gang_that_runs_stays_with_its_scheduler_and_says_what_will_happen() -> None:
    async def story(world: World) -> None:
        await world.apply(training())
        await until_running(world, "train-0")
        before = {pod["metadata"]["uid"] for pod in await world.pods()}
        await move(world, "default")
        await world.settle()
        assert await backend(world) == "kai"
        assert {pod["metadata"]["uid"] for pod in await world.pods()} == before
        assert await world.phase("train-0") == "Running"
        told = await world.condition("train-0", "BackendChangePending")
        assert (told["status"], told["reason"]) == ("True", "PodsStillPlaced")
        assert told["message"].startswith("the set asks for default, but kai placed 2 of the gang's pods")
        assert "kubectl delete pods -n default -l grove.io/podgang=train-0" in told["message"]
        assert "BackendChangePending" in await reasons_about(world, "PodGang", "train-0")
        assert len(await world.all(KAI_PODGROUPS)) == 1
        assert await world.all(PODGROUPS_136) == []

    run_world(story, KAI)


def test_a_pod_that_is_lost_meanwhile_is_replaced_by_the_same_scheduler() -> None:
    async def story(world: World) -> None:
        await world.apply(training())
        await until_running(world, "train-0")
        await move(world, "default")
        await world.settle()
        lost, *_ = await world.pods()
        await world.user.delete(kinds.PODS, Key("default", lost["metadata"]["name"]))
        await world.settle()
        pods = await world.pods()
        assert len(pods) == 2
        assert all(pod["spec"].get("nodeName") for pod in pods)
        assert await schedulers(world) == {"kai-scheduler"}

    run_world(story, KAI)


def test_it_moves_once_its_pods_are_gone_and_nothing_of_the_first_scheduler_is_left() -> None:
    async def story(world: World) -> None:
        await world.apply(training())
        await until_running(world, "train-0")
        await move(world, "default")
        await world.settle()
        selector = f"{labels.POD_GANG}=train-0"
        await world.user.delete_collection(kinds.PODS, namespace="default", labels=selector)
        await until_moved(world, "default")
        await world.settle()
        await until_running(world, "train-0")
        assert await schedulers(world) == {"default-scheduler"}
        assert await world.all(KAI_PODGROUPS) == []
        assert len(await world.all(PODGROUPS_136)) == 1
        assert await world.condition("train-0", "BackendChangePending") == {}
        assert "BackendChanged" in await reasons_about(world, "PodGang", "train-0")

    run_world(story, KAI)


def test_a_gang_that_waits_moves_at_once_and_its_pods_are_recreated() -> None:
    async def story(world: World) -> None:
        await world.apply(training(workers=2))
        await pass_time(20)
        old = {pod["metadata"]["name"] for pod in await world.pods()}
        assert len(old) == 2
        await move(world, "default")
        await until_moved(world, "default")
        await world.settle()
        pods = await world.pods()
        assert not old & {pod["metadata"]["name"] for pod in pods}
        assert await schedulers(world) == {"default-scheduler"}
        marks = {
            key for pod in pods for kind in ("labels", "annotations") for key in pod["metadata"].get(kind, ())
        }
        assert [key for key in marks if "kai" in key or key == "pod-group-name"] == []
        assert await world.all(KAI_PODGROUPS) == []
        assert (await world.condition("train-0", "Scheduled"))["reason"] == "Unschedulable"
        await world.add_node("more", gpus=1)
        await until_running(world, "train-0")

    run_world(story, SMALL)


@pytest.mark.parametrize(("first", "second"), [("default", "volcano"), ("volcano", "default")])
def test_nothing_is_left_of_a_scheduler_whose_objects_have_the_names_of_the_next_ones(
    first: str, second: str
) -> None:
    async def story(world: World) -> None:
        objects = {"default": PODGROUPS_136, "volcano": VOLCANO_PODGROUPS}
        pod: Manifest = {"containers": [{"name": "main", "image": "registry.example/train:1", **GPU}]}
        roles = [make.template("leader", pod=pod), make.template("worker", pod=pod)]
        marks = {labels.SCHEDULER_BACKEND: first}
        await world.apply(make.cliqueset_manifest("train", roles, annotations=marks))
        await pass_time(20)
        (before,) = await world.all(objects[first])
        await move(world, second)
        await until_moved(world, second)
        await world.settle()
        assert await world.all(objects[first]) == []
        (after,) = await world.all(objects[second])
        assert after["metadata"]["name"] == before["metadata"]["name"]

    run_world(story, replace(STAGES["volcano"].options, nodes=1, gpus=1))


def test_changing_ones_mind_leaves_everything_as_it_was() -> None:
    async def story(world: World) -> None:
        await world.apply(training())
        await until_running(world, "train-0")
        before = {pod["metadata"]["uid"] for pod in await world.pods()}
        await move(world, "default")
        await world.settle()
        await move(world, "kai")
        await world.settle()
        assert await world.condition("train-0", "BackendChangePending") == {}
        assert {pod["metadata"]["uid"] for pod in await world.pods()} == before

    run_world(story, KAI)


def test_new_replicas_of_a_set_that_moves_go_to_the_new_scheduler() -> None:
    async def story(world: World) -> None:
        await world.apply(training())
        await until_running(world, "train-0")
        await move(world, "default")
        await world.scale("train", 2)
        await until_running(world, "train-1")
        assert await backend(world, "train-0") == "kai"
        assert await backend(world, "train-1") == "default"

    run_world(story, KAI)


def test_an_operator_that_is_restarted_in_between_carries_on() -> None:
    async def story(world: World) -> None:
        await world.apply(training())
        await until_running(world, "train-0")
        await move(world, "default")
        await world.kill_operator()
        selector = f"{labels.POD_GANG}=train-0"
        await world.user.delete_collection(kinds.PODS, namespace="default", labels=selector)
        await world.start_operator()
        await until_moved(world, "default")
        await world.settle()
        await until_running(world, "train-0")
        assert await schedulers(world) == {"default-scheduler"}
        assert await world.all(KAI_PODGROUPS) == []

    run_world(story, KAI)
