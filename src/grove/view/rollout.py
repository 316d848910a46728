"""How far the update of a set is, for people and for commands that wait. Pure; time comes in as `now`."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from grove.api import conditions
from grove.api.cliqueset import ON_DELETE, ROLLING_RECREATE, PodCliqueSet
from grove.meta import Condition, Key, find_condition
from grove.plan.deleted_set import deletion_sentence
from grove.words import counted


class Stage(StrEnum):
    """Where the update of a set is."""

    BEING_DELETED = "is being deleted"
    #: The operator has not looked at the set as it is now.
    UNSEEN = "waits for the operator"
    REFUSED = "refused"
    PAUSED = "paused"
    UPDATING = "updating"
    #: Pods of an earlier template are there, and stay until somebody deletes them.
    OUTDATED = "waits for pods to be deleted"
    UP_TO_DATE = "up to date"


@dataclass(frozen=True, slots=True)
class TurnView:
    """A replica that is being updated."""

    replica: int
    since: datetime | None


@dataclass(frozen=True, slots=True)
class RolloutView:
    """The update of one set."""

    key: Key
    strategy: str
    stage: Stage
    replicas: int
    #: Replicas that follow the present template and are available, as the status counts them.
    updated: int
    available: int
    #: Standalone cliques and scaling groups that are up to date, and all of them; None before any update.
    cliques: tuple[int, int] | None
    groups: tuple[int, int] | None
    turns: tuple[TurnView, ...]
    #: What it waits for, in the operator's words; empty when it waits for nothing.
    message: str

    @property
    def finished(self) -> bool:
        return self.stage is Stage.UP_TO_DATE


def rollout(cliqueset: PodCliqueSet) -> RolloutView:
    """How far the update of a set is."""
    status = cliqueset.status
    progress = status.update_progress
    stage = _stage(cliqueset)
    cliques = groups = None
    turns: tuple[TurnView, ...] = ()
    if progress is not None:
        cliques = progress.updated_pod_cliques_count, progress.total_pod_cliques_count
        groups = (
            progress.updated_pod_clique_scaling_groups_count,
            progress.total_pod_clique_scaling_groups_count,
        )
        if progress.update_ended_at is None:
            turns = tuple(
                TurnView(each.replica_index, _moment(each.update_started_at))
                for each in progress.currently_updating
            )
    return RolloutView(
        cliqueset.key,
        ON_DELETE if cliqueset.on_delete else ROLLING_RECREATE,
        stage,
        cliqueset.spec.replicas,
        status.updated_replicas,
        status.available_replicas,
        cliques,
        groups,
        turns,
        _message(cliqueset, stage),
    )


def _stage(cliqueset: PodCliqueSet) -> Stage:
    status = cliqueset.status
    if cliqueset.terminating:
        return Stage.BEING_DELETED
    if status.observed_generation != cliqueset.metadata.generation:
        return Stage.UNSEEN
    accepted = _condition(cliqueset, conditions.ACCEPTED)
    if accepted is not None and accepted.status == "False":
        return Stage.REFUSED
    progress = status.update_progress
    if progress is None:
        return Stage.UP_TO_DATE
    if cliqueset.on_delete:
        whole = (
            progress.updated_pod_cliques_count >= progress.total_pod_cliques_count
            and progress.updated_pod_clique_scaling_groups_count
            >= progress.total_pod_clique_scaling_groups_count
        )
        return Stage.UP_TO_DATE if whole else Stage.OUTDATED
    if progress.update_ended_at is not None:
        return Stage.UP_TO_DATE
    return Stage.PAUSED if cliqueset.update_paused else Stage.UPDATING


def _message(cliqueset: PodCliqueSet, stage: Stage) -> str:
    if stage is Stage.BEING_DELETED:
        return deletion_sentence(cliqueset)
    if stage is Stage.UNSEEN:
        return "the operator has not looked at the set since it was last edited"
    if stage is Stage.REFUSED:
        accepted = _condition(cliqueset, conditions.ACCEPTED)
        return accepted.message if accepted is not None else ""
    if stage is Stage.OUTDATED:
        progress = cliqueset.status.update_progress
        assert progress is not None
        cliques = progress.total_pod_cliques_count - progress.updated_pod_cliques_count
        groups = (
            progress.total_pod_clique_scaling_groups_count - progress.updated_pod_clique_scaling_groups_count
        )
        behind = [
            counted(number, one) for number, one in ((cliques, "clique"), (groups, "scaling group")) if number
        ]
        return (
            f"{' and '.join(behind)} with pods of an earlier template; OnDelete leaves deleting them to you"
        )
    going = _condition(cliqueset, conditions.UPDATE_IN_PROGRESS)
    return going.message if going is not None and stage is not Stage.UP_TO_DATE else ""


def _condition(cliqueset: PodCliqueSet, type_: str) -> Condition | None:
    return find_condition(cliqueset.status.conditions, type_)


def _moment(stamp: str | None) -> datetime | None:
    return datetime.fromisoformat(stamp) if stamp else None
