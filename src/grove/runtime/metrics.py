"""The Prometheus metrics of Grove, in a registry of their own.

There is no global registry: two managers in one process (or two tests) never share a counter. Every name
starts with `grove_`; asking twice for the same name gives the same metric.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

M = TypeVar("M", Counter, Gauge, Histogram)

PREFIX: Final = "grove_"
CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
#: From a look at the cache (a millisecond) to a reconcile that wrote hundreds of objects.
SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
#: Pauses of the collector: what matters is whether they can be felt.
PAUSES: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class Metrics:
    """One registry, the runtime's own metrics, and a way to add more."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self._known: dict[str, object] = {}
        by_controller = ("controller",)
        self.reconciles = self.counter(
            "grove_reconciles_total", "Reconciles by result.", ("controller", "result")
        )
        self.reconcile_seconds = self.histogram(
            "grove_reconcile_seconds", "How long a reconcile took.", by_controller
        )
        self.retries = self.counter(
            "grove_reconcile_retries_total", "Keys that were requeued after a failure.", by_controller
        )
        self.queue_depth = self.gauge("grove_queue_depth", "Keys that wait for a reconcile.", by_controller)
        self.running = self.gauge("grove_reconciles_running", "Reconciles that are running.", by_controller)
        self.barrier_waits = self.counter(
            "grove_barrier_waits_total",
            "Keys that waited for the cache to show their own writes.",
            by_controller,
        )
        self.barrier_timeouts = self.counter(
            "grove_barrier_timeouts_total", "Waits for own writes that timed out.", by_controller
        )
        self.leading = self.gauge("grove_leader", "1 while this process leads.")
        self.events = self.counter("grove_events_total", "Events by outcome.", ("result",))
        self.gc_pause = self.histogram(
            "grove_gc_pause_seconds", "Pauses of the garbage collector.", ("generation",), buckets=PAUSES
        )

    def counter(self, name: str, help: str, labels: Sequence[str] = ()) -> Counter:
        """A number that only grows."""
        return self._once(name, Counter, lambda full: Counter(full, help, labels, registry=self.registry))

    def gauge(self, name: str, help: str, labels: Sequence[str] = ()) -> Gauge:
        """A number that goes up and down."""
        return self._once(name, Gauge, lambda full: Gauge(full, help, labels, registry=self.registry))

    def histogram(
        self, name: str, help: str, labels: Sequence[str] = (), *, buckets: Sequence[float] = SECONDS
    ) -> Histogram:
        """How a measure is distributed."""
        return self._once(
            name,
            Histogram,
            lambda full: Histogram(full, help, labels, registry=self.registry, buckets=buckets),
        )

    def value(self, name: str, **labels: str) -> float:
        """The present value of a sample, 0 if there is none; for tests and for the command line."""
        return self.registry.get_sample_value(name, labels) or 0.0

    def render(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self.registry)

    def _once(self, name: str, kind: type[M], make: Callable[[str], M]) -> M:
        full = name if name.startswith(PREFIX) else PREFIX + name
        known = self._known.get(full)
        if known is None:
            known = self._known[full] = make(full)
        if not isinstance(known, kind):
            raise ValueError(
                f"metric {full} exists already and is a {type(known).__name__}, not a {kind.__name__}"
            )
        return known
