"""Twelve years of two replicas, with restarts and with people who break things: API servers always get through."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from tests.webhook.certificates.years import (
    NAMES,
    SECRET,
    ApiServer,
    Replica,
    bundle_of,
    prepare_for_years,
    ready,
    secret_of,
)

from grove.testing.virtual_time import run_virtual, virtual_loop
from grove.webhook.certificates.inspection import certificates_in
from grove.webhook.certificates.material import SECRETS, desired_secret
from grove.webhook.certificates.periods import Periods
from grove.webhook.certificates.plan import Situation, plan_material

DAY = 24 * 3600.0
YEARS = 12 * 365 * DAY


async def watch_over(
    replicas: list[Replica], until: float, every: float, happens: Callable[[], Awaitable[None]]
) -> list[str]:
    """Let time pass; answers every refused handshake, by the changes themselves and by looks in between."""
    refused: list[str] = []
    loop = virtual_loop()
    while loop.time() < until:
        end = loop.time() + every
        while loop.time() < end:
            await asyncio.sleep(DAY)
            refused += [each for replica in replicas for each in replica.refusals()]
        await happens()
    return refused + [each for replica in replicas for each in replica.failed]


def test_no_handshake_fails_in_twelve_years_of_rotations_and_restarts() -> None:
    async def main() -> None:
        prepare_for_years()
        rng = random.Random(7)
        server = ApiServer(rng)
        replicas = [Replica(server, random.Random(each)) for each in range(2)]
        await ready(*replicas)
        for each in replicas:
            each.failed.clear()

        async def restart() -> None:
            one = rng.choice(replicas)
            await one.kill()
            one.start()
            await ready(one)

        refused = await watch_over(replicas, YEARS, 30 * DAY, restart)
        assert refused == []
        served = {each.chain for replica in replicas for each in replica.seen}
        issuers = {certificates_in(each)[0].issuer for each in served}
        # An authority for ten years less three months; one certificate for nine months, and one with the new authority.
        assert (len(served), len(issuers)) == (16, 2)
        assert len(certificates_in(bundle_of(server))) == 1

    run_virtual(main, time_limit=2 * YEARS)


async def delete(server: ApiServer) -> None:
    del server.objects[SECRETS.plural, SECRET]


async def empty(server: ApiServer) -> None:
    server.put(SECRETS, SECRET, {**secret_of(server), "data": {}})


async def garble(server: ApiServer) -> None:
    secret = secret_of(server)
    secret["data"] = {name: text[:-40] for name, text in secret["data"].items()}
    server.put(SECRETS, SECRET, secret)


async def exchange(server: ApiServer) -> None:
    """A Secret of another installation, complete in itself."""
    theirs = plan_material(Situation(server.clock.now(), NAMES, None)).material
    server.put(SECRETS, SECRET, desired_secret(SECRET, theirs, secret_of(server)))


async def lose_the_signing_key(server: ApiServer) -> None:
    secret = secret_of(server)
    secret["data"]["ca.key"] = ""
    server.put(SECRETS, SECRET, secret)


ACCIDENTS = {
    "deleted": delete,
    "emptied": empty,
    "garbled": garble,
    "replaced by one of somebody else": exchange,
    "robbed of the signing key": lose_the_signing_key,
}


@pytest.mark.parametrize("accident", ACCIDENTS.values(), ids=ACCIDENTS)
def test_a_secret_that_is(accident: Callable[[ApiServer], Awaitable[None]]) -> None:
    """... is replaced without one failed handshake, and the authority with it."""

    async def main() -> None:
        server = ApiServer(random.Random(3))
        periods = Periods(retired=timedelta(hours=1))
        replicas = [Replica(server, random.Random(each), periods, look_seconds=60.0) for each in range(2)]
        await ready(*replicas)
        for each in replicas:
            each.failed.clear()
        before = bundle_of(server)
        until = virtual_loop().time() + timedelta(hours=2).total_seconds()
        await accident(server)
        refused: list[str] = []
        while virtual_loop().time() < until:
            await asyncio.sleep(10)
            refused += [each for replica in replicas for each in replica.refusals()]
        assert refused + replicas[0].failed + replicas[1].failed == []
        (authority,) = certificates_in(bundle_of(server))
        assert authority not in certificates_in(before)
        assert len({replica.served.chain for replica in replicas if replica.served}) == 1
        writes = server.writes
        await asyncio.sleep(3600)
        assert server.writes == writes

    run_virtual(main)
