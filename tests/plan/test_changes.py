"""Diffs: only owned fields count, and nothing is sent when nothing differs."""

from dataclasses import dataclass
from typing import Any

import pytest

from grove.meta import Manifest
from grove.plan.changes import Exactly, difference, replacing, without_absent


@dataclass(frozen=True)
class Case:
    desired: Manifest
    observed: Manifest
    want: Manifest


CASES = {
    "equal fields give an empty patch": Case({"a": 1, "b": {"c": [1]}}, {"a": 1, "b": {"c": [1]}}, {}),
    "fields we do not own are left alone": Case({"a": 1}, {"a": 1, "theirs": 2}, {}),
    "a differing scalar is sent alone": Case({"a": 2, "b": 1}, {"a": 1, "b": 1}, {"a": 2}),
    "a nested difference is sent with its path": Case(
        {"m": {"x": 1, "y": 2}}, {"m": {"x": 1}}, {"m": {"y": 2}}
    ),
    "None removes what is there": Case({"a": None}, {"a": 1}, {"a": None}),
    "None agrees with absent, null and empty": Case(
        {"a": None, "b": None, "c": None}, {"a": None, "b": ""}, {}
    ),
    "a differing list is sent whole": Case({"l": [1, 2]}, {"l": [1]}, {"l": [1, 2]}),
    "items may carry fields that the server filled in": Case(
        {"l": [{"name": "a"}]}, {"l": [{"name": "a", "filled": True}]}, {}
    ),
    "the order of a list counts": Case({"l": [1, 2]}, {"l": [2, 1]}, {"l": [1, 2]}),
    "a list that came back as null agrees with an empty one": Case({"l": []}, {"l": None}, {}),
    "an empty mapping that an item lacks is sent": Case(
        {"l": [{"a": 1, "all": {}}]}, {"l": [{"a": 1}]}, {"l": [{"a": 1, "all": {}}]}
    ),
    "an empty mapping that an item must not have is taken away": Case(
        {"l": [{"a": 1, "all": None}]}, {"l": [{"a": 1, "all": {}}]}, {"l": [{"a": 1}]}
    ),
    "an empty text in an item agrees with none": Case({"l": [{"m": None}]}, {"l": [{"m": ""}]}, {}),
    "an empty text is taken away from a list that must be exactly so": Case(
        {"l": Exactly([{"a": 1}])}, {"l": [{"a": 1, "none": ""}]}, {"l": [{"a": 1}]}
    ),
    "a list that is exactly so is not sent": Case({"l": Exactly([{"a": 1}])}, {"l": [{"a": 1}]}, {}),
    "an empty mapping stays where something else of the item is sent": Case(
        {"l": [{"a": 2, "all": {}, "b": None}]}, {"l": [{"a": 1, "all": {}}]}, {"l": [{"a": 2, "all": {}}]}
    ),
    "what the server filled into an empty mapping of an item is left alone": Case(
        {"l": [{"all": {}}]}, {"l": [{"all": {"filled": 1}}]}, {}
    ),
    "a mapping of nothing but absences agrees with none": Case({"l": [{"m": {"a": None}}]}, {"l": [{}]}, {}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_difference(case: Case) -> None:
    assert difference(case.desired, case.observed) == case.want


@dataclass(frozen=True)
class Replacement:
    desired: Any
    observed: Any
    want: Any


REPLACEMENTS = {
    "a key that is gone becomes null": Replacement({"a": 1}, {"a": 1, "b": 2}, {"a": 1, "b": None}),
    "at any depth": Replacement({"m": {"a": 1}}, {"m": {"a": 1, "b": 2}}, {"m": {"a": 1, "b": None}}),
    "also inside the items of a list": Replacement([{"a": 1}], [{"a": 1, "b": 2}], [{"a": 1, "b": None}]),
    "a list of another length is taken as it is": Replacement([{"a": 1}], [], [{"a": 1}]),
}


@pytest.mark.parametrize("case", REPLACEMENTS.values(), ids=REPLACEMENTS)
def test_replacing(case: Replacement) -> None:
    assert replacing(case.desired, case.observed) == case.want


def test_a_new_object_does_not_mention_what_must_be_absent() -> None:
    manifest = {"spec": {"a": None, "b": [], "c": [{"d": None, "e": 1}]}}
    assert without_absent(manifest) == {"spec": {"b": [], "c": [{"e": 1}]}}
