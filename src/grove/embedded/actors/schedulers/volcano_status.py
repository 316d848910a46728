"""What Volcano's scheduler writes into a PodGroup: phase, conditions that are never taken back, events.

A PodGroup has no status subresource, so these writes go to the object itself, beside those of its owner.
"""

from __future__ import annotations

from collections.abc import Sequence

from grove.embedded.actors.events import EventWriter
from grove.embedded.actors.objects import MERGE, condition, key_of, node_of, phase_of, uid_of
from grove.embedded.actors.schedulers.volcano_rules import PODGROUPS, minimum_of, ready_words
from grove.embedded.clock import Clock, rfc3339
from grove.embedded.errors import ApiError, Manifest
from grove.embedded.local import ActorClient

NOT_ENOUGH = "NotEnoughResources"
READY = "tasks in gang are ready to be scheduled"


class Secretary:
    """Writes about PodGroups; that one has changed or gone meanwhile is no error."""

    def __init__(self, client: ActorClient, clock: Clock, events: EventWriter) -> None:
        self._client = client
        self._clock = clock
        self._events = events

    async def refused(self, group: Manifest, pods: Sequence[Manifest], text: str) -> None:
        """The gang does not fit; a gang of which something runs is called Unknown."""
        phase = "Unknown" if any(phase_of(pod) == "Running" for pod in pods) else "Inqueue"
        told = self._condition("Unschedulable", NOT_ENOUGH, text)
        if _says(group, told) and _phase(group) == phase:
            return
        await self._patch(group, {"phase": phase, "conditions": _with(group, told)})
        await self._events.write(group, "Unschedulable", text, kind="Warning")

    async def started(self, group: Manifest, pods: Sequence[Manifest]) -> None:
        """The gang has just been placed; it is Inqueue for another cycle, with a warning that is none."""
        told = self._condition("Scheduled", READY, "")
        await self._patch(group, {"phase": "Inqueue", "conditions": _with(group, told)})
        await self._events.write(
            group, "Unschedulable", ready_words(group.get("spec") or {}, pods), kind="Warning"
        )
        await self._events.write(group, "Scheduled", "pod group is ready")

    async def running(self, group: Manifest, pods: Sequence[Manifest]) -> None:
        """Enough pods are bound, which Volcano calls Running whatever they do."""
        bound = [pod for pod in pods if node_of(pod)]
        enough = bool(bound) and len(bound) >= minimum_of(group.get("spec") or {})
        wanted: Manifest = {"phase": "Running" if enough else _phase(group) or "Inqueue"}
        if count := sum(phase_of(pod) == "Running" for pod in bound):
            wanted["running"] = count
        status = group.get("status") or {}
        if any(status.get(name) != value for name, value in wanted.items()):
            await self._patch(group, wanted)

    def _condition(self, kind: str, reason: str, text: str) -> Manifest:
        told: Manifest = {
            "type": kind,
            "status": "True",
            "reason": reason,
            "lastTransitionTime": rfc3339(self._clock.now()),
        }
        return {**told, "message": text} if text else told

    async def _patch(self, group: Manifest, status: Manifest) -> None:
        patch = {"metadata": {"uid": uid_of(group)}, "status": status}
        try:
            await self._client.patch(PODGROUPS.path(key_of(group)), patch, content_type=MERGE)
        except (ApiError, OSError, TimeoutError):
            return


def _phase(group: Manifest) -> str:
    return str((group.get("status") or {}).get("phase") or "")


def _says(group: Manifest, wanted: Manifest) -> bool:
    found = condition(group, wanted["type"])
    return all(found.get(name) == wanted.get(name) for name in ("status", "reason", "message"))


def _with(group: Manifest, wanted: Manifest) -> list[Manifest]:
    """All conditions, one of them renewed; the others stay, true or not."""
    kept = [
        each for each in (group.get("status") or {}).get("conditions") or () if each["type"] != wanted["type"]
    ]
    return [*kept, wanted]
