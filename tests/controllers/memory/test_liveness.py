"""Before something is created once more for an object, the API server is asked whether it still exists."""

import asyncio
from typing import cast

import pytest
from msgspec.structs import replace

from grove.api import kinds
from grove.controllers.memory.liveness import Liveness
from grove.errors import NotFound
from grove.kube.client import Client
from grove.meta import Key, Object, Resource
from grove.testing import make

GANG = make.gang("train-0")
ANOTHER = replace(GANG, metadata=replace(GANG.metadata, uid="another"))
GOING = replace(GANG, metadata=replace(GANG.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))


class Server:
    def __init__(self, there: Object | None) -> None:
        self.there = there
        self.asked = 0

    async def get(self, resource: Resource, key: Key, *, type: type[Object]) -> Object:
        self.asked += 1
        if self.there is None:
            raise NotFound("gone")
        return self.there


def test_the_first_time_nobody_is_asked() -> None:
    server = Server(None)
    assert asyncio.run(Liveness(cast(Client, server)).confirmed(kinds.GANGS, GANG))
    assert server.asked == 0


@pytest.mark.parametrize(("there", "lives"), [(GANG, True), (None, False), (ANOTHER, False), (GOING, False)])
def test_the_second_time_the_api_server_decides(there: Object | None, lives: bool) -> None:
    async def twice() -> bool:
        liveness = Liveness(cast(Client, Server(there)))
        await liveness.confirmed(kinds.GANGS, GANG)
        return await liveness.confirmed(kinds.GANGS, GANG)

    assert asyncio.run(twice()) is lives


def test_a_namesake_is_new_and_so_is_one_that_was_forgotten() -> None:
    async def story() -> list[bool]:
        liveness = Liveness(cast(Client, Server(None)))
        first = await liveness.confirmed(kinds.GANGS, GANG)
        namesake = await liveness.confirmed(kinds.GANGS, ANOTHER)
        liveness.forget(kinds.GANGS, GANG.key)
        return [first, namesake, await liveness.confirmed(kinds.GANGS, ANOTHER)]

    assert asyncio.run(story()) == [True, True, True]
