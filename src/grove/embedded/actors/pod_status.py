"""What a kubelet reports about a pod: whole `status` patches for each moment of a pod's life. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from grove.embedded.actors.objects import condition
from grove.embedded.errors import Manifest


@dataclass(frozen=True, slots=True)
class Exit:
    """How a container ended."""

    code: int
    started: str
    finished: str

    def as_state(self) -> Manifest:
        reason = "Completed" if self.code == 0 else "Error"
        return {
            "terminated": {
                "exitCode": self.code,
                "reason": reason,
                "startedAt": self.started,
                "finishedAt": self.finished,
            }
        }


def running(
    pod: Manifest,
    now: str,
    *,
    ready: bool,
    address: str,
    host: str,
    restarts: int = 0,
    last: Exit | None = None,
) -> Manifest:
    """All containers run; `ready` is what their probes say."""
    status = pod.get("status") or {}
    start = status.get("startTime") or now
    containers = [
        _container(c, {"running": {"startedAt": now}}, ready=ready, restarts=restarts, last=last)
        for c in pod["spec"].get("containers") or ()
    ]
    patch: Manifest = {
        "phase": "Running",
        "startTime": start,
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "containerStatuses": containers,
        "conditions": [
            _condition(pod, "PodReadyToStartContainers", now, met=True),
            _condition(pod, "Initialized", now, met=True),
            *readiness(pod, now, ready=ready),
        ],
    }
    init = [_init(c, now) for c in pod["spec"].get("initContainers") or ()]
    if init:
        patch["initContainerStatuses"] = init
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
    waiting = {
        "waiting": {
            "reason": "CrashLoopBackOff",
            "message": f"back-off {pause}s restarting failed container",
        }
    }
    containers = [
        _container(c, waiting, ready=False, restarts=restarts, last=end)
        for c in pod["spec"].get("containers") or ()
    ]
    return {"containerStatuses": containers, "conditions": readiness(pod, now, ready=False)}


def ended(pod: Manifest, now: str, *, end: Exit, restarts: int = 0) -> Manifest:
    """The containers ended for good."""
    reason = "PodCompleted" if end.code == 0 else "PodFailed"
    containers = [
        _container(c, end.as_state(), ready=False, restarts=restarts, last=None)
        for c in pod["spec"].get("containers") or ()
    ]
    return {
        "phase": "Succeeded" if end.code == 0 else "Failed",
        "containerStatuses": containers,
        "conditions": readiness(pod, now, ready=False, reason=reason),
    }


def _container(
    container: Manifest, state: Manifest, *, ready: bool, restarts: int, last: Exit | None
) -> Manifest:
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


def _init(container: Manifest, now: str) -> Manifest:
    if container.get("restartPolicy") == "Always":
        return _container(container, {"running": {"startedAt": now}}, ready=True, restarts=0, last=None)
    return _container(container, Exit(0, now, now).as_state(), ready=True, restarts=0, last=None)


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
