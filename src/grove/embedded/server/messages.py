"""Requests and responses without HTTP: what `App.handle` takes and gives."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field

from grove.embedded.identity import User
from grove.embedded.storage.store import encode

JSON = "application/json"
MOST_WARNED = 4096
"""From how many characters in all on every warning is cut."""
SHORT_WARNING = 256


@dataclass(slots=True)
class Request:
    """One request: header names are lower-case, path and query are decoded."""

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    user: User | None = None
    """Set by callers inside the process, which need no token."""


@dataclass(slots=True)
class Response:
    """One answer: bytes, or a stream of chunks when it is a watch."""

    status: int
    headers: dict[str, str]
    body: bytes | AsyncGenerator[bytes, None]
    warnings: tuple[str, ...] = ()
    """Each becomes a `Warning` header."""

    def warning_headers(self) -> list[str]:
        """One header each; those with control characters go unsaid, long ones are cut when there are many."""
        said = [text for text in self.warnings if text and text.isprintable()]
        if sum(map(len, said)) > MOST_WARNED:
            said = [text[:SHORT_WARNING] for text in said][: MOST_WARNED // SHORT_WARNING]
        escaped = (text.replace("\\", "\\\\").replace('"', '\\"') for text in said)
        return [f'299 - "{text}"' for text in escaped]


def reply(
    body: object, status: int = 200, *, kind: str = JSON, headers: Mapping[str, str] | None = None
) -> Response:
    """An answer; anything but bytes is encoded as JSON."""
    raw = body if isinstance(body, bytes) else encode(body)
    return Response(status, {"Content-Type": kind, **(headers or {})}, raw)
