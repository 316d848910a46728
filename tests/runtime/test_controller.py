"""The loop of a controller: outcomes, failures, concurrency and the way out."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

import pytest
from tests.runtime.fakes import FakeServer, pass_time

from grove.errors import (
    AlreadyExists,
    BackendFailed,
    Conflict,
    Forbidden,
    TooManyRequests,
    Unreachable,
    Unsupported,
    Waiting,
)
from grove.meta import Key
from grove.runtime import logs
from grove.runtime.cache import Cache
from grove.runtime.controller import Controller
from grove.runtime.metrics import Metrics
from grove.runtime.outcome import DONE, After, Outcome
from grove.testing.virtual_time import run_virtual, virtual_clock, virtual_loop

A, B = Key("ns", "a"), Key("ns", "b")


class Scene:
    """A controller with an empty cache; `times` are the moments of its reconciles."""

    def __init__(self, behave: Callable[[Key], Awaitable[Outcome]], *, workers: int = 2) -> None:
        self.times: list[float] = []
        self.metrics = Metrics()
        self.behave = behave
        self.controller = Controller(
            "test",
            self.reconcile,
            clock=virtual_clock(),
            cache=Cache(FakeServer(), virtual_clock()),
            workers=workers,
            metrics=self.metrics,
            rng=random.Random(0),
        )
        self.task = asyncio.create_task(self.controller.run())

    async def reconcile(self, key: Key) -> Outcome:
        self.times.append(round(virtual_loop().time(), 3))
        return await self.behave(key)

    def results(self, result: str) -> float:
        return self.metrics.value("grove_reconciles_total", controller="test", result=result)


async def done(key: Key) -> Outcome:
    return DONE


def raising(*errors: Exception) -> Callable[[Key], Awaitable[Outcome]]:
    """Raises each in turn, then is done."""
    left = list(errors)

    async def behave(key: Key) -> Outcome:
        if left:
            raise left.pop(0)
        return DONE

    return behave


def test_a_key_is_reconciled_once_for_many_wakeups() -> None:
    async def main() -> None:
        scene = Scene(done)
        for _ in range(5):
            scene.controller.enqueue(A)
        await pass_time(10)
        assert scene.times == [0.0]
        assert scene.results("done") == 1
        assert scene.metrics.value("grove_reconcile_seconds_count", controller="test") == 1
        assert scene.controller.idle

    run_virtual(main)


def test_after_means_a_look_at_that_time_unless_something_happens_before() -> None:
    async def main() -> None:
        async def later(key: Key) -> Outcome:
            return After(10, "2 of 8 pods missing")

        scene = Scene(later)
        scene.controller.enqueue(A)
        await pass_time(14)
        scene.controller.enqueue(A)
        await pass_time(11)
        assert scene.times == [0.0, 10.0, 14.0, 24.0]

    run_virtual(main)


def test_a_key_is_never_reconciled_concurrently_with_itself() -> None:
    async def main() -> None:
        running: dict[Key, int] = {}
        most: dict[Key, int] = {}
        together: list[int] = []

        async def slow(key: Key) -> Outcome:
            running[key] = running.get(key, 0) + 1
            most[key] = max(most.get(key, 0), running[key])
            together.append(sum(running.values()))
            await pass_time(1)
            running[key] -= 1
            return DONE

        scene = Scene(slow, workers=4)
        for _ in range(20):
            scene.controller.enqueue(A)
            scene.controller.enqueue(B)
            await pass_time(0.3)
        await pass_time(5)
        assert most == {A: 1, B: 1}
        assert max(together) == 2, "different keys do run together"

    run_virtual(main)


def test_a_terminal_failure_is_said_once_and_not_retried(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        scene = Scene(
            raising(Unsupported("no topology"), Unsupported("no topology"), Unsupported("no queue"))
        )
        for _ in range(3):
            scene.controller.enqueue(A)
            await pass_time(600)
        assert scene.times == [0.0, 600.0, 1200.0]
        assert scene.results("terminal") == 3
        assert scene.metrics.value("grove_reconcile_retries_total", controller="test") == 0

    with caplog.at_level(logging.DEBUG, "grove"):
        run_virtual(main)
    assert [vars(record)["error"] for record in caplog.records] == ["no topology", "no queue"]


@pytest.mark.parametrize(
    ("error", "level", "result"),
    [
        (Conflict("changed"), logging.DEBUG, "conflict"),
        (AlreadyExists("there"), logging.DEBUG, "conflict"),
        (Waiting("no such clique yet"), logging.DEBUG, "conflict"),
        (Unreachable("refused"), logging.INFO, "unavailable"),
        (TooManyRequests("slow down"), logging.INFO, "unavailable"),
        (Forbidden("may not"), logging.ERROR, "error"),
        (BackendFailed("acme", KeyError("x")), logging.ERROR, "error"),
        (ZeroDivisionError("a bug"), logging.ERROR, "error"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_other_failures_are_retried_and_logged_by_how_much_they_matter(
    error: Exception, level: int, result: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        scene = Scene(raising(error, error))
        scene.controller.enqueue(A)
        await pass_time(1)
        assert len(scene.times) == 3
        assert (scene.results(result), scene.results("done")) == (2, 1)
        assert scene.metrics.value("grove_reconcile_retries_total", controller="test") == 2

    with caplog.at_level(logging.DEBUG, "grove"):
        run_virtual(main)
    # What fails in the same way once more is no news.
    again = logging.DEBUG if level == logging.ERROR else level
    assert [record.levelno for record in caplog.records] == [level, again]
    # What the API server refused explains itself; a bug needs its stack.
    is_bug = isinstance(error, ZeroDivisionError | BackendFailed)
    assert all(bool(record.exc_info) == is_bug for record in caplog.records)


def test_a_key_that_keeps_failing_is_tried_ever_more_slowly() -> None:
    async def main() -> None:
        async def broken(key: Key) -> Outcome:
            raise Unreachable("refused")

        scene = Scene(broken)
        scene.controller.enqueue(A)
        await pass_time(3600)
        assert 60 < len(scene.times) < 150

    run_virtual(main)


def test_the_wait_that_the_server_asks_for_is_kept() -> None:
    async def main() -> None:
        scene = Scene(raising(TooManyRequests("slow down", retry_after=7)))
        scene.controller.enqueue(A)
        await pass_time(10)
        assert scene.times == [0.0, 7.0]

    run_virtual(main)


def test_something_cancelled_inside_a_reconcile_does_not_kill_the_worker() -> None:
    async def main() -> None:
        first = [True]

        async def awaits_a_cancelled_task(key: Key) -> Outcome:
            if first and first.pop():
                task = asyncio.create_task(pass_time(100))
                asyncio.get_running_loop().call_later(1, task.cancel)
                await task
            return DONE

        scene = Scene(awaits_a_cancelled_task, workers=1)
        scene.controller.enqueue(A)
        await pass_time(5)
        assert (scene.results("error"), scene.results("done")) == (1, 1)
        assert not scene.task.done()

    run_virtual(main)


def test_a_reconcile_that_never_waits_does_not_starve_the_others() -> None:
    async def main() -> None:
        scene = Scene(done, workers=1)
        for number in range(100):
            scene.controller.enqueue(Key("ns", str(number)))
        turns = 0
        while not scene.controller.idle or not scene.times:
            turns += 1
            await asyncio.sleep(0)
        assert turns > 50

    run_virtual(main)


def test_logs_within_a_reconcile_carry_controller_key_and_id() -> None:
    async def main() -> None:
        seen: list[dict[str, str]] = []

        async def look(key: Key) -> Outcome:
            await pass_time(1)
            seen.append(dict(logs.bound_fields()))
            return DONE

        scene = Scene(look)
        scene.controller.enqueue(A)
        scene.controller.enqueue(B)
        await pass_time(5)
        assert seen == [
            {"controller": "test", "key": "ns/a", "reconcile": "test-1"},
            {"controller": "test", "key": "ns/b", "reconcile": "test-2"},
        ]
        assert logs.bound_fields() == {}

    run_virtual(main)


@pytest.mark.parametrize(
    ("grace", "hurry", "finished", "ends"),
    [(10.0, False, True, 5.0), (2.0, False, False, 3.0), (10.0, True, False, 1.0)],
    ids=["finishes within the grace period", "is cancelled after it", "gets none in a hurry"],
)
def test_on_the_way_out_a_running_reconcile(grace: float, hurry: bool, finished: bool, ends: float) -> None:
    async def main() -> None:
        ended: list[Key] = []

        async def slow(key: Key) -> Outcome:
            await pass_time(5)
            ended.append(key)
            return DONE

        scene = Scene(slow, workers=1)
        scene.controller.grace = grace
        scene.controller.enqueue(A)
        scene.controller.enqueue(B)
        await pass_time(1)
        if hurry:
            scene.controller.hurry()
        scene.task.cancel()
        await asyncio.wait({scene.task})
        assert scene.task.cancelled()
        assert ended == ([A] if finished else []), "what had not begun does not begin"
        assert virtual_loop().time() == ends
        assert scene.results("cancelled") == (0 if finished else 1)

    run_virtual(main)


def test_hurry_cuts_a_grace_period_short() -> None:
    async def main() -> None:
        async def slow(key: Key) -> Outcome:
            await pass_time(50)
            return DONE

        scene = Scene(slow)
        scene.controller.enqueue(A)
        await pass_time(1)
        scene.task.cancel()
        await pass_time(1)
        scene.controller.hurry()
        await asyncio.wait({scene.task})
        assert virtual_loop().time() == 2.0

    run_virtual(main)


def test_a_namespace_with_many_keys_delays_another_by_a_few_reconciles() -> None:
    async def main() -> None:
        order: list[str] = []

        async def slowly(key: Key) -> Outcome:
            order.append(key.namespace)
            await asyncio.sleep(1)
            return DONE

        scene = Scene(slowly, workers=4)
        for number in range(20_000):
            scene.controller.enqueue(Key("large", str(number)))
        await pass_time(3.5)
        order.clear()
        scene.controller.enqueue(Key("small", "only"))
        await pass_time(0.1)
        assert order == ["small"], "all of the large one's workers are busy, and one is left"

    run_virtual(main)


def test_a_namespace_that_holds_its_workers_for_long_leaves_some_to_the_others() -> None:
    async def main() -> None:
        seen: list[Key] = []

        async def stuck(key: Key) -> Outcome:
            seen.append(key)
            await asyncio.sleep(3600 if key.namespace == "large" else 0)
            return DONE

        scene = Scene(stuck, workers=4)
        for number in range(10):
            scene.controller.enqueue(Key("large", str(number)))
        await pass_time(1)
        assert len(seen) == 4, "no more of one namespace at once than configured"
        for number in range(10):
            scene.controller.enqueue(Key("small", str(number)))
        await pass_time(1)
        assert sum(key.namespace == "small" for key in seen) == 10

    run_virtual(main)
