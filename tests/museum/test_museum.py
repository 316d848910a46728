"""Every row of the museum has a test, and every test there belongs to a row."""

import importlib.util
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from tests.museum.rows import NEEDS, ROWS

FOLDER = Path(__file__).parent


def shown() -> Iterator[tuple[str, str, bool]]:
    """The tests of all other modules here, each with its docstring and whether it may be skipped."""
    for path in sorted(FOLDER.glob("test_*.py")):
        if path == Path(__file__):
            continue
        specification = importlib.util.spec_from_file_location(f"shown_{path.stem}", path)
        assert specification is not None
        assert specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if name.startswith("test_") and function.__module__ == module.__name__:
                marks = [*getattr(function, "pytestmark", ()), *marks_of(module)]
                skipped = any(mark.name in ("skip", "skipif", "xfail") for mark in marks)
                yield f"{path.name}:{name}", " ".join((function.__doc__ or "").split()), skipped


def marks_of(module: ModuleType) -> list[pytest.Mark]:
    found = getattr(module, "pytestmark", [])
    return [each.mark for each in (found if isinstance(found, list) else [found])]


def test_every_row_has_a_test_and_every_test_belongs_to_a_row() -> None:
    told = {name: text for name, text, _ in shown()}
    rows = {f"{source}: {sentence}." for source, sentence in ROWS.items()}
    assert {name for name, text in told.items() if text not in rows} == set()
    assert rows - set(told.values()) == set()


def test_a_row_with_a_test_that_may_be_skipped_says_so_and_has_another_one_that_may_not() -> None:
    rows = {f"{source}: {sentence}.": source for source, sentence in ROWS.items()}
    may_be_skipped = {rows[text] for _, text, skipped in shown() if skipped}
    always_run = {rows[text] for _, text, skipped in shown() if not skipped}
    assert may_be_skipped == set(NEEDS)
    assert always_run == set(ROWS)
