"""Scaling: by hand and by a scaler, in and out, to zero and back, and while the operator is away."""

from collections.abc import Awaitable, Callable

import pytest
from tests.scenarios.stories import STAGES, Stage, gpu_role, pass_time, uid_of

from grove.api import kinds
from grove.embedded.actors.kubelet import KubeletOptions
from grove.meta import Key, Manifest, Resource
from grove.testing import make
from grove.testing.world import OPERATOR, World, WorldOptions, run_world


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


def test_a_breach_counts_placed_and_working_pods() -> None:
    """grove#277, grove#614: a breach counts placed and working pods, says when it ends the gang, and does."""

    async def story(world: World) -> None:
        worker = gpu_role("worker", 3, minAvailable=2)
        await world.apply(make.cliqueset_manifest("train", [worker], template={"terminationDelay": "60s"}))
        await until_pods(world, 3)
        before = {uid_of(pod) for pod in await world.pods()}

        async def breached() -> Manifest:
            found = await world.get(kinds.CLIQUES, "train-0-worker") or {}
            return next(
                each for each in found["status"]["conditions"] if each["type"] == "MinAvailableBreached"
            )

        async def pending() -> str:
            found = await world.get(kinds.CLIQUESETS, "train") or {}
            told = {each["type"]: each for each in found["status"]["conditions"]}
            return str(told.get("GangTerminationPending", {}).get("message", ""))

        first, second, _ = await world.pods()
        # A container that started and is not ready is a broken pod, although it is on a node.
        await crash(world, first)
        await world.settle()
        assert (await breached())["status"] == "False"
        assert await pending() == ""
        await crash(world, second)
        await world.settle()
        assert ((await breached())["status"], (await breached())["reason"]) == (
            "True",
            "InsufficientReadyPods",
        )
        assert (await pending()).startswith("replica 0 is recycled at ")
        assert {uid_of(pod) for pod in await world.pods()} == before
        await pass_time(75)
        assert not before & {uid_of(pod) for pod in await world.pods()}
        await until_pods(world, 3)
        assert (await breached())["status"] == "False"

    run_world(story)


async def crash(world: World, pod: Manifest) -> None:
    """What a kubelet says of a container that runs and answers no probe any more."""
    broken = {"metadata": {"annotations": {"embedded.grove.io/not-ready": "true"}}}
    await world.user.merge_patch(kinds.PODS, Key("default", pod["metadata"]["name"]), broken)
