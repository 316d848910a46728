"""Find what nothing uses: public names of `src/grove` that only their own definition, or tests, mention.

Functions, classes, methods and constants count as used when their name is mentioned anywhere in `src/grove`,
`bench` or `scripts` outside their own definition: as a name, an attribute, an import, a keyword or a word of
a string. `__all__` and docstrings do not count. Names are compared without their owners, so that a method
passes if anything else with its name is used; fields of classes are not looked at. What is offered to others
is listed in `ALLOWED` with the reason.
"""

import ast
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
DEFINED_IN: Final = "src/grove"
USED_IN: Final = ("src/grove", "bench", "scripts")

#: By pattern of `module:name`, why it may stay although nothing here mentions it.
ALLOWED: Final[Mapping[str, str]] = {
    "grove.api.labels:*": "the vocabulary of the API is whole, also where a feature is not built yet",
    "grove.cli.backend:list_": "a command, registered by its decorator",
    "grove.embedded.cluster:EmbeddedCluster.*": "a cluster for the tests of users too, faults included",
    "grove.embedded.kinds.registry:Registry.by_kind": "the kind of a manifest, by which rules are tested",
    "grove.kube.http_connection:HttpConnection.connection_*": "asyncio calls it",
    "grove.kube.http_connection:HttpConnection.data_received": "asyncio calls it",
    "grove.kube.http_connection:HttpConnection.eof_received": "asyncio calls it",
    "grove.kube.http_connection:HttpConnection.pause_writing": "asyncio calls it",
    "grove.runtime.queue:Queue.delayed": "how a queue with timers is looked at, as `len` is for the others",
    "grove.testing.*": "the kit that backends and scenarios are tested with, here and in other packages",
}

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Defined:
    """A public name, where it is defined, and how often its own definition mentions it."""

    module: str
    name: str
    line: int
    own: int

    @property
    def place(self) -> str:
        return f"{self.module}:{self.name}"


def mentions(node: ast.AST) -> Counter[str]:
    """How often a tree mentions each identifier, without its definitions and what `__all__` lists."""
    found: Counter[str] = Counter()
    for each in _walk(node):
        match each:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                found[name] += 1
            case ast.ImportFrom(names=names):
                found.update(alias.name for alias in names)
            case ast.Constant(value=str(text)):
                # Annotations in quotes, `getattr`, and the paths of hooks such as `module:function`.
                found.update({word for word in _words(text) if word.isidentifier()})
            case ast.MatchClass(kwd_attrs=names):
                found.update(names)
    return found


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Assign) and _names(child) == ["__all__"]:
            continue
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue
        yield from _walk(child)


def _words(text: str) -> list[str]:
    return text.replace(".", " ").replace(":", " ").split() if len(text) <= 200 else []


def definitions(module: str, tree: ast.Module) -> Iterator[Defined]:
    """The public functions, classes, methods and constants of a module."""
    for node in tree.body:
        if isinstance(node, _Definition) and not node.name.startswith("_"):
            yield Defined(module, node.name, node.lineno, mentions(node)[node.name])
            if isinstance(node, ast.ClassDef):
                yield from _methods(module, node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for name in _names(node):
                if name.isupper() and not name.startswith("_"):
                    yield Defined(module, name, node.lineno, 0)


def _methods(module: str, owner: ast.ClassDef) -> Iterator[Defined]:
    for node in owner.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield Defined(module, f"{owner.name}.{node.name}", node.lineno, mentions(node)[node.name])


def _names(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [each.id for each in targets if isinstance(each, ast.Name)]


def unused(root: Path, allowed: Mapping[str, str] = ALLOWED) -> list[Defined]:
    """What nothing mentions but its own definition, and no entry of `allowed` covers."""
    used: Counter[str] = Counter()
    defined: list[Defined] = []
    for folder in USED_IN:
        for path in sorted((root / folder).rglob("*.py")):
            tree = ast.parse(path.read_text(), str(path))
            used.update(mentions(tree))
            if folder == DEFINED_IN:
                defined += definitions(_module(root, path), tree)
    return [each for each in defined if _is_unused(each, used) and not _covers(allowed, each.place)]


def _is_unused(each: Defined, used: Counter[str]) -> bool:
    return used[each.name.rpartition(".")[2]] <= each.own


def _module(root: Path, path: Path) -> str:
    parts = path.relative_to(root / "src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _covers(allowed: Iterable[str], place: str) -> bool:
    return any(fnmatchcase(place, pattern) for pattern in allowed)


def main() -> int:
    """Name what is unused, one line each."""
    found = unused(ROOT)
    for each in found:
        print(f"{each.place} (line {each.line}) is used by nothing but tests: remove it, or say why it stays")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
