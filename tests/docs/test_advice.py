"""What troubleshooting advises about a condition is done by a test, or it is said why by none."""

import ast
from pathlib import Path

from tests.docs.advice import ADVICE, ELSEWHERE, NOTHING
from tests.docs.test_docs import rows

TESTS = Path(__file__).parents[1]
#: By row, what to do.
TOLD = {row[0]: row[-1] for row in rows("Conditions and reasons")}


def test_every_row_has_tests_or_a_reason_why_there_are_none() -> None:
    assert len(rows("Conditions and reasons")) == len(TOLD), "two rows are about the same"
    assert sorted(ADVICE.keys() ^ TOLD.keys()) == []
    assert [row for row, advice in ADVICE.items() if not (advice.tests or advice.lacks)] == []


def test_nothing_is_to_be_done_exactly_where_the_row_says_so() -> None:
    assert {row for row, advice in ADVICE.items() if advice is NOTHING} == {
        row for row, told in TOLD.items() if told == "–"
    }


def test_a_row_that_only_says_where_to_look_names_the_place() -> None:
    places = ("See ", "Look at ", "As for ", "Item ", "kubectl get ", "](")
    lost = [row for row, advice in ADVICE.items() if advice is ELSEWHERE]
    assert [row for row in lost if not any(place in TOLD[row] for place in places)] == []


def test_every_test_that_is_named_exists() -> None:
    named = {test for advice in ADVICE.values() for test in advice.tests}
    files = {name.partition("::")[0] for name in named}
    there = {f"{file}::{function}" for file in files for function in functions_of(TESTS / file)}
    assert sorted(named - there) == []


def functions_of(file: Path) -> set[str]:
    """The names of the functions of a module."""
    return {node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)}
