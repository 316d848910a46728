"""What counts as an answer of a webhook, and what is told to the client when it is a refusal."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any

import msgspec

from grove.embedded.errors import ApiError, Manifest, internal

V1 = "v1"
VERSIONS = (V1, "v1beta1")
"""The versions of AdmissionReview that can be sent."""


class Failed(Exception):
    """A webhook could not be asked, or gave no valid answer; the message says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    allowed: bool
    patch: list[Manifest]
    status: Manifest
    warnings: tuple[str, ...]


class _Response(msgspec.Struct, rename="camel"):
    uid: str = ""
    allowed: bool = False
    status: dict[str, Any] | None = None
    patch: str | None = None
    patch_type: str | None = None
    warnings: list[str] | None = None


class _Review(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    response: _Response | None = None


def answer_of(body: bytes, *, uid: str, version: str, mutating: bool) -> Answer:
    """The answer in a response's body; raises `Failed` when it is none to this question."""
    try:
        review = msgspec.json.decode(body, type=_Review)
    except msgspec.DecodeError as error:
        raise Failed(f"failed to call webhook: the answer cannot be read: {error}") from error
    response = review.response
    if response is None:
        raise _invalid("webhook response was absent")
    if version == V1:
        _check(review, response, uid, mutating=mutating)
    patch = _patch_of(response) if mutating else []
    return Answer(response.allowed, patch, response.status or {}, tuple(response.warnings or ()))


def _check(review: _Review, response: _Response, uid: str, *, mutating: bool) -> None:
    """The rules of v1; v1beta1 had none."""
    if response.uid != uid:
        raise _invalid(f'expected response.uid="{uid}", got "{response.uid}"')
    if (review.api_version, review.kind) != ("admission.k8s.io/v1", "AdmissionReview"):
        got = f"{review.api_version or '/'}, Kind={review.kind}"
        raise _invalid(f"expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {got}")
    if not mutating:
        for field, value in (("patch", response.patch), ("patchType", response.patch_type)):
            if value:
                raise _invalid(f"validating webhook may not return response.{field}")
    elif response.patch and response.patch_type is None:
        raise _invalid("webhook returned response.patch but not response.patchType")
    elif not response.patch and response.patch_type is not None:
        raise _invalid("webhook returned response.patchType but not response.patch")
    elif response.patch_type == "":
        raise _invalid('webhook returned invalid response.patchType of ""')


def _patch_of(response: _Response) -> list[Manifest]:
    if not response.patch:
        return []
    try:
        patch = msgspec.json.decode(base64.b64decode(response.patch), type=list[dict[str, Any]])
    except (msgspec.DecodeError, binascii.Error) as error:
        raise Failed(f"received undecodable patch in webhook response: {error}") from error
    if patch and response.patch_type not in (None, "JSONPatch"):
        raise Failed(f'unsupported patch type "{response.patch_type}"')
    return patch


def _invalid(why: str) -> Failed:
    return Failed(f"received invalid webhook response: {why}")


def refusal(name: str, status: Manifest) -> ApiError:
    """What a client is told when a webhook refuses: its code and reason, and who it was."""
    message = status.get("message") or status.get("reason") or ""
    explained = f": {message}" if message else " without explanation"
    text = f'admission webhook "{name}" denied the request{explained}'
    return ApiError(
        max(status.get("code") or 0, 400), status.get("reason") or "", text, status.get("details")
    )


def failure(name: str, why: object) -> ApiError:
    """What a client is told when a webhook that may not fail could not be asked."""
    return internal(f'failed calling webhook "{name}": {why}')
