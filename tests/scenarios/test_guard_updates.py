"""The guard of chaos notes an update that takes down too much, and one that stands still without saying why."""

import re

import pytest
from tests.scenarios.disturbing import SHUTDOWN
from tests.scenarios.draining import cordon
from tests.scenarios.stories import pass_time
from tests.scenarios.test_guard import SET, as_operator, guarded

from grove.api import kinds, labels
from grove.meta import Key, Manifest
from grove.plan.update.budget import Budget
from grove.testing import make
from grove.testing.portrait import silent_updates
from grove.testing.world import NODES, World, run_world


def of_roles(
    *, replicas: int = 1, level: str = "", limits: Manifest | None = None, **fields: object
) -> Manifest:
    """A set with a leader and two workers, of which one is needed; their pods take some seconds to stop."""
    roles = [make.template("leader"), make.template("worker", 2)]
    roles[1]["spec"]["minAvailable"] = 1
    for role in roles:
        role["annotations"] = {SHUTDOWN: "5s"}
        role["spec"]["podSpec"]["containers"][0]["env"] = [{"name": "LEVEL", "value": level}] if level else []
    made = make.cliqueset_manifest("train", roles, replicas=replicas, **fields)  # type: ignore[arg-type]
    made["spec"]["updateStrategy"] = {"type": "RollingRecreate", "rollingRecreate": limits or {}}
    return made


def grouped(level: str = "") -> Manifest:
    """The same as a scaling group with three replicas."""
    group = make.scaling_group("dec", ["leader", "worker"], replicas=3, minAvailable=1)
    return of_roles(level=level, groups=[group])


# What an update takes down at once ------------------------------------------------------------------


@pytest.mark.parametrize("limits", [{"maxUnavailable": 3}, {"maxUnavailable": 1, "maxSurge": 2}, {}])
def test_an_update_within_the_limits_of_its_set_is_not_noted(limits: Manifest) -> None:
    async def story(world: World) -> None:
        guard = await guarded(world, of_roles(replicas=3, limits=limits))
        before = {pod["metadata"]["uid"] for pod in await world.pods()}
        await world.apply(of_roles(replicas=3, limits=limits, level="1"))
        await world.settle(quiet=12)
        assert not before & {pod["metadata"]["uid"] for pod in await world.pods()}
        assert guard.broken == []

    run_world(story)


def test_more_replicas_at_once_than_the_set_allows_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: World) -> None:
        guard = await guarded(world, of_roles(replicas=3))
        monkeypatch.setattr("grove.plan.update.replicas.budget_of", lambda _: Budget(2))
        await world.apply(of_roles(replicas=3, level="1"))
        await world.settle(quiet=12)
        assert "replica 0, 1 of train got a turn while none was down; 1 may be down at once" in guard.broken

    run_world(story)


def test_a_replica_that_gets_its_turn_while_another_has_long_been_broken_is_noted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(world: World) -> None:
        guard = await guarded(world, of_roles(replicas=2))
        (leader,) = [pod for pod in await world.pods() if "train-1-leader" in pod["metadata"]["name"]]
        broken = {"metadata": {"annotations": {"embedded.grove.io/not-ready": "true"}}}
        await world.user.merge_patch(kinds.PODS, Key("default", leader["metadata"]["name"]), broken)
        await world.settle()
        monkeypatch.setattr("grove.plan.update.replicas.serves", lambda *_: True)
        await world.apply(of_roles(replicas=2, level="1"))
        await pass_time(2)
        assert guard.broken[0] == "replica 0 of train got a turn while 1 was down; 1 may be down at once"

    run_world(story)


def test_a_surplus_replica_that_is_replaced_while_it_serves_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: World) -> None:
        limits = {"maxUnavailable": 0, "maxSurge": 1}
        guard = await guarded(world, of_roles(replicas=2, limits=limits))
        await world.apply(of_roles(replicas=2, limits=limits, level="1"))

        async def stands_in() -> bool:
            return await world.phase("train-2") == "Running"

        await world.until(stands_in, "the surplus replica serves")
        await pass_time(2)
        assert guard.broken == []
        monkeypatch.setattr("grove.plan.update.replicas._surplus_turns", lambda *_: [2])
        await world.apply(of_roles(replicas=2, limits=limits, level="2"))
        await pass_time(3)
        assert "surplus replica 2 of train got a turn although it served" in guard.broken

    run_world(story)


