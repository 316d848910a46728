"""What was asked of the server: every request, and counters to assert on ("writes per pod").

Remembers; never judges. The log is bounded so that a long run does not grow without end.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

WRITES = frozenset({"create", "update", "patch", "apply", "delete", "deletecollection"})
KEPT = 200_000


@dataclass(frozen=True, slots=True)
class Logged:
    """One answered request."""

    method: str
    path: str
    verb: str
    """get, list, watch, create, update, patch, apply, delete, deletecollection; empty for anything else."""
    resource: str
    """plural.group, with `/subresource` when there is one."""
    user: str
    agent: str
    status: int
    revision: int
    """The store's revision when the request was answered."""
    dry_run: bool = False
    """It asked what would happen; nothing was to be stored."""

    @property
    def is_write(self) -> bool:
        return self.verb in WRITES and not self.dry_run


class RequestLog:
    def __init__(self, kept: int = KEPT) -> None:
        self._entries: deque[Logged] = deque(maxlen=kept)
        self._counts: Counter[tuple[str, str, str, bool, bool]] = Counter()
        #: Called with every request once it is answered.
        self.listeners: list[Callable[[Logged], None]] = []

    def add(self, entry: Logged) -> None:
        self._entries.append(entry)
        for listener in self.listeners:
            listener(entry)
        self._counts[entry.verb, entry.resource, entry.user, entry.status < 400, entry.is_write] += 1

    def __iter__(self) -> Iterator[Logged]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        self._entries.clear()
        self._counts.clear()

    def count(
        self,
        *,
        verb: str = "",
        resource: str = "",
        user: str = "",
        writes: bool = False,
        failed: bool | None = None,
    ) -> int:
        """How many requests match; an empty value matches everything."""
        total = 0
        for (asked, what, who, succeeded, wrote), number in self._counts.items():
            if (verb and verb != asked) or (resource and resource != what) or (user and user != who):
                continue
            if (writes and not wrote) or (failed is not None and failed is succeeded):
                continue
            total += number
        return total
