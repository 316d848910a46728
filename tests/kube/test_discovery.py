"""Discovery tells the same story in its new and in its old form."""

from tests.kube.stub import Asked, Reply, client_of, refusal, reply, serve

from grove.kube.discovery import Discovery, VersionInfo
from grove.meta import GVK, Manifest, Resource

PODS = Resource(GVK("", "v1", "Pod"), "pods", True)
NODES = Resource(GVK("", "v1", "Node"), "nodes", False)
GANGS = Resource(GVK("scheduler.grove.io", "v1alpha1", "PodGang"), "podgangs", True)
WANT = Discovery(
    served={"v1": frozenset({"pods", "nodes"}), "scheduler.grove.io/v1alpha1": frozenset({"podgangs"})},
)


def found(plural: str, kind: str, scope: str) -> Manifest:
    subresources = [{"subresource": "status", "responseKind": {"kind": kind}}]
    return {"resource": plural, "responseKind": {"kind": kind}, "scope": scope, "subresources": subresources}


def group(name: str, version: str, *resources: Manifest) -> Manifest:
    versions = [{"version": version, "resources": list(resources)}]
    return {"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": name}, "versions": versions}]}


AGGREGATED = {
    "/api": group("", "v1", found("pods", "Pod", "Namespaced"), found("nodes", "Node", "Cluster")),
    "/apis": group("scheduler.grove.io", "v1alpha1", found("podgangs", "PodGang", "Namespaced")),
}
LEGACY: dict[str, Manifest] = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {
        "kind": "APIGroupList",
        "groups": [
            {"name": "scheduler.grove.io", "versions": [{"groupVersion": "scheduler.grove.io/v1alpha1"}]},
            {"name": "metrics.k8s.io", "versions": [{"groupVersion": "metrics.k8s.io/v1beta1"}]},
        ],
    },
    "/api/v1": {
        "resources": [
            {"name": "pods", "kind": "Pod", "namespaced": True},
            {"name": "pods/status", "kind": "Pod", "namespaced": True},
            {"name": "nodes", "kind": "Node", "namespaced": False},
        ]
    },
    "/apis/scheduler.grove.io/v1alpha1": {
        "resources": [{"name": "podgangs", "kind": "PodGang", "namespaced": True}]
    },
}


async def test_aggregated_discovery_takes_two_requests() -> None:
    async with serve(script=lambda asked: reply(AGGREGATED[asked.path])) as stub, client_of(stub) as client:
        discovery = await client.discover()
        assert discovery == WANT
        assert len(stub.asked) == 2
        assert "v=v2;as=APIGroupDiscoveryList" in stub.asked[0].headers["Accept"]


def legacy(asked: Asked) -> Reply:
    return (
        reply(LEGACY[asked.path])
        if asked.path in LEGACY
        else refusal(503, "ServiceUnavailable", "no metrics")
    )


async def test_an_older_server_is_asked_group_by_group_and_a_dead_group_is_left_out() -> None:
    async with serve(script=legacy) as stub, client_of(stub) as client:
        assert await client.discover() == WANT


async def test_a_server_that_refuses_the_new_form_is_asked_again_in_the_old_one() -> None:
    def script(asked: Asked) -> Reply:
        return refusal(406, "NotAcceptable") if "apidiscovery" in asked.headers["Accept"] else legacy(asked)

    async with serve(script=script) as stub, client_of(stub) as client:
        assert await client.discover() == WANT


async def test_the_version_is_a_number_too() -> None:
    async with (
        serve(reply({"major": "1", "minor": "35+", "gitVersion": "v1.35.2-gke"})) as stub,
        client_of(stub) as client,
    ):
        version = await client.version()
        assert version == VersionInfo(major="1", minor="35+", git_version="v1.35.2-gke")
        assert version.number == (1, 35)
