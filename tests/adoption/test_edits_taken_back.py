"""Pods of the Go operator that never left their template are not replaced, whatever was edited meanwhile."""

import copy
from typing import Any

import pytest
from tests.adoption.go_sets import cliqueset, install, on_scheduler, role
from tests.adoption.go_shapes import GoSet
from tests.adoption.taking_over import CLUSTERS, by_name, identities, on_every_scheduler, take_over
from tests.scenarios.stories import pass_time

from grove.api import kinds, labels
from grove.meta import Key, Manifest
from grove.testing.world import World

TRAIN = Key("default", "train")
WORK = Key("default", "train-0-work")


async def adopted(world: World, taken: GoSet) -> dict[str, tuple[str, str]]:
    await install(world, taken)
    await world.start_operator()
    await world.settle()
    return await identities(world)


async def edit(world: World, image: str = "", strategy: str = "") -> None:
    """Another image of the role `work`, another strategy, or both."""
    spec: dict[str, Any] = {"updateStrategy": {"type": strategy}} if strategy else {}
    if image:
        cliques = copy.deepcopy(
            (await world.get(kinds.CLIQUESETS, "train") or {})["spec"]["template"]["cliques"]
        )
        cliques[1]["spec"]["podSpec"]["containers"][0]["image"] = f"registry.example.com/app:{image}"
        spec["template"] = {"cliques": cliques}
    await world.user.merge_patch(kinds.CLIQUESETS, TRAIN, {"spec": spec})


@on_every_scheduler
def test_an_edit_under_on_delete_that_is_taken_back(cluster: str) -> None:
    scheduler, options = CLUSTERS[cluster]

    async def story(world: World) -> None:
        before = await adopted(world, on_scheduler(scheduler))
        told = (await by_name(world, kinds.CLIQUES))["train-0-work"]["metadata"]["labels"]
        await edit(world, "2", "OnDelete")
        await world.settle()
        await edit(world, "1")
        await world.settle()
        clique = (await by_name(world, kinds.CLIQUES))["train-0-work"]
        assert clique["metadata"]["labels"] == told
        assert clique["status"]["updatedReplicas"] == clique["status"]["replicas"] == 3
        accepted = (await world.get(kinds.CLIQUESETS, "train") or {})["status"]["conditions"]
        assert not [each for each in accepted if "older template" in each.get("message", "")]
        await edit(world, strategy="RollingRecreate")
        await pass_time(300)
        assert await identities(world) == before

    take_over(story, options)


@on_every_scheduler
def test_a_rolling_update_that_is_taken_back_in_the_middle(cluster: str) -> None:
    scheduler, options = CLUSTERS[cluster]

    async def story(world: World) -> None:
        before = await adopted(world, on_scheduler(scheduler))
        await edit(world, "2")

        async def one_is_new() -> bool:
            return not set(before.values()) <= set((await identities(world)).values())

        await world.until(one_is_new, "a pod was replaced")
        await edit(world, "1")
        await pass_time(300)
        await world.settle()
        lost = set(before.values()) - set((await identities(world)).values())
        assert 1 <= len(lost) < 3, "one or two of three: the others never left their template"

    take_over(story, options)


@pytest.mark.parametrize("edited", [None, "", "edited"])
@pytest.mark.parametrize("running", [True, False], ids=["while the operator runs", "before it starts"])
def test_the_hash_label_of_an_adopted_clique_is_put_back(edited: str | None, running: bool) -> None:
    async def story(world: World) -> None:
        taken, change = on_scheduler("default-scheduler"), {labels.POD_TEMPLATE_HASH: edited}
        if running:
            before = await adopted(world, taken)
        else:
            await install(world, taken)
            before = await identities(world)
        told = (await by_name(world, kinds.CLIQUES))["train-0-work"]["metadata"]["labels"]
        await world.user.merge_patch(kinds.CLIQUES, WORK, {"metadata": {"labels": change}})
        if not running:
            await world.start_operator()
        await pass_time(300)
        found = (await by_name(world, kinds.CLIQUES))["train-0-work"]["metadata"]["labels"]
        assert found[labels.POD_TEMPLATE_HASH] == told[labels.POD_TEMPLATE_HASH]
        assert await identities(world) == before

    take_over(story)


def test_the_manifest_that_made_a_set_is_applied_again() -> None:
    """The Go operator's webhook stores quantities as texts; its users write numbers."""

    def of(gpus: object) -> Manifest:
        container = {"resources": {"limits": {"nvidia.com/gpu": gpus}}}
        return cliqueset("train", [role("work", 3, 2, container=container)])

    async def story(world: World) -> None:
        before = await adopted(world, GoSet(of("1")))
        change = {"spec": {"template": {"cliques": of(1)["spec"]["template"]["cliques"]}}}
        await world.user.merge_patch(kinds.CLIQUESETS, TRAIN, change)
        await pass_time(300)
        assert await identities(world) == before

    take_over(story)
