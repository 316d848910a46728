"""Undo the compression of a body that comes in pieces. Raises ValueError or zlib.error where it cannot."""

import zlib
from typing import Final

#: What `Content-Encoding` may say for an `Inflater` to be of use.
COMPRESSED: Final = frozenset({"gzip", "x-gzip", "deflate"})
_AUTOMATIC: Final = zlib.MAX_WBITS | 32


class Inflater:
    """One body, which may be of several members, one after the other."""

    __slots__ = ("_begun", "_member")

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_AUTOMATIC)
        self._begun = False

    def add(self, piece: bytes) -> bytes:
        """What this piece tells of the content."""
        self._begun = True
        found = self._member.decompress(piece)
        while rest := self._member.unused_data:
            self._member = zlib.decompressobj(_AUTOMATIC)
            found += self._member.decompress(rest)
        return found

    def end(self) -> None:
        """Raise ValueError unless the content is complete."""
        if self._begun and not self._member.eof:
            raise ValueError("its compressed body is cut off")
