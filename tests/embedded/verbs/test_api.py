"""The verbs: concurrency, generation, subresources, finalizers, namespaces, options."""

from __future__ import annotations

import msgspec
from tests.embedded.bare_cluster import (
    CRDS,
    GANGS,
    MAPS,
    PODS,
    config_map,
    gang,
    gang_crd,
    json_of,
    pod,
    refusal,
    send,
    with_cluster,
)

from grove.embedded.cluster import EmbeddedCluster
from grove.embedded.local import LocalClient

APPLY = "application/apply-patch+yaml"


def test_a_stale_update_conflicts_and_changes_nothing() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        made = await client.create(MAPS, config_map("x"))
        await client.update(f"{MAPS}/x", {**made, "data": {"a": "2"}})
        error = await refusal(client.update(f"{MAPS}/x", {**made, "data": {"a": "3"}}))
        assert (error.status, error.reason) == (409, "Conflict")
        assert (await client.get(f"{MAPS}/x"))["data"] == {"a": "2"}

    with_cluster(body)


def test_creating_twice_is_already_exists_and_not_conflict() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(MAPS, config_map("x"))
        error = await refusal(client.create(MAPS, config_map("x")))
        assert (error.status, error.reason) == (409, "AlreadyExists")

    with_cluster(body)


def test_a_write_that_changes_nothing_keeps_the_resource_version() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        made = await client.create(MAPS, config_map("x"))
        before = cluster.store.revision
        again = await client.update(f"{MAPS}/x", made)
        patched = await client.patch(f"{MAPS}/x", {"data": {"a": "1"}})
        assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        assert patched["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        assert cluster.store.revision == before

    with_cluster(body)


def test_creating_with_a_resource_version_is_a_plain_500() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        wrong = {"metadata": {"name": "x", "resourceVersion": "5"}}
        error = await refusal(client.create(MAPS, wrong))
        assert (error.status, error.reason) == (500, "")

    with_cluster(body)


def test_generation_counts_changes_of_spec_only() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(CRDS, gang_crd())
        seen = [(await client.create(GANGS, gang("g")))["metadata"]["generation"]]
        for path, patch in (
            (f"{GANGS}/g", {"metadata": {"labels": {"a": "b"}}}),
            (f"{GANGS}/g", {"spec": {"minMember": 3}}),
            (f"{GANGS}/g/status", {"status": {"phase": "Running"}}),
        ):
            seen.append((await client.patch(path, patch))["metadata"]["generation"])
        assert seen == [1, 1, 2, 2]

    with_cluster(body)


def test_a_status_write_of_a_custom_kind_touches_status_only() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(CRDS, gang_crd())
        await client.create(GANGS, gang("g"))
        patch = {"spec": {"minMember": 9}, "status": {"phase": "Up"}, "metadata": {"labels": {"a": "b"}}}
        after = await client.patch(f"{GANGS}/g/status", patch)
        assert after["spec"]["minMember"] == 2
        assert after["status"]["phase"] == "Up"
        assert "labels" not in after["metadata"]

    with_cluster(body)


def test_a_status_write_of_a_built_in_kind_takes_labels_along() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(PODS, pod("p"))
        patch = {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Running"}}
        after = await client.patch(f"{PODS}/p/status", patch)
        assert after["metadata"]["labels"] == {"a": "b"}
        assert after["status"]["phase"] == "Running"

    with_cluster(body)


def test_finalizers_keep_an_object_until_the_last_one_is_removed() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(CRDS, gang_crd())
        made = gang("g")
        made["metadata"]["finalizers"] = ["example.com/wait"]
        await client.create(GANGS, made)
        marked = await client.delete(f"{GANGS}/g")
        assert marked["metadata"]["deletionTimestamp"]
        assert marked["metadata"]["generation"] == 2
        more = {"metadata": {"finalizers": ["example.com/wait", "example.com/new"]}}
        assert (await refusal(client.patch(f"{GANGS}/g", more))).status == 422
        await client.patch(f"{GANGS}/g", {"metadata": {"finalizers": None}})
        assert (await refusal(client.get(f"{GANGS}/g"))).status == 404

    with_cluster(body)


def test_a_bound_pod_stays_until_its_end_is_confirmed_and_an_unbound_one_goes_at_once() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(PODS, pod("free"))
        await client.create(PODS, pod("bound", nodeName="node-0"))
        await client.delete(f"{PODS}/free")
        marked = await client.delete(f"{PODS}/bound")
        assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
        assert [p["metadata"]["name"] for p in (await client.list(PODS))["items"]] == ["bound"]
        await client.delete(f"{PODS}/bound", gracePeriodSeconds="0")
        assert (await client.list(PODS))["items"] == []

    with_cluster(body)


def test_nothing_is_created_in_a_namespace_that_is_absent_or_terminating() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        missing = await refusal(client.create("/api/v1/namespaces/nope/configmaps", config_map("x")))
        assert (missing.status, missing.message) == (404, 'namespaces "nope" not found')
        await client.create("/api/v1/namespaces", {"metadata": {"name": "going"}})
        await client.delete("/api/v1/namespaces/going")
        closing = await refusal(client.create("/api/v1/namespaces/going/configmaps", config_map("x")))
        assert closing.status == 403
        assert closing.details is not None
        assert closing.details["causes"][0]["reason"] == "NamespaceTerminating"

    with_cluster(body)


def test_generated_names_are_the_same_for_the_same_seed() -> None:
    names: list[str] = []

    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        made = await client.create(MAPS, {"metadata": {"generateName": "cm-"}})
        names.append(made["metadata"]["name"] + made["metadata"]["uid"])

    with_cluster(body)
    with_cluster(body)
    assert names[0] == names[1]


def test_a_dry_run_answers_but_stores_nothing() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        before = cluster.store.revision
        shown = await client.create(MAPS, config_map("x"), dryRun="All")
        assert shown["metadata"]["uid"]
        assert cluster.store.revision == before
        await client.create(MAPS, config_map("y"))
        await client.patch(f"{MAPS}/y", {"data": {"a": "9"}}, dryRun="All")
        await client.delete(f"{MAPS}/y", dryRun="All")
        assert (await client.get(f"{MAPS}/y"))["data"] == {"a": "1"}

    with_cluster(body)


def test_unknown_fields_are_refused_warned_about_or_ignored_as_asked() -> None:
    async def body(cluster: EmbeddedCluster, _: LocalClient) -> None:
        odd = msgspec.json.encode({**pod("p"), "spec": {**pod("p")["spec"], "bogus": 1}})
        strict = await send(cluster, "POST", PODS, odd, query={"fieldValidation": "Strict"})
        assert strict.status == 400
        assert 'strict decoding error: unknown field "spec.bogus"' in json_of(strict)["message"]
        warned = await send(cluster, "POST", PODS, odd)
        assert (warned.status, warned.warnings) == (201, ('unknown field "spec.bogus"',))
        again = odd.replace(b'"p"', b'"q"')
        quiet = await send(cluster, "POST", PODS, again, query={"fieldValidation": "Ignore"})
        assert (quiet.status, quiet.warnings) == (201, ())

    with_cluster(body)


def test_a_key_that_comes_twice_is_reported() -> None:
    async def body(cluster: EmbeddedCluster, _: LocalClient) -> None:
        twice = b'{"metadata":{"name":"x"},"data":{"a":"1","a":"2"}}'
        strict = await send(cluster, "POST", MAPS, twice, query={"fieldValidation": "Strict"})
        assert strict.status == 400
        assert 'duplicate field "data.a"' in json_of(strict)["message"]
        assert (await send(cluster, "POST", MAPS, twice)).warnings == ('duplicate field "data.a"',)

    with_cluster(body)


def test_an_apply_creates_then_owns_and_another_manager_meets_a_conflict() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "1"}}
        await client.patch(f"{MAPS}/x", wanted, content_type=APPLY, fieldManager="one")
        other = {**wanted, "data": {"a": "2"}}
        error = await refusal(client.patch(f"{MAPS}/x", other, content_type=APPLY, fieldManager="two"))
        assert error.status == 409
        assert 'conflict with "one"' in error.message
        forced = await client.patch(f"{MAPS}/x", other, content_type=APPLY, fieldManager="two", force="true")
        assert forced["data"] == {"a": "2"}

    with_cluster(body)


