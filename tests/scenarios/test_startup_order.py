"""SO1 to SO4 of the incumbent's end-to-end tests: in which order the pods of a set become ready.

How long a pod takes to start differs from pod to pod, by a seed: without that everything would seem to be in
order, whether anybody waits or not.
"""

import asyncio
from dataclasses import replace
from typing import Final

import pytest
from tests.raw import raw
from tests.scenarios.startup import CASES, CLIQUES, NAME, STARTUP, Case, clique_of, slow, waits, without_order
from tests.scenarios.stories import STAGES, condition_of, everything_of
from tests.scenarios.workloads import in_order, wl2

from grove.api import kinds, labels
from grove.api.cliqueset import IN_ORDER
from grove.embedded.actors.kubelet import KubeletOptions
from grove.meta import Key, Manifest, resource
from grove.testing import make
from grove.testing.world import World, WorldOptions, run_world

STAGE: Final = STAGES["1.36"]
SEEDS: Final = range(4)


def jittered(seed: int, **options: int) -> WorldOptions:
    kubelet = KubeletOptions(startup_seconds=2, startup_jitter=30, seed=seed)
    return WorldOptions(nodes=options.get("nodes", 10), seed=seed, kubelet=kubelet)


def ready_times(pods: list[Manifest]) -> dict[str, list[str]]:
    """When the pods of each clique became ready, the earliest first."""
    found: dict[str, list[str]] = {}
    for pod in pods:
        found.setdefault(clique_of(pod), []).append(condition_of(pod, "Ready")["lastTransitionTime"])
    return {clique: sorted(times) for clique, times in found.items()}


def violations(case: Case, times: dict[str, list[str]]) -> list[str]:
    """Which cliques had a pod ready before enough pods of a parent were."""
    return [
        f"{child} at {times[child][0]} before {parent} at {times[parent]}"
        for child, parents in case.after.items()
        for parent in parents
        if times[child][0] <= times[parent][case.needed(parent) - 1]
    ]


async def all_ready(world: World, count: int) -> list[Manifest]:
    async def ready() -> bool:
        pods = await world.pods()
        return len(pods) == count and all(condition_of(pod, "Ready").get("status") == "True" for pod in pods)

    await world.until(ready, f"{count} pods are ready", seconds=600)
    return await world.pods()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", CASES)
def test_pods_become_ready_in_their_order(name: str, seed: int) -> None:
    case = CASES[name]

    async def story(world: World) -> None:
        await world.apply(case.workload(STAGE))
        times = ready_times(await all_ready(world, 10))
        assert set(times) == CLIQUES
        assert violations(case, times) == []
        await world.settle()
        assert await world.phase(f"{NAME}-0") == "Running"

    run_world(story, jittered(seed))


@pytest.mark.parametrize("name", CASES)
def test_without_an_order_the_same_pods_become_ready_as_it_happens(name: str) -> None:
    """What the tests above would not notice if nobody waited."""
    case, found = CASES[name], []

    async def story(world: World) -> None:
        await world.apply(without_order(case.workload(STAGE)))
        found.append(violations(case, ready_times(await all_ready(world, 10))))

    for seed in SEEDS:
        run_world(story, jittered(seed))
    assert all(found), found


@pytest.mark.parametrize("stage", STAGES)
def test_order_holds_with_every_scheduler(stage: str) -> None:
    case = CASES["SO2"]

    async def story(world: World) -> None:
        await world.apply(case.workload(STAGES[stage]))
        assert violations(case, ready_times(await all_ready(world, 10))) == []

    options = STAGES[stage].options
    run_world(story, replace(options, nodes=12, kubelet=jittered(1).kubelet))


def test_a_scaled_gang_waits_for_nobody_outside_of_it() -> None:
    async def story(world: World) -> None:
        await world.apply(slow(in_order(wl2(STAGE, NAME)), "pc-a", 300))
        times = ready_times(await all_ready(world, 10))
        assert times["sg-x-1-pc-c"][-1] < times["pc-a"][0] < times["sg-x-0-pc-b"][0]

    run_world(story, jittered(0))


# Who gets what ------------------------------------------------------------------------------------


def pair(order: str = IN_ORDER, **fields: object) -> Manifest:
    """A frontend of two, then workers."""
    return make.cliqueset_manifest(
        "llm",
        [make.template("fe", 2), make.template("work", 2)],
        template={"cliqueStartupType": order},
        **fields,  # type: ignore[arg-type]
    )


async def arguments(world: World) -> dict[str, list[list[str]]]:
    found: dict[str, list[list[str]]] = {}
    for pod in await world.pods():
        found.setdefault(pod["metadata"]["labels"][labels.POD_CLIQUE], []).append(waits(pod))
    return found


