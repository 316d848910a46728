"""Keeps the status of PodDisruptionBudgets: how many of their pods are healthy and how many may go.

The part of the disruption controller. A pod that is ready and is not being deleted is healthy, unless an
eviction of it was allowed and is not seen yet. Writes nothing but the statuses of budgets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from grove.embedded.actors.mirror import Mirrors
from grove.embedded.actors.objects import (
    PODS,
    Key,
    Resource,
    condition,
    is_absent,
    is_deleting,
    key_of,
    labels_of,
)
from grove.embedded.actors.work import Work
from grove.embedded.clock import Clock, parse_rfc3339, rfc3339
from grove.embedded.errors import ApiError, Manifest
from grove.embedded.local import ActorClient
from grove.embedded.machinery.budgets import allowed, with_condition
from grove.embedded.machinery.selectors import matches_label_selector

BUDGETS: Final = Resource("policy", "v1", "poddisruptionbudgets", kind="PodDisruptionBudget")
DELETION_TIMEOUT: Final = timedelta(minutes=2)
"""A pod whose eviction was allowed and that is not deleted by then will not be."""


class Finding(NamedTuple):
    """The status that a budget should have, and when to look again although nothing changed."""

    status: Manifest
    again: float | None = None


def find_status(budget: Manifest, pods: Sequence[Manifest], now: datetime) -> Finding:
    """What is true of a budget that covers these pods."""
    before = budget.get("status") or {}
    unseen = _unseen(before.get("disruptedPods") or {}, pods, now)
    healthy = sum(_is_healthy(pod) and pod["metadata"]["name"] not in unseen for pod in pods)
    needed = needed_healthy(budget.get("spec") or {}, len(pods))
    left = max(0, healthy - needed) if pods else 0
    said = with_condition(before.get("conditions") or (), allowed(budget, left), rfc3339(now))
    status: Manifest = {
        "currentHealthy": healthy,
        "desiredHealthy": needed,
        "expectedPods": len(pods),
        "disruptionsAllowed": left,
        "observedGeneration": budget["metadata"].get("generation", 0),
        "conditions": said,
    }
    if unseen:
        status["disruptedPods"] = dict(unseen)
    ends = [parse_rfc3339(since) + DELETION_TIMEOUT for since in unseen.values()]
    return Finding(status, (min(ends) - now).total_seconds() if ends else None)


def needed_healthy(spec: Manifest, expected: int) -> int:
    """How many of the covered pods a disruption budget wants to stay healthy."""
    if spec.get("maxUnavailable") is not None:
        return max(0, expected - _share(spec["maxUnavailable"], expected))
    if spec.get("minAvailable") is not None:
        return _share(spec["minAvailable"], expected)
    return 0


def _share(value: object, expected: int) -> int:
    """A number, or a percentage of the expected pods rounded up."""
    text = str(value)
    if text.endswith("%"):
        return -(-int(text[:-1]) * expected // 100)
    return int(text)


def _unseen(taken: Mapping[str, str], pods: Iterable[Manifest], now: datetime) -> dict[str, str]:
    """Since when evictions are allowed of pods that nobody has deleted yet."""
    living = {pod["metadata"]["name"] for pod in pods if not is_deleting(pod)}
    return {
        name: since
        for name, since in taken.items()
        if name in living and parse_rfc3339(since) + DELETION_TIMEOUT > now
    }


def _is_healthy(pod: Manifest) -> bool:
    return not is_deleting(pod) and condition(pod, "Ready").get("status") == "True"


class DisruptionController:
    """Runs until cancelled."""

    def __init__(self, client: ActorClient, clock: Clock, *, mirrors: Mirrors | None = None) -> None:
        self._client = client
        self._clock = clock
        self._own_mirrors = None if mirrors else Mirrors(client)
        self._mirrors = mirrors or self._own_mirrors or Mirrors(client)
        self._by_anchor: dict[Anchor, dict[Key, None]] = {}
        self._covered: dict[Key, dict[Key, None]] = {}
        self._work: Work[Key] = Work("disruption", self._step, workers=4)

    async def run(self) -> None:
        try:
            self._pods = self._mirrors.of(PODS)
            self._budgets = self._mirrors.of(BUDGETS)
            # Pods first: a budget that is counted before them would allow too little for a moment.
            await self._mirrors.synced(PODS)
            self._budgets.subscribe(self._budget_changed)
            self._pods.subscribe(self._pod_changed)
            await self._work.run()
        finally:
            if self._own_mirrors:
                await self._own_mirrors.close()

    def _budget_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        key = key_of(_either(old, new))
        if _selector(old) != _selector(new) or key not in self._covered:
            self._forget(key, old)
            if new is not None:
                self._by_anchor.setdefault(_anchor(new), {})[key] = None
                found = (pod for pod in self._pods if _covers(new, pod))
                self._covered[key] = dict.fromkeys(key_of(pod) for pod in found)
        if new is not None:
            self._work.add(key)

    def _forget(self, key: Key, budget: Manifest | None) -> None:
        self._covered.pop(key, None)
        self._work.forget(key)
        if budget is not None:
            self._by_anchor.get(_anchor(budget), {}).pop(key, None)

    def _pod_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        before = set(self._covering(old)) if old is not None else set()
        after = set(self._covering(new)) if new is not None else set()
        pod = key_of(_either(old, new))
        for key in before | after:
            if key in after:
                self._covered[key][pod] = None
            else:
                self._covered[key].pop(pod, None)
            self._work.add(key)

    def _covering(self, pod: Manifest) -> Iterator[Key]:
        namespace = key_of(pod)[0]
        anchors = [Anchor(namespace), *(Anchor(namespace, *pair) for pair in labels_of(pod).items())]
        for key in (key for anchor in anchors for key in self._by_anchor.get(anchor, ())):
            budget = self._budgets.get(key)
            if budget is not None and _covers(budget, pod):
                yield key

    async def _step(self, key: Key) -> float | None:
        budget = self._budgets.get(key)
        if budget is None:
            return None
        pods = [pod for each in self._covered.get(key, ()) if (pod := self._pods.get(each)) is not None]
        status, again = find_status(budget, pods, self._clock.now())
        if status != (budget.get("status") or {}):
            try:
                # With its version: what an eviction has taken meanwhile must be counted first.
                await self._client.update(BUDGETS.path(key, "status"), {**budget, "status": status})
            except ApiError as error:
                if not is_absent(error):
                    raise
        return again


class Anchor(NamedTuple):
    """One label that every pod of a budget has, by which budgets are found; empty where there is none."""

    namespace: str
    label: str = ""
    value: str = ""


def _anchor(budget: Manifest) -> Anchor:
    wanted = (_selector(budget) or {}).get("matchLabels") or {}
    return Anchor(key_of(budget)[0], *max(wanted.items(), default=()))


def _selector(budget: Manifest | None) -> Manifest | None:
    return (budget.get("spec") or {}).get("selector") if budget is not None else None


def _covers(budget: Manifest, pod: Manifest) -> bool:
    same = key_of(budget)[0] == key_of(pod)[0]
    return same and matches_label_selector(_selector(budget), dict(labels_of(pod)))


def _either(old: Manifest | None, new: Manifest | None) -> Manifest:
    found = new or old
    assert found is not None
    return found
