"""CEL rules of structural schemas (`x-kubernetes-validations`), compiled once each.

Uses cel-expr-python, which only the embedded cluster needs; Kubernetes' own functions are in `cel_functions`.
Fields are checked against the schema when a CRD is created; costs are not estimated and not limited.
"""

from __future__ import annotations

import importlib
import re
from functools import lru_cache
from typing import Any, Protocol

from grove.embedded.errors import Cause, Manifest
from grove.embedded.machinery.cel_functions import declarations
from grove.embedded.machinery.schema_checks import ABSENT, INVALID, item_key, old_items, show
from grove.embedded.machinery.schema_nodes import Node

_OLD = re.compile(r"\boldSelf\b")
_CHAIN = re.compile(r"\b(self|oldSelf)((?:\.[A-Za-z_]\w*)+)(\s*\()?")
_STRINGS = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"")
_ESCAPED = re.compile(r"\b__([a-z]+)__\b")
_NO_KEY = re.compile(r'NOT_FOUND: Key not found in map : "(.*)"')
_RESERVED = frozenset(
    {
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop"),
        *("package", "namespace", "return", "var", "void", "while"),
    }
)
_PACKAGE = "cel-expr-python"
MISSING = f"CEL rules need the package {_PACKAGE}, which is not installed: install grove-operator[embedded]"


class _Value(Protocol):
    def value(self) -> Any: ...


class Expression(Protocol):
    """A compiled expression."""

    def eval(self, *, data: Manifest) -> _Value: ...


class Rule:
    """One compiled rule; `needs_old` rules only run on updates unless the old value is optional."""

    def __init__(self, source: Manifest) -> None:
        self.text: str = source["rule"]
        self.optional_old = bool(source.get("optionalOldSelf"))
        self.needs_old = _OLD.search(self.text) is not None
        self.reason: str = source.get("reason") or INVALID
        self.field_path: str = source.get("fieldPath", "")
        self.message: str = source.get("message") or f"failed rule: {self.text.strip()}"
        self._program = compile_rule(self.text, optional_old=self.optional_old)
        expression = source.get("messageExpression")
        self._message = compile_rule(expression, optional_old=self.optional_old) if expression else None

    def holds(self, value: Any, old: Any) -> bool:
        """Raises ValueError when the rule cannot be evaluated on this value."""
        result = self._program.eval(data=_bindings(value, old)).value()
        if result is True or result is False:
            return bool(result)
        raise ValueError(first_line(result))

    def explain(self, value: Any, old: Any) -> str:
        """The message for a value that broke the rule."""
        if self._message is not None:
            text = self._message.eval(data=_bindings(value, old)).value()
            if isinstance(text, str) and text.strip() and "\n" not in text:
                return text
        return self.message


def _bindings(value: Any, old: Any) -> Manifest:
    return {"self": value, "oldValue": None if old is ABSENT else old, "hasOld": old is not ABSENT}


def first_line(error: object) -> str:
    """What the engine says, without the picture of the place, and of a missing key as Kubernetes does."""
    line = str(error).split("\n", 1)[0]
    missing = _NO_KEY.fullmatch(line)
    return f"no such key: {missing[1]}" if missing else line


@lru_cache(2)
def environment(*names: str) -> Any:
    """The engine with Kubernetes' functions, and with these names for values of any type.

    Raises ImportError where its package was left out: no rule is wrong for that.
    """
    try:
        engine = importlib.import_module("cel_expr_python.cel")
        extensions = [
            getattr(importlib.import_module(f"cel_expr_python.ext.ext_{name}"), f"Ext{name.capitalize()}")()
            for name in ("optional", "strings", "math", "bindings")
        ]
    except ImportError as error:
        raise ImportError(MISSING, name=_PACKAGE) from error
    variables = dict.fromkeys(names, engine.Type.DYN)
    return engine.NewEnv(variables=variables, extensions=extensions, functions=declarations(engine))


@lru_cache(4096)
def compile_rule(text: str, *, optional_old: bool = False) -> Expression:
    """Raises ValueError with the compiler's message."""
    # The engine cannot be handed an optional from outside, so `oldSelf` is bound inside the expression.
    old = "hasOld ? optional.of(oldValue) : optional.none()" if optional_old else "oldValue"
    body = _unescape(text)
    source = f"cel.bind(oldSelf, {old}, ({body}\n))" if _OLD.search(text) else body
    try:
        compiled: Expression = environment("self", "oldValue", "hasOld").compile(source)
    except RuntimeError as error:
        raise ValueError(f"compilation failed: {first_line(error)}") from error
    return compiled


