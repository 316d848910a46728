"""What the server and the disruption controller both write into the status of a PodDisruptionBudget."""

from __future__ import annotations

from collections.abc import Iterable

from grove.embedded.errors import Manifest


def allowed(budget: Manifest, disruptions: int) -> Manifest:
    """The condition of a budget that allows so many disruptions; without its time."""
    return {
        "type": "DisruptionAllowed",
        "status": "True" if disruptions > 0 else "False",
        "reason": "SufficientPods" if disruptions > 0 else "InsufficientPods",
        "message": "",
        "observedGeneration": budget["metadata"].get("generation", 0),
    }


def with_condition(conditions: Iterable[Manifest], said: Manifest, now: str) -> list[Manifest]:
    """The conditions with one of them said anew; its time changes with its status only."""
    there = list(conditions)
    for index, found in enumerate(there):
        if found.get("type") == said["type"]:
            since = found.get("lastTransitionTime") if found.get("status") == said["status"] else now
            there[index] = {**said, "lastTransitionTime": since or now}
            return there
    return [*there, {**said, "lastTransitionTime": now}]
