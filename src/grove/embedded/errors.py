"""What the API server answers when it cannot do as asked: `metav1.Status` failures.

One exception type, `ApiError`, and one constructor per reason with the wording that Kubernetes uses, so that
clients which match on reason or message behave the same. Never logs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grove.embedded.resource_type import ResourceType

Manifest = dict[str, Any]

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


@dataclass(frozen=True, slots=True)
class Cause:
    """One field error: where, which kind of error (`FieldValueInvalid`, ...), and the sentence."""

    field: str
    reason: str
    message: str


class ApiError(Exception):
    """A failure with the HTTP status and the `Status` body that a client gets."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        details: Manifest | None = None,
        *,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = headers or {}

    def to_status(self) -> Manifest:
        body: Manifest = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        body["message"] = self.message
        if self.reason:
            body["reason"] = self.reason
        if self.details:
            body["details"] = self.details
        body["code"] = self.status
        return body


class NotStored(ApiError):
    """A write that the data directory did not take; the state of the cluster is as if it had never come."""


def _qualified(resource: ResourceType) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def _details(resource: ResourceType, name: str, **more: object) -> Manifest:
    details: Manifest = {"name": name}
    if resource.group:
        details["group"] = resource.group
    return {**details, "kind": resource.plural, **more}


def not_found(resource: ResourceType, name: str) -> ApiError:
    message = f'{_qualified(resource)} "{name}" not found'
    return ApiError(404, "NotFound", message, _details(resource, name))


def no_such_path() -> ApiError:
    """The path names no resource that this server knows."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: ResourceType, name: str) -> ApiError:
    message = f'{_qualified(resource)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, _details(resource, name))


def conflict(resource: ResourceType, name: str, why: str = MODIFIED) -> ApiError:
    message = f'Operation cannot be fulfilled on {_qualified(resource)} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(resource, name))


def invalid(resource: ResourceType, name: str, causes: Sequence[Cause]) -> ApiError:
    """422: the object breaks rules of its kind; every broken rule is listed."""
    sentences = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    text = sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    details: Manifest = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.kind
    details["causes"] = [
        {"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes
    ]
    return ApiError(422, "Invalid", f'{kind} "{name}" is invalid: {text}', details)


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def gone(message: str) -> ApiError:
    return ApiError(410, "Expired", message)


def forbidden(resource: ResourceType, name: str, why: str) -> ApiError:
    subject = f'{_qualified(resource)} "{name}"' if name else _qualified(resource)
    return ApiError(403, "Forbidden", f"{subject} is forbidden: {why}", _details(resource, name))


def too_many(message: str, retry_after: int = 1) -> ApiError:
    details = {"retryAfterSeconds": retry_after}
    headers = {"Retry-After": str(retry_after)}
    return ApiError(429, "TooManyRequests", message, details, headers=headers)


def invalid_options(kind: str, field: str, message: str) -> ApiError:
    """422: what a request asks besides the object breaks a rule; `kind` as in CreateOptions."""
    cause = {"reason": "FieldValueInvalid", "message": message, "field": field}
    details: Manifest = {"group": "meta.k8s.io", "kind": kind, "causes": [cause]}
    return ApiError(422, "Invalid", f'{kind}.meta.k8s.io "" is invalid: {field}: {message}', details)


def too_large(what: str) -> ApiError:
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: {what}")


def unsupported_media(accepted: Sequence[str]) -> ApiError:
    what = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {what}"
    return ApiError(415, "UnsupportedMediaType", message)


def method_not_allowed() -> ApiError:
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message)


def not_implemented(what: str) -> ApiError:
    return ApiError(501, "NotImplemented", f"{what} is not part of the embedded cluster")


def internal(message: str) -> ApiError:
    return ApiError(500, "InternalError", f"Internal error occurred: {message}")
