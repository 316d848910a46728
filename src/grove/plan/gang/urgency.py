"""How soon the status of a gang must be written. Pure."""

from grove.api import conditions
from grove.api.gang import PodGang
from grove.backends.base import Reading, Verdict
from grove.meta import find_condition
from grove.plan.urgency import Urgency


def urgency(gang: PodGang, reading: Reading, *, blocks: bool, troubled: bool) -> Urgency:
    """How soon to write; `blocks`: gates, a restart or a retry wait for it, `troubled`: pods are missing."""
    if blocks:
        return Urgency.IMMEDIATE
    if troubled or (reading.verdict is Verdict.UNSCHEDULABLE and is_news(gang, reading)):
        return Urgency.SOON
    before = find_condition(gang.status.conditions, conditions.SCHEDULED)
    if reading.verdict is Verdict.WAITING and not (before is not None and before.is_true):
        return Urgency.DEFERRED
    ready = find_condition(gang.status.conditions, conditions.READY)
    if reading.verdict is Verdict.SCHEDULED and not (ready is not None and ready.is_true):
        return Urgency.STARTING
    return Urgency.SETTLED


def is_news(gang: PodGang, reading: Reading) -> bool:
    """Whether the gang does not give this reason yet."""
    told = find_condition(gang.status.conditions, conditions.SCHEDULED)
    return told is None or told.reason != reading.reason
