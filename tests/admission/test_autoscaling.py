"""What a role or group may be scaled by."""

import copy
from typing import Any

import pytest

from grove.admission.autoscaling import Bounds, autoscaling_notices, validate_autoscaling
from grove.api.clique import AutoScalingConfig
from grove.meta import Manifest
from grove.testing import make

AT = "at.metrics[0]"
PLENTY: Manifest = {"type": "Value", "value": "10"}
GOOD: dict[str, Manifest] = {
    "cpu": {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}},
    },
    "memory of a container": {
        "type": "ContainerResource",
        "containerResource": {
            "name": "memory",
            "container": "main",
            "target": {"type": "AverageValue", "averageValue": "1.5Gi"},
        },
    },
    "a metric of the pods": {
        "type": "Pods",
        "pods": {
            "metric": {"name": "queue", "selector": {"matchLabels": {"a": "b"}}},
            "target": {"type": "AverageValue", "averageValue": 3},
        },
    },
    "a metric of an object": {
        "type": "Object",
        "object": {
            "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "front"},
            "metric": {"name": "requests"},
            "target": PLENTY,
        },
    },
    "a metric from outside": {"type": "External", "external": {"metric": {"name": "q"}, "target": PLENTY}},
    "a null, which is as good as nothing": {
        "type": "External",
        "resource": None,
        "external": {"metric": {"name": "q", "selector": None}, "target": {**PLENTY, "averageValue": None}},
    },
}


def errors(*metrics: Manifest, replicas: int = 2, minimum: int = 1) -> list[tuple[str, str]]:
    config = AutoScalingConfig(max_replicas=4, metrics=metrics)
    found = validate_autoscaling("at", config, Bounds(replicas, minimum))
    return [(error.field, error.message) for error in found]


@pytest.mark.parametrize("metric", GOOD.values(), ids=GOOD)
def test_a_role_may_be_scaled_by(metric: Manifest) -> None:
    assert errors(metric) == []


def edited(name: str, path: str, value: object) -> Manifest:
    """A good metric with one field changed, or taken away by None."""
    metric: Any = copy.deepcopy(GOOD[name])
    *parents, last = path.split(".")
    place = metric
    for each in parents:
        place = place[each]
    place[last] = value
    return {key: item for key, item in metric.items() if item is not None}


WRONG: dict[str, tuple[Manifest, str, str]] = {
    "no type": (edited("cpu", "type", None), f"{AT}.type", "must be one of ContainerResource, External"),
    "an unknown type": (edited("cpu", "type", "GPU"), f"{AT}.type", "got 'GPU'"),
    "nothing of its type": (edited("cpu", "resource", None), f"{AT}.resource", "is required for a metric"),
    "something of another type": (
        edited("cpu", "pods", {"metric": {"name": "q"}}),
        f"{AT}.pods",
        "has no such field, only resource, type",
    ),
    "a field that nobody knows": (
        edited("cpu", "resource.utilisation", 80),
        f"{AT}.resource.utilisation",
        "has no such field, only name, target",
    ),
    "a resource without a name": (edited("cpu", "resource.name", ""), f"{AT}.resource.name", "is required"),
    "a metric without a name": (
        edited("a metric of the pods", "pods.metric", {}),
        f"{AT}.pods.metric",
        "is required",
    ),
    "a metric that is a text": (
        edited("a metric of the pods", "pods.metric", "queue"),
        f"{AT}.pods.metric",
        "must be an object, not the text 'queue'",
    ),
    "an object without a kind": (
        edited("a metric of an object", "object.describedObject", {"name": "front"}),
        f"{AT}.object.describedObject.kind",
        "is required",
    ),
    "no target": (edited("cpu", "resource.target", None), f"{AT}.resource.target", "is required"),
    "a target without a type": (
        edited("cpu", "resource.target", {"averageUtilization": 80}),
        f"{AT}.resource.target.type",
        "must be AverageValue, Utilization or Value; got None",
    ),
    "a type of target that is none": (
        edited("cpu", "resource.target", {"type": [], "averageUtilization": 80}),
        f"{AT}.resource.target.type",
        "must be AverageValue, Utilization or Value",
    ),
    "a target without a value": (
        edited("a metric of the pods", "pods.target", PLENTY),
        f"{AT}.pods.target",
        "must set averageValue",
    ),
    "two targets": (
        edited("a metric from outside", "external.target", {**PLENTY, "averageValue": 1}),
        f"{AT}.external.target",
        "must not set both value and averageValue",
    ),
    "a target of nothing": (
        edited("cpu", "resource.target.averageUtilization", 0),
        f"{AT}.resource.target.averageUtilization",
        "must be greater than 0; got 0",
    ),
    "a target that is no quantity": (
        edited("a metric from outside", "external.target.value", "many"),
        f"{AT}.external.target.value",
        "must be greater than 0; got 'many'",
    ),
    "a target that would take ages to multiply out": (
        edited("a metric from outside", "external.target.value", "1e999999999"),
        f"{AT}.external.target.value",
        "must be greater than 0",
    ),
}