def test_a_strategic_patch_of_a_custom_kind_is_415() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(CRDS, gang_crd())
        await client.create(GANGS, gang("g"))
        kind = "application/strategic-merge-patch+json"
        assert (await refusal(client.patch(f"{GANGS}/g", {}, content_type=kind))).status == 415

    with_cluster(body)


def test_binding_a_gated_or_bound_pod_is_refused() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        target = {"target": {"kind": "Node", "name": "node-0"}}
        await client.create(PODS, pod("gated", schedulingGates=[{"name": "a.b/c"}]))
        assert (await refusal(client.create(f"{PODS}/gated/binding", target))).status == 409
        await client.create(PODS, pod("free"))
        await client.create(f"{PODS}/free/binding", target)
        assert (await client.get(f"{PODS}/free"))["spec"]["nodeName"] == "node-0"
        assert (await refusal(client.create(f"{PODS}/free/binding", target))).status == 409

    with_cluster(body)


def test_a_quota_counts_what_a_namespace_uses() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        quotas = "/api/v1/namespaces/default/resourcequotas"
        hard = {"pods": "2", "requests.nvidia.com/gpu": "4"}
        await client.create(quotas, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
        sized = [{"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "3"}}}]
        await client.create(PODS, pod("a", containers=sized))
        error = await refusal(client.create(PODS, pod("b", containers=sized)))
        assert error.status == 403
        assert "exceeded quota: q" in error.message
        used = (await client.get(f"{quotas}/q"))["status"]["used"]
        assert used == {"pods": "1", "requests.nvidia.com/gpu": "3"}
        await client.delete(f"{PODS}/a")
        await client.create(PODS, pod("b", containers=sized))

    with_cluster(body)


def test_a_limit_range_fills_in_and_bounds_containers() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        limit = {"type": "Container", "default": {"cpu": "1"}, "max": {"cpu": "2"}}
        ranges = "/api/v1/namespaces/default/limitranges"
        await client.create(ranges, {"metadata": {"name": "l"}, "spec": {"limits": [limit]}})
        made = await client.create(PODS, pod("a"))
        assert made["spec"]["containers"][0]["resources"] == {
            "limits": {"cpu": "1"},
            "requests": {"cpu": "1"},
        }
        big = [{"name": "c", "image": "x", "resources": {"limits": {"cpu": "3"}}}]
        assert (await refusal(client.create(PODS, pod("b", containers=big)))).status == 403

    with_cluster(body)


def test_an_event_is_the_same_object_in_both_event_apis() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        old, new = "/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events"
        about = {"kind": "Pod", "name": "p", "namespace": "default"}
        event = {"metadata": {"name": "e"}, "involvedObject": about, "message": "hello", "reason": "R"}
        await client.create(old, event)
        seen = await client.get(f"{new}/e")
        assert (seen["apiVersion"], seen["note"], seen["regarding"]["name"]) == (
            "events.k8s.io/v1",
            "hello",
            "p",
        )
        await client.patch(f"{new}/e", {"note": "again"})
        assert (await client.get(f"{old}/e"))["message"] == "again"
        found = await client.list(new, fieldSelector="regarding.name=p")
        assert len(found["items"]) == 1

    with_cluster(body)


def test_deleting_a_collection_honours_the_selector() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        for name, side in (("a", "l"), ("b", "r"), ("c", "l")):
            await client.create(MAPS, config_map(name, side=side))
        await client.delete(MAPS, labelSelector="side=l")
        assert [m["metadata"]["name"] for m in (await client.list(MAPS))["items"]] == ["b"]

    with_cluster(body)


def test_a_delete_with_another_uid_is_refused() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(MAPS, config_map("x"))
        error = await refusal(client.delete(f"{MAPS}/x", {"preconditions": {"uid": "other"}}))
        assert error.status == 409
        assert (await client.get(f"{MAPS}/x"))["data"]

    with_cluster(body)
