"""How long the deletion of other children waits for pods that end, and what ends the wait."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from grove.api import kinds
from grove.controllers.memory.endings import LONGEST_SECONDS, MANY_PODS, PAUSE_SECONDS, Endings
from grove.meta import Key
from grove.plan.changes import Delete
from grove.testing.virtual_time import run_virtual, virtual_clock

SET = Key("default", "train")
PODS = [f"pod-{number}" for number in range(MANY_PODS)]
LATER = (Delete(kinds.GANGS, Key("default", "train-0"), "a-gang"),)
Story = Callable[[Endings, list[Key]], Awaitable[None]]


def play(story: Story) -> None:
    """A story of many pods that have just been deleted, and of the sets that are looked at again."""

    async def main() -> None:
        endings, woken = Endings(virtual_clock()), list[Key]()
        endings.begin(SET, PODS, 1, woken.append)
        await story(endings, woken)

    run_virtual(main)


def test_a_few_pods_are_not_waited_for() -> None:
    async def story(endings: Endings, woken: list[Key]) -> None:
        other = Key("default", "small")
        endings.begin(other, PODS[1:], 1, woken.append)
        assert endings.wait(other) == 0.0
        assert not endings.waits(other)

    play(story)


def test_with_the_last_pod_the_set_is_looked_at_and_the_wait_is_over() -> None:
    async def story(endings: Endings, woken: list[Key]) -> None:
        for pod in PODS[:-1]:
            endings.gone(pod)
        assert (woken, endings.waits(SET)) == ([], True)
        endings.gone(PODS[-1])
        assert woken == [SET]
        assert endings.wait(SET) == 0.0
        assert not endings.waits(SET)

    play(story)


def test_pods_that_take_their_time_are_not_waited_for() -> None:
    async def story(endings: Endings, woken: list[Key]) -> None:
        assert endings.wait(SET) == pytest.approx(PAUSE_SECONDS)
        await asyncio.sleep(PAUSE_SECONDS)
        assert endings.wait(SET) == 0.0

    play(story)


def test_each_pod_that_goes_prolongs_the_wait_but_not_for_ever() -> None:
    async def story(endings: Endings, woken: list[Key]) -> None:
        step = PAUSE_SECONDS / 2
        waited = 0.0
        for pod in PODS:
            await asyncio.sleep(step)
            endings.gone(pod)
            if not endings.wait(SET):
                break
            waited += step
        assert waited == pytest.approx(LONGEST_SECONDS, abs=step)
        assert woken == []

    play(story)


def test_whoever_edits_the_set_gets_what_still_waits_and_gets_it_once() -> None:
    async def story(endings: Endings, woken: list[Key]) -> None:
        assert endings.wait(SET, LATER) > 0
        assert endings.interrupted(SET, 1) == ()
        assert endings.interrupted(SET, 2) == LATER
        assert endings.interrupted(SET, 3) == ()
        assert not endings.waits(SET)

    play(story)


def test_pods_of_one_set_say_nothing_about_another() -> None:
    async def story(endings: Endings, woken: list[Key]) -> None:
        other = Key("elsewhere", "train")
        endings.begin(other, [f"other-{number}" for number in range(MANY_PODS)], 1, woken.append)
        for number in range(MANY_PODS):
            endings.gone(f"other-{number}")
        assert woken == [other]
        assert endings.waits(SET)

    play(story)
