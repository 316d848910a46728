"""Merges new conditions into those that an object already has. Pure."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Final, Protocol

from grove.meta import Condition, Manifest, ObjectMeta, condition_manifest

_LAST_YEAR: Final = 9000


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


def moment(text: str | None) -> datetime | None:
    """The moment that a status names; None for what nobody can reckon with, whoever wrote it.

    The API server takes years from 0 to 9999. The first cannot be read, and no delay be added to the last.
    """
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo is not None and 1 < found.year < _LAST_YEAR else None


def merged(
    about: Reporting, updates: Iterable[Condition], *, now: datetime, drop: Collection[str] = ()
) -> list[Manifest]:
    """The condition list to write: updates replace their type, other writers' conditions stay.

    A transition time moves only when the status does, and to now when it cannot be read or lies ahead: a
    clock was wrong when it was written, and what is counted from it would not end. `drop` names types that no
    longer have anything to say.
    """
    stamp = timestamp(now)
    before = {
        condition.type: condition for condition in about.status.conditions if condition.type not in drop
    }
    for update in updates:
        old = before.get(update.type)
        since = old.last_transition_time if old is not None and old.status == update.status else None
        if since and (since > stamp or moment(since) is None):
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
