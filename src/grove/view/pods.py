"""The state of a pod and its containers, and what keeps the pod from running. Pure.

The operator's own view of a pod leaves the containers out: it keeps thousands of pods and decides nothing by
them.
"""

from typing import Final

from grove.api.pod import ContainerStatus, Pod, PodStatus
from grove.meta import View
from grove.view.model import Reason

#: The source of what a container is stuck at.
CONTAINER: Final = "container"

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


def phase_of(pod: Pod) -> str:
    """One word for where a pod is on its way."""
    if pod.terminating:
        return "Terminating"
    if pod.spec.scheduling_gates:
        return "Gated"
    if pod.status.phase == "Pending" and pod.bound:
        return "Starting"
    if pod.status.phase == "Running" and not pod.ready:
        return "NotReady"
    return pod.status.phase or "Pending"


def reasons_of_pod(pod: Pod) -> tuple[Reason, ...]:
    """Why a pod does not run: a container that cannot, or a scheduler that does not place it."""
    if pod.terminating:
        return ()
    found = (_stuck_container(pod), _not_placed(pod))
    return tuple(reason for reason in found if reason is not None)


def _stuck_container(pod: Pod) -> Reason | None:
    """The first container that cannot run, init containers first; None if all can, or nobody looked."""
    if not isinstance(pod, ShownPod):
        return None
    for container in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting, ended = container.state.waiting, container.state.terminated
        if waiting is not None and waiting.reason not in _ORDINARY:
            last = container.last_state.terminated if container.last_state is not None else None
            after = f"; it ended with exit code {last.exit_code}" if last is not None else ""
            return _stuck(container, waiting.reason, f"{waiting.message}{after}")
        if ended is not None and ended.exit_code:
            said = f"ended with exit code {ended.exit_code}"
            message = f"{said}: {ended.message}" if ended.message else said
            return _stuck(container, ended.reason or "Error", message)
    return None


def _stuck(container: ShownContainer, reason: str, message: str) -> Reason:
    # Without a message of the container, what is told begins with the separator.
    told = " ".join(message.split()).strip("; ")
    return Reason(f"container {container.name}", told or reason, CONTAINER, reason)


def _not_placed(pod: Pod) -> Reason | None:
    """What the scheduler says; a pod behind a gate has not reached it yet."""
    said = pod.condition("PodScheduled")
    if said is None or said.status != "False" or pod.spec.scheduling_gates:
        return None
    return Reason("not placed", said.message, said.type, said.reason)
