"""Lets equal parts of cached objects be one value: thousands of objects are made alike.

What becomes one is equal, down to the JSON that it came from, so that nobody can tell: a view stays what it
was. The values are remembered in bounded tables, which may be emptied at any time; only memory is lost by
that.
"""

import sys
from collections.abc import Hashable
from functools import cache
from typing import Final, TypeVar, cast

import msgspec
from msgspec.structs import replace

from grove.meta import Object, ObjectMeta, UntypedObject

H = TypeVar("H", bound=Hashable)

#: How many values are remembered.
_MOST: Final = 1024
#: Longer values of annotations are seldom alike.
_LONGEST: Final = 64
#: With how many mappings a new one is compared.
_COMPARED: Final = 8

_known: dict[Hashable, Hashable] = {}
#: The last values of fields that are mappings, by the type that they are a field of and by their name.
_mappings: dict[tuple[type, str], list[object]] = {}
_set = msgspec.structs.force_setattr
_encode = msgspec.json.Encoder().encode


def share(item: Object, old: Object | None) -> None:
    """Replace the parts of a new object that are equal to known ones; `old` is what it takes the place of."""
    metadata = item.metadata
    if old is not None and (not metadata.uid or old.metadata.uid != metadata.uid):
        old = None
    metadata = _metadata(metadata) if old is None else _changed_metadata(metadata, old.metadata)
    _set(item, "metadata", metadata)
    if isinstance(item, UntypedObject) and metadata.labels:
        item.manifest["metadata"]["labels"] = metadata.labels
    for holder, names in _parts(type(item)):
        part: msgspec.Struct = getattr(item, holder) if holder else item
        if holder and old is not None and 0 < old.metadata.generation == metadata.generation:
            before = getattr(old, holder)
            # The generation tells of what is equal to Python alone, such as 1 and true in a mapping.
            if part == before:
                _set(item, holder, before)
                continue
        for name in names:
            if value := getattr(part, name):
                _set(part, name, _shared(value, type(part), name))


@cache
def _parts(kind: type[Object]) -> list[tuple[str, list[str]]]:
    """By the field that holds them, the fields that a view names; blank for the object itself."""
    found: dict[str, list[str]] = {}
    for path in kind.SHARED:
        holder, _, name = path.rpartition(".")
        found.setdefault(holder, []).append(name)
    return list(found.items())


def _metadata(metadata: ObjectMeta) -> ObjectMeta:
    """The metadata of an object that is new."""
    intern = sys.intern
    return replace(
        metadata,
        generate_name=_alike(metadata.generate_name),
        namespace=_alike(metadata.namespace),
        creation_timestamp=_alike(metadata.creation_timestamp),
        labels={intern(name): intern(value) for name, value in metadata.labels.items()},
        annotations={
            _alike(name): value if len(value) > _LONGEST else _alike(value)
            for name, value in metadata.annotations.items()
        },
        owner_references=_alike(metadata.owner_references),
    )


def _changed_metadata(metadata: ObjectMeta, before: ObjectMeta) -> ObjectMeta:
    """The metadata of an object that was there: what nobody can change or has changed is kept."""
    if (
        metadata.labels != before.labels
        or metadata.annotations != before.annotations
        or metadata.owner_references != before.owner_references
    ):
        return _metadata(metadata)
    return replace(
        before,
        resource_version=metadata.resource_version,
        generation=metadata.generation,
        deletion_timestamp=metadata.deletion_timestamp,
        finalizers=metadata.finalizers,
    )


def _shared(value: object, holder: type, name: str) -> object:
    if isinstance(value, dict):
        return _equal(value, _mappings.setdefault((holder, name), []))
    if isinstance(value, tuple):
        return _alike(tuple([_alike(each) for each in value]))
    return _alike(value)


def _alike(value: H) -> H:
    """The known value that is equal to this one, which is known from now on."""
    known = _known.get(value)
    if known is None:
        if len(_known) >= _MOST:
            _known.clear()
        _known[value] = known = value
    return cast(H, known)


def _equal(value: object, recent: list[object]) -> object:
    """As `_alike`, for mappings: they have no hash, and to Python 1 and true are equal."""
    for known in recent:
        if known == value and _encode(known) == _encode(value):
            return known
    recent.append(value)
    del recent[:-_COMPARED]
    return value
