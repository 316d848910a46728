"""For whom a gang that gave its places back keeps its gates closed, and for how long."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from msgspec.structs import replace
from tests.plan.gang.states import RESERVING, gang, placeholder, pod, state

from grove.api.pod import Pod, PodCondition
from grove.backends.base import Lifecycle
from grove.plan.gang.precedence import GIVE_WAY_SECONDS, TURN_SECONDS, give_way
from grove.plan.gang.state import OtherGang, PartialMemory, Translated

NOW = 100.0
GAVE_BACK = PartialMemory(gave_back=NOW - 20)
TO_ANY = PartialMemory(gave_back=NOW - 5, to_any=True)
GATED = [pod("a"), pod("b")]
OPEN = pod("x", gates=())
REFUSED = replace(
    OPEN, status=replace(OPEN.status, conditions=(PodCondition(type="PodScheduled", status="False"),))
)
LEFT = GIVE_WAY_SECONDS - 20


def other(name: str, created: str, *pods: Pod, initialized: str = "True") -> OtherGang:
    about = gang(name=name, Initialized=initialized)
    return OtherGang(replace(about, metadata=replace(about.metadata, creation_timestamp=created)), pods)


def older(*pods: Pod, initialized: str = "True") -> OtherGang:
    return other("old-0", "2000-01-01T00:00:00Z", *pods, initialized=initialized)


def younger(*pods: Pod) -> OtherGang:
    return other("new-0", "2100-01-01T00:00:00Z", *pods)


@dataclass(frozen=True)
class Case:
    others: Sequence[OtherGang]
    want: float | None
    pods: Sequence[Pod] = tuple(GATED)
    memory: PartialMemory = GAVE_BACK
    starts_once: bool = False


PART = (REFUSED, placeholder("tg-0"), placeholder("tg-1", node=""))
CASES = {
    "a gang that gave nothing back goes on": Case([older(*PART)], None, memory=PartialMemory()),
    "one that did waits for the older one that holds a part": Case([older(*PART)], LEFT),
    "not for a younger one": Case([younger(*PART)], None),
    "for any that waits where it had its time": Case([younger(REFUSED)], TURN_SECONDS - 5, memory=TO_ANY),
    "then not for those that are behind gates": Case([younger(pod("x"))], None, memory=TO_ANY),
    "and not for long": Case(
        [younger(*PART)], None, memory=PartialMemory(gave_back=NOW - TURN_SECONDS, to_any=True)
    ),
    "for an older one whose gates are about to open": Case([older(pod("x"))], LEFT),
    "not while that one is not ready to open them": Case([older(pod("x"), initialized="False")], None),
    "for an older one of which the scheduler said nothing yet": Case([older(OPEN)], LEFT),
    "not for one that finds no room": Case([older(REFUSED)], None),
    "for an older one that ran and lost a pod": Case([older(pod("w", node="n1"), REFUSED)], LEFT),
    "nobody is left to wait for": Case([], None),
    "without gates there is nothing to keep closed": Case([older(*PART)], None, pods=[OPEN]),
    "not for ever": Case([older(*PART)], None, memory=PartialMemory(gave_back=NOW - GIVE_WAY_SECONDS)),
    "a gang that is restarted has pauses of its own": Case([older(*PART)], None, starts_once=True),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_gang_that_gave_its_places_back(case: Case) -> None:
    translated = Translated(lifecycle=Lifecycle(reserved=0, starts_once=case.starts_once))
    found = give_way(
        state(
            gang("a", "b"),
            case.pods,
            RESERVING,
            partial=case.memory,
            monotonic=NOW,
            others=case.others,
            translated=translated,
        )
    )
    assert (None if found is None else found.seconds) == case.want


def test_it_says_for_whom_it_waits() -> None:
    found = give_way(
        state(gang("a", "b"), GATED, RESERVING, partial=GAVE_BACK, monotonic=NOW, others=[older(*PART)])
    )
    assert found is not None
    assert found.why == "the gang gave its places back and waits until gang default/old-0 is placed"
