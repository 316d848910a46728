"""Every verb sends what Kubernetes expects and answers with the type that was asked for."""

import asyncio

import pytest
from tests.kube.stub import Asked, Reply, client_of, client_to, refusal, reply, serve
from tests.raw import raw

from grove import errors
from grove.kube.client import Client, Written
from grove.kube.config import Connection
from grove.kube.exchange import log as exchange_log
from grove.kube.retry import RetryPolicy
from grove.kube.transport import HttpTransport
from grove.meta import Key, Manifest, Object, View, resource

PODS = resource("", "v1", "Pod")
GANGS = resource("scheduler.grove.io", "v1alpha1", "PodGang")
NODES = resource("", "v1", "Node", namespaced=False)
KEY = Key("x", "a")
POD: Manifest = {
    "metadata": {"name": "a", "namespace": "x", "uid": "u", "resourceVersion": "7", "generation": 2}
}


class Spec(View):
    gates: tuple[str, ...] = ()
    node: str = ""


class Gated(Object):
    spec: Spec = Spec()


async def test_get_decodes_into_the_type() -> None:
    async with serve(reply(POD | {"spec": {"gates": ["g"], "other": 1}})) as stub, client_of(stub) as client:
        assert (await client.get(PODS, KEY, type=Gated)).spec == Spec(gates=("g",))
        assert (await client.get(PODS, KEY, type=dict))["spec"] == {"gates": ["g"], "other": 1}


async def test_nulls_count_as_absent() -> None:
    nulls: Manifest = {
        "metadata": {"name": "a", "labels": None, "ownerReferences": None},
        "spec": {"gates": None, "node": None},
    }
    async with serve(reply(nulls)) as stub, client_of(stub) as client:
        pod = await client.get(PODS, KEY, type=Gated)
        assert (pod.labels, pod.metadata.owner_references, pod.spec) == ({}, (), Spec())


async def test_an_answer_of_another_shape_says_what_was_asked_and_where_it_differs() -> None:
    async with serve(reply({"spec": {"gates": 5}})) as stub, client_of(stub) as client:
        with pytest.raises(errors.ApiError, match=r"GET /api/v1/namespaces/x/pods/a .*\$\.spec\.gates"):
            await client.get(PODS, KEY, type=Gated)


async def test_an_answer_that_is_not_json_says_so() -> None:
    async with serve(Reply(body=b"<html>login</html>")) as stub, client_of(stub) as client:
        with pytest.raises(errors.ApiError, match="not JSON"):
            await client.get(PODS, KEY, type=dict)


async def test_each_write_answers_with_the_metadata_alone() -> None:
    async with serve(reply(POD)) as stub, client_of(stub) as client:
        written = await client.create(PODS, POD)
        assert isinstance(written, Written)
        assert (written.key, written.metadata.uid, written.metadata.generation) == (KEY, "u", 2)


@pytest.mark.parametrize("verb", ["create", "create strictly, dry", "merge", "json", "apply"])
async def test_who_builds_what_it_writes_has_unknown_fields_looked_for_only_where_it_asks(verb: str) -> None:
    async with serve(reply(POD)) as stub, client_of(stub) as client:
        await VERBS[verb](client.trusted())
        await VERBS[verb](client)
        told = [each.query.get("fieldValidation") for each in stub.asked]
        assert told == (["Strict", "Strict"] if "strictly" in verb else ["Ignore", None])


async def asked_by(verb: str) -> Asked:
    """What one verb sends."""
    async with serve(reply(POD)) as stub, client_of(stub) as client:
        await VERBS[verb](client)
        return stub.asked[0]


