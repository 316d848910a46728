"""What happens to gangs, as metrics: how long they take to each milestone, and what goes wrong on the way."""

from datetime import UTC, datetime

from grove.api import labels
from grove.api.gang import PodGang
from grove.runtime.cache import Cache
from grove.runtime.metrics import Metrics


class Milestones:
    """Observes milestones once per gang and operator process."""

    def __init__(self, metrics: Metrics, cache: Cache) -> None:
        self._cache = cache
        self._seconds = metrics.histogram("grove_gang_milestone_seconds")
        self._sync_errors = metrics.counter("grove_backend_sync_errors_total")
        self._restarts = metrics.counter("grove_gang_restarts_total")
        self._give_backs = metrics.counter("grove_gang_give_backs_total")
        self._terminations = metrics.counter("grove_gang_terminations_total")
        self._told: dict[str, set[str]] = {}

    def gates_opened(self, gang: PodGang, now: datetime) -> None:
        self._milestone(gang, "gates_open", now)

    def initialized(self, gang: PodGang, now: datetime) -> None:
        self._milestone(gang, "initialized", now)

    def scheduled(self, gang: PodGang, now: datetime) -> None:
        self._milestone(gang, "scheduled", now)

    def ready(self, gang: PodGang, now: datetime) -> None:
        self._milestone(gang, "ready", now)

    def sync_failed(self, backend: str, code: str) -> None:
        self._sync_errors.labels(backend, code).inc()

    def restarted(self, gang: PodGang) -> None:
        self._restarts.labels(_backend(gang)).inc()

    def gave_back(self, gang: PodGang) -> None:
        self._give_backs.labels(_backend(gang)).inc()

    def recycled(self) -> None:
        self._terminations.inc()

    def forget(self, uid: str) -> None:
        """A gang is gone."""
        self._told.pop(uid, None)

    def _milestone(self, gang: PodGang, milestone: str, now: datetime) -> None:
        there = self._cache.store(PodGang).get(gang.key)
        if there is None or there.uid != gang.uid:
            # Gone meanwhile, and nobody would tell us to forget it again.
            return
        told = self._told.setdefault(gang.uid, set())
        if milestone in told or not gang.metadata.creation_timestamp:
            return
        told.add(milestone)
        created = datetime.fromisoformat(gang.metadata.creation_timestamp).astimezone(UTC)
        seconds = max(0.0, (now - created).total_seconds())
        self._seconds.labels(_backend(gang), milestone).observe(seconds)


def _backend(gang: PodGang) -> str:
    return gang.labels.get(labels.SCHEDULER_BACKEND, "")
