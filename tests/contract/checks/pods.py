"""Pods: defaults, what may change, scheduling gates, binding, deletion, resources."""

from __future__ import annotations

from tests.contract.contract import Contract, Observation, Unavailable
from tests.contract.objects import Manifest, binding, deployment, pod, pod_asking

GATED: Manifest = {"schedulingGates": [{"name": "a.com/x"}]}


async def check_defaults_of_a_pod(api: Contract) -> Observation:
    """Without what admission adds: the account, and tolerations (see the next check)."""
    body = (await api.create(api.pods, pod("p1"))).body
    added = ("serviceAccount", "serviceAccountName", "tolerations")
    return [{name: value for name, value in body["spec"].items() if name not in added}, body["status"]]


async def check_pods_tolerate_trouble_of_their_node_for_a_while(api: Contract) -> Observation:
    tolerations = (await api.create(api.pods, pod("p1"))).body["spec"].get("tolerations")
    if tolerations is None:
        raise Unavailable("the admission plugin DefaultTolerationSeconds is switched off")
    return tolerations


async def check_a_pod_starts_pending(api: Contract) -> Observation:
    return (await api.create(api.pods, pod("p2") | {"status": {"phase": "Running"}})).body["status"]["phase"]


async def check_a_pods_command_cannot_change(api: Contract) -> Observation:
    await api.create(api.pods, pod("p1"))
    patch = {"spec": {"containers": [{"name": "c", "command": ["x"]}]}}
    return (await api.strategic(f"{api.pods}/p1", patch)).refused


async def check_a_pods_image_can_change(api: Contract) -> Observation:
    await api.create(api.pods, pod("p1"))
    answer = await api.strategic(
        f"{api.pods}/p1", {"spec": {"containers": [{"name": "c", "image": "busybox:2"}]}}
    )
    return [answer.status, answer.meta.get("generation")]


async def check_a_gate_cannot_be_added(api: Contract) -> Observation:
    await api.create(api.pods, pod("p3", **GATED))
    patch = {"spec": {"schedulingGates": [{"name": "a.com/y"}]}}
    return (await api.strategic(f"{api.pods}/p3", patch)).refused


async def check_what_a_gated_pod_says(api: Contract) -> Observation:
    await api.create(api.pods, pod("p3", **GATED))
    conditions = (await api.get(f"{api.pods}/p3")).body["status"].get("conditions", [])
    return [[found["type"], found["status"], found.get("reason")] for found in conditions]


async def check_a_gated_pod_with_a_node(api: Contract) -> Observation:
    return (await api.create(api.pods, pod("p4", nodeName="n1", **GATED))).refused


async def check_two_gates_of_one_name(api: Contract) -> Observation:
    gates = [{"name": "a.com/x"}, {"name": "a.com/x"}]
    return (await api.create(api.pods, pod("p4", schedulingGates=gates))).refused


async def check_a_gated_pod_cannot_be_bound(api: Contract) -> Observation:
    await api.create(api.pods, pod("p3", **GATED))
    return (await api.create(f"{api.pods}/p3/binding", binding("p3", "n1"))).refused


async def check_a_gated_pods_node_selector_may_only_grow(api: Contract) -> Observation:
    await api.create(api.pods, pod("p3", **GATED))
    added = await api.merge(f"{api.pods}/p3", {"spec": {"nodeSelector": {"k": "v"}}})
    changed = await api.merge(f"{api.pods}/p3", {"spec": {"nodeSelector": {"k": "w"}}})
    return [added.refused, changed.refused]


async def check_a_gated_pods_affinity_may_only_narrow(api: Contract) -> Observation:
    await api.create(api.pods, pod("p3", **GATED))

    def requiring(*zones: str) -> Manifest:
        terms = [
            {"matchExpressions": [{"key": zone, "operator": "Exists"} for zone in zones]},
        ]
        needed = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        return {"spec": {"affinity": {"nodeAffinity": needed}}}

    path = f"{api.pods}/p3"
    answers = [
        await api.merge(path, requiring("zone")),
        await api.merge(path, requiring("zone", "rack")),
        await api.merge(path, requiring("rack")),
    ]
    return [answer.refused for answer in answers]


async def check_releasing_a_pod(api: Contract) -> Observation:
    await api.create(api.pods, pod("p3", **GATED))
    path = f"{api.pods}/p3"
    released = await api.json_patch(path, [{"op": "remove", "path": "/spec/schedulingGates/0"}])
    too_late = await api.merge(path, {"spec": {"nodeSelector": {"z": "z"}}})
    return [released.refused, too_late.refused]


async def check_testing_and_removing_one_of_two_gates(api: Contract) -> Observation:
    gates = [{"name": "a.com/x"}, {"name": "b.com/y"}]
    await api.create(api.pods, pod("p3", schedulingGates=gates))
    first = "/spec/schedulingGates/0"
    operations = [
        {"op": "test", "path": f"{first}/name", "value": "a.com/x"},
        {"op": "remove", "path": first},
    ]
    answers = [await api.json_patch(f"{api.pods}/p3", operations) for _ in range(2)]
    return [answers[0].body["spec"].get("schedulingGates"), answers[1].refused]


