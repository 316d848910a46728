"""PodGroups that speak of another gang than the one there is now: roles of it were scaled to zero, or back.

On 1.36 a PodGroup cannot be changed, and kube-scheduler looks at its pods only when they are as many as its
minimum. A pod that is made for such a gang while others of it run belongs to no PodGroup: it is placed by
itself, in the domains of the others. The next start of the gang has another PodGroup.
"""

from collections.abc import Iterator

from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.api.revision import next_revision
from grove.backends.base import Context, GangSnapshot
from grove.backends.default.generation import Generation
from grove.backends.default.modes import Mode


def may_lack_members(gang: PodGang, context: Context, generation: Generation, mode: Mode) -> bool:
    """Whether the PodGroup that pods of the gang on nodes belong to may never have its minimum again."""
    if not _is_fixed(generation, mode) or not any(context.bound.values()):
        return False
    return context.ungrouped > 0 or context.revision != next_revision(gang)


def waiting_in_vain(snapshot: GangSnapshot, generation: Generation, mode: Mode) -> Iterator[Pod]:
    """The pods without a node that belong to such a PodGroup: only others in their place can be placed."""
    gang, context = snapshot.gang, snapshot.context
    if not _is_fixed(generation, mode) or not any(context.bound.values()):
        return
    minima = {each["metadata"]["name"]: _minimum(each["spec"]) for each in snapshot.objects}
    for pod in snapshot.pods:
        group = pod.spec.scheduling_group
        if group is None or pod.bound or not pod.active:
            continue
        if gang.minimum - context.ungrouped < minima.get(group.pod_group_name, 0):
            yield pod


def _is_fixed(generation: Generation, mode: Mode) -> bool:
    return generation.version == "v1alpha2" and mode is Mode.MERGED


def _minimum(spec: dict[str, object]) -> int:
    policy = spec.get("schedulingPolicy")
    gang = policy.get("gang") if isinstance(policy, dict) else None
    return int(gang["minCount"]) if gang else 0
