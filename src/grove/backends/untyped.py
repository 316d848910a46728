"""Looks into objects that others wrote: what is not of the expected type reads as empty, never raises."""

from collections.abc import Mapping
from typing import Any


def mapping(value: object) -> Mapping[str, Any]:
    """The mapping, or an empty one."""
    return value if isinstance(value, dict) else {}


def mappings(value: object) -> list[Mapping[str, Any]]:
    """The items of a list, each as a mapping; none if it is not a list."""
    return [mapping(item) for item in value] if isinstance(value, list) else []


def text_of(value: object) -> str:
    """The string, or an empty one."""
    return value if isinstance(value, str) else ""
