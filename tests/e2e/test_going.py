"""Foreground and orphan deletion of a set, beside Kubernetes' own garbage collector.

On the embedded cluster, with all that can go wrong: `tests/scenarios/test_going.py`.
"""

from __future__ import annotations

from typing import Final

import pytest
from tests.e2e.conftest import Plane
from tests.e2e.plane import Act
from tests.e2e.scene import Scene, role, slow

from grove.api import kinds, labels
from grove.meta import Key, Manifest
from grove.testing import make

pytestmark = pytest.mark.real

#: What the set has besides what every set leads to.
ALSO: Final = (
    kinds.SCALING_GROUPS,
    kinds.SERVICES,
    kinds.CONTROLLER_REVISIONS,
    kinds.AUTOSCALERS,
    kinds.DISRUPTION_BUDGETS,
)
#: For how long nothing may happen to what stays.
QUIET: Final = 5.0


def workload() -> Manifest:
    """Six pods in two gangs; those of the router take three seconds to end.

    The record of its template has characters that an API server escapes when it writes them itself.
    """
    router = slow("router", 2, 3)
    router["spec"]["podSpec"]["containers"][0]["command"] = ["sh", "-c", "load && serve < config"]
    router["spec"]["autoScalingConfig"] = {"maxReplicas": 3}
    group = make.scaling_group("dec", ["lead", "work"], replicas=2, minAvailable=1)
    budgets = {labels.DISRUPTION_BUDGET: "MinAvailable"}
    roles = [router, role("lead", 1), role("work", 1)]
    return make.cliqueset_manifest("train", roles, groups=[group], annotations=budgets)


async def start(scene: Scene) -> tuple[str, dict[str, Manifest]]:
    """The UID of a set that runs, and everything that belongs to it by UID."""
    await scene.nodes(6)
    await scene.apply(workload())
    await scene.until(lambda: scene.running("train-0", 4), "the base gang runs")
    await scene.until(lambda: scene.running("train-0-dec-0", 2), "the scaled gang runs")
    await scene.ledger.quiet(1.0)
    children = belongings(scene)
    assert {each["kind"] for each in children.values()} >= {
        each.kind for each in (*ALSO, *scene.judge.resources[1:])
    }
    return uid_of(scene.ledger.all(kinds.CLIQUESETS)[0]), children


def belongings(scene: Scene) -> dict[str, Manifest]:
    """Everything in the namespace that a set leads to, by UID."""
    followed = [each for each in scene.ledger.resources if each != kinds.CLIQUESETS]
    return {uid_of(item): {**item, "kind": each.kind} for each in followed for item in scene.ledger.all(each)}


def uid_of(item: Manifest) -> str:
    return str(item["metadata"]["uid"])


def owner_uids(item: Manifest) -> set[str]:
    return {each["uid"] for each in item["metadata"].get("ownerReferences", ())}


async def delete(scene: Scene, propagation: str) -> None:
    key = Key(scene.namespace, "train")
    await scene.user.delete(kinds.CLIQUESETS, key, propagation=propagation)


def test_a_set_that_is_deleted_in_the_foreground_goes_after_everything_that_belongs_to_it(
    plane: Plane,
) -> None:
    async def story(act: Act) -> None:
        scene = act.scene
        cliqueset, children = await start(scene)
        await delete(scene, "Foreground")
        await scene.until(
            lambda: not scene.ledger.all(kinds.CLIQUESETS) and not belongings(scene),
            "nothing is left",
            seconds=60,
        )
        ends = {uid_of(seen.object): seen.version for seen in scene.ledger.history if seen.type == "DELETED"}
        last = ends.pop(cliqueset)
        # Nothing was made meanwhile, either.
        assert ends.keys() == children.keys()
        early = [name_of(children[uid]) for uid, version in ends.items() if version > last]
        assert early == []
        for uid, child in children.items():
            if child["kind"] == kinds.PODS.kind:
                assert all(ends[uid] < ends[owner] for owner in owner_uids(child)), name_of(child)

    plane.play("foreground", story, also=ALSO)


def name_of(item: Manifest) -> str:
    return f"{item['kind']} {item['metadata']['name']}"


def test_what_belongs_to_an_orphaned_set_stays_and_its_pods_go_on_running(plane: Plane) -> None:
    async def story(act: Act) -> None:
        scene = act.scene
        cliqueset, children = await start(scene)

        def stays() -> bool:
            there = belongings(scene)
            going = [each for each in there.values() if "deletionTimestamp" in each["metadata"]]
            phases = {pod["status"]["phase"] for pod in scene.ledger.all(kinds.PODS)}
            return there.keys() == children.keys() and not going and phases == {"Running"}

        await delete(scene, "Orphan")
        await scene.until(lambda: not scene.ledger.all(kinds.CLIQUESETS), "the set is gone", seconds=60)
        await scene.until(
            lambda: not any(cliqueset in owner_uids(each) for each in belongings(scene).values()),
            "its children belong to nobody",
        )
        await scene.ledger.holds(stays, QUIET, scene.describe)
        await act.kill_operator()
        await act.start_operator()
        await scene.ledger.holds(stays, QUIET, scene.describe)
        for of in (kinds.SCALING_GROUPS, kinds.CLIQUES, kinds.GANGS):
            for each in scene.ledger.all(of):
                await scene.delete(of, each["metadata"]["name"])

    plane.play("orphan", story, also=ALSO)
