"""Which pods of a clique an update replaces, and what the clique says of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from grove.api import labels
from grove.api.clique import PodClique
from grove.api.pod import Pod
from grove.meta import Manifest
from grove.plan.update.pods import CliqueUpdate, Turn, has_outdated, plan_clique_update
from grove.testing import make

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
NAME = "t-0-w"


def clique(replicas: int = 3, minimum: int = 3, progress: Manifest | None = None) -> PodClique:
    manifest = make.clique_manifest(
        NAME,
        replicas,
        spec={"minAvailable": minimum},
        labels={labels.POD_TEMPLATE_HASH: "new"},
        annotations={labels.TEMPLATE_REVISION: "set-new"},
    )
    manifest["status"] = {"updateProgress": progress} if progress else {}
    return make.view(PodClique, manifest)


def pod(index: int, template: str, *, ready: bool = True, node: str = "n", name: str = "") -> Pod:
    marks = {labels.POD_TEMPLATE_HASH: template}
    return make.pod(NAME, index, name=name or f"{template}-{index}", labels=marks, node=node, ready=ready)


def progress(current: str = "", index: int = 0, *, to: str = "new", ended: bool = False) -> Manifest:
    selected = {"current": current, "hostname": f"{NAME}-{index}"} if current else None
    return {
        "updateStartedAt": "2026-01-01T11:00:00Z",
        "updateEndedAt": "2026-01-01T11:30:00Z" if ended else None,
        "podCliqueSetGenerationHash": "set-new",
        "podTemplateHash": to,
        "readyPodsSelectedToUpdate": selected,
    }


@dataclass(frozen=True)
class Case:
    pods: Sequence[Pod]
    turn: Turn = Turn.ONE_BY_ONE
    before: Manifest | None = None
    replicas: int = 3
    minimum: int = 3
    want_replaced: Sequence[str] = ()
    want_current: str | None = None
    want_open: bool = True
    want_chosen: bool = field(default=False)


OLD = [pod(0, "old"), pod(1, "old"), pod(2, "old")]
FIRST_DOWN = [pod(0, "new", ready=False), pod(1, "old"), pod(2, "old")]

CASES = {
    "nothing happens before its turn": Case(OLD, Turn.WAIT, want_open=False),
    "the first pod is chosen, and deleted only once the status says so": Case(
        OLD, want_current="old-0", want_chosen=True
    ),
    "the pod that was chosen is deleted": Case(
        OLD, before=progress("old-0"), want_replaced=["old-0"], want_current="old-0"
    ),
    "no other is chosen until the replacement is ready": Case(
        FIRST_DOWN, before=progress("old-0"), want_current="old-0"
    ),
    "nor while the place is empty": Case(FIRST_DOWN[1:], before=progress("old-0"), want_current="old-0"),
    "then the next one is": Case(
        [pod(0, "new"), *OLD[1:]], before=progress("old-0"), want_current="old-1", want_chosen=True
    ),
    "a pod that does not serve is replaced at once, beside the one that was chosen": Case(
        [pod(0, "new", ready=False), pod(1, "old", ready=False), pod(2, "old")],
        before=progress("old-0"),
        want_replaced=["old-1"],
        want_current="old-0",
    ),
    "no pod that serves is taken while fewer serve than the gang needs": Case(
        [pod(0, "new", ready=False), pod(1, "old"), pod(2, "old")], before=progress()
    ),
    "one that stands in for it may serve above the minimum": Case(
        [pod(0, "new", ready=False), pod(1, "old"), pod(2, "old")],
        before=progress(),
        minimum=2,
        want_current="old-1",
        want_chosen=True,
    ),
    "a place that the clique was scaled out of is not waited for": Case(
        [pod(0, "new"), pod(1, "old")],
        before=progress("old-2", 2),
        replicas=2,
        minimum=2,
        want_current="old-1",
        want_chosen=True,
    ),
    "when all follow it is over": Case(
        [pod(index, "new") for index in range(3)], before=progress("old-2", 2), want_open=False
    ),
    "another template does not forget that a place is empty": Case(
        [pod(0, "newer", ready=False), *OLD[1:]],
        before=progress("old-0", to="newer"),
        want_replaced=["newer-0"],
        want_current="old-0",
    ),
    "a pod of a group replica that has its turn goes with the others": Case(
        OLD, Turn.TOGETHER, want_replaced=["old-0", "old-1", "old-2"]
    ),
    "a group replica is at it until enough are ready": Case(
        [pod(index, "new", ready=False) for index in range(3)], Turn.TOGETHER, before=progress()
    ),
    "a deleted pod is left to whoever deletes it": Case(OLD, Turn.ON_DELETE, want_open=False),
    "a paused update deletes nothing and stays open": Case(
        OLD, Turn.WAIT, before=progress("old-0"), want_current="old-0"
    ),
    "a pod that has done its work is left alone": Case(
        [make.pod(NAME, 0, name="done", labels={labels.POD_TEMPLATE_HASH: "old"}, phase="Succeeded")],
        replicas=1,
        minimum=1,
        want_open=False,
    ),
}


def current(update: CliqueUpdate) -> str | None:
    selected = (update.progress or {}).get("readyPodsSelectedToUpdate")
    return selected["current"] if selected else None


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_pods_are_replaced_one_by_one(case: Case) -> None:
    found = plan_clique_update(
        clique(case.replicas, case.minimum, case.before), case.pods, case.turn, now=NOW
    )
    assert [each.name for each in found.replace] == list(case.want_replaced)
    assert current(found) == case.want_current
    assert (found.is_open, found.chosen) == (case.want_open, case.want_chosen)


def test_with_on_delete_an_update_begins_and_ends_at_once() -> None:
    found = plan_clique_update(clique(), OLD, Turn.ON_DELETE, now=NOW)
    assert found.progress is not None
    assert found.progress["updateStartedAt"] == found.progress["updateEndedAt"] == "2026-01-01T12:00:00Z"
    assert found.progress["podTemplateHash"] == "new"


def test_what_was_replaced_is_listed() -> None:
    pods = [pod(0, "new"), *OLD[1:]]
    found = plan_clique_update(clique(progress=progress("old-0")), pods, Turn.ONE_BY_ONE, now=NOW)
    assert found.progress is not None
    assert found.progress["readyPodsSelectedToUpdate"]["completed"] == ["old-0"]


def test_a_finished_update_stays_in_the_status_as_it_was() -> None:
    pods = [pod(index, "new") for index in range(3)]
    before = progress(ended=True)
    found = plan_clique_update(clique(progress=before), pods, Turn.WAIT, now=NOW)
    assert found.progress == before


STATUSES: dict[str, tuple[Manifest, Sequence[Pod], bool]] = {
    "what was everywhere still is": ({"replicas": 3, "updatedReplicas": 3}, OLD, False),
    "a pod has a template that was given up": ({"replicas": 3, "updatedReplicas": 2}, OLD, True),
    "a pod that lost its label is no reason for an update": (
        {"replicas": 3, "updatedReplicas": 2},
        [pod(0, ""), pod(1, "new"), pod(2, "new")],
        False,
    ),
}


@pytest.mark.parametrize("case", STATUSES.values(), ids=STATUSES)
def test_pods_are_looked_at_unless_the_status_says_that_all_are_up_to_date(
    case: tuple[Manifest, Sequence[Pod], bool],
) -> None:
    status, pods, want = case
    manifest = make.clique_manifest(NAME, 3, labels={labels.POD_TEMPLATE_HASH: "new"})
    manifest["status"] = {"currentPodTemplateHash": "new", **status}
    assert has_outdated(make.view(PodClique, manifest), lambda clique: pods) is want
