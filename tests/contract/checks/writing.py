"""Creating and replacing objects: names, namespaces, optimistic concurrency, generations, status."""

from __future__ import annotations

import copy
import re
import uuid

from tests.contract.contract import Answer, Contract, Observation
from tests.contract.objects import config_map, gang, pod


async def check_creating_twice_is_already_exists(api: Contract) -> Observation:
    await api.create(api.maps, config_map("a1"))
    return (await api.create(api.maps, config_map("a1"))).told


async def check_creating_with_a_resource_version(api: Contract) -> Observation:
    return (await api.create(api.maps, config_map("a1rv", resourceVersion="5"))).told


async def check_creating_in_a_missing_namespace(api: Contract) -> Observation:
    return (await api.create("/api/v1/namespaces/nope/configmaps", config_map("x"))).told


async def check_creating_with_another_namespace_in_the_body(api: Contract) -> Observation:
    return (await api.create(api.maps, config_map("x", namespace="other"))).told


async def check_reading_what_is_not_there(api: Contract) -> Observation:
    return (await api.get(f"{api.maps}/nope")).told


async def check_an_unknown_resource(api: Contract) -> Observation:
    return (await api.get(api.path("foos"))).told


async def check_a_bad_name(api: Contract) -> Observation:
    answer = await api.create(api.maps, config_map("Bad_Name"))
    return [*answer.refused, answer.fields]


async def check_a_generated_name(api: Contract) -> Observation:
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "gn-"}}
    answer = await api.create(api.maps, made)
    shape = re.sub(r"^gn-[a-z0-9]{5}$", "gn-XXXXX", answer.meta["name"])
    return [answer.status, shape, answer.meta.get("generateName")]


async def check_no_name_at_all(api: Contract) -> Observation:
    return (await api.create(api.maps, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}})).told


async def check_an_object_of_another_kind(api: Contract) -> Observation:
    return (await api.create(api.maps, pod("x"))).refused


async def check_replacing_from_a_stale_read(api: Contract) -> Observation:
    first = (await api.create(api.maps, config_map("b1"))).body
    second = copy.deepcopy(first)
    won = await api.put(f"{api.maps}/b1", first | {"data": {"a": "2"}})
    lost = await api.put(f"{api.maps}/b1", second | {"data": {"a": "3"}})
    return [won.status, lost.told]


async def check_replacing_without_a_resource_version(api: Contract) -> Observation:
    await api.create(api.maps, config_map("b2"))
    return (await api.put(f"{api.maps}/b2", config_map("b2", {"z": "1"}))).refused


async def check_replacing_a_custom_object_without_a_resource_version(api: Contract) -> Observation:
    await api.create(api.gangs, gang("b2"))
    return (await api.put(f"{api.gangs}/b2", gang("b2", {"minMember": 3}))).told


async def check_replacing_with_the_same_keeps_the_version(api: Contract) -> Observation:
    made = (await api.create(api.maps, config_map("b3"))).body
    again = await api.put(f"{api.maps}/b3", made)
    return bool(made["metadata"]["resourceVersion"] == again.meta["resourceVersion"])


async def check_a_status_write_that_changes_nothing_keeps_the_version(api: Contract) -> Observation:
    await api.create(api.gangs, gang("b4"))
    versions = [
        (await api.merge(f"{api.gangs}/b4/status", {"status": {"phase": "Up"}})).meta["resourceVersion"]
        for _ in range(2)
    ]
    return versions[0] == versions[1]


async def check_replacing_what_is_not_there(api: Contract) -> Observation:
    return (await api.put(f"{api.maps}/b5", config_map("b5"))).refused


async def check_replacing_under_another_name(api: Contract) -> Observation:
    await api.create(api.maps, config_map("b6"))
    return (await api.put(f"{api.maps}/b6", config_map("other"))).told


async def check_the_uid_cannot_be_changed(api: Contract) -> Observation:
    made = (await api.create(api.maps, config_map("b6"))).body
    made["metadata"]["uid"] = str(uuid.uuid4())
    return (await api.put(f"{api.maps}/b6", made)).refused


async def check_generation_counts_changes_of_the_spec_only(api: Contract) -> Observation:
    path = f"{api.gangs}/g1"
    answers = [
        await api.create(api.gangs, gang("g1")),
        await api.merge(path, {"metadata": {"labels": {"x": "y"}}}),
        await api.merge(path, {"spec": {"minMember": 3}}),
        await api.merge(f"{path}/status", {"status": {"phase": "X"}}),
        await api.merge(path, {"spec": {"minMember": 3}}),
    ]
    return [answer.meta["generation"] for answer in answers]


async def check_status_is_ignored_at_creation(api: Contract) -> Observation:
    return (await api.create(api.gangs, gang("g2") | {"status": {"phase": "Z"}})).body.get("status")


async def check_status_is_ignored_on_the_object_itself(api: Contract) -> Observation:
    await api.create(api.gangs, gang("g2"))
    patch = {"status": {"phase": "Z"}, "spec": {"minMember": 1}}
    return (await api.merge(f"{api.gangs}/g2", patch)).body.get("status")


