"""Examples that every command shows in its help, in one table; a command may have its own instead."""

from collections.abc import Iterator
from typing import Final

import typer

EXAMPLES: Final[dict[str, tuple[str, ...]]] = {
    "render": (
        "grove render -f set.yaml",
        "grove render -f examples/ -f https://example.com/set.yaml --backend all",
        "cat set.yaml | grove render -f - -o name",
    ),
    "crds": ("grove crds | kubectl apply --server-side -f -", "grove crds -o name"),
    "install": (
        "grove install | kubectl apply --server-side -f -",
        "grove install -n grove-system --set image.repository=registry.example.com/grove-operator",
        "grove install -f values.yaml -o json",
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
    "rollout status": ("grove rollout status llm", "grove rollout status llm --watch --timeout 600"),
    "rollout history": ("grove rollout history llm",),
    "rollout pause": ("grove rollout pause llm",),
    "rollout resume": ("grove rollout resume llm",),
    "rollout undo": ("grove rollout undo llm",),
    "rollout restart": ("grove rollout restart llm",),
    "backend list": ("grove backend list", "grove backend list -o name"),
    "backend check": ("grove backend check", "grove backend check acme --context production"),
    "backend new": ("grove backend new acme",),
    "backend run": ("grove backend run acme --config config.yaml",),
    "config check": ("grove config check config.yaml", "grove config check config.yaml --strict -o json"),
    "config defaults": ("grove config defaults > config.yaml",),
    "config explain": ("grove config explain", "grove config explain server.webhooks"),
    "upgrade plan": ("grove upgrade plan", "grove upgrade plan llm -n team-a --config config.yaml"),
    "completion": (
        "source <(grove completion bash)",
        "grove completion zsh > ~/.zfunc/_grove",
        "grove completion fish > ~/.config/fish/completions/grove.fish",
    ),
    "version": ("grove version", "grove version -o json"),
}


def show_examples(app: typer.Typer) -> None:
    """Put the examples at the end of the help of each command."""
    for name, command in _commands(app, ""):
        if name in EXAMPLES and not command.epilog:
            # The first line keeps the lines apart.
            command.epilog = "\b\n" + "\n".join(["Examples:", *(f"  {each}" for each in EXAMPLES[name])])


def _commands(app: typer.Typer, prefix: str) -> Iterator[tuple[str, typer.models.CommandInfo]]:
    for command in app.registered_commands:
        called = command.name or (command.callback.__name__ if command.callback else "")
        yield f"{prefix}{called}", command
    for group in app.registered_groups:
        if group.typer_instance is not None:
            name = group.typer_instance.info.name
            yield from _commands(group.typer_instance, f"{prefix}{name} ")
