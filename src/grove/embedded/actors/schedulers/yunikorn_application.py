"""One application as YuniKorn remembers it: who started it, what it reserves, how far it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

from grove.embedded.actors.objects import annotations_of
from grove.embedded.actors.schedulers.yunikorn_rules import TASK_GROUP, TaskGroup
from grove.embedded.errors import Manifest


class State(Enum):
    RESERVING = auto()
    """Only placeholders are placed."""
    RUNNING = auto()
    """Only real pods are placed, in the places of placeholders while there are any."""
    FAILED = auto()
    """Nothing is placed any more."""


@dataclass(slots=True)
class Application:
    name: str
    originator: Manifest
    groups: tuple[TaskGroup, ...]
    queue: str
    rank: int
    deadline: float
    """When the places are given back, in seconds since the epoch."""
    hard: bool = False
    state: State = State.RUNNING
    armed: bool = False
    """Whether the time runs: from the first placeholder that has a node."""
    expired: bool = False
    path: str = ""
    """The full path of the queue that it was placed in."""
    beyond_share: set[str] = field(default_factory=set)
    """UIDs of the pods of which was said that the queue has no share left for them."""

    def by_group(self, pods: Iterable[Manifest]) -> dict[str, list[Manifest]]:
        found: dict[str, list[Manifest]] = {}
        for pod in pods:
            found.setdefault(annotations_of(pod).get(TASK_GROUP) or "", []).append(pod)
        return found

    def give_up_gang(self) -> None:
        """From now on an ordinary application."""
        self.groups = ()
        self.state = State.RUNNING
