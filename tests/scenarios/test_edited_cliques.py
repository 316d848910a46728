"""What the operator writes into a clique to remember it is put back where somebody edits it."""

import pytest
from tests.scenarios.stories import STAGES, events_about, gpu_role, pass_time, uid_of, until_running

from grove.api import kinds, labels
from grove.meta import Key
from grove.testing.portrait import Guard
from grove.testing.world import World, run_world

STAGE = STAGES["1.36"]


@pytest.mark.parametrize("edited", [None, "", "edited"])
def test_the_hash_label_of_a_clique_is_put_back_and_no_pod_restarts(edited: str | None) -> None:
    async def story(world: World) -> None:
        await world.apply(STAGE.cliqueset(cliques=[gpu_role("worker", 2, 1)]))
        await until_running(world, "train-0")
        await world.settle()
        guard, name = Guard(world.cluster), "train-0-worker"
        before = {uid_of(each) for each in await world.pods()}
        told = (await world.get(kinds.CLIQUES, name) or {})["metadata"]["labels"]
        change = {"metadata": {"labels": {labels.POD_TEMPLATE_HASH: edited}}}
        await world.user.merge_patch(kinds.CLIQUES, Key("default", name), change)
        await pass_time(60)
        assert (await world.get(kinds.CLIQUES, name) or {})["metadata"]["labels"] == told
        assert {uid_of(each) for each in await world.pods()} == before
        assert guard.broken == []
        told_of = {each["reason"] for each in await events_about(world, "PodCliqueSet", "train")}
        assert not told_of & {"UpdateStarted", "UpdateFinished"}

    run_world(story, STAGE.options)


@pytest.mark.parametrize("record", ["0", "9", "many", None])
def test_the_record_of_a_decided_minimum_is_put_back(record: str | None) -> None:
    async def story(world: World) -> None:
        await world.apply(STAGE.cliqueset(cliques=[gpu_role("worker", 2, 1)]))
        await until_running(world, "train-0")
        await world.settle()
        change = {"metadata": {"annotations": {labels.DECIDED_MINIMUM: record}}}
        await world.user.merge_patch(kinds.CLIQUES, Key("default", "train-0-worker"), change)
        await pass_time(60)
        clique = await world.get(kinds.CLIQUES, "train-0-worker") or {}
        assert clique["metadata"]["annotations"][labels.DECIDED_MINIMUM] == "2"
        assert clique["spec"]["minAvailable"] == 2
        told = (await world.get(kinds.CLIQUESETS, "train") or {})["status"]["conditions"]
        assert next(each["status"] for each in told if each["type"] == "Accepted") == "True"

    run_world(story, STAGE.options)
