"""The recorded answers: one file for each minor, with where each answer came from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.contract.contract import Observation

FOLDER = Path(__file__).parent / "goldens"
Origin = Literal["real", "embedded"]


@dataclass(frozen=True, slots=True)
class Golden:
    """What a check must observe. `embedded` means that no real server has been asked yet."""

    origin: Origin
    want: Observation


def load(minor: str) -> dict[str, Golden]:
    path = FOLDER / f"{minor}.json"
    if not path.exists():
        return {}
    entries = json.loads(path.read_text(encoding="utf-8"))
    return {name: Golden(entry["origin"], entry["want"]) for name, entry in entries.items()}


def save(minor: str, goldens: dict[str, Golden]) -> None:
    """Writes the file: one entry to a line, sorted, so that a change reads well as a diff."""
    lines = [
        f"  {json.dumps(name)}: {json.dumps({'origin': golden.origin, 'want': golden.want}, sort_keys=True)}"
        for name, golden in sorted(goldens.items())
    ]
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{minor}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
