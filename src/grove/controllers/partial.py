"""Gangs that hold a part of their nodes for too long give them back: see `standstill` for when."""

import logging
from collections.abc import Sequence

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
from grove.meta import find_condition
from grove.plan.changes import Change, Delete
from grove.plan.foreign import is_foreign
from grove.runtime.outcome import DONE, After, Outcome

log = logging.getLogger(__name__)


class PartialGangs:
    """Deletes the pods of a gang that cannot be completed; the gang is then started anew."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self._standstill = Standstill(shell.clock)

    def forget(self, uid: str) -> None:
        """The gang is gone."""
        self._standstill.forget(uid)

    async def give_back(self, seen: Seen, forward: Forward, barrier: Remembers) -> Outcome:
        """Delete what holds nodes of a gang that stands still; answers with when to look again."""
        if is_foreign(seen.gang) or seen.backend is None or was_placed(seen.gang, seen.context):
            self._standstill.forget(seen.gang.uid)
            return DONE
        left, pods, why = self._stuck(seen, seen.backend, forward)
        if not pods:
            self._standstill.forget(seen.gang.uid)
            return DONE
        if left > 0:
            return After(left, "a part of the gang is on nodes")
        self._standstill.forget(seen.gang.uid)
        changes: list[Change] = [Delete(kinds.PODS, pod.key, pod.uid) for pod in pods]
        applied = await self.shell.applier.apply(changes, barrier=barrier, key=seen.gang.key)
        log.info("gang gives its nodes back", extra={"gang": str(seen.gang.key), "why": why})
        self.shell.recorder.send(events.gave_back(seen.gang, why))
        applied.raise_failure()
        return DONE

    def _stuck(self, seen: Seen, backend: Backend, forward: Forward) -> tuple[float, Sequence[Pod], str]:
        """For how long a gang may still hold a part, which pods it gives up then, and why."""
        found = progress(seen.gang, seen.members)
        living = [pod for pod in seen.members if pod.active]
        bound = [pod for pod in living if pod.bound]
        guaranteed = not any(
            loss.property == Capability.GANG and loss.fidelity is not Fidelity.ENFORCED
            for loss in forward.translation.losses
        )
        if bound and not found.complete and guaranteed:
            left = self._standstill.left(seen.gang.uid, (len(bound), seen.context.revision), PARTIAL_SECONDS)
            why = (
                f"{found.sentence}, and nothing changed for {PARTIAL_SECONDS:g} seconds; "
                "its pods are deleted and the gang is started anew"
            )
            return left, bound, why
        held = backend.reserved(seen.gang, seen.pods, seen.context) if offers(backend, Reserving) else 0
        if not held or held >= seen.gang.minimum or bound:
            return 0.0, (), ""
        left = self._standstill.left(seen.gang.uid, (held, seen.context.revision), RESERVED_SECONDS)
        senior = self._senior(seen, backend) if left <= 0 else None
        if left <= 0 and senior is None:
            return RESERVED_SECONDS, living, ""
        why = (
            f"the scheduler holds {held} of {seen.gang.minimum} places for it and also a part of gang "
            f"{senior.key if senior else ''}, which goes first; "
            "its pods are deleted and the gang is started anew"
        )
        return left, living, why

    def _senior(self, seen: Seen, backend: Backend) -> PodGang | None:
        """An older or more urgent gang for which places are held that are not enough."""
        ours = _rank(seen.gang, seen.members)
        for gang in self.shell.cache.store(PodGang):
            if gang.labels.get(labels.SCHEDULER_BACKEND) != backend.name or gang.key == seen.gang.key:
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
