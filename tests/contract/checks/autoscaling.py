"""Autoscalers: what is filled in, what is refused, and how they are shown."""

from __future__ import annotations

from tests.contract.contract import TABLE, Answer, Contract, Observation
from tests.contract.objects import Manifest

VERSION = "autoscaling/v2"
PODS: Manifest = {
    "type": "Pods",
    "pods": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "4"}},
}


def autoscaler(name: str, **spec: object) -> Manifest:
    target = {"apiVersion": "sched.example.com/v1", "kind": "Gang", "name": "g"}
    return {
        "apiVersion": VERSION,
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {"scaleTargetRef": target, "maxReplicas": 5, **spec},
    }


async def _create(api: Contract, name: str, **spec: object) -> Answer:
    return await api.create(api.path("horizontalpodautoscalers", VERSION), autoscaler(name, **spec))


async def _refused(api: Contract, name: str, **spec: object) -> Observation:
    answer = await _create(api, name, **spec)
    return [*answer.refused, answer.fields]


async def check_an_autoscaler_is_filled_in(api: Contract) -> Observation:
    answer = await _create(api, "a")
    return [answer.status, answer.body["spec"], answer.meta.get("generation")]


async def check_an_autoscalers_behavior_is_filled_in(api: Contract) -> Observation:
    answer = await _create(api, "a", behavior={"scaleDown": {"stabilizationWindowSeconds": 30}})
    return [answer.status, answer.body["spec"]["behavior"]]


async def check_an_autoscaler_keeps_its_metrics(api: Contract) -> Observation:
    answer = await _create(api, "a", minReplicas=2, metrics=[PODS])
    return [answer.status, answer.body["spec"]]


async def check_an_autoscaler_whose_metrics_are_taken_away_gets_the_default(api: Contract) -> Observation:
    path = api.path("horizontalpodautoscalers", VERSION)
    await _create(api, "a", metrics=[PODS])
    answer = await api.merge(f"{path}/a", {"spec": {"metrics": None}})
    return [answer.status, answer.body["spec"]["metrics"]]


async def check_an_autoscaler_that_scales_to_zero(api: Contract) -> Observation:
    return await _refused(api, "a", minReplicas=0)


async def check_an_autoscaler_whose_bounds_are_the_wrong_way_round(api: Contract) -> Observation:
    return await _refused(api, "a", minReplicas=6)


async def check_an_autoscaler_without_a_target(api: Contract) -> Observation:
    return await _refused(api, "a", scaleTargetRef={})


async def check_an_autoscaler_with_a_metric_that_says_nothing(api: Contract) -> Observation:
    return await _refused(api, "a", metrics=[{"type": "Pods"}])


async def check_an_autoscaler_with_a_metric_of_no_type(api: Contract) -> Observation:
    return await _refused(api, "a", metrics=[{**PODS, "type": "Weather"}])


async def check_an_autoscaler_with_two_metrics_in_one(api: Contract) -> Observation:
    external = {"metric": {"name": "q"}, "target": {"type": "Value", "value": "1"}}
    return await _refused(api, "a", metrics=[{**PODS, "external": external}])


async def check_an_autoscaler_with_a_metric_without_a_target(api: Contract) -> Observation:
    return await _refused(api, "a", metrics=[{"type": "Pods", "pods": {"metric": {"name": "queue"}}}])


async def check_an_autoscaler_with_two_targets_of_a_metric(api: Contract) -> Observation:
    target = {"type": "Value", "value": "1", "averageValue": "1"}
    metric = {"type": "External", "external": {"metric": {"name": "q"}, "target": target}}
    return await _refused(api, "a", metrics=[metric])


async def check_an_autoscaler_with_a_target_of_another_type_than_its_value(api: Contract) -> Observation:
    resource = {"name": "cpu", "target": {"type": "Utilization", "averageValue": "1"}}
    answer = await _create(api, "a", metrics=[{"type": "Resource", "resource": resource}])
    return [answer.status]


async def check_an_autoscaler_with_a_target_of_nothing(api: Contract) -> Observation:
    resource = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 0}}
    return await _refused(api, "a", metrics=[{"type": "Resource", "resource": resource}])


async def check_the_status_of_an_autoscaler_stands_by_itself(api: Contract) -> Observation:
    path = f"{api.path('horizontalpodautoscalers', VERSION)}/a"
    await _create(api, "a")
    status = {"currentReplicas": 2, "desiredReplicas": 3}
    answer = await api.merge(f"{path}/status", {"spec": {"maxReplicas": 9}, "status": status})
    told = answer.body.get("status") or {}
    return [answer.status, answer.body["spec"]["maxReplicas"], {name: told.get(name) for name in status}]


async def check_autoscalers_as_a_table(api: Contract) -> Observation:
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}
    memory = {"name": "memory", "container": "c", "target": {"type": "AverageValue", "averageValue": "1Gi"}}
    queue = {"metric": {"name": "q"}, "target": {"type": "Value", "value": "3"}}
    shared = {"metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": "3"}}
    service = {"kind": "Service", "name": "s", "apiVersion": "v1"}
    every = {
        "a": [{"type": "Resource", "resource": cpu}],
        "b": [{"type": "ContainerResource", "containerResource": memory}, PODS],
        "c": [
            {"type": "External", "external": queue},
            {"type": "External", "external": shared},
            {"type": "Object", "object": {**queue, "describedObject": service}},
        ],
        "d": [{"type": "Object", "object": {**shared, "describedObject": service}}],
        "e": [{"type": "Object", "object": {**queue, "describedObject": service}}],
    }
    for name, metrics in every.items():
        await _create(api, name, metrics=metrics)
    answer = await api.get(api.path("horizontalpodautoscalers", VERSION), accept=TABLE)
    columns = [column["name"] for column in answer.body["columnDefinitions"]]
    return [columns, [row["cells"][:-1] for row in answer.body["rows"]]]
