"""Init containers run one after the other, fail, are restarted, and Grove's own waits for other pods."""

import asyncio
from dataclasses import replace

import pytest
from tests.embedded.actors.cluster_objects import add, node, pod
from tests.embedded.actors.fake_server import CLOCK, FakeServer, passes, play
from tests.embedded.bare_cluster import PODS, with_cluster

from grove.embedded.actors.kubelet import Kubelet, KubeletOptions
from grove.embedded.cluster import ClusterOptions, EmbeddedCluster
from grove.embedded.errors import ApiError, Manifest
from grove.embedded.local import LocalClient

POD = f"{PODS}/p"
MERGE = "application/merge-patch+json"


def kubelet(server: FakeServer) -> Kubelet:
    return Kubelet(server, CLOCK)


def with_init(*names: str, sidecars: tuple[str, ...] = (), **annotations: str) -> Manifest:
    """A pod on a node with init containers; annotations as `init__first="3s"`."""
    body = pod("p", nodeName="n1")
    body["spec"]["initContainers"] = [
        {"name": name, "image": "i", **({"restartPolicy": "Always"} if name in sidecars else {})}
        for name in names
    ]
    body["metadata"]["annotations"] = {
        f"embedded.grove.io/{name.replace('__', '.').replace('_', '-')}": text
        for name, text in annotations.items()
    }
    return body


def status(server: FakeServer) -> Manifest:
    found = server.find(POD)
    assert found is not None
    return dict(found["status"])


def states(server: FakeServer) -> list[str]:
    """The states of the init containers, as a person would say them."""
    return [_state(each["state"]) for each in status(server).get("initContainerStatuses") or ()]


def _state(state: Manifest) -> str:
    ((kind, content),) = state.items()
    if kind == "waiting":
        return str(content["reason"])
    return f"exit {content['exitCode']}" if kind == "terminated" else str(kind)


def writes(server: FakeServer) -> int:
    return sum(1 for verb, path in server.writes if path.startswith(POD) and verb != "create")


def test_they_run_in_order_and_the_containers_after_them() -> None:
    seen = []

    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1"), with_init("a", "b", init__a="5s", init__b="5s", startup="5s"))
        for _ in range(4):
            await passes(4)
            seen.append((status(server)["phase"], states(server)))

    play(scenario, kubelet)
    assert seen == [
        ("Pending", ["running", "PodInitializing"]),
        ("Pending", ["exit 0", "running"]),
        ("Pending", ["exit 0", "exit 0"]),
        ("Running", ["exit 0", "exit 0"]),
    ]


def test_while_they_run_the_pod_says_so() -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1"), with_init("a", "b", init__a="5s"))
        await passes(1)
        found = status(server)
        (container,) = found["containerStatuses"]
        assert container["state"] == {"waiting": {"reason": "PodInitializing"}}
        conditions = {each["type"]: each for each in found["conditions"]}
        assert conditions["Initialized"]["status"] == conditions["Ready"]["status"] == "False"
        assert conditions["Initialized"]["reason"] == "ContainersNotInitialized"
        assert conditions["Initialized"]["message"] == "containers with incomplete status: [a b]"
        assert found["podIP"].startswith("10.")
        await passes(9)
        conditions = {each["type"]: each for each in status(server)["conditions"]}
        assert conditions["Initialized"]["status"] == conditions["Ready"]["status"] == "True"
        assert not conditions["Initialized"].get("reason")

    play(scenario, kubelet)


def test_where_none_takes_time_the_pod_still_costs_one_write() -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1"), with_init("a", "b"))
        await passes(5)

    server = play(scenario, kubelet)
    assert (status(server)["phase"], states(server), writes(server)) == ("Running", ["exit 0", "exit 0"], 1)


def test_a_sidecar_goes_on_running_while_the_others_work() -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1"), with_init("a", "proxy", "c", sidecars=("proxy",), init__c="5s"))
        await passes(1)
        assert states(server) == ["exit 0", "running", "running"]
        await passes(9)

    server = play(scenario, kubelet)
    assert (status(server)["phase"], states(server)) == ("Running", ["exit 0", "running", "exit 0"])


