"""What API servers and proxies answer becomes the right error, with the server's own words."""

from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
import pytest
from tests.kube.stub import status

from grove import errors
from grove.kube.failure import error_from_answer, error_from_event, retry_after


@dataclass(frozen=True)
class Case:
    code: int
    reason: str
    want: type[errors.ApiError]


CASES = {
    "bad request": Case(400, "BadRequest", errors.BadRequest),
    "unauthorized": Case(401, "Unauthorized", errors.Unauthorized),
    "forbidden": Case(403, "Forbidden", errors.Forbidden),
    "not found": Case(404, "NotFound", errors.NotFound),
    "already exists": Case(409, "AlreadyExists", errors.AlreadyExists),
    "conflict": Case(409, "Conflict", errors.Conflict),
    "409 without a reason": Case(409, "", errors.Conflict),
    "expired": Case(410, "Expired", errors.Gone),
    "gone": Case(410, "Gone", errors.Gone),
    "media type": Case(415, "UnsupportedMediaType", errors.UnsupportedMediaType),
    "invalid": Case(422, "Invalid", errors.Invalid),
    "too many": Case(429, "TooManyRequests", errors.TooManyRequests),
    "internal": Case(500, "InternalError", errors.ServerError),
    "unavailable": Case(503, "ServiceUnavailable", errors.ServerError),
    "timeout": Case(504, "Timeout", errors.ServerError),
    "not allowed": Case(405, "MethodNotAllowed", errors.ApiError),
    "too large": Case(413, "RequestEntityTooLarge", errors.ApiError),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_status_becomes_the_error_of_its_code_and_reason(case: Case) -> None:
    body = msgspec.json.encode(status(case.code, case.reason, "the server's sentence"))
    error = error_from_answer("GET /x", case.code, {}, body)
    assert type(error) is case.want
    assert (str(error), error.status, error.reason) == ("the server's sentence", case.code, case.reason)


def test_forbidden_keeps_the_sentence_that_names_the_permission() -> None:
    sentence = (
        'pods is forbidden: User "eve" cannot list resource "pods" in API group "" at the cluster scope'
    )
    error = error_from_answer(
        "GET /api/v1/pods", 403, {}, msgspec.json.encode(status(403, "Forbidden", sentence))
    )
    assert isinstance(error, errors.Forbidden)
    assert str(error) == sentence


def test_a_conflict_of_field_managers_keeps_its_causes() -> None:
    causes = [
        {"reason": "FieldManagerConflict", "message": 'conflict with "kubectl"', "field": ".spec.queue"}
    ]
    body = msgspec.json.encode(status(409, "Conflict", "Apply failed with 1 conflict", causes=causes))
    error = error_from_answer("PATCH /x", 409, {}, body)
    assert type(error) is errors.Conflict
    assert error.details["causes"] == causes


BODIES = {
    "an HTML page of a proxy": (
        502,
        b"<html><head><title>502</title></head><body><h1>Bad Gateway</h1>\n<p>nginx</p></body></html>",
        "GET /x was answered with 502 Bad Gateway: Bad Gateway nginx",
    ),
    "a line of text": (
        503,
        b"upstream connect error",
        "GET /x was answered with 503 Service Unavailable: upstream connect error",
    ),
    "nothing": (504, b"", "GET /x was answered with 504 Gateway Timeout"),
    "bytes that are not text": (500, b"\xff\xfe", "GET /x was answered with 500 Internal Server Error: ��"),
    "JSON that is no Status": (
        500,
        b'{"error":"x"}',
        'GET /x was answered with 500 Internal Server Error: {"error":"x"}',
    ),
    "JSON that is no object": (500, b"[1]", "GET /x was answered with 500 Internal Server Error: [1]"),
}


@pytest.mark.parametrize("case", BODIES.values(), ids=BODIES)
def test_a_body_that_is_no_status_is_quoted(case: tuple[int, bytes, str]) -> None:
    code, body, want = case
    error = error_from_answer("GET /x", code, {}, body)
    assert type(error) is errors.ServerError
    assert str(error) == want


def test_a_long_page_is_cut() -> None:
    assert len(str(error_from_answer("GET /x", 500, {}, b"word " * 10_000))) < 400


def test_the_wait_comes_from_the_header_before_the_body() -> None:
    body = msgspec.json.encode(status(429, "TooManyRequests", "slow down", retryAfterSeconds=7))
    assert error_from_answer("GET /x", 429, {"Retry-After": "2"}, body).retry_after == 2.0
    assert error_from_answer("GET /x", 429, {"retry-after": "3"}, body).retry_after == 3.0
    assert error_from_answer("GET /x", 429, {}, body).retry_after == 7.0


WAITS = {
    "seconds": ("3", 3.0),
    "a date": ("Sun, 15 Nov 2026 10:00:30 GMT", 30.0),
    "a date that has passed": ("Sun, 15 Nov 2026 09:00:00 GMT", 0.0),
    "nonsense": ("soon", None),
    "nothing": ("", None),
}


@pytest.mark.parametrize("case", WAITS.values(), ids=WAITS)
def test_retry_after_is_read_as_seconds_or_as_a_date(case: tuple[str, float | None]) -> None:
    header, want = case
    assert retry_after(header, now=datetime(2026, 11, 15, 10, tzinfo=UTC)) == want


def test_an_error_event_is_read_by_its_code() -> None:
    body = msgspec.json.encode(status(410, "Expired", "too old resource version: 1 (5)"))
    error = error_from_event("GET /x", body)
    assert isinstance(error, errors.Gone)
    assert str(error) == "too old resource version: 1 (5)"


def test_an_error_event_without_a_status_is_a_server_error() -> None:
    assert isinstance(error_from_event("GET /x", b'"boom"'), errors.ServerError)
