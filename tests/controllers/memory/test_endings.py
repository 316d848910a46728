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
        more = [f"pod-{number}" for number in range(int(2 * LONGEST_SECONDS / step))]
        endings.begin(SET, more, 1, woken.append)
        for pod in more:
            await asyncio.sleep(step)
            endings.gone(pod)
            if not endings.wait(SET):
                break
            waited += step
        assert waited == pytest.approx(LONGEST_SECONDS, abs=step)
        assert woken == [SET], "when the time is over, and not before"

    play(story)


def test_a_set_is_looked_at_when_the_time_is_over_even_if_the_last_look_failed_and_asked_for_nothing() -> (
    None
):
    async def story(endings: Endings, woken: list[Key]) -> None:
        assert endings.wait(SET, LATER) > 0
        await asyncio.sleep(PAUSE_SECONDS * 2)
        assert woken == [SET]

    play(story)


def test_pods_whose_deletion_failed_at_first_are_waited_for_too_and_not_longer() -> None:
    async def story(endings: Endings, woken: list[Key]) -> None:
        endings.begin(SET, ["late"], 1, woken.append)
        for pod in PODS:
            endings.gone(pod)
        assert (woken, endings.waits(SET)) == ([], True)
        endings.gone("late")
        assert woken == [SET]
        assert endings.wait(SET) == 0.0

    play(story)


def test_pods_of_a_second_deletion_do_not_shorten_the_wait_for_those_of_the_first() -> None:
    async def story(endings: Endings, woken: list[Key]) -> None:
        more = [f"more-{number}" for number in range(MANY_PODS)]
        endings.begin(SET, more, 1, woken.append)
        for pod in more:
            endings.gone(pod)
        assert (woken, endings.waits(SET)) == ([], True)

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
