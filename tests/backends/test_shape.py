"""What all backends share: how far a gang is, whether it was placed, and what its objects are called."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.api.revision import next_revision
from grove.backends.base import Context, Reading, Verdict
from grove.backends.shape import named, progress, revision, verdict_of, was_placed
from grove.testing import make

LEADER, WORKER = "train-0-leader", "train-0-worker"
GATE = "grove.io/podgang"


def gang(**conditions: str) -> PodGang:
    told = [{"type": type_, "status": status} for type_, status in conditions.items()]
    manifest = make.gang_manifest("train-0", {LEADER: 1, WORKER: 2})
    return make.view(PodGang, {**manifest, "status": {"conditions": told}})


GANG = gang()

PLACED: dict[str, tuple[PodGang, dict[str, int], bool]] = {
    "a gang that says so and is on nodes": (gang(Scheduled="True"), {LEADER: 1, WORKER: 2}, True),
    "a gang that says so and of which one pod is left": (gang(Scheduled="True"), {WORKER: 1}, True),
    "a gang that fell below its minimum and of which one pod is left": (
        gang(Scheduled="False", Unhealthy="True"),
        {WORKER: 1},
        True,
    ),
    "a gang that says so and of which nothing is left": (gang(Scheduled="True"), {}, False),
    "a gang that fell below its minimum and of which nothing is left": (
        gang(Scheduled="False", Unhealthy="True"),
        {LEADER: 0, WORKER: 0},
        False,
    ),
    "a gang of which a part is on nodes for the first time": (gang(Scheduled="False"), {WORKER: 2}, False),
    "a gang that is well again and waits": (gang(Scheduled="False", Unhealthy="False"), {WORKER: 1}, False),
    "a gang that says nothing yet": (gang(), {LEADER: 1, WORKER: 2}, False),
    "a gang that is only complete": (gang(Initialized="True"), {WORKER: 1}, False),
}


@pytest.mark.parametrize(("of", "bound", "want"), PLACED.values(), ids=PLACED)
def test_was_placed(of: PodGang, bound: dict[str, int], want: bool) -> None:
    assert was_placed(of, Context(bound=bound)) is want


# Names --------------------------------------------------------------------------------------------


def test_an_object_is_named_after_its_base_and_the_revision_of_its_gang() -> None:
    assert named("train-0", GANG, Context(revision="bcdfghjklm")) == "train-0-bcdfghjklm"


def test_where_nobody_says_the_revision_it_is_that_of_a_gang_without_pods() -> None:
    ours = make.gang("train-0", {LEADER: 1, WORKER: 2}, cliqueset="train")
    assert revision(ours, Context()) == next_revision(ours)
    assert named("train-0", ours, Context()) == f"train-0-{next_revision(ours)}"


def test_the_objects_of_a_gang_of_somebody_else_keep_their_names_while_it_is_edited() -> None:
    """Its pods are not ours to create, and name the objects that they were made for."""
    before, after, another = (
        make.gang("theirs", {"w": size}, uid=uid) for size, uid in ((2, "a"), (3, "a"), (2, "b"))
    )
    assert named("theirs", before, Context()) == named("theirs", after, Context())
    assert named("theirs", before, Context()) != named("theirs", another, Context())


@pytest.mark.parametrize("limit", [40, 63, 253])
def test_a_name_that_is_too_long_is_shortened_before_its_revision_and_stays_unlike_others(limit: int) -> None:
    names = {
        named("x" * 300 + end, GANG, Context(revision=each), limit)
        for end in "ab"
        for each in ("bcdfghjklm", "nprstvwxyz")
    }
    assert len(names) == 4
    assert all(len(name) == limit for name in names)
    assert {name[-11:] for name in names} == {"-bcdfghjklm", "-nprstvwxyz"}


# Progress -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Progressed:
    pods: Sequence[Pod]
    #: How many are wanted, placed, missing, gated and there; and who is waited for.
    want: tuple[int, int, int, int, int]
    pending: Sequence[str] = ()
    reading: tuple[Verdict, str, str] | None = None


def pods(*workers: str, leader: str = "") -> list[Pod]:
    """A leader and workers: "-" behind the gate, "" waiting, otherwise on that node."""
    made = [_pod(LEADER, 0, leader)]
    return made + [_pod(WORKER, index, where) for index, where in enumerate(workers)]


def _pod(clique: str, index: int, where: str) -> Pod:
    name = f"{clique}-{index}"
    if where == "-":
        return make.pod(clique, index, name=name, gates=[GATE])
    return make.pod(clique, index, name=name, node=where)


ALL = (f"{LEADER}-0", f"{WORKER}-0", f"{WORKER}-1")
PROGRESS = {
    "every pod is behind its gate": Progressed(
        pods("-", "-", leader="-"),
        (3, 0, 0, 3, 3),
        ALL,
        (Verdict.WAITING, "SchedulingGated", "0 of 3 pods placed; 3 still behind scheduling gates."),
    ),
    "the minimum is open and what is above it is gated: nothing of ours holds the gang": Progressed(
        pods("", "", "-", "-"), (3, 0, 0, 0, 5), ALL, None
    ),
    "a gated pod of the minimum holds the gang, one above it does not": Progressed(
        pods("", "-", "-"),
        (3, 0, 0, 1, 4),
        ALL,
        (Verdict.WAITING, "SchedulingGated", "0 of 3 pods placed; 1 still behind scheduling gates."),
    ),
    "a pod above the minimum that waits in front of the scheduler is one of those that wait": Progressed(
        pods("", "", ""), (3, 0, 0, 0, 4), (*ALL, f"{WORKER}-2"), None
    ),
    "a pod of the minimum is missing": Progressed(
        pods(""), (3, 0, 1, 0, 2), ALL[:2], (Verdict.WAITING, "WaitingForPods", "2 of 3 pods exist.")
    ),
    "the minimum is placed and what is above it waits": Progressed(
        pods("n", "n", "-", leader="n"),
        (3, 3, 0, 0, 4),
        (),
        (Verdict.SCHEDULED, "Scheduled", "3 of 3 pods placed."),
    ),
    "a pod above the minimum counts as well as one of it": Progressed(
        [*pods("n", leader="n"), _pod(WORKER, 7, "n")],
        (3, 3, 0, 0, 3),
        (),
        (Verdict.SCHEDULED, "Scheduled", "3 of 3 pods placed."),
    ),
}


@pytest.mark.parametrize("case", PROGRESS.values(), ids=PROGRESS)
def test_progress(case: Progressed) -> None:
    seen = progress(GANG, case.pods)
    assert (seen.wanted, seen.placed, seen.missing, seen.gated, seen.living) == case.want
    assert tuple(each.name for each in seen.pending) == tuple(case.pending)
    assert verdict_of(GANG, seen) == (Reading(*case.reading) if case.reading is not None else None)


def test_a_gang_of_which_every_role_is_scaled_to_none_is_not_placed_but_asleep() -> None:
    asleep = make.gang("train-0", {LEADER: 0, WORKER: 0})
    assert verdict_of(asleep, progress(asleep, [])) == Reading(
        Verdict.WAITING,
        "ScaledToZero",
        "Every role of the gang is scaled to zero; there is nothing to place.",
    )


def test_a_gang_without_any_minimum_that_has_pods_waits_for_nothing() -> None:
    optional = make.gang("train-0", {WORKER: 0})
    found = verdict_of(optional, progress(optional, [_pod(WORKER, 0, "")]))
    assert found is not None
    assert found.verdict is Verdict.SCHEDULED
