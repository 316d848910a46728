"""Native gang scheduling, which every minor of Kubernetes spells differently: Workload, PodGroup, pods."""

from __future__ import annotations

from tests.contract.contract import Answer, Contract, Observation
from tests.contract.objects import Manifest, pod

GROUP = "scheduling.k8s.io"
VERSIONS = {"1.35": "v1alpha1", "1.36": "v1alpha2", "1.37": "v1beta1"}
GANG: Manifest = {"gang": {"minCount": 2}}


def _version(api: Contract) -> str:
    return f"{GROUP}/{VERSIONS[api.minor]}"


def _template(api: Contract, name: str = "workers", policy: Manifest | None = None) -> Manifest:
    field = "policy" if api.minor == "1.35" else "schedulingPolicy"
    return {"name": name, field: GANG if policy is None else policy}


def _set(spec: Manifest) -> Manifest:
    """What is set, without what depends on a feature gate of its own."""
    return {key: value for key, value in spec.items() if value is not None and key != "preemptionPolicy"}


def _templates(api: Contract) -> str:
    return "podGroups" if api.minor == "1.35" else "podGroupTemplates"


async def _workload(api: Contract, *templates: Manifest, name: str = "w") -> Answer:
    workload = {
        "apiVersion": _version(api),
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {_templates(api): list(templates)},
    }
    return await api.create(api.path("workloads", _version(api)), workload)


async def _group(api: Contract, name: str = "g", **spec: object) -> Answer:
    if api.minor == "1.36":
        reference: Manifest = {
            "podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "workers"}}
        }
    else:
        reference = {"workloadRef": {"workloadName": "w", "templateName": "workers"}}
    group = {
        "apiVersion": _version(api),
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": GANG, **reference, **spec},
    }
    return await api.create(api.path("podgroups", _version(api)), group)


async def check_which_gang_kinds_are_served(api: Contract) -> Observation:
    versions = [found["version"] for found in (await api.get(f"/apis/{GROUP}")).body["versions"]]
    served = {}
    for version in sorted(versions):
        resources = (await api.get(f"/apis/{GROUP}/{version}")).body["resources"]
        served[version] = sorted(found["name"] for found in resources)
    return served


async def check_creating_a_workload(api: Contract) -> Observation:
    answer = await _workload(api, _template(api))
    templates = [_set(found) for found in (answer.body.get("spec") or {}).get(_templates(api)) or ()]
    return [answer.status, templates, answer.meta.get("generation")]


async def check_a_workload_without_templates(api: Contract) -> Observation:
    answer = await _workload(api)
    return [*answer.refused, answer.fields]


async def check_a_workload_with_two_templates_of_one_name(api: Contract) -> Observation:
    return (await _workload(api, _template(api), _template(api))).refused


async def check_a_workload_with_nine_templates(api: Contract) -> Observation:
    answer = await _workload(api, *[_template(api, f"t{index}") for index in range(9)])
    return [*answer.refused, answer.fields]


async def check_a_template_without_policy(api: Contract) -> Observation:
    answer = await _workload(api, _template(api, policy={}))
    return [*answer.refused, answer.fields]


async def check_a_gang_of_none(api: Contract) -> Observation:
    answer = await _workload(api, _template(api, policy={"gang": {"minCount": 0}}))
    return [*answer.refused, answer.fields]


async def check_a_workloads_templates_cannot_change(api: Contract) -> Observation:
    await _workload(api, _template(api))
    path = f"{api.path('workloads', _version(api))}/w"
    renamed = await api.merge(path, {"spec": {_templates(api): [_template(api, "others")]}})
    bigger = await api.merge(
        path, {"spec": {_templates(api): [_template(api, policy={"gang": {"minCount": 3}})]}}
    )
    return [renamed.refused, bigger.refused]


async def check_creating_a_pod_group(api: Contract) -> Observation:
    await _workload(api, _template(api))
    answer = await _group(api)
    return [answer.status, _set(answer.body.get("spec") or {}), answer.meta.get("finalizers")]


async def check_a_pod_group_of_a_workload_that_is_not_there(api: Contract) -> Observation:
    return (await _group(api)).refused


async def check_a_pod_groups_policy_cannot_change(api: Contract) -> Observation:
    await _workload(api, _template(api))
    await _group(api)
    path = f"{api.path('podgroups', _version(api))}/g"
    more = await api.merge(path, {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}})
    other = await api.merge(path, {"spec": {"schedulingPolicy": {"gang": None, "basic": {}}}})
    return [more.refused, other.refused]


async def check_the_status_of_a_pod_group(api: Contract) -> Observation:
    await _workload(api, _template(api))
    await _group(api)
    path = f"{api.path('podgroups', _version(api))}/g"
    condition = {
        "type": "PodGroupScheduled",
        "status": "True",
        "reason": "Scheduled",
        "message": "all placed",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    patch = {"status": {"conditions": [condition]}, "spec": {"schedulingPolicy": {"gang": {"minCount": 9}}}}
    answer = await api.merge(f"{path}/status", patch)
    return [answer.status, answer.body.get("status"), (answer.body.get("spec") or {}).get("schedulingPolicy")]


async def check_a_pod_group_goes_when_no_pod_uses_it(api: Contract) -> Observation:
    await _workload(api, _template(api))
    if (await _group(api)).status != 201:
        return "not served"
    groups = api.path("podgroups", _version(api))
    await api.delete(f"{groups}/g")
    return await api.gone(groups, "g")


async def check_how_a_pod_names_its_gang(api: Contract) -> Observation:
    """1.35 has workloadRef, later minors have schedulingGroup; the other's field is unknown."""
    old = {"workloadRef": {"name": "w", "podGroup": "workers"}}
    new = {"schedulingGroup": {"podGroupName": "g"}}
    observed = []
    for name, link in (("old", old), ("new", new)):
        answer = await api.create(api.pods, pod(name, **link))
        spec = answer.body.get("spec") or {}
        observed.append([answer.status, spec.get(next(iter(link))), answer.headers.get("Warning")])
    return observed


async def check_a_pod_cannot_change_its_gang(api: Contract) -> Observation:
    if api.minor == "1.35":
        link: Manifest = {"workloadRef": {"name": "w", "podGroup": "workers"}}
        other: Manifest = {"workloadRef": {"name": "other"}}
    else:
        link = {"schedulingGroup": {"podGroupName": "g"}}
        other = {"schedulingGroup": {"podGroupName": "other"}}
    await api.create(api.pods, pod("p", schedulingGates=[{"name": "a.com/x"}], **link))
    return (await api.merge(f"{api.pods}/p", {"spec": other})).refused


async def check_a_tree_of_groups(api: Contract) -> Observation:
    """Only 1.37 has composite groups."""
    version = f"{GROUP}/v1alpha3"
    group: Manifest = {
        "apiVersion": version,
        "kind": "CompositePodGroup",
        "metadata": {"name": "c"},
        "spec": {"schedulingPolicy": {"gang": {"minGroupCount": 1}}},
    }
    path = api.path("compositepodgroups", version)
    alone = await api.create(path, group)
    group["spec"] |= {"workloadRef": {"workloadName": "w", "templateName": "workers"}}
    answer = await api.create(path, group)
    return [[*alone.refused, alone.fields], answer.status, _set(answer.body.get("spec") or {})]
