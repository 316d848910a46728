"""When a pod that failed is replaced, and what is said about it."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from grove.api import labels
from grove.api.clique import PodClique
from grove.api.pod import Pod
from grove.plan.failures import failed_sentence, failures_in_a_row, how_it_failed, resting
from grove.testing import make

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
CLIQUE = make.clique("train-0-worker", 3, labels={labels.POD_TEMPLATE_HASH: "template-2"})


def failed(
    before: int, lived: float, *, index: int = 0, template: str = "template-2", **fields: object
) -> Pod:
    """A pod that failed now after so many others in its place, created so many seconds ago."""
    given: dict[str, object] = {
        "annotations": {labels.FAILURES: str(before)} if before else {},
        "labels": {labels.POD_TEMPLATE_HASH: template},
        "phase": "Failed",
        "node": "n1",
        **fields,
    }
    pod = make.pod("train-0-worker", index, **given)  # type: ignore[arg-type]
    born = (NOW - timedelta(seconds=lived)).isoformat()
    return replace(pod, metadata=replace(pod.metadata, creation_timestamp=born))


RESTING: dict[str, tuple[Pod, float]] = {
    "the first failure costs no pause": (failed(0, 1), 0),
    "after the second, pods are ten seconds apart": (failed(1, 1), 9),
    "who lived for longer than the pause is replaced at once": (failed(1, 11), 0),
    "each pause is twice as long": (failed(3, 1), 39),
    "no pause is longer than five minutes": (failed(40, 1), 299),
    "a pod that worked for ten minutes starts from the beginning": (failed(5, 601), 0),
    "a pod of an earlier template is replaced at once": (failed(5, 1, template="template-1"), 0),
    "a pod that is going is no longer there": (failed(5, 1, deleted=True), 0),
    "a pod that its scheduler ended before it was placed does not": (failed(5, 1, node=""), 0),
    "a pod that runs does not": (failed(5, 1, phase="Running"), 0),
    "what somebody wrote into the annotation is no number": (
        failed(0, 1, annotations={labels.FAILURES: "many"}),
        0,
    ),
}


@pytest.mark.parametrize(("pod", "want"), RESTING.values(), ids=RESTING)
def test_resting(pod: Pod, want: float) -> None:
    assert resting(CLIQUE, [pod], NOW) == ({pod.name: pytest.approx(want)} if want else {})


COUNTS: dict[str, tuple[Pod, dict[str, int]]] = {
    "the first": (failed(0, 1, name="a"), {"a": 1}),
    "the fourth": (failed(3, 1, name="a"), {"a": 4}),
    "the first again": (failed(3, 601, name="a"), {"a": 1}),
    "the first with this template": (failed(3, 1, name="a", template="template-1"), {}),
    "none": (failed(3, 1, name="a", phase="Running"), {}),
}


@pytest.mark.parametrize(("pod", "want"), COUNTS.values(), ids=COUNTS)
def test_failures_in_a_row(pod: Pod, want: dict[str, int]) -> None:
    assert failures_in_a_row(CLIQUE, [pod], NOW) == want


def evicted(pod: Pod) -> Pod:
    return replace(pod, status=replace(pod.status, reason="Evicted", message="The node was low on memory."))


def sentence(clique: PodClique, *pods: Pod) -> str:
    return failed_sentence(clique, pods, NOW)


def test_the_sentence_names_the_pod_that_is_replaced_next_and_how_it_ended() -> None:
    first, second = evicted(failed(2, 5, name="a")), failed(3, 5, name="b", index=1)
    assert sentence(CLIQUE, second, first) == (
        "pod a failed on node n1 (Evicted: The node was low on memory.), the 3rd in its place in a row, and is "
        "replaced at 2026-01-01T12:00:15Z; and 1 more"
    )
    assert sentence(CLIQUE, failed(0, 5)) == ""


@pytest.mark.parametrize(("before", "want"), [(1, "2nd"), (10, "11th"), (20, "21st"), (22, "23rd")])
def test_failures_are_counted_as_people_do(before: int, want: str) -> None:
    assert f"the {want} in its place" in sentence(CLIQUE, failed(before, 1))


def test_what_a_pod_says_about_its_end_is_repeated() -> None:
    assert how_it_failed(failed(0, 1, name="a")) == "pod a failed on node n1"
    assert how_it_failed(failed(0, 1, name="a", node="")) == "pod a failed"
    assert (
        how_it_failed(evicted(failed(0, 1, name="a")))
        == "pod a failed on node n1 (Evicted: The node was low on memory.)"
    )
