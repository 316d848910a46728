"""Numbers and nouns agree."""

import pytest

from grove.plan.clique_status import desired_clique_status
from grove.testing import make
from grove.testing.virtual_time import EPOCH
from grove.words import counted, duration_in_words, file_problem

CASES = {
    "none": (counted(0, "pod"), "0 pods"),
    "one": (counted(1, "pod"), "1 pod"),
    "many": (counted(2, "pod"), "2 pods"),
    "one that does something": (counted(1, "pod is", "pods are"), "1 pod is"),
    "many that do": (counted(2, "pod is", "pods are"), "2 pods are"),
}


@pytest.mark.parametrize(("found", "want"), CASES.values(), ids=CASES)
def test_what_is_counted_agrees_with_its_number(found: str, want: str) -> None:
    assert found == want


@pytest.mark.parametrize(
    ("seconds", "want"),
    [(0, "0 s"), (40.2, "40 s"), (90, "1 m 30 s"), (3600, "1 h"), (11520, "3 h 12 m"), (90061, "1 d 1 h")],
)
def test_a_duration_is_told_in_its_two_largest_units(seconds: float, want: str) -> None:
    assert duration_in_words(seconds) == want


def test_a_clique_of_one_pod_speaks_of_one_pod() -> None:
    clique = make.clique("t-0-a", 1)
    pod = make.pod("t-0-a", 0, node="n1", ready=True)
    said = {
        each["type"]: each["message"]
        for each in desired_clique_status(clique, [pod], now=EPOCH)["conditions"]
    }
    assert said == {
        "PodCliqueScheduled": "1 pod is placed on a node, at least 1 is needed",
        "MinAvailableBreached": "1 pod is ready or starting, at least 1 is needed",
        "MinAvailableReached": "1 pod was placed and working",
        "Ready": "1 of 1 pods are ready",
        "Available": "1 pod is ready, at least 1 is needed",
        "Progressing": "",
    }


@pytest.mark.parametrize(
    ("error", "want"),
    [
        (FileExistsError(17, "File exists", "/data/x"), "/data/x: exists already"),
        (
            NotADirectoryError(20, "Not a directory", "/data/x/y"),
            "/data/x/y: is below something that is no folder",
        ),
        (OSError(5, "Input/output error", "/data"), "/data: input/output error"),
        (FileExistsError("x describes another cluster"), "x describes another cluster"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_by_its_path_and_without_a_number(
    error: OSError, want: str
) -> None:
    assert file_problem(error) == want
