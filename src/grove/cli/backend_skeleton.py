"""Write the package of a new backend from the templates in `skeleton/`."""

import keyword
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final

from grove import __version__
from grove.backends.registry import BUILT_INS
from grove.cli.talk import Failed
from grove.extensions import installed

_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")

#: Which template becomes which file; `$package` stands for the module's name.
FILES: Final = {
    "pyproject.toml.txt": "pyproject.toml",
    "README.md.txt": "README.md",
    "rbac.yaml.txt": "rbac.yaml",
    "init.py.txt": "src/$package/__init__.py",
    "py.typed.txt": "src/$package/py.typed",
    "backend.py.txt": "src/$package/backend.py",
    "conformance.py.txt": "src/$package/conformance.py",
    "test_conformance.py.txt": "tests/test_conformance.py",
}


def write(name: str, folder: Path) -> Iterator[Path]:
    """Write the package into a folder that does not exist yet; yields what was written."""
    _check(name)
    if folder.exists() or folder.is_symlink():
        raise Failed(f"{folder}: exists already; choose another with --directory")
    words = {
        "name": name,
        "package": f"grove_{name.replace('-', '_')}",
        "kind": "".join(part.capitalize() for part in name.split("-")),
        "grove": __version__,
    }
    texts = {Template(path).substitute(words): _text(template, words) for template, path in FILES.items()}
    try:
        for path, text in texts.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
            yield target
    except OSError as error:
        raise Failed(f"{error.filename or folder}: cannot be written: {error.strerror}") from None


def _check(name: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise Failed(
            f"{name!r}: a backend's name has at most 40 lower-case letters, digits and hyphens, "
            "begins with a letter and does not end with a hyphen"
        )
    if name in BUILT_INS:
        raise Failed(f"{name!r}: is a backend that ships with Grove; choose another name")
    if keyword.iskeyword(name):
        raise Failed(f"{name!r}: is a Python keyword; choose another name")
    for each in installed():
        if each.name == name:
            raise Failed(f"{name!r}: is a backend of {each.distribution} already; choose another name")


def _text(template: str, words: dict[str, str]) -> str:
    text = files("grove.cli").joinpath("skeleton", template).read_text(encoding="utf-8")
    return Template(text).substitute(words)
