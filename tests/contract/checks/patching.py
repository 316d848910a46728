"""Merge, JSON and strategic merge patches."""

from __future__ import annotations

from tests.contract.contract import Contract, Observation
from tests.contract.objects import config_map, deployment, gang, pod


async def check_a_patch_that_names_a_stale_version(api: Contract) -> Observation:
    await api.create(api.maps, config_map("b4"))
    patch = {"metadata": {"resourceVersion": "1"}, "data": {"q": "1"}}
    return (await api.merge(f"{api.maps}/b4", patch)).told


async def check_null_in_a_merge_patch_deletes(api: Contract) -> Observation:
    await api.create(api.maps, config_map("b7"))
    return (await api.merge(f"{api.maps}/b7", {"data": {"a": None, "b": "2"}})).body["data"]


async def check_a_merge_patch_replaces_lists(api: Contract) -> Observation:
    await api.create(api.gangs, gang("b7", {"minMember": 1, "roles": [{"name": "a"}, {"name": "b"}]}))
    patch = {"spec": {"roles": [{"name": "c"}]}}
    return (await api.merge(f"{api.gangs}/b7", patch)).body["spec"]["roles"]


async def check_a_patch_that_changes_nothing_keeps_the_version(api: Contract) -> Observation:
    made = await api.create(api.maps, config_map("b7"))
    same = await api.merge(f"{api.maps}/b7", {"data": {"a": "1"}})
    return [same.status, same.meta["resourceVersion"] == made.meta["resourceVersion"]]


async def check_patching_what_is_not_there(api: Contract) -> Observation:
    return (await api.merge(f"{api.maps}/none", {"data": {}})).told


async def check_a_merge_patch_cannot_rename(api: Contract) -> Observation:
    await api.create(api.maps, config_map("b7"))
    return (await api.merge(f"{api.maps}/b7", {"metadata": {"name": "other"}})).refused


async def check_a_json_patch_whose_test_fails(api: Contract) -> Observation:
    await api.create(api.maps, config_map("b8"))
    return (await api.json_patch(f"{api.maps}/b8", [{"op": "test", "path": "/data/a", "value": "9"}])).refused


async def check_a_json_patch_of_a_missing_path(api: Contract) -> Observation:
    await api.create(api.maps, config_map("b8"))
    return (await api.json_patch(f"{api.maps}/b8", [{"op": "remove", "path": "/data/zzz"}])).refused


async def check_a_json_patch_that_moves_copies_and_tests(api: Contract) -> Observation:
    await api.create(api.maps, config_map("b9", annotations={"a": "1"}))
    notes = "/metadata/annotations"
    operations = [
        {"op": "test", "path": f"{notes}/a", "value": "1"},
        {"op": "copy", "from": f"{notes}/a", "path": f"{notes}/b"},
        {"op": "move", "from": f"{notes}/a", "path": f"{notes}/c.com~1d"},
        {"op": "add", "path": f"{notes}/e", "value": "5"},
        {"op": "replace", "path": f"{notes}/b", "value": "2"},
    ]
    return (await api.json_patch(f"{api.maps}/b9", operations)).meta["annotations"]


async def check_a_json_patch_with_an_unknown_operation(api: Contract) -> Observation:
    await api.create(api.maps, config_map("b9"))
    return (await api.json_patch(f"{api.maps}/b9", [{"op": "shuffle", "path": "/data"}])).refused


async def check_a_json_patch_that_is_no_list(api: Contract) -> Observation:
    await api.create(api.maps, config_map("b9"))
    answer = await api.send(
        "PATCH", f"{api.maps}/b9", {"data": {"a": "2"}}, type="application/json-patch+json"
    )
    return answer.refused


async def check_a_patch_of_an_unknown_type(api: Contract) -> Observation:
    await api.create(api.maps, config_map("b9"))
    return (await api.send("PATCH", f"{api.maps}/b9", {"data": {"a": "2"}}, type="application/json")).refused


async def check_a_strategic_patch_merges_lists_by_key(api: Contract) -> Observation:
    path = api.path("deployments", "apps/v1")
    await api.create(path, deployment("d1"))
    env = [{"name": "B", "value": "2"}, {"name": "A", "$patch": "delete"}]
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "c", "env": env}]}}}}
    body = (await api.strategic(f"{path}/d1", patch)).body
    return body["spec"]["template"]["spec"]["containers"][0]["env"]


async def check_a_strategic_patch_can_replace_and_retain(api: Contract) -> Observation:
    path = api.path("deployments", "apps/v1")
    await api.create(path, deployment("d1"))
    labels = {"$patch": "replace", "only": "this"}
    await api.strategic(f"{path}/d1", {"metadata": {"labels": {"x": "1", "y": "2"}}})
    replaced = (await api.strategic(f"{path}/d1", {"metadata": {"labels": labels}})).meta["labels"]
    strategy = {"$retainKeys": ["type"], "type": "Recreate"}
    kept = (await api.strategic(f"{path}/d1", {"spec": {"strategy": strategy}})).body["spec"]["strategy"]
    return [replaced, kept]


async def check_a_strategic_patch_deletes_from_a_plain_list(api: Contract) -> Observation:
    await api.create(api.maps, config_map("f", finalizers=["ex.com/a", "ex.com/b"]))
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["ex.com/a"]}}
    left = (await api.strategic(f"{api.maps}/f", patch)).meta.get("finalizers")
    await api.merge(f"{api.maps}/f", {"metadata": {"finalizers": None}})
    return left


async def check_a_strategic_patch_orders_a_list(api: Contract) -> Observation:
    path = api.path("deployments", "apps/v1")
    await api.create(path, deployment("d1"))
    containers = {
        "$setElementOrder/containers": [{"name": "new"}, {"name": "c"}],
        "containers": [{"name": "new", "image": "busybox"}],
    }
    body = (await api.strategic(f"{path}/d1", {"spec": {"template": {"spec": containers}}})).body
    return [container["name"] for container in body["spec"]["template"]["spec"]["containers"]]


async def check_custom_kinds_know_no_strategic_patch(api: Contract) -> Observation:
    await api.create(api.gangs, gang("g3"))
    return (await api.strategic(f"{api.gangs}/g3", {"spec": {"minMember": 1}})).refused


async def check_conditions_are_merged_by_type(api: Contract) -> Observation:
    await api.create(api.pods, pod("p"))
    for kind in ("A", "B", "A"):
        condition = {"type": kind, "status": "True"}
        answer = await api.strategic(f"{api.pods}/p/status", {"status": {"conditions": [condition]}})
    return sorted(found["type"] for found in answer.body["status"]["conditions"])