def test_a_pod_that_an_update_takes_down_without_a_turn_is_noted() -> None:
    async def story(world: World) -> None:
        guard = await guarded(world, of_roles())
        paused = {"metadata": {"annotations": {labels.UPDATE_PAUSED: "true"}}}
        await world.user.merge_patch(kinds.CLIQUESETS, SET, paused)
        changed = of_roles(level="1")
        await world.apply(changed)
        await world.settle()
        assert guard.broken == []
        await world.kill_operator()
        (leader,) = [pod for pod in await world.pods() if "leader" in pod["metadata"]["name"]]
        marks = {"metadata": {"labels": {labels.POD_TEMPLATE_HASH: "another"}}}
        await as_operator(world).merge_patch(kinds.CLIQUES, Key("default", "train-0-leader"), marks)
        await as_operator(world).delete(kinds.PODS, Key("default", leader["metadata"]["name"]))
        assert guard.broken == ["an update took down train-0-leader-0, whose replica had no turn"]

    run_world(story)


def test_two_pods_of_a_clique_that_an_update_takes_down_at_once_are_noted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(world: World) -> None:
        guard = await guarded(world, of_roles())
        monkeypatch.setattr("grove.plan.update.pods._replaceable", lambda old, *_: list(old))
        await world.apply(of_roles(level="1"))
        await world.settle(quiet=12)
        assert len(guard.broken) == 1
        assert re.fullmatch(
            r"an update took down train-0-worker-\d while train-0-worker-\d was down", guard.broken[0]
        )

    run_world(story)


@pytest.mark.parametrize("sabotaged", [False, True])
def test_two_replicas_of_a_group_that_an_update_takes_down_at_once_are_noted(
    monkeypatch: pytest.MonkeyPatch, sabotaged: bool
) -> None:
    async def story(world: World) -> None:
        guard = await guarded(world, grouped())
        before = {pod["metadata"]["uid"] for pod in await world.pods()}
        if sabotaged:
            for module in ("groups", "replicas"):
                monkeypatch.setattr(f"grove.plan.update.{module}.may_restart", lambda *_: True)
        await world.apply(grouped(level="1"))
        await world.settle(quiet=12)
        assert not before & {pod["metadata"]["uid"] for pod in await world.pods()}
        expected = r"an update took down train-0-dec-1-leader-0 while train-0-dec-\d was down"
        assert any(re.fullmatch(expected, each) for each in guard.broken) is sabotaged
        assert bool(guard.broken) is sabotaged

    run_world(story)


# Updates that end or say why not --------------------------------------------------------------------


def test_an_update_that_stands_still_although_nothing_holds_it_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(world: World) -> None:
        await guarded(world, of_roles())
        monkeypatch.setattr("grove.plan.update.replicas.budget_of", lambda _: Budget(0))
        await world.apply(of_roles(level="1"))
        await world.settle(quiet=150)
        (found,) = await silent_updates(world)
        assert found.startswith("the update of train stands still, and nothing that it tells is so")

    run_world(story)


def test_an_update_that_tells_of_a_replica_that_serves_is_found() -> None:
    async def story(world: World) -> None:
        await guarded(world, of_roles())
        for node in await world.all(NODES):
            await cordon(world, node["metadata"]["name"])
        await world.apply(of_roles(level="1"))
        await world.settle(quiet=150)
        assert await silent_updates(world) == []
        await world.kill_operator()
        for node in await world.all(NODES):
            await cordon(world, node["metadata"]["name"], closed=False)
        for pod in await world.pods():
            await world.user.merge_patch(
                kinds.PODS, Key("default", pod["metadata"]["name"]), {"spec": {"schedulingGates": []}}
            )
        await world.settle()
        assert len(await silent_updates(world)) == 1

    run_world(story)


def test_an_update_that_is_paused_says_so_only_while_it_is() -> None:
    async def story(world: World) -> None:
        await guarded(world, of_roles())
        paused: Manifest = {"metadata": {"annotations": {labels.UPDATE_PAUSED: "true"}}}
        await world.user.merge_patch(kinds.CLIQUESETS, SET, paused)
        await world.apply(of_roles(level="1"))
        await world.settle(quiet=150)
        assert await silent_updates(world) == []
        await world.kill_operator()
        paused["metadata"]["annotations"][labels.UPDATE_PAUSED] = None
        await world.user.merge_patch(kinds.CLIQUESETS, SET, paused)
        assert len(await silent_updates(world)) == 1

    run_world(story)
