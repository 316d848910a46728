"""Turn what an API server, or a proxy in front of it, answered into the typed errors of `grove.errors`.

Promises that the server's own sentence survives, together with `details` (field-manager conflicts keep their
causes) and the wait that the server asked for. Never raises by itself and never decides about retries.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

import msgspec

from grove.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
    UnsupportedMediaType,
)

_BY_STATUS: Final[Mapping[int, type[ApiError]]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    415: UnsupportedMediaType,
    422: Invalid,
    429: TooManyRequests,
}
#: Reasons that say more than the HTTP status does.
_BY_REASON: Final[Mapping[str, type[ApiError]]] = {
    "AlreadyExists": AlreadyExists,
    "Expired": Gone,
    "Gone": Gone,
}
_MARKUP: Final = re.compile(r"<(script|style|title)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_LONGEST_QUOTE: Final = 300


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a refused request, and the object of an ERROR event in a watch."""

    kind: str | None = None
    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: dict[str, object] | None = None


_STATUS: Final = msgspec.json.Decoder(Status)


def error_from_answer(request: str, status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The error for an HTTP answer of 300 and above; `request` is what was asked, `GET /api/v1/pods`."""
    wait = retry_after(header_of(headers, "Retry-After"))
    try:
        parsed = _STATUS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        parsed = None
    if parsed is not None and parsed.kind == "Status":
        return error_from_status(parsed, request=request, status=status, wait=wait)
    message = f"{request} was answered with {_status_text(status)}"
    if quote := _quote(body):
        message += f": {quote}"
    return _class_of(status, "")(message, status=status, retry_after=wait)


def error_from_event(request: str, body: bytes | msgspec.Raw) -> ApiError:
    """The error that an ERROR event of a watch carries."""
    try:
        return error_from_status(_STATUS.decode(body), request=request)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ServerError(f"{request} sent an ERROR event that is not a Status", status=500)


def error_from_status(
    parsed: Status, *, request: str = "", status: int = 0, wait: float | None = None
) -> ApiError:
    """The error that a Status describes; an HTTP status, where there is one, wins over the body's code."""
    number = status or parsed.code or 500
    reason = parsed.reason or ""
    details = parsed.details or {}
    if wait is None:
        seconds = details.get("retryAfterSeconds")
        wait = float(seconds) if isinstance(seconds, int | float) and seconds > 0 else None
    message = parsed.message or f"{request} was answered with {_status_text(number)} {reason}".strip()
    return _class_of(number, reason)(message, status=number, reason=reason, details=details, retry_after=wait)


def header_of(headers: Mapping[str, str], name: str) -> str:
    """A header of an answer, also where a transport keeps the names in lower case."""
    return headers.get(name) or headers.get(name.lower()) or ""


def retry_after(header: str, *, now: datetime | None = None) -> float | None:
    """The wait in seconds that a Retry-After header asks for, given as a number or as a date."""
    header = header.strip()
    if not header:
        return None
    if header.isascii() and header.isdigit():
        return float(header)
    try:
        until = parsedate_to_datetime(header)
    except ValueError:
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return max(0.0, (until - (now or datetime.now(UTC))).total_seconds())


def _class_of(status: int, reason: str) -> type[ApiError]:
    by_reason = _BY_REASON.get(reason)
    if by_reason is not None:
        return by_reason
    return _BY_STATUS.get(status) or (ServerError if status >= 500 else ApiError)


def _status_text(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _quote(body: bytes) -> str:
    """The readable part of a body that is not ours to parse: an HTML page of a proxy, a line of text."""
    text = " ".join(_MARKUP.sub(" ", body[:8192].decode("utf-8", "replace")).split())
    return text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "…"
