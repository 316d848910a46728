"""Every metric of Grove in one table: its name, what it counts, and by which labels.

The registry (`metrics`) and the reference page are both made from it. Label values are bounded: backends,
controllers, verbs, resources, reasons of `api.conditions`. No name of an object is ever one.
"""

from typing import Final, Literal, NamedTuple

Kind = Literal["counter", "gauge", "histogram"]

#: From a look at the cache (a millisecond) to a reconcile that wrote hundreds of objects.
SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
#: Pauses of the collector and of the event loop: what matters is whether they can be felt.
PAUSES: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
#: Gangs are placed within a second, or wait for hours until something else ends.
MILESTONES: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200)
#: Statuses settle for half a second, and are held for two minutes at most while pods are placed.
LAGS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


class Metric(NamedTuple):
    """One metric."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = SECONDS


class Chapter(NamedTuple):
    """Metrics that are read together."""

    title: str
    metrics: tuple[Metric, ...]


_BY_BACKEND: Final = ("backend",)
_BY_CONTROLLER: Final = ("controller",)

_GANGS: Final = Chapter(
    "Gangs",
    (
        Metric(
            "grove_gangs",
            "gauge",
            "Gangs by phase, backend and reason: why they are not placed, or of placed ones why not ready.",
            ("phase", "backend", "reason"),
        ),
        Metric(
            "grove_gang_oldest_pending_seconds",
            "gauge",
            "For how long the gang that waits longest is not placed, by backend and reason.",
            ("backend", "reason"),
        ),
        Metric(
            "grove_gang_milestone_seconds",
            "histogram",
            "Seconds from a gang's creation to a milestone: initialized, gates_open, scheduled, ready.",
            ("backend", "milestone"),
            MILESTONES,
        ),
        Metric(
            "grove_gang_held_gpus",
            "gauge",
            "GPUs of pods that are on nodes although their gang is not placed as a whole.",
            _BY_BACKEND,
        ),
        Metric(
            "grove_gang_held_gpu_seconds_total",
            "counter",
            "GPU-seconds that gangs held without being placed as a whole.",
            _BY_BACKEND,
        ),
        Metric(
            "grove_gang_restarts_total",
            "counter",
            "Restarts of gangs, mostly of those that lost all of their pods; they are placed again as a "
            "whole.",
            _BY_BACKEND,
        ),
        Metric(
            "grove_gang_give_backs_total",
            "counter",
            "Gangs that held a part of their nodes for too long and gave them back.",
            _BY_BACKEND,
        ),
        Metric(
            "grove_gang_terminations_total",
            "counter",
            "Replicas of sets and of scaling groups that were below their minimum for longer than "
            "terminationDelay and were recycled.",
        ),
        Metric(
            "grove_backend_sync_errors_total",
            "counter",
            "Failures to bring a gang's scheduler objects in place, by backend and error code.",
            ("backend", "code"),
        ),
        Metric(
            "grove_backend_selections_total",
            "counter",
            "Sets by the backend that was chosen, and by what: annotation, schedulerName or default.",
            ("backend", "source"),
        ),
    ),
)

_SETS: Final = Chapter(
    "Sets",
    (
        Metric(
            "grove_cliquesets",
            "gauge",
            "PodCliqueSets by the reason of their condition Ready.",
            ("reason",),
        ),
        Metric(
            "grove_cliqueset_oldest_update_seconds",
            "gauge",
            "For how long the rolling update that takes longest is under way, by its reason.",
            ("reason",),
        ),
    ),
)

_CONTROLLERS: Final = Chapter(
    "Controllers",
    (
        Metric("grove_reconciles_total", "counter", "Reconciles by result.", ("controller", "result")),
        Metric("grove_reconcile_seconds", "histogram", "How long a reconcile took.", _BY_CONTROLLER),
        Metric(
            "grove_reconcile_retries_total",
            "counter",
            "Keys that were requeued after a failure.",
            _BY_CONTROLLER,
        ),
        Metric("grove_reconciles_running", "gauge", "Reconciles that are running.", _BY_CONTROLLER),
        Metric("grove_queue_depth", "gauge", "Keys that wait for a reconcile.", _BY_CONTROLLER),
        Metric(
            "grove_queue_wait_seconds",
            "histogram",
            "How long a key waited for its reconcile, once it was due.",
            _BY_CONTROLLER,
        ),
        Metric(
            "grove_queue_oldest_seconds",
            "gauge",
            "For how long the key that waits longest has been due; 0 if none waits.",
            _BY_CONTROLLER,
        ),
        Metric(
            "grove_barrier_waits_total",
            "counter",
            "Keys that waited for the cache to show their own writes.",
            _BY_CONTROLLER,
        ),
        Metric(
            "grove_barrier_timeouts_total",
            "counter",
            "Waits for own writes that timed out after 30 seconds.",
            _BY_CONTROLLER,
        ),
        Metric(
            "grove_status_lag_seconds",
            "histogram",
            "How long a status had something new to say before it was written.",
            ("resource",),
            LAGS,
        ),
        Metric(
            "grove_status_oldest_unwritten_seconds",
            "gauge",
            "For how long the status that waits longest has had something new to say; 0 if none waits.",
        ),
        Metric("grove_events_total", "counter", "Events by outcome.", ("result",)),
    ),
)

_API: Final = Chapter(
    "API server",
    (
        Metric(
            "grove_api_requests_total",
            "counter",
            "Requests to the API server by verb, resource and status code; each attempt counts, "
            "trials with the verb `dryrun`. "
            "The code is `unreachable` without an answer and `deposed` for a write that was not sent because "
            "the lease is lost.",
            ("verb", "resource", "code"),
        ),
        Metric(
            "grove_api_request_seconds",
            "histogram",
            "How long the API server took to answer, watches left out.",
            ("verb",),
        ),
        Metric(
            "grove_api_throttle_seconds_total",
            "counter",
            "Seconds that requests waited for the operator's own rate limit (runtimeClientConnection).",
        ),
        Metric("grove_cache_objects", "gauge", "Objects in the cache.", ("resource",)),
        Metric(
            "grove_watch_age_seconds",
            "gauge",
            "Seconds since the API server was last heard of a resource; there is a bookmark each minute.",
            ("resource",),
        ),
    ),
)

_WEBHOOKS: Final = Chapter(
    "Webhooks",
    (
        Metric(
            "grove_webhook_requests_total",
            "counter",
            "Requests for admission by path and answer.",
            ("path", "answer"),
        ),
        Metric("grove_webhook_duration_seconds", "histogram", "How long an answer took.", ("path",)),
        Metric(
            "grove_webhook_certificate_expiry_seconds",
            "gauge",
            "When a certificate of the webhooks runs out, in seconds since 1970: server or ca.",
            ("certificate",),
        ),
    ),
)

_PROCESS: Final = Chapter(
    "Process",
    (
        Metric("grove_build_info", "gauge", "1; the version is the label.", ("version",)),
        Metric(
            "grove_leader", "gauge", "1 while this process leads, by the lease it leads with.", ("lease",)
        ),
        Metric("grove_ready", "gauge", "1 while /readyz says yes."),
        Metric(
            "grove_loop_delay_seconds",
            "histogram",
            "How late the event loop ran what was due: everything else waits as long.",
            (),
            PAUSES,
        ),
        Metric(
            "grove_gc_pause_seconds",
            "histogram",
            "Pauses of Python's garbage collector.",
            ("generation",),
            PAUSES,
        ),
        Metric(
            "grove_configuration_changes_total",
            "counter",
            "Changes of the configuration file while the operator ran, by outcome: applied or refused.",
            ("outcome",),
        ),
    ),
)

CHAPTERS: Final = (_GANGS, _SETS, _CONTROLLERS, _API, _WEBHOOKS, _PROCESS)

TABLE: Final[dict[str, Metric]] = {row.name: row for chapter in CHAPTERS for row in chapter.metrics}
