"""The Grafana dashboard, as `deploy/monitoring/dashboard.json`: the gangs first, then what keeps them."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from grove.meta import Manifest

#: Of the 24 columns that Grafana has.
_WIDTH: Final = 24
_HEIGHT: Final = 7
_STAT_HEIGHT: Final = 4
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_JOB: Final = 'job=~"$job"'


@dataclass(frozen=True, slots=True)
class Query:
    """One expression and how its series are called."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture: its question as the title, and the queries that answer it."""

    title: str
    queries: Sequence[Query]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    #: From which value on a number is worth a look, and from which it is bad.
    worries: tuple[float, float] | None = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """Panels that are read together."""

    title: str
    panels: Sequence[Panel]


def _quantile(quantile: float, metric: str, by: str, *, where: str = "") -> Query:
    matchers = f"{_JOB},{where}" if where else _JOB
    rates = f"sum by ({by}, le) (rate({metric}_bucket{{{matchers}}}[$__rate_interval]))"
    return Query(f"histogram_quantile({quantile}, {rates})", f"{{{{{by}}}}} p{quantile * 100:.0f}")


def _sum(metric: str, *by: str, where: str = "", rate: bool = False) -> Query:
    matchers = f"{_JOB},{where}" if where else _JOB
    inner = f"{metric}{{{matchers}}}"
    inner = f"rate({inner}[$__rate_interval])" if rate else inner
    grouped = f"sum by ({', '.join(by)}) ({inner})" if by else f"sum({inner})"
    return Query(grouped, " ".join(f"{{{{{label}}}}}" for label in by))


def _stat(title: str, query: Query, unit: str = "short", worries: tuple[float, float] | None = None) -> Panel:
    return Panel(title, [query], unit, "stat", width=4, worries=worries)


ROWS: Final = (
    Row(
        "Now",
        (
            _stat("Gangs that run", Query(f'sum(grove_gangs{{{_JOB},phase="Running"}}) or vector(0)')),
            _stat(
                "Gangs that wait",
                Query(f'sum(grove_gangs{{{_JOB},phase="Pending"}}) or vector(0)'),
                worries=(1, 50),
            ),
            _stat(
                "Oldest waits for",
                Query(f"max(grove_gang_oldest_pending_seconds{{{_JOB}}}) or vector(0)"),
                "s",
                (600, 3600),
            ),
            _stat(
                "GPUs held by incomplete gangs",
                Query(f"sum(grove_gang_held_gpus{{{_JOB}}}) or vector(0)"),
                worries=(1, 16),
            ),
            _stat("Leaders", Query(f"sum(grove_leader{{{_JOB}}}) or vector(0)")),
            _stat("Processes not ready", Query(f"sum(1 - grove_ready{{{_JOB}}})"), worries=(1, 2)),
        ),
    ),
    Row(
        "Gangs",
        (
            Panel("Gangs by phase", [_sum("grove_gangs", "phase")]),
            Panel("Why gangs wait", [_sum("grove_gangs", "backend", "reason", where='phase="Pending"')]),
            Panel(
                "How long the oldest waits",
                [
                    Query(
                        f"max by (backend, reason) (grove_gang_oldest_pending_seconds{{{_JOB}}})",
                        "{{backend}} {{reason}}",
                    )
                ],
                "s",
            ),
            Panel(
                "From creation to each milestone, median",
                [_quantile(0.5, "grove_gang_milestone_seconds", "milestone")],
                "s",
            ),
            Panel(
                "From creation to each milestone, one in ten",
                [_quantile(0.9, "grove_gang_milestone_seconds", "milestone")],
                "s",
            ),
            Panel(
                "GPUs held without running",
                [
                    _sum("grove_gang_held_gpu_seconds_total", "backend", rate=True),
                ],
                description="GPU-seconds per second: GPUs on average, also between two scrapes.",
            ),
            Panel(
                "Restarted, given back, recycled",
                [
                    Query(
                        f"sum(increase(grove_gang_restarts_total{{{_JOB}}}[$__rate_interval]))", "restarted"
                    ),
                    Query(
                        f"sum(increase(grove_gang_give_backs_total{{{_JOB}}}[$__rate_interval]))",
                        "given back",
                    ),
                    Query(
                        f"sum(increase(grove_gang_terminations_total{{{_JOB}}}[$__rate_interval]))",
                        "recycled",
                    ),
                ],
            ),
            Panel("Sets by how they stand", [_sum("grove_cliquesets", "reason")]),
            Panel(
                "Scheduler objects that could not be written",
                [_sum("grove_backend_sync_errors_total", "backend", "code", rate=True)],
                "ops",
            ),
        ),
    ),
    Row(
        "Controllers",
        (
            Panel("Reconciles by result", [_sum("grove_reconciles_total", "result", rate=True)], "ops"),
            Panel(
                "How long a reconcile takes",
                [_quantile(0.99, "grove_reconcile_seconds", "controller")],
                "s",
            ),
            Panel("How long keys wait", [_quantile(0.99, "grove_queue_wait_seconds", "controller")], "s"),
            Panel("Keys that wait", [_sum("grove_queue_depth", "controller")]),
            Panel(
                "How late statuses are written",
                [_quantile(0.9, "grove_status_lag_seconds", "resource")],
                "s",
            ),
            Panel("Events", [_sum("grove_events_total", "result", rate=True)], "ops"),
        ),
    ),
    Row(
        "API server and webhooks",
        (
            Panel(
                "Requests that write",
                [
                    _sum(
                        "grove_api_requests_total",
                        "verb",
                        "resource",
                        where='verb!~"get|list|watch|dryrun"',
                        rate=True,
                    )
                ],
                "ops",
            ),
            Panel(
                "Requests that fail",
                [_sum("grove_api_requests_total", "verb", "code", where='code!~"2.."', rate=True)],
                "ops",
            ),
            Panel("How long an answer takes", [_quantile(0.99, "grove_api_request_seconds", "verb")], "s"),
            Panel(
                "Last heard of a resource",
                [Query(f"max by (resource) (grove_watch_age_seconds{{{_JOB}}})", "{{resource}}")],
                "s",
            ),
            Panel(
                "Answers of webhooks",
                [_sum("grove_webhook_requests_total", "path", "answer", rate=True)],
                "ops",
            ),
            Panel(
                "Certificates run out in",
                [
                    Query(
                        f"min by (certificate) (grove_webhook_certificate_expiry_seconds{{{_JOB}}}) - time()",
                        "{{certificate}}",
                    )
                ],
                "s",
            ),
        ),
    ),
    Row(
        "Process",
        (
            Panel("Who leads", [_sum("grove_leader", "instance", "lease")], width=6),
            Panel(
                "Memory",
                [
                    Query(
                        f"process_resident_memory_bytes{{{_JOB}}} and on (job, instance) grove_build_info",
                        "{{instance}}",
                    )
                ],
                "bytes",
                width=6,
            ),
            Panel(
                "CPU",
                [
                    Query(
                        f"rate(process_cpu_seconds_total{{{_JOB}}}[$__rate_interval])"
                        " and on (job, instance) grove_build_info",
                        "{{instance}}",
                    )
                ],
                "short",
                width=6,
            ),
            Panel(
                "How late the event loop is",
                [_quantile(0.99, "grove_loop_delay_seconds", "instance")],
                "s",
                width=6,
            ),
        ),
    ),
)


