"""Which webhooks are asked about a write: rules, selectors, conditions.

Pure, but for the namespace's labels, which are read through `find`. A rule that names another version of the
kind matches too (matchPolicy Equivalent), and the webhook is then asked in that version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from grove.embedded.errors import Manifest, forbidden
from grove.embedded.machinery import conditions
from grove.embedded.machinery.selectors import matches_label_selector
from grove.embedded.resource_type import ResourceType
from grove.embedded.verbs.webhooks.question import NAMESPACES, Question

Find = Callable[[str, str, str, str], Manifest | None]


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook of a configuration; `place` tells it from every other."""

    place: tuple[str, int]
    webhook: Manifest

    @property
    def name(self) -> str:
        return str(self.webhook["name"])

    @property
    def may_fail(self) -> bool:
        return self.webhook.get("failurePolicy") == "Ignore"


def hooks_of(configurations: Iterable[Manifest]) -> list[Hook]:
    """All webhooks, in the order in which they are asked."""
    ordered = sorted(configurations, key=lambda found: found["metadata"]["name"])
    return [
        Hook((configuration["metadata"]["name"], index), webhook)
        for configuration in ordered
        for index, webhook in enumerate(configuration.get("webhooks") or ())
    ]


def resource_asked_about(
    hook: Hook, question: Question, equivalents: Sequence[ResourceType], find: Find
) -> ResourceType | None:
    """The version of the kind in which this webhook is asked; None when it is not asked at all."""
    resource = _by_rules(hook.webhook, question, equivalents)
    if resource is None or not _in_namespace(hook.webhook, question, find):
        return None
    if not _selects_object(hook.webhook, question):
        return None
    return resource if _conditions_hold(hook, question, resource) else None


def _by_rules(
    webhook: Manifest, question: Question, equivalents: Sequence[ResourceType]
) -> ResourceType | None:
    rules = webhook.get("rules") or ()
    if any(rule_matches(rule, question, question.resource) for rule in rules):
        return question.resource
    if webhook.get("matchPolicy") == "Exact":
        return None
    for rule in rules:
        for other in equivalents:
            if other is not question.resource and rule_matches(rule, question, other):
                return other
    return None


def rule_matches(rule: Manifest, question: Question, resource: ResourceType) -> bool:
    """Whether one rule of a webhook is about this write, were it made to `resource`."""
    scope = rule.get("scope") or "*"
    if scope not in ("*", "Namespaced" if resource.namespaced else "Cluster"):
        return False
    return (
        _named(rule.get("operations"), question.operation)
        and _named(rule.get("apiGroups"), resource.group)
        and _named(rule.get("apiVersions"), resource.version)
        and any(
            _pattern_matches(pattern, resource.plural, question.subresource)
            for pattern in rule.get("resources") or ()
        )
    )


def _named(values: Sequence[str] | None, wanted: str) -> bool:
    return values is not None and ("*" in values or wanted in values)


def _pattern_matches(pattern: str, plural: str, subresource: str) -> bool:
    wanted, _, below = pattern.partition("/")
    return wanted in ("*", plural) and below in ("*", subresource)


def _in_namespace(webhook: Manifest, question: Question, find: Find) -> bool:
    selector = webhook.get("namespaceSelector")
    if not selector or (not question.namespace and question.resource.key != NAMESPACES):
        # Kinds without a namespace are never left out.
        return True
    itself = question.resource.key == NAMESPACES and not question.subresource
    if itself and question.new is not None:
        found: Manifest | None = question.new
    else:
        found = find(*NAMESPACES, "", question.namespace)
    return matches_label_selector(selector, _labels(found))


def _selects_object(webhook: Manifest, question: Question) -> bool:
    selector = webhook.get("objectSelector")
    if not selector:
        return True
    objects = [found for found in (question.new, question.old) if found is not None]
    return any(matches_label_selector(selector, _labels(found)) for found in objects)


def _labels(obj: Manifest | None) -> Manifest:
    return ((obj or {}).get("metadata") or {}).get("labels") or {}


def _conditions_hold(hook: Hook, question: Question, resource: ResourceType) -> bool:
    """One that is false decides; one that cannot be evaluated refuses the write or leaves it out."""
    expressions = [found["expression"] for found in hook.webhook.get("matchConditions") or ()]
    if not expressions:
        return True
    known = {
        "request": question.request(resource),
        "object": question.shown(resource, question.new),
        "oldObject": question.shown(resource, question.old),
    }
    failures = []
    for expression in expressions:
        try:
            if not conditions.holds(expression, known):
                return False
        except ValueError as error:
            failures.append(f"expression '{expression}' resulted in error: {error}")
    if failures and not hook.may_fail:
        why = failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]"
        raise forbidden(question.resource, question.name, why)
    return not failures
