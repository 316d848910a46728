"""The shape of a kind's rules, and the sentences in which field errors are written.

A strategy is stateless: it changes the object it is given, returns field errors, or raises `ApiError` when
another object forbids the write. It reads other objects through the context only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from grove.embedded.errors import Cause, Manifest
from grove.embedded.kinds.context import Context
from grove.embedded.machinery.options import DeleteOptions
from grove.embedded.machinery.schema import builtin_schema

_LABEL_TEXT = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL = re.compile(_LABEL_TEXT)
_SUBDOMAIN = re.compile(rf"{_LABEL_TEXT}(\.{_LABEL_TEXT})*")
_KEY = re.compile(rf"({_LABEL_TEXT}(\.{_LABEL_TEXT})*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?")
LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
KEY_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
IMMUTABLE = "field is immutable"


class Strategy:
    """What is done for every built-in kind; kinds with more rules override."""

    assigned: tuple[str, ...] = ()
    """Fields of the spec that admission and the strategy fill in after ownership is recorded: nobody's."""

    def default(self, obj: Manifest, ctx: Context) -> None:
        """Fills in what the server would; runs on every write."""
        resource = ctx.resource
        schema = builtin_schema(ctx.minor, resource.group, resource.version, resource.kind)
        if schema is not None:
            schema.default(obj)

    def prepare_create(self, obj: Manifest, ctx: Context) -> None:
        """Sets what the server decides about a new object."""

    def prepare_update(self, new: Manifest, old: Manifest, ctx: Context) -> None:
        """Restores what an update may not touch."""

    def prepare_status(self, new: Manifest, old: Manifest, ctx: Context) -> None:
        """Restores what a status update may not touch."""

    def validate_create(self, obj: Manifest, ctx: Context) -> list[Cause]:
        return []

    def validate_update(self, new: Manifest, old: Manifest, ctx: Context) -> list[Cause]:
        return []

    def validate_status(self, new: Manifest, old: Manifest, ctx: Context) -> list[Cause]:
        return []

    def graceful_delete(self, obj: Manifest, options: DeleteOptions, ctx: Context) -> int:
        """Seconds for which a deleted object stays until someone confirms its end; 0 removes it at once."""
        return 0


def show(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def invalid(field: str, value: Any, why: str) -> Cause:
    return Cause(field, "FieldValueInvalid", f"Invalid value: {show(value)}: {why}")


def required(field: str, why: str = "") -> Cause:
    return Cause(field, "FieldValueRequired", f"Required value: {why}" if why else "Required value")


def forbidden(field: str, why: str) -> Cause:
    return Cause(field, "FieldValueForbidden", f"Forbidden: {why}")


def duplicate(field: str, value: Any) -> Cause:
    return Cause(field, "FieldValueDuplicate", f"Duplicate value: {show(value)}")


def too_many(field: str, count: int, most: int) -> Cause:
    return Cause(field, "FieldValueTooMany", f"Too many: {count}: must have at most {most} items")


def unsupported(field: str, value: Any, allowed: Iterable[str]) -> Cause:
    supported = ", ".join(map(show, sorted(allowed)))
    return Cause(
        field, "FieldValueNotSupported", f"Unsupported value: {show(value)}: supported values: {supported}"
    )


def dns_label(field: str, value: Any) -> list[Cause]:
    """A name that must be one DNS label."""
    if not value:
        return [required(field)]
    if len(value) > 63:
        return [invalid(field, value, "must be no more than 63 characters")]
    return [] if _LABEL.fullmatch(value) else [invalid(field, value, LABEL_RULE)]


def dns_subdomain(field: str, value: Any) -> list[Cause]:
    """A name that must be a DNS subdomain."""
    if not value:
        return [required(field)]
    if len(value) > 253:
        return [invalid(field, value, "must be no more than 253 characters")]
    return [] if _SUBDOMAIN.fullmatch(value) else [invalid(field, value, SUBDOMAIN_RULE)]


def label_key(field: str, value: Any) -> list[Cause]:
    """A name that must be usable as a label key."""
    if not value:
        return [required(field)]
    return [] if _KEY.fullmatch(value) else [invalid(field, value, KEY_RULE)]


def fill(obj: Manifest, **defaults: Any) -> None:
    """Sets fields that are absent."""
    for name, value in defaults.items():
        if obj.get(name) is None:
            obj[name] = value
