"""AdmissionReview v1: what an API server asks about one write, and the answer to it. Pure.

`read` raises NotAReview for anything else; `written` never fails. A refusal is a Status with a cause for
each field, as the API server itself writes it, so that kubectl lists them.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from grove.errors import FieldError, Terminal
from grove.meta import Manifest, View

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"
DELETE: Final = "DELETE"

#: Clients may cut longer warnings off, and the API server drops what exceeds 4096 characters in all.
WARNING_LENGTH: Final = 256
_ALL_WARNINGS: Final = 4096
#: More than a person reads; an object may have thousands of mistakes.
_MOST_ERRORS: Final = 50
_REASONS: Final = {422: "Invalid", 403: "Forbidden"}


class NotAReview(Terminal):
    """What was posted is no AdmissionReview of version v1 with a request."""

    code = "ERR_NOT_A_REVIEW"


class User(View):
    """Who writes."""

    username: str = ""


class Kind(View):
    """The kind of what is written."""

    group: str = ""
    kind: str = ""


class Asked(View):
    """The resource that is written."""

    group: str = ""
    resource: str = ""


class Request(View):
    """One write that an API server asks about."""

    uid: str
    operation: str = ""
    kind: Kind = Kind()
    resource: Asked = Asked()
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    user_info: User = User()
    #: What would be stored; None for a deletion.
    object: Manifest | None = None
    #: What is stored; None for a creation.
    old_object: Manifest | None = None

    @property
    def user(self) -> str:
        return self.user_info.username


class _Review(View):
    """The envelope."""

    api_version: str = ""
    kind: str = ""
    request: Request | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Allowed unless there are errors; with warnings for the author and a patch of what is missing."""

    errors: Sequence[FieldError] = ()
    warnings: Sequence[str] = ()
    patch: Sequence[Manifest] = ()
    #: Of a refusal: 422 for a wrong object, 403 where this user may not write it.
    code: int = 422

    @property
    def allowed(self) -> bool:
        return not self.errors


ALLOWED: Final = Answer()


def read(body: bytes) -> Request:
    """The request of a review."""
    try:
        review = msgspec.json.decode(body, type=_Review)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotAReview(f"the body is no {KIND}: {error}") from None
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        got = f"{review.kind or 'no kind'} of {review.api_version or 'no version'}"
        raise NotAReview(f"the body must be an {KIND} of {API_VERSION}; it is {got}")
    if review.request is None:
        raise NotAReview(f"request: is required in an {KIND}")
    if not review.request.uid:
        raise NotAReview("request.uid: is required")
    return review.request


def written(request: Request, answer: Answer) -> bytes:
    """The review that goes back."""
    response: Manifest = {"uid": request.uid, "allowed": answer.allowed}
    if answer.errors:
        response["status"] = _status(request, answer)
    if warnings := _fitting(answer.warnings):
        response["warnings"] = warnings
    if answer.patch and answer.allowed:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(answer.patch)).decode()
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _status(request: Request, answer: Answer) -> Manifest:
    errors = list(dict.fromkeys(answer.errors))
    if (more := len(errors) - _MOST_ERRORS) > 0:
        errors = [*errors[:_MOST_ERRORS], FieldError("", f"and {more} more errors")]
    causes = [
        {"reason": "FieldValueInvalid", "message": each.message, "field": each.field} for each in errors
    ]
    details: Manifest = {"name": request.name, "group": request.kind.group, "kind": request.kind.kind}
    if answer.code == 422:
        details["causes"] = causes
    listed = "; ".join(map(str, errors))
    return {
        "status": "Failure",
        "code": answer.code,
        "reason": _REASONS.get(answer.code, ""),
        "message": f"[{listed}]" if len(errors) > 1 else listed,
        "details": details,
    }


def _fitting(warnings: Sequence[str]) -> list[str]:
    """Each once, on one line, not too long, and not too many."""
    found: list[str] = []
    left = _ALL_WARNINGS
    for line in dict.fromkeys(" ".join(each.split()) for each in warnings):
        text = line if len(line) <= WARNING_LENGTH else f"{line[: WARNING_LENGTH - 1]}…"
        left -= len(text.encode())
        if left < 0:
            break
        if text:
            found.append(text)
    return found
