"""Which gangs were preempted and step back until the gang that preempted them is placed.

A pod that is preempted is replaced at once. Its replacement would take the room again before the pod for
which it was made is tried, is preempted again, and so on. So the gates of a preempted gang stay closed for a
while, and for as long as a gang of higher priority waits to be placed, within limits. Kept in memory only: an
operator that restarts lets every gang go on.
"""

from dataclasses import dataclass
from typing import Final

from grove.api import conditions, labels
from grove.api.pod import Pod
from grove.meta import Key
from grove.runtime.clock import Clock
from grove.runtime.outcome import remaining

#: So long in any case: what was made room for may be no gang of ours.
LEAST_SECONDS: Final = 5.0
#: So long at most, while a gang of higher priority waits; doubled each time that it was in vain.
MOST_SECONDS: Final = 60.0
LONGEST_SECONDS: Final = 600.0


@dataclass(slots=True)
class _Preempted:
    since: float
    #: How often the gang was preempted again right after it was let go on.
    again: int = 0


class Preemptions:
    """Remembers which gangs were preempted, and when."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._preempted: dict[Key, _Preempted] = {}
        #: The UIDs of pods that say so and still exist: each counts once.
        self._noted: set[str] = set()

    def saw(self, old: Pod | None, new: Pod | None) -> None:
        """A pod changed; also of one that is gone by now the last state tells that it was preempted."""
        pod = new or old
        if pod is None or not (gang := pod.labels.get(labels.POD_GANG)):
            return
        said, noted = _says_so(pod), pod.uid in self._noted
        if said and not noted:
            self._note(Key(pod.namespace, gang))
        if said and new is not None:
            self._noted.add(pod.uid)
        else:
            self._noted.discard(pod.uid)

    def _note(self, gang: Key) -> None:
        now = self._clock.monotonic()
        known = self._preempted.get(gang)
        if known is None or now - known.since > 2 * self._most(known):
            self._preempted[gang] = _Preempted(now)
        elif now - known.since > LEAST_SECONDS:
            self._preempted[gang] = _Preempted(now, known.again + 1)

    def left(self, gang: Key, *, awaited: bool) -> float:
        """For how many seconds more a gang steps back; `awaited`: one of higher priority waits."""
        known = self._preempted.get(gang)
        if known is None:
            return 0.0
        limit = self._most(known) if awaited else LEAST_SECONDS
        return remaining(known.since + limit, self._clock.monotonic())

    def forget(self, gang: Key) -> None:
        """The gang is gone."""
        self._preempted.pop(gang, None)

    @staticmethod
    def _most(known: _Preempted) -> float:
        return min(LONGEST_SECONDS, MOST_SECONDS * 2.0 ** min(known.again, 10))


def _says_so(pod: Pod) -> bool:
    condition = pod.condition(conditions.DISRUPTION_TARGET)
    return condition is not None and condition.is_true and "reempt" in condition.reason
