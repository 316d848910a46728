"""Which webhooks are asked about a write, and what counts as an answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.embedded.bare_cluster import (
    CRDS,
    GANGS,
    MAPS,
    config_map,
    gang,
    gang_crd,
    json_of,
    refusal,
    send,
    with_cluster,
)
from tests.embedded.verbs.hooks import (
    CONFIGURATIONS,
    RULE,
    Hooks,
    about,
    adding,
    configure,
    serve,
    webhook,
)

from grove.embedded.cluster import EmbeddedCluster
from grove.embedded.errors import ApiError
from grove.embedded.local import LocalClient
from grove.embedded.storage.store import encode

Manifest = dict[str, Any]


# --- who is asked

NOT_ASKED: dict[str, Manifest] = {
    "another operation": {"rules": [{**RULE, "operations": ["UPDATE"]}]},
    "another group": {"rules": [{**RULE, "apiGroups": ["apps"]}]},
    "another version": {"rules": [{**RULE, "apiVersions": ["v2"]}]},
    "its subresources": {"rules": [{**RULE, "resources": ["configmaps/status"]}]},
    "subresources of everything": {"rules": [{**RULE, "resources": ["*/scale"]}]},
    "kinds without a namespace": {"rules": [{**RULE, "scope": "Cluster"}]},
    "another namespace": {"namespaceSelector": {"matchLabels": {"team": "b"}}},
    "other objects": {
        "objectSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]}
    },
    "a condition that is false": {
        "matchConditions": [{"name": "c", "expression": "object.metadata.name == 'q'"}]
    },
    "a false condition beside one that fails": {
        "matchConditions": [
            {"name": "fails", "expression": "object.spec.x == 1"},
            {"name": "false", "expression": "false"},
        ]
    },
    "a condition that fails, where failures are ignored": {
        "failurePolicy": "Ignore",
        "matchConditions": [{"name": "fails", "expression": "object.spec.x == 1"}],
    },
}
ASKED: dict[str, Manifest] = {
    "everything": {
        "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]
    },
    "the kind and its subresources": {"rules": [{**RULE, "resources": ["configmaps/*"]}]},
    "all kinds": {"rules": [{**RULE, "resources": ["*"], "scope": "Namespaced"}]},
    "its namespace": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}},
    "a label of the object": {"objectSelector": {"matchLabels": {"app": "x"}}},
    "a condition that holds": {
        "matchConditions": [
            {"name": "c", "expression": "request.userInfo.username.startsWith('kube') && oldObject == null"}
        ]
    },
}


async def _asked(cluster: EmbeddedCluster, client: LocalClient, more: Manifest) -> Hooks:
    hooks = serve(cluster)
    await configure(client, "Validating", "c", webhook("/v", **more))
    await client.create(MAPS, config_map("m", app="x"))
    return hooks


@pytest.mark.parametrize("more", NOT_ASKED.values(), ids=NOT_ASKED)
def test_a_webhook_is_not_asked_that_wants(more: Manifest) -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        assert (await _asked(cluster, client, more)).asked == []

    with_cluster(body)


@pytest.mark.parametrize("more", ASKED.values(), ids=ASKED)
def test_a_webhook_is_asked_that_wants(more: Manifest) -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        assert (await _asked(cluster, client, more)).paths == ["/v"]

    with_cluster(body)


def test_a_condition_that_fails_refuses_the_write() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        broken = [{"name": "fails", "expression": "object.spec.x == 1"}]
        refused = await refusal(_asked(cluster, client, {"matchConditions": broken}))
        assert (refused.status, refused.reason) == (403, "Forbidden")
        want = "configmaps \"m\" is forbidden: expression 'object.spec.x == 1' resulted in error: "
        assert refused.message.startswith(want)

    with_cluster(body)


def test_an_update_is_asked_about_when_the_old_or_the_new_object_is_selected() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(MAPS, config_map("m", app="x"))
        hooks = serve(cluster)
        await configure(
            client, "Validating", "c", webhook("/v", objectSelector={"matchLabels": {"app": "x"}})
        )
        await client.patch(f"{MAPS}/m", {"metadata": {"labels": {"app": "y"}}})
        await client.patch(f"{MAPS}/m", {"metadata": {"labels": {"app": "z"}}})
        assert [asked["object"]["metadata"]["labels"]["app"] for asked in hooks.asked] == ["y"]

    with_cluster(body)


def test_webhooks_are_never_asked_about_webhook_configurations() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        everything = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]
        hooks = serve(cluster, {"/v": {"allowed": False}})
        await configure(client, "Validating", "c", webhook("/v", rules=everything))
        await client.delete(f"{CONFIGURATIONS}/validatingwebhookconfigurations/c")
        assert hooks.asked == []

    with_cluster(body)


def test_a_rule_for_another_version_of_the_kind_is_asked_in_that_version_unless_it_wants_the_exact_one() -> (
    None
):
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        crd = gang_crd()
        (first,) = crd["spec"]["versions"]
        crd["spec"]["versions"] = [first, {**first, "name": "v2", "storage": False}]
        await client.create(CRDS, crd)
        hooks = serve(cluster, {"/equal": adding("/spec/queue", "hooked")})
        rules = about("gangs", group="sched.example.com")
        exact = webhook("/exact", rules=rules, matchPolicy="Exact")
        await configure(client, "Mutating", "c", exact, webhook("/equal", rules=rules))
        made = await client.create(GANGS.replace("/v1/", "/v2/"), gang("g"))
        (asked,) = hooks.asked
        assert (asked["path"], asked["kind"]["version"]) == ("/equal", "v1")
        assert (asked["requestKind"]["version"], asked["object"]["apiVersion"]) == (
            "v2",
            "sched.example.com/v1",
        )
        assert (made["apiVersion"], made["spec"]["queue"]) == ("sched.example.com/v2", "hooked")

    with_cluster(body)


# --- what they answer


def test_a_refusal_carries_the_webhooks_words_code_reason_and_warnings() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        status = {"message": "not today", "code": 422, "reason": "Invalid"}
        serve(cluster, {"/no": {"allowed": False, "status": status, "warnings": ['say "please"', "a\nb"]}})
        await configure(client, "Validating", "c", webhook("/no"))
        answer = await send(cluster, "POST", MAPS, encode(config_map("m")))
        told = json_of(answer)
        assert (answer.status, told["reason"]) == (422, "Invalid")
        assert told["message"] == 'admission webhook "no.example.com" denied the request: not today'
        assert answer.warning_headers() == ['299 - "say \\"please\\""']

    with_cluster(body)


def test_a_refusal_without_words_is_a_bad_request() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        serve(cluster, {"/no": {"allowed": False}})
        await configure(client, "Mutating", "c", webhook("/no"))
        refused = await refusal(client.create(MAPS, config_map("m")))
        assert (refused.status, refused.message) == (
            400,
            'admission webhook "no.example.com" denied the request without explanation',
        )

    with_cluster(body)


def test_validating_webhooks_are_asked_together_and_the_first_refusal_is_told() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        no = {"allowed": False, "after": 5}
        hooks = serve(cluster, {f"/v{index}": dict(no) for index in range(4)})
        await configure(client, "Validating", "c", *(webhook(f"/v{index}") for index in range(4)))
        before = asyncio.get_running_loop().time()
        refused = await refusal(client.create(MAPS, config_map("m")))
        assert '"v0.example.com"' in refused.message
        assert asyncio.get_running_loop().time() - before == 5
        assert sorted(hooks.paths) == ["/v0", "/v1", "/v2", "/v3"]

    with_cluster(body)


def test_a_webhook_that_takes_too_long_fails_when_its_time_is_over() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        serve(cluster, {"/v": {"after": 60}})
        await configure(client, "Validating", "c", webhook("/v", timeoutSeconds=3))
        before = asyncio.get_running_loop().time()
        refused = await refusal(client.create(MAPS, config_map("m")))
        assert asyncio.get_running_loop().time() - before == 3
        assert (refused.status, refused.message) == (
            500,
            'Internal error occurred: failed calling webhook "v.example.com": failed to call webhook: '
            'Post "https://hook.hooks.svc:443/v?timeout=3s": context deadline exceeded',
        )

    with_cluster(body)


def raw(review: object, **more: object) -> Manifest:
    return {"raw": encode(review), **more}


GOOD = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}
INVALID = "received invalid webhook response: "
BAD_ANSWERS: dict[str, tuple[str, Manifest, str]] = {
    "no response": ("Validating", raw(GOOD), f"{INVALID}webhook response was absent"),
    "to another question": (
        "Validating",
        {"uid": "other"},
        f'{INVALID}expected response.uid="',
    ),
    "a patch of a validating webhook": (
        "Validating",
        adding("/data/x", "1"),
        f"{INVALID}validating webhook may not return response.patch",
    ),
    "a patch without its type": (
        "Mutating",
        {**adding("/data/x", "1"), "patchType": None},
        f"{INVALID}webhook returned response.patch but not response.patchType",
    ),
    "a type without a patch": (
        "Mutating",
        {"patchType": "JSONPatch"},
        f"{INVALID}webhook returned response.patchType but not response.patch",
    ),
    "a patch of another type": (
        "Mutating",
        {**adding("/data/x", "1"), "patchType": "Merge"},
        'unsupported patch type "Merge"',
    ),
    "a patch that is none": (
        "Mutating",
        {"patchType": "JSONPatch", "patch": "bm9uZQ=="},
        "received undecodable patch in webhook response: ",
    ),
    "an error": (
        "Validating",
        {"raw": b"oh no", "http": 500},
        'failed to call webhook: an error on the server ("oh no") has prevented the request from succeeding',
    ),
    "not found": (
        "Validating",
        {"raw": b"", "http": 404},
        "failed to call webhook: the server could not find the requested resource",
    ),
    "no JSON": ("Validating", {"raw": b"{"}, "failed to call webhook: "),
}


async def _refused_by_an_answer(
    cluster: EmbeddedCluster, client: LocalClient, kind: str, answer: Manifest, policy: str
) -> ApiError | None:
    serve(cluster, {"/x": dict(answer)})
    await configure(client, kind, "c", webhook("/x", failurePolicy=policy))
    try:
        await client.create(MAPS, config_map("m"))
    except ApiError as error:
        return error
    return None


@pytest.mark.parametrize(("kind", "answer", "want"), BAD_ANSWERS.values(), ids=BAD_ANSWERS)
def test_what_is_no_answer_refuses_the_write(kind: str, answer: Manifest, want: str) -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        refused = await _refused_by_an_answer(cluster, client, kind, answer, "Fail")
        assert refused is not None
        assert (refused.status, refused.reason) == (500, "InternalError")
        begin = 'Internal error occurred: failed calling webhook "x.example.com": '
        assert refused.message.startswith(f"{begin}{want}")

    with_cluster(body)


@pytest.mark.parametrize(("kind", "answer", "want"), BAD_ANSWERS.values(), ids=BAD_ANSWERS)
def test_unless_failures_are_to_be_ignored(kind: str, answer: Manifest, want: str) -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        assert await _refused_by_an_answer(cluster, client, kind, answer, "Ignore") is None
        assert (await client.get(f"{MAPS}/m"))["data"] == {"a": "1"}

    with_cluster(body)


def test_a_webhook_of_the_first_review_version_answers_without_uid() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        answer = {"response": {"allowed": False, "status": {"message": "old"}}}
        serve(cluster, {"/x": raw(answer)})
        await configure(client, "Validating", "c", webhook("/x", admissionReviewVersions=["v1beta1", "v1"]))
        refused = await refusal(client.create(MAPS, config_map("m")))
        assert refused.message.endswith("denied the request: old")

    with_cluster(body)


def test_a_patch_that_lost_a_race_while_a_webhook_thought_about_it_is_made_again() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(MAPS, config_map("m"))
        serve(cluster, {"/v": {"after": 1}})
        await configure(client, "Validating", "c", webhook("/v"))
        await asyncio.gather(
            client.patch(f"{MAPS}/m", {"data": {"b": "1"}}),
            client.patch(f"{MAPS}/m", {"data": {"c": "1"}}),
        )
        assert (await client.get(f"{MAPS}/m"))["data"] == {"a": "1", "b": "1", "c": "1"}

    with_cluster(body)