def test_a_set_that_needs_no_order_gets_neither_container_nor_role() -> None:
    async def story(world: World) -> None:
        await world.apply(pair("CliqueStartupTypeAnyOrder"))
        await all_ready(world, 4)
        assert await arguments(world) == {"llm-0-fe": [[], []], "llm-0-work": [[], []]}
        assert await world.all(kinds.ROLES) == await world.all(kinds.ROLE_BINDINGS) == []

    run_world(story)


def test_the_cliques_name_their_parents_and_the_pods_count_them() -> None:
    async def story(world: World) -> None:
        await world.apply(pair())
        await all_ready(world, 4)
        assert await arguments(world) == {
            "llm-0-fe": [[], []],
            "llm-0-work": [["--podcliques=llm-0-fe:2"]] * 2,
        }
        clique = await world.get(kinds.CLIQUES, "llm-0-work") or {}
        assert clique["spec"]["startsAfter"] == ["llm-0-fe"]
        (pod,) = [each for each in await world.pods() if each["spec"]["hostname"] == "llm-0-work-0"]
        (container,) = pod["spec"]["initContainers"]
        assert container["image"] == "grove-initc:0.1.0"
        (status,) = pod["status"]["initContainerStatuses"]
        assert (
            status["state"]["terminated"]["message"] == "nothing to wait for any more: llm-0-fe: 2 of 2 ready"
        )

    run_world(story)


def test_downloads_go_on_while_the_parents_start() -> None:
    async def story(world: World) -> None:
        workload = slow(pair(), "fe", 60)
        role = workload["spec"]["template"]["cliques"][1]
        role["annotations"] = {"embedded.grove.io/init.download": "50s", STARTUP: "5s"}
        role["spec"]["podSpec"]["initContainers"] = [
            {"name": "download", "image": "a"},
            {"name": "check", "image": "b"},
        ]
        await world.apply(workload)
        began = asyncio.get_running_loop().time()
        pods = await all_ready(world, 4)
        assert asyncio.get_running_loop().time() - began < 70
        names = [[each["name"] for each in pod["spec"].get("initContainers") or ()] for pod in pods]
        assert sorted(names) == [[], [], *([["download", "check", "grove-initc"]] * 2)]

    run_world(story)


def test_what_is_waited_for_is_said_by_the_pod_itself() -> None:
    async def story(world: World) -> None:
        await world.apply(slow(pair(), "fe", 100))

        async def worker() -> Manifest:
            pods = {each["spec"]["hostname"]: each for each in await world.pods()}
            return pods.get("llm-0-work-0", {})

        async def begun() -> bool:
            states = ((await worker()).get("status") or {}).get("initContainerStatuses") or ()
            return any("running" in each["state"] for each in states)

        await world.until(begun, "a worker waits")
        await asyncio.sleep(5)
        name = (await worker())["metadata"]["name"]
        log = await raw(
            world.user,
            "GET",
            f"{kinds.PODS.path('default')}/{name}/log",
            query=[("container", "grove-initc")],
        )
        assert log.body.decode() == "waiting for llm-0-fe: 0 of 2 ready\n"
        assert (await world.gang("llm-0") or {})["status"]["phase"] == "Starting"
        await all_ready(world, 4)

    run_world(story)


# The role and its binding -------------------------------------------------------------------------

ROLE: Final = Key("default", "grove.io:pcs:llm")


async def allowed(world: World) -> tuple[list[Manifest], list[str]]:
    """What the set's role allows, and to which accounts."""
    role = await world.get(kinds.ROLES, ROLE.name) or {}
    binding = await world.get(kinds.ROLE_BINDINGS, ROLE.name) or {}
    return role.get("rules") or [], [each["name"] for each in binding.get("subjects") or ()]


RULES: Final = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]


def test_what_somebody_does_to_the_role_is_undone() -> None:
    async def story(world: World) -> None:
        await world.apply(pair())
        await all_ready(world, 4)
        more = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
        await world.user.merge_patch(kinds.ROLES, ROLE, {"rules": more})
        other = [{"kind": "ServiceAccount", "name": "other", "namespace": "default"}]
        await world.user.merge_patch(kinds.ROLE_BINDINGS, ROLE, {"subjects": other})
        await world.settle()
        assert await allowed(world) == (RULES, ["default"])
        await world.user.delete(kinds.ROLES, ROLE)
        await world.user.delete(kinds.ROLE_BINDINGS, ROLE)
        await world.settle()
        assert await allowed(world) == (RULES, ["default"])

    run_world(story)


def test_the_role_goes_with_the_last_replica_and_comes_back_with_the_first() -> None:
    async def story(world: World) -> None:
        await world.apply(pair(replicas=2))
        await all_ready(world, 8)
        assert len(await world.all(kinds.ROLES)) == len(await world.all(kinds.ROLE_BINDINGS)) == 1
        await world.scale("llm", 0)
        await world.settle()
        assert await allowed(world) == ([], [])
        await world.scale("llm", 1)
        await all_ready(world, 4)
        assert await allowed(world) == (RULES, ["default"])
        await world.user.delete(kinds.CLIQUESETS, Key("default", "llm"))
        await world.settle()
        assert await everything_of(world, "llm") == {}

    run_world(story)


