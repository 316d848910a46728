"""ResourceClaims, ResourceClaimTemplates and the claims of pods, as Kubernetes 1.35 to 1.37 understand them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from grove.embedded.identity import ADMIN
from grove.embedded.kinds import strategy_for
from grove.embedded.kinds.builtins import MINORS
from grove.embedded.kinds.context import Context
from grove.embedded.kinds.devices import pod_claim_errors
from grove.embedded.kinds.registry import Registry

Manifest = dict[str, Any]


def context(kind: str, minor: str = "1.36") -> Context:
    resource = Registry(minor).by_kind("resource.k8s.io/v1", kind)
    assert resource is not None
    return Context(
        resource=resource,
        now="2026-01-01T00:00:00Z",
        user=ADMIN,
        minor=minor,
        find=lambda group, plural, namespace, name: None,
        all_of=lambda group, plural, namespace: [],
        new_cluster_ip=lambda: "",
    )


def request(name: str = "gpu", **exactly: Any) -> Manifest:
    return {"name": name, "exactly": {"deviceClassName": "gpu.example.com", **exactly}}


def claim(*requests: Manifest, **devices: Any) -> Manifest:
    return {
        "metadata": {"name": "c", "namespace": "d"},
        "spec": {"devices": {"requests": list(requests)} | devices},
    }


def created(obj: Manifest, ctx: Context) -> tuple[Manifest, list[str]]:
    obj, strategy = copy.deepcopy(obj), strategy_for(ctx.resource)
    strategy.prepare_create(obj, ctx)
    strategy.default(obj, ctx)
    return obj, [f"{cause.field}: {cause.message}" for cause in strategy.validate_create(obj, ctx)]


@pytest.mark.parametrize("minor", MINORS)
def test_a_request_asks_for_exactly_one_device_unless_it_says_otherwise(minor: str) -> None:
    obj, causes = created(claim(request()), context("ResourceClaim", minor))
    assert causes == []
    assert obj["spec"]["devices"]["requests"][0]["exactly"] == {
        "deviceClassName": "gpu.example.com",
        "allocationMode": "ExactCount",
        "count": 1,
    }
    assert obj["status"] == {}


def test_alternatives_are_filled_in_like_requests_and_may_be_named_in_constraints() -> None:
    either = {"name": "any", "firstAvailable": [{"name": "big", "deviceClassName": "big"}]}
    same = {"matchAttribute": "example.com/numa", "requests": ["any/big"]}
    obj, causes = created(claim(either, constraints=[same]), context("ResourceClaim"))
    assert causes == []
    assert obj["spec"]["devices"]["requests"][0]["firstAvailable"][0]["count"] == 1


WRONG = {
    "neither exactly nor firstAvailable": (
        claim({"name": "gpu"}),
        "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required",
    ),
    "no device class": (
        claim({"name": "gpu", "exactly": {}}),
        "spec.devices.requests[0].exactly.deviceClassName: Required value",
    ),
    "a count where all are asked for": (
        claim(request(allocationMode="All", count=2)),
        "spec.devices.requests[0].exactly.count: Invalid value: 2: "
        "must not be specified when allocationMode is 'All'",
    ),
    "an unknown mode": (
        claim(request(allocationMode="Some")),
        'spec.devices.requests[0].exactly.allocationMode: Unsupported value: "Some": '
        'supported values: "All", "ExactCount"',
    ),
    "a name used twice": (
        claim(request(), request()),
        'spec.devices.requests[1]: Duplicate value: "gpu"',
    ),
    "a constraint about an unknown request": (
        claim(request(), constraints=[{"matchAttribute": "a.com/b", "requests": ["other"]}]),
        'spec.devices.constraints[0].requests[0]: Invalid value: "other": must be the name of a request in '
        "the claim or the name of a request and a subrequest separated by '/'",
    ),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_what_is_wrong_with_a_claim(wrong: tuple[Manifest, str]) -> None:
    manifest, want = wrong
    assert created(manifest, context("ResourceClaim"))[1] == [want]


@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceClaimTemplate"])
def test_the_spec_of_a_claim_or_template_never_changes_and_its_metadata_may(kind: str) -> None:
    ctx = context(kind)
    made = claim(request())
    if kind == "ResourceClaimTemplate":
        made["spec"] = {"spec": made["spec"]}
    old, causes = created(made, ctx)
    assert causes == []
    labelled, edited = copy.deepcopy(old), copy.deepcopy(old)
    labelled["metadata"]["labels"] = {"a": "b"}
    inner = edited["spec"]["spec"] if kind == "ResourceClaimTemplate" else edited["spec"]
    inner["devices"]["requests"][0]["exactly"]["count"] = 2
    strategy = strategy_for(ctx.resource)
    assert strategy.validate_update(labelled, old, ctx) == []
    (cause,) = strategy.validate_update(edited, old, ctx)
    assert (cause.field, cause.message.endswith("field is immutable")) == ("spec", True)


def test_a_claim_is_reserved_only_once_it_is_allocated_and_while_it_is_not_being_deleted() -> None:
    ctx = context("ResourceClaim")
    old, _ = created(claim(request()), ctx)
    strategy, pod = strategy_for(ctx.resource), {"resource": "pods", "name": "p", "uid": "1"}

    def refused(status: Manifest, *, before: Manifest = old, deleted: bool = False) -> list[str]:
        new = copy.deepcopy(before)
        new["status"] = status
        if deleted:
            new["metadata"]["deletionTimestamp"] = ctx.now
        return [cause.field for cause in strategy.validate_status(new, before, ctx)]

    allocation: Manifest = {"devices": {"results": []}}
    assert refused({"reservedFor": [pod]}) == ["status.reservedFor"]
    assert refused({"allocation": allocation, "reservedFor": [pod]}) == []
    assert refused({"allocation": allocation, "reservedFor": [pod]}, deleted=True) == ["status.reservedFor"]
    many = [{**pod, "uid": str(number)} for number in range(257)]
    assert refused({"allocation": allocation, "reservedFor": many}) == ["status.reservedFor"]


POD_CLAIMS = {
    "a claim that exists": ({"resourceClaims": [{"name": "a", "resourceClaimName": "x.y"}]}, []),
    "neither claim nor template": (
        {"resourceClaims": [{"name": "a"}]},
        ["spec.resourceClaims[0]"],
    ),
    "a name that is no label": (
        {"resourceClaims": [{"name": "a.b", "resourceClaimName": "x"}]},
        ["spec.resourceClaims[0].name"],
    ),
    "a name twice": (
        {
            "resourceClaims": [
                {"name": "a", "resourceClaimName": "x"},
                {"name": "a", "resourceClaimName": "y"},
            ]
        },
        ["spec.resourceClaims[1].name"],
    ),
    "a container that uses a claim which the pod does not name": (
        {"containers": [{"resources": {"claims": [{"name": "a"}]}}]},
        ["spec.containers[0].resources.claims[0]"],
    ),
    "a container that uses a claim twice": (
        {
            "resourceClaims": [{"name": "a", "resourceClaimName": "x"}],
            "initContainers": [{"resources": {"claims": [{"name": "a", "request": "r"}, {"name": "a"}]}}],
        },
        ["spec.initContainers[0].resources.claims[1]"],
    ),
}


@pytest.mark.parametrize("case", POD_CLAIMS.values(), ids=POD_CLAIMS)
def test_what_is_wrong_with_the_claims_of_a_pod(case: tuple[Manifest, list[str]]) -> None:
    spec, want = case
    assert [cause.field for cause in pod_claim_errors(spec, "spec")] == want