def test_one_that_fails_is_restarted_with_a_pause() -> None:
    body = with_init("a", "b", init__a="2s", init_exit_code__a="3", init_fail_count__a="2")

    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1"), body)
        await passes(3)
        (first, second) = status(server)["initContainerStatuses"]
        assert first["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert (first["restartCount"], first["lastState"]["terminated"]["exitCode"]) == (1, 3)
        assert second["state"]["waiting"]["reason"] == "PodInitializing"
        await passes(10)
        assert states(server) == ["running", "PodInitializing"]
        # Two failures, with pauses of ten and of twenty seconds.
        await passes(25)

    server = play(scenario, kubelet)
    assert (status(server)["phase"], states(server)) == ("Running", ["exit 0", "exit 0"])


def test_where_nothing_is_restarted_one_failure_ends_the_pod() -> None:
    body = with_init("a", "b", init_exit_code__a="3")
    body["spec"]["restartPolicy"] = "Never"

    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1"), body)
        await passes(60)

    server = play(scenario, kubelet)
    assert (status(server)["phase"], states(server)) == ("Failed", ["exit 3", "PodInitializing"])
    assert writes(server) == 1


def test_a_kubelet_that_comes_back_does_not_start_over() -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1"), with_init("a", "b", init__a="5s", init__b="5s"))
        first = asyncio.create_task(Kubelet(server, CLOCK).run())
        await passes(6)
        assert states(server) == ["exit 0", "running"]
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        before = status(server)["initContainerStatuses"][0]
        second = asyncio.create_task(Kubelet(server, CLOCK).run())
        await passes(6)
        assert status(server)["initContainerStatuses"][0] == before
        assert status(server)["phase"] == "Running"
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)

    play(scenario)


# Grove's own --------------------------------------------------------------------------------------

ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
OPTIONS = ClusterOptions(listen=False, nodes=1, schedulers=(), kubelet=KubeletOptions(startup_seconds=1))


def member(name: str, clique: str, *flags: str, account: str = "default") -> Manifest:
    """A pod of a gang; with flags it waits before it starts."""
    body = pod(name, nodeName="node-0", serviceAccountName=account)
    body["metadata"]["labels"] = {"grove.io/podgang": "llm-0", "grove.io/podclique": clique}
    if not flags:
        return body
    facts = [
        {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}},
        {"path": "podgangname", "fieldRef": {"fieldPath": "metadata.labels['grove.io/podgang']"}},
    ]
    body["spec"]["volumes"] = [
        {"name": "info", "downwardAPI": {"items": facts}},
        {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
    ]
    folder = "/var/run/secrets/kubernetes.io/serviceaccount"
    body["spec"]["initContainers"] = [
        {
            "name": "grove-initc",
            "image": "grove-initc:1",
            "args": list(flags),
            "volumeMounts": [
                {"name": "info", "mountPath": "/var/grove/pod-info"},
                {"name": "token", "mountPath": folder},
            ],
        }
    ]
    return body


async def allow(client: LocalClient, account: str = "default") -> None:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    await client.create(f"{ROLES}/roles", {"metadata": {"name": "watcher"}, "rules": rules})
    binding = {
        "metadata": {"name": "watcher"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "watcher"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}],
    }
    await client.create(f"{ROLES}/rolebindings", binding)


async def log_of(client: LocalClient, name: str) -> list[str]:
    text = await client.get(f"{PODS}/{name}/log", container="grove-initc")
    return str(text["text"]).splitlines()


async def shown(cluster: EmbeddedCluster, name: str) -> str:
    """The status that `kubectl get pods` shows."""
    from grove.embedded.server.columns import BUILTIN

    found = await cluster.client().get(f"{PODS}/{name}")
    (column,) = [each for each in BUILTIN["", "Pod"] if each.name == "Status"]
    return str(column.cell(found, cluster.clock.now()))


