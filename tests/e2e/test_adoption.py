"""Sets in the Go operator's shape are taken over on a real API server: no pod ends, no template is written.

The objects are those of `tests.adoption`; they are in the namespace that they were written down for.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.adoption.go_pods import NAMESPACE
from tests.adoption.go_sets import SETS, create, is_ready
from tests.cli.processes import LAUNCH
from tests.e2e.conftest import Plane
from tests.e2e.ledger import Ledger
from tests.e2e.plane import OPERATOR, Act
from tests.e2e.scene import PRIORITY_CLASSES

from grove.api import kinds
from grove.meta import Key

pytestmark = pytest.mark.real

#: What needs a driver that is not there, or an init container that is the Go operator's program.
_WITHOUT = frozenset({"linked", "ordered", "explicit"})
#: Minors whose scheduler cannot place a gang whose pods share a claim: there such a set is refused.
_APART = ("1.35", "1.37")
NODES = 6
#: For so long nothing may be written, in seconds.
SILENCE = 5.0


def templates(ledger: Ledger) -> dict[str, tuple[Any, ...]]:
    """By the name of each clique, everything from which its pods are made."""
    return {
        each["metadata"]["name"]: (
            each["metadata"]["uid"],
            each["metadata"]["generation"],
            each["metadata"]["labels"],
            each["spec"],
        )
        for each in ledger.all(kinds.CLIQUES)
    }


def pods(ledger: Ledger) -> dict[str, tuple[str, Any]]:
    """By the name of each pod, its UID and all that is asked of it; those that go are missing."""
    return {
        each["metadata"]["name"]: (each["metadata"]["uid"], each["spec"])
        for each in ledger.all(kinds.PODS)
        if "deletionTimestamp" not in each["metadata"]
    }


def unready(ledger: Ledger) -> str:
    """What the pods that are not ready say of themselves."""
    found = [pod for pod in ledger.all(kinds.PODS) if not is_ready(pod)]
    return "\n".join(f"{pod['metadata']['name']} {pod['status']}" for pod in found)


async def planned(act: Act) -> tuple[int | None, str]:
    """How `grove upgrade plan` ends, and what it says."""
    arguments = ("upgrade", "plan", "-n", NAMESPACE, "--kubeconfig", str(act.world.control.kubeconfig()))
    process = await asyncio.create_subprocess_exec(
        *LAUNCH, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    return process.returncode, said.decode()


async def taken_over(act: Act) -> None:
    scene, audit = act.scene, act.world.audit
    without = _WITHOUT | {"sharing"} if scene.judge.name in _APART else _WITHOUT
    taken = [each for name, each in SETS.items() if name not in without]
    followed = (*scene.judge.resources, kinds.SCALING_GROUPS)
    async with Ledger(scene.user, *followed, namespace=NAMESPACE) as ledger:
        try:
            await create(scene.user, NODES, *taken)
            await ledger.until(
                lambda: not unready(ledger), "every pod is ready", seconds=120, tell=lambda: unready(ledger)
            )
            await ledger.quiet(1.0)
            before, made_from = pods(ledger), templates(ledger)
            code, said = await planned(act)
            assert code == 0, said
            assert f"0 of {len(before)} pods on nodes would restart" in said
            assert audit.asked(NAMESPACE, OPERATOR) == []
            await act.start_operator()
            await ledger.until(
                lambda: all(
                    (each.get("status") or {}).get("phase") == "Running" for each in ledger.all(kinds.GANGS)
                ),
                "every gang says that it runs",
                seconds=120,
            )
            await ledger.quiet(SILENCE)
            assert pods(ledger) == before
            assert templates(ledger) == made_from
            written = audit.asked(NAMESPACE, OPERATOR)
            assert written
            assert [each for each in written if each.startswith("delete pods/")] == []
            await asyncio.sleep(SILENCE)
            assert audit.asked(NAMESPACE, OPERATOR) == written, "and then nothing is written any more"
            for each in ledger.all(kinds.CLIQUESETS):
                assert each["status"]["availableReplicas"] == each["spec"]["replicas"], each["metadata"]
                assert "finalizers" not in each["metadata"]
        finally:
            if not act.operators:
                # Nobody else takes the finalizers off.
                await act.start_operator()
            for each in ledger.all(kinds.CLIQUESETS):
                await scene.user.delete(kinds.CLIQUESETS, Key(NAMESPACE, each["metadata"]["name"]))
            await ledger.until(lambda: not ledger.all(kinds.PODS), "the pods go with their sets", seconds=60)


def test_sets_of_the_go_operator_are_taken_over_without_touching_a_pod(plane: Plane) -> None:
    async def story(act: Act) -> None:
        await act.scene.nodes(NODES)
        await act.scene.apply(
            {
                "apiVersion": PRIORITY_CLASSES.api_version,
                "kind": PRIORITY_CLASSES.kind,
                "metadata": {"name": "urgent"},
                "value": 1000,
            }
        )
        await taken_over(act)

    plane.play("taken-over", story, operator=False)