VERBS = {
    "create": lambda client: client.create(PODS, POD),
    "create strictly, dry": lambda client: client.create(PODS, POD, dry_run=True, strict=True),
    "merge": lambda client: client.merge_patch(
        PODS, KEY, {"spec": {"x": None}}, subresource="status", dry_run=True
    ),
    "json": lambda client: client.json_patch(PODS, KEY, [{"op": "remove", "path": "/x"}]),
    "apply": lambda client: client.apply(GANGS, {"metadata": {"name": "a", "namespace": "x"}}),
    "apply by force": lambda client: client.apply(
        GANGS,
        {"metadata": {"name": "a", "namespace": "x"}},
        subresource="status",
        force=True,
        dry_run=True,
        field_manager="me",
    ),
    "replace": lambda client: client.replace(
        NODES, {"metadata": {"name": "n", "resourceVersion": "3"}}, subresource="status"
    ),
    "delete": lambda client: client.delete(PODS, KEY),
    "delete exactly": lambda client: client.delete(
        PODS, KEY, uid="u", resource_version="7", propagation="Foreground", grace_seconds=0, dry_run=True
    ),
    "delete collection": lambda client: client.delete_collection(
        PODS, namespace="x", labels="a=b", fields="c=d", propagation="Background"
    ),
}
MANAGER = {"fieldManager": "grove-operator"}
OPTIONS = {"apiVersion": "v1", "kind": "DeleteOptions"}
PRECISE = {
    "propagationPolicy": "Foreground",
    "gracePeriodSeconds": 0,
    "preconditions": {"uid": "u", "resourceVersion": "7"},
}
APPLIED = {
    "apiVersion": "scheduler.grove.io/v1alpha1",
    "kind": "PodGang",
    "metadata": {"name": "a", "namespace": "x"},
}
A_POD = "/api/v1/namespaces/x/pods/a"
A_GANG = "/apis/scheduler.grove.io/v1alpha1/namespaces/x/podgangs/a"
JSON = "application/json"
WANT: dict[str, tuple[str, str, dict[str, str], str, object]] = {
    "create": ("POST", "/api/v1/namespaces/x/pods", MANAGER, JSON, POD),
    "create strictly, dry": (
        "POST",
        "/api/v1/namespaces/x/pods",
        MANAGER | {"dryRun": "All", "fieldValidation": "Strict"},
        JSON,
        POD,
    ),
    "merge": (
        "PATCH",
        f"{A_POD}/status",
        MANAGER | {"dryRun": "All"},
        "application/merge-patch+json",
        {"spec": {"x": None}},
    ),
    "json": ("PATCH", A_POD, MANAGER, "application/json-patch+json", [{"op": "remove", "path": "/x"}]),
    "apply": ("PATCH", A_GANG, MANAGER, "application/apply-patch+yaml", APPLIED),
    "apply by force": (
        "PATCH",
        f"{A_GANG}/status",
        {"fieldManager": "me", "dryRun": "All", "force": "true"},
        "application/apply-patch+yaml",
        APPLIED,
    ),
    "replace": (
        "PUT",
        "/api/v1/nodes/n/status",
        MANAGER,
        JSON,
        {"metadata": {"name": "n", "resourceVersion": "3"}},
    ),
    "delete": ("DELETE", A_POD, {}, JSON, OPTIONS),
    "delete exactly": ("DELETE", A_POD, {"dryRun": "All"}, JSON, OPTIONS | PRECISE),
    "delete collection": (
        "DELETE",
        "/api/v1/namespaces/x/pods",
        {"labelSelector": "a=b", "fieldSelector": "c=d"},
        JSON,
        OPTIONS | {"propagationPolicy": "Background"},
    ),
}


@pytest.mark.parametrize("verb", WANT)
async def test_what_each_write_sends(verb: str) -> None:
    asked = await asked_by(verb)
    assert (asked.method, asked.path, asked.query, asked.headers["Content-Type"], asked.json) == WANT[verb]


async def test_each_request_names_its_sender_and_asks_for_plain_json() -> None:
    async with serve(reply(POD)) as stub, client_of(stub) as client:
        await client.get(PODS, KEY, type=Object)
        headers = stub.asked[0].headers
        assert headers["User-Agent"].startswith("grove-operator/")
        assert (headers["Accept"], headers["Accept-Encoding"]) == ("application/json", "identity")
        assert "Content-Type" not in headers


async def test_a_delete_tells_whether_something_is_left() -> None:
    status = {"kind": "Status", "status": "Success", "details": {"name": "a", "uid": "u"}}
    async with serve(reply(POD | {"kind": "Pod"}), reply(status)) as stub, client_of(stub) as client:
        left = await client.delete(PODS, KEY)
        assert left is not None
        assert left.metadata.uid == "u"
        assert await client.delete(PODS, KEY) is None


