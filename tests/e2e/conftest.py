"""Real control planes for end-to-end tests: one at a time, one per minor, only where they were asked for.

`make e2e` asks; without it, or where the programs are not installed, the tests say so and are skipped.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

pytest.register_assert_rewrite("tests.e2e.audit", "tests.e2e.laws", "tests.e2e.remade", "tests.e2e.scenarios")

from tests.e2e.judges import JUDGES, MINORS, OTHERS, Judge  # noqa: E402 - after the line above
from tests.e2e.plane import Act, RealWorld  # noqa: E402

from grove.meta import Resource  # noqa: E402
from grove.real import Locator, NotInstalled  # noqa: E402
from grove.real.third_party import third_party  # noqa: E402
from grove.real.versions import SCHEDULER  # noqa: E402

ASKED = "GROVE_E2E_MINORS"
ASKED_OTHERS = "GROVE_E2E_SCHEDULERS"
T = TypeVar("T")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record", action="store_true", help="write what real control planes did to tests/e2e/recorded"
    )


@dataclass(frozen=True, slots=True)
class Plane:
    """A prepared control plane and the event loop that it lives in."""

    world: RealWorld
    runner: asyncio.Runner

    @property
    def judge(self) -> Judge:
        return self.world.judge

    def run(self, what: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(what)

    def play(
        self,
        name: str,
        story: Callable[[Act], Awaitable[T]],
        *,
        operator: bool = True,
        also: Sequence[Resource] = (),
    ) -> T:
        """A story in a namespace of its own, with an operator unless told otherwise; `also` is followed, too."""

        async def played() -> T:
            async with self.world.act(name, operator=operator, also=also) as act:
                return await story(act)

        return self.run(played())


def asked(minor: str) -> Judge:
    """The judge of a minor, or a skip that says what to do."""
    wanted = os.environ.get(ASKED, "")
    if not wanted:
        pytest.skip("end-to-end tests on real control planes run by `make e2e`")
    if minor not in wanted.split(","):
        pytest.skip(f"Kubernetes {minor} is not in ${ASKED}={wanted}")
    try:
        Locator().all_of(minor)
    except NotInstalled as missing:
        pytest.skip(str(missing))
    return JUDGES[minor]


def asked_other(name: str) -> Judge:
    """The judge that is a scheduler of others, or a skip that says what to do."""
    wanted = os.environ.get(ASKED_OTHERS, "").replace("all", ",".join(OTHERS))
    if name not in wanted.split(","):
        pytest.skip(f"scenarios with {name} run by `make e2e SCHEDULERS={name}`")
    judge = JUDGES[name]
    try:
        Locator().all_of(judge.minor, without=frozenset({SCHEDULER}))
        Locator().third_party(third_party(name))
    except NotInstalled as missing:
        pytest.skip(str(missing))
    return judge


def asked_beside(minor: str) -> list[Judge]:
    """The judges of the schedulers of others that were asked for, are installed and run on a minor."""
    wanted = os.environ.get(ASKED_OTHERS, "").replace("all", ",".join(OTHERS)).split(",")
    found = [third_party(name) for name in OTHERS if name in wanted and minor in third_party(name).minors]
    for each in found:
        try:
            Locator().third_party(each)
        except NotInstalled as missing:
            pytest.skip(str(missing))
    return [JUDGES[each.name] for each in found]


@pytest.fixture(scope="session", params=MINORS)
def plane(request: pytest.FixtureRequest) -> Iterator[Plane]:
    """The control plane of each minor in turn."""
    yield from _running(asked(request.param))


@pytest.fixture(scope="session", params=OTHERS)
def other_plane(request: pytest.FixtureRequest) -> Iterator[Plane]:
    """A control plane with each scheduler of others in turn."""
    yield from _running(asked_other(request.param))


def _running(judge: Judge) -> Iterator[Plane]:
    world = RealWorld(judge)
    with asyncio.Runner() as runner:
        runner.run(world.start())
        try:
            yield Plane(world, runner)
        finally:
            runner.run(world.stop())
