"""A backend with a process of its own beside the operator: every gang has exactly one writer."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator

from tests.scenarios.stories import pass_time, until_running

from grove.api import kinds, labels
from grove.api.config import OperatorConfiguration, load
from grove.assembly import Operator, assemble
from grove.backends.kai.backend import PODGROUPS as KAI_PODGROUPS
from grove.embedded.identity import MASTERS, User
from grove.kube.client import Client
from grove.kube.limiter import Limiter
from grove.kube.retry import RetryPolicy
from grove.meta import Key, Manifest, resource
from grove.testing import make
from grove.testing.memory import MemoryTransport
from grove.testing.virtual_time import virtual_clock
from grove.testing.world import World, WorldOptions, run_world

LEASES = resource("coordination.k8s.io", "v1", "Lease")
BACKEND = User("system:serviceaccount:grove-system:grove-kai", (MASTERS,))

TEXT = """
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
leaderElection: {enabled: true, resourceNamespace: default}
scheduler:
  profiles: [{name: default-scheduler}, {name: kai-scheduler, external: %s}]
"""
EXTERNAL = load(TEXT % "true")
INTERNAL = load(TEXT % "false")
WORLD = WorldOptions(schedulers=("kai",), configuration=EXTERNAL)


def training(name: str, backend: str) -> Manifest:
    return make.cliqueset_manifest(name, {"worker": 2}, annotations={labels.SCHEDULER_BACKEND: backend})


@contextlib.asynccontextmanager
async def backend_process(
    world: World, configuration: OperatorConfiguration = EXTERNAL
) -> AsyncIterator[Operator]:
    """`grove backend run kai`, as another user than the operator."""
    transport = MemoryTransport(world.cluster.app, BACKEND)
    client = Client(transport, limiter=Limiter.off(), retries=RetryPolicy(rng=random.Random(1)))
    rng = random.Random(2)
    process = await assemble(client, configuration, clock=virtual_clock(), rng=rng, health=False, only="kai")
    task = asyncio.create_task(process.manager.run(), name="backend")
    try:
        yield process
    finally:
        await transport.close()
        for controller in process.controllers.values():
            controller.hurry()
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()


def writers(world: World, kind: str, name: str = "") -> set[str]:
    """Which of the two wrote objects of this kind, those of this name or all of them."""
    ours = {BACKEND.name, world.options.operator_user.name}
    return {
        entry.user.rpartition(":")[2]
        for entry in world.cluster.requests
        if entry.is_write and entry.status < 400 and entry.resource == kind and name in entry.path
        if entry.user in ours
    }


def test_the_process_acts_on_its_gangs_and_the_operator_on_all_others() -> None:
    async def story(world: World) -> None:
        async with backend_process(world):
            await world.apply(training("mine", "kai"), training("other", "default"))
            await until_running(world, "mine-0", "other-0")
            await world.settle()
            assert writers(world, f"{kinds.GANGS}/status", "mine-0") == {"grove-kai"}
            assert writers(world, f"{kinds.GANGS}/status", "other-0") == {"grove-operator"}
            assert writers(world, str(KAI_PODGROUPS), "pg-mine-0") == {"grove-kai"}
            assert writers(world, str(kinds.CLIQUES)) == {"grove-operator"}

    run_world(story, WORLD)


def test_each_of_the_two_has_a_lease_of_its_own() -> None:
    async def story(world: World) -> None:
        async with backend_process(world):
            await pass_time(5)
            found = {each["metadata"]["name"] for each in await world.all(LEASES)}
            assert found >= {"grove-operator-leader-election", "grove-operator-leader-election-kai"}

    run_world(story, WORLD)


def test_without_the_process_its_gangs_wait_behind_their_gates_and_begin_when_it_comes() -> None:
    async def story(world: World) -> None:
        await world.apply(training("mine", "kai"))
        await pass_time(60)
        assert await world.all(KAI_PODGROUPS) == []
        pods = await world.pods()
        assert len(pods) == 2
        assert all(pod["spec"]["schedulingGates"] for pod in pods)
        assert "mine-0" in await waiting_for_a_process(world, "mine")
        async with backend_process(world):
            await until_running(world, "mine-0")
            await world.settle()
            assert await waiting_for_a_process(world, "mine") == ""

    run_world(story, WORLD)


async def waiting_for_a_process(world: World, name: str) -> str:
    """What the set says about gangs that nobody acts on."""
    found = await world.get(kinds.CLIQUESETS, name)
    assert found is not None
    told = [each["message"] for each in found["status"]["conditions"] if each["type"] == "Accepted"]
    return str(told[0]) if "grove backend run" in told[0] else ""


def test_a_process_that_believes_otherwise_than_the_operator_writes_nothing() -> None:
    async def story(world: World) -> None:
        async with backend_process(world, EXTERNAL):
            await world.apply(training("mine", "kai"))
            await until_running(world, "mine-0")
            await world.settle()
            assert writers(world, f"{kinds.GANGS}/status") == {"grove-operator"}
            assert writers(world, str(KAI_PODGROUPS)) == {"grove-operator"}

    run_world(story, WorldOptions(schedulers=("kai",), configuration=INTERNAL))


def test_a_gang_is_handed_over_and_back_without_being_lost() -> None:
    async def story(world: World) -> None:
        operator = world.operator
        assert operator is not None
        await world.apply(training("mine", "kai"))
        await until_running(world, "mine-0")
        before = {pod["metadata"]["uid"] for pod in await world.pods()}
        async with backend_process(world):
            await operator.reconfigure(EXTERNAL)
            await world.settle()
            start = len(world.cluster.requests)
            await world.user.delete(KAI_PODGROUPS, await only_podgroup(world))
            await world.settle()
            repairs = [
                each for each in list(world.cluster.requests)[start:] if each.resource == str(KAI_PODGROUPS)
            ]
            assert {each.user.rpartition(":")[2] for each in repairs if each.is_write} == {
                "alice",
                "grove-kai",
            }
            await operator.reconfigure(INTERNAL)
            await world.settle()
        await world.user.delete(KAI_PODGROUPS, await only_podgroup(world))
        await world.settle()
        assert len(await world.all(KAI_PODGROUPS)) == 1
        assert {pod["metadata"]["uid"] for pod in await world.pods()} == before
        assert await world.phase("mine-0") == "Running"

    run_world(story, WorldOptions(schedulers=("kai",), configuration=INTERNAL))


async def only_podgroup(world: World) -> Key:
    (found,) = await world.all(KAI_PODGROUPS)
    return Key("default", found["metadata"]["name"])
