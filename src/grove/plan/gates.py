"""Decide which pods of one clique may leave their gang gate.

Pure: observations in, decisions out. `controllers.clique` reads and writes.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from grove.api.conditions import INITIALIZED
from grove.api.gang import PodGang
from grove.api.labels import LEGACY_GATE
from grove.api.pod import Pod
from grove.meta import Manifest, find_condition


def releasable(
    pods: Sequence[Pod], *, gang: PodGang, clique: str, gate: str, objects_in_place: bool
) -> list[Pod]:
    """The gated pods that the gang lists, once it is Initialized and its scheduler's objects exist."""
    initialized = find_condition(gang.status.conditions, INITIALIZED)
    if initialized is None or not initialized.is_true or not objects_in_place:
        return []
    listed = {
        reference.name
        for group in gang.spec.podgroups
        if group.name == clique
        for reference in group.pod_references
    }
    return [pod for pod in pods if pod.name in listed and not pod.terminating and gates_of(pod, gate)]


def gates_of(pod: Pod, gate: str) -> list[str]:
    """Our gates on a pod: the backend's, and the one the incumbent would have put there."""
    return [each.name for each in pod.spec.scheduling_gates if each.name in (gate, LEGACY_GATE)]


def opened(pod: Pod, gate: str) -> Pod:
    """The pod as it will be without our gates."""
    ours = set(gates_of(pod, gate))
    if not ours:
        return pod
    left = tuple(each for each in pod.spec.scheduling_gates if each.name not in ours)
    return replace(pod, spec=replace(pod.spec, scheduling_gates=left))


def opening(
    pod: Pod,
    gate: str,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> tuple[Manifest, ...]:
    """The JSON patch that removes our gate and nobody else's: each removal tests what it removes.

    Removed from the back, so that the positions in front of it stay valid. Labels and annotations that the
    scheduler must find when it first looks at the pod are set in the same step.
    """
    ours = set(gates_of(pod, gate))
    operations: list[Manifest] = [
        *_setting("labels", pod.labels, labels or {}),
        *_setting("annotations", pod.annotations, annotations or {}),
    ]
    for position in reversed(range(len(pod.spec.scheduling_gates))):
        name = pod.spec.scheduling_gates[position].name
        if name in ours:
            path = f"/spec/schedulingGates/{position}"
            operations.append({"op": "test", "path": f"{path}/name", "value": name})
            operations.append({"op": "remove", "path": path})
    return tuple(operations)


def _setting(kind: str, there: Mapping[str, str], wanted: Mapping[str, str]) -> Iterator[Manifest]:
    if wanted and not there:
        yield {"op": "add", "path": f"/metadata/{kind}", "value": dict(wanted)}
        return
    for key, value in wanted.items():
        escaped = key.replace("~", "~0").replace("/", "~1")
        yield {"op": "add", "path": f"/metadata/{kind}/{escaped}", "value": value}
