"""Custom kinds: checked, served, defaulted, printed, scaled, and gone with their definition."""

from __future__ import annotations

import pytest
from tests.embedded.bare_cluster import CRDS, GANGS, gang, gang_crd, refusal, with_cluster

from grove.embedded.cluster import EmbeddedCluster
from grove.embedded.errors import Manifest
from grove.embedded.local import LocalClient
from grove.embedded.machinery.structural import crd_errors

CRD = f"{CRDS}/gangs.sched.example.com"


def test_a_crd_is_served_as_soon_as_it_is_stored() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        made = await client.create(CRDS, gang_crd())
        holds = {c["type"]: c["status"] for c in made["status"]["conditions"]}
        assert holds == {"NamesAccepted": "True", "Established": "True"}
        assert made["status"]["acceptedNames"]["listKind"] == "GangList"
        assert (await client.list(GANGS))["kind"] == "GangList"

    with_cluster(body)


def test_defaults_appear_also_below_a_status_that_the_client_may_not_set() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(CRDS, gang_crd())
        made = await client.create(GANGS, {**gang("g"), "status": {"phase": "Mine"}})
        assert made["spec"] == {"minMember": 2, "queue": "main", "replicas": 1}
        assert made["status"] == {"phase": "New"}

    with_cluster(body)


def test_a_new_default_shows_on_objects_that_were_stored_before() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(CRDS, gang_crd())
        before = await client.create(GANGS, gang("g"))
        crd = await client.get(CRD)
        properties = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"][
            "properties"
        ]
        properties["colour"] = {"type": "string", "default": "green"}
        await client.update(CRD, crd)
        after = await client.get(f"{GANGS}/g")
        assert after["spec"]["colour"] == "green"
        assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]

    with_cluster(body)


def test_what_the_schema_forbids_is_422_and_names_the_field() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(CRDS, gang_crd())
        error = await refusal(client.create(GANGS, gang("g", minMember=0)))
        assert error.status == 422
        assert error.details is not None
        assert [cause["field"] for cause in error.details["causes"]] == ["spec.minMember"]

    with_cluster(body)


def test_a_put_of_a_custom_object_must_name_its_resource_version() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(CRDS, gang_crd())
        await client.create(GANGS, gang("g"))
        assert (await refusal(client.update(f"{GANGS}/g", gang("g", minMember=4)))).status == 422

    with_cluster(body)


def test_scale_reads_and_writes_the_replicas_of_the_object() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(CRDS, gang_crd())
        await client.create(GANGS, gang("g"))
        await client.patch(f"{GANGS}/g/scale", {"spec": {"replicas": 7}})
        assert (await client.get(f"{GANGS}/g"))["spec"]["replicas"] == 7
        scale = await client.get(f"{GANGS}/g/scale")
        await client.update(f"{GANGS}/g/scale", {**scale, "spec": {"replicas": 3}})
        assert (await client.get(f"{GANGS}/g/scale"))["spec"] == {"replicas": 3}
        assert (
            await refusal(client.update(f"{GANGS}/g/scale", {**scale, "spec": {"replicas": 5}}))
        ).status == 409

    with_cluster(body)


def test_deleting_a_crd_deletes_its_objects_and_stops_serving_it() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(CRDS, gang_crd())
        await client.create(GANGS, gang("g"))
        await client.delete(CRD)
        assert (await refusal(client.get(CRD))).status == 404
        assert (await refusal(client.list(GANGS))).status == 404
        assert not cluster.store.table(("sched.example.com", "gangs")).entries

    with_cluster(body)


def test_deleting_all_crds_at_once_takes_their_objects_too() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(CRDS, gang_crd())
        await client.create(GANGS, gang("g"))
        await client.delete(CRDS)
        assert (await client.list(CRDS))["items"] == []
        assert not cluster.store.table(("sched.example.com", "gangs")).entries

    with_cluster(body)


def test_a_crd_waits_for_objects_with_finalizers() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(CRDS, gang_crd())
        kept = gang("g")
        kept["metadata"]["finalizers"] = ["example.com/wait"]
        await client.create(GANGS, kept)
        await client.delete(CRD)
        waiting = await client.get(CRD)
        assert waiting["metadata"]["deletionTimestamp"]
        await client.patch(f"{GANGS}/g", {"metadata": {"finalizers": None}})
        assert (await refusal(client.get(CRD))).status == 404

    with_cluster(body)


def with_schema(schema: Manifest) -> Manifest:
    return gang_crd(schema={"openAPIV3Schema": schema})


def spec_of(schema: Manifest) -> Manifest:
    return {"type": "object", "properties": {"spec": schema}}


NOT_STRUCTURAL = {
    "a field without a type": (spec_of({"description": "x"}), "properties[spec].type"),
    "a root that is no object": ({"type": "string"}, "openAPIV3Schema.type"),
    "an array without items": (spec_of({"type": "array"}), "properties[spec].items"),
    "a default inside anyOf": (spec_of({"type": "string", "anyOf": [{"default": "x"}]}), "anyOf[0].default"),
    "a map list without keys": (
        spec_of({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"}),
        "x-kubernetes-list-map-keys",
    ),
}


@pytest.mark.parametrize("case", NOT_STRUCTURAL)
def test_a_schema_that_is_not_structural_is_refused(case: str) -> None:
    schema, where = NOT_STRUCTURAL[case]

    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        error = await refusal(client.create(CRDS, with_schema(schema)))
        assert error.status == 422
        assert error.details is not None
        assert any(cause["field"].endswith(where) for cause in error.details["causes"])

    with_cluster(body)


def test_a_crd_must_be_named_after_what_it_defines() -> None:
    wrong = {**gang_crd(), "metadata": {"name": "other.sched.example.com"}}
    assert [cause.field for cause in crd_errors(wrong)] == ["metadata.name"]


def test_a_second_version_shows_the_same_objects() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        crd = gang_crd()
        [version] = crd["spec"]["versions"]
        crd["spec"]["versions"] = [version, {**version, "name": "v1beta1", "storage": False}]
        await client.create(CRDS, crd)
        await client.create(GANGS, gang("g"))
        older = GANGS.replace("/v1/", "/v1beta1/")
        assert (await client.get(f"{older}/g"))["apiVersion"] == "sched.example.com/v1beta1"
        await client.patch(f"{older}/g", {"spec": {"minMember": 5}})
        assert (await client.get(f"{GANGS}/g"))["spec"]["minMember"] == 5

    with_cluster(body)
