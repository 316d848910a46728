"""Every row of the museum has a test, and every test there belongs to a row."""

import importlib.util
import inspect
from collections.abc import Iterator
from pathlib import Path

from tests.museum.rows import ROWS

FOLDER = Path(__file__).parent


def shown() -> Iterator[tuple[str, str]]:
    """The tests of all other modules here, each with its docstring."""
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
                yield f"{path.name}:{name}", " ".join((function.__doc__ or "").split())


def test_every_row_has_a_test_and_every_test_belongs_to_a_row() -> None:
    told = dict(shown())
    rows = {f"{source}: {sentence}." for source, sentence in ROWS.items()}
    assert {name for name, text in told.items() if text not in rows} == set()
    assert rows - set(told.values()) == set()
