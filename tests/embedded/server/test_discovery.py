"""Discovery and OpenAPI: what kubectl reads before it does anything."""

from __future__ import annotations

import pytest
from tests.embedded.bare_cluster import CRDS, gang_crd, json_of, refusal, send, with_cluster

from grove.embedded.cluster import ClusterOptions, EmbeddedCluster
from grove.embedded.kinds.registry import Registry
from grove.embedded.local import LocalClient

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
GANGS = {
    "1.35": {"v1": {"PriorityClass"}, "v1alpha1": {"Workload"}},
    "1.36": {"v1": {"PriorityClass"}, "v1alpha2": {"Workload", "PodGroup"}},
    "1.37": {
        "v1": {"PriorityClass"},
        "v1beta1": {"Workload", "PodGroup"},
        "v1alpha3": {"Workload", "PodGroup", "CompositePodGroup"},
    },
}


@pytest.mark.parametrize("minor", GANGS)
def test_each_minor_serves_its_own_gang_api(minor: str) -> None:
    served: dict[str, set[str]] = {}
    for resource in Registry(minor):
        if resource.group == "scheduling.k8s.io":
            served.setdefault(resource.version, set()).add(resource.kind)
    assert served == GANGS[minor]


def test_a_minor_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match=r"1\.12"):
        Registry("1.12")


def test_aggregated_discovery_echoes_its_content_type_and_lists_custom_kinds() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(CRDS, gang_crd())
        response = await send(cluster, "GET", "/apis", headers={"accept": AGGREGATED})
        assert response.headers["Content-Type"] == AGGREGATED
        groups = {item["metadata"]["name"]: item for item in json_of(response)["items"]}
        [resource] = groups["sched.example.com"]["versions"][0]["resources"]
        assert (resource["resource"], resource["shortNames"], resource["scope"]) == (
            "gangs",
            ["gg"],
            "Namespaced",
        )
        assert [s["subresource"] for s in resource["subresources"]] == ["scale", "status"]

    with_cluster(body)


def test_legacy_discovery_says_the_same() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        assert (await client.get("/api"))["versions"] == ["v1"]
        groups = {group["name"] for group in (await client.get("/apis"))["groups"]}
        assert {"apps", "batch", "events.k8s.io"} <= groups
        listed = await client.get("/apis/apps/v1")
        assert {"deployments", "deployments/scale"} <= {r["name"] for r in listed["resources"]}
        assert (await client.get("/apis/apps"))["preferredVersion"]["version"] == "v1"
        assert (await refusal(client.get("/apis/nope.example.com"))).status == 404

    with_cluster(body)


def test_stable_versions_come_before_beta_and_alpha() -> None:
    assert Registry("1.37").groups()["scheduling.k8s.io"] == ["v1", "v1beta1", "v1alpha3"]


def test_openapi_has_what_apply_and_explain_look_up() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(CRDS, gang_crd())
        index = (await client.get("/openapi/v3"))["paths"]
        path = index["apis/sched.example.com/v1"]["serverRelativeURL"].partition("?")[0]
        document = await client.get(path)
        patch = document["paths"]["/apis/sched.example.com/v1/namespaces/{namespace}/gangs/{name}"]["patch"]
        assert patch["x-kubernetes-group-version-kind"]["kind"] == "Gang"
        assert "fieldValidation" in {parameter["name"] for parameter in patch["parameters"]}
        assert "application/strategic-merge-patch+json" not in patch["requestBody"]["content"]
        assert "com.example.sched.v1.Gang" in document["components"]["schemas"]
        core = await client.get("/openapi/v3/api/v1")
        assert "io.k8s.api.core.v1.PodSpec" in core["components"]["schemas"]

    with_cluster(body)


def test_the_index_changes_when_kinds_do() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        before = await client.get("/openapi/v3")
        await client.create(CRDS, gang_crd())
        assert (await client.get("/openapi/v3"))["paths"]["api/v1"] != before["paths"]["api/v1"]

    with_cluster(body, ClusterOptions(listen=False, actors=False, kubernetes="1.37"))


def test_openapi_v2_is_one_document_with_every_kind() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(CRDS, gang_crd())
        document = await client.get("/openapi/v2")
        assert document["swagger"] == "2.0"
        definitions = document["definitions"]
        kinds = {
            (kind["group"], kind["version"], kind["kind"])
            for each in definitions.values()
            for kind in each.get("x-kubernetes-group-version-kind", ())
        }
        assert {("", "v1", "Pod"), ("apps", "v1", "Deployment"), ("sched.example.com", "v1", "Gang")} <= kinds
        pod = definitions["io.k8s.api.core.v1.Pod"]["properties"]
        assert pod["spec"]["$ref"] == "#/definitions/io.k8s.api.core.v1.PodSpec"
        port = definitions["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]
        assert port == {"type": "string", "format": "int-or-string"}
        parameters = document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]["parameters"]
        assert {"name": "dryRun", "in": "query", "type": "string", "uniqueItems": True} in parameters

    with_cluster(body)


def test_openapi_v2_is_protobuf_for_those_who_ask_for_it() -> None:
    async def body(cluster: EmbeddedCluster, _: LocalClient) -> None:
        wanted = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
        answer = await send(cluster, "GET", "/openapi/v2", headers={"accept": wanted})
        assert answer.headers["Content-Type"].endswith("+protobuf")
        assert isinstance(answer.body, bytes)
        # The first field is the text "2.0".
        assert answer.body.startswith(b"\x0a\x032.0")
        assert b"io.k8s.api.core.v1.Pod" in answer.body

    with_cluster(body)
