"""When a gang is tried anew, and what becomes of the pods of the attempt before."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import Backend
from grove.backends.kai import KaiBackend
from grove.backends.yunikorn import YuniKornBackend
from grove.controllers.attempts import due_in, leftovers, next_attempt, present
from grove.testing import make

YUNIKORN, KAI = YuniKornBackend(), KaiBackend()
CREATED = datetime(2026, 1, 1, tzinfo=UTC)
WORKER = "train-0-worker"


def gang(*listed: str, attempts: int = 0) -> PodGang:
    group = make.podgroup(WORKER, 2)
    group["podReferences"] = [{"namespace": "default", "name": name} for name in listed]
    marks = {"grove.io/incarnation": str(attempts)} if attempts else {}
    return make.gang("train-0", [group], uid="0123456789", annotations=marks)


def pod(name: str, *, attempt: int = 0, **fields: object) -> Pod:
    marks = {"yunikorn.apache.org/app-id": f"train-0-01234567-{attempt}"}
    manifest = make.pod_manifest(WORKER, 0, gang=gang(), name=name, labels=marks, **fields)  # type: ignore[arg-type]
    return make.view(Pod, manifest)


def ended(name: str, reason: str = "ResourceReservationTimeout") -> Pod:
    manifest = make.pod_manifest(WORKER, 0, gang=gang(), name=name)
    manifest["metadata"]["labels"]["yunikorn.apache.org/app-id"] = "train-0-01234567-0"
    return make.view(Pod, {**manifest, "status": {"phase": "Failed", "reason": reason}})


@dataclass(frozen=True)
class Case:
    gang: PodGang
    pods: Sequence[Pod]
    want: float | None
    backend: Backend = YUNIKORN
    seconds: float = 1


CASES = {
    "all pods are there": Case(gang("a", "b"), [pod("a"), pod("b")], None),
    "nothing is listed yet": Case(gang(), [pod("a")], None),
    "a pod is gone before any was placed": Case(gang("a", "b"), [pod("a"), pod("c")], 0),
    "a pod is going": Case(gang("a", "b"), [pod("a"), pod("b", deleted=True)], 0),
    "the scheduler gave up": Case(gang("a", "b"), [ended("a"), ended("b")], 0),
    "others run": Case(gang("a", "b"), [pod("a", node="n1"), pod("c")], None),
    "all that ran is gone": Case(gang("a", "b"), [pod("c"), pod("d")], 0),
    "pods that succeeded are no loss": Case(
        gang("a", "b"), [pod("a", node="n1", phase="Succeeded"), pod("b", node="n1", phase="Succeeded")], None
    ),
    "pods more than listed are no loss": Case(gang("a"), [pod("a"), pod("b")], None),
    "the second loss waits a little": Case(gang("a", attempts=1), [pod("b")], 4),
    "the fifth loss waits longer": Case(gang("a", attempts=4), [pod("b")], 39),
    "no loss waits longer than five minutes": Case(gang("a", attempts=50), [pod("b")], 299),
    "long since": Case(gang("a", attempts=3), [pod("b")], 0, seconds=100),
    "other schedulers start a gang as often as they like": Case(gang("a", "b"), [pod("a")], None, KAI),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_due_in(case: Case) -> None:
    now = CREATED + timedelta(seconds=case.seconds)
    assert due_in(case.gang, case.pods, case.backend, now) == case.want


def test_the_next_attempt_lists_nobody_and_depends_on_the_version_that_was_seen() -> None:
    before = gang("a", "b", attempts=1)
    patch = next_attempt(before)
    assert patch.patch == {
        "metadata": {"annotations": {"grove.io/incarnation": "2"}},
        "spec": {"podgroups": [{"name": WORKER, "podReferences": [], "minReplicas": 2}]},
    }
    assert patch.resource_version == before.metadata.resource_version


def test_pods_that_the_scheduler_ended_are_kept_until_the_next_attempt() -> None:
    pods = [ended("a"), ended("b", "Evicted")]
    assert leftovers(pods, gang("a", "b"), YUNIKORN, lambda: pods).kept == {"a"}
    assert leftovers(pods, gang("a", "b", attempts=1), YUNIKORN, lambda: pods).kept == frozenset()


def test_nobody_is_kept_where_the_gang_runs_because_there_is_no_next_attempt() -> None:
    pods = [ended("a")]
    assert leftovers(pods, gang("a", "b"), YUNIKORN, lambda: [*pods, pod("b", node="n1")]).kept == frozenset()


def test_pods_of_an_earlier_attempt_take_no_part_in_the_present_one() -> None:
    pods = [pod("a"), pod("b", attempt=1), pod("c", node="n1")]
    now = gang("a", attempts=1)
    assert leftovers(pods, now, YUNIKORN, lambda: pods).outlived == {"a"}
    assert [each.name for each in present(pods, now, YUNIKORN)] == ["b", "c"]
    assert [each.name for each in present(pods, now, KAI)] == ["a", "b", "c"]
