"""A control plane whose gates are set wrongly is found out by probing, and called that: no gang just waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.e2e.conftest import asked
from tests.e2e.plane import CONFIGURATION, Act, RealWorld
from tests.e2e.scene import RACK, packed, role, topology, train

from grove.api import kinds
from grove.real import MINORS, Options

pytestmark = pytest.mark.real

GANGS = {"GenericWorkload": True, "GangScheduling": True}
REQUIRED = CONFIGURATION.replace(
    "{name: default-scheduler}", "{name: default-scheduler, config: {gangScheduling: Required}}"
)


def play(
    minor: str, options: Options, story: Callable[[Act], Awaitable[None]], configuration: str = CONFIGURATION
) -> None:
    """A story on a control plane of its own."""

    async def played() -> None:
        world = RealWorld(asked(minor), options)
        await world.start()
        try:
            async with world.act("gates", operator=False) as act:
                await act.start_operator(configuration)
                await story(act)
        finally:
            await world.stop()

    asyncio.run(played())


def test_a_required_rack_is_refused_where_the_topology_gate_is_off() -> None:
    async def story(act: Act) -> None:
        scene = act.scene
        await scene.nodes(2)
        await scene.apply(topology(rack=RACK), train(role("worker", 2), topologyConstraint=packed("rack")))
        await scene.until(
            lambda: bool(scene.condition(kinds.CLIQUESETS, "train", "Accepted")), "it is judged"
        )
        accepted = scene.condition(kinds.CLIQUESETS, "train", "Accepted")
        assert (accepted["status"], accepted["reason"]) == ("False", "Unsupported")
        assert "it does not support topology constraints for groups here" in accepted["message"]
        await scene.apply(train(role("worker", 2), name="plain"))
        await scene.until_running("plain-0", 2)

    play("1.36", Options(gates=GANGS), story)


@pytest.mark.parametrize("minor", MINORS)
def test_without_the_gang_api_pods_run_and_the_gang_says_that_nothing_is_guaranteed(minor: str) -> None:
    async def story(act: Act) -> None:
        scene = act.scene
        await scene.nodes(1)
        await scene.apply(train(role("worker", 2)))
        await scene.until(lambda: scene.bound("train-0") == 1, "one pod is placed by itself")
        guarantee = scene.condition(kinds.GANGS, "train-0", "GangGuarantee")
        assert (guarantee["status"], guarantee["reason"]) == ("False", "NoGangAPI")
        assert "GenericWorkload" in guarantee["message"]

    play(minor, Options(gates={}), story)


def test_where_a_gang_is_required_a_cluster_without_its_api_is_refused_by_name() -> None:
    async def story(act: Act) -> None:
        scene = act.scene
        await scene.nodes(2)
        await scene.apply(train(role("worker", 2)))
        await scene.until(
            lambda: bool(scene.condition(kinds.CLIQUESETS, "train", "Accepted")), "it is judged"
        )
        accepted = scene.condition(kinds.CLIQUESETS, "train", "Accepted")
        assert accepted["status"] == "False"
        assert "GenericWorkload" in accepted["message"]
        assert "--runtime-config" in accepted["message"]
        assert not scene.pods()

    play("1.36", Options(gates={}), story, REQUIRED)


def test_podgroups_in_a_version_that_the_scheduler_does_not_read_are_called_a_wrong_configuration() -> None:
    async def story(act: Act) -> None:
        scene = act.scene
        await scene.apply(train(role("worker", 2)))

        def said() -> str:
            return str(scene.condition(kinds.GANGS, "train-0", "Scheduled").get("reason", ""))

        await scene.until(lambda: said() == "PreconditionMissing", "the gang says what is missing")
        told = scene.said("train-0")
        assert "scheduling.k8s.io/v1beta1=true" in told
        assert "--runtime-config" in told
        assert all(pod["spec"].get("schedulingGates") for pod in scene.pods())

    # kube-scheduler and the protection of PodGroups wait for v1beta1, and would wait for ever.
    options = Options(
        scheduler=False,
        gates={"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True},
        runtime_config={"scheduling.k8s.io/v1alpha3": True},
    )
    play("1.37", options, story)
