"""Webhook configurations: what is filled in, and what may not be configured."""

from __future__ import annotations

from typing import Any

import pytest
from tests.embedded.bare_cluster import json_of, refusal, send, with_cluster
from tests.embedded.verbs.hooks import CONFIGURATIONS, RULE, configure, webhook

from grove.embedded.cluster import EmbeddedCluster
from grove.embedded.local import LocalClient

Manifest = dict[str, Any]
URL = "webhooks[0].clientConfig.url"


def test_what_is_not_said_is_filled_in() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        for kind in ("Mutating", "Validating"):
            (made,) = (await configure(client, kind, "c", webhook("/v")))["webhooks"]
            again = {"reinvocationPolicy": "Never"} if kind == "Mutating" else {}
            service = {"namespace": "hooks", "name": "hook", "path": "/v", "port": 443}
            assert made == {
                **webhook("/v"),
                "clientConfig": {"service": service},
                "rules": [{**RULE, "scope": "*"}],
                "failurePolicy": "Fail",
                "matchPolicy": "Equivalent",
                "namespaceSelector": {},
                "objectSelector": {},
                "timeoutSeconds": 10,
                **again,
            }

    with_cluster(body)


def by_url(url: str) -> Manifest:
    return {"clientConfig": {"url": url}}


def by_service(**more: object) -> Manifest:
    return {"clientConfig": {"service": {"namespace": "n", "name": "s", **more}}}


def ruled(**more: object) -> Manifest:
    return {"rules": [{**RULE, **more}]}


def conditional(*expressions: str) -> Manifest:
    return {"matchConditions": [{"name": "c", "expression": text} for text in expressions]}


def selecting(operator: str, *values: str) -> Manifest:
    expression = {"key": "k", "operator": operator, "values": list(values)}
    return {"objectSelector": {"matchExpressions": [expression]}}


