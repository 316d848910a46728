"""Server-side apply and field ownership."""

from __future__ import annotations

import json

from tests.contract.contract import Answer, Contract, Observation
from tests.contract.objects import Manifest, config_map, gang, pod


async def _apply(api: Contract, data: Manifest, *, manager: str = "a", **query: object) -> Answer:
    return await api.apply(f"{api.maps}/s1", config_map("s1", data), manager=manager, **query)


def _owners(answer: Answer) -> list[list[object]]:
    managed = answer.meta.get("managedFields") or []
    return [[entry["manager"], entry["operation"], entry["fieldsV1"]] for entry in managed]


def _as_text(owners: list[list[object]]) -> list[list[object]]:
    return sorted([manager, how, json.dumps(fields)] for manager, how, fields in owners)


async def check_apply_creates(api: Contract) -> Observation:
    answer = await _apply(api, {"a": "1", "b": "1"})
    return [answer.status, _owners(answer)]


async def check_apply_without_manager(api: Contract) -> Observation:
    return (await _apply(api, {}, manager="")).refused


async def check_apply_conflicts(api: Contract) -> Observation:
    await _apply(api, {"a": "1", "b": "1"})
    return (await _apply(api, {"a": "2"}, manager="b")).told


async def check_a_shared_field_stays_when_one_owner_drops_it(api: Contract) -> Observation:
    await _apply(api, {"a": "1", "b": "1"})
    await _apply(api, {"a": "1"}, manager="b")
    return (await _apply(api, {"c": "3"})).body["data"]


async def check_forced_apply_takes_fields_over(api: Contract) -> Observation:
    await _apply(api, {"a": "1", "c": "3"})
    answer = await _apply(api, {"a": "9"}, manager="c", force="true")
    return [answer.body["data"], _as_text(_owners(answer))]


async def check_an_update_takes_fields_over(api: Contract) -> Observation:
    await _apply(api, {"c": "3"})
    await _apply(api, {"a": "9"}, manager="c")
    answer = await api.merge(f"{api.maps}/s1", {"data": {"a": "10"}}, fieldManager="upd")
    return _as_text(_owners(answer))


async def check_applying_the_same_keeps_the_version(api: Contract) -> Observation:
    answers = [await _apply(api, {"a": "1"}) for _ in range(2)]
    return bool(answers[0].meta["resourceVersion"] == answers[1].meta["resourceVersion"])


async def check_applied_list_maps_are_merged_by_key(api: Contract) -> Observation:
    def named(*names: str) -> Manifest:
        return gang("sg", {"minMember": 1, "roles": [{"name": name} for name in names]})

    path = f"{api.gangs}/sg"
    await api.apply(path, named("x", "y"), manager="a")
    other = await api.apply(path, gang("sg", {"roles": [{"name": "z", "count": 5}]}), manager="b")
    fewer = await api.apply(path, named("y"), manager="a")
    return [other.status, other.body["spec"]["roles"], fewer.body["spec"]["roles"]]


async def check_applying_status(api: Contract) -> Observation:
    for manager, spec in (("a", {"minMember": 1}), ("b", {"roles": [{"name": "z"}]})):
        await api.apply(f"{api.gangs}/sg", gang("sg", spec), manager=manager)
    status = {key: value for key, value in gang("sg").items() if key != "spec"} | {"status": {"phase": "Ok"}}
    answer = await api.apply(f"{api.gangs}/sg/status", status, manager="ctl")
    owners = [[entry["manager"], entry.get("subresource")] for entry in answer.meta["managedFields"]]
    return [answer.status, answer.body["status"], owners]


async def check_conditions_of_two_managers_stand_side_by_side(api: Contract) -> Observation:
    await api.create(api.gangs, gang("sg"))
    base = {key: value for key, value in gang("sg").items() if key != "spec"}
    for manager in ("a", "b"):
        condition = {"type": manager.upper(), "status": "True"}
        body = base | {"status": {"conditions": [condition]}}
        answer = await api.apply(f"{api.gangs}/sg/status", body, manager=manager)
    taken = base | {"status": {"conditions": [{"type": "A", "status": "False"}]}}
    conflict = await api.apply(f"{api.gangs}/sg/status", taken, manager="b")
    return [[found["type"] for found in answer.body["status"]["conditions"]], conflict.told]


async def check_applying_field_owners(api: Contract) -> Observation:
    body = config_map("s3", managedFields=[{"manager": "x"}])
    return (await api.apply(f"{api.maps}/s3", body, manager="a")).refused


async def check_a_create_is_owned_by_its_manager(api: Contract) -> Observation:
    made = config_map("mf1", labels={"a": "b"})
    return _owners(await api.create(api.maps, made, fieldManager="mm"))


