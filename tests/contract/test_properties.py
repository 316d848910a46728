"""Laws of writing that hold for any object and any sequence: merging, applying, replaying watches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.contract.objects import config_map, gang, gang_crd, pod

from grove.embedded.clock import LoopClock
from grove.embedded.cluster import ClusterOptions, EmbeddedCluster
from grove.embedded.errors import ApiError
from grove.embedded.local import LocalClient
from grove.testing.virtual_time import run_virtual

Manifest = dict[str, Any]
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"
JSON_PATCH, STRATEGIC = "application/json-patch+json", "application/strategic-merge-patch+json"
BOUNDED = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)

KEYS = st.sampled_from(["a", "b", "c"])
WORDS = st.sampled_from(["1", "2", "3"])
DATA = st.dictionaries(KEYS, WORDS, max_size=3)
SOME_DATA = st.dictionaries(KEYS, WORDS, min_size=1, max_size=3)
CHANGES = st.dictionaries(KEYS, WORDS | st.none(), max_size=3)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
TREES = st.dictionaries(KEYS, JSON_VALUES, max_size=3)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind under test: where its objects are, and how an object and a patch carry a small mapping."""

    path: str
    make: Callable[[Manifest], Manifest]
    patch: Callable[[Manifest], Manifest]
    read: Callable[[Manifest], Manifest]


def _labels(obj: Manifest) -> Manifest:
    return dict(obj["metadata"].get("labels") or {})


KINDS = {
    "config map": Kind(
        "/api/v1/namespaces/default/configmaps",
        lambda data: config_map("x", data),
        lambda data: {"data": data},
        lambda obj: dict(obj.get("data") or {}),
    ),
    "pod": Kind(
        "/api/v1/namespaces/default/pods",
        lambda data: pod("x", {"labels": data}),
        lambda data: {"metadata": {"labels": data}},
        _labels,
    ),
    "custom object": Kind(
        "/apis/sched.example.com/v1/namespaces/default/gangs",
        lambda data: gang("x", {"minMember": 1, "extra": data}),
        lambda data: {"spec": {"extra": data}},
        lambda obj: dict(obj["spec"].get("extra") or {}),
    ),
}
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def with_server(body: Callable[[LocalClient], Awaitable[None]]) -> None:
    """Runs a body against a fresh server without sockets, in virtual time."""

    async def main() -> None:
        options = ClusterOptions(listen=False, actors=False, nodes=0, clock=LoopClock(EPOCH))
        async with EmbeddedCluster(options) as cluster:
            client = cluster.client()
            await client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", gang_crd())
            await body(client)

    run_virtual(main)


async def apply(
    client: LocalClient, kind: Kind, data: Manifest, manager: str, *, force: bool = True
) -> Manifest:
    wanted = kind.make(data)
    query = {"fieldManager": manager, "force": "true" if force else "false"}
    return await client.patch(f"{kind.path}/x", wanted, content_type=APPLY, **query)


