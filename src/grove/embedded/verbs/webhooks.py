"""Dynamic admission: webhooks that are configured in the cluster, called over TLS.

Mutating webhooks run one after the other in the order of their configurations' names and may change the
object; validating ones run together and may only refuse. A webhook that cannot be reached refuses too, unless
its failurePolicy is Ignore.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from grove.embedded.errors import ApiError, Manifest, internal
from grove.embedded.machinery import cel
from grove.embedded.machinery.options import WriteOptions
from grove.embedded.machinery.patch import json_patch
from grove.embedded.resource_type import ResourceType

GROUP = "admissionregistration.k8s.io"
_MUTATING, _VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"

Resolver = Callable[[str, str, int], str | None]
"""(namespace, service, port) -> "host:port" where that service listens."""


@dataclass(frozen=True, slots=True)
class _Question:
    """One write, as every webhook is asked about it."""

    operation: str
    resource: ResourceType
    new: Manifest | None
    old: Manifest | None
    options: WriteOptions

    @property
    def subject(self) -> Manifest:
        found = self.new if self.new is not None else self.old
        assert found is not None, "a write has a new or an old object"
        return found

    def review(self, uid: str) -> Manifest:
        resource, meta = self.resource, self.subject["metadata"]
        kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        plural = {"group": resource.group, "version": resource.version, "resource": resource.plural}
        user: Manifest = {"username": self.options.user.name, "groups": list(self.options.user.groups)}
        if self.options.user.uid:
            user["uid"] = self.options.user.uid
        request: Manifest = {
            "uid": uid,
            "kind": kind,
            "resource": plural,
            "requestKind": kind,
            "requestResource": plural,
            "name": meta.get("name", ""),
            "operation": self.operation,
            "userInfo": user,
            "object": self.new,
            "oldObject": self.old,
            "dryRun": self.options.dry_run,
            "options": {"kind": f"{self.operation.capitalize()}Options", "apiVersion": "meta.k8s.io/v1"},
        }
        if self.options.subresource:
            request["subResource"] = request["requestSubResource"] = self.options.subresource
        if meta.get("namespace"):
            request["namespace"] = meta["namespace"]
        return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


class Webhooks:
    """`all_of` and `find` read stored objects; `resolve` says where a Service really listens."""

    def __init__(
        self,
        *,
        all_of: Callable[[str, str, str], list[Manifest]],
        find: Callable[[str, str, str, str], Manifest | None],
        resolve: Resolver | None = None,
        new_uid: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._all_of = all_of
        self._find = find
        self._resolve = resolve
        self._new_uid = new_uid
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[str, ssl.SSLContext] = {}

    @property
    def active(self) -> bool:
        """Whether any webhook is configured at all."""
        return bool(self._all_of(GROUP, _MUTATING, "") or self._all_of(GROUP, _VALIDATING, ""))

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def mutate(
        self,
        operation: str,
        resource: ResourceType,
        new: Manifest,
        old: Manifest | None,
        options: WriteOptions,
    ) -> Manifest:
        """The object as the mutating webhooks leave it; `new` itself when none changed it."""
        result = new
        ran: list[tuple[Manifest, Manifest]] = []
        for webhook in self._matching(_MUTATING, _Question(operation, resource, new, old, options)):
            result = await self._patched(webhook, _Question(operation, resource, result, old, options))
            ran.append((webhook, result))
        for webhook, left in ran:
            # What later webhooks changed is shown once more to those who asked for it.
            if webhook.get("reinvocationPolicy") == "IfNeeded" and left != result:
                result = await self._patched(webhook, _Question(operation, resource, result, old, options))
        return result

    async def validate(
        self,
        operation: str,
        resource: ResourceType,
        new: Manifest | None,
        old: Manifest | None,
        options: WriteOptions,
    ) -> None:
        """Raises what the first refusing webhook answers."""
        question = _Question(operation, resource, new, old, options)
        calls = [self._ask(webhook, question) for webhook in self._matching(_VALIDATING, question)]
        for answer in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(answer, BaseException):
                raise answer

    def _matching(self, plural: str, question: _Question) -> Iterator[Manifest]:
        if question.resource.group == GROUP:
            return
        labels = self._namespace_labels(question)
        for configuration in sorted(
            self._all_of(GROUP, plural, ""), key=lambda found: found["metadata"]["name"]
        ):
            for webhook in configuration.get("webhooks") or ():
                if self._applies(webhook, question, labels):
                    yield webhook

    def _namespace_labels(self, question: _Question) -> Manifest:
        meta = question.subject["metadata"]
        if question.resource.key == ("", "namespaces"):
            return meta.get("labels") or {}
        if not question.resource.namespaced:
            return {}
        namespace = self._find("", "namespaces", "", meta.get("namespace", "")) or {"metadata": {}}
        return namespace["metadata"].get("labels") or {}

    def _applies(self, webhook: Manifest, question: _Question, namespace_labels: Manifest) -> bool:
        if not any(rule_matches(rule, question) for rule in webhook.get("rules") or ()):
            return False
        has_namespace = question.resource.namespaced or question.resource.key == ("", "namespaces")
        if has_namespace and not selects(webhook.get("namespaceSelector"), namespace_labels):
            return False
        objects = [found for found in (question.new, question.old) if found is not None]
        selector = webhook.get("objectSelector")
        if not any(selects(selector, found["metadata"].get("labels") or {}) for found in objects):
            return False
        return self._conditions_hold(webhook, question)

    def _conditions_hold(self, webhook: Manifest, question: _Question) -> bool:
        conditions = webhook.get("matchConditions") or ()
        if not conditions:
            return True
        request = question.review("")["request"]
        try:
            return all(
                cel.condition_holds(condition["expression"], request=request) for condition in conditions
            )
        except ValueError as error:
            if webhook.get("failurePolicy", "Fail") == "Ignore":
                return False
            raise _failed(webhook, f"match condition cannot be evaluated: {error}") from error

    async def _patched(self, webhook: Manifest, question: _Question) -> Manifest:
        answer = await self._ask(webhook, question)
        patch = answer.get("patch")
        if not patch:
            return question.subject
        try:
            return json_patch(question.subject, msgspec.json.decode(base64.b64decode(patch)))
        except (ApiError, ValueError) as error:
            raise _failed(webhook, f"its patch cannot be applied: {error}") from error

    async def _ask(self, webhook: Manifest, question: _Question) -> Manifest:
        """The `response` of a webhook that allows the write; {} when it failed and may be ignored."""
        uid = self._new_uid()
        try:
            answer = await self._post(webhook, question.review(uid))
            response = answer.get("response")
            if not isinstance(response, dict) or response.get("uid") != uid:
                raise ValueError("the response's uid is not the request's")
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
            if webhook.get("failurePolicy", "Fail") == "Ignore":
                return {}
            why = "context deadline exceeded" if isinstance(error, TimeoutError) else str(error)
            raise _failed(webhook, f"failed to call webhook: {why}") from error
        question.options.warnings.extend(response.get("warnings") or ())
        if not response.get("allowed"):
            raise _refused(webhook, response.get("status") or {})
        return response

    async def _post(self, webhook: Manifest, review: Manifest) -> Manifest:
        config = webhook["clientConfig"]
        url, server_name = self._target(config)
        seconds = webhook.get("timeoutSeconds") or 10
        if self._session is None:
            self._session = aiohttp.ClientSession()
        async with self._session.post(
            f"{url}{'&' if '?' in url else '?'}timeout={seconds}s",
            data=msgspec.json.encode(review),
            headers={"Content-Type": "application/json", "Accept": "application/json"},
            ssl=self._tls(config.get("caBundle") or ""),
            server_hostname=server_name,
            timeout=aiohttp.ClientTimeout(total=seconds),
        ) as response:
            body = await response.read()
            if response.status != 200:
                raise ValueError(
                    f"the server answered {response.status}: {body[:200].decode(errors='replace')}"
                )
        answer: Any = msgspec.json.decode(body)
        if not isinstance(answer, dict):
            raise ValueError("the answer is not an AdmissionReview")
        return answer

    def _target(self, config: Manifest) -> tuple[str, str | None]:
        """URL, and the name that the server's certificate must carry when it differs from the URL's host."""
        if config.get("url"):
            return config["url"], None
        service = config["service"]
        namespace, name, port = service["namespace"], service["name"], service.get("port") or 443
        path = service.get("path") or "/"
        address = self._resolve(namespace, name, port) if self._resolve else None
        if address is None:
            raise ValueError(f'service "{name}" in namespace "{namespace}" has no known address')
        return f"https://{address}{path}", f"{name}.{namespace}.svc"

    def _tls(self, bundle: str) -> ssl.SSLContext:
        context = self._contexts.get(bundle)
        if context is None:
            certificates = base64.b64decode(bundle).decode() if bundle else None
            context = self._contexts[bundle] = ssl.create_default_context(cadata=certificates)
        return context


def _failed(webhook: Manifest, why: str) -> ApiError:
    return internal(f'failed calling webhook "{webhook.get("name", "")}": {why}')


def _refused(webhook: Manifest, status: Manifest) -> ApiError:
    message = status.get("message") or status.get("reason") or ""
    explained = f": {message}" if message else " without explanation"
    code = max(status.get("code") or 0, 400)
    reason = status.get("reason") or ""
    text = f'admission webhook "{webhook.get("name", "")}" denied the request{explained}'
    return ApiError(code, reason, text, status.get("details"))


def selects(selector: Manifest | None, labels: Manifest) -> bool:
    """Whether a label selector matches; an empty one matches everything."""
    selector = selector or {}
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    for expression in selector.get("matchExpressions") or ():
        value, values = labels.get(expression["key"]), expression.get("values") or ()
        holds = {
            "In": value is not None and value in values,
            "NotIn": value is None or value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }
        if not holds.get(expression.get("operator", ""), False):
            return False
    return True


def rule_matches(rule: Manifest, question: _Question) -> bool:
    """Whether one rule of a webhook is about this write."""
    resource, subresource = question.resource, question.options.subresource
    scope = rule.get("scope") or "*"
    if scope not in ("*", "Namespaced" if resource.namespaced else "Cluster"):
        return False
    for wanted, values in (
        (question.operation, rule.get("operations")),
        (resource.group, rule.get("apiGroups")),
        (resource.version, rule.get("apiVersions")),
    ):
        if "*" not in (values or ()) and wanted not in (values or ()):
            return False
    name = f"{resource.plural}/{subresource}" if subresource else resource.plural
    accepted = {name, "*/*", f"{resource.plural}/*"}
    accepted.add(f"*/{subresource}" if subresource else "*")
    return any(pattern in accepted for pattern in rule.get("resources") or ())
