"""What YuniKorn's silence, its placeholders and the pods that it ended mean for a gang."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from tests.backends.yunikorn.test_yunikorn import APPLICATION, TASK, container

from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import Context, GangSnapshot, Lifecycle, Remark, Verdict
from grove.backends.yunikorn import YuniKornBackend
from grove.meta import Manifest
from grove.testing import make
from grove.testing.virtual_time import EPOCH

BACKEND = YuniKornBackend()
LEADER, WORKER = "train-0-leader", "train-0-worker"
FIRST, SECOND = "train-0-bcdfghjklm", "train-0-nprstvwxyz"
WAITING = "request is waiting for cluster resources become available"


def refused(pod: str) -> str:
    return (
        f"no node takes pod {pod}, for its room, labels or taints: its events say which (YuniKorn: {WAITING})"
    )


def no_room(pod: str) -> str:
    return f"no node has room for pod {pod}, as YuniKorn's events name no other cause so far (YuniKorn: {WAITING})"


TRAIN = make.cliqueset(
    "train",
    [
        make.template("leader", 1, pod={"containers": [container(cpu="1")]}),
        make.template("worker", 2, pod={"containers": [container(gpu="8", memory="1Gi")]}),
    ],
)


def gang(restarts: str = "") -> PodGang:
    marks = {"grove.io/restarts": restarts} if restarts else {}
    return make.gang(
        "train-0", {LEADER: 1, WORKER: 2}, uid="0123456789", cliqueset="train", annotations=marks
    )


GANG = gang()
NOW = Context(cliqueset=TRAIN, revision="bcdfghjklm")
LATER = Context(cliqueset=TRAIN, revision="nprstvwxyz")


def real(clique: str, index: int = 0, *, application: str = FIRST, **fields: object) -> Pod:
    manifest = make.pod_manifest(clique, index, gang=GANG, labels={APPLICATION: application}, **fields)  # type: ignore[arg-type]
    return make.view(Pod, manifest)


def ended(clique: str, index: int, reason: str, message: str, *, application: str = FIRST) -> Pod:
    pod = make.pod_manifest(clique, index, gang=GANG, labels={APPLICATION: application})
    return make.view(Pod, {**pod, "status": {"phase": "Failed", "reason": reason, "message": message}})


def place(clique: str, index: int, *, application: str = FIRST, **fields: object) -> Pod:
    """A placeholder, as YuniKorn makes it: our labels of the task group, and nobody's pod."""
    manifest: Manifest = make.pod_manifest(clique, index, gang=GANG, name=f"tg-{clique}-{index}", **fields)  # type: ignore[arg-type]
    manifest["metadata"]["labels"] = {"grove.io/podgang": "train-0", APPLICATION: application}
    manifest["metadata"]["annotations"] = {"internal.yunikorn.apache.org/placeholder": "true", TASK: clique}
    return make.view(Pod, manifest)


ALL = [real(LEADER), real(WORKER, 0), real(WORKER, 1)]
PLACED = [real(LEADER, node="a"), real(WORKER, 0, node="a"), real(WORKER, 1, node="b")]
HELD = [place(LEADER, 0, node="a"), place(WORKER, 0, node="a")]
SHORT = place(WORKER, 1, unschedulable=WAITING)
ALONE = real(WORKER, 1, unschedulable=WAITING)


LACKS = (
    "0 of 3 pods placed; YuniKorn holds 2 of 3 places, train-0-worker lacks 1, each with memory 1Gi, "
    "nvidia.com/gpu 8"
)
SILENT = place(WORKER, 1)
BEYOND = (
    "Request '{}' does not fit in queue 'root.small' (requested map[nvidia.com/gpu:8 pods:1 vcore:500], "
    "available map[memory:1024 nvidia.com/gpu:0 pods:9 vcore:250])"
)
LEFT = "nvidia.com/gpu (8 requested, 0 available), cpu (0.5 requested, 0.25 available)"
FAILED = "Unschedulable request '{}': "
SELECTOR = "node(s) didn't match Pod's node affinity/selector (2x)"
TAINT = "node(s) had untolerated taint(s) (1x)"
ONE = f"{FAILED}failed plugin: 'NodeAffinity'\n{SELECTOR}; "
BOTH = f"{ONE}failed plugin: 'TaintToleration'\n{TAINT}; "


def saying(pod: Pod, text: str, *, repeated: bool = False) -> Context:
    """What Grove knows when YuniKorn wrote this about a pod; requests are named by the pod's UID."""
    return replace(NOW, remarks={pod.uid: Remark(text.replace("{}", pod.uid), repeated)})


@dataclass(frozen=True)
class Case:
    pods: Sequence[Pod]
    verdict: Verdict
    reason: str
    message: str
    gang: PodGang = GANG
    context: Context = NOW


