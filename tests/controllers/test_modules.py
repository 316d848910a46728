"""Every module of `controllers/` has a module of tests of its own."""

from pathlib import Path

import grove.controllers

TESTS = Path(__file__).parent
CODE = Path(grove.controllers.__file__).parent

#: No decisions: the first only names what the others depend on; the second builds events as data, whose
#: reasons and sentences `tests/docs` compares with the documentation.
NOTHING_TO_DECIDE = {"dependencies.py", "events.py"}
#: Under another name, because one question goes through all of the module.
UNDER_ANOTHER_NAME = {"schedulers/scheduling.py": "schedulers/test_traits.py"}


def modules() -> set[str]:
    return {str(path.relative_to(CODE)) for path in CODE.rglob("*.py") if path.name != "__init__.py"}


def has_tests(module: str) -> bool:
    path = Path(module)
    own = path.parent / f"test_{path.name}"
    return (TESTS / UNDER_ANOTHER_NAME.get(module, own)).exists()


def test_every_module_of_controllers_has_tests_of_its_own() -> None:
    assert sorted(each for each in modules() - NOTHING_TO_DECIDE if not has_tests(each)) == []


def test_what_has_tests_or_is_gone_is_no_exception_any_more() -> None:
    assert sorted(each for each in NOTHING_TO_DECIDE if each not in modules() or has_tests(each)) == []
