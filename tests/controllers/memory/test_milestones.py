"""How long gangs take to each milestone is measured once, from their creation."""

from datetime import UTC, datetime, timedelta

from tests.controllers.stores import cache

from grove.api.gang import PodGang
from grove.api.labels import SCHEDULER_BACKEND
from grove.controllers.memory.milestones import Milestones
from grove.runtime.metrics import Metrics
from grove.testing import make

GANG = make.view(
    PodGang, make.gang_manifest("train-0", {"train-0-worker": 1}, labels={SCHEDULER_BACKEND: "default"})
)
CREATED = datetime.fromisoformat(GANG.metadata.creation_timestamp).astimezone(UTC)


def seconds(metrics: Metrics, milestone: str) -> tuple[float, float]:
    """How many gangs reached a milestone, and after how many seconds in all."""
    name = "grove_gang_milestone_seconds"
    return (
        metrics.value(f"{name}_count", backend="default", milestone=milestone),
        metrics.value(f"{name}_sum", backend="default", milestone=milestone),
    )


def test_each_milestone_counts_once_for_a_gang() -> None:
    metrics = Metrics()
    milestones = Milestones(metrics, cache(GANG))
    milestones.scheduled(GANG, CREATED + timedelta(seconds=3))
    milestones.scheduled(GANG, CREATED + timedelta(seconds=90))
    milestones.ready(GANG, CREATED + timedelta(seconds=5))
    assert seconds(metrics, "scheduled") == (1, 3)
    assert seconds(metrics, "ready") == (1, 5)


def test_a_gang_that_was_forgotten_counts_from_the_start() -> None:
    metrics = Metrics()
    milestones = Milestones(metrics, cache(GANG))
    milestones.initialized(GANG, CREATED)
    milestones.forget(GANG.uid)
    milestones.initialized(GANG, CREATED)
    assert seconds(metrics, "initialized") == (2, 0)


def test_a_gang_that_is_gone_is_not_remembered() -> None:
    metrics = Metrics()
    Milestones(metrics, cache()).gates_opened(GANG, CREATED)
    assert seconds(metrics, "gates_open") == (0, 0)


def test_failures_count_by_backend_and_code() -> None:
    metrics = Metrics()
    Milestones(metrics, cache()).sync_failed("default", "ERR_WAITING")
    assert metrics.value("grove_backend_sync_errors_total", backend="default", code="ERR_WAITING") == 1