def _unescape(text: str) -> str:
    """Names that CEL reserves are written `__namespace__` in rules; our maps hold the plain ones."""
    return _ESCAPED.sub(lambda match: match[1] if match[1] in _RESERVED else match[0], text)


@lru_cache(8192)
def _rule(text: str, optional_old: bool, reason: str, field_path: str, message: str, expression: str) -> Rule:
    source = {
        "rule": text,
        "optionalOldSelf": optional_old,
        "reason": reason,
        "fieldPath": field_path,
        "message": message,
        "messageExpression": expression,
    }
    return Rule(source)


def rule_of(source: Manifest) -> Rule:
    """The compiled form of one entry of `x-kubernetes-validations`, shared by equal entries."""
    return _rule(
        source["rule"],
        bool(source.get("optionalOldSelf")),
        source.get("reason", ""),
        source.get("fieldPath", ""),
        source.get("message", ""),
        source.get("messageExpression", ""),
    )


def check(value: Any, old: Any, node: Node, path: str, causes: list[Cause]) -> None:
    """Evaluates the rules at and below a node; unchanged values are not judged again."""
    if value is None:
        return
    for source in node.rules:
        _evaluate(rule_of(source), value, old, path, causes)
    if type(value) is dict:
        before = old if type(old) is dict else {}
        for name, item in value.items():
            child = node.field(name)
            if child is not None and child.rules_below:
                check(item, before.get(name, ABSENT), child, f"{path}.{name}" if path else name, causes)
    elif type(value) is list and node.items is not None and node.items.rules_below:
        items = old_items(old, node)
        for index, item in enumerate(value):
            previous = items.get(item_key(item, node), ABSENT) if items else ABSENT
            check(item, previous, node.items, f"{path}[{index}]", causes)


def _evaluate(rule: Rule, value: Any, old: Any, path: str, causes: list[Cause]) -> None:
    if rule.needs_old and old is ABSENT and not rule.optional_old:
        return
    if not rule.needs_old and old is not ABSENT and value == old:
        return
    where = (path + rule.field_path).lstrip(".") or "<nil>"
    shown = "" if type(value) in (dict, list) else f"{show(value)}: "
    try:
        if rule.holds(value, old):
            return
        message = rule.explain(value, old)
    except ValueError as error:
        causes.append(Cause(where, INVALID, f"Invalid value: {shown}rule evaluation error: {error}"))
        return
    causes.append(Cause(where, rule.reason, _sentence(rule.reason, shown, message)))


def _sentence(reason: str, shown: str, message: str) -> str:
    if reason == "FieldValueRequired":
        return f"Required value: {message}"
    if reason == "FieldValueForbidden":
        return f"Forbidden: {message}"
    if reason == "FieldValueDuplicate":
        return f"Duplicate value: {shown}{message}"
    return f"Invalid value: {shown}{message}"


def check_rules(root: Node) -> list[Cause]:
    """What is wrong with the rules of a CRD's schema: syntax, unknown functions, fields that do not exist."""
    causes: list[Cause] = []
    _check_node(root, "openAPIV3Schema", causes, set())
    return causes


def _check_node(node: Node, path: str, causes: list[Cause], seen: set[int]) -> None:
    if not node.rules_below or id(node) in seen:
        return
    seen.add(id(node))
    for index, source in enumerate(node.rules):
        where = f"{path}.x-kubernetes-validations[{index}].rule"
        try:
            rule_of(source)
            problem = _unknown_field(source["rule"], node, optional_old=bool(source.get("optionalOldSelf")))
        except ValueError as error:
            problem = str(error)
        if problem:
            causes.append(Cause(where, INVALID, f"Invalid value: {show(source)}: {problem}"))
    for name, child in (node.fields or {}).items():
        _check_node(child, f"{path}.properties[{name}]", causes, seen)
    if node.items is not None:
        _check_node(node.items, f"{path}.items", causes, seen)
    if node.additional is not None:
        _check_node(node.additional, f"{path}.additionalProperties", causes, seen)


def _unknown_field(text: str, node: Node, *, optional_old: bool) -> str:
    """The engine sees untyped values, so `self.a.b` chains are checked here."""
    for match in _CHAIN.finditer(_STRINGS.sub("''", text)):
        if match[1] == "oldSelf" and optional_old:
            continue
        names = match[2].split(".")[1:]
        if match[3]:
            names.pop()
        current: Node | None = node
        for name in map(_unescape, names):
            if current is None or current.type != "object" or current.fields is None or current.keeps_unknown:
                break
            if not current.knows(name) and "__" not in name:
                return f"compilation failed: undefined field '{name}'"
            current = current.field(name)
    return ""
