"""Webhook configurations: what is filled in, and what may not be configured."""

from __future__ import annotations

from typing import Any

from tests.contract.contract import TABLE, Answer, Contract, Observation
from tests.contract.objects import Manifest
from tests.contract.webhook_world import configuration, plural, rule, webhook

NOWHERE = {"url": "https://127.0.0.1:1/x"}


def _idle(api: Contract, **more: Any) -> Manifest:
    """A webhook that nothing matches."""
    never = {"matchLabels": {"never": "matches"}}
    return webhook(api, clientConfig=NOWHERE, objectSelector=never, **more)


async def check_a_webhook_configuration_without_review_versions(api: Contract) -> Observation:
    bare = {"name": "a.b.c", "clientConfig": {"url": "https://127.0.0.1:1/x"}}
    return (await api.create(plural("Validating"), configuration("Validating", api, bare))).refused


async def check_what_a_webhook_configuration_leaves_out(api: Contract) -> Observation:
    service = {"service": {"namespace": "default", "name": "nobody"}}
    observed = []
    for kind in ("Mutating", "Validating"):
        sent = {"name": "a.b.c", "clientConfig": service, "sideEffects": "None"}
        sent["admissionReviewVersions"] = ["v1"]
        made = await api.create(plural(kind), configuration(kind, api, sent), dryRun="All")
        observed.append([made.body["webhooks"], made.meta.get("generation")])
    return observed


async def check_webhook_configurations_as_a_table(api: Contract) -> Observation:
    path = plural("Validating")
    two = [_idle(api), {**_idle(api), "name": "other.example.com"}]
    await api.create(path, configuration("Validating", api, *two))
    table = (await api.get(f"{path}/{api.namespace}", accept=TABLE)).body
    await api.delete(f"{path}/{api.namespace}")
    return [[column["name"] for column in table["columnDefinitions"]], table["rows"][0]["cells"][:2]]


def _url(url: str) -> Manifest:
    return {"clientConfig": {"url": url}}


def _service(**more: object) -> Manifest:
    return {"clientConfig": {"service": {"namespace": "n", "name": "s", **more}}}


def _rule(**more: object) -> Manifest:
    return {"rules": [{**rule(), **more}]}


def _selector(operator: str, *values: str) -> Manifest:
    return {"objectSelector": {"matchExpressions": [{"key": "k", "operator": operator, "values": values}]}}


REFUSED: dict[str, Manifest] = {
    "short name": {"name": "a.b"},
    "no name": {"name": ""},
    "capitals": {"name": "A.b.c"},
    "no side effects": {"sideEffects": None},
    "side effects": {"sideEffects": "Some"},
    "failure policy": {"failurePolicy": "Maybe"},
    "match policy": {"matchPolicy": "Maybe"},
    "no time": {"timeoutSeconds": 0},
    "much time": {"timeoutSeconds": 31},
    "no review version": {"admissionReviewVersions": []},
    "unknown review version": {"admissionReviewVersions": ["v3"]},
    "review version twice": {"admissionReviewVersions": ["v1", "v1"]},
    "malformed review version": {"admissionReviewVersions": ["v1", "1"]},
    "no client": {"clientConfig": {}},
    "two clients": {"clientConfig": {**NOWHERE, "service": {"namespace": "n", "name": "s"}}},
    "http": _url("http://h/x"),
    "no host": _url("https:///x"),
    "user": _url("https://a:b@h/x"),
    "fragment": _url("https://h/x#y"),
    "query": _url("https://h/x?y=1"),
    "no namespace": _service(namespace=""),
    "no service": _service(name=""),
    "port": _service(port=70000),
    "path": _service(path="xy"),
    "hole": _service(path="/a//b"),
    "path characters": _service(path="/A"),
    "no operation": _rule(operations=[]),
    "operation": _rule(operations=["GET"]),
    "star among operations": _rule(operations=["*", "CREATE"]),
    "no group": _rule(apiGroups=[]),
    "star among groups": _rule(apiGroups=["*", "x"]),
    "no version": _rule(apiVersions=[]),
    "empty version": _rule(apiVersions=[""]),
    "star among versions": _rule(apiVersions=["*", "v1"]),
    "no resource": _rule(resources=[]),
    "empty resource": _rule(resources=[""]),
    "two stars among resources": _rule(resources=["*/*", "pods"]),
    "covered subresource": _rule(resources=["pods/*", "pods/status"]),
    "covered everywhere": _rule(resources=["*/status", "pods/status"]),
    "covered resource": _rule(resources=["*", "pods"]),
    "scope": _rule(scope="Some"),
    "operator": _selector("Is"),
    "no values": _selector("In"),
    "values": _selector("Exists", "x"),
    "empty condition": {"matchConditions": [{"name": "c", "expression": " "}]},
    "condition without a name": {"matchConditions": [{"name": "", "expression": "true"}]},
    "condition twice": {"matchConditions": [{"name": "c", "expression": "true"}] * 2},
    "many conditions": {
        "matchConditions": [{"name": f"c{index}", "expression": "true"} for index in range(65)]
    },
}
"""What may not be configured: changes to a webhook that may."""


async def check_what_cannot_be_configured(api: Contract) -> Observation:
    observed: Manifest = {}
    for name, change in REFUSED.items():
        sent = {**_idle(api), **change}
        answer = await api.create(plural("Validating"), configuration("Validating", api, sent), dryRun="All")
        observed[name] = [answer.status, _causes(answer)]
    return observed


def _causes(answer: Answer) -> Observation:
    causes = (answer.body.get("details") or {}).get("causes") or []
    return sorted([cause.get("field"), cause.get("reason"), cause.get("message")] for cause in causes)


async def check_conditions_that_cannot_be_compiled(api: Contract) -> Observation:
    observed = []
    for text in ("object.", "self.x == 1", "nowhere == 1", "object.metadata.name.nothing()"):
        sent = _idle(api, matchConditions=[{"name": "c", "expression": text}])
        answer = await api.create(plural("Validating"), configuration("Validating", api, sent), dryRun="All")
        observed.append([answer.refused, answer.fields])
    return observed


async def check_a_policy_for_asking_again_that_does_not_exist(api: Contract) -> Observation:
    sent = _idle(api, reinvocationPolicy="Always")
    answer = await api.create(plural("Mutating"), configuration("Mutating", api, sent), dryRun="All")
    return _causes(answer)


async def check_webhooks_of_one_name(api: Contract) -> Observation:
    twins = configuration("Mutating", api, _idle(api), _idle(api))
    return _causes(await api.create(plural("Mutating"), twins, dryRun="All"))
