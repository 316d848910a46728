"""Lists and watches: pages, selectors, resuming, bookmarks, what was forgotten."""

from __future__ import annotations

from tests.contract.contract import Contract, Observation, Unavailable
from tests.contract.objects import Manifest, config_map, gang


def _names(body: Manifest) -> list[str]:
    return [found["metadata"]["name"] for found in body.get("items") or ()]


async def _version(api: Contract, path: str) -> str:
    return str((await api.get(path)).meta["resourceVersion"])


async def _five(api: Contract) -> None:
    for index in range(5):
        await api.create(api.maps, config_map(f"l{index}", labels={"l": "1"}))


async def check_pages_show_one_moment(api: Contract) -> Observation:
    await _five(api)
    first = (await api.get(api.maps, limit=2, labelSelector="l=1")).body
    await api.delete(f"{api.maps}/l4")
    pages = [first]
    while token := pages[-1]["metadata"].get("continue"):
        query: Manifest = {"limit": 2, "labelSelector": "l=1", "continue": token}
        pages.append((await api.get(api.maps, **query)).body)
    same = pages[0]["metadata"]["resourceVersion"] == pages[-1]["metadata"]["resourceVersion"]
    return [[name for page in pages for name in _names(page)], same, pages[-1]["metadata"].get("continue")]


async def check_a_page_counts_what_is_left(api: Contract) -> Observation:
    for name in ("a", "b", "c"):
        await api.create(api.gangs, gang(name, labels={"l": "1"}))
    pages = [await api.get(api.gangs, limit=2), await api.get(api.gangs, limit=2, labelSelector="l=1")]
    return [[page.meta.get("remainingItemCount"), bool(page.meta.get("continue"))] for page in pages]


async def check_a_continue_token_that_is_none(api: Contract) -> Observation:
    query: Manifest = {"limit": 2, "continue": "zzzz"}
    return (await api.get(api.maps, **query)).refused


async def check_a_list_that_outlived_its_moment_goes_on_from_the_next(api: Contract) -> Observation:
    """The 410 of an old continue token carries another token, which finishes the list as it is now."""
    if api.server.forget is None:
        raise Unavailable("nobody can make this server forget its past")
    await _five(api)
    page = (await api.get(api.maps, limit=2, labelSelector="l=1")).body
    await api.delete(f"{api.maps}/l4")
    await api.server.forget()
    query: Manifest = {"limit": 9, "labelSelector": "l=1", "continue": page["metadata"]["continue"]}
    expired = await api.get(api.maps, **query)
    query["continue"] = expired.meta.get("continue")
    rest = await api.get(api.maps, **query)
    return [expired.refused, bool(query["continue"]), rest.status, _names(rest.body)]


async def check_label_selectors(api: Contract) -> Observation:
    for name, labels in {"a": {"l": "1"}, "b": {"l": "2"}, "c": {"w": "y"}}.items():
        await api.create(api.gangs, gang(name, labels=labels))
    asked = ("l", "!l", "l in (1,2)", "l notin (1)", "l!=1", "l=1,w=y", "l==2")
    found = [_names((await api.get(api.gangs, labelSelector=text)).body) for text in asked]
    return [found, (await api.get(api.gangs, labelSelector="a=b=c")).refused]


async def check_a_field_that_cannot_be_selected_by(api: Contract) -> Observation:
    return (await api.get(api.maps, fieldSelector="data.a=1")).refused


async def check_selecting_by_name(api: Contract) -> Observation:
    await _five(api)
    return _names((await api.get(api.maps, fieldSelector="metadata.name=l1")).body)


async def check_selecting_pods_by_phase_and_node(api: Contract) -> Observation:
    container = {"name": "c", "image": "busybox"}
    for name, node in (("a", "nx"), ("b", "")):
        spec: Manifest = {"containers": [container]} | ({"nodeName": node} if node else {})
        made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        await api.create(api.pods, made)
    asked = ("spec.nodeName=nx", "spec.nodeName=", "status.phase=Pending", "status.phase!=Pending")
    return [_names((await api.get(api.pods, fieldSelector=text)).body) for text in asked]


async def check_selecting_nodes_by_a_field_that_is_not_set(api: Contract) -> Observation:
    name = api.namespace
    await api.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    selector = f"metadata.name={name},spec.unschedulable=false"
    found = await api.get("/api/v1/nodes", fieldSelector=selector)
    await api.delete(f"/api/v1/nodes/{name}")
    return [found.status, len(found.body["items"])]


async def check_kinds_in_lists(api: Contract) -> Observation:
    await api.create(api.maps, config_map("x"))
    await api.create(api.gangs, gang("x"))
    maps, gangs = (await api.get(api.maps)).body, (await api.get(api.gangs)).body
    return [maps["items"][0].get("kind"), gangs["items"][0].get("kind"), gangs["kind"]]


