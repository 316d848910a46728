"""Kubernetes' additions to CEL that rules of CRDs use: lists, regular expressions, quantities, addresses.

A quantity is carried as text in its canonical form, because the engine has no opaque values.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any
from urllib.parse import urlparse

from grove.embedded.machinery.patterns import compile_pattern
from grove.embedded.machinery.quantities import is_quantity, parse


def _canonical(text: str) -> str:
    return format(parse(text).normalize(), "f")


def _compare(left: str, right: str) -> int:
    first, second = parse(left), parse(right)
    return (first > second) - (first < second)


def _is_integer(text: str) -> bool:
    return parse(text) == parse(text).to_integral_value()


def _is_sorted(items: list[Any]) -> bool:
    return all(items[index] <= items[index + 1] for index in range(len(items) - 1))


def _find(text: str, pattern: str) -> str:
    match = compile_pattern(pattern).search(text)
    return match[0] if match else ""


def _find_all(text: str, pattern: str) -> list[str]:
    return [match[0] for match in compile_pattern(pattern).finditer(text)]


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_cidr(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _is_url(text: str) -> bool:
    parts = urlparse(text)
    return bool(parts.scheme and parts.netloc) or text.startswith("/")


def declarations(engine: Any) -> list[Any]:
    """The functions in the engine's own terms."""
    kind = engine.Type
    items = kind.List(kind.DYN)

    def overload(
        name: str, returns: Any, takes: list[Any], call: Callable[..., Any], *, member: bool = True
    ) -> Any:
        identity = f"k8s_{name}_{'member' if member else 'global'}_{len(takes)}"
        return engine.FunctionDecl(name, [engine.Overload(identity, returns, takes, member, call)])

    text = kind.STRING
    return [
        overload("isSorted", kind.BOOL, [items], _is_sorted),
        overload("sum", kind.DYN, [items], sum),
        overload("min", kind.DYN, [items], min),
        overload("max", kind.DYN, [items], max),
        overload("find", text, [text, text], _find),
        overload("findAll", items, [text, text], _find_all),
        overload("isQuantity", kind.BOOL, [text], is_quantity, member=False),
        overload("quantity", text, [text], _canonical, member=False),
        overload("isInteger", kind.BOOL, [text], _is_integer),
        overload("asInteger", kind.INT, [text], lambda value: int(parse(value))),
        overload("asApproximateFloat", kind.DOUBLE, [text], lambda value: float(parse(value))),
        overload("sign", kind.INT, [text], lambda value: _compare(value, "0")),
        overload("compareTo", kind.INT, [text, text], _compare),
        overload("isGreaterThan", kind.BOOL, [text, text], lambda a, b: _compare(a, b) > 0),
        overload("isLessThan", kind.BOOL, [text, text], lambda a, b: _compare(a, b) < 0),
        overload("isIP", kind.BOOL, [text], _is_ip, member=False),
        overload("isCIDR", kind.BOOL, [text], _is_cidr, member=False),
        overload("isURL", kind.BOOL, [text], _is_url, member=False),
    ]
