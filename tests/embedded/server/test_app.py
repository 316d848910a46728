"""The app: who may ask, what is answered about the server, and what is remembered of requests."""

from __future__ import annotations

import msgspec
from tests.embedded.bare_cluster import MAPS, PODS, config_map, json_of, pod, refusal, send, with_cluster

from grove.embedded.cluster import EmbeddedCluster
from grove.embedded.identity import User
from grove.embedded.local import LocalClient

NOBODY = User("nobody", ("system:authenticated",))
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"


def test_a_request_without_a_known_token_is_unauthorised() -> None:
    async def body(cluster: EmbeddedCluster, _: LocalClient) -> None:
        assert (await send(cluster, "GET", PODS, user=None)).status == 401
        wrong = {"authorization": "Bearer wrong"}
        assert (await send(cluster, "GET", PODS, user=None, headers=wrong)).status == 401
        right = {"authorization": f"Bearer {cluster.token}"}
        assert (await send(cluster, "GET", PODS, user=None, headers=right)).status == 200

    with_cluster(body)


def test_a_service_account_token_may_do_what_its_roles_say_and_no_more() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        await client.create(accounts, {"metadata": {"name": "bot"}})
        token = (await client.create(f"{accounts}/bot/token", {"spec": {}}))["status"]["token"]
        rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
        await client.create(f"{RBAC}/roles", {"metadata": {"name": "r"}, "rules": [rule]})
        binding = {
            "metadata": {"name": "b"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
            "subjects": [{"kind": "ServiceAccount", "name": "bot", "namespace": "default"}],
        }
        await client.create(f"{RBAC}/rolebindings", binding)
        headers = {"authorization": f"Bearer {token}"}
        assert (await send(cluster, "GET", PODS, user=None, headers=headers)).status == 200
        denied = await send(cluster, "GET", MAPS, user=None, headers=headers)
        assert denied.status == 403
        assert 'User "system:serviceaccount:default:bot" cannot list' in json_of(denied)["message"]
        await client.delete(f"{accounts}/bot")
        assert (await send(cluster, "GET", PODS, user=None, headers=headers)).status == 401

    with_cluster(body)


def test_an_administrator_may_act_as_someone_else_and_then_has_only_their_rights() -> None:
    async def body(cluster: EmbeddedCluster, _: LocalClient) -> None:
        as_nobody = {"impersonate-user": "nobody"}
        assert (await send(cluster, "GET", PODS, headers=as_nobody)).status == 403
        assert (
            await send(cluster, "GET", PODS, user=NOBODY, headers={"impersonate-user": "x"})
        ).status == 403

    with_cluster(body)


def test_access_reviews_answer_as_the_authoriser_would() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        asked = {
            "spec": {"resourceAttributes": {"verb": "create", "resource": "pods", "namespace": "default"}}
        }
        assert (await client.create(path, asked))["status"]["allowed"] is True
        other = await cluster.client(NOBODY).create(path, asked)
        assert other["status"]["allowed"] is False
        who = await cluster.client(NOBODY).create("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
        assert who["status"]["userInfo"]["username"] == "nobody"
        review = {"spec": {"token": cluster.token}}
        found = await client.create("/apis/authentication.k8s.io/v1/tokenreviews", review)
        assert found["status"]["user"]["username"] == "kubernetes-admin"

    with_cluster(body)


def test_the_version_says_that_this_is_not_the_real_thing() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        version = await client.get("/version")
        assert (version["minor"], version["gitVersion"]) == ("36", "v1.36.4-embedded")
        assert (await client.get("/readyz"))["text"] == "ok"

    with_cluster(body)


def test_unknown_paths_and_methods_are_told_apart() -> None:
    async def body(cluster: EmbeddedCluster, _: LocalClient) -> None:
        assert (await send(cluster, "GET", "/api/v1/namespaces/default/foos")).status == 404
        assert (await send(cluster, "GET", "/nowhere")).status == 404
        assert (await send(cluster, "PUT", PODS)).status == 405
        assert (await send(cluster, "POST", "/api/v1/pods", b"{}")).status == 405

    with_cluster(body)


def test_what_needs_a_real_container_says_that_it_is_not_simulated() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(PODS, pod("p"))
        error = await refusal(client.create(f"{PODS}/p/exec", {}))
        assert (error.status, error.reason) == (501, "NotImplemented")

    with_cluster(body)


def test_logs_are_what_the_annotation_says() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        made = pod("p", nodeName="node-0")
        made["metadata"]["annotations"] = {"embedded.grove.io/logs": "one\ntwo"}
        await client.create(PODS, made)
        assert (await refusal(client.get(f"{PODS}/p/log"))).status == 400
        await client.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}})
        assert (await client.get(f"{PODS}/p/log"))["text"] == "one\ntwo\n"
        assert (await client.get(f"{PODS}/p/log", tailLines="1"))["text"] == "two\n"

    with_cluster(body)


def test_a_body_that_is_no_json_is_a_bad_request() -> None:
    async def body(cluster: EmbeddedCluster, _: LocalClient) -> None:
        assert (await send(cluster, "POST", MAPS, b"{")).status == 400
        yaml = await send(
            cluster, "POST", MAPS, b"metadata: {name: y}", headers={"content-type": "application/yaml"}
        )
        assert yaml.status == 201

    with_cluster(body)


def test_the_request_log_counts_writes_by_resource_and_user() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        cluster.requests.clear()
        await client.create(PODS, pod("p"))
        await client.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}})
        await refusal(client.create(PODS, pod("p")))
        await client.list(PODS)
        log = cluster.requests
        assert log.count(resource="pods", verb="create") == 2
        assert log.count(resource="pods", verb="create", failed=True) == 1
        assert log.count(writes=True) == 3
        assert [entry.status for entry in log] == [201, 200, 409, 200]
        assert next(iter(log)).user == "kubernetes-admin"

    with_cluster(body)


def test_a_dry_run_is_a_request_and_not_a_write() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        cluster.requests.clear()
        await client.create(PODS, pod("p"), dryRun="All")
        assert cluster.requests.count(verb="create") == 1
        assert cluster.requests.count(writes=True) == 0
        assert not next(iter(cluster.requests)).is_write

    with_cluster(body)


def test_protobuf_bodies_that_are_none_are_refused() -> None:
    async def body(cluster: EmbeddedCluster, _: LocalClient) -> None:
        headers = {"content-type": "application/vnd.kubernetes.protobuf"}
        answer = await send(cluster, "POST", MAPS, msgspec.json.encode(config_map("x")), headers=headers)
        assert answer.status == 400

    with_cluster(body)