@pytest.mark.parametrize(("metric", "field", "message"), WRONG.values(), ids=WRONG)
def test_a_role_may_not_be_scaled_by(metric: Manifest, field: str, message: str) -> None:
    ((at, said),) = errors(metric)
    assert at == field
    assert message in said


def container(name: str = "main", **resources: Manifest) -> Manifest:
    return {"name": name, "image": "app", "resources": resources}


def notices(pods: Manifest, config: Manifest, *, group: bool = False) -> list[str]:
    roles = [make.template("a", pod=pods)]
    if not group:
        roles[0]["spec"]["autoScalingConfig"] = config
    groups = [make.scaling_group("g", ["a"], scaleConfig=config)] if group else []
    return [str(notice) for notice in autoscaling_notices(make.cliqueset("t", roles, groups=groups))]


MEASURABLE: dict[str, tuple[Manifest, Manifest]] = {
    "what it requests": ({"containers": [container(requests={"cpu": "1"})]}, {"maxReplicas": 2}),
    "what its limit makes it request": ({"containers": [container(limits={"cpu": "1"})]}, {"maxReplicas": 2}),
    "what the pod requests": (
        {"containers": [container()], "resources": {"requests": {"cpu": "1"}}},
        {"maxReplicas": 2},
    ),
    "a metric that needs no requests": (
        {"containers": [container()]},
        {"maxReplicas": 2, "metrics": [GOOD["a metric of the pods"]]},
    ),
    "an init container that has ended": (
        {"containers": [container(requests={"cpu": "1"})], "initContainers": [container("init")]},
        {"maxReplicas": 2},
    ),
}


@pytest.mark.parametrize(("pods", "config"), MEASURABLE.values(), ids=MEASURABLE)
def test_nothing_is_said_where_there_is_something_to_measure(pods: Manifest, config: Manifest) -> None:
    assert notices(pods, config) == []


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("pods", [1, 3])
def test_a_group_of_several_pods_is_scaled_well_by_what_is_counted_for_each_replica(
    name: str, pods: int
) -> None:
    average = {
        "type": "External",
        "external": {"metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": 1}},
    }
    roles = [make.template("a", pods, pod={"containers": [container(requests={"cpu": "1"})]})]
    group = make.scaling_group("g", ["a"], scaleConfig={"maxReplicas": 2, "metrics": [GOOD[name], average]})
    said = [str(notice) for notice in autoscaling_notices(make.cliqueset("t", roles, groups=[group]))]
    if pods == 1:
        assert said == []
    else:
        (notice,) = said
        assert f"a metric of type {GOOD[name]['type']} by counting pods" in notice
        assert "a replica of this group has 3" in notice


@pytest.mark.parametrize("group", [False, True], ids=["a role", "a group"])
def test_utilization_of_what_nobody_requests_is_told(group: bool) -> None:
    sidecar = {**container("proxy"), "restartPolicy": "Always"}
    pods = {"containers": [container(requests={"cpu": "1"})], "initContainers": [sidecar]}
    (notice,) = notices(pods, {"maxReplicas": 2}, group=group)
    where = "podCliqueScalingGroups[0].scaleConfig" if group else "cliques[0].spec.autoScalingConfig"
    assert notice.startswith(f"spec.template.{where}: scales by the utilization of cpu")
    assert "container 'proxy' of clique 'a' requests none" in notice


@pytest.mark.parametrize(
    "odd", [{"type": "Resource", "resource": "cpu"}, {"type": "Resource", "resource": {"target": []}}]
)
def test_a_metric_that_is_refused_disturbs_no_notice(odd: Manifest) -> None:
    assert notices({"containers": [container()]}, {"maxReplicas": 2, "metrics": [odd]}) == []
