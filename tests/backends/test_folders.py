"""A built-in backend is one folder: what is particular to its scheduler stands in files of its own."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import grove
from grove.backends import folders
from grove.backends.registry import BUILT_INS
from grove.backends.sample import sample_of
from grove.embedded.actors.schedulers.simulators import SIMULATORS
from grove.testing.kits import kit_for

ROOT = Path(grove.__file__).parent
OTHERS = tuple(name for name in BUILT_INS if name != "default")
NAMES = re.compile("|".join((*OTHERS, "koord")), re.IGNORECASE)
#: Where a scheduler may be named: files of its own, and tables with a line for each.
OWN = [
    pattern
    for name in OTHERS
    for pattern in (
        f"backends/{name}/*.py",
        f"testing/kits/{name}.py",
        f"embedded/actors/schedulers/{name}*.py",
    )
]
TABLES = [
    "backends/registry.py",
    "embedded/actors/schedulers/simulators.py",
    # How the schedulers' own programs are built and started.
    "real/third_party.py",
    "real/schedulers.py",
]


def words_of(source: str) -> Iterator[tuple[int, str]]:
    """Every identifier and every string of a module, with its line; docstrings and comments are prose."""
    tree = ast.parse(source)
    prose = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield line, node.value
        for field in ("id", "attr", "arg", "name", "asname", "module"):
            if isinstance(word := getattr(node, field, None), str):
                yield line, word


def named(source: str) -> list[str]:
    return [f"{line}: {word}" for line, word in words_of(source) if NAMES.search(word)]


def test_schedulers_are_named_only_in_files_of_their_own_and_in_tables() -> None:
    own = {path for pattern in (*OWN, *TABLES) for path in ROOT.glob(pattern)}
    found = {
        str(path.relative_to(ROOT)): lines
        for path in sorted(ROOT.rglob("*.py"))
        if path not in own and (lines := named(path.read_text(encoding="utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize("pattern", [*OWN, *TABLES])
def test_every_place_that_may_name_a_scheduler_exists_and_does(pattern: str) -> None:
    assert any(named(path.read_text(encoding="utf-8")) for path in ROOT.glob(pattern))


def test_a_name_is_found_in_code_and_not_in_prose() -> None:
    assert named('"""About Volcano."""\n# kai\nx = 1') == []
    assert named("x = 'kai-scheduler'") == ["1: kai-scheduler"]
    assert named("from grove.backends.volcano import x") == ["1: grove.backends.volcano"]


def test_every_folder_is_a_backend_with_a_sample_a_simulator_and_a_kit() -> None:
    assert set(folders()) == set(BUILT_INS) == set(SIMULATORS)
    for name in folders():
        assert sample_of(name).title
        assert kit_for(name) is not None


@pytest.mark.parametrize("name", OTHERS)
def test_a_sample_serves_what_its_backend_needs(name: str) -> None:
    from grove.backends.base import Context

    sample = sample_of(name)
    context = Context(sample.cluster("1.36"), sample.preview_config)
    backend = BUILT_INS[name]()
    assert [each for each in backend.resources(context) if not context.cluster.serves(each)] == []
    assert bool(backend.resources(context)) == sample.has_objects
