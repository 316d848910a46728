"""Patterns match as Go's regular expressions do; above all, nothing may follow what a pattern ends with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from grove.embedded.errors import ApiError
from grove.embedded.kinds.base import dns_label, dns_subdomain, label_key
from grove.embedded.machinery.metadata import metadata_errors, name_errors
from grove.embedded.machinery.patterns import compile_pattern
from grove.embedded.machinery.quantities import is_quantity
from grove.embedded.machinery.schema import custom_schema
from grove.embedded.machinery.selectors import field_predicate
from grove.embedded.resource_type import ResourceType

PODS = ResourceType("", "v1", "Pod", "pods", "pod")
NAMESPACES = ResourceType("", "v1", "Namespace", "namespaces", "namespace", namespaced=False)

MATCHES: dict[str, tuple[str, str, bool]] = {
    "the end is the end": ("^a$", "a", True),
    "no newline may follow": ("^a$", "a\n", False),
    "in a group neither": ("^(a|b$)", "b\n", False),
    "an escaped dollar is a dollar": (r"^a\$b", "a$b", True),
    "a dollar in a class is a dollar": ("^[$]$", "$", True),
    "a class may begin with its end": ("^[]$]+$", "]$", True),
    "so may one that excludes": ("^[^]$]+$", "]", False),
    "an escape in a class": (r"^[\]$]+$", "]$", True),
    "every line has an end where lines count": ("(?m)^a$", "a\nb", True),
    "the end in Go's words": (r"^a\z", "a\n", False),
    "a backslash before a z": (r"^\\z$", r"\z", True),
    "a named class": ("^[[:alnum:]]+$", "aZ9", True),
    "a named class beside others": ("^[[:digit:]_-]+$", "1_-", True),
    "digits are those of ASCII": (r"^\d$", "٣", False),
    "letters are those of ASCII": (r"^\w$", "é", False),
}


@pytest.mark.parametrize(("pattern", "text", "want"), MATCHES.values(), ids=MATCHES)
def test_a_pattern_matches_as_in_go(pattern: str, text: str, want: bool) -> None:
    assert (compile_pattern(pattern).search(text) is not None) is want


def schema_problems(schema: dict[str, object], value: str) -> list[object]:
    spec = {"type": "object", "properties": {"s": schema}}
    found = custom_schema({"type": "object", "properties": {"spec": spec}})
    return list(found.validate({"metadata": {}, "spec": {"s": value}}, None))


def rule_problems(rule: str, value: str) -> list[object]:
    return schema_problems({"type": "string", "x-kubernetes-validations": [{"rule": rule}]}, value)


#: What is good without a newline at its end and bad with one.
REFUSED: dict[str, tuple[str, Callable[[str], Sequence[object]]]] = {
    "the name of a pod": ("a", lambda text: name_errors(PODS, text)),
    "the name of a namespace": ("a", lambda text: name_errors(NAMESPACES, text)),
    "a label": ("a", lambda text: metadata_errors({"labels": {"a": text}})),
    "the key of a label": ("a", lambda text: metadata_errors({"labels": {text: "a"}})),
    "the key of an annotation": ("a", lambda text: metadata_errors({"annotations": {text: "a"}})),
    "a finalizer": ("a/b", lambda text: metadata_errors({"finalizers": [text]})),
    "a DNS label": ("a", lambda text: dns_label("f", text)),
    "a DNS subdomain": ("a.b", lambda text: dns_subdomain("f", text)),
    "a label key in a field": ("a/b", lambda text: label_key("f", text)),
    "a quantity": ("1Gi", lambda text: [] if is_quantity(text) else [text]),
    "what a schema wants": ("ab", lambda text: schema_problems({"type": "string", "pattern": "^ab$"}, text)),
    "a time": (
        "2026-01-01T00:00:00Z",
        lambda text: schema_problems({"type": "string", "format": "date-time"}, text),
    ),
    "what a rule finds": ("ab", lambda text: rule_problems("self.find('^ab$') == 'ab'", text)),
    "what a rule finds in all": ("ab", lambda text: rule_problems("self.findAll('b$') == ['b']", text)),
    "what a rule matches": ("ab", lambda text: rule_problems("self.matches('^ab$')", text)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_newline_at_the_end_is_refused(what: str) -> None:
    good, problems = REFUSED[what]
    assert problems(good) == []
    assert len(problems(good + "\n")) == 1


def test_a_field_is_selected_by_all_of_its_value() -> None:
    matches = field_predicate("metadata.name=a\n", PODS)
    assert matches is not None
    assert not matches({"metadata": {"name": "a"}})
    with pytest.raises(ApiError):
        field_predicate("metadata.name\n", PODS)
