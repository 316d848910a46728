"""The documentation leads somewhere and speaks of things that exist."""

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from scripts import edits, generate

from grove.api import conditions
from grove.backends.base import Edit, traits_of
from grove.backends.registry import BUILT_INS
from grove.backends.yunikorn.reading import ENDINGS
from grove.meta import Manifest
from grove.testing.conformance import BackendConformance
from grove.testing.kits import kit_for

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
TROUBLESHOOTING: Final = ROOT / "docs" / "guides" / "troubleshooting.md"

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE_BLOCK = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_QUOTED = re.compile(r"`([^`]+)`")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = _CODE_BLOCK.sub("", page.read_text())
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_its_heading(page: Path) -> None:
    broken = []
    for link in _LINK.findall(_CODE_BLOCK.sub("", page.read_text())):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_row_of_a_table_has_as_many_cells_as_its_head(page: Path) -> None:
    """A bar within a cell begins another one, in code as well, unless a backslash stands before it."""
    wrong, head = [], 0
    for line in _CODE_BLOCK.sub("", page.read_text()).splitlines():
        cells = len(re.split(r"(?<!\\)\|", line.strip())) if line.lstrip().startswith("|") else 0
        head = head if head and cells else cells
        if cells != head:
            wrong.append(line)
    assert wrong == []


def source() -> str:
    """Everything that the operator can say, strings that are split over lines joined."""
    text = "\n".join(path.read_text() for path in sorted((ROOT / "src" / "grove").rglob("*.py")))
    return re.sub(r'"\s*\n\s*f?"', "", text)


def rows(heading: str) -> list[list[str]]:
    """The rows of the tables between a heading of level two and the next one."""
    section = TROUBLESHOOTING.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ") and "`" in line]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_every_condition_and_reason_of_the_table_exists() -> None:
    code = source()
    words = {word for row in rows("Conditions and reasons") for word in _QUOTED.findall(row[0])}
    names = {re.sub("=(True|False|Unknown)$", "", word) for word in words}
    assert len(names) > 30
    assert [name for name in sorted(names) if f'"{name}"' not in code] == []


def test_every_condition_that_grove_gives_today_is_in_the_table() -> None:
    told = {word.split("=")[0] for row in rows("Conditions and reasons") for word in _QUOTED.findall(row[0])}
    assert {entry.type for entry in conditions.TABLE} <= told


def reasons_of_readings() -> dict[str, str]:
    """The reasons that backends give, as far as they are written down as such: reason to file."""
    found = {}
    for path in sorted((ROOT / "src" / "grove" / "backends").rglob("*.py")):
        tree = ast.parse(path.read_text())
        constants = {
            node.target.id: node.value.value
            for node in tree.body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
            if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        }
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            if node.func.id != "Reading" or len(node.args) < 2:
                continue
            reason = node.args[1]
            named = isinstance(reason, ast.Name) and constants.get(reason.id)
            text = reason.value if isinstance(reason, ast.Constant) else named
            if isinstance(text, str):
                found[text] = str(path.relative_to(ROOT))
    return found | dict.fromkeys(ENDINGS, "src/grove/backends/yunikorn/reading.py")


def test_every_reason_that_a_backend_gives_is_in_the_table_of_conditions() -> None:
    found = reasons_of_readings()
    assert len(found) > 8
    listed = {reason for entry in conditions.TABLE for reason in entry.reasons}
    assert {reason: where for reason, where in found.items() if reason not in listed} == {}


def test_every_reason_that_grove_gives_today_is_in_the_troubleshooting_guide() -> None:
    told = {word for row in rows("Conditions and reasons") for cell in row for word in _QUOTED.findall(cell)}
    reasons = {reason for entry in conditions.TABLE for reason in entry.reasons}
    assert reasons - told == set()


def test_every_event_of_the_code_is_in_the_table_and_the_other_way_round() -> None:
    code = (ROOT / "src" / "grove" / "controllers" / "events.py").read_text()
    sent = set(re.findall(r'Event\(\w+, (?:reason or )?"(\w+)"', code))
    told = {word for row in rows("Events") for word in _QUOTED.findall(row[1])}
    # Those of a gang whose scheduler objects cannot be put in place are the reasons of its condition.
    from_reasons = {
        conditions.PRECONDITION_MISSING,
        conditions.BACKEND_NOT_ENABLED,
        conditions.UNSUPPORTED,
        conditions.OWNERSHIP_CONFLICT,
        conditions.SYNC_FAILED,
    }
    assert told == sent | from_reasons


def test_every_sentence_of_the_operator_exists() -> None:
    code = re.sub(r"\{[^{}]*\}", "...", source())
    code = re.sub(r"(\.\.\.[ ,]?)+", "...", code)
    missing = []
    for row in rows("The operator"):
        for sentence in _QUOTED.findall(row[0]):
            parts = [
                part.strip(" (),") for part in re.sub(r"^(permissions|cache): ", "", sentence).split("...")
            ]
            if any(len(part) > 3 and part not in code for part in parts):
                missing.append(sentence)
    assert missing == []


def test_nothing_generated_is_out_of_date() -> None:
    assert generate.stale(generate.wanted()) == []


def test_every_edit_of_every_backend_has_a_cell() -> None:
    page = edits.files()["edits.md"]
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    head, body = table[0], table[2:]
    assert head[2:] == [f"running, `{name}`" for name in BUILT_INS]
    assert [row[0] for row in body] == list(edits.FIELDS)
    known = {edits.IN_PLACE, edits.NEW_PODS, edits.UPDATE, edits.WAITS, edits.REFUSED, edits.UNSUPPORTED}
    assert {entry for row in body for cell in row[1:] for entry in cell.split(" / ")} <= known


def test_a_backend_that_can_tell_its_scheduler_of_an_edit_has_it_in_place() -> None:
    def cell(edit: Callable[[Manifest], None], kit: BackendConformance) -> str:
        return edits.edited_by(edit).running(kit, kit.contexts()[0])

    kits = {name: kit for name in BUILT_INS if (kit := kit_for(name)) is not None}
    by_edit = {
        Edit.MINIMUM: edits.FIELDS["`minAvailable` of a role"],
        Edit.PRIORITY: edits.FIELDS["`priorityClassName`"],
        Edit.TOPOLOGY: edits.FIELDS["`topologyConstraint` of the set, preferred"],
    }
    assert set(by_edit) == set(Edit)
    for kit in kits.values():
        backend, context = kit.backend, kit.contexts()[0]
        able = traits_of(backend, context).editable
        for each, edit in by_edit.items():
            assert cell(edit, kit) == (edits.IN_PLACE if each in able else edits.WAITS)
