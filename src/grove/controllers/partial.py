"""Gangs that hold a part of their nodes for too long give them back: see `standstill` for when."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from grove.api import conditions, kinds, labels
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.api.revision import effective_revision
from grove.backends.base import Backend, Capability, Fidelity, Reserving, offers
from grove.backends.shape import progress, was_placed
from grove.controllers import events
from grove.controllers.apply import Remembers
from grove.controllers.gang_view import Forward, Seen
from grove.controllers.members import pods_of
from grove.controllers.shell import Shell
from grove.controllers.standstill import PARTIAL_SECONDS, RESERVED_SECONDS, Standstill
from grove.meta import Key, find_condition
from grove.plan.changes import Change, Delete
from grove.plan.foreign import is_foreign
from grove.runtime.outcome import DONE, After, Outcome

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stuck:
    """A gang that holds a part of its nodes: for how long it may, which pods it then gives up, and why."""

    left: float
    pods: Sequence[Pod]
    why: str = ""


class PartialGangs:
    """Deletes the pods of a gang that cannot be completed; the gang is then started anew."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self._standstill = Standstill(shell.clock)
        #: By gang, the revision for which its scheduler has held places.
        self._reservations: dict[Key, str] = {}

    def forget(self, gang: Key) -> None:
        """The gang is gone, or goes on."""
        self._standstill.forget(gang)
        self._reservations.pop(gang, None)

    async def give_back(self, seen: Seen, forward: Forward, barrier: Remembers) -> Outcome:
        """Delete what holds nodes of a gang that stands still; answers with when to look again."""
        if is_foreign(seen.gang) or seen.backend is None or was_placed(seen.gang, seen.context):
            self.forget(seen.gang.key)
            return DONE
        stuck = self._stuck(seen, seen.backend, forward)
        if stuck is None:
            self._standstill.forget(seen.gang.key)
            return DONE
        if stuck.left > 0:
            return After(stuck.left, "a part of the gang is on nodes")
        self.forget(seen.gang.key)
        changes: list[Change] = [Delete(kinds.PODS, pod.key, pod.uid) for pod in stuck.pods]
        applied = await self.shell.applier.apply(changes, barrier=barrier, key=seen.gang.key)
        log.info("gang gives its nodes back", extra={"gang": str(seen.gang.key), "why": stuck.why})
        self.shell.recorder.send(events.gave_back(seen.gang, stuck.why))
        applied.raise_failure()
        return DONE

    def _stuck(self, seen: Seen, backend: Backend, forward: Forward) -> Stuck | None:
        """For how long a gang may still hold a part of its nodes; None for one that does not."""
        found = progress(seen.gang, seen.members)
        living = [pod for pod in seen.members if pod.active]
        bound = [pod for pod in living if pod.bound]
        guaranteed = not any(
            loss.property == Capability.GANG and loss.fidelity is not Fidelity.ENFORCED
            for loss in forward.translation.losses
        )
        if bound and not found.complete and guaranteed:
            left = self._standstill.left(seen.gang.key, (len(bound), seen.context.revision), PARTIAL_SECONDS)
            return Stuck(
                left, bound, f"{found.sentence}, and nothing changed for {PARTIAL_SECONDS:g} seconds"
            )
        if bound or not offers(backend, Reserving):
            return None
        return self._reserved(seen, backend, living)

    def _reserved(self, seen: Seen, backend: Reserving, living: Sequence[Pod]) -> Stuck | None:
        """The same for a gang of which no pod is on a node yet, but for which places are held."""
        gang, revision = seen.gang, seen.context.revision
        held = backend.reserved(gang, seen.pods, seen.context)
        if held:
            self._reservations[gang.key] = revision
        elif self._reservations.get(gang.key) != revision:
            return None
        if held >= gang.minimum:
            return None
        left = self._standstill.left(gang.key, (held, revision), RESERVED_SECONDS)
        if not held:
            return Stuck(left, living, "the places that the scheduler held for it are gone")
        senior = self._senior(seen) if left <= 0 else None
        if left <= 0 and senior is None:
            return Stuck(RESERVED_SECONDS, living)
        other = f" and also a part for gang {senior.key}, which goes first" if senior else ""
        return Stuck(left, living, f"the scheduler holds {held} of {gang.minimum} places for it{other}")

    def _senior(self, seen: Seen) -> PodGang | None:
        """An older or more urgent gang for which places are held that are not enough."""
        ours, backend = _rank(seen.gang, seen.members), seen.backend
        for gang in self.shell.cache.store(PodGang):
            if backend is None or gang.labels.get(labels.SCHEDULER_BACKEND) != backend.name:
                continue
            scheduled = find_condition(gang.status.conditions, conditions.SCHEDULED)
            if gang.terminating or (scheduled is not None and scheduled.is_true):
                continue
            if self._holds_a_part(gang, backend) and _rank(gang, pods_of(self.shell.cache, gang)) < ours:
                return gang
        return None

    def _holds_a_part(self, gang: PodGang, backend: Backend) -> bool:
        pods = pods_of(self.shell.cache, gang)
        context = self.shell.scheduling.context(backend, revision=effective_revision(gang, pods))
        return offers(backend, Reserving) and 0 < backend.reserved(gang, pods, context) < gang.minimum


def _rank(gang: PodGang, pods: Sequence[Pod]) -> tuple[int, str, str]:
    """Sorts the gang that goes first to the front: the more urgent, then the older one."""
    priority = max((pod.spec.priority or 0 for pod in pods), default=0)
    return -priority, gang.metadata.creation_timestamp, str(gang.key)
