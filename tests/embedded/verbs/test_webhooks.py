"""Admission webhooks: what they are asked, in which order, and what becomes of what they change."""

from __future__ import annotations

from typing import Any

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
    send,
    with_cluster,
)
from tests.embedded.verbs.hooks import (
    about,
    adding,
    configure,
    patching,
    serve,
    webhook,
)

from grove.embedded.cluster import EmbeddedCluster
from grove.embedded.identity import MASTERS, User
from grove.embedded.local import LocalClient
from grove.embedded.storage.store import encode

Manifest = dict[str, Any]


# --- mutating webhooks


def test_mutating_webhooks_are_asked_in_the_order_of_their_configurations_and_see_each_others_work() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        second = patching(
            {"op": "test", "path": "/data/first", "value": "1"},
            {"op": "add", "path": "/data/second", "value": "2"},
        )
        hooks = serve(cluster, {"/first": adding("/data/first", "1"), "/second": second})
        await configure(client, "Mutating", "z", webhook("/second"))
        await configure(client, "Mutating", "a", webhook("/first"), webhook("/third"))
        made = await client.create(MAPS, config_map("m"))
        assert hooks.paths == ["/first", "/third", "/second"]
        assert made["data"] == {"a": "1", "first": "1", "second": "2"}

    with_cluster(body)


def test_a_webhook_that_asked_for_it_is_asked_again_when_a_later_one_changed_something() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        hooks = serve(cluster, {"/late": adding("/data/late", "1")})
        again = webhook("/early", reinvocationPolicy="IfNeeded")
        lone = webhook("/late", reinvocationPolicy="IfNeeded")
        await configure(client, "Mutating", "c", again, webhook("/once"), lone)
        await client.create(MAPS, config_map("m"))
        assert hooks.paths == ["/early", "/once", "/late", "/early"]
        hooks.asked.clear()
        hooks.answers.clear()
        await client.create(MAPS, config_map("unchanged"))
        assert hooks.paths == ["/early", "/once", "/late"]

    with_cluster(body)


def test_what_an_earlier_webhook_changed_decides_who_is_asked_next() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        hooks = serve(cluster, {"/a": adding("/metadata/labels/team", "x")})
        chosen = webhook("/b", objectSelector={"matchLabels": {"team": "x"}})
        await configure(client, "Mutating", "c", webhook("/a"), chosen)
        await client.create(MAPS, config_map("m", app="y"))
        assert hooks.paths == ["/a", "/b"]

    with_cluster(body)


def test_what_a_webhook_made_is_pruned_defaulted_and_checked_as_if_it_had_been_sent() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(CRDS, gang_crd())
        hooks = serve(
            cluster,
            {
                "/g": patching(
                    {"op": "add", "path": "/spec/unknown", "value": 1},
                    {"op": "remove", "path": "/spec/queue"},
                )
            },
        )
        rules = about("gangs", group="sched.example.com")
        await configure(client, "Mutating", "c", webhook("/g", rules=rules))
        made = await client.create(GANGS, gang("g", queue="mine"))
        assert made["spec"] == {"minMember": 2, "queue": "main", "replicas": 1}
        hooks.answers["/g"] = adding("/spec/minMember", 0)
        refused = await refusal(client.create(GANGS, gang("h")))
        assert (refused.status, refused.reason) == (422, "Invalid")
        assert "spec.minMember" in refused.message

    with_cluster(body)


def test_metadata_that_a_webhook_made_is_checked_too() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(MAPS, config_map("old", app="x"))
        serve(cluster, {"/m": adding("/metadata/labels/app", "not a label")})
        await configure(client, "Mutating", "c", webhook("/m"))
        for action in (
            client.create(MAPS, config_map("m", app="x")),
            client.patch(f"{MAPS}/old", {"data": {"a": "2"}}),
        ):
            refused = await refusal(action)
            assert (refused.status, "metadata.labels" in refused.message) == (422, True)

    with_cluster(body)


def test_a_changed_pod_gets_what_the_server_derives_from_it() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        resources = {"limits": {"cpu": "1", "memory": "1Gi"}}
        serve(cluster, {"/p": adding("/spec/containers/0/resources", resources)})
        await configure(client, "Mutating", "c", webhook("/p", rules=about("pods")))
        made = await client.create(PODS, pod("p"))
        assert made["spec"]["containers"][0]["resources"]["requests"] == resources["limits"]
        assert (made["status"]["qosClass"], made["status"]["phase"]) == ("Guaranteed", "Pending")

    with_cluster(body)