def files() -> dict[str, str]:
    """The dashboard by name."""
    return {"dashboard.json": json.dumps(_dashboard(), indent=1, ensure_ascii=False) + "\n"}


def _dashboard() -> Manifest:
    return {
        "title": "Grove",
        "uid": "grove-operator",
        "description": "Gangs, and the operator that keeps them. Generated by scripts/generate.py.",
        "tags": ["grove"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_data_source(), _job()]},
        "panels": list(_panels()),
    }


def _data_source() -> Manifest:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _job() -> Manifest:
    return {
        "name": "job",
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": "label_values(grove_build_info, job)", "refId": "job"},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".+",
        "current": {"text": "All", "value": "$__all"},
    }


def _panels() -> Iterator[Manifest]:
    """All panels with their places, rows above one another."""
    number, top = 1, 0
    for row in ROWS:
        yield {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "gridPos": {"x": 0, "y": top, "w": _WIDTH, "h": 1},
            "panels": [],
        }
        number, top, left = number + 1, top + 1, 0
        height = _STAT_HEIGHT if row.panels[0].kind == "stat" else _HEIGHT
        for panel in row.panels:
            if left + panel.width > _WIDTH:
                top, left = top + height, 0
            place = {"x": left, "y": top, "w": panel.width, "h": height}
            yield _panel(panel, number, place)
            number, left = number + 1, left + panel.width
        top += height


def _panel(panel: Panel, number: int, place: Manifest) -> Manifest:
    targets = [
        {
            "refId": chr(ord("A") + index),
            "datasource": _SOURCE,
            "expr": query.expr,
            "legendFormat": query.legend,
        }
        for index, query in enumerate(panel.queries)
    ]
    described = {"description": panel.description} if panel.description else {}
    options: Manifest = {
        "legend": {"displayMode": "list", "placement": "bottom"},
        "tooltip": {"mode": "multi"},
    }
    if panel.kind == "stat":
        options = {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value", "graphMode": "area"}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        **described,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, **_thresholds(panel)}, "overrides": []},
        "options": options,
        "targets": targets,
    }


def _thresholds(panel: Panel) -> Manifest:
    if panel.worries is None:
        return {}
    look, bad = panel.worries
    steps = [
        {"color": "green", "value": None},
        {"color": "orange", "value": look},
        {"color": "red", "value": bad},
    ]
    return {"thresholds": {"mode": "absolute", "steps": steps}}
