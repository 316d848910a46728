"""Lets equal parts of cached objects be one value: thousands of objects are made alike.

What becomes one is equal, down to the JSON that it came from, so that nobody can tell: a view stays what it
was. The values are remembered in bounded tables, which may be emptied at any time; only memory is lost by
that.
"""

import sys
from collections.abc import Hashable
from typing import Final, TypeVar, cast

import msgspec

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
    before = old.metadata if old is not None else None
    _share_metadata(item.metadata, before)
    if isinstance(item, UntypedObject) and item.metadata.labels:
        item.manifest["metadata"]["labels"] = item.metadata.labels
    for path in item.SHARED:
        holder, _, name = path.rpartition(".")
        part = getattr(item, holder) if holder else item
        value = getattr(part, name)
        if not value:
            continue
        shared: object
        if value.__class__ is dict:
            shared = _equal(value, _mappings.setdefault((type(part), name), []))
        elif value.__class__ is tuple:
            shared = _alike(tuple([_alike(each) for each in value]))
        else:
            shared = _alike(value)
        if shared is not value:
            _set(part, name, shared)


def _share_metadata(metadata: ObjectMeta, before: ObjectMeta | None) -> None:
    intern = sys.intern
    if before is not None and before.labels == metadata.labels:
        # As nearly always when an object changes.
        _set(metadata, "labels", before.labels)
    elif metadata.labels:
        labels = {intern(name): intern(value) for name, value in metadata.labels.items()}
        _set(metadata, "labels", labels)
    if before is not None and before.annotations == metadata.annotations:
        _set(metadata, "annotations", before.annotations)
    elif metadata.annotations:
        annotations = {
            _alike(name): value if len(value) > _LONGEST else _alike(value)
            for name, value in metadata.annotations.items()
        }
        _set(metadata, "annotations", annotations)
    if metadata.owner_references:
        _set(metadata, "owner_references", _alike(metadata.owner_references))
    _set(metadata, "namespace", _alike(metadata.namespace))
    _set(metadata, "creation_timestamp", _alike(metadata.creation_timestamp))
    _set(metadata, "generate_name", _alike(metadata.generate_name))


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
