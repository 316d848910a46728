"""Lists are read page by page, tolerate what servers leave out, and survive an expired continue token."""

import pytest
from tests.kube.stub import Asked, Reply, client_of, refusal, reply, serve

from grove import errors
from grove.meta import Manifest, Object, resource

PODS = resource("", "v1", "Pod")


def page(names: str, token: str = "", **rest: object) -> Manifest:
    metadata: Manifest = {"resourceVersion": "9", "continue": token, **rest}
    return {
        "kind": "PodList",
        "metadata": metadata,
        "items": [{"metadata": {"name": name}} for name in names],
    }


async def test_one_page_tells_where_the_next_begins() -> None:
    async with serve(reply(page("ab", "next", remainingItemCount=3))) as stub, client_of(stub) as client:
        listing = await client.list(
            PODS, type=Object, namespace="x", labels="a=b", limit=2, resource_version="0"
        )
        assert [pod.name for pod in listing.items] == ["a", "b"]
        assert (listing.resource_version, listing.continue_token, listing.remaining) == ("9", "next", 3)
        assert stub.asked[0].query == {"labelSelector": "a=b", "limit": "2", "resourceVersion": "0"}


async def test_all_pages_are_read_in_order() -> None:
    async with (
        serve(reply(page("ab", "1")), reply(page("cd", "2")), reply(page("e"))) as stub,
        client_of(stub) as client,
    ):
        assert [pod.name for pod in await client.list_all(PODS, type=Object, limit=2)] == list("abcde")
        assert [asked.query.get("continue") for asked in stub.asked] == [None, "1", "2"]


@pytest.mark.parametrize("body", [{"items": None}, {}, {"metadata": None, "items": []}])
async def test_an_empty_list_may_be_written_in_many_ways(body: Manifest) -> None:
    async with serve(reply(body)) as stub, client_of(stub) as client:
        assert (await client.list(PODS, type=Object)).items == []
        assert (await client.list(PODS, type=dict)).items == []


async def test_plain_items_are_told_what_they_are() -> None:
    async with serve(reply(page("a"))) as stub, client_of(stub) as client:
        items = (await client.list(PODS, type=dict)).items
        assert items == [{"metadata": {"name": "a"}, "apiVersion": "v1", "kind": "Pod"}]


def expiring(asked: Asked) -> Reply:
    """Three pages of which the second has expired, unless everything is asked for at once."""
    if "continue" in asked.query:
        return refusal(410, "Expired", "The provided continue parameter is too old")
    return reply(page("ab", "1") if "limit" in asked.query else page("bcd"))


async def test_an_expired_token_restarts_the_list_without_twins() -> None:
    async with serve(script=expiring) as stub, client_of(stub) as client:
        assert [pod.name for pod in await client.list_all(PODS, type=Object, limit=2)] == list("bcd")


async def test_the_page_after_an_expired_token_says_that_it_starts_over() -> None:
    async with serve(script=expiring) as stub, client_of(stub) as client:
        pages = [page async for page in client.pages(PODS, type=Object, limit=2)]
        assert [(page.restarted, len(page.items)) for page in pages] == [(False, 2), (True, 3)]


async def test_a_single_page_reports_an_expired_token() -> None:
    async with serve(script=expiring) as stub, client_of(stub) as client:
        with pytest.raises(errors.Gone, match="too old"):
            await client.list(PODS, type=Object, continue_token="1")


async def test_gone_without_a_token_is_not_retried_for_ever() -> None:
    async with serve(refusal(410, "Expired", "gone")) as stub, client_of(stub) as client:
        with pytest.raises(errors.Gone):
            await client.list_all(PODS, type=Object)
        assert len(stub.asked) == 1
