"""Sets of fields as `managedFields` writes them (FieldsV1), and the walks that make them from objects.

A set is the FieldsV1 tree itself: `f:name`, `k:{"key":"value"}` and `v:value` lead down; an empty tree is a
field that belongs to the set; `.` says the same of a field that has members below it. Trees are shared: never
change one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from grove.embedded.machinery.schema_nodes import OPAQUE, Node

Tree = dict[str, Any]
Path = tuple[str, ...]
SELF = "."
LEAF: Tree = {}
"""The one empty tree that all walks below share: a cluster of pods has millions of leaves."""
_PRESENT_BUILTIN = frozenset(
    {"metadata", "spec", "status", "template", "strategy", "updateStrategy", "jobTemplate"}
)
_PRESENT_CUSTOM = frozenset({"metadata"})


def is_member(tree: Tree) -> bool:
    return not tree or SELF in tree


def union(left: Tree, right: Tree) -> Tree:
    """Roots are different from branches: an empty root is the empty set."""
    if not left or not right:
        return left or right
    return _merge(left, right)


def _merge(left: Tree, right: Tree) -> Tree:
    if not left:
        return right if is_member(right) else {SELF: {}, **right}
    if not right:
        return left if SELF in left else {SELF: {}, **left}
    merged = dict(left)
    for element, below in right.items():
        merged[element] = _merge(merged[element], below) if element in merged else below
    return merged


def difference(left: Tree, right: Tree) -> Tree:
    """The fields of `left` that `right` does not have."""
    if not left or not right:
        return left
    return _subtract(left, right, at_root=True) or {}


def _subtract(left: Tree, right: Tree, *, at_root: bool = False) -> Tree | None:
    stays = not at_root and is_member(left) and not is_member(right)
    rest: Tree = {}
    for element, below in left.items():
        if element == SELF:
            continue
        kept = _subtract(below, right[element]) if element in right else below
        if kept is not None:
            rest[element] = kept
    if not rest:
        return {} if stays else None
    return {SELF: {}, **rest} if stays else rest


def intersection(left: Tree, right: Tree) -> Tree:
    """The fields that both have."""
    return _common(left, right, at_root=True) or {}


def _common(left: Tree, right: Tree, *, at_root: bool = False) -> Tree | None:
    both = not at_root and is_member(left) and is_member(right)
    shared: Tree = {}
    for element, below in left.items():
        if element != SELF and element in right:
            found = _common(below, right[element])
            if found is not None:
                shared[element] = found
    if not shared:
        return {} if both else None
    return {SELF: {}, **shared} if both else shared


def paths(tree: Tree, prefix: Path = ()) -> Iterator[Path]:
    """Every field of the set, as the elements that lead to it."""
    if prefix and is_member(tree):
        yield prefix
    for element, below in tree.items():
        if element != SELF:
            yield from paths(below, (*prefix, element))


def describe(path: Path) -> str:
    """A path as conflict messages print it: `.spec.containers[name="c"].image`."""
    text = ""
    for element in path:
        body = element[2:]
        if element[0] == "f":
            text += f".{body}"
        elif element[0] == "k":
            pairs = (f"{name}={json.dumps(value)}" for name, value in json.loads(body).items())
            text += f"[{','.join(pairs)}]"
        else:
            text += f"[={body}]"
    return text


@lru_cache(8192)
def _text_key(name: str, value: str) -> str:
    return "k:" + json.dumps({name: value}, separators=(",", ":"), ensure_ascii=False)


def item_element(item: Any, node: Node) -> str:
    """The element that names one item of a list map; keys that are absent count with their default."""
    keys = node.map_keys
    if type(item) is not dict:
        return "v:" + json.dumps(item, separators=(",", ":"), ensure_ascii=False)
    if len(keys) == 1 and type(value := item.get(keys[0])) is str:
        return _text_key(keys[0], value)
    found: Tree = {}
    for key in sorted(keys):
        value = item.get(key)
        if value is None and node.items is not None and (child := node.items.field(key)) is not None:
            value = child.default
        if value is not None:
            found[key] = value
    return "k:" + json.dumps(found, separators=(",", ":"), ensure_ascii=False)


def value_element(value: Any) -> str:
    return "v:" + json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def child_of(node: Node, name: str) -> Node:
    return node.field(name) or OPAQUE


def applied_fields(value: Any, node: Node) -> Tree:
    """What an applied configuration claims: its leaves and its list items, not the maps around them."""
    if type(value) is dict and not node.atomic:
        children = ((name, item, child_of(node, name)) for name, item in value.items())
        return {
            f"f:{name}": applied_fields(item, child) for name, item, child in children if _claims(item, child)
        }
    if type(value) is list and node.list_type == "map":
        below = node.items or OPAQUE
        return {item_element(item, node): {SELF: LEAF, **applied_fields(item, below)} for item in value}
    if type(value) is list and node.list_type == "set":
        return {value_element(item): LEAF for item in value}
    return LEAF


def _claims(value: Any, node: Node) -> bool:
    """Whether applying the value owns anything: an empty map is owned, a list without items is not."""
    if type(value) is list and node.list_type in ("map", "set"):
        return bool(value)
    if type(value) is dict and value and not node.atomic:
        return any(_claims(item, child_of(node, name)) for name, item in value.items())
    return True


def added_fields(value: Any, node: Node) -> Tree:
    """What a write that made this value owns: everything below, and the containers too."""
    below: Tree
    if type(value) is dict and not node.atomic:
        below = {f"f:{name}": added_fields(item, child_of(node, name)) for name, item in value.items()}
    elif type(value) is list and node.list_type == "map":
        items = node.items or OPAQUE
        below = {item_element(item, node): added_fields(item, items) for item in value}
    elif type(value) is list and node.list_type == "set":
        below = {value_element(item): LEAF for item in value}
    else:
        return LEAF
    return {SELF: LEAF, **below} if below else LEAF


def created_fields(value: Any, node: Node, *, builtin: bool) -> Tree:
    """What a create owns. Structs that even an empty object of the kind has are nobody's."""
    present = _PRESENT_BUILTIN if builtin else _PRESENT_CUSTOM
    if type(value) is list and node.list_type == "map":
        return {item_element(item, node): added_fields(item, node.items or OPAQUE) for item in value}
    if type(value) is not dict or node.atomic:
        return LEAF
    tree: Tree = {}
    for name, item in value.items():
        child = child_of(node, name)
        there = name in present or (builtin and name in node.required)
        if there and type(item) in (dict, list):
            tree[f"f:{name}"] = created_fields(item, child, builtin=builtin)
        else:
            tree[f"f:{name}"] = added_fields(item, child)
    return tree


