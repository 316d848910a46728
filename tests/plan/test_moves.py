"""A set that changes its scheduler: what moves, what stays, what is left behind."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.plan.looks import grown, plan_children

from grove.api import kinds, labels
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.meta import Key, Manifest
from grove.plan.changes import Change, Delete, Patch
from grove.plan.children import CliqueSetState, Settled
from grove.plan.moves import (
    any_leaves,
    leaves,
    moved,
    pending_sentence,
    placed_by,
    staying_gangs,
    stays,
    stranded,
)
from grove.testing import make

GANG = make.gang("train-0", {"train-0-worker": 2}, labels={labels.SCHEDULER_BACKEND: "kai"})


def pod(index: int, **fields: Any) -> Pod:
    return make.pod("train-0-worker", index, gang=GANG, **fields)


@dataclass(frozen=True)
class Case:
    pods: list[Pod]
    stays: bool
    leaves: list[str] | None
    wanted: str = "default"


WAITING, GATED, PLACED = pod(0), pod(1, gates=["grove.io/podgang"]), pod(2, node="n1")
CASES = {
    "no pods at all": Case([], stays=False, leaves=[]),
    "pods that wait": Case([WAITING, GATED], stays=False, leaves=[WAITING.name, GATED.name]),
    "one that is placed": Case([WAITING, PLACED], stays=True, leaves=None),
    "a placed one that goes": Case([pod(0, node="n1", deleted=True)], stays=False, leaves=[]),
    "a placed one that has ended": Case([pod(0, node="n1", phase="Failed")], stays=False, leaves=[]),
    "the same backend": Case([WAITING, PLACED], stays=False, leaves=None, wanted="kai"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_who_moves(case: Case) -> None:
    assert stays(GANG, case.pods, case.wanted) == case.stays
    going = leaves(GANG, case.pods, case.wanted)
    assert (None if going is None else [each.name for each in going]) == case.leaves


STAYING = {
    "no pods at all": ([], {}),
    "pods that wait": ([WAITING, GATED], {"train-0": "kai"}),
    "one that is placed": ([PLACED], {"train-0": "kai"}),
    "one that goes": ([pod(0, node="n1", deleted=True)], {}),
}


@pytest.mark.parametrize(("pods", "staying"), STAYING.values(), ids=STAYING)
def test_a_gang_stays_with_its_backend_while_it_has_pods(pods: list[Pod], staying: dict[str, str]) -> None:
    gangs = {"train-0": GANG, "train-1": make.gang("train-1", {"train-1-worker": 2})}
    assert staying_gangs(gangs, lambda gang: pods, "default") == staying
    assert staying_gangs(gangs, lambda gang: pods, "kai") == {}


def backend_for(scheduler_name: str) -> str:
    return {"kai-scheduler": "kai", "default-scheduler": "default"}.get(scheduler_name, "")


def of_scheduler(name: str, **fields: Any) -> Pod:
    manifest = make.pod_manifest("train-0-worker", 0, gang=GANG, **fields)
    manifest["spec"]["schedulerName"] = name
    return make.view(Pod, manifest)


KAI_POD, OTHER_POD = (of_scheduler(f"{name}-scheduler", node="n1") for name in ("kai", "default"))
PLACED_BY = {
    "no pods at all": ([], ""),
    "pods that wait": ([of_scheduler("kai-scheduler")], ""),
    "pods on nodes": ([KAI_POD], "kai"),
    "pods that go": ([of_scheduler("kai-scheduler", node="n1", deleted=True)], ""),
    "pods of a scheduler that nobody knows": ([of_scheduler("mine", node="n1")], ""),
    "most of them": ([OTHER_POD, KAI_POD, KAI_POD], "kai"),
}


@pytest.mark.parametrize(("pods", "want"), PLACED_BY.values(), ids=PLACED_BY)
def test_pods_on_nodes_tell_which_backend_placed_them(pods: list[Pod], want: str) -> None:
    assert placed_by(pods, backend_for) == want


def test_a_set_looks_again_while_waiting_pods_of_a_moving_gang_go() -> None:
    assert any_leaves([GANG], lambda gang: [WAITING], "default")
    for pods in ([], [PLACED]):
        assert not any_leaves([GANG], lambda gang, pods=pods: pods, "default")  # type: ignore[misc]
    assert not any_leaves([GANG], lambda gang: [WAITING], "kai")


def test_the_gangs_that_moved_are_those_whose_label_was_written() -> None:
    key = Key("default", "train-0")
    other = {"metadata": {"labels": {"team": "a"}}}
    chosen = {"metadata": {"labels": {labels.SCHEDULER_BACKEND: "default"}}}
    changes: list[Change] = [
        Patch(kinds.GANGS, key, other),
        Patch(kinds.GANGS, key, {"spec": {}}),
        Patch(kinds.CLIQUES, key, chosen),
        Delete(kinds.GANGS, key, "uid"),
    ]
    assert moved({"train-0": GANG}, changes) == []
    assert moved({"train-0": GANG}, [*changes, Patch(kinds.GANGS, key, chosen)]) == [GANG]


def test_a_gang_that_nobody_acts_on_has_nothing_to_leave() -> None:
    nobodys = make.gang("train-0", {"train-0-worker": 2})
    assert leaves(nobodys, [WAITING], "default") is None


def test_the_sentence_counts_placed_pods_and_has_the_command() -> None:
    told = pending_sentence(GANG, [WAITING, PLACED], "default")
    assert "kai placed 1 of the gang's pods" in told
    assert told.endswith("kubectl delete pods -n default -l grove.io/podgang=train-0 moves it at once")


def test_waiting_pods_of_another_backend_are_stranded_and_placed_ones_are_not() -> None:
    ours = pod(0, spec={"schedulerName": "default-scheduler"})
    theirs = pod(1, spec={"schedulerName": "kai-scheduler"})
    gated = pod(2, spec={"schedulerName": "default-scheduler"}, gates=["grove.io/podgang"])
    placed = pod(3, spec={"schedulerName": "kai-scheduler"}, node="n1")
    found = stranded(
        [ours, theirs, gated, placed], lambda name: name == "default-scheduler", {"grove.io/podgang"}
    )
    assert found == {theirs.name, gated.name}


def metadata_patch(seen: CliqueSetState) -> Manifest:
    (change,) = [each for each in plan_children(seen, Settled()).changes if isinstance(each, Patch)]
    found: Manifest = change.patch["metadata"]
    return found


def counted(seen: CliqueSetState) -> CliqueSetState:
    """The set with a gang whose attempts somebody counted."""
    (gang,) = seen.gangs.values()
    gang.annotations[labels.RESTARTS] = "3"
    return seen


def test_a_gang_that_moves_gets_both_labels_and_loses_the_count_of_its_attempts() -> None:
    seen = counted(grown(make.cliqueset("t", {"worker": 2})))
    patch = metadata_patch(replace(seen, backend="kai"))
    assert patch["labels"] == {labels.SCHEDULER_BACKEND: "kai", labels.SCHEDULER_NAME: "kai"}
    assert patch["annotations"] == {labels.RESTARTS: None}


def test_a_gang_that_is_held_stays_as_it_is() -> None:
    seen = counted(grown(make.cliqueset("t", {"worker": 2})))
    staying = replace(seen, backend="kai", staying={"t-0": "default"})
    assert plan_children(staying, Settled()).changes == ()


def test_a_gang_that_is_left_to_a_process_of_its_own_is_marked_and_unmarked() -> None:
    seen = grown(make.cliqueset("t", {"worker": 2}))
    outside = replace(seen, external=frozenset({"default"}))
    patch = metadata_patch(outside)
    assert patch == {"annotations": {labels.EXTERNAL_BACKEND: "true"}}
    (gang,) = seen.gangs.values()
    assert isinstance(gang, PodGang)
    gang.annotations[labels.EXTERNAL_BACKEND] = "true"
    assert metadata_patch(seen) == {"annotations": {labels.EXTERNAL_BACKEND: None}}
