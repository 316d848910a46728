"""The init containers of one pod: one after the other, restarted when they fail, sidecars left running.

Knows which container runs, since when, and how the earlier ones ended; reports and requests nothing. What a
container does is its `Part`: it takes a time and ends with a code, as the pod's annotations say, or it is the
program that waits for other pods, which ends when that does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

from grove.embedded.actors import pod_status
from grove.embedded.actors.objects import annotations_of, seconds
from grove.embedded.actors.pod_status import Exit
from grove.embedded.errors import Manifest

PREFIX = "embedded.grove.io/"
FIRST_CRASH_PAUSE = 10
LONGEST_CRASH_PAUSE = 300

#: Starts what a container does if that is more than to pass time; its last words are the result.
Starter = Callable[[Manifest, Manifest], "Coroutine[object, object, str] | None"]


def crash_pause(failures: int) -> int:
    """How long a kubelet waits before it starts a container again that has failed so often before."""
    return int(min(FIRST_CRASH_PAUSE * 2 ** min(failures, 10), LONGEST_CRASH_PAUSE))


@dataclass(slots=True)
class InitContainers:
    """How far the init containers of a pod are; times are those of the event loop."""

    #: How those that are over ended, and since when sidecars run, by name.
    ended: dict[str, Exit] = field(default_factory=dict)
    sidecars: dict[str, str] = field(default_factory=dict)
    begun: float | None = None
    begun_at: str = ""
    failures: int = 0
    last: Exit | None = None
    restart: float | None = None
    task: asyncio.Task[str] | None = None
    #: When the last of them was over.
    finished: float | None = None
    failed: bool = False

    @classmethod
    def of(cls, pod: Manifest) -> InitContainers:
        """As far as the pod's status says: those that are over do not run again after a kubelet's restart."""
        found = cls()
        for status in (pod.get("status") or {}).get("initContainerStatuses") or ():
            state = status.get("state") or {}
            if ended := state.get("terminated"):
                if ended.get("exitCode") == 0:
                    found.ended[status["name"]] = Exit(
                        0, ended.get("startedAt", ""), ended.get("finishedAt", ""), ended.get("message", "")
                    )
            elif (running := state.get("running")) and _is_sidecar(_named(pod, status["name"])):
                found.sidecars[status["name"]] = running.get("startedAt", "")
        return found

    def advance(self, pod: Manifest, now: float, stamp: str, start: Starter) -> float | None:
        """Go on as far as possible; the seconds until something is due, None when a task or nothing is."""
        while (container := self._current(pod)) is not None and not self.failed:
            if self.restart is not None and now < self.restart:
                return self.restart - now
            if self.begun is None:
                self._begin(pod, container, now, stamp, start)
            if _is_sidecar(container):
                self.sidecars[container["name"]] = self.begun_at
                self._next()
                continue
            if (rest := self._rest(pod, container, now)) != 0:
                return rest
            self._end(pod, container, now, stamp)
        if self.finished is None and not self.failed:
            self.finished = now
        return None

    def statuses(self, pod: Manifest) -> list[Manifest]:
        """The statuses of all init containers at this moment."""
        current = self._current(pod)
        return [self._status(each, current) for each in pod["spec"].get("initContainers") or ()]

    def stop(self) -> None:
        """The pod goes: so does what runs in it."""
        if self.task is not None:
            self.task.cancel()

    def _current(self, pod: Manifest) -> Manifest | None:
        over = self.ended.keys() | self.sidecars.keys()
        return next((c for c in pod["spec"].get("initContainers") or () if c["name"] not in over), None)

    def _begin(self, pod: Manifest, container: Manifest, now: float, stamp: str, start: Starter) -> None:
        self.begun, self.begun_at, self.restart = now, stamp, None
        program = start(pod, container)
        if program is not None:
            self.task = asyncio.create_task(program, name=f"{container['name']} of {pod['metadata']['name']}")

    def _rest(self, pod: Manifest, container: Manifest, now: float) -> float | None:
        """How long the container still runs; None for as long as its program does."""
        if self.task is not None:
            return 0 if self.task.done() else None
        assert self.begun is not None
        takes = seconds(annotations_of(pod).get(f"{PREFIX}init.{container['name']}") or "0") or 0.0
        return max(0.0, self.begun + takes - now)

    def _end(self, pod: Manifest, container: Manifest, now: float, stamp: str) -> None:
        name, code, words = container["name"], self._exit_code(pod, container), ""
        if self.task is not None:
            broken = self.task.cancelled() or self.task.exception() is not None
            code, words = (1, "") if broken else (0, self.task.result())
        end = Exit(code, self.begun_at, stamp, words)
        if code == 0:
            self.ended[name] = end
            self._next()
            return
        self.failed = (pod["spec"].get("restartPolicy") or "Always") == "Never"
        self.restart = now + crash_pause(self.failures)
        self.failures, self.last, self.begun, self.task = self.failures + 1, end, None, None

    def _next(self) -> None:
        self.begun, self.restart, self.task, self.last, self.failures = None, None, None, None, 0

    def _exit_code(self, pod: Manifest, container: Manifest) -> int:
        said = annotations_of(pod)
        code = said.get(f"{PREFIX}init-exit-code.{container['name']}") or "0"
        often = said.get(f"{PREFIX}init-fail-count.{container['name']}") or ""
        if often.isdigit() and self.failures >= int(often):
            return 0
        return int(code) if code.lstrip("-").isdigit() else 0

    def _status(self, container: Manifest, current: Manifest | None) -> Manifest:
        name = container["name"]
        if name in self.sidecars:
            state: Manifest = {"running": {"startedAt": self.sidecars[name]}}
            return pod_status.container_status(container, state, ready=True)
        if name in self.ended:
            return pod_status.container_status(container, self.ended[name].as_state(), ready=True)
        if container is not current:
            return pod_status.container_status(container, pod_status.INITIALIZING, ready=False)
        return pod_status.container_status(
            container, self._state(), ready=False, restarts=self.failures, last=self.last
        )

    def _state(self) -> Manifest:
        """The state of the container that is at work, or failed."""
        if self.failed and self.last is not None:
            return self.last.as_state()
        if self.restart is not None:
            return pod_status.crash_loop(crash_pause(self.failures - 1))
        return {"running": {"startedAt": self.begun_at}}


def _is_sidecar(container: Manifest) -> bool:
    return container.get("restartPolicy") == "Always"


def _named(pod: Manifest, name: str) -> Manifest:
    return next((c for c in pod["spec"].get("initContainers") or () if c["name"] == name), {})
