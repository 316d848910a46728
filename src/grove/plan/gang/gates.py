"""Decide which pods of a gang may leave their gate. Pure.

The one place where that is decided, for gangs of ours and of others: the minimum opens together, what is
above it follows once the minimum is placed. Why the gang decides and not its cliques: decision 0013.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from grove.api.conditions import INITIALIZED
from grove.api.gang import PodGang
from grove.api.labels import LEGACY_GATE
from grove.api.minimum import above_minimum
from grove.api.pod import Pod
from grove.api.revision import revision_of
from grove.meta import Manifest, find_condition


@dataclass(frozen=True, slots=True)
class Opening:
    """What the gates of a gang depend on besides its pods."""

    gate: str
    #: The gang's present revision; empty for gangs of others, whose pods have none.
    revision: str
    #: Whether the scheduler's objects are in place.
    in_place: bool
    #: Whether the minimum of every podgroup is on nodes.
    placed: bool
    #: Whether the gang that must be placed before this one is; true for a gang that waits for none.
    base_placed: bool = True


def releasable(gang: PodGang, pods: Sequence[Pod], opening: Opening) -> list[Pod]:
    """The gated pods whose gate may open now.

    The pods of the minimum open together: only when the gang is Initialized and every one of them that it
    lists exists. Those above the minimum follow once it is placed. A scaled gang waits for its base gang, and
    a gang of ours of which a role is scaled below its minimum for that role.
    """
    if not is_initialized(gang) or not opening.in_place or not opening.base_placed:
        return []
    is_listed, above = listed(gang), above_minimum(gang)
    members = [pod for pod in pods if is_listed(pod) and pod.keeps_place and _belongs(pod, opening.revision)]
    if not opening.placed and not any(pod.bound for pod in members):
        short = any(len(group.pod_references) < group.min_replicas for group in gang.spec.podgroups)
        if len(members) < reference_count(gang) or (opening.revision and short):
            return []
    return [
        pod
        for pod in members
        if pod.active and gates_of(pod, opening.gate) and not pod.bound and (opening.placed or not above(pod))
    ]


def _belongs(pod: Pod, revision: str) -> bool:
    return pod.bound or not revision or revision_of(pod) == revision


def listed(gang: PodGang) -> Callable[[Pod], bool]:
    """Tells whether the gang lists a pod: by its UID, or by its name where somebody else left the UID out."""
    references = [each for group in gang.spec.podgroups for each in group.pod_references]
    uids = {each.uid for each in references if each.uid}
    unnamed = {each.name for each in references if not each.uid}
    return lambda pod: pod.uid in uids or pod.name in unnamed


def reference_count(gang: PodGang) -> int:
    """How many pods the gang lists."""
    return sum([len(group.pod_references) for group in gang.spec.podgroups])


def is_initialized(gang: PodGang) -> bool:
    """Whether the gang says that its pods are listed and its gates may open."""
    condition = find_condition(gang.status.conditions, INITIALIZED)
    return condition is not None and condition.is_true


def is_released(gang: PodGang, pods: Sequence[Pod], gate: str) -> bool:
    """Whether every pod of the minimum that the gang lists exists, without the gate that is ours to open."""
    if not is_initialized(gang):
        return False
    is_listed, above = listed(gang), above_minimum(gang)
    there = [pod for pod in pods if pod.keeps_place and is_listed(pod)]
    return len(there) >= reference_count(gang) and not any(
        pod.gated_by(gate) and not above(pod) for pod in there
    )


def gates_of(pod: Pod, gate: str) -> list[str]:
    """Our gates on a pod: the backend's, and the one the Go operator would have put there."""
    return [each.name for each in pod.spec.scheduling_gates if each.name in (gate, LEGACY_GATE)]


def opened(pod: Pod, gate: str) -> Pod:
    """The pod as it will be without our gates."""
    ours = set(gates_of(pod, gate))
    if not ours:
        return pod
    left = tuple(each for each in pod.spec.scheduling_gates if each.name not in ours)
    return replace(pod, spec=replace(pod.spec, scheduling_gates=left))


def as_opened(pods: Sequence[Pod], gang: PodGang, gate: str) -> list[Pod]:
    """The pods of a gang as they are once the gates of its minimum are open."""
    above = above_minimum(gang)
    return [pod if above(pod) else opened(pod, gate) for pod in pods]


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