def test_a_pod_starts_when_those_that_it_waits_for_are_ready() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await allow(client)
        await client.create(PODS, member("child", "llm-0-work", "--podcliques=llm-0-fe:2"))
        await asyncio.sleep(100)
        assert await shown(cluster, "child") == "Init:0/1"
        assert await log_of(client, "child") == ["waiting for llm-0-fe: 0 of 2 ready"]
        await client.create(PODS, member("first", "llm-0-fe"))
        await client.create(PODS, member("lookalike", "llm-0-fe-x"))
        await asyncio.sleep(100)
        assert await shown(cluster, "child") == "Init:0/1"
        await client.create(PODS, member("second", "llm-0-fe"))
        await asyncio.sleep(1.5)
        assert await shown(cluster, "second") == "Running"
        assert await shown(cluster, "child") == "PodInitializing"
        await asyncio.sleep(1)
        found = await client.get(f"{PODS}/child")
        assert found["status"]["phase"] == "Running"
        (waited,) = found["status"]["initContainerStatuses"]
        assert (
            waited["state"]["terminated"]["message"] == "nothing to wait for any more: llm-0-fe: 2 of 2 ready"
        )
        assert (await log_of(client, "child"))[1:] == [
            "waiting for llm-0-fe: 1 of 2 ready",
            "nothing to wait for any more: llm-0-fe: 2 of 2 ready",
        ]

    with_cluster(body, OPTIONS)


def test_it_has_the_permissions_of_its_own_account_and_no_others() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await client.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "mine"}})
        await client.create(PODS, member("parent", "llm-0-fe"))
        await client.create(PODS, member("child", "llm-0-work", "--podcliques=llm-0-fe:1", account="mine"))
        await asyncio.sleep(30)
        (said,) = await log_of(client, "child")
        assert "service account may not list pods in namespace default (yet): 403" in said
        await allow(client, "mine")
        await asyncio.sleep(12)
        assert (await client.get(f"{PODS}/child"))["status"]["phase"] == "Running"

    with_cluster(body, OPTIONS)


@pytest.mark.parametrize("trick", ["drop_watches", "compact"])
def test_it_survives_what_happens_to_watches(trick: str) -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await allow(client)
        await client.create(PODS, member("child", "llm-0-work", "--podcliques=llm-0-fe:1"))
        for _ in range(5):
            await asyncio.sleep(3)
            getattr(cluster, trick)()
        await client.create(PODS, member("parent", "llm-0-fe"))
        await asyncio.sleep(15)
        assert (await client.get(f"{PODS}/child"))["status"]["phase"] == "Running"

    with_cluster(body, OPTIONS)


def test_a_wrong_argument_makes_it_fail_as_the_program_does() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(PODS, member("child", "llm-0-work", "--podcliques=llm-0-fe"))
        await asyncio.sleep(5)
        assert await shown(cluster, "child") == "Init:CrashLoopBackOff"
        assert await log_of(client, "child") == ["expected two values per podclique, found 1"]

    with_cluster(body, OPTIONS)


def test_a_pod_that_is_deleted_while_it_waits_goes() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await allow(client)
        await client.create(PODS, member("child", "llm-0-work", "--podcliques=llm-0-fe:1"))
        await asyncio.sleep(3)
        await client.delete(f"{PODS}/child")
        await asyncio.sleep(35)
        with pytest.raises(ApiError, match="not found"):
            await client.get(f"{PODS}/child")

    with_cluster(body, OPTIONS)


def test_readiness_differs_from_pod_to_pod_by_the_seed() -> None:
    def moments(seed: int) -> list[str]:
        found: list[str] = []

        async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
            for index in range(8):
                await client.create(PODS, member(f"p{index}", "llm-0-fe"))
            await asyncio.sleep(40)
            for item in (await client.list(PODS))["items"]:
                conditions = {each["type"]: each for each in item["status"]["conditions"]}
                found.append(conditions["Ready"]["lastTransitionTime"])

        jittered = KubeletOptions(startup_seconds=1, startup_jitter=30, seed=seed)
        with_cluster(body, replace(OPTIONS, kubelet=jittered))
        return found

    assert moments(1) == moments(1)
    assert moments(1) != moments(2)
    assert len(set(moments(1))) > 4
