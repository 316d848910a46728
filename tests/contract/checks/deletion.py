"""Deletion: finalizers, preconditions, collections, namespaces, and what the garbage collector makes of owners."""

from __future__ import annotations

from tests.contract.contract import Contract, Observation
from tests.contract.objects import Manifest, config_map, gang, owned_by

HOLD = ["ex.com/f"]
LET_GO: Manifest = {"metadata": {"finalizers": None}}


async def check_a_finalizer_keeps_an_object(api: Contract) -> Observation:
    path = f"{api.maps}/f1"
    await api.create(api.maps, config_map("f1", finalizers=HOLD))
    deleted = await api.delete(path)
    meta = (await api.get(path)).meta
    kept = [
        deleted.status,
        deleted.body["kind"],
        bool(meta.get("deletionTimestamp")),
        meta.get("deletionGracePeriodSeconds"),
    ]
    more = await api.merge(path, {"metadata": {"finalizers": [*HOLD, "ex.com/new"]}})
    last = await api.merge(path, LET_GO)
    return [kept, more.refused, last.status, (await api.get(path)).status]


async def check_deleting_counts_as_a_change(api: Contract) -> Observation:
    path = f"{api.gangs}/f2"
    await api.create(api.gangs, gang("f2", finalizers=HOLD))
    await api.delete(path)
    generation = (await api.get(path)).meta["generation"]
    await api.merge(path, {"metadata": {"finalizers": []}})
    return [generation, (await api.get(path)).status]


async def check_an_object_can_be_changed_while_it_is_deleted(api: Contract) -> Observation:
    path = f"{api.maps}/f3"
    await api.create(api.maps, config_map("f3", finalizers=HOLD))
    await api.delete(path)
    changed = await api.merge(path, {"data": {"a": "2"}})
    again = await api.delete(path)
    await api.merge(path, LET_GO)
    return [changed.status, changed.body["data"], again.status]


async def check_what_a_deletion_answers(api: Contract) -> Observation:
    await api.create(api.maps, config_map("d1"))
    answer = await api.delete(f"{api.maps}/d1")
    details = answer.body.get("details") or {}
    return [answer.status, answer.body["kind"], answer.body.get("status"), sorted(details)]


async def check_deleting_what_is_not_there(api: Contract) -> Observation:
    return (await api.delete(f"{api.maps}/none")).told


async def check_a_deletion_that_names_another_uid(api: Contract) -> Observation:
    await api.create(api.maps, config_map("d2"))
    return (await api.delete(f"{api.maps}/d2", _options(preconditions={"uid": "nope"}))).refused


async def check_a_deletion_that_names_another_version(api: Contract) -> Observation:
    await api.create(api.maps, config_map("d2"))
    return (await api.delete(f"{api.maps}/d2", _options(preconditions={"resourceVersion": "1"}))).refused


async def check_a_propagation_policy_that_does_not_exist(api: Contract) -> Observation:
    await api.create(api.maps, config_map("d2"))
    return (await api.delete(f"{api.maps}/d2", _options(propagationPolicy="Sideways"))).refused


async def check_deleting_a_collection(api: Contract) -> Observation:
    for name in ("l1", "l2", "other"):
        labels = {"l": "0"} if name == "other" else {"l": "1"}
        await api.create(api.maps, config_map(name, labels=labels))
    answer = await api.delete(api.maps, labelSelector="l=1")
    left = (await api.get(api.maps, labelSelector="l")).body["items"]
    return [answer.status, answer.body["kind"], [found["metadata"]["name"] for found in left]]