def test_an_update_changes_no_more_than_the_request_could() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(CRDS, gang_crd())
        await client.create(GANGS, gang("g"))
        change = patching(
            {"op": "add", "path": "/spec/queue", "value": "hooked"},
            {"op": "add", "path": "/status/phase", "value": "Hooked"},
        )
        serve(cluster, {"/g": change})
        rules = about("gangs", "gangs/status", group="sched.example.com", operations="UPDATE")
        await configure(client, "Mutating", "c", webhook("/g", rules=rules))
        await client.patch(f"{GANGS}/g/status", {"status": {"replicas": 3}})
        found = await client.get(f"{GANGS}/g")
        assert (found["spec"]["queue"], found["status"]) == ("main", {"phase": "Hooked", "replicas": 3})
        await client.patch(f"{GANGS}/g", {"spec": {"minMember": 3}})
        found = await client.get(f"{GANGS}/g")
        assert (found["spec"]["queue"], found["metadata"]["generation"]) == ("hooked", 2)

    with_cluster(body)


def test_what_a_webhook_added_belongs_to_no_manager() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        serve(cluster, {"/m": adding("/data/hooked", "1")})
        await configure(client, "Mutating", "c", webhook("/m"))
        made = await client.create(MAPS, config_map("m"))
        (owner,) = made["metadata"]["managedFields"]
        assert owner["fieldsV1"]["f:data"] == {".": {}, "f:a": {}}

    with_cluster(body)


def test_a_patch_that_does_not_apply_is_an_internal_error_whatever_the_policy() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        serve(cluster, {"/m": adding("/spec/nowhere/x", 1)})
        await configure(client, "Mutating", "c", webhook("/m", failurePolicy="Ignore"))
        refused = await refusal(client.create(MAPS, config_map("m")))
        assert (refused.status, refused.reason) == (500, "InternalError")
        assert "/spec/nowhere/x" in refused.message

    with_cluster(body)


def test_a_deletion_cannot_be_changed() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(MAPS, config_map("m"))
        serve(cluster, {"/m": adding("/data/x", "1")})
        await configure(client, "Mutating", "c", webhook("/m"))
        refused = await refusal(client.delete(f"{MAPS}/m"))
        want = 'admission webhook "m.example.com" attempted to modify the object, which is not supported'
        assert want in refused.message

    with_cluster(body)


# --- what they are asked


def test_the_review_of_a_create_says_who_does_what_to_which_object() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        hooks = serve(cluster)
        await configure(client, "Mutating", "c", webhook("/m"))
        await configure(client, "Validating", "c", webhook("/v"))
        user = User("alice", (MASTERS,), "u-1")
        query = {"dryRun": "All", "fieldManager": "cli"}
        made = encode(config_map("m"))
        assert (await send(cluster, "POST", MAPS, made, user=user, query=query)).status == 201
        before, after = hooks.asked
        assert "uid" not in before["object"]["metadata"]
        assert after["object"]["metadata"]["uid"]
        assert {name: value for name, value in after.items() if name not in ("uid", "path", "object")} == {
            "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "resource": {"group": "", "version": "v1", "resource": "configmaps"},
            "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "requestResource": {"group": "", "version": "v1", "resource": "configmaps"},
            "name": "m",
            "namespace": "default",
            "operation": "CREATE",
            "userInfo": {"username": "alice", "uid": "u-1", "groups": [MASTERS]},
            "oldObject": None,
            "dryRun": True,
            "options": {
                "kind": "CreateOptions",
                "apiVersion": "meta.k8s.io/v1",
                "dryRun": ["All"],
                "fieldManager": "cli",
            },
        }

    with_cluster(body)


def test_a_name_that_the_server_makes_is_known_to_validating_webhooks_only() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        hooks = serve(cluster, {"/m": adding("/data/x", "1")})
        await configure(client, "Mutating", "c", webhook("/m"))
        await configure(client, "Validating", "c", webhook("/v"))
        made = await client.create(MAPS, {"metadata": {"generateName": "x-"}, "data": {"a": "1"}})
        assert [asked.get("name") for asked in hooks.asked] == [None, made["metadata"]["name"]]

    with_cluster(body)


def test_a_deletion_shows_the_old_object_and_its_options() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        hooks = serve(cluster)
        await client.create(MAPS, config_map("m"))
        await client.create(MAPS, config_map("n"))
        await configure(client, "Validating", "c", webhook("/v"))
        await client.delete(f"{MAPS}/m", {"propagationPolicy": "Background"})
        asked = hooks.last()
        assert (asked["operation"], asked["object"], asked["name"]) == ("DELETE", None, "m")
        assert asked["oldObject"]["data"] == {"a": "1"}
        assert asked["options"]["propagationPolicy"] == "Background"
        await client.delete(MAPS)
        assert "name" not in hooks.last()
        assert hooks.last()["oldObject"]["metadata"]["name"] == "n"

    with_cluster(body)