def test_pods_of_an_account_of_their_own_may_wait() -> None:
    async def story(world: World) -> None:
        accounts = resource("", "v1", "ServiceAccount")
        await world.user.create(
            accounts,
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "mine", "namespace": "default"},
            },
        )
        workload = pair()
        workload["spec"]["template"]["cliques"][1]["spec"]["podSpec"]["serviceAccountName"] = "mine"
        await world.apply(workload)
        pods = await all_ready(world, 4)
        assert await allowed(world) == (RULES, ["mine"])
        used = {pod["spec"]["hostname"]: pod["spec"].get("serviceAccountName", "default") for pod in pods}
        assert used == {
            "llm-0-fe-0": "default",
            "llm-0-fe-1": "default",
            "llm-0-work-0": "mine",
            "llm-0-work-1": "mine",
        }

    run_world(story)


@pytest.mark.parametrize("surge", [0, 1])
def test_an_update_to_another_account_reaches_its_end(surge: int) -> None:
    """While replicas follow two templates, pods of both may wait."""
    accounts = resource("", "v1", "ServiceAccount")
    mine = {"metadata": {"name": "mine", "namespace": "default"}}
    limits = {"type": "RollingRecreate", "rollingRecreate": {"maxSurge": 1, "maxUnavailable": 0}}

    async def story(world: World) -> None:
        await world.user.create(accounts, {"apiVersion": "v1", "kind": "ServiceAccount", **mine})
        workload = pair()
        if surge:
            workload["spec"]["updateStrategy"] = limits
        await world.apply(workload)
        await all_ready(world, 4)
        for role in workload["spec"]["template"]["cliques"]:
            role["spec"]["podSpec"]["serviceAccountName"] = "mine"
        await world.apply(workload)
        await world.settle(quiet=60)
        pods = await all_ready(world, 4)
        assert {pod["spec"]["serviceAccountName"] for pod in pods} == {"mine"}
        assert await allowed(world) == (RULES, ["mine"])

    run_world(story)


# Later on -----------------------------------------------------------------------------------------


def test_a_pod_that_is_replaced_waits_as_its_predecessor_did() -> None:
    async def story(world: World) -> None:
        await world.apply(pair())
        pods = await all_ready(world, 4)
        worker = next(each for each in pods if each["spec"]["hostname"] == "llm-0-work-1")
        await world.user.delete(kinds.PODS, Key("default", worker["metadata"]["name"]))
        await asyncio.sleep(5)
        fresh = await all_ready(world, 4)
        (found,) = [each for each in fresh if each["spec"]["hostname"] == "llm-0-work-1"]
        assert found["metadata"]["uid"] != worker["metadata"]["uid"]
        assert waits(found) == ["--podcliques=llm-0-fe:2"]

    run_world(story)


def test_a_parent_that_restarts_does_not_stop_those_that_run() -> None:
    async def story(world: World) -> None:
        await world.apply(pair())
        before = {each["metadata"]["uid"] for each in await all_ready(world, 4)}
        frontends = [each for each in await world.pods() if "-fe-" in each["spec"]["hostname"]]
        for each in frontends:
            await world.user.delete(kinds.PODS, Key("default", each["metadata"]["name"]))
        await asyncio.sleep(5)
        after = {each["metadata"]["uid"] for each in await all_ready(world, 4)}
        assert len(before & after) == 2

    run_world(story)


def test_nobody_waits_for_a_role_that_is_scaled_to_zero() -> None:
    async def story(world: World) -> None:
        await world.apply(pair())
        await all_ready(world, 4)
        await world.scale("llm-0-fe", 0, of=kinds.CLIQUES)
        await world.settle()
        for each in await world.pods():
            await world.user.delete(kinds.PODS, Key("default", each["metadata"]["name"]))
        await asyncio.sleep(5)
        assert [waits(each) for each in await all_ready(world, 2)] == [[], []]

    run_world(story)


@pytest.mark.parametrize("seed", SEEDS)
def test_order_holds_although_the_operator_is_killed_and_watches_break(seed: int) -> None:
    case = CASES["SO1"]

    async def story(world: World) -> None:
        await world.apply(case.workload(STAGE))
        for step in range(12):
            await asyncio.sleep(world.rng.uniform(0.05, 4))
            if step % 3 == 0:
                await world.kill_operator()
                await world.start_operator()
            elif step % 3 == 1:
                world.cluster.drop_watches()
            else:
                world.cluster.compact()
        assert violations(case, ready_times(await all_ready(world, 10))) == []

    run_world(story, jittered(seed))
