"""What is said about a gang's placement, and how soon it is written."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from tests.plan.gang.states import PLAIN, ROLE, PlainBackend, gang, pod, state

from grove.api.clique import PodClique
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import Context, Reading, Verdict
from grove.errors import GroveError, NotEnabled, Unsupported
from grove.meta import Manifest
from grove.plan.gang.reading import Problems, read
from grove.plan.gang.urgency import urgency
from grove.plan.urgency import Urgency
from grove.testing import make

PLACED = [pod("a", node="n1"), pod("b", node="n1")]
GATED = [pod("a"), pod("b")]
FINE = Problems()


class Defective(PlainBackend):
    def read(
        self, gang: PodGang, objects: Sequence[Manifest], pods: Sequence[Pod], context: Context
    ) -> Reading:
        raise KeyError("phase")


def clique(replicas: int, error: str = "") -> PodClique:
    manifest = make.clique_manifest(ROLE, replicas)
    errors = [{"code": "ERR_X", "description": error, "observedAt": "2026-01-01T00:00:00Z"}] if error else []
    return make.view(PodClique, {**manifest, "status": {"lastErrors": errors}})


@dataclass(frozen=True)
class Case:
    pods: Sequence[Pod]
    want: tuple[Verdict, str, str]
    problems: Problems = FINE
    backend: PlainBackend | None = PLAIN
    cliques: Sequence[PodClique] = ()
    opens: bool = False


WAITING = Verdict.WAITING
REFUSED = Problems(Unsupported("no such thing"))
HELD = Problems(stepped_back="the gang was preempted and waits for a moment")

CASES = {
    "the scheduler's word": Case(PLACED, (Verdict.SCHEDULED, "Scheduled", "2 of 2 pods placed.")),
    "gates are still closed": Case(
        GATED, (WAITING, "SchedulingGated", "0 of 2 pods placed; 2 still behind scheduling gates.")
    ),
    "gates open in this look, which is what is said": Case(
        GATED, (WAITING, "WaitingForScheduler", "-"), opens=True
    ),
    "a failure is why it is not placed": Case(GATED, (WAITING, "Unsupported", "no such thing"), REFUSED),
    "a failure does not undo a placement": Case(
        PLACED, (Verdict.SCHEDULED, "Scheduled", "2 of 2 pods placed."), REFUSED
    ),
    "a preempted gang steps back": Case(
        GATED,
        (WAITING, "SteppedBack", "0 of 2 pods placed; the gang was preempted and waits for a moment."),
        HELD,
    ),
    "that it is scaled below its minimum comes first": Case(
        GATED,
        (WAITING, "ScaledBelowMinimum", f"clique {ROLE} is scaled to 1, the gang needs 2"),
        REFUSED,
        cliques=[clique(1)],
    ),
    "pods that cannot be created are why they are missing": Case(
        [], (WAITING, "PodCreateFailed", "0 of 2 pods exist; no quota"), cliques=[clique(2, "no quota")]
    ),
    "pods that are not as they must be are why their gates stay closed": Case(
        GATED,
        (WAITING, "SchedulingGated", "0 of 2 pods placed; pod a: create it again; and 1 problem more"),
        Problems(unready=("pod a: create it again", "pod b: create it again")),
    ),
    "also while others are missing": Case(
        GATED[:1],
        (WAITING, "WaitingForPods", "1 of 2 pods exist; pod a: create it again"),
        Problems(unready=("pod a: create it again",)),
    ),
    "a backend that is not enabled leaves what runs running": Case(
        PLACED,
        (Verdict.SCHEDULED, "BackendNotEnabled", "2 of 2 pods placed; x is not enabled"),
        Problems(NotEnabled("x is not enabled")),
        backend=None,
    ),
    "a defect of a backend leaves the pods as the truth": Case(
        GATED,
        (
            WAITING,
            "SyncFailed",
            "0 of 2 pods placed; scheduler backend plain failed with a defect: KeyError: 'phase'",
        ),
        backend=Defective(),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_reading(case: Case) -> None:
    about = state(gang("a", "b"), case.pods, case.backend, cliques=case.cliques)
    found = read(about, case.problems, opens=case.opens)
    assert (found.reading.verdict, found.reading.reason, found.reading.message) == case.want
    assert (found.defect is not None) == isinstance(case.backend, Defective)


WAITS, REFUSES = Reading(WAITING, "Queued"), Reading(Verdict.UNSCHEDULABLE, "NoRoom")
IS_PLACED = Reading(Verdict.SCHEDULED, "Scheduled")
SOONNESS: dict[str, tuple[Reading, dict[str, bool], str, Urgency]] = {
    "gates wait for it": (WAITS, {"blocks": True}, "", Urgency.IMMEDIATE),
    "pods cannot be made": (WAITS, {"troubled": True}, "", Urgency.SOON),
    "the scheduler refuses": (REFUSES, {}, "", Urgency.SOON),
    "the scheduler refuses as before": (REFUSES, {}, "NoRoom", Urgency.SETTLED),
    "it waits for its first placement": (WAITS, {}, "", Urgency.DEFERRED),
    "it is placed for the first time": (IS_PLACED, {}, "", Urgency.STARTING),
    "it is placed and gets ready": (IS_PLACED, {}, "Scheduled", Urgency.STARTING),
    "it was ready and is placed": (IS_PLACED, {}, "Ready", Urgency.SETTLED),
    "it was placed and waits again": (WAITS, {}, "Scheduled", Urgency.SETTLED),
}


@pytest.mark.parametrize(("reading", "given", "before", "want"), SOONNESS.values(), ids=SOONNESS)
def test_how_soon_it_is_written(reading: Reading, given: dict[str, bool], before: str, want: Urgency) -> None:
    manifest = make.gang_manifest("train-0")
    kind = "Ready" if before == "Ready" else "Scheduled"
    told = {"type": kind, "status": "True" if before == kind else "False", "reason": before}
    manifest["status"] = {"conditions": [told] if before else []}
    about = make.view(PodGang, manifest)
    found = urgency(about, reading, blocks=given.get("blocks", False), troubled=given.get("troubled", False))
    assert found is want


def test_a_failure_of_ours_is_no_defect_of_the_backend() -> None:
    failure: GroveError = Unsupported("no")
    assert read(state(gang("a", "b"), GATED), Problems(failure), opens=False).defect is None
