"""The Prometheus metrics of Grove, in a registry of their own.

There is no global registry: two managers in one process (or two tests) never share a counter. Every name
starts with `grove_`; asking twice for the same name gives the same metric. What a metric is called, tells and
is labelled with is in `metric_table`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from grove import __version__
from grove.runtime.metric_table import SECONDS, TABLE, Metric

M = TypeVar("M", Counter, Gauge, Histogram)

PREFIX: Final = "grove_"
CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

# When each series was made: twice as many of them, and nobody asks.
disable_created_metrics()  # type: ignore[no-untyped-call]

#: Values of labels, and the value that they have.
Sample = tuple[Sequence[str], float]


class Metrics:
    """One registry, the runtime's own metrics, and a way to add more."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self._known: dict[str, object] = {}
        self._at_scrape: dict[str, Collector] = {}
        self.reconciles = self.counter("grove_reconciles_total")
        self.reconcile_seconds = self.histogram("grove_reconcile_seconds")
        self.retries = self.counter("grove_reconcile_retries_total")
        self.queue_depth = self.gauge("grove_queue_depth")
        self.queue_wait = self.histogram("grove_queue_wait_seconds")
        self.queue_oldest = self.gauge("grove_queue_oldest_seconds")
        self.running = self.gauge("grove_reconciles_running")
        self.barrier_waits = self.counter("grove_barrier_waits_total")
        self.barrier_timeouts = self.counter("grove_barrier_timeouts_total")
        self.leading = self.gauge("grove_leader")
        self.events = self.counter("grove_events_total")
        self.gc_pause = self.histogram("grove_gc_pause_seconds")
        self.gauge("grove_build_info").labels(__version__).set(1)

    def counter(self, name: str, help: str = "", labels: Sequence[str] = ()) -> Counter:
        """A number that only grows; one that is not in the table needs to say what it is."""
        row = _row(Metric(name, "counter", help, tuple(labels)))
        return self._once(
            row.name, Counter, lambda: Counter(row.name, row.help, row.labels, registry=self.registry)
        )

    def gauge(self, name: str, help: str = "", labels: Sequence[str] = ()) -> Gauge:
        """A number that goes up and down."""
        row = _row(Metric(name, "gauge", help, tuple(labels)))
        return self._once(
            row.name, Gauge, lambda: Gauge(row.name, row.help, row.labels, registry=self.registry)
        )

    def histogram(
        self, name: str, help: str = "", labels: Sequence[str] = (), *, buckets: Sequence[float] = SECONDS
    ) -> Histogram:
        """How a measure is distributed."""
        row = _row(Metric(name, "histogram", help, tuple(labels), tuple(buckets)))
        return self._once(
            row.name,
            Histogram,
            lambda: Histogram(row.name, row.help, row.labels, registry=self.registry, buckets=row.buckets),
        )

    def at_scrape(self, name: str, samples: Callable[[], Iterable[Sample]]) -> None:
        """A gauge or counter of the table whose samples are worked out whenever somebody reads them.

        Whoever asks last is the one who answers.
        """
        known = self._at_scrape.pop(name, None)
        if known is not None:
            self.registry.unregister(known)
        made = self._at_scrape[name] = _AtScrape(TABLE[name], samples)
        self.registry.register(made)

    def about_the_process(self) -> None:
        """Memory, CPU and file descriptors of the process, under the names that all programs use."""
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)

    def value(self, name: str, **labels: str) -> float:
        """The present value of a sample, 0 if there is none; for tests and for the command line."""
        return self.registry.get_sample_value(name, labels) or 0.0

    def render(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self.registry)

    def _once(self, name: str, kind: type[M], make: Callable[[], M]) -> M:
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = make()
        if not isinstance(known, kind):
            raise ValueError(
                f"metric {name} exists already and is a {type(known).__name__}, not a {kind.__name__}"
            )
        return known


def _row(asked: Metric) -> Metric:
    """What the table says of a metric; one that it does not have is taken as it was asked for."""
    name = asked.name if asked.name.startswith(PREFIX) else PREFIX + asked.name
    row = TABLE.get(name)
    if row is None:
        return asked._replace(name=name)
    if row.kind != asked.kind or (asked.labels and asked.labels != row.labels):
        raise ValueError(
            f"metric {name} is a {row.kind} with the labels {row.labels} in the table, "
            f"not a {asked.kind} with {asked.labels}"
        )
    return row


class _AtScrape(Collector):
    """A metric without a memory of its own."""

    def __init__(self, row: Metric, samples: Callable[[], Iterable[Sample]]) -> None:
        self._row = row
        self._samples = samples

    def describe(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        yield self._family()

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        family = self._family()
        for labels, value in self._samples():
            family.add_metric(labels, value)
        yield family

    def _family(self) -> GaugeMetricFamily | CounterMetricFamily:
        row = self._row
        made = CounterMetricFamily if row.kind == "counter" else GaugeMetricFamily
        return made(row.name, row.help, labels=row.labels)
