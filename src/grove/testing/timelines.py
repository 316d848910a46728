"""What held when, and how objects were: what guards judge by, for an operator may see the world late.

A guard asks whether something held at some moment within the time by which the operator may be late, or at
every one. Remembers; never judges.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from grove.meta import Manifest, Resource


@dataclass(slots=True)
class Timeline:
    """Whether something held, over time; before anything was noted it did not."""

    _changes: list[tuple[datetime, bool]] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return bool(self._changes) and self._changes[-1][1]

    @property
    def mark(self) -> int:
        """How often it has changed: a finer clock than the time, in which much happens in one moment."""
        return len(self._changes)

    def note(self, at: datetime, holds: bool) -> None:
        if holds is not self.holds:
            self._changes.append((at, holds))

    def held_since(self, since: datetime) -> bool:
        """Whether it has held at every moment since then."""
        return self.holds and self._changes[-1][0] <= since

    def lacked_since(self, since: datetime) -> bool:
        """Whether it has held at no moment since then."""
        return not self.holds and (not self._changes or self._changes[-1][0] <= since)

    def held_after(self, mark: int) -> bool:
        """Whether it holds, or held at some moment after a mark."""
        return self.holds or any(holds for _, holds in self._changes[mark:])

    def began(self, at: datetime, gap: timedelta) -> datetime | None:
        """Since when it held at a time, pauses up to the gap left out; None if it had not for longer."""
        first, later = None, at
        for index in range(len(self._changes) - 1, -1, -1):
            start, holds = self._changes[index]
            if start > at or not holds:
                continue
            end = self._changes[index + 1][0] if index + 1 < len(self._changes) else at
            if later - min(end, at) > gap:
                break
            first = later = start
        return first


class Timelines(defaultdict[tuple[str, ...], Timeline]):
    """A timeline for each thing that somebody asked for or noted."""

    def __init__(self) -> None:
        super().__init__(Timeline)


@dataclass(slots=True)
class Past:
    """How objects were, and since when; None since they are gone."""

    _states: dict[tuple[Resource, str, str], list[tuple[datetime, Manifest | None]]] = field(
        default_factory=dict
    )

    def note(self, at: datetime, kind: Resource, obj: Manifest, *, gone: bool) -> None:
        metadata = obj["metadata"]
        states = self._states.setdefault((kind, metadata["namespace"], metadata["name"]), [])
        states.append((at, None if gone else obj))

    def since(self, when: datetime, kind: Resource, namespace: str, name: str) -> list[Manifest | None]:
        """Every state of an object that was the present one at some moment since then."""
        states = self._states.get((kind, namespace, name), [])
        first = max((at for at, (noted, _) in enumerate(states) if noted <= when), default=0)
        return [state for _, state in states[first:]]
