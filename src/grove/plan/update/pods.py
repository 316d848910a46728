"""The update of one clique: which of its pods are replaced now, and how far it has come. Pure.

Pods that do not serve are replaced at once; those that serve one after the other, the oldest first, each when
the one before it is ready again. Which one it is stands in the clique's status before it is deleted. The pods
of a scaling group's replica are replaced together, once the group has chosen that replica.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Final

from grove.api import names
from grove.api.clique import PodClique, PodCliqueUpdateProgress, PodsSelectedToUpdate
from grove.api.pod import Pod
from grove.meta import Manifest
from grove.plan.conditions import timestamp
from grove.plan.update.revisions import follows, pod_template_of


class Turn(Enum):
    """What the update of its set allows a clique."""

    #: Nothing may be taken down now.
    WAIT = auto()
    #: Pods that serve are replaced one by one.
    ONE_BY_ONE = auto()
    #: All pods are replaced at once.
    TOGETHER = auto()
    #: Pods are deleted by somebody else, or not at all.
    ON_DELETE = auto()


@dataclass(frozen=True, slots=True)
class CliqueUpdate:
    """What an update does to a clique now, and what the clique says of it."""

    #: The pods to delete; their replacements follow the present template.
    replace: tuple[Pod, ...] = ()
    #: As in the status; None where there never was an update.
    progress: Manifest | None = None
    #: Whether pods are being replaced: until they are ready again, that they are missing is no loss. While
    #: an update waits or is paused and has left nothing missing, what is missing then is one.
    is_open: bool = False
    #: Whether another pod was chosen, which is deleted once the status says so.
    chosen: bool = False


NO_UPDATE: Final = CliqueUpdate()


def outdated_pods(clique: PodClique, pods: Sequence[Pod]) -> list[Pod]:
    """The pods that were made from another template; a clique that has done its work is left alone.

    While others of it work, those that have done theirs go as well: schedulers do not count them, and what
    replaces the others would wait for them.
    """
    wanted = pod_template_of(clique)
    # The template first: nearly all pods are of the one that is wanted.
    old = [pod for pod in pods if pod_template_of(pod) != wanted and pod.keeps_place]
    return old if any(not pod.succeeded for pod in old) else []


def has_outdated(clique: PodClique, pods_of: Callable[[PodClique], Sequence[Pod]]) -> bool:
    """Whether a clique has pods of another template; where its status tells that, no pod is looked at.

    A pod that lost the label is replaced with the next update and is no reason for one.
    """
    status = clique.status
    is_open = status.update_progress is not None and status.update_progress.update_ended_at is None
    # Under OnDelete a template may be given up before all pods have it: some then have neither it nor this.
    everywhere = status.updated_replicas >= status.replicas
    if not is_open and everywhere and status.current_pod_template_hash == pod_template_of(clique):
        return False
    return any(map(pod_template_of, outdated_pods(clique, pods_of(clique))))


def ready_pods(pods: Sequence[Pod]) -> int:
    """How many pods serve now; those that are terminating do not count."""
    return sum(pod.keeps_place and pod.ready for pod in pods)


def completed_pods(pods: Sequence[Pod]) -> int:
    """How many pods have done their work: no update replaces them, and none waits for them."""
    return sum(pod.keeps_place and pod.succeeded for pod in pods)


def useful_pods(pods: Sequence[Pod]) -> int:
    """How many pods serve now or have done their work."""
    return ready_pods(pods) + completed_pods(pods)


def plan_clique_update(clique: PodClique, pods: Sequence[Pod], turn: Turn, *, now: datetime) -> CliqueUpdate:
    """Which pods to replace now, and the progress to report."""
    old, before = outdated_pods(clique, pods), clique.status.update_progress
    ended = before is None or before.update_ended_at is not None
    current = before is not None and before.pod_template_hash == pod_template_of(clique)
    selected = _unfinished(clique, pods, before)
    if (not old and ended) or (old and turn is Turn.WAIT and (ended or not current)):
        # Nothing to do, or not yet: what was done last stays in the status.
        return CliqueUpdate(progress=_manifest(before), is_open=selected is not None)
    started = before.update_started_at if before is not None and current and not ended else None
    if turn is Turn.ON_DELETE:
        begun = before.update_started_at if before is not None and current else None
        over = before.update_ended_at if before is not None and current else None
        return CliqueUpdate(progress=_progress(clique, begun or timestamp(now), over or timestamp(now)))
    replace = _replaceable(old, turn, selected)
    chosen = _next(clique, pods, old, before) if selected is None and turn is Turn.ONE_BY_ONE else None
    done = not old and selected is None and (turn is not Turn.TOGETHER or _enough(clique, pods))
    progress = _progress(
        clique,
        started or timestamp(now),
        timestamp(now) if done else None,
        None if done else chosen or selected or (before.ready_pods_selected_to_update if before else None),
    )
    at_work = turn is not Turn.WAIT or selected is not None
    return CliqueUpdate(tuple(replace), progress, at_work and not done, chosen is not None)


def _unfinished(
    clique: PodClique, pods: Sequence[Pod], before: PodCliqueUpdateProgress | None
) -> PodsSelectedToUpdate | None:
    """The pod that was chosen last, until its replacement serves; also if another template came since."""
    selected = before.ready_pods_selected_to_update if before is not None else None
    if selected is None or before is None or before.update_ended_at is not None:
        return None
    there = [pod for pod in pods if pod.keeps_place]
    if not selected.hostname:
        # Written by somebody who does not say which place it is about: all must serve again.
        whole = all(pod.ready or pod.succeeded for pod in there) and len(there) >= clique.spec.replicas
        return None if whole and all(pod.name != selected.current for pod in there) else selected
    holder = next((pod for pod in there if pod.spec.hostname == selected.hostname), None)
    if holder is None:
        # A place that the clique was scaled out of is not filled again.
        index = names.hostname_index(clique.name, selected.hostname)
        gone = index is None or len(there) >= clique.spec.replicas
        return None if gone else selected
    if holder.name == selected.current:
        return selected if pod_template_of(holder) != pod_template_of(clique) else None
    return None if holder.ready or holder.succeeded else selected


def _replaceable(old: Sequence[Pod], turn: Turn, selected: PodsSelectedToUpdate | None) -> list[Pod]:
    if turn is Turn.TOGETHER:
        return list(old)
    if turn is not Turn.ONE_BY_ONE:
        return []
    current = selected.current if selected is not None else ""
    return [pod for pod in old if not pod.ready or pod.name == current]


def _next(
    clique: PodClique, pods: Sequence[Pod], old: Sequence[Pod], before: PodCliqueUpdateProgress | None
) -> PodsSelectedToUpdate | None:
    """The next pod that serves and is to be replaced; none while fewer serve than the gang needs."""
    serving = [pod for pod in old if pod.ready]
    if not serving or not _enough(clique, pods):
        return None
    first = min(serving, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.name))
    done = _completed(before) if before and before.pod_template_hash == pod_template_of(clique) else ()
    return PodsSelectedToUpdate(current=first.name, completed=done, hostname=first.spec.hostname)


def _completed(before: PodCliqueUpdateProgress) -> tuple[str, ...]:
    selected = before.ready_pods_selected_to_update
    if selected is None or before.update_ended_at is not None:
        return ()
    return (*selected.completed, selected.current)


def _enough(clique: PodClique, pods: Sequence[Pod]) -> bool:
    return useful_pods(pods) >= clique.spec.needed


def _progress(
    clique: PodClique, started: str, ended: str | None, selected: PodsSelectedToUpdate | None = None
) -> Manifest:
    return {
        "updateStartedAt": started,
        "updateEndedAt": ended,
        "podCliqueSetGenerationHash": follows(clique) or "",
        "podTemplateHash": pod_template_of(clique),
        "readyPodsSelectedToUpdate": _selection(selected),
    }


def _selection(selected: PodsSelectedToUpdate | None) -> Manifest | None:
    if selected is None:
        return None
    return {
        "current": selected.current,
        "completed": list(selected.completed) or None,
        "hostname": selected.hostname or None,
    }


def _manifest(progress: PodCliqueUpdateProgress | None) -> Manifest | None:
    """A progress as it stands in the status."""
    if progress is None:
        return None
    return {
        "updateStartedAt": progress.update_started_at,
        "updateEndedAt": progress.update_ended_at,
        "podCliqueSetGenerationHash": progress.pod_clique_set_generation_hash,
        "podTemplateHash": progress.pod_template_hash,
        "readyPodsSelectedToUpdate": _selection(progress.ready_pods_selected_to_update),
    }
