"""What the program asks next, for everything that an API server may answer."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from tests.wait_for.pods import bookmark, error, event, listed, pod

from grove.wait_for.program import LONGEST_PAUSE, Ask, Pause, Program

PODS = "/api/v1/namespaces/inf/pods"
SELECTOR = "grove.io/podgang=llm-0,grove.io/podclique in (fe)"


def program(parents: dict[str, int] | None = None, chance: float = 0.5) -> Program:
    wanted = {"fe": 2} if parents is None else parents
    return Program(wanted, namespace="inf", gang="llm-0", chance=lambda: chance)


def watching(*, version: str = "10") -> Program:
    """One that has listed a ready pod of two and watches from there."""
    it = program()
    it.listed(listed(pod("a", "fe"), version=version))
    return it


def watch_from(version: str) -> Ask:
    query = {
        "labelSelector": SELECTOR,
        "watch": "true",
        "resourceVersion": version,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "360",
    }
    return Ask(PODS, query, watch=True)


FIRST = Ask(PODS, {"labelSelector": SELECTOR, "limit": "500"})


def test_it_lists_and_then_watches_from_there_until_all_are_ready() -> None:
    it = program()
    assert it.next_step() == FIRST
    it.listed(listed(pod("a", "fe"), version="10"))
    assert it.next_step() == watch_from("10")
    it.saw(event("ADDED", pod("b", "fe", ready=False, version="11")))
    assert it.sentence == "waiting for fe: 1 of 2 ready"
    it.saw(event("MODIFIED", pod("b", "fe", version="12")))
    assert (it.finished, it.next_step()) == (True, None)
    assert it.sentence == "nothing to wait for any more: fe: 2 of 2 ready"


def test_where_all_are_ready_already_one_list_is_all_it_asks() -> None:
    it = program()
    it.listed(listed(pod("a", "fe"), pod("b", "fe")))
    assert it.next_step() is None


def test_without_parents_it_asks_nothing() -> None:
    assert program({}).next_step() is None


def test_a_long_list_comes_in_pages_and_counts_when_it_is_complete() -> None:
    it = program({"fe": 1})
    it.listed(listed(pod("a", "fe"), more="page-2"))
    assert not it.finished
    assert it.next_step() == Ask(PODS, {**FIRST.query, "continue": "page-2"})
    it.listed(listed(pod("b", "fe"), version="11"))
    assert it.finished


def test_a_page_that_the_server_has_forgotten_starts_the_list_over() -> None:
    it = program()
    it.listed(listed(pod("a", "fe"), more="page-2"))
    it.refused(410, "The provided continue parameter is too old")
    assert it.next_step() == Pause(0.2)
    assert it.next_step() == FIRST
    it.listed(listed(pod("a", "fe")))
    assert it.sentence == "waiting for fe: 1 of 2 ready"


def test_a_watch_that_ends_is_resumed_where_it_was() -> None:
    it = watching()
    it.saw(event("MODIFIED", pod("a", "fe", version="15")))
    it.ended(told=True)
    assert it.next_step() == watch_from("15")
    it.saw(bookmark("40"))
    it.ended(told=True)
    assert it.next_step() == watch_from("40")


def test_a_watch_that_tells_nothing_and_ends_is_not_asked_for_in_a_loop() -> None:
    it = watching()
    pauses = []
    for _ in range(8):
        it.ended(told=False)
        pause = it.next_step()
        assert isinstance(pause, Pause)
        pauses.append(pause.seconds)
        assert it.next_step() == watch_from("10")
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, LONGEST_PAUSE, LONGEST_PAUSE]


@dataclass(frozen=True)
class Gone:
    tell: Callable[[Program], None]


@pytest.mark.parametrize(
    "gone",
    [
        Gone(lambda it: it.refused(410, "too old")),
        Gone(lambda it: it.saw(error(410, "too old resource version"))),
    ],
    ids=["as an answer", "as an event"],
)
def test_a_forgotten_place_leads_to_a_new_list_that_replaces_the_count(gone: Gone) -> None:
    it = watching()
    gone.tell(it)
    assert it.sentence == "waiting for fe: 1 of 2 ready"
    assert [it.next_step(), it.next_step()] == [Pause(0.2), FIRST]
    it.listed(listed(pod("b", "fe", ready=False), version="99"))
    assert it.sentence == "waiting for fe: 0 of 2 ready"
    assert it.next_step() == watch_from("99")


REFUSALS = {
    "no permission": (
        403,
        'pods is forbidden: User "x" cannot list',
        "waiting for ready pods of fe (2); the pod's service account may not list pods in namespace inf (yet): "
        '403 pods is forbidden: User "x" cannot list, trying again',
    ),
    "a token that is not accepted": (
        401,
        "Unauthorized",
        "waiting for ready pods of fe (2); the API server does not accept the token: 401 Unauthorized, trying again",
    ),
    "a server that is ill": (
        500,
        "etcdserver: leader changed",
        "waiting for ready pods of fe (2); the API server refused to list pods in namespace inf: "
        "500 etcdserver: leader changed, trying again",
    ),
}


@pytest.mark.parametrize(("status", "message", "want"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_is_told_and_tried_again(status: int, message: str, want: str) -> None:
    it = program()
    it.refused(status, message)
    assert it.sentence == want
    assert [it.next_step(), it.next_step()] == [Pause(0.2), FIRST]
    it.listed(listed())
    assert it.sentence == "waiting for fe: 0 of 2 ready"


def test_a_watch_that_is_refused_begins_with_a_list_again() -> None:
    it = watching()
    it.refused(403, "forbidden")
    assert "may not watch pods" in it.sentence
    assert [it.next_step(), it.next_step()] == [Pause(0.2), FIRST]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_watch_keeps_its_place_while_the_server_is_busy_or_ill(status: int) -> None:
    it = watching()
    it.refused(status, "later")
    assert [it.next_step(), it.next_step()] == [Pause(0.2), watch_from("10")]


def test_it_waits_as_long_as_a_busy_server_asks_for() -> None:
    it = program()
    it.refused(429, "too many requests", after=7.0)
    assert it.next_step() == Pause(7.0)


def test_without_an_answer_it_waits_longer_each_time_and_resumes_its_watch() -> None:
    it = watching()
    pauses = []
    for _ in range(3):
        it.unreachable("connection refused")
        pauses.append(it.next_step())
        assert it.next_step() == watch_from("10")
    assert pauses == [Pause(0.2), Pause(0.4), Pause(0.8)]
    assert it.sentence == (
        "waiting for fe: 1 of 2 ready; no answer from the API server: connection refused, trying again"
    )
    it.saw(bookmark("11"))
    it.unreachable("connection refused")
    assert it.next_step() == Pause(0.2)


def test_pauses_and_watches_of_many_pods_fall_apart() -> None:
    pauses, ends = set(), set()
    for chance in (0.0, 0.25, 0.75, 0.999):
        it = program(chance=chance)
        it.unreachable("away")
        pause = it.next_step()
        assert isinstance(pause, Pause)
        pauses.add(round(pause.seconds, 3))
        it.listed(listed())
        watch = it.next_step()
        assert isinstance(watch, Ask)
        ends.add(watch.query["timeoutSeconds"])
    assert pauses == {0.1, 0.15, 0.25, 0.3}
    assert ends == {"240", "300", "420", "479"}


def test_with_many_parents_the_whole_gang_is_asked_for() -> None:
    step = program({f"p{index}": 1 for index in range(51)}).next_step()
    assert isinstance(step, Ask)
    assert step.query["labelSelector"] == "grove.io/podgang=llm-0"