def merged(target: Any, patch: Any) -> Any:
    """RFC 7396, as its text puts it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(child) for name, child in value.items() if child is not None}
    return value


@BOUNDED
@given(start=TREES, patches=st.lists(TREES, max_size=4))
def test_a_merge_patch_does_what_the_rfc_says(start: Manifest, patches: list[Manifest]) -> None:
    kind = KINDS["custom object"]

    async def body(client: LocalClient) -> None:
        start_clean = without_nulls(start)
        model: Any = kind.read(await client.create(kind.path, kind.make(start_clean)))
        assert model == start_clean
        for patch in patches:
            model = merged(model, patch)
            found = await client.patch(f"{kind.path}/x", kind.patch(patch), content_type=MERGE)
            assert kind.read(found) == model

    with_server(body)


@every_kind
@BOUNDED
@given(start=DATA, changes=st.lists(CHANGES, max_size=4))
def test_a_write_changes_the_version_exactly_when_it_changes_the_object(
    kind: Kind, start: Manifest, changes: list[Manifest]
) -> None:
    async def body(client: LocalClient) -> None:
        before = await client.create(kind.path, kind.make(start))
        for change in changes:
            after = await client.patch(f"{kind.path}/x", kind.patch(change), content_type=MERGE)
            same_content = kind.read(before) == kind.read(after)
            same_version = before["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]
            assert same_version or not same_content or change.keys() & _emptied(change, before, kind)
            assert not (same_version and not same_content)
            before = after

    with_server(body)


def _emptied(change: Manifest, before: Manifest, kind: Kind) -> set[str]:
    """A first or last key also makes or removes the mapping around it, which is a change of its own."""
    return set(change) if not kind.read(before) else set()


@every_kind
@BOUNDED
@given(applies=st.lists(st.tuples(st.sampled_from(["ann", "bob"]), SOME_DATA), min_size=1, max_size=5))
def test_applying_twice_is_applying_once(kind: Kind, applies: list[tuple[str, Manifest]]) -> None:
    """Of an empty map it is not true, on real servers neither: it is not stored, so it is applied again."""

    async def body(client: LocalClient) -> None:
        for manager, data in applies:
            once = await apply(client, kind, data, manager)
            twice = await apply(client, kind, data, manager)
            assert twice == once

    with_server(body)


@every_kind
@BOUNDED
@given(applies=st.lists(st.tuples(st.sampled_from(["ann", "bob", "cid"]), DATA), min_size=1, max_size=6))
def test_forced_apply_keeps_what_somebody_wants_and_nothing_else(
    kind: Kind, applies: list[tuple[str, Manifest]]
) -> None:
    """The model: the last forced value wins and takes the key from whoever wanted another value."""
    wishes: dict[str, Manifest] = {}

    async def body(client: LocalClient) -> None:
        for manager, data in applies:
            for other in wishes.values():
                for key in [key for key, value in other.items() if data.get(key, value) != value]:
                    del other[key]
            wishes[manager] = dict(data)
            found = await apply(client, kind, data, manager)
            assert kind.read(found) == {key: value for wish in wishes.values() for key, value in wish.items()}

    with_server(body)


@every_kind
@BOUNDED
@given(mine=SOME_DATA, theirs=SOME_DATA)
def test_apply_conflicts_exactly_when_two_want_different_values(
    kind: Kind, mine: Manifest, theirs: Manifest
) -> None:
    async def body(client: LocalClient) -> None:
        await apply(client, kind, mine, "ann")
        contested = {key for key in mine if key in theirs and mine[key] != theirs[key]}
        told = ""
        try:
            await apply(client, kind, theirs, "bob", force=False)
        except ApiError as error:
            told = f"{error.reason}: {error.message}"
        assert told.startswith("Conflict: Apply failed") == bool(contested)
        assert all(f".{key}" in told for key in contested)

    with_server(body)


@every_kind
@BOUNDED
@given(start=DATA, wanted=DATA)
def test_a_json_patch_leads_where_a_merge_patch_leads(kind: Kind, start: Manifest, wanted: Manifest) -> None:
    async def body(client: LocalClient) -> None:
        full = {"z": "0", **start}
        await client.create(kind.path, kind.make(full))
        pointer = "/" + "/".join(_path_of(kind.patch({})))
        operations = [{"op": "remove", "path": f"{pointer}/{key}"} for key in full if key not in wanted]
        operations += [
            {"op": "add", "path": f"{pointer}/{key}", "value": value} for key, value in wanted.items()
        ]
        by_json = await client.patch(f"{kind.path}/x", operations, content_type=JSON_PATCH)
        assert kind.read(by_json) == wanted

    with_server(body)


def _path_of(patch: Manifest) -> list[str]:
    """The names on the way to the innermost mapping of a patch with one key at each level."""
    names = []
    while patch:
        name, patch = next(iter(patch.items()))
        names.append(name)
    return names


@BOUNDED
@given(envs=st.lists(st.dictionaries(KEYS, WORDS | st.none(), max_size=3), max_size=4))
def test_a_strategic_patch_merges_a_list_like_a_mapping(envs: list[Manifest]) -> None:
    """Environment variables are merged by name: a list of them behaves as a mapping would."""
    path = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    made = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "x"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }

    async def body(client: LocalClient) -> None:
        await client.create(path, made)
        model: Manifest = {}
        for env in envs:
            model = merged(model, env)
            items = [
                {"name": name, "$patch": "delete"} if value is None else {"name": name, "value": value}
                for name, value in env.items()
            ]
            containers = [{"name": "c", "env": items}]
            patch = {"spec": {"template": {"spec": {"containers": containers}}}}
            found = await client.patch(f"{path}/x", patch, content_type=STRATEGIC)
            shown = found["spec"]["template"]["spec"]["containers"][0].get("env") or []
            assert {item["name"]: item["value"] for item in shown} == model

    with_server(body)


STEPS = st.lists(st.tuples(st.sampled_from(["x", "y", "z"]), DATA | st.none()), max_size=10)


@every_kind
@BOUNDED
@given(steps=STEPS, label=st.booleans())
def test_replaying_a_watch_gives_the_list(
    kind: Kind, steps: list[tuple[str, Manifest | None]], label: bool
) -> None:
    """From an old list, through the events since, to the list of now; also of a part of the objects."""
    query = {"labelSelector": "a=1"} if label else {}

    async def body(client: LocalClient) -> None:
        listed = await client.list(kind.path, **query)
        seen = {item["metadata"]["name"]: item for item in listed["items"]}
        for name, data in steps:
            await _step(client, kind, name, data)
        now = {item["metadata"]["name"]: item for item in (await client.list(kind.path, **query))["items"]}
        since = listed["metadata"]["resourceVersion"]
        events = client.watch(kind.path, resourceVersion=since, timeoutSeconds="1", **query)
        async with asyncio.timeout(30):
            async for event in events:
                name = event["object"]["metadata"]["name"]
                assert (event["type"] == "ADDED") == (name not in seen)
                if event["type"] == "DELETED":
                    del seen[name]
                else:
                    seen[name] = event["object"]
        assert _versions(seen) == _versions(now)

    with_server(body)


async def _step(client: LocalClient, kind: Kind, name: str, data: Manifest | None) -> None:
    """Creates, changes or (None) deletes one object, whatever is there."""
    made = kind.make(data or {})
    made["metadata"] |= {"name": name, "labels": data or {}}
    try:
        if data is None:
            await client.delete(f"{kind.path}/{name}")
        else:
            await client.create(kind.path, made)
    except ApiError as error:
        if error.reason == "AlreadyExists":
            labels = {key: (data or {}).get(key) for key in ("a", "b", "c")}
            await client.patch(f"{kind.path}/{name}", {"metadata": {"labels": labels}}, content_type=MERGE)
        elif error.reason != "NotFound":
            raise


def _versions(objects: dict[str, Manifest]) -> dict[str, str]:
    return {name: obj["metadata"]["resourceVersion"] for name, obj in objects.items()}
