"""Leader election: one leader at most, whatever the network and the clocks do."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import TypeVar

import pytest
from tests.runtime.fakes import FakeObjects, pass_time

from grove.errors import Forbidden, Unreachable
from grove.meta import Key, Manifest, Resource
from grove.runtime.lease import LeaderElector, LeadershipLost, LeaseTimes
from grove.runtime.metrics import Metrics
from grove.testing.virtual_time import EPOCH, run_virtual, virtual_clock, virtual_loop

T = TypeVar("T")

LEASE = Key("grove-system", "grove-operator")


class SkewedClock:
    """A clock that is wrong by hours, and whose monotonic time began elsewhere."""

    def __init__(self, rng: random.Random) -> None:
        self._skew = timedelta(hours=rng.uniform(-12, 12))
        self._origin = rng.uniform(0, 1e6)

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=virtual_loop().time()) + self._skew

    def monotonic(self) -> float:
        return self._origin + virtual_loop().time()


class Network:
    """One process's way to the server: slow, sometimes mute, and what was sent arrives even if nobody waits."""

    def __init__(self, server: FakeObjects, rng: random.Random) -> None:
        self._server = server
        self._rng = rng
        self.mute_until = 0.0

    async def _send(self, action: Callable[[], Awaitable[T]]) -> T:
        async def travel() -> T | Exception:
            silence = max(0.0, self.mute_until - virtual_loop().time())
            there, back = self._rng.uniform(0, 0.4), self._rng.uniform(0, 0.4)
            # A mute network delays the way there or the way back.
            there, back = (there + silence, back) if self._rng.random() < 0.5 else (there, back + silence)
            await pass_time(there)
            try:
                if self._rng.random() < 0.05:
                    raise Unreachable("reset")
                answer: T | Exception = await action()
            except Exception as error:
                answer = error
            await pass_time(back)
            return answer

        answer = await asyncio.shield(asyncio.create_task(travel()))
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def get(self, resource: Resource, key: Key, *, type: type[T]) -> T:
        return await self._send(lambda: self._server.get(resource, key, type=type))

    async def create(self, resource: Resource, manifest: Manifest, *, type: type[T]) -> T:
        return await self._send(lambda: self._server.create(resource, manifest, type=type))

    async def replace(self, resource: Resource, manifest: Manifest, *, type: type[T]) -> T:
        return await self._send(lambda: self._server.replace(resource, manifest, type=type))


class Office:
    """Who works, since when, and whether there were ever two."""

    def __init__(self) -> None:
        self.working: set[str] = set()
        self.terms: list[str] = []
        self.most = 0

    async def work(self, name: str, leaving: float = 0.0) -> None:
        self.working.add(name)
        self.terms.append(name)
        self.most = max(self.most, len(self.working))
        try:
            await asyncio.Event().wait()
        finally:
            # Joining takes a moment, and during it the work still counts; a second cancellation cuts it short.
            try:
                await pass_time(leaving)
            finally:
                self.working.discard(name)


def elector(
    server: FakeObjects, name: str, *, seed: int = 0, metrics: Metrics | None = None
) -> LeaderElector:
    return LeaderElector(server, LEASE, name, clock=virtual_clock(), rng=random.Random(seed), metrics=metrics)


def spec(server: FakeObjects) -> Manifest:
    found: Manifest = server.objects[LEASE]["spec"]
    return found


@pytest.mark.parametrize("seed", range(25))
def test_there_are_never_two_leaders(seed: int) -> None:
    """Three processes, an unreliable network, clocks hours apart, late writes, restarts: half an hour of it."""

    async def main() -> None:
        rng = virtual_loop().rng
        server, office = FakeObjects(), Office()
        networks = [Network(server, rng) for _ in range(3)]

        async def process(number: int) -> None:
            life = 0
            while True:
                life += 1
                name = f"p{number}-{life}"
                leaving = rng.uniform(0, 4.5)

                async def work(name: str = name, leaving: float = leaving) -> None:
                    await office.work(name, leaving)

                one = LeaderElector(
                    networks[number], LEASE, name, clock=SkewedClock(rng), rng=random.Random(rng.random())
                )
                term = asyncio.create_task(one.run(work))
                # Some are asked to stop, the others run until they lose the lease.
                await asyncio.wait({term}, timeout=rng.choice([40, 200, 5000]))
                term.cancel()
                await asyncio.wait({term})
                assert term.cancelled() or isinstance(term.exception(), LeadershipLost)
                assert name not in office.working
                await pass_time(rng.uniform(0, 5))

        processes = [asyncio.create_task(process(number)) for number in range(3)]
        for _ in range(60):
            await pass_time(30)
            if rng.random() < 0.6:
                rng.choice(networks).mute_until = virtual_loop().time() + rng.uniform(1, 40)
        for task in processes:
            assert not task.done()
            task.cancel()
        assert office.most == 1
        assert len(office.terms) > 5
        assert len(server.writes) > 100

    run_virtual(main, seed=seed)


