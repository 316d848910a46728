"""Scaling groups through the API: to zero and back, deleted and recreated, and what they say of themselves."""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import replace
from itertools import cycle
from typing import Final

import pytest
from tests.scenarios.group_truth import untruths
from tests.scenarios.judging import is_ready, owner_uid
from tests.scenarios.stories import (
    STAGES,
    Stage,
    key,
    pass_time,
    scheduler_objects,
    table,
    uid_of,
    until_running,
)
from tests.scenarios.workloads import in_order, wl2

from grove.api import kinds, labels
from grove.meta import Key, Manifest, Resource
from grove.testing import make
from grove.testing.portrait import Guard
from grove.testing.world import NODES, World, run_world

on_every_stage = pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)

GROUP: Final = "wl-0-dec"


def workload(stage: Stage, *, replicas: int = 1) -> Manifest:
    """A router of two pods, a group that the base gang needs once, and one that it needs twice."""
    work = make.template("work", 3)
    work["spec"]["minAvailable"] = 2
    return stage.cliqueset(
        "wl",
        cliques=[make.template("router", 2), make.template("lead"), work, make.template("fill")],
        groups=[
            make.scaling_group("dec", ["lead", "work"], replicas=2, minAvailable=1),
            make.scaling_group("pre", ["fill"], replicas=2, minAvailable=2),
        ],
        replicas=replicas,
    )


async def at_rest(world: World, stage: Stage, *, allowed: frozenset[str] = frozenset()) -> None:
    """Let everything come to rest, and fail unless all of it is right and all counts are true."""
    await world.settle(quiet=6, seconds=600)
    wrong = await untruths(world, stage, "wl", allowed=allowed)
    assert not wrong, "\n".join([*wrong, await world.describe()])


# Zero and back ------------------------------------------------------------------------------------


