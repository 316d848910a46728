"""What a kubelet reports about a pod: whole `status` patches for each moment of a pod's life. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grove.embedded.actors.objects import condition
from grove.embedded.errors import Manifest


@dataclass(frozen=True, slots=True)
class Exit:
    """How a container ended."""

    code: int
    started: str
    finished: str
    message: str = ""
    """What it left in its termination message."""

    def as_state(self) -> Manifest:
        ended: Manifest = {
            "exitCode": self.code,
            "reason": "Completed" if self.code == 0 else "Error",
            "startedAt": self.started,
            "finishedAt": self.finished,
        }
        if self.message:
            ended["message"] = self.message
        return {"terminated": ended}


INITIALIZING: Manifest = {"waiting": {"reason": "PodInitializing"}}


def crash_loop(pause: int) -> Manifest:
    """The state of a container that failed and will be started again."""
    message = f"back-off {pause}s restarting failed container"
    return {"waiting": {"reason": "CrashLoopBackOff", "message": message}}


def initializing(
    pod: Manifest, now: str, init: Sequence[Manifest], *, address: str, host: str, failed: bool = False
) -> Manifest:
    """Init containers are at work, or one of them `failed` for good; the others wait for them."""
    incomplete = " ".join(each["name"] for each in init if not each["ready"])
    unready = readiness(pod, now, ready=False, reason="PodFailed" if failed else "ContainersNotReady")
    return {
        "phase": "Failed" if failed else "Pending",
        **_place(pod, now, address, host),
        "initContainerStatuses": list(init),
        "containerStatuses": [
            container_status(c, INITIALIZING, ready=False) for c in pod["spec"].get("containers") or ()
        ],
        "conditions": [
            _condition(pod, "PodReadyToStartContainers", now, met=True),
            _condition(
                pod,
                "Initialized",
                now,
                met=not incomplete,
                reason="ContainersNotInitialized",
                message=f"containers with incomplete status: [{incomplete}]",
            ),
            *unready,
        ],
    }


def _place(pod: Manifest, now: str, address: str, host: str) -> Manifest:
    """Where the pod is, and since when."""
    return {
        "startTime": (pod.get("status") or {}).get("startTime") or now,
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": address,
        "podIPs": [{"ip": address}],
    }


def running(
    pod: Manifest,
    now: str,
    *,
    ready: bool,
    address: str,
    host: str,
    init: Sequence[Manifest] = (),
    restarts: int = 0,
    last: Exit | None = None,
) -> Manifest:
    """All containers run; `ready` is what their probes say."""
    containers = [
        container_status(c, {"running": {"startedAt": now}}, ready=ready, restarts=restarts, last=last)
        for c in pod["spec"].get("containers") or ()
    ]
    patch: Manifest = {
        "phase": "Running",
        **_place(pod, now, address, host),
        "containerStatuses": containers,
        "conditions": [
            _condition(pod, "PodReadyToStartContainers", now, met=True),
            _condition(pod, "Initialized", now, met=True),
            *readiness(pod, now, ready=ready),
        ],
    }
    if init:
        patch["initContainerStatuses"] = list(init)
    return patch


def readiness(pod: Manifest, now: str, *, ready: bool, reason: str = "ContainersNotReady") -> list[Manifest]:
    """The two conditions that say whether the pod serves."""
    names = " ".join(c["name"] for c in pod["spec"].get("containers") or ())
    text = f"containers with unready status: [{names}]"
    contained = _condition(pod, "ContainersReady", now, met=ready, reason=reason, message=text)
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or ()]
    closed = [gate for gate in gates if condition(pod, gate).get("status") != "True"]
    if ready and closed:
        text = f'corresponding condition of pod readiness gate "{closed[0]}" does not exist.'
        return [
            contained,
            _condition(pod, "Ready", now, met=False, reason="ReadinessGatesNotReady", message=text),
        ]
    return [contained, _condition(pod, "Ready", now, met=ready, reason=reason, message=text)]


def with_readiness(pod: Manifest, now: str, *, ready: bool) -> Manifest:
    """The running containers change what their probes say."""
    statuses = [{**c, "ready": ready} for c in (pod.get("status") or {}).get("containerStatuses") or ()]
    return {"containerStatuses": statuses, "conditions": readiness(pod, now, ready=ready)}


def crashed(pod: Manifest, now: str, *, end: Exit, restarts: int, pause: int) -> Manifest:
    """The containers ended and will be started again after a pause."""
    containers = [
        container_status(c, crash_loop(pause), ready=False, restarts=restarts, last=end)
        for c in pod["spec"].get("containers") or ()
    ]
    return {"containerStatuses": containers, "conditions": readiness(pod, now, ready=False)}


def ended(pod: Manifest, now: str, *, end: Exit, restarts: int = 0) -> Manifest:
    """The containers ended for good."""
    reason = "PodCompleted" if end.code == 0 else "PodFailed"
    containers = [
        container_status(c, end.as_state(), ready=False, restarts=restarts, last=None)
        for c in pod["spec"].get("containers") or ()
    ]
    return {
        "phase": "Succeeded" if end.code == 0 else "Failed",
        "containerStatuses": containers,
        "conditions": readiness(pod, now, ready=False, reason=reason),
    }


def container_status(
    container: Manifest, state: Manifest, *, ready: bool, restarts: int = 0, last: Exit | None = None
) -> Manifest:
    """The status of one container."""
    image = container.get("image") or ""
    return {
        "name": container["name"],
        "image": image,
        "imageID": f"embedded://{image}",
        "containerID": f"embedded://{container['name']}/{restarts}",
        "ready": ready,
        "started": "running" in state,
        "restartCount": restarts,
        "state": state,
        "lastState": last.as_state() if last else {},
    }


def _condition(
    pod: Manifest, kind: str, now: str, *, met: bool, reason: str = "", message: str = ""
) -> Manifest:
    status = "True" if met else "False"
    found = condition(pod, kind)
    since = found.get("lastTransitionTime") if found.get("status") == status else None
    fresh: Manifest = {"type": kind, "status": status, "lastTransitionTime": since or now}
    # A strategic merge keeps what is not mentioned: an old reason must be taken away explicitly.
    if met:
        return {**fresh, "reason": None, "message": None} if found.get("reason") else fresh
    return {**fresh, "reason": reason, "message": message}