def test_a_namespace_is_in_itself() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        hooks = serve(cluster)
        rules = about("namespaces")
        selector = {"matchLabels": {"team": "a"}}
        await configure(client, "Validating", "c", webhook("/v", rules=rules, namespaceSelector=selector))
        await client.create("/api/v1/namespaces", {"metadata": {"name": "other"}})
        assert hooks.asked == []
        await client.create("/api/v1/namespaces", {"metadata": {"name": "n", "labels": {"team": "a"}}})
        assert (hooks.last()["name"], hooks.last()["namespace"]) == ("n", "n")

    with_cluster(body)


SHAPES: dict[str, tuple[str, str, Manifest, str, tuple[str, str]]] = {
    "scale": (
        "PATCH",
        f"{GANGS}/g/scale",
        {"spec": {"replicas": 4}},
        "gangs/scale",
        ("UPDATE", "Scale"),
    ),
    "binding": (
        "POST",
        f"{PODS}/p/binding",
        {"metadata": {"name": "p"}, "target": {"name": "node-0"}},
        "pods/binding",
        ("CREATE", "Binding"),
    ),
    "eviction": (
        "POST",
        f"{PODS}/p/eviction",
        {"metadata": {"name": "p"}},
        "pods/eviction",
        ("CREATE", "Eviction"),
    ),
    "token": (
        "POST",
        "/api/v1/namespaces/default/serviceaccounts/default/token",
        {"spec": {}},
        "serviceaccounts/token",
        ("CREATE", "TokenRequest"),
    ),
    "status": (
        "PATCH",
        f"{GANGS}/g/status",
        {"status": {"replicas": 1}},
        "gangs/status",
        ("UPDATE", "Gang"),
    ),
}


@pytest.mark.parametrize("case", SHAPES.values(), ids=SHAPES)
def test_a_subresource_is_asked_about_in_its_own_shape_and_alone(
    case: tuple[str, str, Manifest, str, tuple[str, str]],
) -> None:
    method, path, sent, resource, want = case

    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(CRDS, gang_crd())
        await client.create(GANGS, gang("g"))
        await client.create(PODS, pod("p"))
        hooks = serve(cluster)
        group = "sched.example.com" if resource.startswith("gangs") else ""
        rules = about(resource, group=group)
        plain = about(resource.partition("/")[0], group=group)
        await configure(client, "Validating", "c", webhook("/v", rules=rules), webhook("/o", rules=plain))
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        answer = await send(cluster, method, path, encode(sent), headers={"content-type": kind})
        assert answer.status in (200, 201)
        (asked,) = hooks.asked
        assert (asked["operation"], asked["kind"]["kind"]) == want
        assert (asked["subResource"], asked["object"]["kind"]) == (resource.partition("/")[2], want[1])

    with_cluster(body)


def test_a_webhook_decides_how_far_an_object_is_scaled() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(CRDS, gang_crd())
        await client.create(GANGS, gang("g"))
        hooks = serve(cluster, {"/s": adding("/spec/replicas", 2)})
        rules = about("gangs/scale", group="sched.example.com")
        await configure(client, "Mutating", "c", webhook("/s", rules=rules))
        scaled = await client.patch(f"{GANGS}/g/scale", {"spec": {"replicas": 9}})
        assert (scaled["spec"]["replicas"], hooks.last()["oldObject"]["spec"]["replicas"]) == (2, 1)
        assert (await client.get(f"{GANGS}/g"))["spec"]["replicas"] == 2

    with_cluster(body)


def test_a_write_that_a_webhook_refuses_leaves_everything_as_it_was() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(PODS, pod("p"))
        serve(cluster, {"/v": {"allowed": False}})
        rules = about("pods", "pods/binding", "pods/eviction")
        await configure(client, "Validating", "c", webhook("/v", rules=rules))
        before = await client.get(f"{PODS}/p")
        bound = {"metadata": {"name": "p"}, "target": {"name": "node-0"}}
        for action in (
            client.create(f"{PODS}/p/binding", bound),
            client.create(f"{PODS}/p/eviction", {"metadata": {"name": "p"}}),
            client.delete(f"{PODS}/p"),
            client.delete(PODS),
            client.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}),
            client.create(PODS, pod("q")),
        ):
            assert "denied the request" in (await refusal(action)).message
        assert await client.get(f"{PODS}/p") == before
        assert len((await client.list(PODS))["items"]) == 1

    with_cluster(body)


def test_objects_that_go_with_their_crd_are_nobodys_request() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(CRDS, gang_crd())
        await client.create(GANGS, gang("g"))
        hooks = serve(cluster)
        rules = about("gangs", group="sched.example.com")
        await configure(client, "Validating", "c", webhook("/v", rules=rules))
        await client.delete(f"{CRDS}/gangs.sched.example.com")
        assert hooks.asked == []

    with_cluster(body)
