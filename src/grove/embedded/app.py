"""Requests in, responses out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from grove.embedded.identity import User


@dataclass(slots=True)
class Request:
    """One HTTP request without HTTP: header names are lower-case, the query is decoded."""

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    user: User | None = None
    """Set by callers inside the process, which need no token."""


@dataclass(slots=True)
class Response:
    """One answer: bytes, or a stream of chunks when it is a watch or a followed log."""

    status: int
    headers: dict[str, str]
    body: bytes | AsyncIterator[bytes]
    warnings: tuple[str, ...] = ()


__all__ = ["Request", "Response", "User"]
