"""Updates and earlier templates as text and as data: the words of `grove rollout`. Pure; decides nothing."""

import difflib
from collections.abc import Sequence
from datetime import datetime

from grove.api.cliqueset import PodCliqueSet
from grove.cli.talk import Format, dumped
from grove.meta import Manifest
from grove.plan.update.history import HistoryEntry, pod_templates
from grove.plan.update.revisions import recorded_revision
from grove.view.rollout import RolloutView
from grove.words import duration_in_words

_HEADINGS = ("REVISION", "NAME", "REPLICAS", "PRESENT", "AGE", "ROLES THAT DIFFER")


def status_lines(view: RolloutView, now: datetime) -> list[str]:
    """How far an update is: one line, then whose turn it is, then what it waits for."""
    words = [
        f"PodCliqueSet {view.key}",
        view.stage,
        f"{view.updated} of {view.replicas} replicas updated and available",
        f"{view.available} available in all",
    ]
    for what, counts in (("cliques", view.cliques), ("scaling groups", view.groups)):
        if counts is not None and counts[1]:
            words.append(f"{what} {counts[0]} of {counts[1]}")
    words.append(f"strategy {view.strategy}")
    lines = ["  ".join(words)]
    for turn in view.turns:
        since = f" for {duration_in_words((now - turn.since).total_seconds())}" if turn.since else ""
        lines.append(f"   turn: replica {turn.replica}{since}")
    if view.message:
        lines.append(f"   waits: {view.message}")
    return lines


def status_data(view: RolloutView) -> Manifest:
    """How far an update is, for programs."""
    data: Manifest = {
        "name": view.key.name,
        "namespace": view.key.namespace,
        "strategy": view.strategy,
        "stage": view.stage.name.replace("_", " ").title().replace(" ", ""),
        "finished": view.finished,
        "replicas": view.replicas,
        "updatedReplicas": view.updated,
        "availableReplicas": view.available,
    }
    if view.cliques is not None:
        data |= {"updatedPodCliques": view.cliques[0], "podCliques": view.cliques[1]}
    if view.groups is not None:
        data |= {"updatedScalingGroups": view.groups[0], "scalingGroups": view.groups[1]}
    if view.turns:
        data["turns"] = [
            {"replica": turn.replica, "since": turn.since.isoformat() if turn.since else None}
            for turn in view.turns
        ]
    if view.message:
        data["message"] = view.message
    return data


def history_table(entries: Sequence[HistoryEntry], now: datetime) -> list[str]:
    """The recorded templates, one in a line."""
    rows = [_HEADINGS, *(_row(entry, now) for entry in entries)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    return [
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _row(entry: HistoryEntry, now: datetime) -> tuple[str, ...]:
    created = entry.record.metadata.creation_timestamp
    seconds = (now - datetime.fromisoformat(created)).total_seconds() if created else 0.0
    return (
        str(entry.number),
        entry.record.name,
        str(entry.followers),
        "yes" if entry.present else "",
        duration_in_words(seconds).replace(" ", ""),
        ", ".join(entry.changed),
    )


def history_data(entries: Sequence[HistoryEntry]) -> list[Manifest]:
    """The recorded templates, for programs."""
    return [
        {
            "revision": entry.number,
            "name": entry.record.name,
            "replicas": entry.followers,
            "present": entry.present,
            "created": entry.record.metadata.creation_timestamp,
            "differs": list(entry.changed),
        }
        for entry in entries
    ]


def difference(cliqueset: PodCliqueSet, entry: HistoryEntry) -> list[str]:
    """What going back to a recorded template would change, as a diff for each role; empty for nothing."""
    then = recorded_revision(cliqueset, entry.record, "")
    before = pod_templates(cliqueset.template)
    after = pod_templates(then.template) if then is not None else {}
    found: list[str] = []
    for name in dict.fromkeys((*before, *after)):
        old, new = _text(before.get(name)), _text(after.get(name))
        titles = f"{name}, present", f"{name}, revision {entry.number}"
        found += difflib.unified_diff(old, new, *titles, lineterm="", n=5)
    return found


def _text(value: Manifest | str | None) -> list[str]:
    if value is None or isinstance(value, str):
        return [value] if value else []
    return dumped(value, Format.YAML).splitlines()
