"""When a preempted gang keeps its gates closed for what it made room for. Pure.

For how long it may is remembered by `controllers.memory.preemptions` and arrives as a value.
"""

from grove.api.gang import PodGang
from grove.plan.gang.state import GangState, Wait, highest_priority


def step_back(view: GangState) -> Wait | None:
    """For how long a preempted gang steps back, and for whom; None for a gang that need not."""
    if view.step_back.most <= 0 or not any(pod.spec.scheduling_gates for pod in view.members):
        return None
    urgent = _more_urgent(view)
    left = view.step_back.most if urgent is not None else view.step_back.least
    if left <= 0:
        return None
    waits = f"until gang {urgent.key}, which has a higher priority, is placed" if urgent else "for a moment"
    return Wait(left, f"the gang was preempted and waits {waits}")


def _more_urgent(view: GangState) -> PodGang | None:
    """A gang of higher priority that may be placed and is not."""
    ours = highest_priority(view.members)
    for other in view.others:
        waiting = [
            pod for pod in other.pods if pod.active and not pod.bound and not pod.spec.scheduling_gates
        ]
        if waiting and highest_priority(waiting) > ours:
            return other.gang
    return None
