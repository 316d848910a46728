"""Commands, metrics and columns that the documentation shows exist, and those that exist are shown."""

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

import grove.cli
from grove import errors
from grove.api.crd import definitions
from grove.backends.base import Context, traits_of
from grove.backends.registry import BUILT_INS, Registry
from grove.cli.main import app
from grove.runtime.metric_table import TABLE

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SOURCES: Final = sorted((ROOT / "src" / "grove").rglob("*.py"))

_CALLED = re.compile(r"(?:^|`|\$ |bin/)grove ([a-z][^`#|\n]*)", re.MULTILINE)
_MADE = re.compile(r"(?:^|`|\$ )make ([a-z0-9-]+(?: [A-Z]+=[^\s`]*)*)", re.MULTILINE)
_MODULE = re.compile(r"\bpython -m ([\w.]+)(?: (tests/\S*?)(?=[\s`]))?")
_HELP = CliRunner()


def help_of(words: tuple[str, ...]) -> str:
    """What a command says to --help; empty when there is no such command."""
    result = _HELP.invoke(app, [*words, "--help"])
    return result.output if result.exit_code == 0 else ""


def commands() -> set[str]:
    return set(re.findall(r"^  ([a-z]+)  ", help_of(()).split("Commands:")[1], re.MULTILINE))


def calls() -> Iterator[tuple[str, str]]:
    """Every call of `grove` in the documentation, with its page."""
    for page in PAGES:
        for call in _CALLED.findall(page.read_text()):
            yield str(page.relative_to(ROOT)), call.strip()


@pytest.mark.parametrize(("page", "call"), sorted(set(calls())))
def test_a_command_in_the_documentation_exists_with_its_options(page: str, call: str) -> None:
    words = call.split()
    name = tuple(words[: 2 if words[0] in ("backend", "config", "rollout", "upgrade") else 1])
    text = help_of(name)
    assert text, f"{page}: there is no `grove {' '.join(name)}`"
    options = [word.strip("[]") for word in words if word.strip("[]").startswith("-") and word != "-"]
    assert [option for option in options if not re.search(rf"{option}\b", text)] == []


def test_every_call_of_make_names_a_target_and_variables_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    variables = set(re.findall(r"\$\((?:if \$\()?([A-Z_]+)\)", makefile))
    called = [call.split() for page in PAGES for call in _MADE.findall(page.read_text())]
    assert len(called) > 20
    assert {words[0] for words in called} - targets == set()
    assert {word.split("=")[0] for words in called for word in words[1:]} - variables == set()


def test_every_module_and_test_folder_that_is_run_exists() -> None:
    called = {call for page in PAGES for call in _MODULE.findall(page.read_text())}
    assert {"grove.real", "pytest"} <= {module for module, _ in called}
    assert [module for module, _ in called if importlib.util.find_spec(module) is None] == []
    assert [path for _, path in called if path and not (ROOT / path).exists()] == []


def test_the_module_of_the_commands_names_all_of_them() -> None:
    listed = " ".join((grove.cli.__doc__ or "").split()).split(": ")[1].split(".")[0]
    assert set(listed.split(", ")) == commands()


def test_every_metric_is_in_the_table_and_the_other_way_round() -> None:
    """The table is one module; all others only name what it has."""
    texts = [path.read_text() for path in SOURCES if path.name != "metric_table.py"]
    asked = {name for text in texts for name in re.findall(r'"(grove_\w+)"', text)} - {"grove_log_fields"}
    assert len(asked) > 30
    assert asked - set(TABLE) == set()
    # Those of the webhooks are made where the webhooks are.
    assert {name for name in TABLE if not name.startswith("grove_webhook_")} - asked == set()


def test_every_metric_that_a_guide_names_exists() -> None:
    suffixes = "_bucket", "_sum", "_count"
    known = set(TABLE) | {
        name + end for name, row in TABLE.items() if row.kind == "histogram" for end in suffixes
    }
    told = {name for page in PAGES for name in re.findall(r"\b(grove_[a-z_]+)\b", page.read_text())}
    assert {"grove_gangs", "grove_leader"} <= told
    assert told - known - {"grove_initc"} == set()


def config_keys(backend: str) -> set[str]:
    return set(traits_of(BUILT_INS[backend](), Context()).config_keys or ())


def test_every_key_that_a_backend_reads_of_its_profile_is_in_the_table() -> None:
    page = (ROOT / "docs" / "guides" / "configuration.md").read_text()
    rows = page.split("| profile | key | meaning |")[1].split("\n\n")[0].splitlines()
    told: dict[str, set[str]] = {}
    profile, registry = "", Registry.of(list(BUILT_INS), "default")
    for cells in (row.split("|") for row in rows):
        if len(cells) > 3 and "`" in cells[2]:
            profile = cells[1].strip(" `") or profile
            backend = registry.find(profile)
            assert backend is not None
            told.setdefault(backend.name, set()).add(cells[2].strip(" `"))
    assert told == {name: config_keys(name) for name in BUILT_INS}


@pytest.mark.parametrize("name", BUILT_INS)
def test_a_backend_names_every_key_that_it_reads_of_its_profile(name: str) -> None:
    texts = [path.read_text() for path in SOURCES if path.parent.parts[-2:] == ("backends", name)]
    read = {key for text in texts for key in re.findall(r'config\.get\("(\w+)"', text)}
    assert read
    assert config_keys(name) == read


def test_every_annotation_of_the_simulated_cluster_is_in_a_guide() -> None:
    code = "\n".join(path.read_text() for path in SOURCES)
    known = set(re.findall(r"embedded\.grove\.io/[a-z-]+", code))
    told = {key for page in PAGES for key in re.findall(r"embedded\.grove\.io/[a-z-]+", page.read_text())}
    assert len(known) > 5
    assert told == known


def test_tables_of_kubectl_have_the_columns_that_it_shows() -> None:
    known = {
        ("NAME", *(column["name"].upper() for column in columns if not column.get("priority")))
        for definition in definitions()
        for columns in [definition["spec"]["versions"][0]["additionalPrinterColumns"]]
    }
    shown = {
        tuple(re.split(r"\s{2,}", line.strip()))
        for page in PAGES
        for line in re.findall(r"^NAME +(?:PHASE|REPLICAS|MINAVAIL) .*$", page.read_text(), re.MULTILINE)
    }
    assert len(shown) == 3
    assert shown - known == set()


def test_the_tree_of_errors_names_every_error() -> None:
    drawn = errors.__doc__ or ""
    found = {
        name
        for path in SOURCES
        if "embedded" not in path.parts
        for name in re.findall(
            r"^class (\w+)\((?:GroveError|Terminal|Waiting|ApiError)\)", path.read_text(), re.M
        )
    }
    assert len(found) > 15
    assert {name for name in found if name not in drawn} == set()
