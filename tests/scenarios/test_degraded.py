"""What cannot be written or kept up is told by a condition of the set, and shown by `kubectl get pcs`."""

import pytest
from tests.embedded.bare_cluster import json_of, send
from tests.scenarios.stories import STAGES, refusal, set_condition, until_running

from grove.api import kinds, labels
from grove.meta import Key, Manifest
from grove.testing import make
from grove.testing.world import World, run_world

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
SETS = "/apis/grove.io/v1alpha1/namespaces/default/podcliquesets"


async def shown(world: World) -> dict[str, object]:
    """The row of the only set as `kubectl get pcs` shows it."""
    table = json_of(await send(world.cluster, "GET", SETS, headers={"accept": TABLE}))
    (row,) = table["rows"]
    columns = [
        (column["name"], cell) for column, cell in zip(table["columnDefinitions"], row["cells"], strict=True)
    ]
    narrow = {column["name"] for column in table["columnDefinitions"] if not column["priority"]}
    return {name: cell for name, cell in columns if name in narrow}


def service(name: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"ports": [{"port": 80}]},
    }


def test_a_running_set_has_no_empty_column() -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}))
        await until_running(world, "train-0")
        await world.settle()
        row = await shown(world)
        assert list(row) == [
            "Name",
            "Replicas",
            "Available",
            "Scheduled",
            "Updated",
            "Accepted",
            "Age",
            "Reason",
        ]
        assert all(cell not in (None, "") for cell in row.values())
        assert (row["Accepted"], row["Reason"]) == ("True", "1 of 1 replicas are available")

    run_world(story)


def test_a_refused_set_is_recognised_at_one_glance() -> None:
    async def story(world: World) -> None:
        roles = [make.template("a", 1, pod={"nodeName": "node-0"})]
        await world.apply(make.cliqueset_manifest("train", roles))
        await refusal(world, "train")
        row = await shown(world)
        assert row["Accepted"] == "False"
        assert "refused: spec.template.cliques[0]" in str(row["Reason"])

    run_world(story)


def test_a_running_set_whose_edit_is_refused_says_both() -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}))
        await until_running(world, "train-0")
        spoiled: Manifest = {"metadata": {"annotations": {labels.SCHEDULER_BACKEND: "slurm"}}}
        await world.user.merge_patch(kinds.CLIQUESETS, Key("default", "train"), spoiled)
        await world.settle()
        row = await shown(world)
        assert (row["Accepted"], row["Available"]) == ("False", 1)
        assert str(row["Reason"]).startswith("1 of 1 replicas are available; refused: metadata.annotations")

    run_world(story)


def test_a_service_of_somebody_else_is_told_by_the_set_until_it_is_gone() -> None:
    async def story(world: World) -> None:
        await world.apply(service("train-0"), make.cliqueset_manifest("train", {"worker": 2}))
        await world.until(lambda: degraded(world), "the set says so", seconds=5)
        told = await set_condition(world, "train", "Degraded")
        assert (told["status"], told["reason"]) == ("True", "NameTaken")
        assert "Service default/train-0 already exists" in told["message"]
        assert "Service default/train-0 already exists" in str((await shown(world))["Reason"])
        await world.user.delete(kinds.SERVICES, Key("default", "train-0"))
        await until_running(world, "train-0")
        await world.settle()
        assert await set_condition(world, "train", "Degraded") == {}

    run_world(story)


def test_a_clique_of_somebody_else_is_not_counted_for_the_gang() -> None:
    async def story(world: World) -> None:
        foreign = make.clique_manifest("train-0-worker", 5)
        await world.apply(foreign, make.cliqueset_manifest("train", {"worker": 2, "router": 1}))
        await world.settle()
        told = await world.condition("train-0", "Initialized")
        assert told["message"] == "1 of 1 pods exist; 1 of 2 cliques do not exist yet"
        await world.user.delete(kinds.CLIQUES, Key("default", "train-0-worker"))
        await until_running(world, "train-0")

    run_world(story)


async def degraded(world: World) -> bool:
    return bool(await set_condition(world, "train", "Degraded"))


def test_a_running_gang_whose_objects_cannot_be_kept_up_is_told_by_the_set() -> None:
    async def story(world: World) -> None:
        await world.apply(STAGES["kai"].cliqueset(cliques={"worker": 2}))
        await until_running(world, "train-0")
        spoiled: Manifest = {
            "spec": {
                "topologyConstraintGroupConfigs": [{"name": "g", "podGroupNames": ["nobody"]}],
            }
        }
        await world.user.merge_patch(kinds.GANGS, Key("default", "train-0"), spoiled)
        await world.until(lambda: degraded(world), "the set says so", seconds=10)
        told = await set_condition(world, "train", "Degraded")
        assert told["reason"] == "SyncFailed"
        assert "gang train-0: " in told["message"]
        assert "'nobody', which the gang lacks" in told["message"]
        assert await world.phase("train-0") == "Running"

    run_world(story, STAGES["kai"].options)


def test_a_refusal_of_many_pods_is_told_once_with_their_number() -> None:
    quota: Manifest = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few"},
        "spec": {"hard": {"pods": "0"}},
    }

    async def story(world: World) -> None:
        await world.apply(quota, make.cliqueset_manifest("train", {"worker": 5}))
        await world.until(lambda: degraded(world), "the set says so", seconds=30)
        clique = await world.get(kinds.CLIQUES, "train-0-worker")
        assert clique is not None
        (error,) = clique["status"]["lastErrors"]
        assert error["description"].count("exceeded quota") == 1
        assert error["description"].endswith("(4 more Pods alike)")
        told = await set_condition(world, "train", "Degraded")
        assert told["message"].count("exceeded quota") == 1
        waiting = await world.condition("train-0", "Initialized")
        assert waiting["message"].count("exceeded quota") == 1

    run_world(story)


@pytest.mark.parametrize("asked", ["no such backend!", "x" * 64, "-kai"])
def test_a_gang_without_a_set_that_asks_for_an_impossible_backend_says_so(asked: str) -> None:
    async def story(world: World) -> None:
        gang = make.gang_manifest("solo", {"solo-worker": 2}, annotations={labels.SCHEDULER_BACKEND: asked})
        await world.apply(gang)
        await world.until(lambda: scheduled(world), "the gang says so", seconds=10)
        told = await world.condition("solo", "Scheduled")
        assert (told["status"], told["reason"]) == ("False", "BackendNotEnabled")
        assert f"{asked!r}: scheduler backend is not enabled in Grove; enabled:" in told["message"]

    run_world(story)


async def scheduled(world: World) -> bool:
    return bool(await world.condition("solo", "Scheduled"))
