"""Whether pods are being placed and getting ready in numbers right now.

While they do, a gang that still waits for its turn is no news: what can be said about it will be said again,
and better, in a moment.
"""

from collections import deque

from grove.api.pod import Pod
from grove.runtime.clock import Clock

#: So many steps of pods within so many seconds count as a flow.
FLOW_STEPS = 16
FLOW_SECONDS = 2.0


class Flow:
    """Remembers when the last few pods got further."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._steps: deque[float] = deque(maxlen=FLOW_STEPS)

    def saw(self, old: Pod | None, new: Pod | None) -> None:
        """A pod changed; to be subscribed to the pods' informer."""
        if old is not None and new is not None and (old.bound, old.ready) != (new.bound, new.ready):
            self._steps.append(self._clock.monotonic())

    @property
    def moves(self) -> bool:
        """Whether pods get further as we speak."""
        return len(self._steps) == FLOW_STEPS and self._clock.monotonic() - self._steps[0] <= FLOW_SECONDS
