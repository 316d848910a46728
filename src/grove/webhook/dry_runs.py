"""Tries the pod templates of a proposed set by dry runs, within the time that a webhook has.

What the API server does not answer in time, or cannot answer, decides nothing: the set's controller tries
its templates as well (`controllers.memory.trials`), and says what it finds. A template that was accepted in
a namespace is not asked about again for a while, and one that is being asked about is not asked twice.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from grove.admission.templates import Refusal, Trial, Trying, identity, refusal_of
from grove.api import kinds
from grove.api.cliqueset import PodCliqueSet
from grove.api.topology import ClusterTopologyBinding
from grove.backends.base import Backend, Context
from grove.errors import ApiError, FieldError, ServerError, TooManyRequests, Unauthorized, Unreachable
from grove.kube.client import Client

log = logging.getLogger(__name__)

#: Well below the time after which an API server gives a webhook up.
LIMIT_SECONDS: Final = 5.0
#: An object that a template names may have been created a moment ago: the API server looks into a cache.
AGAIN_SECONDS: Final = 0.5
#: How many dry runs are under way at once.
AT_ONCE: Final = 64
#: How long a template that was accepted is taken to be right: what it names may be deleted, and then the
#: set's controller tells.
REMEMBERED_SECONDS: Final = 60.0
#: How many templates are remembered; each takes some hundred bytes.
REMEMBERED_MOST: Final = 4096

_OUTAGES: Final = (ServerError, TooManyRequests, Unauthorized, Unreachable)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A role to be tried. Its pod is only made where the API server must be asked."""

    #: Equal for roles of which the API server says the same, `admission.templates.identity`.
    identity: bytes
    #: None where the backend makes no pod of the role.
    prepare: Callable[[], Trial | None]


def candidates(
    cliqueset: PodCliqueSet,
    backend: Backend,
    context: Context,
    binding: ClusterTopologyBinding | None,
    roles: Iterable[int],
) -> list[Candidate]:
    """The roles of a set, by their numbers, that are to be tried."""

    trying = Trying(cliqueset, backend, context, binding)
    return [
        Candidate(
            identity(cliqueset, index, backend=backend, binding=binding), partial(trying.possible, index)
        )
        for index in roles
    ]


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
        #: The accepted templates, the oldest first, and until when that holds.
        self._accepted: OrderedDict[bytes, float] = OrderedDict()
        #: What the API server is being asked; its answer is an error or None.
        self._asking: dict[bytes, asyncio.Task[ApiError | None]] = {}

    async def tried(self, candidates: Sequence[Candidate]) -> Tried:
        """What the API server says to the pods of these roles."""
        unknown = [each for each in candidates if not self._is_accepted(each.identity)]
        if not unknown:
            return Tried()
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                found = await asyncio.gather(*map(self._one, unknown))
        except (TimeoutError, *_OUTAGES) as failure:
            why = str(failure) or f"no answer within {LIMIT_SECONDS:g} s"
            log.info("pod templates were not tried", extra={"error": why})
            return Tried(notices=(f"pod templates were not tried by a dry run: {why}",))
        errors = [error for refusal, _ in found if refusal is not None for error in refusal.errors]
        notices = [notice for _, notice in found if notice]
        return Tried(tuple(dict.fromkeys(errors)), tuple(dict.fromkeys(notices)))

    async def _one(self, candidate: Candidate) -> tuple[Refusal | None, str]:
        trial = candidate.prepare()
        if trial is None:
            return None, ""
        found = await self._asked(candidate.identity, trial)
        if found[0] is not None and found[0].passing:
            await asyncio.sleep(AGAIN_SECONDS)
            found = await self._asked(candidate.identity, trial)
        return found

    async def _asked(self, identity: bytes, trial: Trial) -> tuple[Refusal | None, str]:
        failure = await self._answer(identity, trial)
        if failure is None:
            return None, ""
        if isinstance(failure, _OUTAGES):
            if "webhook" not in str(failure):
                raise failure
            return None, _not_now(trial, failure)
        refusal = refusal_of(trial, failure)
        return refusal, "" if refusal is not None else _not_now(trial, failure)

    async def _answer(self, identity: bytes, trial: Trial) -> ApiError | None:
        """The API server's answer to this pod, or to the same pod of a set that came a moment before."""
        asking = self._asking.get(identity)
        if asking is None:
            asking = asyncio.create_task(self._ask(identity, trial), name="dry run")
            self._asking[identity] = asking
            asking.add_done_callback(lambda _: self._asking.pop(identity, None))
        # Others may wait for the same answer: a request that is given up does not take it from them.
        return await asyncio.shield(asking)

    async def _ask(self, identity: bytes, trial: Trial) -> ApiError | None:
        try:
            async with asyncio.timeout(LIMIT_SECONDS), self._slots:
                await self._client.create(kinds.PODS, trial.pod, dry_run=True, strict=True)
        except TimeoutError:
            return Unreachable(f"no answer within {LIMIT_SECONDS:g} s")
        except ApiError as failure:
            return failure
        self._remember(identity)
        return None

    def _is_accepted(self, identity: bytes) -> bool:
        until = self._accepted.get(identity)
        return until is not None and asyncio.get_running_loop().time() < until

    def _remember(self, identity: bytes) -> None:
        self._accepted[identity] = asyncio.get_running_loop().time() + REMEMBERED_SECONDS
        self._accepted.move_to_end(identity)
        while len(self._accepted) > REMEMBERED_MOST:
            self._accepted.popitem(last=False)


def _not_now(trial: Trial, failure: ApiError) -> str:
    """That pods would be refused by something else than validation: a quota, a policy, another webhook."""
    return f"{trial.path}: pods cannot be created now: {failure}"
