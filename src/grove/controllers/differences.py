"""Which differences between two states of an object somebody must look at. Pure.

Nobody waits for the list of pods that a gang wrote itself, and the place that a pod got goes into statuses
only.
"""

from msgspec.structs import replace

from grove.api import conditions, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang, PodGangSpec
from grove.api.pod import Pod
from grove.api.revision import next_revision
from grove.api.scaling_group import PodCliqueScalingGroup
from grove.meta import Object, find_condition
from grove.plan.conditions import Reporting

#: What the API server copies from a node to the pods that are bound to it.
_PLACE = "topology.kubernetes.io/"


def desired_state_changed(old: Object, new: Object) -> bool:
    """Spec or metadata that we act on; a status write of our own does not count."""
    before, after = old.metadata, new.metadata
    return (
        before.generation != after.generation
        or before.labels != after.labels
        or before.annotations != after.annotations
        or _ownership_changed(old, new)
    )


def _ownership_changed(old: Object, new: Object) -> bool:
    before, after = old.metadata, new.metadata
    return (
        before.owner_references != after.owner_references
        or (before.deletion_timestamp is None) != (after.deletion_timestamp is None)
        or before.uid != after.uid
    )


def owner_changed(old: Object, new: Object) -> bool:
    """A child that belongs to somebody else now, or is about to go."""
    return _ownership_changed(old, new)


def scheduler_choice_changed(old: PodCliqueSet, new: PodCliqueSet) -> bool:
    """A set that may ask for another scheduler now; that it is scaled is nothing that its gangs look at."""
    chosen = labels.SCHEDULER_BACKEND
    return (
        replace(old.spec, replicas=new.spec.replicas) != new.spec
        or old.annotations.get(chosen) != new.annotations.get(chosen)
        or old.uid != new.uid
    )


def gang_revision_changed(old: PodGang, new: PodGang) -> bool:
    """A gang for which pods must be made otherwise: it is another one, edited, restarted or moved."""
    chosen = labels.SCHEDULER_BACKEND
    before, after = old.metadata, new.metadata
    if before.uid != after.uid or old.terminating != new.terminating:
        return True
    if before.labels.get(chosen) != after.labels.get(chosen):
        return True
    # What the revision is made of; most changes of a gang are those of its status.
    same = old.spec == new.spec and before.annotations == after.annotations
    return not same and next_revision(old) != next_revision(new)


def child_changed(old: Object, new: Object) -> bool:
    """A child of a set: anything of it, its status included. Not every kind has a generation."""
    return desired_state_changed(old, new) or any(
        getattr(old, field) != getattr(new, field) for field in old.__struct_fields__ if field != "metadata"
    )


def only_comes_or_goes(old: Object, new: Object) -> bool:
    return False


def turns_changed(old: PodCliqueSet, new: PodCliqueSet) -> bool:
    """A set whose update is at work on other replicas than before."""
    return turns(old) != turns(new)


def turns(cliqueset: PodCliqueSet) -> set[int]:
    progress = cliqueset.status.update_progress
    if progress is None or progress.update_ended_at is not None:
        return set()
    return {each.replica_index for each in progress.currently_updating}


def strategy_changed(old: PodCliqueSet, new: PodCliqueSet) -> bool:
    """A set whose update may be at work on everything now, or on nothing."""
    return (old.on_delete, old.update_paused) != (new.on_delete, new.update_paused)


def group_turn_changed(old: PodCliqueScalingGroup, new: PodCliqueScalingGroup) -> bool:
    """A scaling group whose update is at work on another replica, or that serves otherwise."""
    before, after = old.status, new.status
    return (before.update_progress, before.available_replicas) != (
        after.update_progress,
        after.available_replicas,
    )


def errors_changed(old: PodCliqueSet, new: PodCliqueSet) -> bool:
    """What a set cannot write, cliques of its groups among it."""
    return old.status.last_errors != new.status.last_errors


def status_changed(old: Reporting, new: Reporting) -> bool:
    return old.status != new.status


def clique_demand_changed(old: PodClique, new: PodClique) -> bool:
    """What a gang must know of its cliques: how many pods they want, and what keeps them from it."""
    return (
        old.spec.replicas != new.spec.replicas
        or old.metadata.owner_references != new.metadata.owner_references
        or old.status.last_errors != new.status.last_errors
        or old.terminating != new.terminating
        or old.uid != new.uid
    )


def gang_listed(old: PodGang, new: PodGang) -> bool:
    """A gang of which only the list of pods differs: it wrote that itself and goes on without this news."""
    return (
        old.metadata.generation != new.metadata.generation
        and old.spec != new.spec
        and _unlisted(old) == _unlisted(new)
        and old.labels == new.labels
        and old.annotations == new.annotations
        and not _ownership_changed(old, new)
    )


def _unlisted(gang: PodGang) -> PodGangSpec:
    return replace(
        gang.spec, podgroups=tuple(replace(each, pod_references=()) for each in gang.spec.podgroups)
    )


def gang_changed(old: PodGang, new: PodGang) -> bool:
    """A gang of which more than the list of its pods changed."""
    return desired_state_changed(old, new) and not gang_listed(old, new)


def initialized_by_backend_process(old: PodGang, new: PodGang) -> bool:
    """A gang that the process of its backend found complete: its gates are ours to open."""
    return labels.EXTERNAL_BACKEND in new.annotations and is_initialized(new) and not is_initialized(old)


def pod_needs_action(old: Pod, new: Pod) -> bool:
    """What somebody waits for: gates that opened or may open, a pod that ended or is somebody else's now.

    Being bound is not: it raises the generation and gives the pod the labels of its node's place.
    """
    return old.spec.scheduling_gates != new.spec.scheduling_gates or pod_lost(old, new)


def pod_lost(old: Pod, new: Pod) -> bool:
    """A pod for which its clique may have to make another: it ended, or is somebody else's now."""
    before, after = old.metadata, new.metadata
    return (
        old.finished != new.finished
        or before.annotations != after.annotations
        or (before.labels != after.labels and _marks(old) != _marks(new))
        or _ownership_changed(old, new)
    )


def pod_placed(old: Pod, new: Pod) -> bool:
    """A pod that got a node, for which scaled gangs may wait."""
    return old.bound != new.bound


def _marks(pod: Pod) -> dict[str, str]:
    return {name: value for name, value in pod.labels.items() if not name.startswith(_PLACE)}


def is_initialized(gang: PodGang) -> bool:
    return is_true(gang, conditions.INITIALIZED)


def is_true(gang: PodGang, type_: str) -> bool:
    condition = find_condition(gang.status.conditions, type_)
    return condition is not None and condition.is_true