def test_the_first_one_creates_the_lease_and_keeps_renewing_it() -> None:
    async def main() -> None:
        server, office, metrics = FakeObjects(), Office(), Metrics()
        one = elector(server, "one", metrics=metrics)
        task = asyncio.create_task(one.run(lambda: office.work("one")))
        await pass_time(0.1)
        assert office.working == {"one"}
        assert one.leading
        assert metrics.value("grove_leader", lease=LEASE.name) == 1
        assert spec(server) == {
            "holderIdentity": "one",
            "leaseDurationSeconds": 15,
            "acquireTime": "2030-01-01T00:00:00.000000Z",
            "renewTime": "2030-01-01T00:00:00.000000Z",
            "leaseTransitions": 0,
        }
        await pass_time(100)
        assert spec(server)["acquireTime"] == "2030-01-01T00:00:00.000000Z"
        assert spec(server)["renewTime"] > "2030-01-01T00:01:37"
        assert 40 < len(server.writes) < 70
        task.cancel()

    run_virtual(main)


def test_the_lease_is_released_after_the_work_has_ended_and_the_next_one_takes_over_at_once() -> None:
    async def main() -> None:
        server, office = FakeObjects(), Office()
        one = asyncio.create_task(elector(server, "one").run(lambda: office.work("one", leaving=40)))
        await pass_time(1)
        two = asyncio.create_task(elector(server, "two", seed=1).run(lambda: office.work("two")))
        await pass_time(1)
        one.cancel()
        await pass_time(39)
        assert office.working == {"one"}, "the lease is renewed for as long as the work needs to end"
        assert spec(server)["holderIdentity"] == "one"
        await asyncio.wait({one})
        assert one.cancelled()
        assert spec(server)["holderIdentity"] == ""
        await pass_time(2.5)
        assert office.working == {"two"}
        assert (spec(server)["holderIdentity"], spec(server)["leaseTransitions"]) == ("two", 1)
        two.cancel()
        assert office.most == 1

    run_virtual(main)


def test_a_crashed_leader_is_replaced_after_the_lease_duration_counted_from_the_last_sight() -> None:
    async def main() -> None:
        server, office = FakeObjects(), Office()
        # Left behind by a process whose clock is a day ahead; its renewTime must not be believed.
        crashed = {
            "holderIdentity": "dead",
            "leaseDurationSeconds": 20,
            "renewTime": "2030-01-02T00:00:00.000000Z",
        }
        await server.create(
            Resource(("", "v1", "Lease"), "leases"),  # type: ignore[arg-type]
            {
                "metadata": {"name": LEASE.name, "namespace": LEASE.namespace, "labels": {"a": "b"}},
                "spec": crashed,
            },
        )
        two = asyncio.create_task(elector(server, "two").run(lambda: office.work("two")))
        await pass_time(19.9)
        assert office.working == set()
        await pass_time(3)
        assert office.working == {"two"}
        assert server.objects[LEASE]["metadata"]["labels"] == {"a": "b"}, "what others wrote on it stays"
        two.cancel()

    run_virtual(main)


def test_a_leader_whose_requests_hang_stops_before_anybody_may_take_over() -> None:
    async def main() -> None:
        server, office = FakeObjects(), Office()
        one = asyncio.create_task(elector(server, "one").run(lambda: office.work("one")))
        await pass_time(9.9)
        renewed = virtual_loop().time()
        server.before = lambda verb: pass_time(1e6)
        await asyncio.wait({one})
        assert isinstance(one.exception(), LeadershipLost)
        assert "the API server did not answer in time" in str(one.exception())
        assert office.working == set()
        assert renewed + 7 < virtual_loop().time() <= renewed + 10
        assert spec(server)["holderIdentity"] == "one", "a lease that may be somebody else's is not touched"

    run_virtual(main)