async def check_only_status_is_written_through_status(api: Contract) -> Observation:
    await api.create(api.gangs, gang("g2", {"minMember": 1}))
    patch = {"status": {"phase": "Y"}, "spec": {"minMember": 4}, "metadata": {"labels": {"via": "status"}}}
    body = (await api.merge(f"{api.gangs}/g2/status", patch)).body
    return [body["spec"]["minMember"], body["status"], body["metadata"].get("labels")]


async def check_a_pods_labels_can_be_written_through_status(api: Contract) -> Observation:
    await api.create(api.pods, pod("p"))
    patch = {"status": {"message": "m"}, "metadata": {"labels": {"via": "status"}}, "spec": {"nodeName": "n"}}
    body = (await api.merge(f"{api.pods}/p/status", patch)).body
    return [body["metadata"].get("labels"), body["status"].get("message"), body["spec"].get("nodeName")]


async def check_a_node_keeps_the_status_it_was_created_with(api: Contract) -> Observation:
    name = api.namespace
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": {"unschedulable": True},
        "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"}},
    }
    answer = await api.create("/api/v1/nodes", node)
    await api.delete(f"/api/v1/nodes/{name}")
    status = answer.body["status"]
    return [answer.status, status.get("capacity"), status.get("allocatable")]


async def check_dry_run_stores_nothing(api: Contract) -> Observation:
    answer = await api.create(api.maps, config_map("dr"), dryRun="All")
    return [answer.status, bool(answer.meta.get("uid")), (await api.get(f"{api.maps}/dr")).status]


async def check_dry_run_of_a_patch_and_of_a_deletion(api: Contract) -> Observation:
    await api.create(api.maps, config_map("dr"))
    patched = await api.merge(f"{api.maps}/dr", {"data": {"a": "2"}}, dryRun="All")
    deleted = await api.delete(f"{api.maps}/dr", dryRun="All")
    left = await api.get(f"{api.maps}/dr")
    return [patched.body["data"], deleted.status, left.status, left.body["data"]]


async def check_dry_run_with_another_value(api: Contract) -> Observation:
    return (await api.create(api.maps, config_map("dr"), dryRun="Some")).refused


async def check_an_owner_without_uid(api: Contract) -> Observation:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}
    return (await api.create(api.maps, config_map("ob", ownerReferences=[owner]))).refused


async def check_two_controllers(api: Contract) -> Observation:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "controller": True}
    owners = [owner | {"name": "x", "uid": "1"}, owner | {"name": "y", "uid": "2"}]
    return (await api.create(api.maps, config_map("oc", ownerReferences=owners))).refused


async def check_a_bad_label(api: Contract) -> Observation:
    return (await api.create(api.maps, config_map("li", labels={"a b": "c"}))).refused


async def check_a_label_value_that_is_too_long(api: Contract) -> Observation:
    answer = await api.create(api.maps, config_map("li", labels={"a": "c" * 64}))
    return [*answer.refused, answer.fields]


async def check_metadata_of_the_server_cannot_be_set(api: Contract) -> Observation:
    sent = config_map("sm", generation=7, creationTimestamp="2001-01-01T00:00:00Z", uid="mine")
    meta = (await api.create(api.maps, sent)).meta
    return [meta.get("generation"), meta["creationTimestamp"].startswith("2001"), meta["uid"] == "mine"]


async def check_a_lease_is_taken_by_one(api: Contract) -> Observation:
    leases = api.path("leases", "coordination.k8s.io/v1")
    renewed = "2026-01-01T00:00:00.000000Z"
    spec = {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": renewed}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": spec}
    made = (await api.create(leases, lease)).body
    won = await api.put(f"{leases}/l", made | {"spec": made["spec"] | {"holderIdentity": "b"}})
    lost = await api.put(f"{leases}/l", made | {"spec": made["spec"] | {"holderIdentity": "c"}})
    return [won.status, lost.refused, made["metadata"].get("generation"), made["spec"]["renewTime"]]


async def check_a_lease_needs_a_positive_duration(api: Contract) -> Observation:
    leases = api.path("leases", "coordination.k8s.io/v1")
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l"},
        "spec": {"leaseDurationSeconds": 0},
    }
    answer = await api.create(leases, lease)
    return [*answer.refused, answer.fields]


async def check_a_lease_with_a_time_that_is_none(api: Contract) -> Observation:
    leases = api.path("leases", "coordination.k8s.io/v1")
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l"},
        "spec": {"renewTime": "yesterday"},
    }
    return (await api.create(leases, lease)).refused


async def check_creating_an_event(api: Contract) -> Observation:
    return (await _event(api)).status


async def check_an_event_is_the_same_in_both_apis(api: Contract) -> Observation:
    await _event(api)
    core = (await api.get(api.path("events"))).body["items"]
    newer = (await api.get(api.path("events", "events.k8s.io/v1"))).body["items"]
    first = newer[0] if newer else {}
    return [len(core) == len(newer) == 1, "regarding" in first, first.get("note"), "involvedObject" in first]


async def _event(api: Contract) -> Answer:
    about = {"kind": "Pod", "name": "p1", "namespace": api.namespace}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "e-"},
        "involvedObject": about,
        "reason": "R",
        "message": "m",
        "type": "Normal",
    }
    return await api.create(api.path("events"), event)
