"""Merges new conditions into those that an object already has. Pure."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Protocol

from grove.meta import Condition, Manifest, ObjectMeta, condition_manifest


class _Status(Protocol):
    @property
    def conditions(self) -> Sequence[Condition]: ...


class Reporting(Protocol):
    """An object whose status has conditions."""

    @property
    def metadata(self) -> ObjectMeta: ...
    @property
    def status(self) -> _Status: ...


def timestamp(moment: datetime) -> str:
    """A moment as Kubernetes writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def merged(
    about: Reporting, updates: Iterable[Condition], *, now: datetime, drop: Collection[str] = ()
) -> list[Manifest]:
    """The condition list to write: updates replace their type, other writers' conditions stay.

    A transition time moves only when the status does, and back to now when it lies ahead: a clock was wrong
    when it was written, and what is counted from it would not end. `drop` names types that no longer have
    anything to say.
    """
    stamp = timestamp(now)
    before = {
        condition.type: condition for condition in about.status.conditions if condition.type not in drop
    }
    for update in updates:
        old = before.get(update.type)
        since = old.last_transition_time if old is not None and old.status == update.status else None
        if since and since > stamp:
            since = None
        before[update.type] = Condition(
            type=update.type,
            status=update.status,
            reason=update.reason,
            message=update.message,
            last_transition_time=since or stamp,
            observed_generation=about.metadata.generation,
        )
    return [condition_manifest(condition) for condition in before.values()]
