"""Server-side apply and `metadata.managedFields`: who owns which field.

`apply` merges a configuration into the live object and refuses to take fields from others unless forced;
`track` notes after any other write who changed what. Neither stores anything.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from grove.embedded.errors import ApiError, Manifest
from grove.embedded.machinery.fieldsets import (
    SELF,
    Tree,
    applied_fields,
    child_of,
    compare,
    created_fields,
    describe,
    difference,
    intersection,
    is_member,
    item_element,
    paths,
    union,
    value_element,
)
from grove.embedded.machinery.schema import Schema
from grove.embedded.machinery.schema_nodes import OPAQUE, Node

Mode = Literal["full", "lazy", "off"]
BEFORE_FIRST_APPLY = "before-first-apply"
_UNTRACKED_META = frozenset(
    {
        *("name", "namespace", "creationTimestamp", "selfLink", "uid", "generation", "managedFields"),
        *("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds"),
    }
)
_UNTRACKED_ROOT = frozenset({"apiVersion", "kind"})


@dataclass(frozen=True, slots=True)
class _Entry:
    manager: str
    operation: str
    api_version: str
    time: str
    subresource: str
    fields: Tree

    @property
    def identity(self) -> tuple[str, str, str]:
        return self.manager, self.operation, self.subresource

    def shown(self) -> str:
        """The manager as conflict messages name it."""
        text = f'"{self.manager}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return text if self.operation == "Apply" else f"{text} using {self.api_version}"

    def to_manifest(self) -> Manifest:
        entry: Manifest = {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields,
        }
        if self.subresource:
            entry["subresource"] = self.subresource
        return entry


Entries = dict[tuple[str, str, str], _Entry]


def _read(entries: Iterable[Manifest]) -> Entries:
    found: Entries = {}
    for raw in entries:
        if raw.get("fieldsV1"):
            entry = _Entry(
                manager=raw.get("manager", ""),
                operation=raw.get("operation", "Update"),
                api_version=raw.get("apiVersion", ""),
                time=raw.get("time") or "",
                subresource=raw.get("subresource", ""),
                fields=raw["fieldsV1"],
            )
            found[entry.identity] = entry
    return found


def _write(obj: Manifest, entries: Entries) -> None:
    """Entries in the server's order: applied ones first, then by time."""
    kept = sorted(
        (entry for entry in entries.values() if entry.fields),
        key=lambda entry: (entry.operation, entry.time, entry.manager, entry.subresource),
    )
    if kept:
        obj["metadata"]["managedFields"] = [entry.to_manifest() for entry in kept]
    else:
        obj["metadata"].pop("managedFields", None)


def _tracked(obj: Manifest) -> Manifest:
    """The part of an object whose ownership is recorded."""
    part = {name: value for name, value in obj.items() if name not in _UNTRACKED_ROOT}
    meta = {k: v for k, v in (obj.get("metadata") or {}).items() if k not in _UNTRACKED_META}
    if meta:
        part["metadata"] = meta
    else:
        part.pop("metadata", None)
    return part


def _root(schema: Schema | None) -> Node:
    return schema.root if schema is not None else OPAQUE


def track(
    old: Manifest | None,
    new: Manifest,
    *,
    manager: str,
    schema: Schema | None,
    now: str,
    operation: str = "Update",
    subresource: str = "",
    api_version: str = "",
    mode: Mode = "full",
) -> None:
    """Sets `new.metadata.managedFields` after a write that was not an apply."""
    meta = new["metadata"]
    given = meta.get("managedFields")
    base = given if given else ((old or {}).get("metadata") or {}).get("managedFields") or []
    entries = _read(base)
    applied = any(entry.operation == "Apply" for entry in entries.values())
    # Once a record was cleared, nothing is recorded until somebody applies.
    cleared = old is not None and not entries
    if mode == "off" or (mode == "lazy" and not applied) or cleared:
        meta.pop("managedFields", None)
        return
    changed, gone = _changes(old, new, schema)
    if changed is None and gone is None:
        _write(new, entries)
        return
    me = (manager, operation, subresource)
    _take_away(entries, changed, gone, me=me)
    if changed:
        mine = entries.get(me)
        fields = union(mine.fields, changed) if mine else changed
        entries[me] = _Entry(
            manager, operation, api_version or new.get("apiVersion", ""), now, subresource, fields
        )
    _write(new, entries)


