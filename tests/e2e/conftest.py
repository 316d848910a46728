"""Real control planes for end-to-end tests: one at a time, one per minor, only where they were asked for.

`make e2e` asks; without it, or where the programs are not installed, the tests say so and are skipped.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

pytest.register_assert_rewrite("tests.e2e.audit", "tests.e2e.laws", "tests.e2e.scenarios")

from tests.e2e.plane import Act, RealWorld  # noqa: E402 - after the line above, which must come first

from grove.real import MINORS, Locator, NotInstalled  # noqa: E402

ASKED = "GROVE_E2E_MINORS"
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
    def minor(self) -> str:
        return self.world.minor

    def run(self, what: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(what)

    def play(self, name: str, story: Callable[[Act], Awaitable[T]], *, operator: bool = True) -> T:
        """A story in a namespace of its own, with an operator unless told otherwise."""

        async def played() -> T:
            async with self.world.act(name, operator=operator) as act:
                return await story(act)

        return self.run(played())


def asked(minor: str) -> str:
    """The minor, or a skip that says what to do."""
    wanted = os.environ.get(ASKED, "")
    if not wanted:
        pytest.skip("end-to-end tests on real control planes run by `make e2e`")
    if minor not in wanted.split(","):
        pytest.skip(f"Kubernetes {minor} is not in ${ASKED}={wanted}")
    try:
        Locator().all_of(minor)
    except NotInstalled as missing:
        pytest.skip(str(missing))
    return minor


@pytest.fixture(scope="session", params=MINORS)
def plane(request: pytest.FixtureRequest) -> Iterator[Plane]:
    """The control plane of each minor in turn."""
    world = RealWorld(asked(request.param))
    with asyncio.Runner() as runner:
        runner.run(world.start())
        try:
            yield Plane(world, runner)
        finally:
            runner.run(world.stop())
