"""For how long a gang may hold a part of its nodes while nothing changes, and what it gives up then."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace as changed
from tests.plan.gang.states import EARLIER, PLAIN, PRESENT, RESERVING, ROLE, gang, placeholder, pod, state

from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import Capability, Fidelity, Translation, Treatment
from grove.plan.gang.partial import PARTIAL_SECONDS, RESERVED_SECONDS, plan_partial
from grove.plan.gang.state import OtherGang, PartialMemory, Translated, Wait
from grove.testing import make

AB, NOTHING = gang("a", "b"), PartialMemory()
HALF = [pod("a", node="n1"), pod("b")]
WAITING = [pod("a"), pod("b")]
SOUGHT = [*WAITING, placeholder("tg-0", node=""), placeholder("tg-1", node="")]
HELD = [*WAITING, placeholder("tg-0"), placeholder("tg-1", node="")]
NO_GUARANTEE = Translated(Translation(treatments=(Treatment(Capability.GANG, Fidelity.NOT_EXPRESSIBLE),)))
SINCE = 100.0
ONE_BOUND, ONE_HELD = (1, PRESENT), (1, 2, PRESENT)
HOLDS_ON = "only a part of the gang is on nodes"


def other(name: str, created: str, *pods: Pod) -> OtherGang:
    about = gang(name=name)
    return OtherGang(
        changed(about, metadata=changed(about.metadata, creation_timestamp=created)), pods or HELD
    )


OLDER, YOUNGER = other("old-0", "2000-01-01T00:00:00Z"), other("new-0", "2100-01-01T00:00:00Z")
RAN, DONE = gang("a", "b", Unhealthy="True"), pod("a", node="n1", phase="Succeeded")
ONE_LOST = [pod("a", node="n1"), pod("c", gates=())]
WAITS = other("new-0", "2100-01-01T00:00:00Z", pod("c", gates=()))
LOST_A_POD = other("old-0", "2000-01-01T00:00:00Z", *ONE_LOST)


@dataclass(frozen=True)
class Case:
    pods: Sequence[Pod]
    #: For how many seconds more it may hold what it holds; None when it holds nothing of the kind.
    want: float | None
    give_up: str = ""
    about: PodGang = AB
    backend: Any = PLAIN
    memory: PartialMemory = NOTHING
    #: How long the memory goes back.
    passed: float = 0.0
    others: Sequence[OtherGang] = ()
    translated: Translated | None = None


def since(holding: object, reserved_for: str = "") -> PartialMemory:
    return PartialMemory(holding, SINCE, reserved_for)


CASES = {
    "a part on nodes is timed from the first look": Case(HALF, PARTIAL_SECONDS),
    "the time runs while nothing changes": Case(HALF, 10, memory=since(ONE_BOUND), passed=20),
    "after it the pods on nodes go": Case(HALF, None, "a", memory=since(ONE_BOUND), passed=30),
    "long after it, too": Case(HALF, None, "a", memory=since(ONE_BOUND), passed=500),
    "a gang of which more was placed gets the whole time again": Case(
        [pod("a", node="n1"), pod("b", node="n1"), pod("c")],
        PARTIAL_SECONDS,
        about=gang("a", "b", "c", minimum=3),
        memory=since(ONE_BOUND),
        passed=29,
    ),
    "a gang that was restarted gets the whole time again": Case(
        HALF, PARTIAL_SECONDS, memory=since((1, EARLIER)), passed=29
    ),
    "a gang with its whole minimum on nodes holds no part": Case(
        [pod("a", node="n1"), pod("b", node="n1")], None, memory=since(ONE_BOUND), passed=500
    ),
    "a gang that was placed and lost a pod is not given up": Case(
        HALF, None, about=gang("a", "b", Scheduled="True"), memory=since(ONE_BOUND), passed=500
    ),
    "a gang of somebody else is not ours to give up": Case(
        HALF, None, about=gang("a", "b", standalone=True), memory=since(ONE_BOUND), passed=500
    ),
    "a scheduler without gangs places pod after pod, as it likes": Case(
        HALF, None, memory=since(ONE_BOUND), passed=500, translated=NO_GUARANTEE
    ),
    "a gang that waits holds nothing": Case(WAITING, None),
    "places that are held are timed, too": Case(HELD, RESERVED_SECONDS, backend=RESERVING),
    "for a backend that holds none they are no places": Case(HELD, None),
    "an older gang goes first": Case(
        HELD, None, "ab", backend=RESERVING, memory=since(ONE_HELD), passed=10, others=[OLDER]
    ),
    "a younger gang does not": Case(
        HELD, RESERVED_SECONDS, backend=RESERVING, memory=since(ONE_HELD), passed=10, others=[YOUNGER]
    ),
    "a younger one that waits has its turn after a minute in vain": Case(
        HELD, None, "ab", backend=RESERVING, memory=since(ONE_HELD), passed=60, others=[WAITS]
    ),
    "in vain and alone it keeps what it has": Case(
        HELD, RESERVED_SECONDS, backend=RESERVING, memory=since(ONE_HELD), passed=60
    ),
    "an older gang for which nothing is held is no rival": Case(
        HELD,
        RESERVED_SECONDS,
        backend=RESERVING,
        memory=since(ONE_HELD),
        passed=10,
        others=[other("old-0", "2000-01-01T00:00:00Z", *WAITING)],
    ),
    "an older gang that ran and waits for a pod that it lost goes first": Case(
        HELD, None, "ab", backend=RESERVING, memory=since(ONE_HELD), passed=10, others=[LOST_A_POD]
    ),
    "a younger one that lost a pod does not": Case(
        HELD,
        RESERVED_SECONDS,
        backend=RESERVING,
        memory=since(ONE_HELD),
        passed=10,
        others=[other("new-0", "2100-01-01T00:00:00Z", *ONE_LOST)],
    ),
    "an older one whose new pod no scheduler may place yet is no rival": Case(
        HELD,
        RESERVED_SECONDS,
        backend=RESERVING,
        memory=since(ONE_HELD),
        passed=10,
        others=[other("old-0", "2000-01-01T00:00:00Z", *HALF)],
    ),
    "a more urgent gang goes first however young it is": Case(
        HELD,
        None,
        "ab",
        backend=RESERVING,
        memory=since(ONE_HELD),
        passed=10,
        others=[
            other(
                "new-0",
                "2100-01-01T00:00:00Z",
                make.view(Pod, {**make.pod_manifest(ROLE, 0), "spec": {"priority": 9}}),
                placeholder("tg-1"),
                placeholder("tg-2", node=""),
            )
        ],
    ),
    "places for the whole minimum are no part": Case(
        [*HELD, placeholder("tg-2")], None, backend=RESERVING, memory=since(ONE_HELD), passed=500
    ),
    "a gang that waits for room for all of its places holds nothing": Case(
        SOUGHT, None, backend=RESERVING, memory=since((0, 2, PRESENT), PRESENT), passed=500
    ),
    "of its places one is held and the other one gone": Case(
        [*WAITING, placeholder("tg-0")],
        None,
        "ab",
        backend=RESERVING,
        memory=since((1, 1, PRESENT)),
        passed=10,
    ),
    "one is looked for and the other one gone": Case(
        [*WAITING, placeholder("tg-0", node="")],
        None,
        "ab",
        backend=RESERVING,
        memory=since((0, 1, PRESENT)),
        passed=10,
    ),
    "while its scheduler makes the places it is given time": Case(
        [*WAITING, placeholder("tg-0", node="")], RESERVED_SECONDS, backend=RESERVING
    ),
    "a gang that ran to its end and of which a pod is to run again gives the others up": Case(
        [DONE, pod("c")], None, "a", about=RAN
    ),
    "also where its scheduler holds places": Case([DONE, pod("c")], None, "a", about=RAN, backend=RESERVING),
    "pods that succeeded are not given up before there is one to run again": Case([DONE], None, about=RAN),
    "nor while others run": Case(
        [DONE, pod("b", node="n1"), pod("c")], None, about=gang("a", "b", "c", minimum=3, Unhealthy="True")
    ),
    "nor for a pod above the minimum": Case(
        [DONE, pod("b", node="n1", phase="Succeeded"), pod("c")], None, about=RAN
    ),
    "nor before the gang was placed as a whole": Case([DONE, pod("b")], None),
    "places that were held and are gone are waited for": Case(
        WAITING, RESERVED_SECONDS, backend=RESERVING, memory=since(None, PRESENT)
    ),
    "and given up, whoever else there is": Case(
        WAITING, None, "ab", backend=RESERVING, memory=since((0, 0, PRESENT), PRESENT), passed=10
    ),
    "places that were held for the start before do not count": Case(
        WAITING, None, backend=RESERVING, memory=since((0, 0, EARLIER), EARLIER), passed=10
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_gang_that_holds_a_part_of_its_nodes(case: Case) -> None:
    given = {"translated": case.translated} if case.translated is not None else {}
    found = plan_partial(
        state(
            case.about,
            case.pods,
            case.backend,
            partial=case.memory,
            monotonic=SINCE + case.passed,
            others=case.others,
            **given,
        )
    )
    assert found.wait == (None if case.want is None else Wait(case.want, HOLDS_ON))
    assert [each.name for each in found.give_up] == list(case.give_up)
    assert bool(found.why) == bool(case.give_up)


def test_what_is_remembered_is_what_the_next_look_is_given() -> None:
    first = plan_partial(state(gang("a", "b"), HALF, monotonic=5.0)).memory
    assert first == PartialMemory(ONE_BOUND, 5.0)
    later = plan_partial(state(gang("a", "b"), HALF, monotonic=30.0, partial=first))
    assert (later.memory, later.wait) == (first, Wait(5.0, HOLDS_ON))


def test_a_gang_that_gives_up_or_was_placed_is_forgotten() -> None:
    stuck = state(gang("a", "b"), HALF, partial=since(ONE_BOUND), monotonic=SINCE + 30)
    placed = state(gang("a", "b", Scheduled="True"), HALF, partial=since(ONE_BOUND))
    assert [plan_partial(each).memory for each in (stuck, placed)] == [PartialMemory(), PartialMemory()]


def test_that_places_were_held_is_remembered_while_pods_are_being_bound() -> None:
    moving = state(gang("a", "b"), WAITING, RESERVING, partial=since(ONE_HELD, EARLIER))
    assert plan_partial(moving).memory == PartialMemory(reserved_for=EARLIER)


@pytest.mark.parametrize(
    ("passed", "rival", "to_any"), [(10, OLDER, False), (60, WAITS, True)], ids=["older", "in vain"]
)
def test_that_places_were_given_back_is_remembered_and_to_whom(
    passed: float, rival: OtherGang, to_any: bool
) -> None:
    stuck = state(
        gang("a", "b"), HELD, RESERVING, partial=since(ONE_HELD), monotonic=SINCE + passed, others=[rival]
    )
    given = PartialMemory(gave_back=SINCE + passed, to_any=to_any)
    assert plan_partial(stuck).memory == given
    later = state(gang("a", "b"), WAITING, RESERVING, partial=given, monotonic=SINCE + passed + 5)
    assert plan_partial(later).memory == given


def test_why_a_gang_gives_up_names_the_one_that_goes_first() -> None:
    stuck = state(
        gang("a", "b"), HELD, RESERVING, partial=since(ONE_HELD), monotonic=SINCE + 10, others=[OLDER]
    )
    assert plan_partial(stuck).why == (
        "the scheduler holds 1 of 2 places for it and also some for gang default/old-0, which has precedence"
    )


def test_why_a_gang_gives_up_says_how_much_is_placed_of_one_that_lost_a_pod() -> None:
    stuck = state(
        gang("a", "b"), HELD, RESERVING, partial=since(ONE_HELD), monotonic=SINCE + 10, others=[LOST_A_POD]
    )
    assert plan_partial(stuck).why == (
        "the scheduler holds 1 of 2 places for it while a pod of gang default/old-0, which has precedence, waits: "
        "1 of 2 pods placed"
    )


def test_a_part_on_nodes_is_given_more_time_than_places_that_are_only_held() -> None:
    assert 0 < RESERVED_SECONDS < PARTIAL_SECONDS