async def check_nothing_is_created_in_a_namespace_that_ends(api: Contract) -> Observation:
    name = f"{api.namespace}-t"
    maps = api.path("configmaps", namespace=name)
    await api.create(
        "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )
    await api.create(maps, config_map("hold", finalizers=HOLD))
    deleted = await api.delete(f"/api/v1/namespaces/{name}")
    refused = await api.create(maps, config_map("new"))
    await api.merge(f"{maps}/hold", LET_GO)
    causes = (refused.body.get("details") or {}).get("causes") or [{}]
    phase = deleted.body["status"].get("phase")
    return [deleted.status, phase, refused.refused, causes[0].get("reason")]


async def check_a_namespace_takes_its_content_along(api: Contract) -> Observation:
    name = f"{api.namespace}-d"
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await api.create("/api/v1/namespaces", made)
    maps = api.path("configmaps", namespace=name)
    await api.create(maps, config_map("x"))
    await api.delete(f"/api/v1/namespaces/{name}")
    gone = await api.gone("/api/v1/namespaces", name)
    return [gone, (await api.get(f"{maps}/x")).status]


# --- owners


def _options(**options: object) -> Manifest:
    return {"apiVersion": "v1", "kind": "DeleteOptions", **options}


async def _map(api: Contract, name: str, *owners: Manifest, **meta: object) -> Manifest:
    made = config_map(name)
    made["metadata"] |= meta
    if owners:
        made["metadata"]["ownerReferences"] = owned_by(*owners)
    return (await api.create(api.maps, made)).body


async def check_background_deletion(api: Contract) -> Observation:
    owner = await _map(api, "bo")
    await _map(api, "bc", owner)
    await api.delete(f"{api.maps}/bo", _options(propagationPolicy="Background"))
    at_once = (await api.get(f"{api.maps}/bo")).status == 404
    return [at_once, await api.gone(api.maps, "bc")]


async def check_foreground_deletion(api: Contract) -> Observation:
    owner = await _map(api, "fo")
    await _map(api, "fc", owner, finalizers=["ex.com/hold"])
    await api.delete(f"{api.maps}/fo", _options(propagationPolicy="Foreground"))
    marked = await api.until(
        api.maps, "fc", lambda found: found is not None and found["metadata"].get("deletionTimestamp")
    )
    parent = await api.get(f"{api.maps}/fo")
    await api.merge(f"{api.maps}/fc", LET_GO)
    return [marked, [parent.status, parent.meta.get("finalizers")], await api.gone(api.maps, "fo")]


async def check_orphaning_deletion(api: Contract) -> Observation:
    owner = await _map(api, "oo")
    await _map(api, "oc", owner)
    await api.delete(f"{api.maps}/oo", _options(propagationPolicy="Orphan"))
    gone = await api.gone(api.maps, "oo")
    return [gone, (await api.get(f"{api.maps}/oc")).meta.get("ownerReferences")]


async def check_the_last_of_two_owners(api: Contract) -> Observation:
    owners = [await _map(api, name) for name in ("ta", "tb")]
    await _map(api, "tc", *owners)
    await api.delete(f"{api.maps}/ta", _options(propagationPolicy="Background"))
    fewer = await api.until(
        api.maps,
        "tc",
        lambda found: found is not None and len(found["metadata"].get("ownerReferences") or ()) == 1,
    )
    await api.delete(f"{api.maps}/tb", _options(propagationPolicy="Background"))
    return [fewer, await api.gone(api.maps, "tc")]


async def check_an_owner_that_never_was(api: Contract) -> Observation:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "never"}
    reference = owner | {"uid": "00000000-0000-0000-0000-000000000001"}
    await api.create(api.maps, config_map("dc", ownerReferences=[reference]))
    return await api.gone(api.maps, "dc")


async def check_a_custom_owner(api: Contract) -> Observation:
    owner = (await api.create(api.gangs, gang("own"))).body
    await _map(api, "crc", owner)
    answer = await api.delete(f"{api.gangs}/own")
    return [answer.status, answer.body["kind"], await api.gone(api.maps, "crc")]


async def check_a_chain_of_owners(api: Contract) -> Observation:
    first = await _map(api, "c1")
    second = await _map(api, "c2", first)
    await _map(api, "c3", second)
    await api.delete(f"{api.maps}/c1", _options(propagationPolicy="Background"))
    return await api.gone(api.maps, "c3")


async def check_an_owner_in_another_namespace_is_no_owner(api: Contract) -> Observation:
    name = f"xo-{api.namespace}"
    elsewhere = api.path("configmaps", namespace="default")
    owner = (await api.create(elsewhere, config_map(name))).body
    await _map(api, "xc", owner)
    gone = await api.gone(api.maps, "xc")
    await api.delete(f"{elsewhere}/{name}")
    return gone
