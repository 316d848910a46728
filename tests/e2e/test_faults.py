"""What breaks around the operator, and the operator itself: the end is the same, and no law is broken on the way."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.e2e.audit import assert_no_gate_opened_early
from tests.e2e.conftest import Plane
from tests.e2e.laws import assert_gates_opened_on_whole_gangs_only, assert_no_pod_was_created_twice
from tests.e2e.plane import CONFIGURATION, LEADING, LEASES, OPERATOR, OPERATOR_GROUPS, SYSTEM, Act, RealWorld
from tests.e2e.scene import Scene, role, train

from grove.api import kinds
from grove.meta import Key
from grove.real.versions import APISERVER, SCHEDULER

pytestmark = pytest.mark.real

LAUNCH = "import sys; from grove.cli.main import main; sys.exit(main())"


async def two_gangs(scene: Scene) -> None:
    """Two gangs of three pods in two roles each; there is room for both."""
    await scene.nodes(6)
    await scene.apply(train(role("worker", 2), role("leader", 1), replicas=2))


async def end_well(act: Act) -> None:
    """Both gangs run, and nothing was done that must not be done."""
    scene = act.scene
    for gang in ("train-0", "train-1"):
        await scene.until(lambda gang=gang: scene.running(gang, 3), f"{gang} runs", seconds=40)  # type: ignore[misc]
    assert len(scene.pods()) == 6
    if act.world.audit.evicted(scene.namespace):
        # The pods that run are not the first ones, and those of which the laws speak are gone.
        return
    for gang in ("train-0", "train-1"):
        assert_gates_opened_on_whole_gangs_only(scene, gang, 3)
        assert_no_gate_opened_early(act.world.audit, scene.namespace, gang, 3)
    assert_no_pod_was_created_twice(scene)


async def until_seen(scene: Scene, count: int) -> None:
    await scene.until(lambda: len(scene.ledger.history) >= count, f"{count} changes were seen")


async def survives_a_restart(act: Act) -> None:
    """The API server restarts in the middle of the work."""
    await two_gangs(act.scene)
    await until_seen(act.scene, 8)
    await act.world.control.restart(APISERVER)
    await end_well(act)
    assert not act.operators[0].task.done()


async def survives_a_kill(act: Act, changes: int) -> None:
    """The operator is killed after so many changes, and another one comes."""
    await two_gangs(act.scene)
    await until_seen(act.scene, changes)
    await act.kill_operator()
    await act.start_operator()
    await end_well(act)
    assert [each.task.done() for each in act.operators] == [False], "the second one works"


def test_an_api_server_that_restarts_in_mid_flow_costs_nothing(plane: Plane) -> None:
    plane.play("restart", survives_a_restart)


def test_watches_whose_versions_are_forgotten_are_started_again(
    plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    def listed_again() -> set[str]:
        """The kinds that the operator was told to list again."""
        return {
            str(getattr(record, "resource", ""))
            for record in caplog.records
            if record.message == "resource version expired, listing again"
        }

    async def story(act: Act) -> None:
        scene, control = act.scene, act.world.control
        await two_gangs(scene)
        await end_well(act)
        await control.kill(APISERVER)
        await control.restart(APISERVER)
        await control.compact()
        await control.restart(APISERVER)
        await scene.until(lambda: scene.ledger.relisted > 0, "a watch was answered with 410", seconds=30)
        await scene.until(
            lambda: {"pods", str(kinds.GANGS), str(kinds.CLIQUES)} <= listed_again(),
            "the operator's watches were answered with 410 too",
            seconds=30,
        )
        await scene.scale(kinds.CLIQUESETS, "train", 1)
        await scene.until(
            lambda: len(scene.ledger.all(kinds.PODS)) == 3, "the second gang is gone", seconds=40
        )
        assert scene.running("train-0", 3)

    with caplog.at_level(logging.DEBUG, logger="grove.runtime.informer"):
        plane.play("compact", story)


def test_a_scheduler_that_comes_late_finds_everything_in_place(plane: Plane) -> None:
    async def story(act: Act) -> None:
        await act.world.control.kill(SCHEDULER)
        await two_gangs(act.scene)
        await act.scene.until(
            lambda: (
                len(act.scene.pods()) == 6
                and not any(p["spec"].get("schedulingGates") for p in act.scene.pods())
            ),
            "all gates are open",
        )
        assert act.scene.bound() == 0
        await act.world.control.restart(SCHEDULER)
        await end_well(act)

    plane.play("scheduler", story)


@pytest.mark.parametrize("changes", [1, 3, 6, 10, 14, 20, 28])
def test_an_operator_killed_anywhere_is_followed_by_one_that_ends_the_work(
    plane: Plane, changes: int
) -> None:
    plane.play("killed", lambda act: survives_a_kill(act, changes))


def test_a_process_that_is_killed_is_followed_by_one_that_ends_the_work(plane: Plane, tmp_path: Path) -> None:
    async def story(act: Act) -> None:
        async with process(act.world, tmp_path) as first:
            await two_gangs(act.scene)
            await act.scene.until(lambda: bool(act.scene.pods()), "the first pod is there", seconds=40)
            first.send_signal(signal.SIGKILL)
            assert await first.wait() == -signal.SIGKILL
        async with process(act.world, tmp_path) as second:
            await end_well(act)
            second.send_signal(signal.SIGTERM)
            assert await second.wait() == 0
        await act.start_operator()

    plane.play("process", story, operator=False)


def test_of_two_operators_one_works_and_the_other_takes_over(plane: Plane) -> None:
    async def story(act: Act) -> None:
        leader = await act.start_operator(LEADING, identity="first")
        standby = await act.world.operator(LEADING, identity="second", wait=False)
        act.operators.append(standby)
        await two_gangs(act.scene)
        await until_seen(act.scene, 8)
        assert not standby.operator.manager.working.is_set()
        await leader.kill()
        act.operators.remove(leader)
        await end_well(act)
        lease = await act.world.admin.get(LEASES, Key(SYSTEM, "grove-operator-leader-election"), type=dict)
        assert lease["spec"]["holderIdentity"].startswith("second")

    plane.play("leaders", story, operator=False)


@asynccontextmanager
async def process(world: RealWorld, folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """`grove run` as a process of its own, ended for certain when the block is left."""
    settings = folder / "config.yaml"
    settings.write_text(
        CONFIGURATION
        + "server: {healthProbes: {port: 0, bindAddress: 127.0.0.1}, metrics: {port: 0, bindAddress: 127.0.0.1}}\n"
    )
    kubeconfig = world.control.kubeconfig_for(OPERATOR, OPERATOR_GROUPS)
    arguments = ["run", "--config", str(settings), "--kubeconfig", str(kubeconfig), "--namespace", SYSTEM]
    with (folder / "said").open("w") as said:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            LAUNCH,
            *arguments,
            stdout=said,
            stderr=said,
            stdin=asyncio.subprocess.DEVNULL,
        )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