async def check_binding_a_pod(api: Contract) -> Observation:
    path = f"{api.pods}/p3"
    await api.create(api.pods, pod("p3"))
    bound = await api.create(f"{path}/binding", binding("p3", "nx"))
    found = (await api.get(path)).body
    again = await api.create(f"{path}/binding", binding("p3", "nx"))
    conditions = [[each["type"], each["status"]] for each in found["status"]["conditions"]]
    return [bound.status, bound.body["status"], found["spec"]["nodeName"], conditions, again.told]


async def check_binding_a_pod_that_is_not_there(api: Contract) -> Observation:
    return (await api.create(f"{api.pods}/none/binding", binding("none", "nx"))).refused


async def check_a_node_cannot_be_patched_into_a_pod(api: Contract) -> Observation:
    await api.create(api.pods, pod("p1"))
    return (await api.merge(f"{api.pods}/p1", {"spec": {"nodeName": "n9"}})).refused


async def check_deleting_a_pod_without_node(api: Contract) -> Observation:
    await api.create(api.pods, pod("p5"))
    answer = await api.delete(f"{api.pods}/p5")
    return [answer.status, answer.body["kind"], (await api.get(f"{api.pods}/p5")).status]


async def check_deleting_a_pod_on_a_node(api: Contract) -> Observation:
    path = f"{api.pods}/p3"
    await api.create(api.pods, pod("p3", nodeName="nx"))
    answer = await api.delete(path)
    found = await api.get(path)
    grace = found.meta.get("deletionGracePeriodSeconds")
    forced = await api.delete(path, gracePeriodSeconds=0)
    return [
        answer.status,
        answer.body["kind"],
        found.status,
        grace,
        forced.status,
        (await api.get(path)).status,
    ]


async def check_a_toleration_can_be_added(api: Contract) -> Observation:
    await api.create(api.pods, pod("p1"))
    return (
        await api.strategic(f"{api.pods}/p1", {"spec": {"tolerations": [{"key": "x", "operator": "Exists"}]}})
    ).refused


async def check_a_pod_without_containers(api: Contract) -> Observation:
    return (await api.create(api.pods, pod("p9", containers=[]))).refused


async def check_an_unknown_field_of_a_pod_when_strict(api: Contract) -> Observation:
    return (await api.create(api.pods, pod("p10", foo=1), fieldValidation="Strict")).told


async def check_an_unknown_field_of_a_pod(api: Contract) -> Observation:
    answer = await api.create(api.pods, pod("p11", foo=1))
    return [answer.status, answer.headers.get("Warning")]


async def check_a_wrong_type_in_a_pod(api: Contract) -> Observation:
    return (await api.create(api.pods, pod("p12", hostNetwork="yes"))).refused


async def check_a_quantity_that_is_none(api: Contract) -> Observation:
    return (await api.create(api.pods, pod_asking("p13", requests={"cpu": "abc"}))).refused


async def check_requests_above_limits(api: Contract) -> Observation:
    asking = pod_asking("p14", requests={"cpu": "2"}, limits={"cpu": "1"})
    return (await api.create(api.pods, asking)).refused


async def check_a_device_requested_without_limit(api: Contract) -> Observation:
    return (await api.create(api.pods, pod_asking("p15", requests={"nvidia.com/gpu": "1"}))).refused


async def check_a_device_limit_is_also_the_request(api: Contract) -> Observation:
    body = (await api.create(api.pods, pod_asking("p16", limits={"nvidia.com/gpu": "1"}))).body
    return body["spec"]["containers"][0]["resources"]


async def check_quality_of_service(api: Contract) -> Observation:
    wanted = {
        "guaranteed": {"limits": {"cpu": "1", "memory": "1Gi"}},
        "burstable": {"requests": {"cpu": "1"}},
    }
    made = [await api.create(api.pods, pod_asking(name, **asked)) for name, asked in wanted.items()]
    return [answer.body["status"]["qosClass"] for answer in made]


async def check_the_log_of_a_pod_that_waits(api: Contract) -> Observation:
    await api.create(api.pods, pod("p1"))
    return (await api.get(f"{api.pods}/p1/log", container="other")).refused


# --- pods inside other kinds


async def check_a_deployments_selector_cannot_change(api: Contract) -> Observation:
    path = api.path("deployments", "apps/v1")
    await api.create(path, deployment("d1"))
    return (await api.merge(f"{path}/d1", {"spec": {"selector": {"matchLabels": {"q": "1"}}}})).refused


async def check_a_deployments_selector_must_match_its_template(api: Contract) -> Observation:
    path = api.path("deployments", "apps/v1")
    return (await api.create(path, deployment("d9", selector={"matchLabels": {"zz": "z"}}))).refused


async def check_scale_of_a_deployment(api: Contract) -> Observation:
    path = f"{api.path('deployments', 'apps/v1')}/d1"
    await api.create(api.path("deployments", "apps/v1"), deployment("d1"))
    scale = (await api.get(f"{path}/scale")).body
    changed = await api.merge(f"{path}/scale", {"spec": {"replicas": 5}})
    return [scale["spec"], scale["status"].get("selector"), changed.body["spec"]]


async def check_defaults_of_a_job(api: Contract) -> Observation:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "b"}]}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"template": template},
    }
    spec = (await api.create(api.path("jobs", "batch/v1"), job)).body["spec"]
    return {name: value for name, value in spec.items() if name not in ("selector", "template")}
