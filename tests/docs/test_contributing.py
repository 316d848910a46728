"""What CONTRIBUTING says about the source is so."""

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Final

import pytest

from grove.backends import base

ROOT: Final = Path(__file__).resolve().parents[2]
CONTRIBUTING: Final = (ROOT / "CONTRIBUTING.md").read_text()
BACKENDS_GUIDE: Final = (ROOT / "docs" / "guides" / "backends.md").read_text()
SOURCES: Final = sorted((ROOT / "src" / "grove").rglob("*.py"))

LINES_OF_A_MODULE: Final = 600
LINES_OF_A_FUNCTION: Final = 40

#: Functions that were longer when this test was written, by module and name; in which package the module lies
#: does not matter. An entry may go, none may come.
LONG_FUNCTIONS: Final = frozenset(
    {
        "api.accept",
        "api.create",
        "build.go",
        "cache.add",
        "cliques.desired_clique",
        "gangs.desired_gang",
        "patching._apply",
        "planes.real_plane",
        "schedulers._volcano",
        "scheduling.__init__",
        "up.up",
        "yunikorn_rules.placeholder",
    }
)


def functions() -> Iterator[tuple[str, int]]:
    """Every function by module and name, with the number of its lines."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.stem}.{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1


def test_no_module_is_longer_than_its_limit() -> None:
    modules = [*SOURCES, *(ROOT / "tests").rglob("*.py")]
    lengths = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in modules}
    assert {name: lines for name, lines in lengths.items() if lines > LINES_OF_A_MODULE} == {}
    assert f"{LINES_OF_A_MODULE} the limit" in CONTRIBUTING


def test_no_function_becomes_longer_than_its_limit() -> None:
    too_long = {name for name, lines in functions() if lines > LINES_OF_A_FUNCTION}
    assert too_long - LONG_FUNCTIONS == set()
    assert LONG_FUNCTIONS - too_long == set(), "these are short by now: take them off the list"
    assert f"at most {LINES_OF_A_FUNCTION} lines" in CONTRIBUTING


def test_every_package_of_the_core_is_checked_to_be_pure() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (pure,) = [
        each["source_modules"]
        for each in settings["tool"]["importlinter"]["contracts"]
        if each["name"].startswith("The core is pure")
    ]
    told = CONTRIBUTING.partition("The core (")[2].partition(")")[0]
    assert {f"grove.{name}" for name in re.findall(r"`(\w+)`", told)} == set(pure)


def test_the_pictures_of_the_layers_are_the_checked_contracts() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = [each["layers"] for each in contracts if each["type"] == "layers"]
    pictures = re.findall(r"```\n(.*?)\n```", CONTRIBUTING, re.DOTALL)
    assert [each.split("\n") for each in pictures] == [
        [line.replace("grove.", "") for line in each] for each in layers
    ]


def test_both_guides_name_every_optional_protocol_of_backends_and_no_other() -> None:
    protocols = {
        name
        for name, each in vars(base).items()
        if isinstance(each, type) and getattr(each, "_is_runtime_protocol", False)
        if each.__module__ == base.__name__
    }
    assert protocols >= {"WithTraits", "WithLifecycle"}
    step = (
        CONTRIBUTING.split("## Adding a scheduler backend")[1].split(" are optional")[0].split("base.py)")[1]
    )
    assert set(re.findall(r"`(\w+)`", step)) == protocols
    table = BACKENDS_GUIDE.split("| protocol | for a scheduler that |")[1].split("\n3. ")[0]
    assert set(re.findall(r"^ *\| `(\w+)` \|", table, re.MULTILINE)) == protocols


def test_every_verb_of_make_is_in_the_table() -> None:
    makefile = (ROOT / "Makefile").read_text()
    verbs = set(re.findall(r"^([a-z0-9-]+):.*", makefile, re.MULTILINE)) - {"help"}
    told = set(re.findall(r"`make ([a-z0-9-]+)`", CONTRIBUTING.split("## House rules")[0]))
    assert told == verbs


@pytest.mark.parametrize(
    ("heading", "answer"),
    [("The fields of `Traits`:", base.Traits), ("The fields of a `Lifecycle`:", base.Lifecycle)],
)
def test_the_guide_names_every_field_of_what_a_backend_answers_and_no_other(
    heading: str, answer: type[base.Traits | base.Lifecycle]
) -> None:
    section = BACKENDS_GUIDE.split(heading)[1].split("\n### ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == {each.name for each in fields(answer)}


GLOSSARY: Final = re.compile(r"^\| ([^|`]+) \| ([^|]+) \| ((?:`[\w/]+\.py`(?:, )?)+) \|$", re.MULTILINE)


def glossary() -> list[tuple[str, str, list[str]]]:
    """The rows of the glossary: word, meaning, modules."""
    section = CONTRIBUTING.partition("## Glossary")[2].partition("\n## ")[0]
    rows = [row for row in section.splitlines() if row.startswith("| ")][1:]
    found = [
        (word, meaning, re.findall(r"`([^`]+)`", where)) for word, meaning, where in GLOSSARY.findall(section)
    ]
    assert len(found) == len(rows), "every row names a word, its meaning and modules"
    return found


def test_the_modules_of_the_glossary_exist() -> None:
    named = {module for _, _, modules in glossary() for module in modules}
    found = {
        module for module in named for root in (ROOT, ROOT / "src" / "grove") if (root / module).is_file()
    }
    assert named - found == set()


def test_no_word_of_the_glossary_is_explained_twice() -> None:
    words = [word for row, _, _ in glossary() for word in row.split(", ")]
    assert len(words) >= 25
    assert sorted(words) == sorted(set(words))
