"""Nodes that `kubectl drain` empties: the real disruption controller counts what Grove's budgets cover.

Evictions, budgets and their statuses are Kubernetes' own here; nodes and kubelets are simulated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.cli.processes import KUBECTL
from tests.e2e.conftest import Plane
from tests.e2e.plane import Act
from tests.e2e.scene import NODES, Scene, condition_of, role, train

from grove.api import kinds, labels
from grove.meta import Key, Manifest

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not KUBECTL.exists(), reason="there is no kubectl; `make setup-dev` installs one"),
]

SLOW = {"embedded.grove.io/startup": "2s", "embedded.grove.io/shutdown": "2s"}


def workers(pods: int, needed: int, *, budget: bool = True) -> Manifest:
    """Workers of two to a node."""
    made = train({**role("worker", pods, gpus=4, minAvailable=needed), "annotations": SLOW})
    if budget:
        made["metadata"]["annotations"] = {labels.DISRUPTION_BUDGET: "MinAvailable"}
    return made


def ready(scene: Scene) -> int:
    return sum(condition_of(pod, "Ready").get("status") == "True" for pod in scene.pods())


def used(scene: Scene) -> list[str]:
    return sorted({pod["spec"]["nodeName"] for pod in scene.pods() if pod["spec"].get("nodeName")})


def hosts(scene: Scene) -> list[str]:
    return sorted(pod["spec"]["hostname"] for pod in scene.pods())


def budget_says(scene: Scene, field: str) -> int | None:
    found = scene.ledger.get(kinds.DISRUPTION_BUDGETS, "train-0-worker") or {}
    said = found.get("status", {}).get(field)
    return int(said) if said is not None else None


async def drained(act: Act, node: str, *, seconds: int = 60) -> tuple[int, str]:
    """`kubectl drain`: its exit code and everything that it said."""
    process = await asyncio.create_subprocess_exec(
        *(str(KUBECTL), "--kubeconfig", str(act.world.control.kubeconfig())),
        *("drain", node, "--ignore-daemonsets", f"--timeout={seconds}s"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode()


async def uncordon(scene: Scene, node: str) -> None:
    await scene.user.merge_patch(NODES, Key("", node), {"spec": {"unschedulable": None}})


async def start(scene: Scene, manifest: Manifest, pods: int) -> None:
    await scene.nodes(4)
    await scene.apply(manifest)
    await scene.until_running("train-0", pods)
    await scene.until(lambda: ready(scene) == pods, "all pods are ready")


class Fewest:
    """The fewest ready pods that the watches told of."""

    def __init__(self, scene: Scene) -> None:
        self.seen = ready(scene)
        self._scene = scene

    def look(self) -> bool:
        self.seen = min(self.seen, ready(self._scene))
        return True


async def while_counting(scene: Scene, act: Callable[[], Awaitable[None]]) -> int:
    """The fewest ready pods while something is done."""
    fewest = Fewest(scene)
    looking = asyncio.create_task(scene.ledger.holds(fewest.look, 600))
    try:
        await act()
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
    return fewest.seen


def test_kubectl_drain_waits_for_replacements_and_leaves_the_gang_its_minimum(plane: Plane) -> None:
    async def story(act: Act) -> None:
        scene = act.scene
        await start(scene, workers(4, 3), 4)
        await scene.until(lambda: budget_says(scene, "disruptionsAllowed") == 1, "the budget is counted")
        assert (budget_says(scene, "desiredHealthy"), budget_says(scene, "expectedPods")) == (3, 4)
        before = hosts(scene)
        said: list[str] = []

        async def drain_all() -> None:
            for node in used(scene):
                code, words = await drained(act, node)
                said.append(words)
                assert code == 0, words
                assert node not in used(scene)
                await uncordon(scene, node)
                await scene.until(lambda: ready(scene) == 4, "the replacements are ready", seconds=60)

        assert await while_counting(scene, drain_all) == 3
        assert hosts(scene) == before
        assert any("violate the pod's disruption budget" in each for each in said), said

    plane.play("drain", story, also=[kinds.DISRUPTION_BUDGETS])


def test_without_a_budget_kubectl_drain_takes_all_pods_of_a_node_and_the_gang_says_so(plane: Plane) -> None:
    async def story(act: Act) -> None:
        scene = act.scene
        await start(scene, workers(4, 3, budget=False), 4)
        before, node = hosts(scene), used(scene)[0]
        draining = asyncio.create_task(drained(act, node))
        await scene.until(
            lambda: bool(scene.condition(kinds.GANGS, "train-0", "DisruptionTarget")), "the gang says so"
        )
        said = scene.condition(kinds.GANGS, "train-0", "DisruptionTarget")
        assert said["reason"] == "EvictionByEvictionAPI"
        assert f"on node {node}: evicted through the API, as kubectl drain does" in said["message"]
        code, words = await draining
        assert code == 0, words
        await scene.until(lambda: ready(scene) == 4, "the pods are back", seconds=60)
        assert hosts(scene) == before
        assert node not in used(scene)
        await scene.until(
            lambda: not scene.condition(kinds.GANGS, "train-0", "DisruptionTarget"), "all is well again"
        )

    plane.play("undrained", story)


def test_a_gang_that_needs_all_of_its_pods_holds_a_drain_up_until_the_annotation_goes(plane: Plane) -> None:
    async def story(act: Act) -> None:
        scene = act.scene
        await start(scene, workers(2, 2), 2)
        await scene.until(lambda: budget_says(scene, "currentHealthy") == 2, "the budget is counted")
        before = {pod["metadata"]["uid"] for pod in scene.pods()}
        node = used(scene)[0]
        code, words = await drained(act, node, seconds=7)
        assert code != 0
        assert "violate the pod's disruption budget" in words
        assert {pod["metadata"]["uid"] for pod in scene.pods()} == before
        unasked = {"metadata": {"annotations": {labels.DISRUPTION_BUDGET: None}}}
        await scene.edit(kinds.CLIQUESETS, "train", unasked)
        await scene.until(lambda: not scene.ledger.all(kinds.DISRUPTION_BUDGETS), "the budget is gone")
        code, words = await drained(act, node)
        assert code == 0, words
        await scene.until(lambda: ready(scene) == 2, "the pods are back", seconds=60)

    plane.play("held", story, also=[kinds.DISRUPTION_BUDGETS])


def test_a_pod_that_a_budget_of_somebody_else_also_covers_cannot_be_evicted(plane: Plane) -> None:
    """What the documentation warns of, in the words of the API server."""

    async def story(act: Act) -> None:
        scene = act.scene
        await start(scene, workers(2, 1), 2)
        spec = {"minAvailable": 0, "selector": {"matchLabels": {labels.PART_OF: "train"}}}
        theirs = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "theirs"}}
        await scene.apply({**theirs, "spec": spec})
        code, words = await drained(act, used(scene)[0], seconds=7)
        assert code != 0
        assert "more than one PodDisruptionBudget" in words

    plane.play("doubled", story)