CASES = {
    "nothing said yet": Case(
        ALL,
        Verdict.WAITING,
        "WaitingForScheduler",
        "0 of 3 pods placed; the scheduler has not decided yet.",
    ),
    "places are being taken, or the queue's share is used up, of which YuniKorn says nothing": Case(
        [*ALL, *HELD, place(WORKER, 1)],
        Verdict.WAITING,
        "Queued",
        "0 of 3 pods placed; YuniKorn holds 2 of 3 places, train-0-worker lacks 1, each with memory 1Gi, "
        "nvidia.com/gpu 8; if that stays, the queue has no share left for them: see the events of pod "
        "tg-train-0-worker-1.",
    ),
    "one place is missing": Case(
        [*ALL, *HELD, SHORT],
        Verdict.UNSCHEDULABLE,
        "Unschedulable",
        "0 of 3 pods placed; YuniKorn holds 2 of 3 places, train-0-worker lacks 1, each with memory 1Gi, "
        f"nvidia.com/gpu 8; {refused('tg-train-0-worker-1')}.",
    ),
    "no event names a cause: it is room": Case(
        [*ALL, *HELD, SHORT],
        Verdict.UNSCHEDULABLE,
        "Unschedulable",
        f"{LACKS}; {no_room('tg-train-0-worker-1')}.",
        context=replace(NOW, remarks={}),
    ),
    "an event names the node selector": Case(
        [*ALL, *HELD, SHORT],
        Verdict.UNSCHEDULABLE,
        "Unschedulable",
        f"{LACKS}; no node that has room takes pod tg-train-0-worker-1: {SELECTOR}.",
        context=saying(SHORT, ONE, repeated=True),
    ),
    "an event names taints and the node selector": Case(
        [*ALL, *HELD, SHORT],
        Verdict.UNSCHEDULABLE,
        "Unschedulable",
        f"{LACKS}; no node that has room takes pod tg-train-0-worker-1: {SELECTOR}; {TAINT}.",
        context=saying(SHORT, BOTH),
    ),
    "an event names the queue that has no share left, which no condition does": Case(
        [*ALL, *HELD, SILENT],
        Verdict.UNSCHEDULABLE,
        "SchedulingSkipped",
        f"{LACKS}; queue 'root.small' has not enough {LEFT} left for pod tg-train-0-worker-1.",
        context=saying(SILENT, BEYOND),
    ),
    "an event names what all nodes together lack, where the condition says that it is not the queue": Case(
        [*ALL, *HELD, SHORT],
        Verdict.UNSCHEDULABLE,
        "Unschedulable",
        f"{LACKS}; the nodes have not enough {LEFT} left for pod tg-train-0-worker-1.",
        context=saying(SHORT, BEYOND),
    ),
    "an event names no amounts": Case(
        [*ALL, *HELD, SILENT],
        Verdict.UNSCHEDULABLE,
        "SchedulingSkipped",
        f"{LACKS}; queue 'root.small' has not enough resources left for pod tg-train-0-worker-1.",
        context=saying(SILENT, "Request '{}' does not fit in queue 'root.small' (requested x, available y)"),
    ),
    "an event names the user's quota": Case(
        [*ALL, *HELD, SILENT],
        Verdict.UNSCHEDULABLE,
        "SchedulingSkipped",
        f"{LACKS}; the user's quota has not enough pods (1 requested, 0 available) left for pod "
        "tg-train-0-worker-1.",
        context=saying(
            SILENT,
            "Request '{}' exceeds the available user quota (requested map[pods:1], available map[pods:0])",
        ),
    ),
    "a share that was used up is not the last word when more was said and nodes were asked since": Case(
        [*ALL, *HELD, SHORT],
        Verdict.UNSCHEDULABLE,
        "Unschedulable",
        f"{LACKS}; {no_room('tg-train-0-worker-1')}.",
        context=saying(SHORT, BEYOND, repeated=True),
    ),
    "the queue has a share again, and nodes are asked": Case(
        [*ALL, *HELD, SILENT],
        Verdict.WAITING,
        "Queued",
        f"{LACKS}; if that stays, the queue has no share left for them: see the events of pod "
        "tg-train-0-worker-1.",
        context=saying(SILENT, "Request '{}' has become schedulable in queue 'root.small'"),
    ),
    "words of another release are passed on": Case(
        [*ALL, *HELD, SHORT],
        Verdict.UNSCHEDULABLE,
        "Unschedulable",
        f"{LACKS}; YuniKorn about pod tg-train-0-worker-1: the moon is in the way.",
        context=saying(SHORT, "the moon is in the way."),
    ),
    "what was said of a pod that has a node means nothing": Case(
        [*PLACED[:2], ALONE],
        Verdict.UNSCHEDULABLE,
        "Unschedulable",
        f"2 of 3 pods placed; {no_room(ALONE.name)}.",
        context=saying(PLACED[0], ONE),
    ),
    "all places are held and pods move in": Case(
        [*ALL, *HELD, place(WORKER, 1, node="b")],
        Verdict.WAITING,
        "WaitingForScheduler",
        "0 of 3 pods placed; YuniKorn holds 3 of 3 places.",
    ),
    "the quota of the queue explains more than the lack of room": Case(
        [
            *ALL,
            SHORT,
            place(WORKER, 0, unschedulable="quota exceeded", unschedulable_reason="SchedulingSkipped"),
        ],
        Verdict.UNSCHEDULABLE,
        "SchedulingSkipped",
        "0 of 3 pods placed; YuniKorn holds 0 of 3 places, train-0-worker lacks 2, each with memory 1Gi, "
        "nvidia.com/gpu 8; quota exceeded.",
    ),
    "a pod that came later waits alone": Case(
        [*PLACED[:2], ALONE],
        Verdict.UNSCHEDULABLE,
        "Unschedulable",
        f"2 of 3 pods placed; {refused(ALONE.name)}.",
    ),
    "one place is missing once more": Case(
        [*ALL, *HELD, SHORT],
        Verdict.UNSCHEDULABLE,
        "Unschedulable",
        "0 of 3 pods placed; YuniKorn holds 2 of 3 places, train-0-worker lacks 1, each with memory 1Gi, "
        f"nvidia.com/gpu 8; {refused('tg-train-0-worker-1')}; restarts of the gang so far: 1.",
        gang("1"),
    ),
    "placed, whatever placeholders still say": Case(
        [*PLACED, SHORT], Verdict.SCHEDULED, "Scheduled", "3 of 3 pods placed."
    ),
    "placeholders of an earlier start mean nothing": Case(
        [real(LEADER, application=SECOND), *(real(WORKER, n, application=SECOND) for n in (0, 1)), SHORT],
        Verdict.WAITING,
        "WaitingForScheduler",
        "0 of 3 pods placed; the scheduler has not decided yet.",
        gang("1"),
        LATER,
    ),
    "the time is over": Case(
        [
            ended(each.labels["grove.io/podclique"], n, "ResourceReservationTimeout", "Timed out")
            for n, each in enumerate(ALL)
        ],
        Verdict.UNSCHEDULABLE,
        "ResourceReservationTimeout",
        "0 of 3 pods placed; YuniKorn gave up: Timed out. Grove tries again with new pods.",
    ),
    "the queue does not take it": Case(
        [*ALL[:2], ended(WORKER, 1, "ApplicationRejected", " queue root.a cannot fit application x")],
        Verdict.UNSCHEDULABLE,
        "ApplicationRejected",
        "0 of 3 pods placed; YuniKorn gave up: queue root.a cannot fit application x. "
        "Grove tries again with new pods.",
    ),
    "a failure of an earlier start is over": Case(
        [
            real(LEADER, application=SECOND),
            real(WORKER, 0, application=SECOND),
            ended(WORKER, 1, "ApplicationRejected", "no"),
        ],
        Verdict.WAITING,
        "WaitingForPods",
        "2 of 3 pods exist.",
        gang("1"),
        LATER,
    ),
    "a container that failed is no verdict of the scheduler": Case(
        [*PLACED[:2], ended(WORKER, 1, "Error", "exit 1")],
        Verdict.WAITING,
        "WaitingForPods",
        "2 of 3 pods exist.",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_reading(case: Case) -> None:
    reading = BACKEND.read(case.gang, (), case.pods, case.context)
    assert (reading.verdict, reading.reason, reading.message) == (case.verdict, case.reason, case.message)


def lifecycle(pods: Sequence[Pod], context: Context = NOW) -> Lifecycle:
    return BACKEND.lifecycle(GangSnapshot(GANG, pods, context, EPOCH))


def test_pods_that_yunikorn_ended_with_the_present_start_are_told_from_others() -> None:
    pod = ended(WORKER, 0, "ResourceReservationTimeout", "")
    assert lifecycle([pod]).keep == {pod.name}
    assert lifecycle([pod], LATER).keep == set()
    assert lifecycle([ended(WORKER, 0, "Evicted", ""), real(WORKER)]).keep == set()


RESERVED: dict[str, tuple[Sequence[Pod], tuple[int, int]]] = {
    "no placeholder yet": (ALL, (0, 0)),
    "places that are asked for are not held": ([*ALL, SHORT, place(LEADER, 0)], (0, 2)),
    "two of three places": ([*ALL, *HELD, SHORT], (2, 1)),
    "all places": ([*ALL, *HELD, place(WORKER, 1, node="b")], (3, 0)),
    "a place that is given back is not held": (
        [*ALL, *HELD, place(WORKER, 1, node="b", deleted=True)],
        (2, 0),
    ),
    "a place of a placeholder that ended is not held": (
        [*HELD, place(WORKER, 1, node="b", phase="Failed")],
        (2, 0),
    ),
    "places of an earlier start are not held for this one": (
        [place(LEADER, 0, node="a", application=SECOND), place(WORKER, 0, node="a", application=SECOND)],
        (0, 0),
    ),
    "pods of the gang itself are no reserved places": (PLACED, (0, 0)),
}


@pytest.mark.parametrize(("pods", "want"), RESERVED.values(), ids=RESERVED)
def test_reserved_places(pods: Sequence[Pod], want: tuple[int, int]) -> None:
    found = lifecycle(pods)
    assert (found.reserved, found.sought) == want
