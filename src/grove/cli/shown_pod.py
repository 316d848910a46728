"""A pod as `grove tree` shows it: with what keeps its containers from running. Pure.

The operator's own view leaves this out: it keeps thousands of pods and decides nothing by it.
"""

from typing import Final, NamedTuple

from grove.api.pod import ContainerStatus, Pod, PodStatus
from grove.meta import View

#: What a container waits for while all is well.
_ORDINARY: Final = frozenset({"", "ContainerCreating", "PodInitializing"})


class Waiting(View):
    reason: str = ""
    message: str = ""


class Ended(View):
    exit_code: int = 0
    reason: str = ""
    message: str = ""


class State(View):
    waiting: Waiting | None = None
    terminated: Ended | None = None


class ShownContainer(ContainerStatus):
    name: str = ""
    state: State = State()
    restart_count: int = 0


class ShownStatus(PodStatus):
    container_statuses: tuple[ShownContainer, ...] = ()
    init_container_statuses: tuple[ShownContainer, ...] = ()


class ShownPod(Pod):
    """A pod with the states of its containers."""

    status: ShownStatus = ShownStatus()


class Trouble(NamedTuple):
    """What keeps a container from running: Kubernetes' word for it, and a sentence."""

    reason: str
    sentence: str


def trouble_of(pod: Pod) -> Trouble | None:
    """The first container that cannot run, init containers first; None if none is in trouble."""
    if not isinstance(pod, ShownPod):
        return None
    for container in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting, ended = container.state.waiting, container.state.terminated
        if waiting is not None and waiting.reason not in _ORDINARY:
            last = container.last_state.terminated if container.last_state is not None else None
            after = f"; it ended with exit code {last.exit_code}" if last is not None else ""
            return _trouble(container, waiting.reason, f"{waiting.message}{after}")
        if ended is not None and ended.exit_code:
            said = f"ended with exit code {ended.exit_code}"
            return _trouble(
                container, ended.reason or "Error", f"{said}: {ended.message}" if ended.message else said
            )
    return None


def _trouble(container: ShownContainer, reason: str, words: str) -> Trouble:
    told = " ".join(words.split()).strip("; ")
    return Trouble(reason, f"container {container.name}: {told or reason}")
