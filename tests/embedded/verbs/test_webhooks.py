"""Admission webhooks over real TLS on loopback: matching, order, patches, refusals, failures."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from grove.embedded.errors import ApiError
from grove.embedded.kinds.registry import Registry
from grove.embedded.machinery.options import WriteOptions
from grove.embedded.verbs.webhooks import Webhooks, selects

Manifest = dict[str, Any]
PODS = next(found for found in Registry("1.36") if found.key == ("", "pods"))
POD: Manifest = {"metadata": {"name": "p", "namespace": "d", "labels": {"app": "x"}}, "spec": {}}
NAMESPACE = {"metadata": {"name": "d", "labels": {"team": "a"}}}
RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}


@cache
def certificate() -> tuple[bytes, bytes]:
    """A self-signed certificate for the service hook.d.svc, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hook.d.svc")])
    start = datetime.now(UTC) - timedelta(hours=1)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("hook.d.svc")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return made.public_bytes(serialization.Encoding.PEM), private


@dataclass
class Hook:
    """A webhook server: answers by path, and remembers what it was asked."""

    answers: dict[str, Manifest]
    asked: list[Manifest] = field(default_factory=list)
    port: int = 0

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        review = json.loads(await request.read())
        self.asked.append({"path": request.path, **review["request"]})
        answer = self.answers.get(request.path, {"allowed": True})
        if "http" in answer:
            return web.Response(status=answer["http"])
        if "hang" in answer:
            await asyncio.Event().wait()
        response = {"uid": review["request"]["uid"], **answer}
        return web.json_response(
            {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}
        )


def with_hook(tmp_path: Path, answers: dict[str, Manifest], body: Callable[[Hook], Awaitable[None]]) -> Hook:
    hook = Hook(answers)

    async def main() -> None:
        public, private = certificate()
        (tmp_path / "tls.pem").write_bytes(public + private)
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(tmp_path / "tls.pem")
        runner = web.ServerRunner(web.Server(hook.answer), shutdown_timeout=0.01)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        hook.port = runner.addresses[0][1]
        try:
            await body(hook)
        finally:
            await runner.cleanup()

    asyncio.run(main())
    return hook


def webhook(path: str, **more: Any) -> Manifest:
    config = {
        "service": {"namespace": "d", "name": "hook", "path": path},
        "caBundle": base64.b64encode(certificate()[0]).decode(),
    }
    return {
        "name": f"{path[1:]}.example.com",
        "clientConfig": config,
        "rules": [RULE],
        "timeoutSeconds": 5,
        **more,
    }


def webhooks(
    hook: Hook, *, mutating: dict[str, list[Manifest]] | None = None, validating: list[Manifest] | None = None
) -> Webhooks:
    stored = {
        "mutatingwebhookconfigurations": [
            {"metadata": {"name": name}, "webhooks": hooks} for name, hooks in (mutating or {}).items()
        ],
        "validatingwebhookconfigurations": [{"metadata": {"name": "v"}, "webhooks": validating}]
        if validating
        else [],
    }
    uids = iter(range(100))
    return Webhooks(
        all_of=lambda group, plural, namespace: stored[plural],
        find=lambda group, plural, namespace, name: NAMESPACE,
        resolve=lambda namespace, name, port: f"127.0.0.1:{hook.port}" if name == "hook" else None,
        new_uid=lambda: f"uid-{next(uids)}",
    )


def patching(*operations: Manifest) -> Manifest:
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": patch}


def validated(
    tmp_path: Path, answers: dict[str, Manifest], hooks: list[Manifest], options: WriteOptions | None = None
) -> Hook:
    async def body(hook: Hook) -> None:
        admission = webhooks(hook, validating=hooks)
        try:
            await admission.validate("CREATE", PODS, POD, None, options or WriteOptions())
        finally:
            await admission.close()

    return with_hook(tmp_path, answers, body)


def mutated(
    tmp_path: Path, answers: dict[str, Manifest], configurations: dict[str, list[Manifest]]
) -> tuple[Hook, Manifest]:
    results: list[Manifest] = []

    async def body(hook: Hook) -> None:
        admission = webhooks(hook, mutating=configurations)
        try:
            results.append(await admission.mutate("CREATE", PODS, POD, None, WriteOptions()))
        finally:
            await admission.close()

    return with_hook(tmp_path, answers, body), results[0]


def test_mutating_webhooks_run_in_order_of_their_configurations_and_see_each_others_work(
    tmp_path: Path,
) -> None:
    answers = {
        "/first": patching({"op": "add", "path": "/spec/a", "value": 1}),
        "/second": patching(
            {"op": "test", "path": "/spec/a", "value": 1}, {"op": "add", "path": "/spec/b", "value": 2}
        ),
    }
    hook, result = mutated(tmp_path, answers, {"z": [webhook("/second")], "a": [webhook("/first")]})
    assert [asked["path"] for asked in hook.asked] == ["/first", "/second"]
    assert (result["spec"], POD["spec"]) == ({"a": 1, "b": 2}, {})


def test_a_webhook_that_asked_for_it_sees_what_later_ones_changed(tmp_path: Path) -> None:
    answers = {"/late": patching({"op": "add", "path": "/spec/late", "value": True})}
    again = webhook("/early", reinvocationPolicy="IfNeeded")
    hook, _ = mutated(tmp_path, answers, {"c": [again, webhook("/late")]})
    assert [asked["path"] for asked in hook.asked] == ["/early", "/late", "/early"]


