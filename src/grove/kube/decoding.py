"""Decode what the API server sends into views or plain mappings, with one cached decoder per type.

Fast where the body is what the view expects. A body with nulls in the place of lists, strings or mappings (Go
writes them for nil) is read a second time with the nulls left out, so that defaults apply.
"""

from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar, cast

import msgspec

from grove.errors import ApiError
from grove.meta import View

T = TypeVar("T")

#: `ApiError.reason` of an answer that is not what the caller's type says.
UNDECODABLE: Final = "Undecodable"

encode = msgspec.json.Encoder().encode


class ListMeta(View):
    """Where a list stands in time, and where its next page begins."""

    resource_version: str = ""
    continue_token: str = msgspec.field(name="continue", default="")
    remaining_item_count: int | None = None


class ListBody(View, Generic[T]):
    """A list of anything."""

    metadata: ListMeta = ListMeta()
    items: list[T] | None = None


class Frame(View, Generic[T]):
    """One line of a watch."""

    type: str
    object: T


class Codec(Generic[T]):
    """Reads objects, lists and watch frames of one type; get it from `codec`."""

    __slots__ = ("_frame", "_list", "_one", "_plain")

    def __init__(self, target: type[T]) -> None:
        # `dict` alone means dict[str, Any] to msgspec too; naming it keeps non-string keys out.
        self._plain = target is dict
        shape: Any = dict[str, Any] if self._plain else target
        self._one: msgspec.json.Decoder[Any] = msgspec.json.Decoder(shape)
        self._list: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_parametrised(ListBody, shape))
        self._frame: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_parametrised(Frame, shape))

    @property
    def plain(self) -> bool:
        """Whether objects stay plain mappings."""
        return self._plain

    def one(self, body: bytes | msgspec.Raw, request: str) -> T:
        """One object."""
        return cast(T, _decode(self._one, body, request))

    def many(self, body: bytes, request: str) -> ListBody[T]:
        """A list, whose `items` may be null."""
        return cast(ListBody[T], _decode(self._list, body, request))

    def fast_frame(self, line: bytes) -> Frame[T]:
        """One event whose object is of the type; raises msgspec's errors for every other line."""
        return cast(Frame[T], self._frame.decode(line))

    def resource_version(self, item: T) -> str:
        """The version that an object carries, or an empty string if its type does not read it."""
        if self._plain and isinstance(item, dict):
            metadata = item.get("metadata")
            version = metadata.get("resourceVersion") if isinstance(metadata, Mapping) else None
            return version if isinstance(version, str) else ""
        return str(getattr(getattr(item, "metadata", None), "resource_version", ""))


_codecs: dict[type, Codec[Any]] = {}


def codec(target: type[T]) -> Codec[T]:
    """The codec of a type; a View subclass, or `dict` for plain mappings."""
    known = _codecs.get(target)
    if known is None:
        known = _codecs[target] = Codec(target)
    return known


def _parametrised(generic: Any, shape: object) -> Any:
    """A generic struct of a type that is known only now, which a type checker cannot follow."""
    return generic[shape]


def without_nulls(value: object) -> object:
    """The same JSON value without the fields that are null."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value if item is not None]
    return value


def _decode(decoder: msgspec.json.Decoder[Any], body: bytes | msgspec.Raw, request: str) -> object:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError:
        pass
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        message = f"{request} was answered with something that is not JSON ({error})"
        raise ApiError(message, reason=UNDECODABLE) from error
    try:
        return msgspec.convert(without_nulls(msgspec.json.decode(body)), decoder.type)
    except msgspec.ValidationError as error:
        message = f"{request} was answered with an unexpected object: {error}"
        raise ApiError(message, reason=UNDECODABLE) from error
