"""The guard of chaos notes what it should, and nothing else."""

from datetime import timedelta

import pytest
from tests.scenarios.draining import cordon
from tests.scenarios.stories import pass_time

from grove.api import kinds, labels
from grove.kube.client import Client
from grove.kube.limiter import Limiter
from grove.meta import Key, Manifest
from grove.runtime.events import EVENTS
from grove.testing import make
from grove.testing.memory import MemoryTransport
from grove.testing.portrait import Guard, silent_updates
from grove.testing.world import NODES, OPERATOR, World, run_world

SET = Key("default", "train")


def train(**template: object) -> Manifest:
    return make.cliqueset_manifest("train", {"leader": 1, "worker": 2}, template=template)


async def guarded(world: World, manifest: Manifest) -> Guard:
    """A guard of a world in which a set runs for longer than the operator may see it late."""
    guard = Guard(world.cluster, lag=1.0)
    await world.apply(manifest)
    await world.settle()
    return guard


def as_operator(world: World) -> Client:
    return Client(MemoryTransport(world.cluster.app, OPERATOR), limiter=Limiter.off())


async def edit_leader(world: World) -> None:
    """Change the template of one of two roles."""
    changed = train()
    changed["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["env"] = [
        {"name": "LEVEL", "value": "1"}
    ]
    await world.apply(changed)


def test_a_ready_pod_that_the_operator_deletes_without_a_reason_is_noted() -> None:
    async def story(world: World) -> None:
        guard = await guarded(world, train())
        pod = (await world.pods())[0]["metadata"]["name"]
        await as_operator(world).delete(kinds.PODS, Key("default", pod))
        assert guard.broken == [f"the operator deleted pod {pod}, which was ready and up to date"]

    run_world(story)


def test_a_pod_that_somebody_else_deletes_is_not_noted() -> None:
    async def story(world: World) -> None:
        guard = await guarded(world, train())
        await world.user.delete(kinds.PODS, Key("default", (await world.pods())[0]["metadata"]["name"]))
        await world.settle()
        assert guard.broken == []

    run_world(story)


def test_pods_that_go_for_an_update_or_because_they_are_too_many_are_not_noted() -> None:
    async def story(world: World) -> None:
        guard = await guarded(world, train())
        before = {pod["metadata"]["uid"] for pod in await world.pods()}
        await edit_leader(world)
        await world.settle()
        await world.scale("train", 2)
        await world.settle()
        await world.scale("train", 1)
        await world.settle()
        after = {pod["metadata"]["uid"] for pod in await world.pods()}
        assert len(after - before) == 1
        assert guard.broken == []

    run_world(story)


@pytest.mark.parametrize(("seconds", "noted"), [(5, True), (40, False)])
def test_what_is_recycled_before_its_delay_is_noted(seconds: int, noted: bool) -> None:
    async def story(world: World) -> None:
        guard = await guarded(world, train(terminationDelay="30s"))
        for node in await world.all(NODES):
            await cordon(world, node["metadata"]["name"])
        await world.user.delete(kinds.PODS, Key("default", (await world.pods())[0]["metadata"]["name"]))
        await pass_time(seconds)
        assert guard.broken == []
        about = {"apiVersion": kinds.CLIQUESETS.api_version, "kind": "PodCliqueSet", "namespace": "default"}
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "told", "namespace": "default"},
            "involvedObject": {**about, "name": "train"},
            "reason": "PodCliqueSetReplicaDeleteSuccessful",
            "message": "replica 0 is recycled",
        }
        await as_operator(world).create(EVENTS, event)
        expected = ["recycled before its delay was over: replica 0 is recycled"] if noted else []
        assert guard.broken == expected

    run_world(story)


