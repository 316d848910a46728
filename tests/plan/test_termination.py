"""When gangs below their minimum are recycled, and what of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

import pytest

from grove.api import labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.pod import Pod
from grove.api.scaling_group import PodCliqueScalingGroup
from grove.meta import Manifest
from grove.plan.layout import layout_of
from grove.plan.termination import Termination, termination_delay, terminations
from grove.testing import make

NOON = datetime.fromisoformat("2030-01-01T12:00:00Z")
HOUR = timedelta(hours=1)
#: A time in a status has whole seconds: the breach may have begun almost a second later.
SECOND = timedelta(seconds=1)


def cliqueset(replicas: int = 3, minimum: int = 2) -> PodCliqueSet:
    """A set with a role `a`, and a role `b` in the scaling group `g`."""
    manifest = make.cliqueset_manifest(
        "t",
        {"a": 2, "b": 1},
        groups=[make.scaling_group("g", ["b"], replicas=replicas, minAvailable=minimum)],
        template={"terminationDelay": "1h"},
    )
    return make.view(PodCliqueSet, manifest)


CLIQUESET = cliqueset()


def clique(name: str, breached: int | None = None, *, reached: bool = True, pods: int = 1) -> PodClique:
    """A clique that has been below its minimum since so many minutes after noon."""
    since = (NOON + timedelta(minutes=breached or 0)).strftime("%Y-%m-%dT%H:%M:%SZ")
    told = [said("MinAvailableBreached", "False" if breached is None else "True", since)]
    if reached:
        told.append(said("MinAvailableReached", "True", since))
    manifest = make.clique_manifest(name, pods, labels={labels.SET_REPLICA_INDEX: "0"})
    return make.view(PodClique, {**manifest, "status": {"conditions": told}})


def said(type: str, status: str, since: str) -> Manifest:
    return {"type": type, "status": status, "reason": "R", "message": "", "lastTransitionTime": since}


def group(breached: int | None) -> PodCliqueScalingGroup:
    """The scaling group, with too few working replicas since so many minutes after noon."""
    since = (NOON + timedelta(minutes=breached or 0)).strftime("%Y-%m-%dT%H:%M:%SZ")
    told = [said("MinAvailableBreached", "False" if breached is None else "True", since)]
    manifest = {"metadata": {"name": "t-0-g"}, "status": {"conditions": told}}
    return make.view(PodCliqueScalingGroup, manifest)


def found(
    *cliques: PodClique, too_few: int | None = None, group_of: tuple[int, int] = (3, 2)
) -> list[Termination]:
    """With a scaling group of so many replicas, of which it needs so many."""
    layout, groups = layout_of(cliqueset(*group_of), {}), {"t-0-g": group(too_few)}
    return terminations({each.name: each for each in cliques}, groups, lambda _: layout, HOUR)


@dataclass(frozen=True)
class Case:
    breached: dict[str, int | None]
    #: Minutes after noon at which what is recycled.
    want: list[tuple[str, int]] = field(default_factory=list)
    never_whole: tuple[str, ...] = ()
    #: Since when the scaling group says that too few of its replicas work.
    too_few: int | None = None


CASES = {
    "nothing is wrong": Case({}),
    "a standalone clique": Case({"t-0-a": 5}, [("replica 0", 65)]),
    "a group replica that the group can spare": Case(
        {"t-0-g-2-b": 5}, [("replica 2 of t-0-g (gang t-0-g-0)", 65)]
    ),
    "one of the base gang that the group can spare": Case(
        {"t-0-g-0-b": 5}, [("replica 0 of t-0-g (in gang t-0)", 65)]
    ),
    "the second one costs the set replica, from when the second broke": Case(
        {"t-0-g-0-b": 5, "t-0-g-2-b": 20}, [("replica 0", 80)]
    ),
    "in whichever order they broke": Case({"t-0-g-0-b": 20, "t-0-g-2-b": 5}, [("replica 0", 80)]),
    "the earliest breach of the replica counts": Case(
        {"t-0-a": 7, "t-0-g-0-b": 20, "t-0-g-2-b": 5}, [("replica 0", 67)]
    ),
    "a standalone clique and a spare group replica": Case(
        {"t-0-a": 9, "t-0-g-1-b": 3}, [("replica 0", 69), ("replica 1 of t-0-g (in gang t-0)", 63)]
    ),
    "beside one that only waits, the first one costs the set replica": Case(
        {"t-0-g-0-b": 5, "t-0-g-2-b": 1}, [("replica 0", 65)], never_whole=("t-0-g-2-b",), too_few=5
    ),
    "from when the other began to wait": Case(
        {"t-0-g-0-b": 5, "t-0-g-2-b": 20}, [("replica 0", 80)], never_whole=("t-0-g-2-b",), too_few=20
    ),
    "and not from before the first one broke": Case(
        {"t-0-g-0-b": 5, "t-0-g-2-b": 1}, [("replica 0", 65)], never_whole=("t-0-g-2-b",), too_few=1
    ),
    "what the group said before the others worked again costs nothing more": Case(
        {"t-0-g-2-b": 5}, [("replica 2 of t-0-g (gang t-0-g-0)", 65)], too_few=2
    ),
    "replicas that only wait cost nothing": Case(
        {"t-0-g-1-b": 5, "t-0-g-2-b": 1}, never_whole=("t-0-g-1-b", "t-0-g-2-b"), too_few=5
    ),
    "a clique that never had its minimum": Case({"t-0-a": 5}, never_whole=("t-0-a",)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_recycled_when(case: Case) -> None:
    names = ("t-0-a", "t-0-g-0-b", "t-0-g-1-b", "t-0-g-2-b")
    cliques = [clique(name, case.breached.get(name), reached=name not in case.never_whole) for name in names]
    told = [(each.subject, each.due) for each in found(*cliques, too_few=case.too_few)]
    assert told == [(what, NOON + timedelta(minutes=minutes) + SECOND) for what, minutes in case.want]


@pytest.mark.parametrize(
    "since", ["0000-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-12:00"]
)
def test_a_breach_at_a_time_that_somebody_wrote_waits_until_it_is_written_anew(since: str) -> None:
    told = [said("MinAvailableBreached", "True", since), said("MinAvailableReached", "True", since)]
    manifest = make.clique_manifest("t-0-a", 1, labels={labels.SET_REPLICA_INDEX: "0"})
    assert found(make.view(PodClique, {**manifest, "status": {"conditions": told}})) == []


def pod(name: str, created: datetime, **fields: object) -> Pod:
    manifest = make.pod_manifest(name, 0, **fields)  # type: ignore[arg-type]
    manifest["metadata"]["creationTimestamp"] = created.strftime("%Y-%m-%dT%H:%M:%SZ")
    return make.view(Pod, manifest)


def test_what_was_found_out_to_have_been_whole_counts_from_then() -> None:
    early, late = "2030-01-01T12:05:00Z", "2030-01-01T12:30:00Z"
    told = [said("MinAvailableBreached", "True", early), said("MinAvailableReached", "True", late)]
    manifest = make.clique_manifest("t-0-a", 1, labels={labels.SET_REPLICA_INDEX: "0"})
    [only] = found(make.view(PodClique, {**manifest, "status": {"conditions": told}}))
    assert only.due - SECOND == NOON + timedelta(minutes=90)


def test_pods_that_are_younger_than_the_deadline_belong_to_the_next_start() -> None:
    (due,) = found(clique("t-0-a", 0))
    old, young = pod("t-0-a", NOON), pod("t-0-a", due.due)
    assert due.doomed(lambda _: [old, young], due.due) == [old]


def test_nothing_is_deleted_before_the_deadline_or_once_enough_pods_work() -> None:
    (due,) = found(clique("t-0-a", 0))
    waiting, working = [pod("t-0-a", NOON)], [pod("t-0-a", NOON, node="n1", ready=True)]
    assert due.doomed(lambda _: waiting, due.due - SECOND) == []
    assert due.doomed(lambda _: working, due.due) == []


@dataclass(frozen=True)
class Unless:
    #: The cliques that are below their minimum, with how many pods they lack now.
    lacks: dict[str, int]
    want: str
    replicas: int = 3
    minimum: int = 1
    #: The group's replicas that wait for their first placement.
    waiting: int = 0


UNLESS = {
    "one of three is enough": Unless(
        {"t-0-g-0-b": 1, "t-0-g-1-b": 1, "t-0-g-2-b": 1},
        "1 more pod of t-0-g-0-b (or what another replica of t-0-g lacks) is ready",
    ),
    "the one that lacks the fewest pods is told": Unless(
        {"t-0-g-0-b": 3, "t-0-g-1-b": 2, "t-0-g-2-b": 3},
        "2 more pods of t-0-g-1-b (or what another replica of t-0-g lacks) are ready",
    ),
    "as many as are missing": Unless(
        {"t-0-g-0-b": 2, "t-0-g-1-b": 1, "t-0-g-2-b": 1},
        "1 more pod of t-0-g-1-b and 1 more pod of t-0-g-2-b (or what other replicas of t-0-g lack) are ready",
        minimum=2,
    ),
    "one of the two that are broken": Unless(
        {"t-0-g-0-b": 1, "t-0-g-2-b": 1},
        "1 more pod of t-0-g-0-b (or what another replica of t-0-g lacks) is ready",
        minimum=2,
    ),
    "both, where the group needs all": Unless(
        {"t-0-g-0-b": 1, "t-0-g-1-b": 1},
        "1 more pod of t-0-g-0-b and 1 more pod of t-0-g-1-b are ready",
        replicas=2,
        minimum=2,
    ),
    "a role of the replica besides": Unless(
        {"t-0-a": 1, "t-0-g-0-b": 1, "t-0-g-1-b": 1},
        "1 more pod of t-0-a and 1 more pod of t-0-g-0-b (or what another replica of t-0-g lacks) are ready",
        replicas=2,
    ),
    "no more than are broken, where others wait": Unless(
        {"t-0-g-0-b": 1}, "1 more pod of t-0-g-0-b is ready", minimum=3, waiting=2
    ),
}


@pytest.mark.parametrize("case", UNLESS.values(), ids=UNLESS)
def test_the_fewest_pods_that_would_prevent_it_are_told(case: Unless) -> None:
    (only,) = found(*cliques_of(case), group_of=(case.replicas, case.minimum), too_few=0)
    assert only.unless(partial(pods_lacking, case.lacks)) == f"unless {case.want}"


def cliques_of(case: Unless) -> list[PodClique]:
    """Those of the case, of three pods each, and others of the group that wait."""
    waiting = [f"t-0-g-{case.replicas - 1 - index}-b" for index in range(case.waiting)]
    rest = {f"t-0-g-{index}-b" for index in range(case.replicas)} - {*case.lacks, *waiting}
    broken = [clique(name, 0, pods=3) for name in case.lacks]
    return [*broken, *(clique(name, 0, reached=False) for name in waiting), *map(clique, sorted(rest))]


def pods_lacking(lacks: Mapping[str, int], clique: PodClique) -> list[Pod]:
    """The pods of a clique that work; nothing else of it is there."""
    return [pod(clique.name, NOON, node="n1", ready=True)] * (3 - lacks[clique.name])


def test_a_group_with_enough_replicas_again_dooms_nothing_whatever_its_cliques_still_say() -> None:
    names = [f"t-0-g-{index}-b" for index in range(3)]
    (due,) = found(*(clique(name, 0, pods=3) for name in names), group_of=(3, 2))
    two = {names[0]: 0, names[1]: 0, names[2]: 3}
    assert due.doomed(partial(pods_lacking, {**two, names[1]: 2}), due.due)
    assert due.doomed(partial(pods_lacking, two), due.due) == []


def test_what_has_recovered_hands_its_deadline_to_nobody() -> None:
    (due,) = found(clique("t-0-a", 0, pods=3), clique("t-0-g-0-b", 30, pods=3), group_of=(1, 1))
    recovered = partial(pods_lacking, {"t-0-a": 0, "t-0-g-0-b": 1})
    assert due.due == NOON + HOUR + SECOND
    assert due.doomed(recovered, due.due) == []
    assert len(due.doomed(recovered, due.due + HOUR / 2)) == 5


def test_a_gang_of_which_nothing_is_on_a_node_holds_nothing() -> None:
    (due,) = found(clique("t-0-a", 0))
    assert not due.holds_nodes(lambda _: [pod("t-0-a", NOON)])
    assert due.holds_nodes(lambda _: [pod("t-0-a", NOON, node="n1")])


def test_without_a_delay_it_is_four_hours() -> None:
    assert termination_delay(CLIQUESET.template) == HOUR
    assert termination_delay(make.view(PodCliqueSet, make.cliqueset_manifest("t")).template) == 4 * HOUR
