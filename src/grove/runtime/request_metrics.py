"""Counts the requests to the API server: by verb, resource and status code.

The path of a request says which resource it is about; the names of objects in it are dropped.
"""

from typing import Final, NamedTuple

from prometheus_client import Counter, Histogram

from grove.kube.exchange import Call
from grove.kube.writing import APPLY_PATCH
from grove.runtime.metrics import Metrics

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch"}
#: Where a cluster tells what it serves.
DISCOVERY: Final = "discovery"


class Asked(NamedTuple):
    """What a request asks for."""

    verb: str
    #: The plural with its subresource, such as `pods/binding`.
    resource: str


class RequestMetrics:
    """Counts each attempt of a request."""

    def __init__(self, metrics: Metrics) -> None:
        self._requests = metrics.counter("grove_api_requests_total")
        self._seconds = metrics.histogram("grove_api_request_seconds")
        self._throttled = metrics.counter("grove_api_throttle_seconds_total")
        # Found once: finding them takes longer than counting.
        self._counters: dict[tuple[Asked, str], Counter] = {}
        self._histograms: dict[str, Histogram] = {}

    def answered(self, call: Call, code: str, seconds: float) -> None:
        asked = asked_of(call)
        counter = self._counters.get((asked, code))
        if counter is None:
            counter = self._counters[asked, code] = self._requests.labels(*asked, code)
        counter.inc()
        if asked.verb == "watch":
            return
        histogram = self._histograms.get(asked.verb)
        if histogram is None:
            histogram = self._histograms[asked.verb] = self._seconds.labels(asked.verb)
        histogram.observe(seconds)

    def throttled(self, seconds: float) -> None:
        self._throttled.inc(seconds)


def asked_of(call: Call) -> Asked:
    """The verb and the resource of a request, as Kubernetes' own metrics name them."""
    parts = call.path.strip("/").split("/")
    # /api/v1/... and /apis/group/version/...
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    if not rest:
        return Asked("get", DISCOVERY)
    plural, name, subresource = [*rest, "", ""][:3]
    resource = f"{plural}/{subresource}" if subresource else plural
    return Asked(_verb(call, named=bool(name)), resource)


def _verb(call: Call, *, named: bool) -> str:
    asked = dict(call.query)
    if "dryRun" in asked:
        return "dryrun"
    match call.method:
        case "GET":
            if "watch" in asked:
                return "watch"
            return "get" if named else "list"
        case "DELETE":
            return "delete" if named else "deletecollection"
        case "PATCH" if call.content_type == APPLY_PATCH:
            return "apply"
        case method:
            return _VERBS.get(method, method.lower())
