"""Scaling: by hand and by a scaler, in and out, to zero and back, and while the operator is away."""

from collections.abc import Awaitable, Callable

import pytest
from tests.scenarios.stories import STAGES, Stage, condition_of, gpu_role, pass_time, set_condition, uid_of

from grove.api import kinds
from grove.embedded.actors.kubelet import KubeletOptions
from grove.meta import Key, Manifest, Resource
from grove.testing import make
from grove.testing.world import NODES, OPERATOR, World, WorldOptions, run_world


def grouped(replicas: int = 2) -> Manifest:
    """A role alone, and one in a scaling group of which one replica is needed."""
    group = make.scaling_group("sg", ["worker"], replicas=replicas, minAvailable=1)
    return make.cliqueset_manifest("train", {"leader": 1, "worker": 2}, groups=[group])


async def until_pods(world: World, number: int) -> None:
    async def running() -> bool:
        pods = await world.pods()
        return [pod["status"].get("phase") for pod in pods] == ["Running"] * number

    # What goes still runs for a moment.
    await world.settle()
    await world.until(running, f"{number} pods run")


TARGETS = {
    "clique": (kinds.CLIQUES, "train-0-leader", 3, 7),
    "scaling group": (kinds.SCALING_GROUPS, "train-0-sg", 3, 7),
    "set": (kinds.CLIQUESETS, "train", 2, 10),
}


@pytest.mark.parametrize(("of", "name", "replicas", "pods"), TARGETS.values(), ids=TARGETS)
def test_scale_has_a_selector_and_is_followed(of: Resource, name: str, replicas: int, pods: int) -> None:
    """grove#744, grove#748: whatever can be scaled has a selector, and follows what a scaler writes."""

    async def story(world: World) -> None:
        await world.apply(grouped())
        await until_pods(world, 5)
        scale: Manifest = await world.user.get(of, Key("default", name), type=dict, subresource="scale")
        selected = await world.all(kinds.PODS, scale["status"]["selector"])
        mine = [pod for pod in await world.pods() if pod["spec"]["hostname"].startswith(f"{name}-")]
        assert {uid_of(pod) for pod in selected} == {uid_of(pod) for pod in mine} != set()
        await world.scale(name, replicas, of=of)
        await until_pods(world, pods)
        again: Manifest = await world.user.get(of, Key("default", name), type=dict, subresource="scale")
        assert again["status"]["replicas"] == replicas
        assert again["status"]["selector"] == scale["status"]["selector"]

    run_world(story)


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
@pytest.mark.parametrize(
    ("of", "name", "left"),
    [
        (kinds.CLIQUES, "train-0-leader", 4),
        (kinds.SCALING_GROUPS, "train-0-sg", 1),
        (kinds.CLIQUESETS, "train", 0),
    ],
    ids=["clique", "scaling group", "set"],
)
def test_to_zero_and_back(stage: Stage, of: Resource, name: str, left: int) -> None:
    """grove#676, grove#677, grove#809: cliques, groups and sets are scaled to zero and back."""

    async def story(world: World) -> None:
        manifest = grouped()
        manifest["metadata"]["annotations"] = dict(stage.annotations)
        await world.apply(manifest)
        await until_pods(world, 5)
        before = {uid_of(pod) for pod in await world.pods()}
        replicas = (await world.get(of, name) or {})["spec"]["replicas"]
        await world.scale(name, 0, of=of)
        await until_pods(world, left)
        # Nobody who stays is disturbed, however long that lasts.
        await pass_time(600)
        kept = {uid_of(pod) for pod in await world.pods()}
        assert len(kept) == left
        assert kept <= before
        await world.scale(name, replicas, of=of)
        await until_pods(world, 5)
        assert kept <= {uid_of(pod) for pod in await world.pods()}

    run_world(story, stage.options)


def slow() -> WorldOptions:
    return WorldOptions(kubelet=KubeletOptions(shutdown_seconds=20))


@pytest.mark.parametrize(("replicas", "more"), [(3, 0), (2, 1), (1, 2)])
def test_scaling_in_while_pods_are_going(replicas: int, more: int) -> None:
    """grove PR#759: scaling in does not count pods that are going already, and takes none of them twice."""

    async def story(world: World) -> None:
        worker = make.template("worker", 4)
        worker["spec"]["minAvailable"] = 1
        await world.apply(make.cliqueset_manifest("train", [worker]))
        await until_pods(world, 4)
        before = {uid_of(pod): pod for pod in await world.pods()}
        lost = next(iter(before.values()))
        await world.user.delete(kinds.PODS, Key("default", lost["metadata"]["name"]))
        await world.scale("train-0-worker", replicas, of=kinds.CLIQUES)
        await pass_time(10)
        going = {uid_of(pod) for pod in await world.pods() if "deletionTimestamp" in pod["metadata"]}
        assert uid_of(lost) in going
        assert len(going) == 1 + more
        await until_pods(world, replicas)
        assert {uid_of(pod) for pod in await world.pods()} == set(before) - going
        deletions = world.cluster.requests.count(verb="delete", resource="pods", user=OPERATOR.name)
        assert deletions == more

    run_world(story, slow())