Change = tuple[Tree | None, Tree | None]


def compare(old: Any, new: Any, node: Node) -> Change:
    """(fields that were added or modified, fields that are gone); None where there are none."""
    if old == new and type(old) is type(new):
        return None, None
    if type(old) is dict and type(new) is dict and not node.atomic:
        return _compare_objects(old, new, node)
    if type(old) is list and type(new) is list:
        if node.list_type == "map":
            return _compare_items(old, new, node)
        if node.list_type == "set":
            return _compare_values(old, new)
    gone = difference({"x": added_fields(old, node)}, {"x": added_fields(new, node)}) if old else {}
    return added_fields(new, node), gone.get("x")


def _compare_objects(old: Tree, new: Tree, node: Node) -> Change:
    changed: Tree = {}
    gone: Tree = {}
    for name, value in new.items():
        before = old.get(name, OPAQUE)
        if before is OPAQUE:
            changed[f"f:{name}"] = added_fields(value, child_of(node, name))
        elif before is not value and before != value:
            _put(changed, gone, f"f:{name}", compare(before, value, child_of(node, name)))
    for name, value in old.items():
        if name not in new:
            gone[f"f:{name}"] = added_fields(value, child_of(node, name))
    return changed or None, gone or None


def _put(changed: Tree, gone: Tree, element: str, change: Change) -> None:
    if change[0] is not None:
        changed[element] = change[0]
    if change[1] is not None:
        gone[element] = change[1]


def _compare_items(old: list[Any], new: list[Any], node: Node) -> Change:
    below = node.items or OPAQUE
    before = {item_element(item, node): item for item in old}
    after = {item_element(item, node): item for item in new}
    changed: Tree = {}
    gone: Tree = {}
    for element, item in after.items():
        if element in before:
            _put(changed, gone, element, compare(before[element], item, below))
        else:
            changed[element] = added_fields(item, below)
    for element, item in before.items():
        if element not in after:
            gone[element] = added_fields(item, below)
    return changed or None, gone or None


def _compare_values(old: list[Any], new: list[Any]) -> Change:
    before, after = {value_element(item) for item in old}, {value_element(item) for item in new}
    changed: Tree = dict.fromkeys(after - before, LEAF)
    gone: Tree = dict.fromkeys(before - after, LEAF)
    return changed or None, gone or None
