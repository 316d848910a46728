"""Opens the gates of a gang: the one place where that happens, for gangs of ours and of others.

The gang decides, because only it sees all of its pods: the minimum opens together, what is above it follows
once the minimum is placed, and a gang that was preempted steps back. The operator opens the gates also of
gangs whose backend has a process of its own: that process writes no pods.
"""

from collections.abc import Sequence

from grove.api import conditions, kinds, labels
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import Backend, Context, StartingOnce, offers
from grove.backends.shape import progress
from grove.controllers import events
from grove.controllers.apply import Remembers, failures_text
from grove.controllers.gang_view import Forward, Seen
from grove.controllers.members import pods_of
from grove.controllers.pacing import STEPPED_BACK_SECONDS
from grove.controllers.partial import PartialGangs
from grove.controllers.shell import Shell
from grove.errors import BackendFailed, GroveError, Terminal, Waiting
from grove.meta import Manifest, find_condition
from grove.plan.changes import Change, JsonPatch
from grove.plan.gates import Opening, gates_of, opening, releasable
from grove.runtime.outcome import DONE, After, Outcome, soonest


class GangGates:
    """Opens gates, and knows which gangs must wait although they are complete."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell

    async def open(
        self, gang: PodGang, seen: Seen, manifests: Sequence[Manifest], barrier: Remembers
    ) -> None:
        """Open the gates that may open now; `gang` is the gang as it is since this look wrote it."""
        if seen.backend is None or not any(
            gates_of(pod, seen.backend.scheduling_gate) for pod in seen.members
        ):
            return
        free = releasable(
            gang,
            seen.members,
            Opening(
                seen.backend.scheduling_gate,
                seen.context.revision,
                in_place=self.shell.scheduling.in_place(gang, manifests, running=seen.running),
                placed=progress(gang, seen.members).complete,
            ),
        )
        if not free or gang.key in self.shell.deleting:
            return
        changes = [self._change(pod, gang, seen.backend, seen.context) for pod in free]
        self.shell.opening.add(gang.key)
        try:
            # A write of this look shows that the gang exists; without one the cache may show what is gone.
            if gang is seen.gang and not await self.shell.liveness.exists(kinds.GANGS, gang):
                return
            applied = await self.shell.applier.apply(changes, barrier=barrier, key=gang.key)
        finally:
            self.shell.opening.discard(gang.key)
        if applied.done:
            self.shell.story.gates_opened(gang, self.shell.clock.now())
        if applied.refusals:
            self.shell.recorder.send(events.gates_stay_closed(gang, failures_text(applied.refusals)))
        applied.raise_failure()

    async def of_another_process(self, seen: Seen, partial: PartialGangs, barrier: Remembers) -> Outcome:
        """The gates and pods of a gang whose objects and status another process writes."""
        if seen.backend is None:
            return DONE
        try:
            translation = seen.backend.translate(seen.gang, seen.context)
        except (Terminal, Waiting):
            return DONE
        except GroveError:
            raise
        except Exception as defect:
            raise BackendFailed(seen.backend.name, defect) from defect
        wait = await partial.give_back(seen, Forward(translation=translation), barrier)
        held = self.held(seen)
        if held is None:
            await self.open(seen.gang, seen, translation.manifests, barrier)
        return soonest(wait, held or DONE)

    def held(self, seen: Seen) -> After | None:
        """For how long a preempted gang steps back; None for a gang that need not."""
        key, preemptions = seen.gang.key, self.shell.preemptions
        if preemptions.left(key, awaited=True) <= 0 or not any(
            pod.spec.scheduling_gates for pod in seen.members
        ):
            return None
        urgent = self._more_urgent(seen)
        left = preemptions.left(key, awaited=urgent is not None)
        if left <= 0:
            return None
        waits = (
            f"until gang {urgent.key}, which has a higher priority, is placed" if urgent else "for a moment"
        )
        # Nobody tells us when the other one is placed.
        return After(min(left, STEPPED_BACK_SECONDS), f"the gang was preempted and waits {waits}")

    def _more_urgent(self, seen: Seen) -> PodGang | None:
        """A gang of the same backend with a higher priority that may be placed and is not."""
        ours, backend = _priority(seen.members), seen.gang.labels.get(labels.SCHEDULER_BACKEND)
        for gang in self.shell.cache.store(PodGang):
            if gang.labels.get(labels.SCHEDULER_BACKEND) != backend or gang.key == seen.gang.key:
                continue
            scheduled = find_condition(gang.status.conditions, conditions.SCHEDULED)
            if gang.terminating or (scheduled is not None and scheduled.is_true):
                continue
            waiting = [
                pod
                for pod in pods_of(self.shell.cache, gang)
                if pod.active and not pod.bound and not pod.spec.scheduling_gates
            ]
            if waiting and _priority(waiting) > ours:
                return gang
        return None

    def _change(self, pod: Pod, gang: PodGang, backend: Backend, context: Context) -> Change:
        gate = backend.scheduling_gate
        if not offers(backend, StartingOnce):
            return JsonPatch(kinds.PODS, pod.key, opening(pod, gate), uid=pod.uid)
        marks = backend.renewed(pod, gang, context, self.shell.clock.now())
        operations = opening(pod, gate, labels=marks.labels, annotations=marks.annotations)
        return JsonPatch(kinds.PODS, pod.key, operations, uid=pod.uid)


def _priority(pods: Sequence[Pod]) -> int:
    return max((pod.spec.priority or 0 for pod in pods), default=0)