async def by_restart(world: World) -> None:
    await world.kill_operator()
    await pass_time(30)
    await world.start_operator()


async def by_crash_and_edit(world: World) -> None:
    await world.kill_operator()
    await world.user.merge_patch(
        kinds.CLIQUESETS, Key("default", "train"), {"metadata": {"annotations": {"a": "b"}}}
    )
    await world.start_operator()


@pytest.mark.parametrize("restarted", [by_restart, by_crash_and_edit], ids=["restart", "edit meanwhile"])
def test_what_was_scaled_by_hand_survives_a_restart(restarted: Callable[[World], Awaitable[None]]) -> None:
    """grove PR#802: gangs of replicas that were scaled by hand survive a restart of the operator."""

    async def story(world: World) -> None:
        await world.apply(grouped(1))
        await until_pods(world, 3)
        await world.scale("train-0-sg", 4, of=kinds.SCALING_GROUPS)
        await world.scale("train-0-leader", 2, of=kinds.CLIQUES)
        await until_pods(world, 10)
        before = [{uid_of(each) for each in await world.all(of)} for of in (kinds.GANGS, kinds.PODS)]
        assert [len(each) for each in before] == [4, 10]
        await restarted(world)
        await world.settle()
        after = [{uid_of(each) for each in await world.all(of)} for of in (kinds.GANGS, kinds.PODS)]
        assert after == before
        # And what is lost afterwards comes back into its gang.
        lost = next(pod for pod in await world.pods() if "sg-3" in pod["spec"]["hostname"])
        await world.user.delete(kinds.PODS, Key("default", lost["metadata"]["name"]))
        await until_pods(world, 10)
        gang = await world.gang("train-0-sg-2") or {}
        listed = {ref["name"] for group in gang["spec"]["podgroups"] for ref in group["podReferences"]}
        replaced = {
            pod["metadata"]["name"]
            for pod in await world.pods()
            if pod["spec"]["hostname"].startswith("train-0-sg-3-")
        }
        assert replaced <= listed

    run_world(story)


async def crash(world: World, pod: Manifest) -> None:
    """What a kubelet says of a container that runs and answers no probe any more."""
    broken = {"metadata": {"annotations": {"embedded.grove.io/not-ready": "true"}}}
    await world.user.merge_patch(kinds.PODS, Key("default", pod["metadata"]["name"]), broken)


async def lose(world: World, pod: Manifest) -> None:
    """A pod is deleted, and its node takes no other."""
    await cordon(world, pod["spec"]["nodeName"], True)
    await world.user.delete(kinds.PODS, Key("default", pod["metadata"]["name"]))


async def cordon(world: World, node: str, unschedulable: bool | None) -> None:
    await world.user.merge_patch(NODES, Key("", node), {"spec": {"unschedulable": unschedulable}})


BREACHES = {
    "a container that started and is not ready is a broken pod, although it is on a node": (
        crash,
        ("True", "InsufficientReadyPods", "1 of 3 placed pods ready or starting, at least 2 are needed"),
    ),
    "a pod that waits for a node is none that works": (
        lose,
        ("True", "ScheduledReplicasBelowMinAvailable", "1 pod is placed, at least 2 are needed"),
    ),
}


@pytest.mark.parametrize(("harm", "told"), BREACHES.values(), ids=BREACHES)
def test_a_breach_counts_placed_and_working_pods(
    harm: Callable[[World, Manifest], Awaitable[None]], told: tuple[str, str, str]
) -> None:
    """grove#277, grove#614: a breach counts placed and working pods, says when it ends the gang, and does."""

    async def breached(world: World) -> tuple[str, str, str]:
        clique = await world.get(kinds.CLIQUES, "train-0-worker")
        found = condition_of(clique, "MinAvailableBreached")
        return found["status"], found["reason"], found["message"]

    async def pending(world: World) -> str:
        return str((await set_condition(world, "train", "GangTerminationPending")).get("message", ""))

    async def story(world: World) -> None:
        worker = gpu_role("worker", 3, minAvailable=2)
        await world.apply(make.cliqueset_manifest("train", [worker], template={"terminationDelay": "60s"}))
        await until_pods(world, 3)
        first, second, third = await world.pods()
        # The fourth node has room for nobody.
        (spare,) = {f"node-{index}" for index in range(4)} - {
            pod["spec"]["nodeName"] for pod in (first, second, third)
        }
        await cordon(world, spare, True)
        await harm(world, first)
        await world.settle()
        assert (await breached(world))[0] == "False"
        assert await pending(world) == ""
        await harm(world, second)
        await world.settle()
        assert await breached(world) == told
        assert (await pending(world)).startswith("replica 0 is recycled at ")
        left = {uid_of(pod) for pod in await world.pods()}
        assert (len(left), uid_of(third) in left) == (3, True)
        await pass_time(45)
        assert {uid_of(pod) for pod in await world.pods()} == left
        await pass_time(30)
        assert not left & {uid_of(pod) for pod in await world.pods()}
        for index in range(4):
            await cordon(world, f"node-{index}", None)
        await until_pods(world, 3)
        assert (await breached(world))[0] == "False"

    run_world(story)
