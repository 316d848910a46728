"""`grove rollout status --watch` ends, whatever happens between and during its requests.

Nobody but the test writes the set. Time is virtual, so that a wait without an end is seen as one.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from grove.api import kinds
from grove.cli.rollout_cluster import followed, set_name
from grove.cli.talk import Failed
from grove.embedded.faults import Fault
from grove.errors import Unreachable
from grove.meta import Key, Manifest
from grove.testing import make
from grove.testing.world import USER, World, run_world
from grove.view.rollout import RolloutView

KEY = Key("default", "train")
ENDED = "2026-01-01T00:01:00Z"
#: The longest that any of these may go on, in virtual seconds.
LONGEST = 900.0

Story = Callable[[World, "Watching"], Awaitable[None]]


class Watching:
    """A command that watches the update of the set."""

    def __init__(self, world: World) -> None:
        self.shown: list[RolloutView] = []
        self._task = asyncio.create_task(followed(world.user, KEY, self.shown.append, 0))

    async def ended(self) -> RolloutView:
        return await asyncio.wait_for(self._task, LONGEST)

    async def failed(self, with_: type[Exception] = Failed) -> str:
        with pytest.raises(with_) as raised:
            await self.ended()
        return str(raised.value)

    @property
    def goes_on(self) -> bool:
        return not self._task.done()


async def write_status(world: World, *, ended: bool) -> None:
    progress = {"updateStartedAt": "2026-01-01T00:00:00Z", "updateEndedAt": ENDED if ended else None}
    status: Manifest = {"observedGeneration": 1, "updatedReplicas": int(ended), "updateProgress": progress}
    await world.user.merge_patch(kinds.CLIQUESETS, KEY, {"status": status}, subresource="status")


async def create(world: World, *, ended: bool = False) -> None:
    await world.user.create(kinds.CLIQUESETS, make.cliqueset_manifest("train"))
    await write_status(world, ended=ended)


def watched(story: Story, *faults: Fault) -> None:
    """A story about a set whose update goes on, seen by a command that has begun to watch it."""

    async def main(world: World) -> None:
        await create(world)
        for fault in faults:
            fault.user = USER.name
            world.cluster.faults.add(fault)
        watching = Watching(world)
        await asyncio.sleep(0.5)
        assert watching.goes_on
        await story(world, watching)

    run_world(main, operator=False)


def test_an_update_that_ends_while_it_is_watched() -> None:
    async def story(world: World, watching: Watching) -> None:
        await write_status(world, ended=True)
        assert (await watching.ended()).finished
        assert [view.finished for view in watching.shown] == [False, True]

    watched(story)


@pytest.mark.parametrize(
    "fault",
    [
        Fault("lose", verb="watch", times=3),
        Fault("lose", verb="list", times=8),
        Fault("gone", verb="watch", times=3),
        Fault("drop", times=1),
        Fault("stall", times=1),
    ],
    ids=["no watch is opened", "the list is lost", "410 Gone", "the watch breaks", "the watch falls silent"],
)
def test_an_update_that_ends_while_the_connection_is_lost(fault: Fault) -> None:
    async def story(world: World, watching: Watching) -> None:
        assert fault.happened
        await write_status(world, ended=True)
        assert (await watching.ended()).finished

    watched(story, fault)


def test_an_update_that_ends_between_the_first_look_and_the_watch() -> None:
    async def story(world: World) -> None:
        await create(world)
        lost = world.cluster.faults.add(Fault("lose", verb="list", user=USER.name))
        watching = Watching(world)
        await asyncio.sleep(3)
        assert lost.happened
        await write_status(world, ended=True)
        world.cluster.faults.clear()
        assert (await watching.ended()).finished

    run_world(story, operator=False)


def test_a_set_that_is_deleted_while_it_is_watched() -> None:
    async def story(world: World, watching: Watching) -> None:
        await world.user.delete(kinds.CLIQUESETS, KEY)
        assert await watching.failed() == "PodCliqueSet default/train was deleted"

    watched(story)


def test_a_set_that_waits_for_a_finalizer_is_updated_no_more() -> None:
    async def story(world: World, watching: Watching) -> None:
        held = {"metadata": {"finalizers": ["example.com/held"]}}
        await world.user.merge_patch(kinds.CLIQUESETS, KEY, held)
        await world.user.delete(kinds.CLIQUESETS, KEY)
        assert await watching.failed() == "PodCliqueSet default/train is being deleted"

    watched(story)


@pytest.mark.parametrize("ended", [False, True])
def test_a_set_that_is_made_again_under_its_name_is_another_one(ended: bool) -> None:
    async def story(world: World, watching: Watching) -> None:
        await asyncio.sleep(3)
        await world.user.delete(kinds.CLIQUESETS, KEY)
        await create(world, ended=ended)
        world.cluster.faults.clear()
        assert await watching.failed() == "PodCliqueSet default/train was deleted"

    watched(story, Fault("lose", verb="watch"))


def test_a_server_that_never_answers_again_is_not_waited_for() -> None:
    async def story(world: World, watching: Watching) -> None:
        world.cluster.faults.add(Fault("lose", user=USER.name))
        await watching.failed(Unreachable)

    watched(story, Fault("lose", verb="watch"))


@pytest.mark.parametrize(
    "text", ["a", "pcs/a", "podcliqueset/a", "PodCliqueSets/a", "podcliqueset.grove.io/a"]
)
def test_a_set_may_be_named_with_its_kind(text: str) -> None:
    assert set_name(text) == "a"


@pytest.mark.parametrize("text", ["pod/a", "default/a", "x/pcs/a"])
def test_another_kind_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(Failed, match="give the name of the set alone"):
        set_name(text)