def test_a_set_that_is_not_up_to_date_and_does_not_say_so_is_found() -> None:
    async def story(world: World) -> None:
        await guarded(world, train())
        assert await silent_updates(world) == []
        await world.kill_operator()
        clique = (await world.all(kinds.CLIQUES))[0]["metadata"]["name"]
        marks = {"metadata": {"labels": {labels.POD_TEMPLATE_HASH: "another"}}}
        await world.user.merge_patch(kinds.CLIQUES, Key("default", clique), marks)
        assert len(await silent_updates(world)) == 1
        await world.user.merge_patch(
            kinds.CLIQUESETS, SET, {"spec": {"updateStrategy": {"type": "OnDelete"}}}
        )
        assert await silent_updates(world) == []

    run_world(story)


def test_a_pod_whose_template_is_still_that_of_its_set_is_noted_whatever_its_clique_says() -> None:
    async def story(world: World) -> None:
        guard = await guarded(world, train())
        await world.kill_operator()
        pod = (await world.pods())[0]["metadata"]
        marks = {"metadata": {"labels": {labels.POD_TEMPLATE_HASH: "another"}}}
        clique = Key("default", pod["labels"][labels.POD_CLIQUE])
        await as_operator(world).merge_patch(kinds.CLIQUES, clique, marks)
        await as_operator(world).delete(kinds.PODS, Key("default", pod["name"]))
        assert guard.broken == [f"the operator deleted pod {pod['name']}, which was ready and up to date"]

    run_world(story)


def test_a_pod_that_runs_and_is_not_ready_is_no_reason_to_delete_it() -> None:
    async def story(world: World) -> None:
        guard = await guarded(world, train())
        pod = Key("default", (await world.pods())[0]["metadata"]["name"])
        broken = {"metadata": {"annotations": {"embedded.grove.io/not-ready": "true"}}}
        await world.user.merge_patch(kinds.PODS, pod, broken)
        await world.settle()
        assert guard.broken == []
        await as_operator(world).delete(kinds.PODS, pod)
        assert guard.broken == [f"the operator recycled pod {pod.name} before the delay of its set was over"]

    run_world(story)


# What is recycled -----------------------------------------------------------------------------------


@pytest.mark.parametrize("sabotaged", [False, True])
def test_pods_that_are_recycled_before_their_delay_are_noted(
    monkeypatch: pytest.MonkeyPatch, sabotaged: bool
) -> None:
    async def story(world: World) -> None:
        guard = await guarded(world, train(terminationDelay="30s"))
        before = {pod["metadata"]["uid"] for pod in await world.pods()}
        if sabotaged:
            monkeypatch.setattr(
                "grove.controllers.recycling.termination_delay", lambda _: timedelta(seconds=9)
            )
        pod = Key("default", (await world.pods())[0]["metadata"]["name"])
        broken = {"metadata": {"annotations": {"embedded.grove.io/not-ready": "true"}}}
        await world.user.merge_patch(kinds.PODS, pod, broken)
        await pass_time(45)
        assert not before & {pod["metadata"]["uid"] for pod in await world.pods()}
        early = [each for each in guard.broken if each.startswith("the operator recycled pod")]
        told = [each for each in guard.broken if each.startswith("recycled before its delay was over")]
        assert (len(early), len(told), len(guard.broken)) == ((3, 1, 4) if sabotaged else (0, 0, 0))

    run_world(story)


def test_a_breach_that_was_over_long_ago_is_no_reason_to_recycle() -> None:
    async def story(world: World) -> None:
        guard = await guarded(world, train(terminationDelay="30s"))
        await break_and_heal(world, seconds=20)
        await pass_time(60)
        pod = (await world.pods())[0]["metadata"]["name"]
        await as_operator(world).delete(kinds.PODS, Key("default", pod))
        assert guard.broken == [f"the operator deleted pod {pod}, which was ready and up to date"]

    run_world(story)


async def break_and_heal(world: World, *, seconds: float) -> None:
    """A pod does not serve for some time."""
    pod = Key("default", (await world.pods())[0]["metadata"]["name"])
    for told in ("true", None):
        patch: Manifest = {"metadata": {"annotations": {"embedded.grove.io/not-ready": told}}}
        await world.user.merge_patch(kinds.PODS, pod, patch)
        await pass_time(seconds)
