"""CEL rules: transitions, messages, paths, Kubernetes' functions, and rules that do not compile."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from grove.embedded.machinery import cel
from grove.embedded.machinery.schema import custom_schema

Manifest = dict[str, Any]


def schema_with(rule: Manifest, properties: Manifest | None = None) -> Any:
    spec = {
        "type": "object",
        "properties": properties or {"n": {"type": "integer"}, "s": {"type": "string"}},
        "x-kubernetes-validations": [rule],
    }
    return custom_schema({"type": "object", "properties": {"spec": spec}})


def broken(
    rule: Manifest, spec: Manifest, old: Manifest | None = None, properties: Manifest | None = None
) -> list[str]:
    schema = schema_with(rule, properties)
    before = {"metadata": {}, "spec": old} if old is not None else None
    return [
        f"{c.field}|{c.reason}|{c.message}" for c in schema.validate({"metadata": {}, "spec": spec}, before)
    ]


TRANSITION = {"rule": "self.n >= oldSelf.n", "message": "n may only grow"}
FRESH = {"rule": "oldSelf.hasValue() || self.n == 0", "optionalOldSelf": True, "message": "n starts at 0"}
CASES: dict[str, tuple[Manifest, Manifest, Manifest | None, list[str]]] = {
    "a transition rule is not asked on create": (TRANSITION, {"n": 1}, None, []),
    "a transition rule refuses an update": (
        TRANSITION,
        {"n": 1},
        {"n": 2},
        ["spec|FieldValueInvalid|Invalid value: n may only grow"],
    ),
    "an optional old value is absent on create": (
        FRESH,
        {"n": 1},
        None,
        ["spec|FieldValueInvalid|Invalid value: n starts at 0"],
    ),
    "an optional old value is present on update": (FRESH, {"n": 1}, {"n": 0}, []),
    "without a message the rule is named": (
        {"rule": "self.n > 5"},
        {"n": 1},
        None,
        ["spec|FieldValueInvalid|Invalid value: failed rule: self.n > 5"],
    ),
    "a message may be computed": (
        {"rule": "self.n > 5", "messageExpression": "'n is ' + string(self.n)"},
        {"n": 1},
        None,
        ["spec|FieldValueInvalid|Invalid value: n is 1"],
    ),
    "reason and path are the rule's": (
        {"rule": "has(self.s)", "message": "s is needed", "reason": "FieldValueRequired", "fieldPath": ".s"},
        {"n": 1},
        None,
        ["spec.s|FieldValueRequired|Required value: s is needed"],
    ),
    "forbidden reads as forbidden": (
        {"rule": "!has(self.s)", "message": "not here", "reason": "FieldValueForbidden", "fieldPath": ".s"},
        {"s": "x"},
        None,
        ["spec.s|FieldValueForbidden|Forbidden: not here"],
    ),
    "an unchanged value is not judged again": ({"rule": "self.n > 5"}, {"n": 1}, {"n": 1}, []),
}


@pytest.mark.parametrize(("rule", "spec", "old", "want"), CASES.values(), ids=CASES)
def test_rules(rule: Manifest, spec: Manifest, old: Manifest | None, want: list[str]) -> None:
    assert broken(rule, spec, old) == want


def test_a_rule_that_cannot_be_evaluated_refuses_the_object() -> None:
    (problem,) = broken({"rule": "self.s.size() > 1"}, {"n": 1})
    assert problem.startswith("spec|FieldValueInvalid|Invalid value: rule evaluation error:")


EXPRESSIONS = {
    "self.xs.all(x, x > 0)": True,
    "self.xs.exists(x, x == 9)": False,
    "self.xs.map(x, x * 2).filter(x, x > 2).size() == 2": True,
    "self.xs.isSorted() && self.xs.sum() == 6": True,
    "self.xs.min() == 1 && self.xs.max() == 3": True,
    "self.name.matches('^[0-9]+$')": False,
    "self.name.startsWith('ab')": True,
    "self.name.find('b+') == 'bb'": True,
    "size(self.name.findAll('b')) == 2": True,
    "quantity(self.q).isGreaterThan(quantity('1'))": True,
    "quantity('1000m') == quantity('1')": True,
    "isQuantity('x')": False,
    "quantity('2Gi').compareTo(quantity('2048Mi')) == 0": True,
    "isIP('10.0.0.1') && isCIDR('10.0.0.0/8') && isURL('https://x.y')": True,
    "self.__namespace__ == 'here'": True,
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expressions(text: str) -> None:
    value = {"xs": [1, 2, 3], "name": "abb", "q": "1500m", "namespace": "here"}
    schema = custom_schema(
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                    "x-kubernetes-validations": [{"rule": text}],
                }
            },
        }
    )
    assert (not schema.validate({"spec": value})) is EXPRESSIONS[text]


def test_items_of_a_list_map_meet_their_own_old_value() -> None:
    items = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "n": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "self.n == oldSelf.n", "message": "n is fixed"}],
        },
    }
    schema = custom_schema({"type": "object", "properties": {"items": items}})
    old = {"items": [{"name": "a", "n": 1}, {"name": "b", "n": 2}]}
    new = {"items": [{"name": "b", "n": 3}, {"name": "a", "n": 1}, {"name": "c", "n": 9}]}
    assert [cause.field for cause in schema.validate(new, old)] == ["items[0]"]


BAD_RULES = {
    "self.nope > 1": "undefined field 'nope'",
    "self.n >": "compilation failed",
    "nosuch(self.n)": "undeclared reference",
    "oldSelf.nope == 1": "undefined field 'nope'",
}


@pytest.mark.parametrize("text", BAD_RULES)
def test_a_rule_that_does_not_compile_is_found_when_the_crd_is_created(text: str) -> None:
    (cause,) = schema_with({"rule": text}).check_rules()
    assert cause.field == "openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule"
    assert BAD_RULES[text] in cause.message


def test_without_the_engine_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise ImportError(name)

    cel.environment.cache_clear()
    monkeypatch.setattr("importlib.import_module", absent)
    with pytest.raises(ImportError, match=r"grove-operator\[embedded\]") as raised:
        cel.compile_rule("self.never_compiled_before == 1")
    assert raised.value.name == "cel-expr-python"
    cel.environment.cache_clear()


@pytest.mark.compat
def test_every_rule_of_the_recorded_crds_compiles() -> None:
    crds = Path(os.environ.get("GROVE_SHARED", "../shared")) / "data" / "crds"
    checked = 0
    for path in sorted(crds.rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if document and document["kind"] == "CustomResourceDefinition":
                for version in document["spec"]["versions"]:
                    checked += 1
                    assert custom_schema(version["schema"]["openAPIV3Schema"]).check_rules() == [], path.name
    assert checked > 10
