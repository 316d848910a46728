"""Tries the pod templates of a proposed set by dry runs, within the time that a webhook has.

What the API server does not answer in time, or cannot answer, decides nothing: the set's controller tries
its templates as well (`controllers.memory.trials`), and says what it finds.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from grove.admission.templates import Refusal, Trial, refusal_of
from grove.api import kinds
from grove.errors import ApiError, FieldError, ServerError, TooManyRequests, Unauthorized, Unreachable
from grove.kube.client import Client

log = logging.getLogger(__name__)

#: Well below the time after which an API server gives a webhook up.
LIMIT_SECONDS: Final = 5.0
#: An object that a template names may have been created a moment ago: the API server looks into a cache.
AGAIN_SECONDS: Final = 0.5
#: How many dry runs are under way at once.
AT_ONCE: Final = 64

_OUTAGES: Final = (ServerError, TooManyRequests, Unauthorized, Unreachable)


@dataclass(frozen=True, slots=True)
class Tried:
    """What is wrong with templates, and what keeps their pods from being created now without being wrong."""

    errors: tuple[FieldError, ...] = ()
    notices: tuple[str, ...] = ()


class DryRuns:
    """Asks the cluster itself whether pods could be created from templates."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def tried(self, trials: Sequence[Trial]) -> Tried:
        """What the API server says to these pods."""
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                found = await asyncio.gather(*map(self._one, trials))
        except (TimeoutError, *_OUTAGES) as failure:
            why = str(failure) or f"no answer within {LIMIT_SECONDS:g} s"
            log.info("pod templates were not tried", extra={"error": why})
            return Tried(notices=(f"pod templates were not tried by a dry run: {why}",))
        errors = [error for refusal, _ in found if refusal is not None for error in refusal.errors]
        notices = [notice for _, notice in found if notice]
        return Tried(tuple(dict.fromkeys(errors)), tuple(dict.fromkeys(notices)))

    async def _one(self, trial: Trial) -> tuple[Refusal | None, str]:
        found = await self._asked(trial)
        if found[0] is not None and found[0].passing:
            await asyncio.sleep(AGAIN_SECONDS)
            found = await self._asked(trial)
        return found

    async def _asked(self, trial: Trial) -> tuple[Refusal | None, str]:
        try:
            async with self._slots:
                await self._client.create(kinds.PODS, trial.pod, dry_run=True, strict=True)
        except _OUTAGES as failure:
            if "webhook" not in str(failure):
                raise
            return None, _not_now(trial, failure)
        except ApiError as failure:
            refusal = refusal_of(trial, failure)
            return refusal, "" if refusal is not None else _not_now(trial, failure)
        return None, ""


def _not_now(trial: Trial, failure: ApiError) -> str:
    """That pods would be refused by something else than validation: a quota, a policy, another webhook."""
    return f"{trial.path}: pods cannot be created now: {failure}"
