"""The revision of a gang: which of its starts a pod and a scheduler object belong to.

A scheduler remembers a gang by the names of its objects and of the pods' links. What is deleted, edited or
restarted under the same name is taken for what was there before: members that are terminating count for
their replacements, a minimum that cannot be changed stays. So every start has names of its own. The revision
is a part of those names and stands on each pod (`labels.GANG_REVISION`).

It depends on the gang's UID, on what the scheduler is told and on the number of restarts. While pods of a
gang are on nodes it stays with the revision that they were made for: see `effective_revision`.

Pods that the Go operator made have the revision `ADOPTED`, which stands for the names that it used. What
replaces them belongs to the same revision, until none of them is left or the gang is restarted.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from grove.api import labels, names
from grove.api.gang import GangTopologyConstraint, PodGang
from grove.api.kinds import CLIQUES
from grove.api.pod import Pod

#: The revision of pods that the Go operator made, and of those that replace them.
ADOPTED: Final = "adopted"

#: Enough to tell the gangs of one name in all namespaces apart: some schedulers look for names in all of
#: them.
_LENGTH: Final = 10


def restarts(gang: PodGang) -> int:
    """How many times the gang was restarted since it was created."""
    text = gang.annotations.get(labels.RESTARTS, "")
    return int(text) if text.isascii() and text.isdigit() else 0


#: What a scheduler is told of one podgroup: its name, its minimum, and the keys that it must and should
#: share.
Podgroup = tuple[str, int, tuple[str | None, str | None]]
#: What it is told of podgroups that share a constraint: a name, theirs, and the keys.
PackedGroup = tuple[str, tuple[str, ...], tuple[str | None, str | None]]


def next_revision(gang: PodGang) -> str:
    """The revision of a gang that has no pod on a node."""
    spec = gang.spec
    podgroups = [(each.name, each.min_replicas, _pack(each.topology_constraint)) for each in spec.podgroups]
    groups = [
        (each.name, each.pod_group_names, _pack(each.topology_constraint))
        for each in spec.topology_constraint_group_configs
    ]
    return revision_with(gang, podgroups, groups, _pack(spec.topology_constraint), spec.priority_class_name)


def revision_with(
    gang: PodGang,
    podgroups: Sequence[Podgroup],
    groups: Sequence[PackedGroup],
    pack: tuple[str | None, str | None],
    priority: str,
) -> str:
    """The revision that the gang would have with these podgroups, constraints and this priority class.

    The order of the podgroups does not count.
    """
    noted = gang.annotations
    templates = noted.get(labels.GENERATION_HASH, "")
    told: tuple[object, ...] = (sorted(podgroups), pack, groups, priority, templates, restarts(gang))
    shared = [noted.get(labels.REPLICA_REQUIRED), noted.get(labels.REPLICA_PREFERRED)]
    if any(shared):
        told = (*told, shared)
    return names.suffix(gang.uid, repr(told), length=_LENGTH)


def effective_revision(gang: PodGang, pods: Iterable[Pod]) -> str:
    """The revision that new pods of the gang belong to: that of its pods on nodes, if there are any."""
    placed: dict[str, int] = {}
    waiting: set[str] = set()
    for pod in pods:
        if not pod.active or not (revision := revision_of(pod)):
            continue
        if pod.bound:
            placed[revision] = placed.get(revision, 0) + 1
        else:
            waiting.add(revision)
    if placed:
        return min(placed, key=lambda revision: (-placed[revision], revision))
    if ADOPTED in waiting and not restarts(gang):
        # They wait as the Go operator left them, and may open as they are.
        return ADOPTED
    return next_revision(gang)


def revision_of(pod: Pod) -> str:
    """The revision that a pod was made for; empty for pods that somebody else made."""
    return pod.annotations.get(labels.GANG_REVISION, "") or (ADOPTED if is_adopted(pod) else "")


def is_adopted(pod: Pod) -> bool:
    """Whether the Go operator made a pod of a clique: it lets the API server choose the name, we never do."""
    if labels.GANG_REVISION in pod.annotations or not pod.metadata.generate_name:
        return False
    return pod.owner is not None and pod.owner.kind == CLIQUES.kind


def _pack(constraint: GangTopologyConstraint | None) -> tuple[str | None, str | None]:
    return (constraint.required, constraint.preferred) if constraint is not None else (None, None)
