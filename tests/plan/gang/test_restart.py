"""When a gang is restarted, and what becomes of the pods of the start before."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from grove.api import labels
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import Backend, Context, GangSnapshot, Lifecycle, lifecycle_of
from grove.backends.kai import KaiBackend
from grove.backends.koordinator import KoordinatorBackend
from grove.backends.yunikorn import YuniKornBackend
from grove.plan.gang.restart import Restart, bound_by_podgroup, kept, restart_of, restart_patch
from grove.testing import make

YUNIKORN, KAI, KOORDINATOR = YuniKornBackend(), KaiBackend(), KoordinatorBackend()
CREATED = datetime(2026, 1, 1, tzinfo=UTC)
WORKER = "train-0-worker"
PRESENT, EARLIER = "bcdfghjklm", "nprstvwxyz"
CONTEXT = Context(revision=PRESENT)

PLACED_PODS_GONE = "all of its placed pods are gone"
LOST_ONE = "its scheduler starts a gang only once, and a pod of it was lost"


def gang(
    *listed: str,
    restarts: int = 0,
    scheduled: str = "",
    unhealthy: str = "",
    told_of: int | None = 4,
    named_only: bool = False,
    cliqueset: str = "train",
) -> PodGang:
    """A gang of the generation 4 that lists these pods; `told_of` is the generation that its status is about."""
    group = make.podgroup(WORKER, 2)
    group["podReferences"] = [
        {"namespace": "default", "name": name} | ({} if named_only else {"uid": f"uid-{name}"})
        for name in listed
    ]
    marks = {labels.RESTARTS: str(restarts)} if restarts else {}
    manifest = make.gang_manifest("train-0", [group], annotations=marks, generation=4, cliqueset=cliqueset)
    told = {"Scheduled": scheduled, "Unhealthy": unhealthy}
    about = {"observedGeneration": told_of} if told_of is not None else {}
    manifest["status"] = {
        "conditions": [{"type": name, "status": status, **about} for name, status in told.items() if status]
    }
    return make.view(PodGang, manifest)


def pod(name: str, revision: str = PRESENT, **fields: object) -> Pod:
    given: dict[str, object] = {
        "uid": f"uid-{name}",
        "annotations": {labels.GANG_REVISION: revision} if revision else {},
        "labels": {"yunikorn.apache.org/app-id": f"train-0-{revision}"},
        **fields,
    }
    return make.pod(WORKER, 0, gang=gang(), name=name, **given)  # type: ignore[arg-type]


def ended(name: str, reason: str = "ResourceReservationTimeout", revision: str = PRESENT) -> Pod:
    manifest = make.pod_manifest(
        WORKER, 0, gang=gang(), name=name, labels={"yunikorn.apache.org/app-id": f"train-0-{revision}"}
    )
    return make.view(Pod, {**manifest, "status": {"phase": "Failed", "reason": reason}})


def placeholder(name: str, **fields: object) -> Pod:
    """What YuniKorn makes to hold a place: a pod of the gang without a clique."""
    manifest = make.pod_manifest(WORKER, 0, gang=gang(), name=name, **fields)  # type: ignore[arg-type]
    for key in (labels.POD_CLIQUE, labels.POD_INDEX):
        del manifest["metadata"]["labels"][key]
    return make.view(Pod, manifest)


@dataclass(frozen=True)
class Case:
    gang: PodGang
    pods: Sequence[Pod]
    want: tuple[float, str] | None
    backend: Backend | None = YUNIKORN
    #: How much later than the pods' creation it is, by our clock.
    seconds: float = 1
    leaving: tuple[str, ...] = ()


RAN = gang("a", "b", scheduled="True")
FELL = gang("a", "b", scheduled="False", unhealthy="True")
AB = gang("a", "b")

CASES = {
    # Nothing happened.
    "all pods are there": Case(AB, [pod("a"), pod("b")], None),
    "nothing is listed yet": Case(gang(), [pod("a")], None),
    "nothing is listed, and an object goes": Case(gang(), [pod("a")], None, leaving=("PodGroup x",)),
    "nothing is listed though it was placed once: it is being restarted": Case(
        gang(scheduled="True"), [], None, KAI
    ),
    "pods more than listed are no loss": Case(gang("a"), [pod("a"), pod("b")], None),
    # It ran.
    "all of a gang that ran is gone": Case(RAN, [], (0, PLACED_PODS_GONE), KAI),
    "all of a gang that ran is gone, and others wait in their place": Case(
        RAN, [pod("c"), pod("d")], (0, PLACED_PODS_GONE), KAI
    ),
    "all of a gang that ran is going": Case(
        RAN,
        [pod("a", node="n1", deleted=True), pod("b", node="n1", deleted=True)],
        (0, PLACED_PODS_GONE),
        KAI,
    ),
    "all of a gang that ran has failed": Case(
        RAN,
        [pod("a", node="n1", phase="Failed"), pod("b", node="n1", phase="Failed")],
        (0, PLACED_PODS_GONE),
        KAI,
    ),
    "the rest of a gang that fell below its minimum is gone": Case(
        FELL, [pod("c")], (0, PLACED_PODS_GONE), KAI
    ),
    "nobody said yet that it was placed, and its pods are going": Case(
        AB, [pod("a", node="n1", deleted=True), pod("c")], (0, PLACED_PODS_GONE), KAI
    ),
    "what is going ran in an earlier start: this one has not begun": Case(
        AB, [pod("x", EARLIER, node="n1", deleted=True), pod("a"), pod("b")], None, KAI
    ),
    "it was said once that it was not placed, which is no past": Case(
        gang("a", "b", scheduled="False", unhealthy="False"), [pod("c")], None, KAI
    ),
    "what it said was about the start before, whose pods were unlisted since": Case(
        gang("a", "b", scheduled="True", told_of=3), [pod("a"), pod("b")], None, KAI
    ),
    "what it said of a loss was about the start before": Case(
        gang("a", "b", unhealthy="True", told_of=3), [pod("a"), pod("b")], None, KAI
    ),
    "what somebody else wrote does not say what it is about": Case(
        gang("a", "b", scheduled="True", told_of=None), [pod("a"), pod("b")], None, KAI
    ),
    "its pods are going, whatever it said": Case(
        gang("a", "b", scheduled="True", told_of=3),
        [pod("a", node="n1", deleted=True)],
        (0, PLACED_PODS_GONE),
        KAI,
    ),
    "one pod on a node is left": Case(RAN, [pod("a", node="n1"), pod("c")], None, KAI),
    "one pod on a node is left, whatever start it is of": Case(
        RAN, [pod("a", EARLIER, node="n1"), pod("c")], None, KAI
    ),
    "a long pause is for starts that were in vain; all pods gone after placement is none": Case(
        gang("a", "b", restarts=9, scheduled="True"), [pod("c")], (0, PLACED_PODS_GONE)
    ),
    "it is so for every scheduler": Case(RAN, [], (0, PLACED_PODS_GONE), KOORDINATOR),
    "and for a gang that nobody acts on at the moment": Case(RAN, [], (0, PLACED_PODS_GONE), None),
    "places that a scheduler holds are no pods of the gang": Case(
        RAN, [placeholder("p", node="n1")], (0, PLACED_PODS_GONE)
    ),
    # Pods that succeeded.
    "pods that succeeded are no loss": Case(
        RAN, [pod("a", node="n1", phase="Succeeded"), pod("b", node="n1", phase="Succeeded")], None
    ),
    "one succeeded, the other one is gone": Case(RAN, [pod("a", node="n1", phase="Succeeded")], None),
    # Objects that go.
    "an object is being deleted before anything is placed": Case(
        AB, [pod("a"), pod("b")], (0, "PodGroup x is being deleted"), KAI, leaving=("PodGroup x",)
    ),
    "an object is being deleted while pods are on nodes, which belong to it": Case(
        AB, [pod("a", node="n1"), pod("b")], None, KAI, leaving=("PodGroup x",)
    ),
    # A scheduler that starts a gang only once.
    "a pod is gone before any was placed": Case(AB, [pod("a"), pod("c")], (0, LOST_ONE)),
    "a pod is going before any was placed": Case(AB, [pod("a"), pod("b", deleted=True)], (0, LOST_ONE)),
    "the scheduler gave up": Case(AB, [ended("a"), ended("b")], (0, LOST_ONE)),
    "another pod of the name of one that is gone does not make up for it": Case(
        AB, [pod("a"), pod("b", uid="uid-of-a-later-pod")], (0, LOST_ONE)
    ),
    "a list without UIDs means the pods of these names, and a name is there": Case(
        gang("a", "b", named_only=True), [pod("a"), pod("b", uid="any")], None
    ),
    "others run": Case(AB, [pod("a", node="n1"), pod("c")], None),
    "only places are held": Case(AB, [placeholder("p", node="n1"), pod("a"), pod("b")], None),
    "only places are held, and a pod is gone": Case(
        AB, [placeholder("p", node="n1"), pod("a")], (0, LOST_ONE)
    ),
    "the second loss waits a little": Case(gang("a", restarts=1), [pod("b")], (4, LOST_ONE)),
    "the fifth loss waits longer": Case(gang("a", restarts=4), [pod("b")], (39, LOST_ONE)),
    "no loss waits longer than five minutes": Case(gang("a", restarts=50), [pod("b")], (299, LOST_ONE)),
    "long since": Case(gang("a", restarts=3), [pod("b")], (0, LOST_ONE), seconds=100),
    "nothing is left to tell when it began: the pause begins now": Case(
        gang("a", restarts=1), [], (5, LOST_ONE), seconds=100
    ),
    "a clock that is an hour behind the API server's waits no longer than the pause": Case(
        gang("a", restarts=1), [pod("b")], (5, LOST_ONE), seconds=-3600
    ),
    "a clock that is an hour ahead waits no longer either": Case(
        gang("a", restarts=1), [pod("b")], (0, LOST_ONE), seconds=3600
    ),
    # Gangs of others, whose pods are not ours to create.
    "all of a gang of somebody else that ran is gone": Case(
        gang("a", "b", scheduled="True", cliqueset=""), [], None, KAI
    ),
    "a pod of a gang of somebody else is gone before any was placed": Case(
        gang("a", "b", cliqueset=""), [pod("a", ""), pod("c", "")], None
    ),
    "an object of a gang of somebody else is being deleted": Case(
        gang("a", "b", cliqueset=""), [pod("a", ""), pod("b", "")], None, KAI, leaving=("PodGroup x",)
    ),
    # Other schedulers.
    "other schedulers start a gang as often as they like": Case(AB, [pod("a")], None, KAI),
    "other schedulers may lose all pods that wait": Case(AB, [], None, KAI),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_restart_of(case: Case) -> None:
    now = CREATED + timedelta(seconds=case.seconds)
    lifecycle = lifecycle_of(case.backend, GangSnapshot(case.gang, case.pods, CONTEXT, now))
    found = restart_of(case.gang, case.pods, lifecycle, CONTEXT, leaving=case.leaving, now=now)
    assert found == (Restart(*case.want) if case.want is not None else None)


@pytest.mark.parametrize(
    ("stray", "restarted"), [(pod("a"), True), (pod("a", EARLIER), False), (pod("a", ""), False)]
)
def test_a_waiting_gang_starts_without_orphaned_pods_of_its_present_start(
    stray: Pod, restarted: bool
) -> None:
    pods = [pod("b"), pod("c")]
    found = restart_of(gang("b", "c"), pods, Lifecycle(), CONTEXT, leaving=(), strays=[stray], now=CREATED)
    assert (found is not None) is restarted


def test_every_object_that_is_being_deleted_is_named() -> None:
    leaving = ("PodGroup x", "Workload y")
    found = restart_of(AB, [pod("a"), pod("b")], Lifecycle(), CONTEXT, leaving=leaving, now=CREATED)
    assert found is not None
    assert found.seconds == 0
    assert all(name in found.why for name in leaving)


def test_a_gang_that_is_restarted_lists_nobody_and_depends_on_the_version_that_was_seen() -> None:
    before = gang("a", "b", restarts=1)
    patch = restart_patch(before)
    assert patch.patch == {
        "metadata": {"annotations": {labels.RESTARTS: "2"}},
        "spec": {"podgroups": [{"name": WORKER, "podReferences": [], "minReplicas": 2}]},
    }
    assert patch.resource_version == before.metadata.resource_version


def test_constraints_of_podgroups_survive_a_restart() -> None:
    group = make.podgroup(WORKER, 2, required="example.com/rack")
    patch = restart_patch(make.gang("train-0", [group]))
    assert patch.patch["spec"]["podgroups"] == [group]


# What the scheduler ended -------------------------------------------------------------------------


def given_up(
    pods: Sequence[Pod], members: Sequence[Pod], backend: Backend, context: Context = CONTEXT
) -> set[str]:
    return set(kept(pods, members, lifecycle_of(backend, GangSnapshot(AB, pods, context, CREATED))))


def test_pods_that_the_scheduler_ended_are_kept_until_the_gang_is_restarted() -> None:
    pods = [ended("a"), ended("b", "Evicted")]
    assert given_up(pods, pods, YUNIKORN) == {"a"}
    assert given_up(pods, pods, YUNIKORN, Context(revision=EARLIER)) == set()


def test_nobody_is_kept_where_the_gang_runs_because_it_is_not_restarted() -> None:
    pods = [ended("a")]
    assert not given_up(pods, [*pods, pod("b", node="n1")], YUNIKORN)


def test_a_place_that_is_held_does_not_make_a_gang_run() -> None:
    pods = [ended("a")]
    assert given_up(pods, [*pods, placeholder("p", node="n1")], YUNIKORN) == {"a"}


def test_a_member_that_is_going_does_not_make_a_gang_run() -> None:
    pods = [ended("a")]
    assert given_up(pods, [*pods, pod("b", node="n1", deleted=True)], YUNIKORN) == {"a"}


def test_where_a_scheduler_starts_a_gang_as_often_as_it_likes_nobody_is_kept() -> None:
    pods = [ended("a")]
    assert not given_up(pods, pods, KAI)


def test_pods_on_nodes_are_counted_by_podgroup() -> None:
    pods = [
        pod("a", node="n1"),
        pod("b", node="n2"),
        pod("c"),
        pod("d", node="n1", deleted=True),
        pod("e", node="n1", phase="Succeeded"),
        make.pod("train-0-leader", 0, node="n1"),
    ]
    assert bound_by_podgroup(pods) == {WORKER: 2, "train-0-leader": 1}
