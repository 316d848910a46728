"""How long floods of events are gathered, and when the operator counts as busy."""

import asyncio

import pytest

from grove.api import kinds
from grove.controllers.apply import NO_BARRIER
from grove.controllers.pacing import (
    BUSY_WRITES,
    SETTLE_SECONDS,
    STARTING_SECONDS_LEAST,
    STARTING_SECONDS_MOST,
    TRAFFIC_SECONDS,
    TRAFFIC_STEPS,
    PodTraffic,
    StatusThrottle,
    WriteLoad,
    debounce_children,
    debounce_pods,
    debounce_status,
)
from grove.meta import Key
from grove.plan.urgency import Urgency
from grove.runtime.clock import Clock
from grove.testing import make
from grove.testing.virtual_time import run_virtual, virtual_clock


@pytest.mark.parametrize(
    ("own", "all_pods", "seconds"),
    [(1, 1, 0.01052), (2, 1000, 0.031), (1000, 1000, 0.5), (8, 100_000, 0.114)],
)
def test_the_pods_of_a_gang_are_gathered_for_longer_the_more_there_are(
    own: int, all_pods: int, seconds: float
) -> None:
    assert debounce_pods(own, all_pods) == pytest.approx(seconds)


@pytest.mark.parametrize(("own", "all_pods", "seconds"), [(2, 2, 0.2), (2, 1000, 0.5), (2, 100_000, 1.0)])
def test_what_only_shows_in_a_status_is_gathered_for_longer(own: int, all_pods: int, seconds: float) -> None:
    assert debounce_status(own, all_pods) == pytest.approx(seconds)


@pytest.mark.parametrize(("gangs", "seconds"), [(0, 0.0), (500, 0.2), (100_000, 2.0)])
def test_the_children_of_a_set_are_gathered_for_longer_the_more_gangs_it_has(
    gangs: int, seconds: float
) -> None:
    assert debounce_children(gangs) == pytest.approx(seconds)


def test_listeners_hear_once_that_the_operator_is_no_longer_busy() -> None:
    load, heard = WriteLoad(), []
    load.subscribe(lambda: heard.append(load.busy))
    for _ in range(BUSY_WRITES + 2):
        load.began()
    assert load.busy
    for _ in range(BUSY_WRITES + 2):
        load.ended()
    assert heard == [False]


WAITING, PLACED = make.pod(), make.pod(node="node-0")
READY = make.pod(node="node-0", phase="Running", ready=True)


def placing(clock: Clock, pods: int = TRAFFIC_STEPS) -> PodTraffic:
    """So many pods that appeared and are placed now."""
    traffic = PodTraffic(clock)
    for _ in range(pods):
        traffic.saw(None, WAITING)
    for _ in range(pods):
        traffic.saw(WAITING, PLACED)
    return traffic


def test_pods_that_get_further_one_after_the_other_are_no_heavy_traffic() -> None:
    async def story() -> None:
        traffic = placing(virtual_clock(), 1)
        for _ in range(2 * TRAFFIC_STEPS):
            traffic.saw(WAITING, PLACED)
            await asyncio.sleep(TRAFFIC_SECONDS / 4)
        assert not traffic.heavy("default")
        for _ in range(TRAFFIC_STEPS):
            traffic.saw(WAITING, PLACED)
        assert traffic.heavy("default")

    run_virtual(story)


def test_the_pods_of_one_namespace_are_no_traffic_in_another() -> None:
    async def story() -> None:
        traffic = placing(virtual_clock())
        assert traffic.heavy("default")
        assert not traffic.heavy("other")

    run_virtual(story)


def test_traffic_is_over_with_the_last_pod_that_gets_ready() -> None:
    async def story() -> None:
        traffic = placing(virtual_clock())
        for _ in range(TRAFFIC_STEPS - 1):
            traffic.saw(PLACED, READY)
        assert traffic.goes_on("default")
        traffic.saw(PLACED, READY)
        assert not traffic.goes_on("default")

    run_virtual(story)


def test_traffic_is_over_with_the_last_pod_that_goes() -> None:
    async def story() -> None:
        traffic = placing(virtual_clock())
        for _ in range(TRAFFIC_STEPS):
            traffic.saw(PLACED, None)
        assert not traffic.heavy("default")

    run_virtual(story)


def test_traffic_is_over_when_pods_get_no_further() -> None:
    async def story() -> None:
        traffic = placing(virtual_clock())
        await asyncio.sleep(TRAFFIC_SECONDS + 0.1)
        assert not traffic.heavy("default")

    run_virtual(story)


def held(others: int, namespace: str, urgency: Urgency) -> float:
    """For how long the status of a gang is held beside so many others of that namespace, as pods are placed."""
    throttle = StatusThrottle(virtual_clock(), placing(virtual_clock()), WriteLoad())
    for number in range(others):
        throttle.wait((kinds.GANGS, Key(namespace, f"other-{number}")), NO_BARRIER, Urgency.DEFERRED)
    return throttle.wait((kinds.GANGS, Key("default", "mine")), NO_BARRIER, urgency)


def test_statuses_that_wait_in_one_namespace_hold_those_of_it_for_longer_and_no_others() -> None:
    async def story() -> None:
        assert held(200, "default", Urgency.STARTING) == STARTING_SECONDS_MOST
        assert held(200, "elsewhere", Urgency.STARTING) == STARTING_SECONDS_LEAST
        assert held(200, "default", Urgency.SETTLED) > SETTLE_SECONDS
        assert held(200, "elsewhere", Urgency.SETTLED) == SETTLE_SECONDS

    run_virtual(story)


def test_statuses_that_were_written_hold_nothing_any_more() -> None:
    async def story() -> None:
        throttle = StatusThrottle(virtual_clock(), placing(virtual_clock()), WriteLoad())
        for number in range(200):
            subject = kinds.GANGS, Key("default", f"other-{number}")
            throttle.wait(subject, NO_BARRIER, Urgency.DEFERRED)
            throttle.written(subject)
        mine = kinds.GANGS, Key("default", "mine")
        assert throttle.wait(mine, NO_BARRIER, Urgency.STARTING) == STARTING_SECONDS_LEAST

    run_virtual(story)
