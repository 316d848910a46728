"""The operator dies at one write of a story and is started again: the end must be that of the undisturbed story."""

import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import pytest

from grove.embedded.faults import Fault
from grove.meta import Manifest, Resource
from grove.testing.portrait import Guard, portrait
from grove.testing.world import OPERATOR, World, WorldOptions, run_world

#: What happens to the world; calls its second argument wherever it waits until everything has settled.
Life = Callable[[World, Callable[[], Awaitable[None]]], Awaitable[None]]

#: Whether the write at which the operator dies took effect.
REACHED: Final = pytest.mark.parametrize(
    "reached", [False, True], ids=["before it took effect", "after it took effect"]
)


async def _nothing(world: World) -> None:
    pass


@dataclass(frozen=True, eq=False)
class Story:
    """What is crashed."""

    life: Life
    options: WorldOptions = field(default_factory=WorldOptions)
    #: Kinds that are compared in the end beside those that every set may have.
    objects: tuple[Resource, ...] = ()
    #: What the cluster gets before there is an operator.
    before: Callable[[World], Awaitable[None]] = _nothing
    #: What must hold in the end beside what is compared.
    after: Callable[[World], Awaitable[None]] = _nothing

    @functools.cached_property
    def undisturbed(self) -> tuple[Manifest, int]:
        """How the world looks when nothing goes wrong, and how many writes that took."""
        seen: list[tuple[Manifest, int]] = []

        async def run(world: World) -> None:
            await self.before(world)
            await world.start_operator()
            await self.life(world, world.settle)
            seen.append((await portrait(world, self.objects), world.writes()))

        run_world(run, self.options, operator=False)
        return seen[0]

    def dies_at(self, number: int, *, reached: bool) -> None:
        """The operator dies at this write, before or after it reached the store; the end must be the same."""
        want, _ = self.undisturbed

        async def run(world: World) -> None:
            guard = Guard(world.cluster)
            await self.before(world)
            death = world.cluster.faults.add(
                Fault("lose", verb="write", user=OPERATOR.name, skip=number - 1, times=1, after=reached)
            )
            await world.start_operator(dies_with_a_request=True)
            await self.life(world, functools.partial(restart_when_dead, world, death))
            assert await portrait(world, self.objects) == want
            assert guard.broken == []
            await self.after(world)

        run_world(run, self.options, operator=False)


async def restart_when_dead(world: World, death: Fault) -> None:
    await world.settle()
    if death.happened and world.operator_died:
        await world.kill_operator()
        world.cluster.faults.clear()
        await world.start_operator()
        await world.settle()
