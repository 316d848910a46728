"""Before something is created once more for an object, the API server is asked whether it still exists."""

import asyncio
from typing import cast

import pytest
from msgspec.structs import replace

from grove.api import kinds
from grove.controllers.memory.liveness import Liveness
from grove.errors import NotFound
from grove.kube.client import Client
from grove.meta import Key, Object, Resource, owner_reference
from grove.plan.changes import Change, Create, Delete
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


CLIQUE = make.clique("train-0-dec-0-worker")
CLAIM = Create(
    kinds.RESOURCE_CLAIMS, {"metadata": {"ownerReferences": [owner_reference(CLIQUE, kinds.CLIQUES.gvk)]}}
)
OF_THE_SET = Create(
    kinds.SERVICES, {"metadata": {"ownerReferences": [owner_reference(GANG, kinds.CLIQUESETS.gvk)]}}
)
REMOVAL = Delete(kinds.CLIQUES, CLIQUE.key, CLIQUE.uid)


@pytest.mark.parametrize(
    ("there", "kept"), [(CLIQUE, [CLAIM, OF_THE_SET, REMOVAL]), (None, [OF_THE_SET, REMOVAL])]
)
def test_nothing_is_created_for_an_owner_in_between_that_is_gone(
    there: Object | None, kept: list[Change]
) -> None:
    async def story() -> list[Change]:
        liveness = Liveness(cast(Client, Server(there)))
        await liveness.confirmed(kinds.CLIQUES, CLIQUE)
        holders = {kinds.CLIQUES: {CLIQUE.name: CLIQUE}}
        return await liveness.without_orphans([CLAIM, OF_THE_SET, REMOVAL], holders)

    assert asyncio.run(story()) == kept


def test_each_owner_in_between_is_asked_about_once() -> None:
    server = Server(CLIQUE)

    async def story() -> None:
        liveness = Liveness(cast(Client, server))
        await liveness.confirmed(kinds.CLIQUES, CLIQUE)
        await liveness.without_orphans([CLAIM, CLAIM], {kinds.CLIQUES: {CLIQUE.name: CLIQUE}})

    asyncio.run(story())
    assert server.asked == 1
