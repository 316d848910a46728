"""Tries each pod template of a set by one dry run, so that a wrong one is refused before pods fail.

One request for each role and template, when the set is first seen or its template changes; what was accepted
once is not asked again, also after a restart: the set's status says so. An outage decides nothing.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from grove.admission.templates import Refusal, Trial, Trying, refusal_of
from grove.api import conditions, kinds
from grove.api.cliqueset import PodCliqueSet
from grove.api.topology import ClusterTopologyBinding
from grove.backends.base import Backend, Context
from grove.errors import ApiError, FieldError, ServerError, TooManyRequests, Unauthorized, Unreachable
from grove.kube.client import Client
from grove.meta import Key, find_condition
from grove.plan.hashing import generation_hash, template_hash
from grove.runtime.clock import Clock
from grove.runtime.slots import Slots

log = logging.getLogger(__name__)

#: When a template is tried again that names an object which does not exist yet.
AGAIN_SECONDS: Final = 5.0

#: A role: its place in the set, its name and the hash of its template.
_Role = tuple[int, str, str]

#: A set as it was tried: its UID, its generation and its backend.
_Version = tuple[str, int, str]

_OUTAGES: Final = (ServerError, TooManyRequests, Unauthorized, Unreachable)


@dataclass(frozen=True, slots=True)
class Tried:
    """What the trials of a set's templates found; `again` is when to try those that may pass later."""

    errors: tuple[FieldError, ...] = ()
    again: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of one set: for which version of it, and what each role was answered."""

    version: _Version
    refusals: Mapping[_Role, Refusal | None]
    tried: Tried = field(default_factory=Tried)


class Trials:
    """The templates that were tried, by set."""

    def __init__(self, client: Client, clock: Clock, slots: Slots) -> None:
        self._client = client
        self._clock = clock
        #: Shared with what is written: a set in one namespace must not keep another's from being tried.
        self._slots = slots
        self._known: dict[Key, _Known] = {}

    def forget(self, key: Key) -> None:
        """The set is gone."""
        self._known.pop(key, None)

    async def tried(
        self,
        cliqueset: PodCliqueSet,
        backend: Backend,
        context: Context,
        binding: ClusterTopologyBinding | None,
    ) -> Tried:
        """What the API server says to the set's templates; raises an outage, which says nothing."""
        version = (cliqueset.uid, cliqueset.metadata.generation, backend.name)
        known = self._known.get(cliqueset.key)
        if known is not None and known.version == version and not self._is_due(known.tried):
            return known.tried
        refusals = self._still_known(known, version)
        roles = _roles(cliqueset)
        if already_accepted(cliqueset):
            refusals |= dict.fromkeys(roles)
        trying = Trying(cliqueset, backend, context, binding)
        prepared = [trying.possible(index) for index, role in enumerate(roles) if role not in refusals]
        trials = [trial for trial in prepared if trial is not None]
        for trial, refusal in zip(trials, await self._ask(trials), strict=True):
            refusals[roles[trial.index]] = refusal
        return self._remember(cliqueset, version, {role: refusals.get(role) for role in roles})

    def _is_due(self, tried: Tried) -> bool:
        return tried.again is not None and self._clock.now() >= tried.again

    def _still_known(self, known: _Known | None, version: _Version) -> dict[_Role, Refusal | None]:
        """What was found before, of the same set by the same backend, and need not be asked again."""
        if known is None or (known.version[0], known.version[2]) != (version[0], version[2]):
            return {}
        return {
            role: refusal
            for role, refusal in known.refusals.items()
            if refusal is None or not refusal.passing
        }

    async def _ask(self, trials: Sequence[Trial]) -> list[Refusal | None]:
        return await asyncio.gather(*map(self._one, trials))

    async def _one(self, trial: Trial) -> Refusal | None:
        try:
            async with self._slots.of(trial.cliqueset.namespace):
                await self._client.create(kinds.PODS, trial.pod, dry_run=True, strict=True)
        except _OUTAGES as failure:
            if "webhook" not in str(failure):
                raise
            # A webhook that does not answer keeps pods from being created, and they will say so.
        except ApiError as failure:
            refusal = refusal_of(trial, failure)
            if refusal is None:
                log.debug(
                    "dry run of a pod template failed for another reason",
                    extra={"role": trial.path, "error": str(failure)},
                )
            return refusal
        return None

    def _remember(
        self, cliqueset: PodCliqueSet, version: _Version, refusals: Mapping[_Role, Refusal | None]
    ) -> Tried:
        found = [refusal for refusal in refusals.values() if refusal is not None]
        passing = any(refusal.passing for refusal in found)
        again = self._clock.now() + timedelta(seconds=AGAIN_SECONDS) if passing else None
        tried = Tried(tuple(dict.fromkeys(error for each in found for error in each.errors)), again)
        self._known[cliqueset.key] = _Known(version, refusals, tried)
        return tried


def _roles(cliqueset: PodCliqueSet) -> list[_Role]:
    priority = cliqueset.template.priority_class_name
    return [
        (index, each.name, template_hash(each, priority_class=priority))
        for index, each in enumerate(cliqueset.template.cliques)
    ]


def already_accepted(cliqueset: PodCliqueSet) -> bool:
    """Whether the set's status says that these very templates were accepted."""
    template, status = cliqueset.template, cliqueset.status
    accepted = find_condition(status.conditions, conditions.ACCEPTED)
    if accepted is None or not accepted.is_true:
        return False
    if status.observed_generation == cliqueset.metadata.generation:
        # Another priority class makes other pods, and no other template that the status could tell of.
        return True
    present = generation_hash(template.cliques, priority_class=template.priority_class_name)
    return status.current_generation_hash == present
