"""`status.lastErrors`: what could not be written, with a code, for as long as that is so. Pure.

The codes are made as those of the Go operator: `ERR_CREATE_POD`, `ERR_SYNC_PODCLIQUE`.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from grove.api.clique import LastError
from grove.errors import ApiError, GroveError
from grove.meta import Manifest
from grove.plan.changes import Change, Create, Delete
from grove.plan.conditions import timestamp

#: A thousand pods fail for the same reason in as many words; some of them are enough to understand it.
MOST_ERRORS: Final = 5

#: Kinds that the Go operator calls otherwise in its codes.
_NAMES: Final = {"Service": "PODCLIQUESET_SERVICE", "HorizontalPodAutoscaler": "HPA"}


class CodedError(NamedTuple):
    """One error: its code, and a sentence for people."""

    code: str
    text: str


def error_code(change: Change, failure: GroveError) -> str:
    """The code of a write that failed: what the API server refuses is known by the verb and the kind."""
    if not isinstance(failure, ApiError):
        return failure.code
    verb = "CREATE" if isinstance(change, Create) else "DELETE" if isinstance(change, Delete) else "SYNC"
    kind = change.resource.kind
    return f"ERR_{verb}_{_NAMES.get(kind, kind.upper())}"


def last_errors(known: Sequence[LastError], errors: Iterable[CodedError], *, now: datetime) -> list[Manifest]:
    """The errors as clients of the Go operator read them; the time stays while the error does."""
    before = {(error.code, error.description): error.observed_at for error in known}
    return [
        {
            "code": error.code,
            "description": error.text,
            "observedAt": before.get((error.code, error.text), timestamp(now)),
        }
        for error in sorted(set(errors))[:MOST_ERRORS]
    ]