async def check_the_manager_comes_from_the_user_agent(api: Contract) -> Observation:
    answer = await api.create(api.maps, config_map("mf2"))
    return [manager for manager, _, _ in _owners(answer)]


async def check_field_owners_can_be_cleared(api: Contract) -> Observation:
    await _apply(api, {"a": "1"})
    operations = [{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]
    return (await api.json_patch(f"{api.maps}/s1", operations)).meta.get("managedFields")


async def check_cleared_field_owners_are_recorded_again_once_somebody_applies(api: Contract) -> Observation:
    await api.create(api.maps, config_map("s1", {"a": "1"}))
    operations: list[Manifest] = [
        {"op": "add", "path": "/metadata/managedFields", "value": [{}]},
        {"op": "replace", "path": "/data/a", "value": "2"},
    ]
    seen = [(await api.json_patch(f"{api.maps}/s1", operations)).meta.get("managedFields")]
    seen.append((await api.merge(f"{api.maps}/s1", {"data": {"a": "3"}})).meta.get("managedFields"))
    return [*seen, _as_text(_owners(await _apply(api, {"b": "1"}, manager="b")))]


async def check_applying_to_an_object_that_somebody_created(api: Contract) -> Observation:
    await api.create(api.maps, config_map("s1"), fieldManager="creator")
    same = await _apply(api, {"a": "1"})
    other = await _apply(api, {"a": "2"}, manager="b")
    return [_as_text(_owners(same)), other.told]


async def check_applying_with_a_stale_version(api: Contract) -> Observation:
    await _apply(api, {"a": "1"})
    stale = config_map("s1", {"a": "2"}, resourceVersion="1")
    return (await api.apply(f"{api.maps}/s1", stale, manager="a")).refused


async def check_applying_with_a_version_only_creates(api: Contract) -> Observation:
    """A version that no object can have: the first apply creates, the second finds the object and is refused."""
    observed = []
    for path, body in (
        (f"{api.maps}/s6", config_map("s6", resourceVersion="1")),
        (f"{api.gangs}/s6", gang("s6", {"minMember": 1}, resourceVersion="1")),
    ):
        made = await api.apply(path, body, manager="a")
        again = await api.apply(path, body, manager="a", force="true")
        observed.append([made.status, _as_text(_owners(made)), again.told])
    return observed


async def check_applying_with_a_uid_never_creates(api: Contract) -> Observation:
    uid = "11111111-1111-1111-1111-111111111111"
    one = await api.apply(f"{api.maps}/s7", config_map("s7", uid=uid, resourceVersion="1"), manager="a")
    body = gang("s7", {"minMember": 1}, uid=uid, resourceVersion="1")
    other = await api.apply(f"{api.gangs}/s7", body, manager="a")
    return [one.told, other.told]


async def check_applying_under_another_name(api: Contract) -> Observation:
    return (await api.apply(f"{api.maps}/s9", config_map("s1"), manager="a")).refused


async def check_applying_an_unknown_field_when_strict(api: Contract) -> Observation:
    body = gang("s4", {"minMember": 1, "bogus": 1})
    return (await api.apply(f"{api.gangs}/s4", body, manager="a", fieldValidation="Strict")).refused


async def check_applying_without_kind(api: Contract) -> Observation:
    body = {"metadata": {"name": "s1"}, "data": {"a": "1"}}
    return (await api.apply(f"{api.maps}/s1", body, manager="a")).refused


async def check_applied_fields_of_a_pod(api: Contract) -> Observation:
    made = pod("p", tolerations=[{"key": "x", "operator": "Exists"}])
    answer = await api.apply(f"{api.pods}/p", made, manager="a")
    return _owners(answer)


async def check_a_scale_is_owned_through_the_subresource(api: Contract) -> Observation:
    await api.apply(f"{api.gangs}/s5", gang("s5", {"minMember": 1, "replicas": 3}), manager="a")
    await api.merge(f"{api.gangs}/s5/scale", {"spec": {"replicas": 5}}, fieldManager="scaler")
    entries = (await api.get(f"{api.gangs}/s5")).meta["managedFields"]
    return [[e["manager"], e["operation"], e.get("subresource"), e["fieldsV1"]] for e in entries]


async def check_applying_below_an_empty_mapping_of_another_owner(api: Contract) -> Observation:
    observed = []
    for name, empty in (("maps", {}), ("full", {"b": "1"})):
        path = f"{api.maps}/{name}"
        await api.apply(path, config_map(name, empty), manager="a")
        observed.append((await api.apply(path, config_map(name, {"c": "1"}), manager="b")).told)
    await api.apply(f"{api.gangs}/e", gang("e", {"minMember": 1, "extra": {}}), manager="a")
    other = await api.apply(f"{api.gangs}/e", gang("e", {"extra": {"c": "1"}}), manager="b")
    return [*observed, other.told]
