"""Decide whether a failed attempt of one request is tried again, and after how long.

Pure but for the random numbers, which come from the given generator; `exchange` sleeps. Promises that a
request that may have been executed and is not idempotent is never repeated.
"""

import random
from dataclasses import dataclass, field
from typing import Final

from grove.errors import ApiError, ServerError, TooManyRequests, Unreachable

#: `Unreachable.reason` when no byte of the request can have reached the server: refused, no such host.
NOT_SENT: Final = "NotSent"
#: The connection broke, or the answer did not come in time: the server may have executed the request.
LOST: Final = "ConnectionLost"
TIMED_OUT: Final = "TimedOut"
#: The server's certificate, or ours, was not accepted; trying again cannot help soon.
TLS: Final = "Tls"

_OVERLOADED: Final = frozenset({502, 503, 504})


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with jitter under two ceilings: the attempts and the time spent waiting."""

    attempts: int = 5
    first: float = 0.05
    longest: float = 5.0
    #: Seconds that one request may wait between its attempts; a longer Retry-After is left to the caller.
    budget: float = 30.0
    #: The part of a wait that is random: 0.25 spreads it over ±25 %.
    jitter: float = 0.25
    rng: random.Random = field(default_factory=random.Random, compare=False)

    def wait(self, attempt: int, failure: ApiError, *, idempotent: bool, spent: float) -> float | None:
        """Seconds to wait after the failed `attempt` (the first is 1), or None to give up."""
        if attempt >= self.attempts or not retriable(failure, idempotent=idempotent):
            return None
        backoff = min(self.longest, self.first * 2.0 ** (attempt - 1))
        backoff *= 1.0 + self.jitter * self.rng.uniform(-1.0, 1.0)
        # Everyone whom the server turned away at once must not come back at once: jitter only ever adds here.
        seconds = backoff if failure.retry_after is None else failure.retry_after + backoff * self.jitter
        return seconds if spent + seconds <= self.budget else None


def retriable(failure: ApiError, *, idempotent: bool) -> bool:
    """Whether repeating the request is safe and can help."""
    if isinstance(failure, TooManyRequests):
        return not _disruption_budget(failure)
    if isinstance(failure, Unreachable):
        return failure.reason == NOT_SENT or (idempotent and failure.reason in (LOST, TIMED_OUT))
    if isinstance(failure, ServerError) and idempotent:
        return failure.status in _OVERLOADED or failure.retry_after is not None
    return False


def _disruption_budget(failure: TooManyRequests) -> bool:
    """An eviction refused by a budget is an answer, not a plea to slow down."""
    causes = failure.details.get("causes")
    return isinstance(causes, list) and any(
        isinstance(cause, dict) and cause.get("reason") == "DisruptionBudget" for cause in causes
    )
