"""Native gangs that can never have their minimum again: pods of the gang on nodes are outside of them.

kube-scheduler looks at the pods of a native gang only when they are as many as its minimum. Which native gang
a pod belongs to is fixed when it is made, while what the gang counts may change: a role shrinks and keeps a
pod above its minimum in place of one that was lost, a minimum is raised. On 1.36 a PodGroup cannot be changed
either, so that roles which were scaled to zero, or back, have one of another size.

A pod that is made for such a gang while others of it run belongs to no native gang: it is placed by itself,
in the domains of the others. The next start of the gang has other objects, and all of its pods belong to
them.
"""

from collections.abc import Iterator

from grove.api import labels
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.api.revision import next_revision
from grove.backends.base import Context, GangSnapshot
from grove.backends.default.generation import Generation
from grove.backends.default.modes import Mode


def may_lack_members(
    gang: PodGang, podgroup: str, context: Context, generation: Generation, mode: Mode
) -> bool:
    """Whether the native gang that pods of a podgroup belong to may never have its minimum again."""
    if not any(context.bound.values()):
        return False
    if _is_fixed(generation, mode) and context.revision != next_revision(gang):
        return True
    return _ungrouped(context, podgroup, mode) > 0


def waiting_in_vain(snapshot: GangSnapshot, generation: Generation, mode: Mode) -> Iterator[Pod]:
    """The pods without a node that belong to such a native gang: only others in their place can be placed."""
    gang, context = snapshot.gang, snapshot.context
    if not any(context.bound.values()):
        return
    waiting = [pod for pod in snapshot.pods if pod.in_native_gang and pod.active and not pod.bound]
    if not _is_fixed(generation, mode):
        # What the objects say follows the gang.
        yield from (pod for pod in waiting if _ungrouped(context, _podgroup(pod), mode))
        return
    minima = {each["metadata"]["name"]: _minimum(each["spec"]) for each in snapshot.objects}
    for pod in waiting:
        group = pod.spec.scheduling_group
        minimum = minima.get(group.pod_group_name, 0) if group is not None else 0
        if gang.minimum - _ungrouped(context, _podgroup(pod), mode) < minimum:
            yield pod


def _podgroup(pod: Pod) -> str:
    return pod.labels.get(labels.POD_CLIQUE, "")


def _ungrouped(context: Context, podgroup: str, mode: Mode) -> int:
    """How many pods are lacking in the native gang of a podgroup, or in another that it waits for."""
    if mode is Mode.FLAT:
        return context.ungrouped.get(podgroup, 0)
    return sum(context.ungrouped.values())


def _is_fixed(generation: Generation, mode: Mode) -> bool:
    return generation.version == "v1alpha2" and mode is Mode.MERGED


def _minimum(spec: dict[str, object]) -> int:
    policy = spec.get("schedulingPolicy")
    gang = policy.get("gang") if isinstance(policy, dict) else None
    return int(gang["minCount"]) if gang else 0
