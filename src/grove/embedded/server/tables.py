"""Server-side printing: objects as rows of a `meta.k8s.io/v1` Table.

Columns of custom kinds come from their CRD; those of built-in kinds from `columns.py`. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from grove.embedded.clock import parse_rfc3339
from grove.embedded.errors import Manifest
from grove.embedded.kinds.crds import Definition
from grove.embedded.machinery.jsonpath import evaluate
from grove.embedded.resource_type import ResourceType
from grove.embedded.server.columns import BUILTIN, Column, age, plain_columns
from grove.embedded.storage.store import encode

Cells = Callable[[Manifest, datetime], list[object]]


class Printer:
    """Prints the objects of one kind."""

    def __init__(self, resource: ResourceType, definition: Definition | None) -> None:
        if definition is not None:
            self._columns, self._cells = _custom(definition)
        else:
            columns = BUILTIN.get((resource.group, resource.kind)) or plain_columns()
            self._columns = [column.definition() for column in columns]
            self._cells = _builtin(columns)

    def table(
        self,
        objects: Iterable[Manifest],
        *,
        now: datetime,
        metadata: Manifest,
        include: str = "Metadata",
        header: bool = True,
    ) -> Manifest:
        """Rows for the objects; a watch sends the column definitions only with its first table."""
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "columnDefinitions": self._columns if header else None,
            "rows": [self._row(obj, now, include) for obj in objects],
        }

    def _row(self, obj: Manifest, now: datetime, include: str) -> Manifest:
        row: Manifest = {"cells": self._cells(obj, now)}
        if include == "Object":
            row["object"] = obj
        elif include == "Metadata":
            row["object"] = partial_metadata(obj)
        return row


def partial_metadata(obj: Manifest) -> Manifest:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def _builtin(columns: Sequence[Column]) -> Cells:
    def cells(obj: Manifest, now: datetime) -> list[object]:
        return [column.cell(obj, now) for column in columns]

    return cells


def _custom(definition: Definition) -> tuple[list[Manifest], Cells]:
    name = Column("Name", lambda obj, _: obj["metadata"]["name"], format="name")
    shown = [name.definition(), *(_column(column) for column in definition.columns)]

    def cells(obj: Manifest, now: datetime) -> list[object]:
        return [obj["metadata"]["name"], *(_cell(column, obj, now) for column in definition.columns)]

    return shown, cells


def _column(column: Manifest) -> Manifest:
    fallback = f"Custom resource definition column (in JSONPath format): {column['jsonPath']}"
    return {
        "name": column["name"],
        "type": column["type"],
        "format": column.get("format", ""),
        "description": column.get("description") or fallback,
        "priority": column.get("priority", 0),
    }


def _cell(column: Manifest, obj: Manifest, now: datetime) -> object:
    """One value as its column's type shows it; None when it is absent or of another type."""
    values = evaluate(column["jsonPath"], obj)
    if not values:
        return None
    value = values[0]
    match column["type"]:
        case "date":
            return _date(value, now)
        case "integer":
            return value if isinstance(value, int) and not isinstance(value, bool) else None
        case "number":
            return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
        case "boolean":
            return value if isinstance(value, bool) else None
    if len(values) > 1:
        return ",".join(_text(item) for item in values)
    return _text(value)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list)):
        return encode(value).decode()
    return str(value)


def _date(value: object, now: datetime) -> str:
    if not isinstance(value, str):
        return "<unknown>"
    try:
        parse_rfc3339(value)
    except ValueError:
        return "<invalid>"
    return age(value, now)
