"""A write passes the fence in the last moment before it is sent, or not at all."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.kube.stub import Asked, Reply, client_of, refusal, reply, serve
from tests.raw import raw

from grove.errors import Deposed
from grove.kube.client import Client
from grove.kube.credentials import Credential, StaticCredentials
from grove.kube.fence import Fence
from grove.meta import Key, Manifest, resource

PODS = resource("", "v1", "Pod")
REVIEWS = resource("authorization.k8s.io", "v1", "SelfSubjectAccessReview", namespaced=False)
KEY = Key("x", "a")
POD: Manifest = {"metadata": {"name": "a", "namespace": "x"}}

WRITES: dict[str, Callable[[Client], Awaitable[object]]] = {
    "create": lambda client: client.create(PODS, POD),
    "merge patch": lambda client: client.merge_patch(PODS, KEY, {"spec": {}}),
    "JSON patch": lambda client: client.json_patch(PODS, KEY, []),
    "apply": lambda client: client.apply(PODS, POD),
    "replace": lambda client: client.replace(PODS, POD),
    "delete": lambda client: client.delete(PODS, KEY),
    "delete collection": lambda client: client.delete_collection(PODS, namespace="x"),
    "raw": lambda client: raw(client, "POST", "/api/v1/namespaces/x/pods", body=b"{}"),
}
HARMLESS: dict[str, Callable[[Client], Awaitable[object]]] = {
    "get": lambda client: client.get(PODS, KEY, type=dict),
    "list": lambda client: client.list(PODS, type=dict),
    "a trial": lambda client: client.create(PODS, POD, dry_run=True),
    "a review": lambda client: client.create(REVIEWS, {"metadata": {}}, type=dict),
}


class Time:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Silent:
    """A server that takes a request and never ends its answer."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    def __call__(self, asked: Asked) -> Reply:
        self.asked.set()
        return Reply(chunks=[b"{"], then="hang")


def opened(until: float = 110.0) -> tuple[Fence, Time]:
    time = Time()
    fence = Fence(time)
    fence.extend(until)
    return fence, time


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_past_the_deadline_no_write_reaches_the_server(
    write: Callable[[Client], Awaitable[object]],
) -> None:
    async with serve(reply(POD)) as stub, client_of(stub) as client:
        fence, time = opened()
        fenced = client.fenced(fence)
        await write(fenced)
        time.now = 110.0
        with pytest.raises(Deposed, match="was not sent: this process does not hold the leader lease"):
            await write(fenced)
        assert len(stub.asked) == 1
        await write(client)
        assert len(stub.asked) == 2, "the client without the fence is as it was"


@pytest.mark.parametrize("ask", HARMLESS.values(), ids=HARMLESS)
async def test_what_changes_nothing_needs_no_lease(ask: Callable[[Client], Awaitable[object]]) -> None:
    async with serve(reply({**POD, "items": []})) as stub, client_of(stub) as client:
        await ask(client.fenced(Fence(Time())))
        assert len(stub.asked) == 1


async def test_the_fence_is_looked_at_again_before_each_retry() -> None:
    fence, time = opened()

    def answer(asked: Asked) -> Reply:
        time.now += 6
        return refusal(503)

    async with serve(script=answer) as stub, client_of(stub) as client:
        with pytest.raises(Deposed):
            await client.fenced(fence).merge_patch(PODS, KEY, {})
        assert len(stub.asked) == 2


async def test_the_fence_is_looked_at_after_the_wait_for_a_connection() -> None:
    fence, time = opened()
    silent = Silent()
    async with serve(script=silent) as stub, client_of(stub, pool=1) as client:
        slow = asyncio.create_task(client.get(PODS, KEY, type=dict))
        await silent.asked.wait()
        waiting = asyncio.create_task(client.fenced(fence).create(PODS, POD))
        await asyncio.sleep(0)
        time.now = 110.0
        slow.cancel()
        with pytest.raises(Deposed):
            await waiting
        assert len(stub.asked) == 1


async def test_the_fence_is_looked_at_after_a_credential_was_renewed() -> None:
    fence, time = opened()

    class Renewed(StaticCredentials):
        async def rejected(self, credential: Credential) -> bool:
            time.now = 110.0
            return True

    async with serve(refusal(401)) as stub, client_of(stub, credentials=Renewed()) as client:
        with pytest.raises(Deposed):
            await client.fenced(fence).create(PODS, POD)
        assert len(stub.asked) == 1


async def test_the_last_look_is_when_the_connection_stands_and_only_the_bytes_are_left_to_send() -> None:
    """Each look lets a second pass: the deadline falls between the looks before and the last one."""
    looks: list[float] = []

    def passing() -> float:
        looks.append(100.0 + len(looks))
        return looks[-1]

    async with serve(reply(POD)) as stub, client_of(stub) as client:
        fence = Fence(passing)
        fence.extend(1000.0)
        await client.fenced(fence).create(PODS, POD)
        needed = len(looks)
        fence.extend(100.0 + len(looks) + needed - 1)
        with pytest.raises(Deposed, match="POST /api/v1/namespaces/x/pods was not sent"):
            await client.fenced(fence).create(PODS, POD)
        assert len(looks) == 2 * needed
        assert len(stub.asked) == 1


async def test_of_a_large_write_the_end_is_not_sent_past_the_deadline() -> None:
    looks: list[float] = []

    def passing() -> float:
        looks.append(0.0)
        return float(len(looks))

    large = {**POD, "data": "x" * (3 << 20)}
    async with serve(reply(POD)) as stub, client_of(stub) as client:
        fence = Fence(passing)
        fence.extend(20)
        with pytest.raises(Deposed):
            await client.fenced(fence).create(PODS, large)
        assert stub.asked == []
        fence.extend(1e6)
        await client.fenced(fence).create(PODS, large)
        (asked,) = stub.asked
        assert asked.json == large


async def test_what_is_under_way_is_given_up_when_the_fence_is_shut() -> None:
    fence, _ = opened()
    silent = Silent()
    async with serve(script=silent) as stub, client_of(stub) as client:
        writing = asyncio.create_task(client.fenced(fence).merge_patch(PODS, KEY, {}))
        await silent.asked.wait()
        fence.shut()
        with pytest.raises(Deposed, match="was given up: the leader lease ended while it was under way"):
            await asyncio.wait_for(writing, 5)
        fence.shut()
        assert len(stub.asked) == 1


async def test_a_longer_lease_keeps_what_is_under_way() -> None:
    fence, time = opened()

    def answer(asked: Asked) -> Reply:
        fence.extend(130.0)
        time.now = 120.0
        return reply(POD)

    async with serve(script=answer) as stub, client_of(stub) as client:
        await client.fenced(fence).create(PODS, POD)
        await client.fenced(fence).create(PODS, POD)
        assert len(stub.asked) == 2
