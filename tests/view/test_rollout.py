"""How far an update is, by what the set's status says."""

from datetime import UTC, datetime
from typing import NamedTuple

import pytest

from grove.api import labels
from grove.api.cliqueset import PodCliqueSet
from grove.cli.rollout_text import status_lines
from grove.meta import Manifest
from grove.testing import make
from grove.view.reasons import reasons_of_cliqueset
from grove.view.rollout import Stage, rollout


def said(type_: str, status: str, message: str = "") -> Manifest:
    return {"type": type_, "status": status, "reason": "Because", "message": message}


def counts(cliques: int, groups: int, **fields: object) -> Manifest:
    return {
        "updateStartedAt": "2026-01-01T00:00:00Z",
        "updatedPodCliquesCount": cliques,
        "totalPodCliquesCount": 2,
        "updatedPodCliqueScalingGroupsCount": groups,
        "totalPodCliqueScalingGroupsCount": 4,
        **fields,
    }


class Case(NamedTuple):
    stage: Stage
    message: str = ""
    progress: Manifest | None = None
    conditions: tuple[Manifest, ...] = (said("Accepted", "True"),)
    observed: int = 1
    on_delete: bool = False
    paused: bool = False


ENDED = {"updateEndedAt": "2026-01-01T00:01:00Z"}
CASES = {
    "never updated": Case(Stage.UP_TO_DATE),
    "finished": Case(Stage.UP_TO_DATE, progress=counts(2, 4, **ENDED)),
    "under way": Case(
        Stage.UPDATING,
        "1 of 2 replicas updated, 1 of them available; replica 0 is being updated",
        counts(1, 4),
        (
            said("Accepted", "True"),
            said(
                "UpdateInProgress",
                "True",
                "1 of 2 replicas updated, 1 of them available; replica 0 is being updated",
            ),
        ),
    ),
    "paused": Case(Stage.PAUSED, progress=counts(1, 4), paused=True),
    "paused when nothing is to be done": Case(Stage.UP_TO_DATE, progress=counts(2, 4, **ENDED), paused=True),
    "edited just now": Case(
        Stage.UNSEEN,
        "the operator has not looked at the set since it was last edited",
        counts(2, 4, **ENDED),
        observed=0,
    ),
    "refused": Case(
        Stage.REFUSED,
        "spec.replicas: too many",
        counts(2, 4, **ENDED),
        (said("Accepted", "False", "spec.replicas: too many"),),
    ),
    "outdated pods with OnDelete": Case(
        Stage.OUTDATED,
        "1 clique and 2 scaling groups with pods of an earlier template; OnDelete leaves deleting them to you",
        counts(1, 2, **ENDED),
        on_delete=True,
    ),
    "all pods deleted with OnDelete": Case(Stage.UP_TO_DATE, progress=counts(2, 4, **ENDED), on_delete=True),
}


def read(case: Case) -> PodCliqueSet:
    manifest = make.cliqueset_manifest(
        "train",
        annotations={labels.UPDATE_PAUSED: "true"} if case.paused else {},
        strategy={"type": "OnDelete" if case.on_delete else "RollingRecreate"},
    )
    manifest["metadata"]["generation"] = 1
    manifest["status"] = {
        "observedGeneration": case.observed,
        "conditions": list(case.conditions),
        "updateProgress": case.progress,
    }
    return make.view(PodCliqueSet, manifest)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_where_an_update_is(case: Case) -> None:
    found = rollout(read(case))
    assert (found.stage, found.message) == (case.stage, case.message)
    assert found.finished is (case.stage is Stage.UP_TO_DATE)


def test_a_set_that_is_being_deleted_says_that_and_nothing_of_an_operator_that_has_not_looked() -> None:
    manifest = make.cliqueset_manifest("train", deleted=True)
    manifest["metadata"] |= {"generation": 2, "finalizers": ["foregroundDeletion"]}
    found = rollout(make.view(PodCliqueSet, manifest))
    words = "the set is being deleted, its pods and everything else of it first"
    assert (found.stage, found.message, found.finished) == (Stage.BEING_DELETED, words, False)
    reasons = reasons_of_cliqueset(make.view(PodCliqueSet, manifest), datetime(2026, 1, 1, tzinfo=UTC))
    assert [str(each) for each in reasons] == [f"being deleted: {words}"]


def test_a_tree_says_that_pods_of_an_earlier_template_wait_to_be_deleted() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    waits = read(CASES["outdated pods with OnDelete"])
    assert [(str(each), each.blocking) for each in reasons_of_cliqueset(waits, now)] == [
        (
            "update waits for pods to be deleted: 1 clique and 2 scaling groups with pods of an earlier template; "
            "OnDelete leaves deleting them to you",
            False,
        )
    ]
    assert reasons_of_cliqueset(read(CASES["all pods deleted with OnDelete"]), now) == ()


def test_a_turn_is_told_until_the_update_is_over() -> None:
    turns = [{"replicaIndex": 3, "updateStartedAt": "2026-01-01T00:00:30Z"}]
    going = rollout(read(Case(Stage.UPDATING, progress=counts(1, 4, currentlyUpdating=turns))))
    assert [(turn.replica, turn.since and turn.since.second) for turn in going.turns] == [(3, 30)]
    assert (going.cliques, going.groups) == ((1, 2), (4, 4))
    over = rollout(read(Case(Stage.UPDATING, progress=counts(1, 4, currentlyUpdating=turns, **ENDED))))
    assert over.turns == ()


def test_replicas_that_are_up_to_date_and_not_available_are_not_called_available() -> None:
    """Pods that completed are not ready: the update is over, and nothing serves."""
    cliqueset = read(Case(Stage.UP_TO_DATE, progress=counts(2, 4, **ENDED)))
    found = rollout(cliqueset)
    assert (found.finished, found.updated, found.available) == (True, 0, 0)
    (line,) = status_lines(found, datetime.now(UTC))
    assert "  up to date  0 of 1 replicas updated and available  0 available in all  " in line
