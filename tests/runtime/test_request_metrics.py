"""What is asked of the API server, as its own metrics would name it."""

import pytest

from grove.kube.exchange import JSON, Call
from grove.kube.writing import APPLY_PATCH, MERGE_PATCH
from grove.runtime.metrics import Metrics
from grove.runtime.request_metrics import Asked, RequestMetrics, asked_of

CASES = {
    "one object": (Call("GET", "/api/v1/namespaces/a/pods/p"), Asked("get", "pods")),
    "all of a namespace": (Call("GET", "/api/v1/namespaces/a/pods"), Asked("list", "pods")),
    "all there are": (Call("GET", "/apis/grove.io/v1alpha1/podcliquesets"), Asked("list", "podcliquesets")),
    "a watch": (Call("GET", "/api/v1/pods", (("watch", "true"),)), Asked("watch", "pods")),
    "a namespace itself": (Call("GET", "/api/v1/namespaces/a"), Asked("get", "namespaces")),
    "a new object": (Call("POST", "/api/v1/namespaces/a/pods"), Asked("create", "pods")),
    "a trial": (Call("POST", "/api/v1/namespaces/a/pods", (("dryRun", "All"),)), Asked("dryrun", "pods")),
    "a status": (
        Call(
            "PATCH", "/apis/scheduler.grove.io/v1alpha1/namespaces/a/podgangs/g/status", (), b"", MERGE_PATCH
        ),
        Asked("patch", "podgangs/status"),
    ),
    "an apply": (
        Call("PATCH", "/apis/apps/v1/namespaces/a/controllerrevisions/r", (), b"", APPLY_PATCH),
        Asked("apply", "controllerrevisions"),
    ),
    "a replacement": (
        Call("PUT", "/apis/coordination.k8s.io/v1/namespaces/a/leases/l", (), b"", JSON),
        Asked("update", "leases"),
    ),
    "a deletion": (Call("DELETE", "/api/v1/namespaces/a/pods/p"), Asked("delete", "pods")),
    "a deletion of many": (Call("DELETE", "/api/v1/namespaces/a/pods"), Asked("deletecollection", "pods")),
    "what a group serves": (Call("GET", "/apis/apps/v1"), Asked("get", "discovery")),
    "which groups there are": (Call("GET", "/apis"), Asked("get", "discovery")),
    "the version": (Call("GET", "/version"), Asked("get", "discovery")),
}


@pytest.mark.parametrize(("call", "want"), CASES.values(), ids=CASES)
def test_a_request_is_counted_by_verb_and_resource(call: Call, want: Asked) -> None:
    assert asked_of(call) == want


def test_attempts_count_by_code_and_only_answers_that_end_have_a_duration() -> None:
    metrics = Metrics()
    requests = RequestMetrics(metrics)
    pods = Call("GET", "/api/v1/namespaces/a/pods/p")
    for code in ("200", "503", "200"):
        requests.answered(pods, code, 0.5)
    requests.answered(Call("GET", "/api/v1/pods", (("watch", "1"),)), "200", 300)
    requests.throttled(1.5)
    assert metrics.value("grove_api_requests_total", verb="get", resource="pods", code="200") == 2
    assert metrics.value("grove_api_requests_total", verb="get", resource="pods", code="503") == 1
    assert metrics.value("grove_api_request_seconds_sum", verb="get") == 1.5
    assert metrics.value("grove_api_request_seconds_count", verb="watch") == 0
    assert metrics.value("grove_api_throttle_seconds_total") == 1.5
