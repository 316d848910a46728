"""The configurations and Python examples of the documentation are valid and work."""

import ast
import asyncio
import importlib
from pathlib import Path
from typing import Any, Final

import pytest

from grove.cli.operating import configuration_from, warnings_about
from grove.testing import make
from grove.testing.world import World, run_world

from .transcripts import ROOT, blocks

PAGES: Final = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
EMBEDDED: Final = ROOT / "docs" / "guides" / "embedded-cluster.md"

_HEADER: Final = "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n"

#: Every operator configuration of a page, whole or in part, by page and line.
CONFIGURATIONS: Final = {
    f"{page.name}:{line}": text if text.startswith(_HEADER) else _HEADER + text
    for page in PAGES
    for line, _, text in blocks(page, "yaml")
    if text.startswith((_HEADER, "scheduler:\n", "limits:\n"))
}


@pytest.mark.parametrize("text", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_a_configuration_is_valid_and_every_key_of_it_is_read(text: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    assert warnings_about(str(file), configuration_from(str(file))) == []


def test_every_import_of_an_example_leads_somewhere() -> None:
    imports = [
        (node.module, alias.name)
        for page in PAGES
        for _, _, text in blocks(page, "python")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    ]
    assert len(imports) > 5
    for module, name in imports:
        found = importlib.import_module(module)
        assert hasattr(found, name) or importlib.import_module(f"{module}.{name}")


def example(number: int, **names: object) -> Any:
    """Execute a Python block of the guide to the embedded cluster: its names, or what is left to await."""
    _, _, text = blocks(EMBEDDED, "python")[number]
    code = compile(text, EMBEDDED.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    return eval(code, names) or names


def test_the_example_of_a_test_passes() -> None:
    example(0)["test_a_gang_that_fits_runs"]()


def test_the_example_of_a_fault_takes_the_answer_of_one_write() -> None:
    async def story(world: World) -> None:
        example(1, world=world)
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}))
        await world.settle()
        operator = world.options.operator_user.name
        lost = [entry for entry in world.cluster.requests if entry.status == 0]
        assert [(entry.user, entry.is_write) for entry in lost] == [(operator, True)]
        assert await world.phase("train-0") == "Running"

    run_world(story)


def test_the_example_of_a_cluster_alone_writes_a_kubeconfig(tmp_path: Path) -> None:
    asyncio.run(example(2, path=tmp_path / "kubeconfig"))
    assert "https://127.0.0.1:" in (tmp_path / "kubeconfig").read_text()