def test_leadership_counts_from_the_moment_the_renewal_was_sent() -> None:
    async def main() -> None:
        server, office = FakeObjects(), Office()
        sent: list[float] = []

        def slow_then_mute(verb: str) -> object:
            sent.append(virtual_loop().time())
            return pass_time(4) if len(sent) <= 5 else pass_time(1e6)

        one = asyncio.create_task(elector(server, "one").run(lambda: office.work("one")))
        await pass_time(0.1)
        server.before = slow_then_mute
        await asyncio.wait({one})
        assert isinstance(one.exception(), LeadershipLost)
        assert len(server.writes) == 6
        assert sent[4] + 9 < virtual_loop().time() <= sent[4] + 10.001

    run_virtual(main)


def test_a_stolen_lease_is_noticed_at_the_next_renewal() -> None:
    async def main() -> None:
        server, office = FakeObjects(), Office()
        lost: list[set[str]] = []
        run = elector(server, "one").run(
            lambda: office.work("one"), on_lost=lambda: lost.append(set(office.working))
        )
        one = asyncio.create_task(run)
        await pass_time(5)
        stolen = server.objects[LEASE]
        server._store("replace", LEASE, {**stolen, "spec": {**stolen["spec"], "holderIdentity": "thief"}})
        await pass_time(3)
        assert isinstance(one.exception(), LeadershipLost)
        assert "held by 'thief'" in str(one.exception())
        assert lost == [{"one"}], "told while the work still runs, so that it can hurry"
        assert spec(server)["holderIdentity"] == "thief"

    run_virtual(main)


def test_a_renewal_that_succeeded_without_an_answer_does_not_cost_the_lease() -> None:
    async def main() -> None:
        server, office = FakeObjects(), Office()
        one = asyncio.create_task(elector(server, "one").run(lambda: office.work("one")))
        await pass_time(5)
        # The write arrived, its answer did not: our resourceVersion is stale, the holder is still us.
        server._store("replace", LEASE, server.objects[LEASE])
        await pass_time(60)
        assert office.working == {"one"}
        assert not one.done()
        one.cancel()

    run_virtual(main)


def test_short_outages_do_not_cost_the_lease() -> None:
    async def main() -> None:
        server, office = FakeObjects(), Office()
        one = asyncio.create_task(elector(server, "one").run(lambda: office.work("one")))

        def refuse(verb: str) -> None:
            raise Unreachable("refused")

        for _ in range(10):
            await pass_time(10)
            server.before = refuse
            await pass_time(5)
            server.before = lambda verb: None
        assert office.working == {"one"}
        one.cancel()

    run_virtual(main)


def test_work_that_ends_by_itself_releases_the_lease_and_its_error_is_raised() -> None:
    async def main() -> None:
        server = FakeObjects()

        async def broken() -> None:
            await pass_time(3)
            raise ValueError("mine")

        with pytest.raises(ValueError, match="mine"):
            await elector(server, "one").run(broken)
        assert spec(server)["holderIdentity"] == ""

    run_virtual(main)


def test_a_candidate_that_is_stopped_while_its_claim_is_under_way_gives_the_lease_back() -> None:
    async def main() -> None:
        server = FakeObjects()
        network = Network(server, random.Random(3))
        one = LeaderElector(network, LEASE, "one", clock=virtual_clock(), rng=random.Random(0))
        task = asyncio.create_task(one.run(lambda: Office().work("one")))
        while LEASE not in server.objects:
            await pass_time(0.01)
        assert not one.leading
        task.cancel()
        await asyncio.wait({task})
        assert spec(server)["holderIdentity"] == ""

    run_virtual(main)


def test_a_missing_permission_is_explained() -> None:
    async def main() -> None:
        server = FakeObjects()

        def forbid(verb: str) -> None:
            raise Forbidden("no")

        server.before = forbid
        one = elector(server, "one")
        task = asyncio.create_task(one.run(lambda: Office().work("one")))
        await pass_time(10)
        assert one.problem == (
            "not allowed to use leases in namespace 'grove-system': grant the verb 'create', and 'get' and"
            " 'update' on the name 'grove-operator', of resource 'leases' of API group 'coordination.k8s.io'"
            " (the server said: no)"
        )
        task.cancel()

    run_virtual(main)


def test_times_that_would_allow_two_leaders_are_refused() -> None:
    with pytest.raises(ValueError, match="leaseDuration > renewDeadline"):
        LeaseTimes(duration=10, renew_deadline=10)
    assert LeaseTimes(duration=15).renew_deadline == 10
