"""One watch: every event, in order, and every way in which it can end."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Literal

import pytest
from tests.kube.stub import Asked, Reply, client_of, refusal, serve, status

from grove import errors
from grove.kube.client import Client, WatchEvent
from grove.kube.watch import Lines
from grove.meta import Manifest, Object, resource

PODS = resource("", "v1", "Pod")


def pod(name: str, version: str, **metadata: object) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "resourceVersion": version, **metadata},
    }


def line(type: str, content: object) -> bytes:
    return json.dumps({"type": type, "object": content}, separators=(",", ":")).encode() + b"\n"


async def collect(events: AsyncIterator[WatchEvent[Object]]) -> list[tuple[str, str, str]]:
    return [(event.type, event.object.name, event.resource_version) async for event in events]


def watched(chunks: Sequence[bytes], *, then: Literal["end", "drop", "hang"] = "end") -> Reply:
    return Reply(chunks=chunks, then=then)


async def keep(events: AsyncIterator[WatchEvent[Object]], seen: list[str]) -> None:
    """Note what comes, so that it is known also when the watch ends badly."""
    async for event in events:
        seen.append(event.object.name)  # noqa: PERF401


async def run(client: Client) -> list[tuple[str, str, str]]:
    return await collect(client.watch(PODS, type=Object, resource_version="5"))


async def test_events_come_in_order_and_a_clean_end_ends_the_iterator() -> None:
    bookmark = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "9", "creationTimestamp": None},
    }
    lines = line("ADDED", pod("a", "6")) + line("MODIFIED", pod("a", "7")) + line("DELETED", pod("a", "8"))
    async with serve(watched([lines, line("BOOKMARK", bookmark)])) as stub, client_of(stub) as client:
        assert await run(client) == [
            ("ADDED", "a", "6"),
            ("MODIFIED", "a", "7"),
            ("DELETED", "a", "8"),
            ("BOOKMARK", "", "9"),
        ]


async def test_the_request_asks_for_bookmarks_from_the_given_version() -> None:
    async with serve(watched([])) as stub, client_of(stub) as client:
        events = client.watch(
            PODS,
            type=Object,
            namespace="x",
            labels="a=b",
            fields="spec.nodeName=n",
            resource_version="5",
            timeout_seconds=60,
        )
        assert await collect(events) == []
        assert stub.asked[0].path == "/api/v1/namespaces/x/pods"
        assert stub.asked[0].query == {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "labelSelector": "a=b",
            "fieldSelector": "spec.nodeName=n",
            "timeoutSeconds": "60",
            "resourceVersion": "5",
        }


async def test_plain_mappings_know_their_version_too() -> None:
    async with serve(watched([line("ADDED", pod("a", "6"))])) as stub, client_of(stub) as client:
        events = [event async for event in client.watch(PODS, type=dict, resource_version="5")]
        assert events == [WatchEvent("ADDED", pod("a", "6"), "6")]


async def test_gone_as_a_status() -> None:
    async with serve(refusal(410, "Expired", "too old")) as stub, client_of(stub) as client:
        with pytest.raises(errors.Gone, match="too old"):
            await run(client)


async def test_gone_as_an_event() -> None:
    lines = line("ADDED", pod("a", "6")) + line("ERROR", status(410, "Expired", "too old"))
    async with serve(watched([lines])) as stub, client_of(stub) as client:
        seen: list[str] = []
        with pytest.raises(errors.Gone, match="too old"):
            await keep(client.watch(PODS, type=Object, resource_version="5"), seen)
        assert seen == ["a"]


async def test_an_error_event_whose_type_stands_last_is_still_an_error() -> None:
    turned = json.dumps({"object": status(500, "InternalError", "etcd"), "type": "ERROR"}).encode() + b"\n"
    async with serve(watched([turned])) as stub, client_of(stub) as client:
        with pytest.raises(errors.ServerError, match="etcd"):
            await run(client)


async def test_forbidden_is_told_with_the_servers_sentence() -> None:
    async with serve(refusal(403, "Forbidden", "eve cannot watch pods")) as stub, client_of(stub) as client:
        with pytest.raises(errors.Forbidden, match="eve cannot watch pods"):
            await run(client)
        assert len(stub.asked) == 1


async def test_a_broken_connection_is_unreachable() -> None:
    async with serve(watched([line("ADDED", pod("a", "6"))], then="drop")) as stub, client_of(stub) as client:
        with pytest.raises(errors.Unreachable):
            await run(client)


@pytest.mark.parametrize(
    "chunks", [[b'{"type":"ADDED","obj'], [b"<html>\n"]], ids=["cut off", "not an event"]
)
async def test_what_is_not_an_event_is_unreachable(chunks: list[bytes]) -> None:
    async with serve(watched(chunks)) as stub, client_of(stub) as client:
        with pytest.raises(errors.Unreachable, match="not an event"):
            await run(client)


@pytest.mark.parametrize(
    "chunks", [[], [line("ADDED", pod("a", "6"))]], ids=["from the start", "after an event"]
)
async def test_silence_is_told_from_a_broken_connection(chunks: list[bytes]) -> None:
    async with serve(watched(chunks, then="hang")) as stub, client_of(stub) as client:
        seen: list[str] = []
        events = client.watch(PODS, type=Object, resource_version="5", stall_seconds=0.05)
        with pytest.raises(errors.Stalled, match=r"was silent for 0\.05 s"):
            await keep(events, seen)
        assert len(seen) == len(chunks)


async def test_a_line_may_be_longer_than_any_buffer() -> None:
    big = line("ADDED", pod("a", "6", annotations={"x": "y" * 5_000_000}))
    pieces = [big[at : at + 70_000] for at in range(0, len(big), 70_000)]
    async with serve(watched([*pieces, line("DELETED", pod("a", "7"))])) as stub, client_of(stub) as client:
        assert await run(client) == [("ADDED", "a", "6"), ("DELETED", "a", "7")]


async def test_whoever_leaves_early_gives_the_connection_back() -> None:
    async with serve(watched([line("ADDED", pod("a", "6"))], then="hang")) as stub, client_of(stub) as client:
        async with aclosing(client.watch(PODS, type=Object, resource_version="5")) as events:
            assert (await anext(events)).object.name == "a"
        with pytest.raises(StopAsyncIteration):
            await anext(events)


async def test_watches_do_not_use_up_the_pool_of_requests() -> None:
    def script(asked: Asked) -> Reply:
        wants_watch = "watch" in asked.query
        return (
            watched([line("ADDED", pod("a", "6"))], then="hang")
            if wants_watch
            else Reply(body=b'{"major":"1"}')
        )

    async with serve(script=script) as stub, client_of(stub, pool=1) as client:
        watches = [client.watch(PODS, type=Object, resource_version="5") for _ in range(5)]
        for watch in watches:
            assert (await anext(watch)).type == "ADDED"
        assert (await client.version()).major == "1"


CUTS = {
    "whole lines": ([b"a\nb\n"], [b"a", b"b"]),
    "one byte at a time": ([b"a", b"b", b"\n", b"c", b"\n"], [b"ab", b"c"]),
    "a newline at the front": ([b"a", b"\nb\n"], [b"a", b"b"]),
    "empty lines": ([b"\n\r\n", b"a\n"], [b"a"]),
}


@pytest.mark.parametrize("case", CUTS.values(), ids=CUTS)
def test_lines_are_cut_at_newlines_only(case: tuple[list[bytes], list[bytes]]) -> None:
    chunks, want = case
    lines = Lines()
    assert [line for chunk in chunks for line in lines.feed(chunk)] == want
    assert lines.rest() == b""


def test_what_follows_the_last_newline_is_the_rest() -> None:
    lines = Lines()
    assert lines.feed(b"a\nb") == [b"a"]
    assert lines.rest() == b"b"