def _take_away(
    entries: Entries, changed: Tree | None, gone: Tree | None, *, me: tuple[str, str, str]
) -> None:
    """Nobody owns what is gone, and nobody else what one writer changed."""
    for identity, entry in list(entries.items()):
        fields = difference(entry.fields, gone) if gone else entry.fields
        if changed and identity != me:
            fields = difference(fields, changed)
        if fields is not entry.fields:
            entries[identity] = replace(entry, fields=fields)


def _changes(old: Manifest | None, new: Manifest, schema: Schema | None) -> tuple[Tree | None, Tree | None]:
    after = _tracked(new)
    if old is None:
        return created_fields(
            after, _root(schema), builtin=schema is not None and schema.builtin
        ) or None, None
    before = _tracked(old)
    # An absent map and an empty one are told apart below the root only.
    return compare({"metadata": {}} | before, {"metadata": {}} | after, _root(schema))


def apply(
    live: Manifest | None,
    applied: Manifest,
    *,
    manager: str,
    schema: Schema | None,
    force: bool,
    now: str,
    subresource: str = "",
    has_status: bool = False,
) -> Manifest:
    """The live object with the configuration merged in and ownership written; raises 409 on conflicts.

    What the request cannot write (status on the main resource, the rest on /status) is not claimed.
    """
    node = _root(schema)
    claimed = _writable(_tracked(applied), subresource, has_status=has_status)
    _refuse_twins(claimed, node, "")
    fields = applied_fields(claimed, node)
    version = applied.get("apiVersion", "")
    if live is None:
        created = copy.deepcopy(applied)
        me = _Entry(manager, "Apply", version, now, subresource, fields)
        _write(created, {me.identity: me})
        return created
    entries = _read(live["metadata"].get("managedFields") or _before_first_apply(live, schema, now))
    merged = merge(live, {**claimed, "apiVersion": version}, node)
    changed, _ = compare(_tracked(live), _tracked(merged), node)
    identity = (manager, "Apply", subresource)
    entries = _take_over(entries, changed or {}, identity, force=force)
    last = entries.get(identity)
    if last is not None:
        merged = _without_stale(merged, node, last, fields=fields, entries=entries)
    same = last is not None and last.fields == fields and last.api_version == version
    time = last.time if last is not None and same else now
    entries[identity] = _Entry(manager, "Apply", version, time, subresource, fields)
    result = {**merged, "metadata": dict(merged["metadata"])}
    _write(result, entries)
    return result


def _refuse_twins(value: Any, node: Node, path: str) -> None:
    """Refuses lists that name an item twice: it could not be told which of the two is owned."""
    if type(value) is dict and not node.atomic:
        for name, item in value.items():
            if type(item) is dict or type(item) is list:
                _refuse_twins(item, child_of(node, name), f"{path}.{name}")
    elif type(value) is list and node.list_type in ("map", "set"):
        seen: set[str] = set()
        for item in value:
            element = item_element(item, node)
            if element in seen:
                what = f"{path}: duplicate entries for key {describe((element,))}"
                raise ApiError(500, "", f"failed to create typed patch object: {what}")
            seen.add(element)
            _refuse_twins(item, node.items or OPAQUE, f"{path}{describe((element,))}")


def _without_stale(merged: Manifest, node: Node, last: _Entry, *, fields: Tree, entries: Entries) -> Manifest:
    """The object without what the manager applied last time, applies no longer, and nobody else owns."""
    kept = fields
    for entry in entries.values():
        kept = kept if entry is last else union(kept, entry.fields)
    stale = difference(last.fields, kept)
    if not stale:
        return merged
    merged = copy.deepcopy(merged)
    _prune(merged, node, stale, kept)
    return merged


def _writable(obj: Manifest, subresource: str, *, has_status: bool) -> Manifest:
    if subresource == "status":
        return {name: value for name, value in obj.items() if name == "status"}
    if has_status and "status" in obj:
        return {name: value for name, value in obj.items() if name != "status"}
    return obj


