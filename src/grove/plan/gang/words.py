"""Reasons, conditions and messages about what keeps a gang from being placed or ready. Pure."""

from collections.abc import Sequence
from operator import attrgetter

from grove.api import conditions, labels
from grove.api.clique import PodClique
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import Capability, Fidelity, Reading, Treatment
from grove.errors import (
    PASSING,
    BeingDeleted,
    GroveError,
    NotEnabled,
    OwnershipConflict,
    PodLimitReached,
    Terminal,
    Waiting,
)
from grove.meta import Condition
from grove.plan.failures import failed_sentence
from grove.plan.gang.state import GangState
from grove.plan.places import awaited, awaited_sentence, is_stuck, leaving


def scaled_below_minimum(gang: PodGang, cliques: Sequence[PodClique]) -> str:
    """Which cliques somebody scaled below what the gang needs; empty when none is."""
    least = {group.name: group.min_replicas for group in gang.spec.podgroups}
    return "; ".join(
        f"clique {clique.name} is scaled to {clique.spec.replicas}, the gang needs {least[clique.name]}"
        for clique in cliques
        if clique.spec.replicas < least.get(clique.name, 0)
    )


def score_sentence(reading: Reading) -> str:
    """How good the placement is, where the scheduler says so."""
    return f" Placement score: {reading.placement_score:g}." if reading.placement_score is not None else ""


def troubles(cliques: Sequence[PodClique]) -> list[str]:
    """What keeps the gang from being initialised: why pods cannot be created."""
    return [error.description for clique in cliques for error in clique.status.last_errors]


def stray_pods(pods: Sequence[str]) -> list[Condition]:
    """That pods carry the gang's labels and belong to nobody; they are neither counted nor deleted."""
    if not pods:
        return []
    more = " and more" if len(pods) > _MOST_NAMES else ""
    message = (
        f"{', '.join(sorted(pods)[:_MOST_NAMES])}{more}: labelled as pods of this gang but owned by no "
        "PodClique; Grove does not count them and does not delete them"
    )
    return [Condition(type=conditions.STRAY_PODS, status="True", reason=conditions.NO_OWNER, message=message)]


_MOST_NAMES = 5


def awaited_pods(state: GangState) -> str:
    """What must be gone before the gang can have all of its pods, and which failed; empty for nothing."""
    members = state.members
    kept = [each.sentence for each in state.kept]
    if not state.predecessors and all(pod.keeps_place for pod in members):
        return "; ".join(kept)
    found: list[Pod] = []
    failed: list[str] = []
    for clique in state.cliques:
        own = [pod for pod in members if pod.labels.get(labels.POD_CLIQUE) == clique.name]
        found += awaited(clique, own, leaving(clique, own, state.predecessors, state.now))
        failed.append(failed_sentence(clique, own, state.now))
    return "; ".join(filter(None, (*kept, awaited_sentence(found), *failed)))


def stuck_pods(state: GangState) -> list[Condition]:
    """That pods do not go although their time is up; they are counted and waited for no longer."""
    pods = [pod for pod in (*state.members, *state.predecessors) if is_stuck(pod, state.now)]
    if not pods:
        return []
    first, *others = sorted(pods, key=attrgetter("name"))
    told = [_stuck(pod) for pod in (first, *others[: _MOST_NAMES - 1])]
    more = f" and {len(pods) - len(told)} more" if len(pods) > len(told) else ""
    message = (
        f"{'; '.join(told)}{more}; Grove does not count what is stuck and fills its place: make sure that it "
        f"no longer runs, then kubectl delete pod -n {first.namespace} {first.name} --grace-period=0 --force"
    )
    kind, reason = conditions.STUCK_PODS, conditions.STUCK_TERMINATING
    return [Condition(type=kind, status="True", reason=reason, message=message)]


def _stuck(pod: Pod) -> str:
    metadata, said = pod.metadata, pod.condition(conditions.DISRUPTION_TARGET)
    why = "the kubelet there does not say that it has ended"
    if said is not None and said.message:
        why += f" ({said.message})"
    if metadata.finalizers:
        why += f", and the finalizer {', '.join(metadata.finalizers)} keeps it"
    where = f"pod {pod.name} on node {pod.spec.node_name}"
    return f"{where} should be gone since {metadata.deletion_timestamp}: {why}"


def beyond_limit(cliques: Sequence[PodClique]) -> list[str]:
    """What keeps a gang from growing: a clique that wants more pods than its set may have."""
    return [
        f"Clique {clique.name}: {error.description}."
        for clique in cliques
        for error in clique.status.last_errors
        if error.code == PodLimitReached.code
    ]


def being_deleted(gang: PodGang) -> BeingDeleted:
    """What a gang that is being deleted waits for, and the way out."""
    finalizers = ", ".join(gang.metadata.finalizers)
    return BeingDeleted(
        f"the gang is being deleted and kept by the finalizer {finalizers}; until it is gone and recreated, "
        "lost pods are not replaced: let whoever set the finalizer remove it; if the gang waits for objects "
        "that its pods keep, delete them: "
        f"kubectl delete pods -n {gang.namespace} -l {labels.POD_GANG}={gang.name}"
    )


def reason_of(failure: GroveError) -> str:
    match failure:
        case NotEnabled():
            return conditions.BACKEND_NOT_ENABLED
        case BeingDeleted():
            return conditions.BEING_DELETED
        case Waiting():
            return conditions.PRECONDITION_MISSING
        case OwnershipConflict():
            return conditions.OWNERSHIP_CONFLICT
        case Terminal():
            return conditions.UNSUPPORTED
        case _:
            return conditions.SYNC_FAILED


def extra_conditions(treatments: Sequence[Treatment], failure: GroveError | None) -> tuple[Condition, ...]:
    """What translation adds to the status: no guarantee, something lost, somebody else's field."""
    return (*_losses(treatments), *_failing(failure))


def _losses(treatments: Sequence[Treatment]) -> list[Condition]:
    lost = [loss for loss in treatments if loss.fidelity is not Fidelity.ENFORCED]
    said = [
        Condition(
            type=conditions.GANG_GUARANTEE,
            status="False",
            reason=conditions.NO_GANG_API
            if loss.fidelity is Fidelity.NOT_EXPRESSIBLE
            else conditions.PODS_OUTSIDE_GANG,
            message=loss.reason,
        )
        for loss in lost
        if loss.property == Capability.GANG
    ]
    rest = [
        f"{loss.property} {loss.fidelity}: {loss.reason}" for loss in lost if loss.property != Capability.GANG
    ]
    if rest:
        said.append(
            Condition(
                type=conditions.TRANSLATION_LOSS,
                status="True",
                reason=conditions.CANNOT_EXPRESS,
                message="; ".join(rest),
            )
        )
    return said


def _failing(failure: GroveError | None) -> list[Condition]:
    if failure is None or isinstance(failure, PASSING):
        return []
    # Where the gang is placed its condition Scheduled has no room for it.
    kind, reason = conditions.DEGRADED, reason_of(failure)
    if isinstance(failure, OwnershipConflict):
        kind, reason = conditions.OWNERSHIP_CONFLICT, conditions.FIELD_OWNED_BY_OTHER
    return [Condition(type=kind, status="True", reason=reason, message=str(failure))]
