"""Lists: pages of one consistent state, selectors, resourceVersion."""

from __future__ import annotations

import pytest
from tests.embedded.bare_cluster import (
    CRDS,
    GANGS,
    MAPS,
    PODS,
    config_map,
    gang,
    gang_crd,
    pod,
    refusal,
    with_cluster,
)

from grove.embedded.cluster import EmbeddedCluster
from grove.embedded.errors import ApiError
from grove.embedded.local import LocalClient
from grove.embedded.machinery.selectors import label_predicate


def names(listing: dict[str, list[dict[str, dict[str, str]]]]) -> list[str]:
    return [item["metadata"]["name"] for item in listing["items"]]


def test_pages_show_the_state_of_the_first_page() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        for name in "abcde":
            await client.create(MAPS, config_map(name))
        first = await client.list(MAPS, limit="2")
        assert first["metadata"]["remainingItemCount"] == 3
        await client.delete(f"{MAPS}/c")
        await client.create(MAPS, config_map("cc"))
        rest = {"limit": "10", "continue": first["metadata"]["continue"]}
        second = await client.list(MAPS, **rest)
        assert names(first) + names(second) == ["a", "b", "c", "d", "e"]
        assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]

    with_cluster(body)


def test_a_page_token_from_before_a_compaction_is_gone_but_offers_to_go_on() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        for name in "abc":
            await client.create(MAPS, config_map(name))
        token = (await client.list(MAPS, limit="1"))["metadata"]["continue"]
        await client.create(MAPS, config_map("bb"))
        cluster.compact()
        response = await refusal(client.list(MAPS, **{"continue": token}))
        assert (response.status, response.reason) == (410, "Expired")

    with_cluster(body)


def test_a_token_that_is_none_is_a_bad_request() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        assert (await refusal(client.list(MAPS, **{"continue": "rubbish"}))).status == 400

    with_cluster(body)


def test_an_exact_revision_shows_that_revision() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        made = await client.create(MAPS, config_map("a"))
        await client.create(MAPS, config_map("b"))
        query = {"resourceVersion": made["metadata"]["resourceVersion"], "resourceVersionMatch": "Exact"}
        assert names(await client.list(MAPS, **query)) == ["a"]
        newer = await client.list(MAPS, **{**query, "resourceVersionMatch": "NotOlderThan"})
        assert names(newer) == ["a", "b"]

    with_cluster(body)


def test_a_revision_from_the_future_is_a_timeout() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        assert (await refusal(client.list(MAPS, resourceVersion="999999"))).status == 504

    with_cluster(body)


LABELS = {"app": "web", "tier": "front"}
SELECTORS = {
    "app=web": True,
    "app==web,tier!=back": True,
    "app!=web": False,
    "missing!=x": True,
    "app in (web, api)": True,
    "app notin (web)": False,
    "tier": True,
    "!tier": False,
    "!missing": True,
    "": True,
}


@pytest.mark.parametrize("text", SELECTORS)
def test_label_selectors_mean_what_kubernetes_means(text: str) -> None:
    predicate = label_predicate(text)
    matched = predicate is None or predicate({"metadata": {"labels": LABELS}})
    assert matched is SELECTORS[text]


@pytest.mark.parametrize("text", ["a=b=c", "app in web", "=x", "a b"])
def test_a_selector_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ApiError) as caught:
        label_predicate(text)
    assert caught.value.status == 400


def test_field_selectors_know_the_zero_values_of_absent_fields() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(PODS, pod("free"))
        await client.create(PODS, pod("bound", nodeName="node-0", schedulerName="kai"))
        assert names(await client.list(PODS, fieldSelector="spec.nodeName=")) == ["free"]
        assert names(await client.list(PODS, fieldSelector="spec.schedulerName=kai")) == ["bound"]
        assert names(await client.list(PODS, fieldSelector="status.phase!=Pending")) == []
        nodes = await client.list("/api/v1/nodes", fieldSelector="spec.unschedulable=false")
        assert names(nodes) == ["node-0", "node-1"]
        assert (await refusal(client.list(PODS, fieldSelector="spec.bogus=1"))).status == 400

    with_cluster(body)


def test_a_crd_makes_its_fields_selectable() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(CRDS, gang_crd())
        await client.create(GANGS, gang("a"))
        await client.create(GANGS, gang("b", queue="other"))
        assert names(await client.list(GANGS, fieldSelector="spec.queue=other")) == ["b"]

    with_cluster(body)


def test_items_of_built_in_lists_have_no_kind_and_those_of_custom_lists_do() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(MAPS, config_map("a"))
        assert "kind" not in (await client.list(MAPS))["items"][0]
        await client.create(CRDS, gang_crd())
        await client.create(GANGS, gang("a"))
        assert (await client.list(GANGS))["items"][0]["kind"] == "Gang"

    with_cluster(body)