def _before_first_apply(live: Manifest, schema: Schema | None, now: str) -> list[Manifest]:
    """An object that is not tracked belongs to one manager until someone applies, as if that one made it."""
    builtin = schema is not None and schema.builtin
    fields = created_fields(_tracked(live), _root(schema), builtin=builtin)
    version = live.get("apiVersion", "")
    return [_Entry(BEFORE_FIRST_APPLY, "Update", version, now, "", fields).to_manifest()] if fields else []


def _take_over(entries: Entries, changed: Tree, me: tuple[str, str, str], *, force: bool) -> Entries:
    """Entries without the fields that the apply takes from them; 409 when it may not."""
    conflicts = [
        (entry, lost)
        for identity, entry in entries.items()
        if identity != me and (lost := intersection(entry.fields, changed))
    ]
    if conflicts and not force:
        raise _conflict(conflicts)
    taken = dict(entries)
    for entry, lost in conflicts:
        taken[entry.identity] = replace(entry, fields=difference(entry.fields, lost))
    return taken


def _conflict(conflicts: list[tuple[_Entry, Tree]]) -> ApiError:
    found = sorted((entry.shown(), describe(path)) for entry, lost in conflicts for path in paths(lost))
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": field}
        for who, field in found
    ]
    if len(found) == 1:
        text = f"conflict with {found[0][0]}: {found[0][1]}"
    else:
        lines: list[str] = []
        for who, field in found:
            if (heading := f"conflicts with {who}:") not in lines:
                lines.append(heading)
            lines.append(f"- {field}")
        text = "\n".join(lines)
    plural = "" if len(found) == 1 else "s"
    message = f"Apply failed with {len(found)} conflict{plural}: {text}"
    return ApiError(409, "Conflict", message, {"causes": causes})


def merge(live: Any, applied: Any, node: Node) -> Any:
    """`live` with `applied` laid over it; keyed lists are merged item by item, atomic ones replaced."""
    if type(applied) is dict and type(live) is dict and not node.atomic:
        result = dict(live)
        for name, value in applied.items():
            result[name] = (
                merge(live[name], value, child_of(node, name)) if name in live else copy.deepcopy(value)
            )
        return result
    if type(applied) is list and type(live) is list and node.list_type in ("map", "set"):
        return _merge_items(live, applied, node)
    return copy.deepcopy(applied)


def _merge_items(live: list[Any], applied: list[Any], node: Node) -> list[Any]:
    """Items of both in the applied order, the others where they were in the live one; each new item comes
    before the known item that follows it in the applied list."""
    below = node.items or OPAQUE
    current = {item_element(item, node): item for item in live}
    wanted = {item_element(item, node): item for item in applied}
    merged = {
        element: merge(current[element], item, below) if element in current else copy.deepcopy(item)
        for element, item in wanted.items()
    }
    queue = list(wanted)
    result: list[Any] = []
    for element, item in current.items():
        if element not in wanted:
            result.append(item)
        elif element == next((known for known in queue if known in current), None):
            while element in queue:
                result.append(merged[queue.pop(0)])
    result.extend(merged[element] for element in queue)
    return result


def _prune(value: Any, node: Node, stale: Tree, kept: Tree) -> None:
    """Removes the fields in `stale` from `value` in place, and containers that are left with nothing."""
    for element, below in stale.items():
        if element == SELF:
            continue
        keep = kept.get(element)
        if element[0] == "f" and type(value) is dict:
            _prune_field(value, element[2:], child_of(node, element[2:]), below, keep)
        elif element[0] == "k" and type(value) is list:
            _prune_item(value, element, node, below, keep)
        elif element[0] == "v" and type(value) is list and keep is None:
            value[:] = [item for item in value if value_element(item) != element]


def _prune_field(value: Manifest, name: str, node: Node, stale: Tree, keep: Tree | None) -> None:
    if name not in value:
        return
    if keep is None and is_member(stale):
        del value[name]
        return
    _prune(value[name], node, stale, keep or {})
    if keep is None and value[name] in ({}, []):
        del value[name]


def _prune_item(value: list[Any], element: str, node: Node, stale: Tree, keep: Tree | None) -> None:
    for index, item in enumerate(value):
        if item_element(item, node) == element:
            if keep is None and is_member(stale):
                del value[index]
            else:
                keys = {f"f:{key}" for key in node.map_keys}
                _prune(
                    item, node.items or OPAQUE, {e: b for e, b in stale.items() if e not in keys}, keep or {}
                )
            return
