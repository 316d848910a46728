"""Which pods count, and what is said about them."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.wait_for.pods import pod

from grove.wait_for.tally import Tally


@dataclass(frozen=True)
class Case:
    parents: dict[str, int]
    pods: list[dict[str, Any]] = field(default_factory=list)
    want: str = ""
    complete: bool = False


CASES = {
    "no pod yet": Case({"fe": 2}, [], "waiting for fe: 0 of 2 ready"),
    "one of two": Case(
        {"fe": 2}, [pod("a", "fe"), pod("b", "fe", ready=False)], "waiting for fe: 1 of 2 ready"
    ),
    "all there": Case(
        {"fe": 2}, [pod("a", "fe"), pod("b", "fe")], "nothing to wait for any more: fe: 2 of 2 ready", True
    ),
    "more than needed": Case(
        {"fe": 1}, [pod("a", "fe"), pod("b", "fe")], "nothing to wait for any more: fe: 2 of 1 ready", True
    ),
    "one that goes does not count": Case(
        {"fe": 1}, [pod("a", "fe", going=True)], "waiting for fe: 0 of 1 ready"
    ),
    "the label counts, and neither a prefix of it nor the pod's name": Case(
        {"llm-0-fe": 1}, [pod("llm-0-fe-abcde", "llm-0-fe-x")], "waiting for llm-0-fe: 0 of 1 ready"
    ),
    "only what is missing is named": Case(
        {"fe": 1, "lead": 2}, [pod("a", "fe"), pod("b", "lead")], "waiting for lead: 1 of 2 ready"
    ),
    "two that are missing": Case({"b": 1, "a": 1}, [], "waiting for b: 0 of 1 ready, a: 0 of 1 ready"),
    "no parents": Case({}, [pod("a", "fe")], "nothing to wait for", True),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_list_is_counted(case: Case) -> None:
    tally = Tally(case.parents)
    tally.replace(case.pods)
    assert (tally.sentence, tally.complete) == (case.want, case.complete)


def test_before_the_first_list_nothing_is_complete_and_no_number_is_claimed() -> None:
    tally = Tally({"fe": 2, "lead": 1})
    assert (tally.sentence, tally.complete) == ("waiting for ready pods of fe (2), lead (1)", False)


def test_events_change_the_count() -> None:
    tally = Tally({"fe": 3})
    tally.replace([pod("a", "fe")])
    counts = []
    for verb, item in (
        ("put", pod("b", "fe", ready=False)),
        ("put", pod("b", "fe")),
        ("put", pod("a", "fe", ready=False)),
        ("put", pod("a", "fe")),
        ("drop", pod("b", "fe")),
        ("drop", pod("never seen", "fe")),
        ("put", pod("c", "fe")),
        ("put", pod("c", "fe", going=True)),
        # Whoever changes the label of a pod takes it away from its clique.
        ("put", pod("a", "other")),
    ):
        (tally.put if verb == "put" else tally.drop)(item)
        counts.append(tally.sentence)
    assert counts == [f"waiting for fe: {count} of 3 ready" for count in (1, 2, 1, 2, 1, 1, 2, 1, 0)]


def test_a_second_list_replaces_what_was_counted() -> None:
    tally = Tally({"fe": 1})
    tally.replace([pod("a", "fe")])
    tally.replace([pod("b", "fe", ready=False)])
    assert tally.sentence == "waiting for fe: 0 of 1 ready"


def test_a_sentence_about_many_cliques_stays_short() -> None:
    tally = Tally({f"llm-0-dec-{index}-lead": 1 for index in range(100)})
    tally.replace([])
    assert tally.sentence.endswith("llm-0-dec-9-lead: 0 of 1 ready and 90 more")
    assert len(tally.sentence) < 1000
