"""Mutating and validating webhook configurations: their defaults, and what may be configured."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from grove.embedded.errors import Cause, Manifest
from grove.embedded.kinds.base import (
    Strategy,
    dns_subdomain,
    duplicate,
    fill,
    forbidden,
    invalid,
    label_key,
    required,
    too_many,
    unsupported,
)
from grove.embedded.kinds.context import Context
from grove.embedded.machinery import conditions
from grove.embedded.machinery.metadata import label_errors

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_REVIEW_VERSIONS = ("v1", "v1beta1")
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_VERSION = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_VERSION_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_URL_FORM = "; desired format: https://host[/path]"
MOST_CONDITIONS = 64


class WebhookConfigurationStrategy(Strategy):
    """Both kinds share their shape; only mutating webhooks can be asked again."""

    def default(self, obj: Manifest, ctx: Context) -> None:
        super().default(obj, ctx)
        for webhook in obj.get("webhooks") or ():
            fill(
                webhook,
                failurePolicy="Fail",
                matchPolicy="Equivalent",
                namespaceSelector={},
                objectSelector={},
                timeoutSeconds=10,
            )
            if ctx.resource.kind.startswith("Mutating"):
                fill(webhook, reinvocationPolicy="Never")
            for rule in webhook.get("rules") or ():
                fill(rule, scope="*")
            service = (webhook.get("clientConfig") or {}).get("service")
            if service is not None:
                fill(service, port=443)

    def validate_create(self, obj: Manifest, ctx: Context) -> list[Cause]:
        causes: list[Cause] = []
        names: set[str] = set()
        for index, webhook in enumerate(obj.get("webhooks") or ()):
            path = f"webhooks[{index}]"
            causes += _webhook_errors(webhook, path)
            name = webhook.get("name")
            if name and name in names:
                causes.append(duplicate(f"{path}.name", name))
            names.add(name)
        return causes

    def validate_update(self, new: Manifest, old: Manifest, ctx: Context) -> list[Cause]:
        return self.validate_create(new, ctx)


def _webhook_errors(webhook: Manifest, path: str) -> list[Cause]:
    causes = _name_errors(f"{path}.name", webhook.get("name") or "")
    for index, rule in enumerate(webhook.get("rules") or ()):
        causes += _rule_errors(rule, f"{path}.rules[{index}]")
    for field, allowed in (
        ("failurePolicy", ("Fail", "Ignore")),
        ("matchPolicy", ("Equivalent", "Exact")),
        ("sideEffects", _SIDE_EFFECTS),
        ("reinvocationPolicy", ("IfNeeded", "Never")),
    ):
        value = webhook.get(field)
        if value is not None and value not in allowed:
            causes.append(unsupported(f"{path}.{field}", value, allowed))
    if webhook.get("sideEffects") is None:
        why = f"must specify one of {', '.join(_SIDE_EFFECTS)}"
        causes.append(required(f"{path}.sideEffects", why))
    if not 1 <= webhook["timeoutSeconds"] <= 30:
        why = "the timeout value must be between 1 and 30 seconds"
        causes.append(invalid(f"{path}.timeoutSeconds", webhook["timeoutSeconds"], why))
    for field in ("namespaceSelector", "objectSelector"):
        causes += _selector_errors(webhook.get(field) or {}, f"{path}.{field}")
    causes += _client_errors(webhook.get("clientConfig") or {}, f"{path}.clientConfig")
    causes += _condition_errors(webhook.get("matchConditions") or (), f"{path}.matchConditions")
    versions = webhook.get("admissionReviewVersions") or ()
    return causes + _review_version_errors(versions, f"{path}.admissionReviewVersions")


def _name_errors(field: str, name: str) -> list[Cause]:
    causes = dns_subdomain(field, name)
    if not causes and name.count(".") < 2:
        why = "should be a domain with at least three segments separated by dots"
        causes.append(invalid(field, name, why))
    return causes


def _review_version_errors(versions: Sequence[str], path: str) -> list[Cause]:
    if not versions:
        return [required(path, f"must specify one of {', '.join(_REVIEW_VERSIONS)}")]
    causes = []
    for index, version in enumerate(versions):
        if version in versions[:index]:
            causes.append(invalid(f"{path}[{index}]", version, "duplicate version"))
        elif _VERSION.fullmatch(version) is None:
            causes.append(invalid(f"{path}[{index}]", version, _VERSION_RULE))
    if not any(version in _REVIEW_VERSIONS for version in versions):
        why = f"must include at least one of {', '.join(_REVIEW_VERSIONS)}"
        causes.append(invalid(path, versions, why))
    return causes


# --- rules


def _rule_errors(rule: Manifest, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for field, what in (
        ("operations", "operations"),
        ("apiGroups", "API groups"),
        ("apiVersions", "API versions"),
    ):
        values = rule.get(field) or []
        if not values:
            causes.append(required(f"{path}.{field}"))
        if len(values) > 1 and "*" in values:
            why = f"if '*' is present, must not specify other {what}"
            causes.append(invalid(f"{path}.{field}", values, why))
    for index, operation in enumerate(rule.get("operations") or ()):
        if operation not in _OPERATIONS:
            causes.append(unsupported(f"{path}.operations[{index}]", operation, _OPERATIONS))
    for index, version in enumerate(rule.get("apiVersions") or ()):
        if not version:
            causes.append(required(f"{path}.apiVersions[{index}]"))
    causes += _resource_errors(rule.get("resources") or [], f"{path}.resources")
    if rule["scope"] not in ("*", "Cluster", "Namespaced"):
        causes.append(unsupported(f"{path}.scope", rule["scope"], ("*", "Cluster", "Namespaced")))
    return causes


def _resource_errors(resources: Sequence[str], path: str) -> list[Cause]:
    """A pattern that another one already covers is a mistake."""
    if not resources:
        return [required(path)]
    causes = []
    all_of_resource: set[str] = set()
    everywhere: set[str] = set()
    for index, pattern in enumerate(resources):
        if not pattern:
            causes.append(required(f"{path}[{index}]"))
            continue
        resource, slash, subresource = pattern.partition("/")
        if not slash:
            continue
        for covering, covered in ((f"{resource}/*", all_of_resource), (f"*/{subresource}", everywhere)):
            if covering in covered:
                why = f"if '{covering}' is present, must not specify {pattern}"
                causes.append(invalid(f"{path}[{index}]", pattern, why))
        if subresource == "*":
            all_of_resource.add(pattern)
        if resource == "*":
            everywhere.add(pattern)
    if len(resources) > 1 and "*/*" in resources:
        causes.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and any("/" not in found and found != "*" for found in resources):
        why = "if '*' is present, must not specify other resources without subresources"
        causes.append(invalid(path, resources, why))
    return causes


# --- selectors and conditions


def _selector_errors(selector: Manifest, path: str) -> list[Cause]:
    causes = label_errors(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        where, values = f"{path}.matchExpressions[{index}]", expression.get("values") or ()
        operator = expression.get("operator") or ""
        if operator in ("In", "NotIn"):
            if not values:
                why = "must be specified when `operator` is 'In' or 'NotIn'"
                causes.append(required(f"{where}.values", why))
        elif operator not in ("Exists", "DoesNotExist"):
            causes.append(invalid(f"{where}.operator", operator, "not a valid selector operator"))
        elif values:
            why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.append(forbidden(f"{where}.values", why))
        causes += label_key(f"{where}.key", expression.get("key"))
    return causes


def _condition_errors(found: Sequence[Manifest], path: str) -> list[Cause]:
    causes = []
    if len(found) > MOST_CONDITIONS:
        causes.append(too_many(path, len(found), MOST_CONDITIONS))
    names: set[str] = set()
    for index, condition in enumerate(found):
        where, name = f"{path}[{index}]", condition.get("name") or ""
        expression = (condition.get("expression") or "").strip()
        if not expression:
            causes.append(required(f"{where}.expression"))
        else:
            try:
                conditions.compiled(expression)
            except ValueError as error:
                causes.append(invalid(f"{where}.expression", expression, str(error)))
        causes += label_key(f"{where}.name", name)
        if name and name in names:
            causes.append(duplicate(f"{where}.name", name))
        names.add(name)
    return causes


# --- how the webhook is reached


def _client_errors(config: Manifest, path: str) -> list[Cause]:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    if url is not None:
        return _url_errors(url, f"{path}.url")
    return _service_errors(service or {}, f"{path}.service")


def _url_errors(url: str, path: str) -> list[Cause]:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        return [required(path, f"url must be a valid URL: {error}{_URL_FORM}")]
    causes = []
    if parts.scheme != "https":
        why = f"'https' is the only allowed URL scheme{_URL_FORM}"
        causes.append(invalid(path, parts.scheme, why))
    user, at, host = parts.netloc.rpartition("@")
    if not host:
        causes.append(invalid(path, host, f"host must be specified{_URL_FORM}"))
    if at:
        causes.append(invalid(path, user, "user information is not permitted in the URL"))
    if parts.fragment:
        causes.append(invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        causes.append(invalid(path, parts.query, "query parameters are not permitted in the URL"))
    return causes


def _service_errors(service: Manifest, path: str) -> list[Cause]:
    causes = []
    # Kubernetes itself names these two the wrong way round.
    if not service.get("namespace"):
        causes.append(required(f"{path}.name"))
    if not service.get("name"):
        causes.append(required(f"{path}.namespace"))
    if not 1 <= service["port"] <= 65535:
        why = "port is not valid: must be between 1 and 65535, inclusive"
        causes.append(invalid(f"{path}.port", service["port"], why))
    return causes + _path_errors(service.get("path") or "/", f"{path}.path")


def _path_errors(text: str, path: str) -> list[Cause]:
    if text == "/":
        return []
    if text == "//":
        return [invalid(path, text, "segment[0] may not be empty")]
    causes = [] if text.startswith("/") else [invalid(path, text, "must start with a '/'")]
    for index, segment in enumerate(text[1:].removesuffix("/").split("/")):
        if not segment:
            causes.append(invalid(path, text, f"segment[{index}] may not be empty"))
            continue
        for cause in dns_subdomain(path, segment):
            why = cause.message.partition(": ")[2].partition(": ")[2]
            causes.append(invalid(path, text, f"segment[{index}]: {why}"))
    return causes


_GROUP = "admissionregistration.k8s.io"
STRATEGIES: dict[tuple[str, str], Strategy] = {
    (_GROUP, "MutatingWebhookConfiguration"): WebhookConfigurationStrategy(),
    (_GROUP, "ValidatingWebhookConfiguration"): WebhookConfigurationStrategy(),
}