async def check_a_list_of_an_exact_moment(api: Contract) -> Observation:
    await api.create(api.gangs, gang("first"))
    moment = await _version(api, api.gangs)
    await api.create(api.gangs, gang("second"))
    query = {"resourceVersion": moment, "resourceVersionMatch": "Exact"}
    then = await api.get(api.gangs, **query)
    now = await api.get(api.gangs, resourceVersion=moment, resourceVersionMatch="NotOlderThan")
    return [_names(then.body), then.meta["resourceVersion"] == moment, _names(now.body)]


async def check_a_version_match_without_version(api: Contract) -> Observation:
    return (await api.get(api.maps, resourceVersionMatch="Exact")).refused


# --- watches


async def check_a_watch_resumes_where_a_list_ended(api: Contract) -> Observation:
    since = await _version(api, api.maps)
    await api.create(api.maps, config_map("w1"))
    await api.merge(f"{api.maps}/w1", {"data": {"b": "1"}})
    await api.delete(f"{api.maps}/w1")
    seen = await api.watch(api.maps, stop_after=3, resourceVersion=since, fieldSelector="metadata.name=w1")
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in seen.events]
    return [seen.status, seen.types, versions == sorted(set(versions))]


async def check_objects_enter_and_leave_a_selection(api: Contract) -> Observation:
    path, since = f"{api.maps}/w2", await _version(api, api.maps)
    await api.create(api.maps, config_map("w2", labels={"z": "0"}))
    await api.merge(path, {"metadata": {"labels": {"z": "1"}}})
    await api.merge(path, {"data": {"n": "1"}})
    await api.merge(path, {"metadata": {"labels": {"z": "2"}}})
    await api.delete(path)
    seen = await api.watch(api.maps, timeoutSeconds=1, labelSelector="z=1", resourceVersion=since)
    return [[event["type"], event["object"]["metadata"]["labels"]["z"]] for event in seen.events]


async def check_a_watch_from_anywhere_starts_with_what_is_there(api: Contract) -> Observation:
    await api.create(api.maps, config_map("w3", labels={"w3": "y"}))
    return (await api.watch(api.maps, stop_after=1, resourceVersion=0, labelSelector="w3=y")).types


async def check_a_watch_without_version_starts_with_what_is_there(api: Contract) -> Observation:
    await api.create(api.maps, config_map("w3", labels={"w3": "y"}))
    return (await api.watch(api.maps, stop_after=1, labelSelector="w3=y")).types


async def check_a_streamed_list_ends_with_a_bookmark(api: Contract) -> Observation:
    await api.create(api.maps, config_map("w3", labels={"w3": "y"}))
    seen = await api.watch(
        api.maps,
        stop_after=2,
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
        labelSelector="w3=y",
    )
    return [seen.types, seen.events[-1]["object"]["metadata"].get("annotations")]


async def check_a_watch_ends_when_its_time_is_over(api: Contract) -> Observation:
    seen = await api.watch(api.maps, timeoutSeconds=1, labelSelector="none=x")
    return [seen.status, seen.ended, seen.types]


async def check_a_watch_from_a_version_that_is_none(api: Contract) -> Observation:
    return (await api.get(api.maps, watch="1", resourceVersion="abc", timeoutSeconds=1)).refused


async def check_a_watch_from_the_future(api: Contract) -> Observation:
    future = int(await _version(api, api.maps)) + 100_000
    seen = await api.watch(api.maps, stop_after=1, resourceVersion=future, timeoutSeconds=1)
    return [seen.status, [[event["type"], event["object"].get("code")] for event in seen.events]]


async def check_a_watch_from_the_forgotten_past(api: Contract) -> Observation:
    if api.server.forget is None:
        raise Unavailable("nobody can make this server forget its past")
    await api.server.forget()
    seen = await api.watch(api.maps, stop_after=1, resourceVersion=1, timeoutSeconds=1)
    errors = [
        [event["type"], event["object"].get("code"), event["object"].get("reason")] for event in seen.events
    ]
    return [seen.status, errors[:1]]


async def check_the_last_event_of_an_object_carries_a_newer_version(api: Contract) -> Observation:
    made = (await api.create(api.maps, config_map("w4"))).meta["resourceVersion"]
    await api.delete(f"{api.maps}/w4")
    seen = await api.watch(api.maps, stop_after=1, resourceVersion=made, fieldSelector="metadata.name=w4")
    return [seen.types, int(seen.events[0]["object"]["metadata"]["resourceVersion"]) > int(made)]


async def check_one_object_is_read_and_not_watched(api: Contract) -> Observation:
    await api.create(api.maps, config_map("w5"))
    answer = await api.get(f"{api.maps}/w5", watch="1", timeoutSeconds=1)
    return [answer.status, answer.body.get("kind")]