REFUSED: dict[str, tuple[Manifest, str, str]] = {
    "a name of two parts": (
        {"name": "a.b"},
        "webhooks[0].name",
        "should be a domain with at least three segments separated by dots",
    ),
    "no name": ({"name": ""}, "webhooks[0].name", "Required value"),
    "capitals": ({"name": "A.b.c"}, "webhooks[0].name", "RFC 1123 subdomain"),
    "no side effects": (
        {"sideEffects": None},
        "webhooks[0].sideEffects",
        "Required value: must specify one of None, NoneOnDryRun",
    ),
    "side effects": ({"sideEffects": "Some"}, "webhooks[0].sideEffects", 'Unsupported value: "Some"'),
    "a policy": ({"failurePolicy": "Maybe"}, "webhooks[0].failurePolicy", 'values: "Fail", "Ignore"'),
    "a match policy": ({"matchPolicy": "x"}, "webhooks[0].matchPolicy", 'values: "Equivalent", "Exact"'),
    "no time": ({"timeoutSeconds": 0}, "webhooks[0].timeoutSeconds", "must be between 1 and 30 seconds"),
    "much time": ({"timeoutSeconds": 31}, "webhooks[0].timeoutSeconds", "must be between 1 and 30 seconds"),
    "no review version": (
        {"admissionReviewVersions": []},
        "webhooks[0].admissionReviewVersions",
        "Required value: must specify one of v1, v1beta1",
    ),
    "unknown review versions": (
        {"admissionReviewVersions": ["v3"]},
        "webhooks[0].admissionReviewVersions",
        "must include at least one of v1, v1beta1",
    ),
    "a review version twice": (
        {"admissionReviewVersions": ["v1", "v1"]},
        "webhooks[0].admissionReviewVersions[1]",
        "duplicate version",
    ),
    "neither url nor service": ({"clientConfig": {}}, "webhooks[0].clientConfig", "exactly one of url or"),
    "http": (by_url("http://h/x"), URL, "'https' is the only allowed URL scheme"),
    "no host": (by_url("https:///x"), URL, "host must be specified"),
    "a user": (by_url("https://a:b@h/x"), URL, "user information is not permitted in the URL"),
    "a fragment": (by_url("https://h/x#y"), URL, "fragments are not permitted in the URL"),
    "a query": (by_url("https://h/x?y=1"), URL, "query parameters are not permitted in the URL"),
    "a port": (by_service(port=70000), "webhooks[0].clientConfig.service.port", "port is not valid"),
    "a path": (by_service(path="xy"), "webhooks[0].clientConfig.service.path", "must start with a '/'"),
    "a hole": (by_service(path="/a//b"), "webhooks[0].clientConfig.service.path", "segment[1] may not be"),
    "no operation": (ruled(operations=[]), "webhooks[0].rules[0].operations", "Required value"),
    "an operation": (ruled(operations=["GET"]), "webhooks[0].rules[0].operations[0]", "Unsupported value"),
    "a star among operations": (
        ruled(operations=["*", "CREATE"]),
        "webhooks[0].rules[0].operations",
        "if '*' is present, must not specify other operations",
    ),
    "a star among groups": (
        ruled(apiGroups=["*", "x"]),
        "webhooks[0].rules[0].apiGroups",
        "other API groups",
    ),
    "no version": (ruled(apiVersions=[]), "webhooks[0].rules[0].apiVersions", "Required value"),
    "no resource": (ruled(resources=[]), "webhooks[0].rules[0].resources", "Required value"),
    "two stars among resources": (
        ruled(resources=["*/*", "pods"]),
        "webhooks[0].rules[0].resources",
        "if '*/*' is present, must not specify other resources",
    ),
    "a covered subresource": (
        ruled(resources=["pods/*", "pods/status"]),
        "webhooks[0].rules[0].resources[1]",
        "if 'pods/*' is present, must not specify pods/status",
    ),
    "a covered resource": (
        ruled(resources=["*", "pods"]),
        "webhooks[0].rules[0].resources",
        "if '*' is present, must not specify other resources without subresources",
    ),
    "a scope": (ruled(scope="Some"), "webhooks[0].rules[0].scope", "Unsupported value"),
    "an operator": (
        selecting("Is"),
        "webhooks[0].objectSelector.matchExpressions[0].operator",
        "not a valid selector operator",
    ),
    "no values": (
        selecting("In"),
        "webhooks[0].objectSelector.matchExpressions[0].values",
        "must be specified when `operator` is 'In' or 'NotIn'",
    ),
    "values": (
        selecting("Exists", "x"),
        "webhooks[0].objectSelector.matchExpressions[0].values",
        "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
    ),
    "a label": (
        {"namespaceSelector": {"matchLabels": {"a b": "c"}}},
        "webhooks[0].namespaceSelector.matchLabels",
        "name part must consist of",
    ),
    "a condition that is no CEL": (
        conditional("object."),
        "webhooks[0].matchConditions[0].expression",
        "compilation failed: ",
    ),
    "an unknown variable": (
        conditional("self.x"),
        "webhooks[0].matchConditions[0].expression",
        "compilation failed: ",
    ),
    "no condition": (conditional(" "), "webhooks[0].matchConditions[0].expression", "Required value"),
    "a condition's name twice": (
        conditional("true", "true"),
        "webhooks[0].matchConditions[1].name",
        "Duplicate value",
    ),
    "many conditions": (
        {"matchConditions": [{"name": f"c{index}", "expression": "true"} for index in range(65)]},
        "webhooks[0].matchConditions",
        "Too many: 65: must have at most 64 items",
    ),
}


@pytest.mark.parametrize(("more", "field", "want"), REFUSED.values(), ids=REFUSED)
def test_a_webhook_cannot_be_configured_with(more: Manifest, field: str, want: str) -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        refused = await refusal(configure(client, "Validating", "c", {**webhook("/v"), **more}))
        assert (refused.status, refused.reason) == (422, "Invalid")
        (cause,) = (refused.details or {})["causes"]
        assert cause["field"] == field
        assert want in cause["message"]

    with_cluster(body)


def test_names_are_unique_within_a_configuration_and_only_there() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        refused = await refusal(configure(client, "Mutating", "c", webhook("/v"), webhook("/v")))
        (cause,) = (refused.details or {})["causes"]
        assert (cause["field"], cause["reason"]) == ("webhooks[1].name", "FieldValueDuplicate")
        await configure(client, "Mutating", "c", webhook("/v"))
        await configure(client, "Mutating", "d", webhook("/v"))

    with_cluster(body)


def test_an_update_is_checked_too() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        made = await configure(client, "Mutating", "c", webhook("/v"))
        made["webhooks"][0]["reinvocationPolicy"] = "Always"
        path = f"{CONFIGURATIONS}/mutatingwebhookconfigurations/c"
        assert "reinvocationPolicy" in (await refusal(client.update(path, made))).message

    with_cluster(body)


def test_kubectl_sees_how_many_webhooks_there_are() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await configure(client, "Mutating", "c", webhook("/a"), webhook("/b"))
        path = f"{CONFIGURATIONS}/mutatingwebhookconfigurations"
        as_table = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
        table = json_of(await send(cluster, "GET", path, headers=as_table))
        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Webhooks", "Age"]
        assert table["rows"][0]["cells"][:2] == ["c", 2]

    with_cluster(body)
