"""What can go wrong, as one tree: the errors that more than one module raises or catches.

    GroveError                     anything Grove itself raises; `code` is stable, the message is for people
    ├── Terminal                   trying again cannot help; only a change of input can
    │   ├── InvalidConfiguration   the operator's configuration file is wrong; names the field
    │   ├── InvalidInput           a manifest is wrong; names the field
    │   ├── Unsupported            the scheduler cannot express what the gang asks
    │   └── KubeconfigError        no usable kubeconfig; names the file and the field
    ├── BackendFailed              a defect of a scheduler backend; the gang stays, says so and is tried again
    ├── Waiting                    not an error of ours: something must appear first (precondition missing)
    │   ├── NotEnabled             the gang's backend is not enabled in this operator
    │   └── ClaimTemplateNotFound  a set shares devices by a ResourceClaimTemplate that does not exist
    ├── OwnershipConflict          another controller insists on a field of an object that we apply
    ├── PodLimitReached            a clique was scaled beyond the number of pods that one set may have
    ├── BeingDeleted               a gang is being deleted and somebody's finalizer keeps it
    ├── Deposed                    another process leads, or soon may: the write was not sent, or given up
    └── ApiError                   the API server said no; carries its Status
        ├── BadRequest (400)  Unauthorized (401)  Forbidden (403)  NotFound (404)
        ├── Conflict (409)    AlreadyExists (409)  Gone (410)  UnsupportedMediaType (415)  Invalid (422)
        ├── TooManyRequests (429)  ServerError (5xx)
        └── Unreachable            no answer at all: refused, reset, timed out, TLS

An error that one module alone raises is defined there, as a leaf of this tree: NameTaken, OwnershipConflict,
PodLimitReached, NotEnabled (controllers), Stopped, LeadershipLost (runtime), MissingResources (assembly),
NotInstalled, RealFailure (real), NoWayBack (plan), NotAReview, CannotServe (webhook), Refused, Failed (cli),
BadKit (testing). The embedded cluster imports nothing of ours and has errors of its own.

Imports nothing of ours. Retry everything except `Terminal`; log or raise, never both.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple


class FieldError(NamedTuple):
    """One thing wrong with one field of the input."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


def in_one_sentence(errors: Iterable[FieldError]) -> str:
    """All of them; what is wrong with several fields is said once, behind their names."""
    fields: dict[str, list[str]] = {}
    for error in errors:
        fields.setdefault(error.message, []).append(error.field)
    return "; ".join(str(FieldError(", ".join(filter(None, found)), said)) for said, found in fields.items())


class GroveError(Exception):
    """Anything that Grove itself raises."""

    code = "ERR_GROVE"
    #: Whether the cause lies in the code, so that a log needs its stack trace.
    is_defect = False


class Terminal(GroveError):
    """Trying again cannot help; only a change of input can."""

    code = "ERR_TERMINAL"


class InvalidConfiguration(Terminal):
    """The operator's configuration is wrong; `errors` names each field, where it is a matter of fields."""

    code = "ERR_INVALID_CONFIGURATION"

    def __init__(self, message: str, errors: Sequence[FieldError] = ()) -> None:
        self.errors = tuple(errors)
        super().__init__(message)


class InvalidInput(Terminal):
    """A manifest is wrong; `errors` names each field."""

    code = "ERR_INVALID_INPUT"

    def __init__(self, errors: Sequence[FieldError]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(str(error) for error in self.errors))


class Unsupported(Terminal):
    """The scheduler cannot express what the gang asks; only a new spec can help."""

    code = "ERR_UNSUPPORTED"


class KubeconfigError(Terminal):
    """There is no usable kubeconfig; the message names the file and the field."""

    code = "ERR_KUBECONFIG"


class Waiting(GroveError):
    """Something that must exist first is not there yet; its appearance wakes us."""

    code = "ERR_WAITING"


class NotEnabled(Waiting):
    """The gang's backend is not enabled; enabling it wakes the gang."""

    code = "ERR_BACKEND_NOT_ENABLED"


class ClaimTemplateNotFound(Waiting):
    """A set shares devices by a ResourceClaimTemplate that does not exist; its appearance wakes the set."""

    code = "ERR_CLAIM_TEMPLATE_NOT_FOUND"


class OwnershipConflict(GroveError):
    """Another controller insists on a field of an object that we apply."""

    code = "ERR_OWNERSHIP_CONFLICT"


class PodLimitReached(GroveError):
    """A clique was scaled beyond the number of pods that one set may have."""

    code = "ERR_POD_LIMIT"


class BeingDeleted(GroveError):
    """A gang is being deleted and somebody's finalizer keeps it: nothing is done for it until it is gone."""

    code = "ERR_BEING_DELETED"


class BackendFailed(GroveError):
    """A scheduler backend did something that no backend may: a defect, most likely of a third party's."""

    code = "ERR_BACKEND_FAILED"
    is_defect = True

    def __init__(self, backend: str, defect: Exception) -> None:
        text = " ".join(str(defect).split())
        super().__init__(f"scheduler backend {backend} failed with a defect: {type(defect).__name__}: {text}")


class Deposed(GroveError):
    """This process leads no more: a write was not sent, or given up; the next leader does the work."""

    code = "ERR_DEPOSED"


class ApiError(GroveError):
    """The API server said no; `status` is the HTTP code, `reason` and `details` come from its Status."""

    code = "ERR_API"

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        details: dict[str, object] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.details = details or {}
        self.retry_after = retry_after


class BadRequest(ApiError):
    """400: the request could not be understood."""


class Unauthorized(ApiError):
    """401: the credentials were not accepted."""


class Forbidden(ApiError):
    """403: the permission is missing; the message names it."""


class NotFound(ApiError):
    """404: no such object, or no such resource."""


class Conflict(ApiError):
    """409: another writer changed the object, or a field has another owner."""


class AlreadyExists(ApiError):
    """409: an object of that name is there already."""


class Gone(ApiError):
    """410: the resource version is too old; list again."""


class UnsupportedMediaType(ApiError):
    """415: the server does not take this kind of body or patch."""


class Invalid(ApiError):
    """422: the object was refused by validation."""


class TooManyRequests(ApiError):
    """429: slow down; `retry_after` says for how long."""


class ServerError(ApiError):
    """5xx: the server failed."""


class Unreachable(ApiError):
    """No answer at all: refused, reset, timed out, or TLS failed."""


class Stalled(Unreachable):
    """A watch that fell silent: its connection may be dead, or the server has nothing to say.

    A real API server sends no bookmarks for a kind of which nothing has changed since it was started.
    """


#: Races and outages: the write is tried again, and nobody is told.
PASSING: Final = (Conflict, Deposed, ServerError, TooManyRequests, Unreachable)