def test_an_object_that_nobody_changes_is_returned_as_it_came(tmp_path: Path) -> None:
    _, result = mutated(tmp_path, {}, {"c": [webhook("/quiet")]})
    assert result is POD


def test_the_review_says_who_does_what_to_which_object(tmp_path: Path) -> None:
    hook = validated(tmp_path, {}, [webhook("/v")], WriteOptions(dry_run=True))
    (asked,) = hook.asked
    assert asked["operation"] == "CREATE"
    assert asked["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert (asked["name"], asked["namespace"], asked["dryRun"], asked["object"]) == ("p", "d", True, POD)
    assert asked["userInfo"]["username"] == "kubernetes-admin"


def test_a_refusal_carries_the_webhooks_words_and_code(tmp_path: Path) -> None:
    answers = {
        "/no": {"allowed": False, "status": {"message": "not today", "code": 422, "reason": "Invalid"}}
    }
    with pytest.raises(ApiError) as refused:
        validated(tmp_path, answers, [webhook("/no")])
    assert (refused.value.status, refused.value.reason) == (422, "Invalid")
    assert refused.value.message == 'admission webhook "no.example.com" denied the request: not today'


def test_a_refusal_without_words_is_a_bad_request(tmp_path: Path) -> None:
    with pytest.raises(ApiError) as refused:
        validated(tmp_path, {"/no": {"allowed": False}}, [webhook("/no")])
    assert (refused.value.status, refused.value.message) == (
        400,
        'admission webhook "no.example.com" denied the request without explanation',
    )


def test_warnings_reach_the_client(tmp_path: Path) -> None:
    options = WriteOptions()
    validated(tmp_path, {"/v": {"allowed": True, "warnings": ["careful"]}}, [webhook("/v")], options)
    assert options.warnings == ["careful"]


def unreachable(**more: Any) -> Manifest:
    hook = webhook("/x", **more)
    hook["clientConfig"]["service"]["name"] = "nowhere"
    return hook


FAILURES: dict[str, tuple[dict[str, Manifest], Manifest]] = {
    "an error of the server": ({"/x": {"http": 500}}, webhook("/x")),
    "an answer to another question": ({"/x": {"allowed": True, "uid": "other"}}, webhook("/x")),
    "a service without address": ({}, unreachable()),
    "no certificate to trust": (
        {},
        {**webhook("/x"), "clientConfig": {**webhook("/x")["clientConfig"], "caBundle": ""}},
    ),
    "no answer in time": ({"/x": {"hang": True}}, webhook("/x", timeoutSeconds=0.05)),
}


@pytest.mark.parametrize(("answers", "hook"), FAILURES.values(), ids=FAILURES)
def test_a_webhook_that_fails_refuses_the_write(
    tmp_path: Path, answers: dict[str, Manifest], hook: Manifest
) -> None:
    with pytest.raises(ApiError) as refused:
        validated(tmp_path, answers, [hook])
    assert refused.value.status == 500
    assert refused.value.message.startswith(
        'Internal error occurred: failed calling webhook "x.example.com": failed to call webhook: '
    )


@pytest.mark.parametrize(("answers", "hook"), FAILURES.values(), ids=FAILURES)
def test_unless_its_failure_is_to_be_ignored(
    tmp_path: Path, answers: dict[str, Manifest], hook: Manifest
) -> None:
    seen = validated(tmp_path, answers, [{**hook, "failurePolicy": "Ignore"}, webhook("/after")])
    assert "/after" in [asked["path"] for asked in seen.asked]


NOT_ASKED: dict[str, Manifest] = {
    "another operation": {"rules": [{**RULE, "operations": ["UPDATE"]}]},
    "another group": {"rules": [{**RULE, "apiGroups": ["apps"]}]},
    "a subresource": {"rules": [{**RULE, "resources": ["pods/status"]}]},
    "cluster-wide kinds only": {"rules": [{**RULE, "scope": "Cluster"}]},
    "another namespace": {"namespaceSelector": {"matchLabels": {"team": "b"}}},
    "other objects": {
        "objectSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]}
    },
    "a condition that does not hold": {
        "matchConditions": [{"name": "c", "expression": "object.metadata.name == 'q'"}]
    },
}


@pytest.mark.parametrize("more", NOT_ASKED.values(), ids=NOT_ASKED)
def test_a_webhook_is_not_asked_about(tmp_path: Path, more: Manifest) -> None:
    assert validated(tmp_path, {}, [webhook("/v", **more)]).asked == []


ASKED: dict[str, Manifest] = {
    "everything": {
        "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]
    },
    "its namespace": {"namespaceSelector": {"matchLabels": {"team": "a"}}},
    "a condition that holds": {
        "matchConditions": [{"name": "c", "expression": "request.userInfo.username.startsWith('kube')"}]
    },
}


@pytest.mark.parametrize("more", ASKED.values(), ids=ASKED)
def test_a_webhook_is_asked_about(tmp_path: Path, more: Manifest) -> None:
    assert len(validated(tmp_path, {}, [webhook("/v", **more)]).asked) == 1


SELECTORS: dict[str, tuple[Manifest | None, bool]] = {
    "nothing selects everything": (None, True),
    "exists": ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, True),
    "does not exist": ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, False),
    "in": ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, True),
    "not in, and absent": ({"matchExpressions": [{"key": "z", "operator": "NotIn", "values": ["1"]}]}, True),
}


@pytest.mark.parametrize(("selector", "want"), SELECTORS.values(), ids=SELECTORS)
def test_selectors(selector: Manifest | None, want: bool) -> None:
    assert selects(selector, {"a": "1"}) is want