async def test_already_exists_and_conflict_are_two_things() -> None:
    replies = refusal(409, "AlreadyExists", 'pods "a" already exists'), refusal(409, "Conflict", "changed")
    async with serve(*replies) as stub, client_of(stub) as client:
        with pytest.raises(errors.AlreadyExists, match="already exists"):
            await client.create(PODS, POD)
        with pytest.raises(errors.Conflict, match="changed"):
            await client.replace(PODS, POD)


WRONG = {
    "an empty name would delete the collection": Key("x", ""),
    "a slash would reach another resource": Key("x", "a/status"),
    "dots would climb": Key("x", ".."),
    "an empty namespace would mean all of them": Key("", "a"),
}


@pytest.mark.parametrize("key", WRONG.values(), ids=WRONG)
async def test_a_key_that_addresses_something_else_is_refused(key: Key) -> None:
    async with serve(reply(POD)) as stub, client_of(stub) as client:
        with pytest.raises(errors.InvalidInput, match=r"metadata\.(name|namespace): Pod:"):
            await client.delete(PODS, key)
        assert stub.asked == []


async def test_a_collection_of_all_namespaces_is_never_deleted() -> None:
    async with serve(reply({})) as stub, client_of(stub) as client:
        with pytest.raises(errors.InvalidInput):
            await client.delete_collection(PODS, labels="a=b")
        assert stub.asked == []


async def test_names_and_selectors_are_encoded_once() -> None:
    roles = resource("rbac.authorization.k8s.io", "v1", "ClusterRole", namespaced=False)
    async with serve(reply(POD), reply({"items": []})) as stub, client_of(stub) as client:
        await client.get(roles, Key("", "system:a b"), type=dict)
        await client.list(PODS, type=dict, labels="a in (b,c),d=e&f", limit=0)
        assert stub.asked[0].target == "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:a%20b"
        assert stub.asked[1].query == {"labelSelector": "a in (b,c),d=e&f"}


async def test_a_server_behind_a_path_is_reached_there() -> None:
    async with serve(reply(POD)) as stub, client_to(Connection(stub.url + "/k8s/clusters/c-1")) as client:
        await client.get(PODS, KEY, type=dict)
        assert stub.asked[0].path == "/k8s/clusters/c-1/api/v1/namespaces/x/pods/a"


async def test_a_redirect_is_an_error_and_is_not_followed() -> None:
    async with serve(Reply(302, b"", {"Location": "/login"})) as stub, client_of(stub) as client:
        with pytest.raises(errors.ApiError, match="302 Found"):
            await client.get(PODS, KEY, type=dict)
        assert len(stub.asked) == 1


@pytest.mark.filterwarnings("error")
async def test_a_body_of_megabytes_arrives_whole() -> None:
    large = POD | {"data": "x" * 3_000_000}
    async with serve(reply(POD)) as stub, client_of(stub) as client:
        await client.create(PODS, large)
        assert stub.asked[0].json == large
        assert "Content-Length" in stub.asked[0].headers


async def test_a_warning_of_the_server_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    warned = Reply(200, b"{}", {"Warning": '299 - "unknown field spec.x"'})
    async with serve(warned) as stub, client_of(stub) as client:
        await client.create(PODS, POD)
        await client.create(PODS, POD)
    assert [record.name for record in caplog.records] == [exchange_log.name]


async def test_many_requests_share_few_connections() -> None:
    async with serve(reply(POD)) as stub, client_of(stub, pool=2) as client:
        pods = await asyncio.gather(*(client.get(PODS, KEY, type=Object) for _ in range(20)))
        assert {pod.name for pod in pods} == {"a"}
        assert len(stub.asked) == 20


async def test_raw_gives_the_body_as_it_came() -> None:
    async with serve(Reply(body=b"line 1\nline 2\n")) as stub, client_of(stub) as client:
        response = await raw(client, "GET", "/api/v1/namespaces/x/pods/a/log", query=[("tailLines", "2")])
        assert (response.status, response.body) == (200, b"line 1\nline 2\n")
        assert stub.asked[0].query == {"tailLines": "2"}


def test_a_client_can_be_made_before_the_event_loop_runs() -> None:
    client = Client(HttpTransport(Connection("http://127.0.0.1:1")), retries=RetryPolicy(attempts=1))

    async def use() -> None:
        try:
            await client.version()
        finally:
            await client.close()

    with pytest.raises(errors.Unreachable, match="no connection"):
        asyncio.run(use())