@on_every_stage
def test_a_group_goes_to_zero_and_back_and_counts_truly(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(workload(stage))
        await at_rest(world, stage)
        kept = {uid_of(pod) for pod in await world.pods() if "router" in pod["spec"]["hostname"]}
        for replicas in (0, 3, 1, 0, 2):
            await world.scale(GROUP, replicas, kinds.SCALING_GROUPS)
            await at_rest(world, stage)
        assert kept <= {uid_of(pod) for pod in await world.pods()}, "pods of the router were replaced"

    run_world(story, stage.options)


@on_every_stage
def test_everything_goes_to_zero_from_the_inside_out_and_comes_back_from_the_outside_in(stage: Stage) -> None:
    async def story(world: World) -> None:
        steps: list[tuple[str, Resource, int]] = [
            (f"{GROUP}-0-work", kinds.CLIQUES, 3),
            (GROUP, kinds.SCALING_GROUPS, 2),
            ("wl-0-pre", kinds.SCALING_GROUPS, 2),
            ("wl-0-router", kinds.CLIQUES, 2),
        ]
        await world.apply(workload(stage))
        await at_rest(world, stage)
        for name, resource, _ in steps:
            await world.scale(name, 0, resource)
            await at_rest(world, stage)
        assert await world.pods() == []
        assert (await world.condition("wl-0", "Scheduled"))["reason"] == "ScaledToZero"
        await world.scale("wl", 0)
        await at_rest(world, stage)
        await world.scale("wl", 1)
        await at_rest(world, stage)
        for name, resource, replicas in reversed(steps):
            await world.scale(name, replicas, resource)
            await at_rest(world, stage)

    run_world(story, stage.options)


def scales(rng: random.Random) -> tuple[str, Resource, int]:
    """Some scale of a set, a group or a clique; what does not exist now cannot be scaled."""
    replica = rng.randrange(2)
    return rng.choice(
        [
            ("wl", kinds.CLIQUESETS, rng.randrange(3)),
            (f"wl-{replica}-dec", kinds.SCALING_GROUPS, rng.randrange(4)),
            (f"wl-{replica}-pre", kinds.SCALING_GROUPS, rng.choice([0, 2, 3])),
            (f"wl-{replica}-router", kinds.CLIQUES, rng.choice([0, 2, 4])),
            (f"wl-{replica}-dec-{rng.randrange(3)}-work", kinds.CLIQUES, rng.choice([0, 2, 3])),
        ]
    )


@pytest.mark.parametrize(
    ("seed", "name"),
    [
        pytest.param(seed, name, id=f"{name}, {seed}")
        for seed, name in zip(range(32), cycle(STAGES), strict=False)
    ],
)
def test_any_scales_in_any_order_at_any_speed_end_in_what_was_asked_for(seed: int, name: str) -> None:
    stage, rng = STAGES[name], random.Random(seed)

    async def story(world: World) -> None:
        guard = Guard(world.cluster)
        manifest = workload(stage, replicas=2)
        await world.apply(in_order(manifest) if seed % 2 else manifest)
        for _ in range(4):
            for _ in range(rng.randint(1, 6)):
                target, resource, replicas = scales(rng)
                if await world.get(resource, target) is not None:
                    await world.scale(target, replicas, resource)
                await asyncio.sleep(rng.choice([0.0, 0.0, 0.02, 0.3, 2.0]))
            await at_rest(world, stage)
            for pod in rng.sample(pods := await world.pods(), min(2, len(pods))):
                await world.user.delete(kinds.PODS, key(pod["metadata"]["name"]))
            await at_rest(world, stage)
        assert guard.broken == []

    run_world(story, replace(stage.options, seed=seed))


@on_every_stage
def test_a_pod_that_is_lost_while_a_group_is_at_zero_is_placed_again(stage: Stage) -> None:
    """On 1.36 the PodGroup of a placed gang keeps its minimum, which the gang cannot reach without the group."""

    async def story(world: World) -> None:
        await world.apply(workload(stage))
        await at_rest(world, stage)
        await world.scale(GROUP, 0, kinds.SCALING_GROUPS)
        await at_rest(world, stage)
        stays, lost = sorted(
            (pod for pod in await world.pods() if "router" in pod["spec"]["hostname"]),
            key=lambda pod: str(pod["spec"]["hostname"]),
            reverse=True,
        )
        await world.user.delete(kinds.PODS, key(lost["metadata"]["name"]))
        await at_rest(world, stage)
        await world.scale(GROUP, 2, kinds.SCALING_GROUPS)
        await at_rest(world, stage)
        await world.user.delete(kinds.PODS, key(await pod_at(world, "wl-0-dec-0-work-0")))
        await at_rest(world, stage)
        assert uid_of(stays) in {uid_of(pod) for pod in await world.pods()}, "a pod was replaced for nothing"

    run_world(story, stage.options)


@on_every_stage
def test_a_pod_that_waits_for_a_node_when_a_group_goes_to_zero_is_placed_without_it(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(workload(stage))
        await at_rest(world, stage)
        nodes = [node["metadata"]["name"] for node in await world.all(NODES)]
        for node in nodes:
            await world.user.merge_patch(NODES, Key("", node), {"spec": {"unschedulable": True}})
        await world.user.delete(kinds.PODS, key(await pod_at(world, "wl-0-router-0")))
        await pass_time(10)
        await world.scale(GROUP, 0, kinds.SCALING_GROUPS)
        await pass_time(10)
        for node in nodes:
            await world.user.merge_patch(NODES, Key("", node), {"spec": {"unschedulable": None}})
        await at_rest(world, stage)

    run_world(story, stage.options)


@on_every_stage
def test_a_pod_that_a_scaled_gang_loses_together_with_its_base_gang_is_placed_again(stage: Stage) -> None:
    """It is above the minimum, so that the scaled gang goes on running: its gate opens with the base gang's."""

    async def story(world: World) -> None:
        await world.apply(workload(stage))
        await at_rest(world, stage)
        nodes = [node["metadata"]["name"] for node in await world.all(NODES)]
        await cordon(world, nodes, closed=True)
        for host in ("wl-0-router-0", "wl-0-dec-1-work-2"):
            await world.user.delete(kinds.PODS, key(await pod_at(world, host)))
        await pass_time(10)
        assert await world.phase(f"{GROUP}-0") == "Running"
        await cordon(world, nodes, closed=False)
        await at_rest(world, stage)

    run_world(story, stage.options)


async def pod_at(world: World, hostname: str) -> str:
    """The name of the pod that has this hostname."""
    return next(
        str(pod["metadata"]["name"]) for pod in await world.pods() if pod["spec"]["hostname"] == hostname
    )


def test_pods_that_wait_for_a_role_do_not_wait_for_it_once_it_is_scaled_to_zero() -> None:
    """The router never becomes ready; the others start when it is scaled away, and at no time before."""
    stage = STAGES["1.36"]
    manifest = in_order(workload(stage))
    manifest["spec"]["template"]["cliques"][0]["annotations"] = {"embedded.grove.io/not-ready": "true"}

    async def story(world: World) -> None:
        await world.apply(manifest)
        await pass_time(60)
        ready = {pod["spec"]["hostname"] for pod in await world.pods() if is_ready(pod)}
        # Only the scaled gang does not wait for the router.
        assert ready == {"wl-0-dec-1-lead-0", *(f"wl-0-dec-1-work-{index}" for index in range(3))}
        await world.scale("wl-0-router", 0, kinds.CLIQUES)
        await at_rest(world, stage)
        assert len(await world.pods()) == 10

    run_world(story)


# What a user reads --------------------------------------------------------------------------------


def test_the_scale_subresource_of_a_group_has_a_selector_that_finds_exactly_its_pods() -> None:
    stage = STAGES["1.36"]

    async def story(world: World) -> None:
        await world.apply(workload(stage, replicas=2))
        await at_rest(world, stage)
        for replicas in (2, 0, 3):
            await world.scale(GROUP, replicas, kinds.SCALING_GROUPS)
            await at_rest(world, stage)
            scale = await world.user.get(kinds.SCALING_GROUPS, key(GROUP), type=dict, subresource="scale")
            found = await world.all(kinds.PODS, labels=scale["status"]["selector"])
            hosts = {pod["spec"]["hostname"] for pod in found}
            roles = ("lead-0", "work-0", "work-1", "work-2")
            assert hosts == {f"{GROUP}-{number}-{role}" for number in range(replicas) for role in roles}
            assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (replicas, replicas)

    run_world(story)


def test_kubectl_prints_the_counts_of_a_group() -> None:
    stage = STAGES["1.36"]

    async def story(world: World) -> None:
        await world.apply(workload(stage))
        await at_rest(world, stage)
        await world.scale(GROUP, 3, kinds.SCALING_GROUPS)
        await at_rest(world, stage)
        rows = {row["Name"]: row for row in await table(world, kinds.SCALING_GROUPS)}
        columns = ("MinAvail", "Replicas", "Available", "Scheduled", "Updated", "MinBreached")
        assert [rows[GROUP][each] for each in columns] == [1, 3, 3, 3, 3, "False"]
        assert [rows["wl-0-pre"][each] for each in columns] == [2, 2, 2, 2, 2, "False"]

    run_world(story)


def test_a_group_counts_only_replicas_all_of_whose_cliques_are_placed() -> None:
    """There is room for the base gang and for half of a further replica: that one is not counted anywhere."""
    stage = STAGES["kai"]

    async def story(world: World) -> None:
        await world.apply(wl2(stage, "wl"))
        await world.settle(quiet=10)
        status = await group_status(world, "wl-0-sg-x")
        assert [status[each] for each in COUNTS] == [2, 1, 1, 1]
        for number in range(4):
            await world.add_node(f"further-{number}")
        await world.settle(quiet=10)
        status = await group_status(world, "wl-0-sg-x")
        assert [status[each] for each in COUNTS] == [2, 2, 2, 2]

    run_world(story, replace(stage.options, nodes=4))


COUNTS: Final = ("replicas", "scheduledReplicas", "availableReplicas", "updatedReplicas")


async def group_status(world: World, name: str) -> Manifest:
    group = await world.get(kinds.SCALING_GROUPS, name)
    assert group is not None
    status: Manifest = group["status"]
    return status


# Deleted, orphaned, relabelled --------------------------------------------------------------------

#: Parts of a set, by what a user calls them.
PARTS: Final[Mapping[str, tuple[Resource, str]]] = {
    "group": (kinds.SCALING_GROUPS, GROUP),
    "base gang": (kinds.GANGS, "wl-0"),
    "scaled gang": (kinds.GANGS, f"{GROUP}-0"),
    "clique in the base gang": (kinds.CLIQUES, f"{GROUP}-0-work"),
    "clique of a scaled gang": (kinds.CLIQUES, f"{GROUP}-1-work"),
    "pod in the base gang": (kinds.PODS, f"{GROUP}-0-work-0"),
    "pod of a scaled gang": (kinds.PODS, f"{GROUP}-1-lead-0"),
}

FOREIGN: Final = {
    labels.PART_OF: "other",
    labels.MANAGED_BY: None,
    labels.SET_REPLICA_INDEX: "7",
    labels.SCALING_GROUP: "elsewhere",
}


async def name_of(world: World, resource: Resource, name: str) -> str:
    """Pods are known by their hostnames; empty while there is none."""
    if resource is not kinds.PODS:
        return name if await world.get(resource, name) is not None else ""
    found = (pod["metadata"]["name"] for pod in await world.pods() if pod["spec"]["hostname"] == name)
    return next(map(str, found), "")


async def done_to(world: World, how: str, resource: Resource, name: str) -> None:
    """What somebody does to one object."""
    if how in ("Background", "Foreground", "Orphan"):
        await world.user.delete(resource, key(name), propagation=how)
        return
    change: Manifest = {"labels": FOREIGN} if how == "relabelled" else {"ownerReferences": None}
    await world.user.merge_patch(resource, key(name), {"metadata": change})


async def until_moment(world: World, moment: str) -> None:
    if moment == "pending":
        await pass_time(3)
    elif moment == "open":
        async for event in world.user.watch(kinds.PODS, type=dict, resource_version="0"):
            if event.type != "BOOKMARK" and not event.object["spec"].get("schedulingGates"):
                return
    else:
        await until_running(world, "wl-0", f"{GROUP}-0")


HOWS: Final = ("Background", "Foreground", "Orphan", "relabelled", "disowned")
MOMENTS: Final = ("pending", "open", "running")


@pytest.mark.parametrize(
    ("part", "how", "moment", "name"),
    [
        pytest.param(part, how, moment, name, id=f"{part}, {how}, {moment}, {name}")
        for (part, how, moment), name in zip(
            ((part, how, moment) for part in PARTS for how in HOWS for moment in MOMENTS),
            cycle(STAGES),
            strict=False,
        )
    ],
)
def test_whatever_is_done_to_a_part_of_a_group_the_set_ends_right(
    part: str, how: str, moment: str, name: str
) -> None:
    stage, (resource, called) = STAGES[name], PARTS[part]

    async def story(world: World) -> None:
        guard = Guard(world.cluster)
        nodes = [node["metadata"]["name"] for node in await world.all(NODES)]
        if moment == "pending":
            await cordon(world, nodes, closed=True)
        await world.apply(workload(stage))
        await until_moment(world, moment)
        allowed: frozenset[str] = frozenset()
        if found := await name_of(world, resource, called):
            if how in ("Orphan", "disowned"):
                allowed = await left_to_its_user(world, stage, how, resource, found)
            await done_to(world, how, resource, found)
        await pass_time(5)
        await cordon(world, nodes, closed=False)
        await at_rest(world, stage, allowed=allowed)
        assert guard.broken == []

    run_world(story, stage.options)


async def cordon(world: World, nodes: list[str], *, closed: bool) -> None:
    for node in nodes:
        await world.user.merge_patch(NODES, Key("", node), {"spec": {"unschedulable": closed or None}})


async def left_to_its_user(
    world: World, stage: Stage, how: str, resource: Resource, name: str
) -> frozenset[str]:
    """What nobody owns any more once this is done: pods without a clique, objects without a gang."""
    found = await world.get(resource, name)
    if resource is kinds.PODS:
        return frozenset({uid_of(found)} if how == "disowned" else set())
    if how == "disowned":
        return frozenset()
    owned = [*await world.pods(), *await scheduler_objects(world, stage)]
    return frozenset(uid_of(each) for each in owned if owner_uid(each) == uid_of(found))


@on_every_stage
def test_a_group_recreated_under_its_name_starts_with_the_replicas_of_the_template(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(workload(stage))
        await at_rest(world, stage)
        await world.scale(GROUP, 3, kinds.SCALING_GROUPS)
        await at_rest(world, stage)
        before = {uid_of(pod) for pod in await world.pods() if GROUP in pod["spec"]["hostname"]}
        others = {uid_of(pod) for pod in await world.pods()} - before
        await world.user.delete(kinds.SCALING_GROUPS, key(GROUP), propagation="Background")
        await at_rest(world, stage)
        assert (await group_status(world, GROUP))["replicas"] == 2
        after = {uid_of(pod) for pod in await world.pods()}
        assert not before & after
        assert others <= after, "pods outside of the group were replaced"

    run_world(story, stage.options)


@on_every_stage
def test_a_set_recreated_under_its_name_has_groups_of_its_own(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(in_order(workload(stage)))
        await at_rest(world, stage)
        before = {uid_of(pod) for pod in await world.pods()}
        await world.user.delete(kinds.CLIQUESETS, key("wl"), propagation="Background")
        await world.apply(in_order(workload(stage)))
        await at_rest(world, stage)
        assert not before & {uid_of(pod) for pod in await world.pods()}

    run_world(story, stage.options)
