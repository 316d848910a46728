"""`scripts/unused.py` finds what only its own definition, or tests, mention."""

from pathlib import Path

from scripts.unused import ALLOWED, unused

MODULE = """
USED = 1
LONELY = 2
__all__ = ["LONELY", "recursive"]

def called():
    return USED

def recursive():
    "recursive is mentioned by itself and by this text only"
    return recursive()

def _private(): ...

class Thing:
    field: int = 0

    def turned(self): ...

    def idle(self): ...

class Hooked: ...
"""
USES = """
from grove.sample import called
called().turned(hook="grove.sample:Hooked")
Thing()
"""
TESTS = """
from grove.sample import LONELY, recursive
Thing().idle()
"""


def checkout(root: Path) -> Path:
    files = {"src/grove/sample.py": MODULE, "bench/uses.py": USES, "tests/test_sample.py": TESTS}
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def test_what_only_its_definition_or_tests_mention_is_found(tmp_path: Path) -> None:
    found = [each.place for each in unused(checkout(tmp_path), {})]
    assert found == ["grove.sample:LONELY", "grove.sample:recursive", "grove.sample:Thing.idle"]


def test_what_is_allowed_is_not_named(tmp_path: Path) -> None:
    allowed = {"grove.sample:Thing.*": "offered", "grove.sample:[Lr]*": "offered"}
    assert unused(checkout(tmp_path), allowed) == []


def test_here_nothing_is_unused_and_every_exception_has_a_reason() -> None:
    root = Path(__file__).parents[2]
    assert [each.place for each in unused(root)] == []
    assert all(ALLOWED.values())
