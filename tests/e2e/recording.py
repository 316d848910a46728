"""What real control planes did, kept in the tree: `recorded/<judge>.json`, a scenario to its outcome."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.scenarios import SCENARIOS, Outcome

FOLDER = Path(__file__).resolve().parent / "recorded"


def recorded(judge: str) -> dict[str, Outcome]:
    path = FOLDER / f"{judge}.json"
    if not path.exists():
        return {}
    found: dict[str, Outcome] = json.loads(path.read_text(encoding="utf-8"))
    return found


def record(judge: str, name: str, outcome: Outcome) -> None:
    """Puts one outcome down; those of scenarios that are no more go."""
    known = {**recorded(judge), name: outcome}
    kept = {each: known[each] for each in SCENARIOS if each in known}
    FOLDER.mkdir(exist_ok=True)
    text = json.dumps(kept, indent=2, ensure_ascii=False)
    (FOLDER / f"{judge}.json").write_text(f"{text}\n", encoding="utf-8")
