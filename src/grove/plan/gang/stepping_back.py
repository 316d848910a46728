"""When a preempted gang keeps its gates closed for what it made room for. Pure.

For how long it may is remembered by `controllers.memory.preemptions` and arrives as a value.
"""

from grove.api.gang import PodGang
from grove.plan.gang.state import GangState, Wait, highest_priority


def step_back(state: GangState) -> Wait | None:
    """For how long a preempted gang steps back, and for whom; None for a gang that need not."""
    if state.step_back.most <= 0 or not any(pod.spec.scheduling_gates for pod in state.members):
        return None
    urgent = _more_urgent(state)
    left = state.step_back.most if urgent is not None else state.step_back.least
    if left <= 0:
        return None
    waits = f"until gang {urgent.key}, which has a higher priority, is placed" if urgent else "for a moment"
    return Wait(left, f"the gang was preempted and waits {waits}")


def _more_urgent(state: GangState) -> PodGang | None:
    """A gang of higher priority that may be placed and is not."""
    ours = highest_priority(state.members)
    for other in state.others:
        waiting = [
            pod for pod in other.pods if pod.active and not pod.bound and not pod.spec.scheduling_gates
        ]
        if waiting and highest_priority(waiting) > ours:
            return other.gang
    return None
