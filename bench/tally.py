"""Counts pods on their way: created, gates open, running, gone. Pure: events and times in, milestones out."""

from enum import StrEnum

from grove.meta import Condition, ObjectMeta, View


class Milestone(StrEnum):
    """What the driver waits for, in the order in which it happens."""

    CREATED = "created"
    OPEN = "gates open"
    RUNNING = "running"
    GONE = "gone"


class Gate(View):
    """A scheduling gate."""

    name: str = ""


class SeenSpec(View):
    """What the driver reads of a pod's spec."""

    scheduling_gates: tuple[Gate, ...] = ()


class SeenStatus(View):
    """What the driver reads of a pod's status."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class SeenPod(View):
    """A pod as the driver sees it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: SeenSpec = SeenSpec()
    status: SeenStatus = SeenStatus()

    @property
    def running(self) -> bool:
        """Running and ready."""
        ready = any(each.type == "Ready" and each.is_true for each in self.status.conditions)
        return ready and self.status.phase == "Running"


class Tally:
    """How far the pods of one run are, and when each milestone was reached by the last of them."""

    def __init__(self, pods: int) -> None:
        self.wanted = pods
        self.reached: dict[Milestone, float] = {}
        self._there: set[str] = set()
        self._open: set[str] = set()
        self._running: set[str] = set()

    def saw(self, pod: SeenPod, *, at: float, deleted: bool = False) -> None:
        """One event of the watch."""
        name = pod.metadata.name
        if deleted:
            for each in (self._there, self._open, self._running):
                each.discard(name)
        else:
            self._there.add(name)
            _put(self._open, name, not pod.spec.scheduling_gates)
            _put(self._running, name, pod.running)
        self._reach(Milestone.CREATED, len(self._there), at)
        self._reach(Milestone.OPEN, len(self._open), at)
        self._reach(Milestone.RUNNING, len(self._running), at)
        if deleted and not self._there and Milestone.CREATED in self.reached:
            self.reached.setdefault(Milestone.GONE, at)

    def _reach(self, milestone: Milestone, count: int, at: float) -> None:
        if count >= self.wanted:
            self.reached.setdefault(milestone, at)

    def __str__(self) -> str:
        return (
            f"{len(self._there)} of {self.wanted} pods exist, {len(self._open)} have their gates open, "
            f"{len(self._running)} are running"
        )


def _put(into: set[str], name: str, belongs: bool) -> None:
    if belongs:
        into.add(name)
    else:
        into.discard(name)
