"""Examples that every command and every group of commands shows in its help, in one table.

`wait-for` is a program of its own and has its own.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

import typer

_HasHelp: TypeAlias = typer.models.CommandInfo | typer.models.TyperInfo

#: By the words behind `grove`; a group is named by the word before those of its commands.
EXAMPLES: Final[dict[str, tuple[str, ...]]] = {
    "": (
        "grove demo",
        "grove render -f set.yaml",
        "grove install | kubectl apply --server-side -f -",
        "grove tree llm",
    ),
    "render": (
        "grove render -f set.yaml",
        "grove render -f examples/ -f https://example.com/set.yaml --backend all",
        "cat set.yaml | grove render -f - -o name",
    ),
    "crds": ("grove crds | kubectl apply --server-side -f -", "grove crds -o name"),
    "install": (
        "grove install | kubectl apply --server-side -f -",
        "grove install --set image.repository=registry.example.com/grove-operator",
        "grove install -f values.yaml -o json",
        "grove install -o name",
    ),
    "tree": (
        "grove tree",
        "grove tree llm --watch",
        "grove tree -A -o wide",
        "kubectl get $(grove tree llm -o name)",
    ),
    "run": ("grove run", "grove run --config config.yaml --log-format text --log-level debug"),
    "up": (
        "grove up",
        "grove up --nodes 16 --gpus 8 --racks 4",
        "grove up --control-plane real --kubernetes 1.37",
    ),
    "demo": ("grove demo",),
    "doctor": ("grove doctor", "grove doctor -n grove-system -o json"),
    "bundle": ("grove bundle", "grove bundle -n team-a --since 30m", "grove bundle -A --file grove.tar.gz"),
    "rollout": ("grove rollout status llm --watch", "grove rollout undo llm"),
    "rollout status": ("grove rollout status llm", "grove rollout status llm --watch --timeout 600"),
    "rollout history": ("grove rollout history llm",),
    "rollout pause": ("grove rollout pause llm",),
    "rollout resume": ("grove rollout resume llm",),
    "rollout undo": ("grove rollout undo llm",),
    "rollout restart": ("grove rollout restart llm",),
    "backend": ("grove backend list", "grove backend check acme"),
    "backend list": ("grove backend list", "grove backend list -o name"),
    "backend check": ("grove backend check", "grove backend check acme --context production"),
    "backend new": ("grove backend new acme",),
    "backend run": ("grove backend run acme --config config.yaml",),
    "config": ("grove config defaults > config.yaml", "grove config check config.yaml"),
    "config check": ("grove config check config.yaml", "grove config check config.yaml --strict -o json"),
    "config defaults": ("grove config defaults > config.yaml",),
    "config explain": ("grove config explain", "grove config explain server.webhooks"),
    "upgrade": ("grove upgrade plan --config config.yaml",),
    "upgrade plan": ("grove upgrade plan", "grove upgrade plan llm -n team-a --config config.yaml"),
    "completion": (
        "source <(grove completion bash)",
        "grove completion zsh > ~/.zfunc/_grove",
        "grove completion fish > ~/.config/fish/completions/grove.fish",
    ),
    "version": ("grove version", "grove version -o json"),
}


def show_examples(app: typer.Typer) -> None:
    """Put the examples at the end of the help of each command and each group."""
    for name, shown in _shown(app, ""):
        if name in EXAMPLES:
            # The first line keeps the lines apart.
            shown.epilog = "\b\n" + "\n".join(["Examples:", *(f"  {each}" for each in EXAMPLES[name])])


def _shown(app: typer.Typer, name: str) -> Iterator[tuple[str, _HasHelp]]:
    """A group and all that is below it, each by its words."""
    yield name, app.info
    before = f"{name} " if name else ""
    for command in app.registered_commands:
        called = command.name or (command.callback.__name__ if command.callback else "")
        yield f"{before}{called}", command
    for group in app.registered_groups:
        if group.typer_instance is not None:
            yield from _shown(group.typer_instance, f"{before}{group.typer_instance.info.name}")
