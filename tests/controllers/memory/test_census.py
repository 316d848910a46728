"""Gangs and sets are counted as they are now, at the cost of what is told."""

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from grove.api import conditions
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.labels import SCHEDULER_BACKEND
from grove.controllers.memory.census import Census
from grove.meta import Manifest
from grove.runtime.metrics import Metrics
from grove.testing import make

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Noon:
    """It is always noon."""

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return 0.0


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def census(metrics: Metrics, *, answers: Callable[[], bool] = lambda: True) -> Census:
    return Census(metrics, Noon(), enabled=lambda name: name == "mine", answers=answers)


def gang(
    name: str,
    phase: str = "Pending",
    reason: str = conditions.UNSCHEDULABLE,
    *,
    since: float = 0,
    backend: str = "kai",
) -> PodGang:
    manifest = make.gang_manifest(name, {"worker": 1}, labels={SCHEDULER_BACKEND: backend})
    told = conditions.SCHEDULED if phase == "Pending" else conditions.READY
    manifest["status"] = {"phase": phase, "conditions": [condition(told, reason, since, status="False")]}
    return make.view(PodGang, manifest)


def condition(type: str, reason: str, since: float, *, status: str) -> Manifest:
    return {"type": type, "status": status, "reason": reason, "lastTransitionTime": ago(since)}


def told(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    """The samples of a metric by the values of their labels, in the order of the names of these."""
    found = {}
    for family in metrics.registry.collect():
        for sample in family.samples:
            if sample.name == name:
                found[tuple(value for _, value in sorted(sample.labels.items()))] = sample.value
    return found


def test_gangs_are_counted_by_backend_phase_and_reason() -> None:
    metrics = Metrics()
    counting = census(metrics)
    for each in (gang("a"), gang("b"), gang("c", "Running", conditions.ALL_PODS_READY)):
        counting.saw_gang(None, each)
    assert told(metrics, "grove_gangs") == {
        ("kai", "Pending", "Unschedulable"): 2,
        ("kai", "Running", "AllPodsReady"): 1,
    }
    counting.saw_gang(gang("a"), gang("a", "Running", conditions.ALL_PODS_READY))
    counting.saw_gang(gang("b"), None)
    assert told(metrics, "grove_gangs") == {("kai", "Running", "AllPodsReady"): 2}


def test_the_gang_that_waits_longest_counts_since_it_is_not_placed() -> None:
    metrics = Metrics()
    counting = census(metrics)
    young, old = gang("young", since=60), gang("old", since=900)
    for each in (young, old, gang("ran", "Running", conditions.ALL_PODS_READY, since=9000)):
        counting.saw_gang(None, each)
    assert told(metrics, "grove_gang_oldest_pending_seconds") == {("kai", "Unschedulable"): 900}
    counting.saw_gang(old, None)
    assert told(metrics, "grove_gang_oldest_pending_seconds") == {("kai", "Unschedulable"): 60}
    counting.saw_gang(young, gang("young", "Starting", conditions.PODS_NOT_READY))
    assert told(metrics, "grove_gang_oldest_pending_seconds") == {}


def test_a_gang_without_any_condition_counts_since_its_creation() -> None:
    metrics = Metrics()
    manifest = make.gang_manifest("new", {"worker": 1})
    manifest["metadata"]["creationTimestamp"] = ago(30)
    census(metrics).saw_gang(None, make.view(PodGang, manifest))
    assert told(metrics, "grove_gang_oldest_pending_seconds") == {("", "New"): 30}


def test_label_values_are_bounded_whatever_schedulers_and_users_write() -> None:
    metrics = Metrics()
    counting = census(metrics)
    counting.saw_gang(None, gang("a", reason="MadeUpByAScheduler17"))
    counting.saw_gang(None, gang("b", backend="whatever"))
    counting.saw_gang(None, gang("c", backend="mine"))
    assert set(told(metrics, "grove_gangs")) == {
        ("kai", "Pending", "Other"),
        ("Other", "Pending", "Unschedulable"),
        ("mine", "Pending", "Unschedulable"),
    }


def test_sets_are_counted_by_their_reason_and_updates_since_they_began() -> None:
    metrics = Metrics()
    counting = census(metrics)

    def a_set(*said: Manifest) -> PodCliqueSet:
        return make.view(
            PodCliqueSet, {**make.cliqueset_manifest("train"), "status": {"conditions": list(said)}}
        )

    waits = condition(conditions.READY, conditions.GANGS_NOT_READY, 5, status="False")
    update = condition(conditions.UPDATE_IN_PROGRESS, conditions.ROLLING_RECREATE, 400, status="True")
    counting.saw_set(None, a_set(waits, update))
    assert told(metrics, "grove_cliquesets") == {("GangsNotReady",): 1}
    assert told(metrics, "grove_cliqueset_oldest_update_seconds") == {("RollingRecreate",): 400}
    counting.saw_set(a_set(waits, update), a_set(waits))
    assert told(metrics, "grove_cliqueset_oldest_update_seconds") == {}
    counting.saw_set(a_set(waits), None)
    assert told(metrics, "grove_cliquesets") == {}


def test_who_does_not_lead_counts_and_does_not_tell() -> None:
    metrics, leads = Metrics(), False
    counting = census(metrics, answers=lambda: leads)
    counting.saw_gang(None, gang("a"))
    assert told(metrics, "grove_gangs") == {}
    leads = True
    assert told(metrics, "grove_gangs") == {("kai", "Pending", "Unschedulable"): 1}


def calls_of_a_scrape(gangs: int) -> int:
    """How many functions a scrape calls on a cluster with so many pending gangs."""
    metrics, calls = Metrics(), 0
    counting = census(metrics)
    for number in range(gangs):
        counting.saw_gang(None, gang(f"g-{number}", since=number))

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        metrics.render()
    finally:
        sys.setprofile(None)
    return calls


def test_a_scrape_costs_the_same_with_five_thousand_gangs_as_with_fifty() -> None:
    assert calls_of_a_scrape(5000) <= calls_of_a_scrape(50) + 10
