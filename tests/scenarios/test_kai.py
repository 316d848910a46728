"""KAI of a release that cannot be told when a gang is stale: what its gangs say, and what saying it costs."""

from tests.scenarios.stories import STAGES, gpu_role, until_running
from tests.scenarios.test_writes import written

from grove.api import kinds
from grove.backends.kai.backend import PODGROUPS
from grove.meta import Key
from grove.testing.world import CRDS, World, run_world

STAGE = STAGES["kai"]


async def become_old(world: World) -> None:
    """The definition of KAI's PodGroup as 0.12 has it: without the field."""
    key = Key("", str(PODGROUPS))
    found = await world.user.get(CRDS, key, type=dict)
    [version] = found["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    del spec["properties"]["stalenessGracePeriod"]
    del spec["x-kubernetes-preserve-unknown-fields"]
    await world.user.merge_patch(CRDS, key, {"spec": {"versions": [version]}})


async def loss(world: World) -> str:
    told = await world.condition("train-0", "TranslationLoss")
    return str(told.get("message", ""))


async def live(world: World) -> None:
    """A gang is placed, loses a pod, and gets it back."""
    await world.start_operator()
    await world.apply(STAGE.cliqueset("train", cliques=[gpu_role("worker", 2)]))
    await until_running(world, "train-0")
    await world.settle()
    [lost, _] = await world.pods()
    await world.user.delete(kinds.PODS, Key("default", lost["metadata"]["name"]))
    await world.settle()
    await until_running(world, "train-0")
    await world.settle()


def test_a_gang_of_a_kai_without_the_field_says_so_and_one_of_another_does_not() -> None:
    async def old(world: World) -> None:
        await become_old(world)
        await live(world)
        assert (await loss(world)).startswith("staleness approximated: this release of KAI has no ")
        [podgroup] = await world.all(PODGROUPS)
        assert "stalenessGracePeriod" not in podgroup["spec"]

    async def new(world: World) -> None:
        await live(world)
        assert await loss(world) == ""

    run_world(old, STAGE.options, operator=False)
    run_world(new, STAGE.options, operator=False)


def test_it_says_so_in_the_writes_that_every_gang_costs() -> None:
    counted: list[dict[str, int]] = []

    async def story(world: World) -> None:
        await live(world)
        counted.append(written(world))

    async def old(world: World) -> None:
        await become_old(world)
        await story(world)

    run_world(old, STAGE.options, operator=False)
    run_world(story, STAGE.options, operator=False)
    before, now = counted[1], counted[0]
    # The minimum goes down and up again: that is what the condition tells about.
    assert now == {**before, "apply podgroups": now["apply podgroups"]}
    assert now["apply podgroups"] <= before["apply podgroups"] + 2
