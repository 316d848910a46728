"""Read manifests as people write them: files, folders, URLs, `-`; several documents, Lists, YAML or JSON.

Promises one sentence for every mistake, with the file and the place. Refuses what a quiet reader would get
wrong: keys that are given twice. Never interprets what the objects mean.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from grove.cli.talk import Refused
from grove.meta import Manifest
from grove.words import value_in_words, yaml_problem

_SCHEMES: Final = ("https://", "http://")
_SUFFIXES: Final = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Document:
    """One object and where it was written; `place` starts every sentence about it."""

    place: str
    manifest: Manifest

    @property
    def kind(self) -> str:
        return str(self.manifest.get("kind") or "")

    @property
    def api_version(self) -> str:
        return str(self.manifest.get("apiVersion") or "")


class _Loader(yaml.SafeLoader):
    """YAML as the API server reads it: no dates, no key twice."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> Manifest:
    loader.flatten_mapping(node)
    seen: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            key = key_node.value
        if key in seen:
            raise yaml.MarkedYAMLError(
                problem=f"key {key!r} is given twice", problem_mark=key_node.start_mark
            )
        seen[key] = loader.construct_object(value_node, deep=True)
    return seen


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
# Kubernetes has no dates: 2026-01-01 is text, as it is for kubectl.
_Loader.add_constructor("tag:yaml.org,2002:timestamp", lambda loader, node: str(node.value))


def read(paths: list[str]) -> list[Document]:
    """Every object in the files, in order; a folder stands for the manifests right in it, by name."""
    documents: list[Document] = []
    for path in paths:
        if path.startswith(_SCHEMES):
            from grove.cli.download import download, without_credentials

            documents += parse(download(path), without_credentials(path))
        else:
            for each in _files(path):
                documents += parse(_text(each), "standard input" if each == "-" else each)
    return documents


def _files(path: str) -> list[str]:
    folder = Path(path)
    if path == "-" or not folder.is_dir():
        return [path]
    found = sorted(str(each) for each in folder.iterdir() if each.suffix in _SUFFIXES and each.is_file())
    if not found:
        raise Refused([f"{path}: is a folder without manifests ({', '.join(_SUFFIXES)})"])
    return found


def parse(text: str, name: str) -> list[Document]:
    """Every object in the text; Lists are opened."""
    try:
        loaded = [each for each in yaml.load_all(text, Loader=_Loader) if each is not None]
    except yaml.YAMLError as error:
        raise Refused([yaml_problem(error).at(name)]) from None
    found = []
    for number, value in enumerate(loaded, start=1):
        place = name if len(loaded) == 1 else f"{name}: document {number}"
        found += list(_opened(value, place))
    return found


def _opened(value: object, place: str) -> Iterator[Document]:
    if not isinstance(value, dict):
        raise Refused([f"{place}: must be an object with apiVersion and kind, not {value_in_words(value)}"])
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field), str) or not value[field]:
            raise Refused([f"{place}: {field}: is required"])
    if value["apiVersion"] == "v1" and value["kind"] == "List":
        for index, item in enumerate(value.get("items") or ()):
            yield from _opened(item, f"{place}: items[{index}]")
        return
    yield Document(place, value)


def _text(path: str) -> str:
    if path == "-":
        return sys.stdin.read()
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise Refused([f"{path}: cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError:
        raise Refused([f"{path}: is not text in UTF-8"]) from None
