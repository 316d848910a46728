"""The status of a clique: how many pods exist, are placed and are ready, and whether that is enough. Pure."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from grove.api import conditions, labels
from grove.api.clique import PodClique
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.meta import Condition, Manifest, find_condition
from grove.plan.conditions import merged
from grove.plan.last_errors import CodedError, last_errors
from grove.plan.places import is_on_lost_node
from grove.plan.standing import Standing, availability, standing_conditions
from grove.plan.update.pods import NO_UPDATE, CliqueUpdate, outdated_pods
from grove.plan.update.revisions import follows, pod_template_of
from grove.words import counted


def desired_clique_status(
    clique: PodClique,
    pods: Sequence[Pod],
    errors: Sequence[CodedError] = (),
    *,
    reached: int = 0,
    revision: str = "",
    update: CliqueUpdate = NO_UPDATE,
    now: datetime,
) -> Manifest:
    """The whole status of a clique, computed from its pods and from what could not be written of them.

    `reached` is the most pods that were seen working at the same time; a status that said so may be yet to be
    written. `revision` is that of the present start of the gang, if it is known.

    Pods that are terminating count nowhere. One that failed is about to be replaced and counts only as what
    it is: a sign that something is broken.
    """
    live = [pod for pod in pods if pod.keeps_place]
    scheduled = sum([pod.bound for pod in live])
    ready = sum([pod.ready for pod in live])
    placed, working = _working(pods)
    whole = _reached(clique, max(reached, working), revision)
    breached = _updating() if update.is_open else _breached(clique, placed, working)
    updates = [_scheduled(clique, scheduled), breached, *([whole] if whole else [])]
    updates += [*standing_conditions(_standing(clique, live, ready, errors)), _available(clique, ready)]
    selector = {**labels.owned_by(clique.labels.get(labels.PART_OF, "")), labels.POD_CLIQUE: clique.name}
    return {
        "observedGeneration": clique.metadata.generation,
        "replicas": len(live),
        "readyReplicas": ready,
        "scheduledReplicas": scheduled,
        "scheduleGatedReplicas": len([pod for pod in live if pod.spec.scheduling_gates]),
        **_templates(clique, live, update),
        # An autoscaler's target is the whole group, not a clique in it.
        "hpaPodSelector": None if labels.SCALING_GROUP in clique.labels else labels.selector(selector),
        "lastErrors": last_errors(clique.status.last_errors, errors, now=now),
        "conditions": merged(clique, updates, now=now, drop=_silent(errors=bool(errors), reached=whole)),
    }


def _templates(clique: PodClique, live: Sequence[Pod], update: CliqueUpdate) -> Manifest:
    """Which templates the pods are of. The hashes stay with what is everywhere until the next one is."""
    template, status = pod_template_of(clique), clique.status
    complete = bool(live) and not update.is_open and not outdated_pods(clique, live)
    everywhere = follows(clique) if complete else status.current_pod_clique_set_generation_hash
    return {
        "updatedReplicas": len([pod for pod in live if pod_template_of(pod) == template]),
        "currentPodTemplateHash": template if complete else status.current_pod_template_hash,
        "currentPodCliqueSetGenerationHash": everywhere,
        "updateProgress": update.progress,
    }


def _updating() -> Condition:
    return Condition(
        type=conditions.MIN_AVAILABLE_BREACHED,
        status="Unknown",
        reason=conditions.UPDATE_IN_PROGRESS,
        message="pods are being replaced",
    )


def _silent(*, errors: bool, reached: Condition | None) -> list[str]:
    """The conditions that have nothing to say now."""
    occasional = {conditions.STALLED: errors, conditions.MIN_AVAILABLE_REACHED: reached is not None}
    return [name for name, speaks in occasional.items() if not speaks]


def _standing(clique: PodClique, pods: Sequence[Pod], ready: int, errors: Sequence[CodedError]) -> Standing:
    wanted = clique.spec.replicas
    done = len([pod for pod in pods if pod.succeeded])
    finished = bool(done) and done >= wanted
    succeeded = f", {done} succeeded" if done else ""
    is_ready = ready + done >= wanted and not finished
    reason = conditions.ALL_PODS_READY if is_ready else conditions.PODS_NOT_READY
    return Standing(
        is_ready,
        conditions.PODS_SUCCEEDED if finished else reason,
        f"{ready} of {wanted} pods are ready{succeeded}",
        stalled=errors[0].text if errors else "",
        stalled_reason=conditions.POD_CREATE_FAILED,
        finished=finished,
    )


def _available(clique: PodClique, ready: int) -> Condition:
    enough = ready >= clique.spec.needed
    return availability(
        enough,
        conditions.SUFFICIENT_READY_PODS if enough else conditions.INSUFFICIENT_READY_PODS,
        f"{counted(ready, 'pod is', 'pods are')} ready, {_least(clique.spec.needed)}",
    )


def _scheduled(clique: PodClique, scheduled: int) -> Condition:
    enough = scheduled >= clique.spec.needed
    return Condition(
        type=conditions.CLIQUE_SCHEDULED,
        status="True" if enough else "False",
        reason=conditions.SUFFICIENT_SCHEDULED_PODS if enough else conditions.INSUFFICIENT_SCHEDULED_PODS,
        message=f"{counted(scheduled, 'pod is', 'pods are')} placed on a node, {_least(clique.spec.needed)}",
    )


def is_breached(clique: PodClique, pods: Sequence[Pod]) -> bool:
    """Whether fewer pods are ready or starting than the gang needs."""
    return shortfall(clique, pods) > 0


def shortfall(clique: PodClique, pods: Sequence[Pod]) -> int:
    """How many more pods the gang needs that are ready or starting."""
    return max(0, clique.spec.needed - _working(pods)[1])


def _working(pods: Sequence[Pod]) -> tuple[int, int]:
    """How many pods are placed, and how many of these work.

    A pod that is still starting for the first time counts as working: start-up is not a failure. So does one
    that has succeeded. One that was ready on a node that no longer answers does not.
    """
    placed = [pod for pod in pods if pod.bound and not pod.terminating]
    return len(placed), len(placed) - sum(map(_broken, placed))


def working_pods(pods: Sequence[Pod]) -> int:
    """How many pods are placed and work."""
    return _working(pods)[1]


def replaces_another(clique: PodClique, gang: PodGang) -> bool:
    """Whether the clique was created after all pods of its gang existed: an earlier one had its name then."""
    complete = find_condition(gang.status.conditions, conditions.INITIALIZED)
    created = clique.metadata.creation_timestamp
    if complete is None or not complete.is_true or not complete.last_transition_time or not created:
        return False
    return datetime.fromisoformat(created) > datetime.fromisoformat(complete.last_transition_time)


def known_as_whole(clique: PodClique, revision: str) -> bool:
    """Whether the clique says that it had its present minimum in the present start of its gang."""
    known = find_condition(clique.status.conditions, conditions.MIN_AVAILABLE_REACHED)
    if known is None or not known.is_true:
        return False
    number, _, words = known.message.partition(" ")
    if not number.isascii() or not number.isdigit() or int(number) < clique.spec.needed:
        return False
    start = _START.search(words)
    return start is None or revision in ("", start[1])


#: The revision in the message of `MinAvailableReached`.
_START: Final = re.compile(r" of revision ([a-z0-9]+) ")


def _reached(clique: PodClique, reached: int, revision: str) -> Condition | None:
    """That the clique has had its minimum since its gang was started, so that to fall below it is a loss.

    It is forgotten where the clique needs no pods, where its minimum was raised since, and with the next
    start of its gang: one that was recycled must be whole again before it is recycled once more.
    """
    minimum = clique.spec.needed
    if not minimum:
        return None
    if known_as_whole(clique, revision):
        return find_condition(clique.status.conditions, conditions.MIN_AVAILABLE_REACHED)
    if reached < minimum:
        return None
    of = f" of revision {revision}" if revision else ""
    return Condition(
        type=conditions.MIN_AVAILABLE_REACHED,
        status="True",
        reason=conditions.SUFFICIENT_READY_PODS,
        message=f"{counted(minimum, f'pod{of} was', f'pods{of} were')} placed and working",
    )


def _breached(clique: PodClique, scheduled: int, working: int) -> Condition:
    """Whether fewer pods are ready or starting than the gang needs."""
    minimum = clique.spec.needed
    if scheduled < minimum:
        status, reason = "True", conditions.SCHEDULED_BELOW_MIN_AVAILABLE
        message = f"{counted(scheduled, 'pod is', 'pods are')} placed, {_least(minimum)}"
    elif working < minimum:
        status, reason = "True", conditions.INSUFFICIENT_READY_PODS
        message = f"{working} of {counted(scheduled, 'placed pod')} ready or starting, {_least(minimum)}"
    else:
        status, reason = "False", conditions.SUFFICIENT_READY_PODS
        message = f"{counted(working, 'pod is', 'pods are')} ready or starting, {_least(minimum)}"
    return Condition(
        type=conditions.MIN_AVAILABLE_BREACHED,
        status=status,
        reason=reason,
        message=message,
    )


def _least(minimum: int) -> str:
    return f"at least {minimum} {'is' if minimum == 1 else 'are'} needed"


def _broken(pod: Pod) -> bool:
    if pod.ready:
        return False
    if is_on_lost_node(pod):
        return True
    for status in pod.status.container_statuses:
        terminated = status.last_state.terminated if status.last_state else None
        if terminated is not None and terminated.exit_code != 0:
            return True
        if status.started and not status.ready:
            return True
    return pod.status.phase == "Failed"
