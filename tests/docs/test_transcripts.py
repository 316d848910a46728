"""The commands of the documentation are carried out, and print what the pages show."""

import fnmatch
import re
from pathlib import Path
from typing import Final

import pytest
from tests.cli.processes import KUBECTL

from .terminals import terminals
from .transcripts import ROOT, Step, agrees, blocks, steps

PAGES: Final = ["README.md", *sorted(str(page.relative_to(ROOT)) for page in ROOT.glob("docs/guides/*.md"))]

#: Commands that are not carried out here, as patterns of the shell, and why.
NOT_RUN: Final = {
    "make setup": "it installs packages",
    "make demo": "tests/cli/test_demo.py compares it",
    "make real*": "it builds Kubernetes with Go",
    "make e2e*": "it needs what `make real` builds",
    "python -m grove.real install*": "it needs what `make real` builds",
    "grove up --control-plane real*": "it needs what `make real` builds; tests/cli/test_up_real.py",
    "grove up --no-operator": "other pages begin with it",
    "grove up --data-dir*": "tests/cli/test_up_data.py",
    "grove backend check": "it takes seconds; tests/extensions/test_commands.py",
    "grove backend run*": "its configuration is in a container; tests/cli/test_backend_run.py",
    "kubectl -n grove-system scale deployment*": "nothing of the Go operator runs here",
    "kubectl -n grove-system delete deployment*": "nothing of the Go operator runs here",
    "kubectl -n grove-system wait pod*": "nothing of the Go operator runs here",
    "kubectl -n grove-system * secret*": "no operator serves webhooks here",
    "kubectl * *webhookconfiguration*": "no operator serves webhooks here",
    "docker *": "it needs a container engine and a registry",
    "helm *": "it needs what `make helm` builds; tests/deploy/test_chart.py",
    "grove install*": "its webhooks need the operator's container; tests/deploy/test_manifests.py",
    "kubectl -n grove-system rollout status*": "no container runs on the embedded cluster",
}

#: What a page takes for granted, in commands before its first one.
BEFORE: Final = {
    "docs/guides/backends.md": ["grove up --no-operator"],
    "docs/guides/bundle.md": ["grove up"],
    "docs/guides/disruption.md": ["grove up"],
    "docs/guides/migration.md": ["grove up"],
    "docs/guides/installation.md": ["grove up --no-operator", "grove crds | kubectl delete -f -"],
    "docs/guides/real-cluster.md": [
        "grove up --no-operator",
        "grove crds | kubectl delete -f -",
        "kubectl create namespace grove-system",
    ],
    "docs/guides/troubleshooting.md": ["grove up", "kubectl apply -f examples/too-big.yaml"],
}

_CONFIGURATION: Final = "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n"

#: What a page takes for granted, as the text of its `config.yaml`.
CONFIGURATIONS: Final = {
    "docs/guides/configuration.md": (
        f"{_CONFIGURATION}logLevel: loud\nscheduler: {{profiles: [{{name: slurm}}]}}\n"
    ),
    "docs/guides/migration.md": _CONFIGURATION,
    "docs/guides/real-cluster.md": (
        f"{_CONFIGURATION}logFormat: text\nleaderElection: {{enabled: true}}\n"
        "server: {healthProbes: {bindAddress: 127.0.0.1, port: 0}, metrics: {bindAddress: 127.0.0.1, port: 0}}\n"
    ),
}


def run_here(page: str) -> list[Step]:
    """The steps of a page that are carried out."""
    return [
        step
        for step in steps(ROOT / page)
        if not any(fnmatch.fnmatchcase(step.command, each) for each in NOT_RUN)
    ]


@pytest.mark.skipif(
    not KUBECTL.exists(), reason="there is no kubectl in .venv; `make setup-dev` puts one there"
)
@pytest.mark.parametrize("page", [page for page in PAGES if run_here(page)])
def test_the_commands_of_a_page_print_what_it_shows(page: str, tmp_path: Path) -> None:
    files = {"config.yaml": CONFIGURATIONS[page]} if page in CONFIGURATIONS else {}
    with terminals(tmp_path, files) as reader:
        for command in BEFORE.get(page, []):
            reader.follow(Step(f"before {page}", command))
        for step in run_here(page):
            reader.follow(step)


def test_commands_between_the_lines_work(tmp_path: Path) -> None:
    """Those that need no cluster, and leave nothing open that a reader has to fill in."""
    text = "".join((ROOT / page).read_text() for page in PAGES)
    found = set(re.findall(r"`(grove (?:render|backend new)\b[^`<|]*)`", text))
    assert "grove render -f examples/disaggregated.yaml --backend all" in found
    with terminals(tmp_path) as reader:
        for command in sorted(found - {"grove render"}):
            reader.follow(Step("between the lines", command))


def test_every_command_that_is_not_carried_out_is_on_a_page() -> None:
    commands = [step.command for page in PAGES for step in steps(ROOT / page)]
    assert [each for each in NOT_RUN if not fnmatch.filter(commands, each)] == []


@pytest.mark.parametrize("page", PAGES)
def test_a_block_with_commands_is_marked_as_one(page: str) -> None:
    unmarked = "".join(text for _, _, text in blocks(ROOT / page, "", "bash", "shell", "text"))
    assert re.findall(r"^(?:\$ |grove:? |kubectl |make ).*", unmarked, re.MULTILINE) == []


AGREE: Final = {
    "an age": ("train-0   3s    fits\n", "train-0   1m2s   fits\n"),
    "the end of a pod's name": ("train-0-worker-76qsx   3s\n", "train-0-worker-bcdfg   3s\n"),
    "a port": ("at https://127.0.0.1:1 with\n", "at https://127.0.0.1:46437 with\n"),
    "where a pod is": ("10.64.0.2   node-0   <none>\n", "10.64.1.13  node-12  <none>\n"),
    "the width of a column": ("NAME   AGE\nb      3s\n", "NAME      AGE\nb         3s\n"),
    "lines left out": ("first\n[...]\nlast\n", "first\nsecond\nthird\nlast\n"),
    "lines left out, with a word about them": ("first\n[... the rest ...]\n", "first\nsecond\n"),
    "no line left out": ("first\n[...]\nlast\n", "first\nlast\n"),
    "a part of a line left out": ("export A=...\n", "export A=/b/c\n"),
}
DIFFER: Final = {
    "another word": ("train-0   Running   3s\n", "train-0   Pending   3s\n"),
    "another number": ("4 of 4 pods placed.\n", "3 of 4 pods placed.\n"),
    "another name": ("train-0-worker-76qsx   3s\n", "train-1-worker-76qsx   3s\n"),
    "a line more": ("first\n", "first\nsecond\n"),
    "a line less": ("first\nsecond\n", "first\n"),
    "another order": ("first\nsecond\n", "second\nfirst\n"),
    "another indentation": ("   └─ Pod\n", "└─ Pod\n"),
    "nothing": ("first\n", ""),
}


@pytest.mark.parametrize(("shown", "printed"), AGREE.values(), ids=AGREE)
def test_what_differs_from_run_to_run_is_not_compared(shown: str, printed: str) -> None:
    assert agrees(shown, printed)


@pytest.mark.parametrize(("shown", "printed"), DIFFER.values(), ids=DIFFER)
def test_everything_else_is_compared(shown: str, printed: str) -> None:
    assert not agrees(shown, printed)
