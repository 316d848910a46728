"""Status throttling: writes an object's status at most once a reconcile, later if more changes are expected.

A pod's way from created to ready changes its clique's and its gang's status several times within moments;
`pacing` decides when the result is written. The transition time of a condition is the moment when its change
was observed, however long the status was held back.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from grove.controllers.apply import Applier, WriteBarrier
from grove.controllers.pacing import StatusThrottle
from grove.meta import Key, Manifest, Object, Resource
from grove.plan.changes import Patch, difference
from grove.plan.urgency import Urgency
from grove.runtime.outcome import DONE, After, Outcome


@dataclass(frozen=True, slots=True)
class ReportResult:
    """What a report led to: whether the status was written, and when to look again."""

    written: bool
    outcome: Outcome
    #: The conditions as they were written, with the times at which they turned.
    conditions: tuple[Manifest, ...] = ()


#: By type of condition, the status that it changed to and when that was observed.
_Transitions = dict[str, tuple[str, str]]


class Reporter:
    """Compares statuses, holds them back while they settle, and writes them."""

    def __init__(self, applier: Applier, throttle: StatusThrottle) -> None:
        self._applier = applier
        self._throttle = throttle
        #: The transitions that were observed and are not written yet.
        self._transitions: dict[tuple[Resource, Key], _Transitions] = {}

    async def report(
        self,
        resource: Resource,
        about: Object,
        status: Manifest,
        *,
        barrier: WriteBarrier,
        urgency: Urgency = Urgency.SETTLED,
    ) -> ReportResult:
        """Write what differs of a status, now or soon; only if the object is still as it was observed."""
        subject = (resource, about.key)
        # The status alone: the spec of a large gang names a thousand pods.
        observed = msgspec.to_builtins(getattr(about, "status", None)) or {}
        changed = difference(status, observed)
        if not changed:
            self._throttle.settled(subject)
            self._transitions.pop(subject, None)
            return ReportResult(False, DONE)
        if "conditions" in changed:
            self._keep_times(subject, changed["conditions"], observed.get("conditions") or ())
        reworded = _is_reworded(changed, observed)
        wait = self._throttle.wait(subject, barrier, urgency, reworded=reworded)
        if wait > 0:
            return ReportResult(False, After(wait, "the status is debounced"))
        self._throttle.written(subject, reworded=reworded)
        self._transitions.pop(subject, None)
        version = about.metadata.resource_version
        change = Patch(
            resource, about.key, {"status": changed}, subresource="status", resource_version=version
        )
        applied = await self._applier.apply([change], barrier=barrier, key=about.key)
        applied.raise_failure()
        # Nothing was written of an object that is gone by now.
        return ReportResult(subject in applied.versions, DONE, tuple(changed.get("conditions") or ()))

    def forget(self, resource: Resource, key: Key) -> None:
        """The object is gone."""
        self._throttle.forget((resource, key))
        self._transitions.pop((resource, key), None)

    def _keep_times(
        self, subject: tuple[Resource, Key], conditions: Iterable[Manifest], written: Iterable[Manifest]
    ) -> None:
        """Give conditions the times at which their transitions were first observed, changing them."""
        before = {each["type"]: each["status"] for each in written}
        known, kept = self._transitions.get(subject, {}), {}
        for each in conditions:
            kind, status = each["type"], each["status"]
            if before.get(kind) == status:
                continue
            if kind in known and known[kind][0] == status:
                each["lastTransitionTime"] = known[kind][1]
            kept[kind] = (status, each["lastTransitionTime"])
        if kept:
            self._transitions[subject] = kept
        else:
            self._transitions.pop(subject, None)


def _is_reworded(changed: Manifest, observed: Manifest) -> bool:
    """Whether a status says the same as before in other words: only messages differ."""
    if not changed.keys() <= {"message", "conditions"}:
        return False
    after = {_meaning(each) for each in changed.get("conditions") or ()}
    return "conditions" not in changed or after == {
        _meaning(each) for each in observed.get("conditions") or ()
    }


def _meaning(condition: Manifest) -> tuple[object, ...]:
    return tuple(condition.get(key) for key in ("type", "status", "reason", "observedGeneration"))
