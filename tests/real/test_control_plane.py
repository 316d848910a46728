"""Real control planes: gangs are scheduled, components can be broken and mended, and nothing is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from grove.meta import Manifest
from grove.real import MINORS, ComponentFailed, Locator, NotInstalled, Options, RealControlPlane

pytestmark = pytest.mark.real

PATIENCE = 60


def installed(minor: str) -> str:
    """The minor, or a skip that says what to run."""
    try:
        Locator().all_of(minor)
    except NotInstalled as missing:
        pytest.skip(str(missing))
    return minor


def any_installed() -> str:
    """A minor for what is the same in all of them."""
    for minor in ("1.36", *MINORS):
        try:
            Locator().all_of(minor)
        except NotInstalled:
            continue
        return minor
    return installed("1.36")


@dataclass(frozen=True, slots=True)
class Api:
    """The administrator's way in."""

    session: aiohttp.ClientSession
    url: str

    async def send(self, method: str, path: str, body: Manifest | None = None) -> tuple[int, Manifest]:
        async with self.session.request(method, self.url + path, json=body) as response:
            answer: Manifest = await response.json(content_type=None)
            return response.status, answer

    async def create(self, path: str, body: Manifest) -> Manifest:
        status, answer = await self.send("POST", path, body)
        assert status == 201, answer
        return answer

    async def until(self, path: str, done: Callable[[dict[str, Manifest]], bool]) -> dict[str, Manifest]:
        """Follows a collection until it is as wanted; its objects by name."""
        async with asyncio.timeout(PATIENCE):
            _, listed = await self.send("GET", path)
            seen = {item["metadata"]["name"]: item for item in listed["items"]}
            version = listed["metadata"]["resourceVersion"]
            if done(seen):
                return seen
            watch = f"{self.url}{path}?watch=1&resourceVersion={version}"
            async with self.session.get(watch, timeout=aiohttp.ClientTimeout(total=None)) as response:
                async for line in response.content:
                    event = json.loads(line)
                    name = event["object"]["metadata"]["name"]
                    seen[name] = event["object"]
                    if event["type"] == "DELETED":
                        del seen[name]
                    if done(seen):
                        return seen
        raise AssertionError(f"the watch of {path} ended early")


@asynccontextmanager
async def admin(plane: RealControlPlane) -> AsyncIterator[Api]:
    connector = aiohttp.TCPConnector(ssl=plane.context())
    async with aiohttp.ClientSession(connector=connector) as session:
        yield Api(session, plane.url)


@dataclass(frozen=True, slots=True)
class Stage:
    """A running control plane and the loop that it lives in."""

    plane: RealControlPlane
    runner: asyncio.Runner

    def play(self, story: Callable[[Api], Awaitable[None]]) -> None:
        async def whole() -> None:
            async with admin(self.plane) as api:
                await story(api)

        self.runner.run(whole())


@pytest.fixture(scope="module", params=MINORS)
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    minor = installed(request.param)
    with asyncio.Runner() as runner:
        plane = RealControlPlane(Options(minor=minor, say=lambda _: None))
        runner.run(plane.start())
        pids = plane.pids
        try:
            yield Stage(plane, runner)
        finally:
            runner.run(plane.stop())
        assert not [pid for pid in pids.values() if Path(f"/proc/{pid}").exists()]


def node(name: str, cpu: int) -> Manifest:
    size = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "capacity": size,
            "allocatable": size,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def pod(name: str, link: Manifest) -> Manifest:
    container = {"name": "c", "image": "example.invalid/c", "resources": {"requests": {"cpu": "3"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container], **link},
    }


def group_objects(minor: str) -> tuple[list[tuple[str, Manifest]], Manifest]:
    """What says "these four or none" on a minor, by the path to create it at, and how a pod points to it."""
    policy = {"gang": {"minCount": 4}}
    if minor == "1.35":
        spec: Manifest = {"podGroups": [{"name": "workers", "policy": policy}]}
        workload = {"apiVersion": "scheduling.k8s.io/v1alpha1", "kind": "Workload", "spec": spec}
        return [("v1alpha1/{}/workloads", workload)], {"workloadRef": {"name": "gang", "podGroup": "workers"}}
    version = "v1alpha2" if minor == "1.36" else "v1beta1"
    group = {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "kind": "PodGroup",
        "spec": {"schedulingPolicy": policy},
    }
    return [(f"{version}/{{}}/podgroups", group)], {"schedulingGroup": {"podGroupName": "gang"}}


async def create_gang(api: Api, minor: str, namespace: str) -> str:
    """Four pods that want three CPUs each; the path of their collection."""
    await api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    objects, link = group_objects(minor)
    for path, manifest in objects:
        place = f"/apis/scheduling.k8s.io/{path.format(f'namespaces/{namespace}')}"
        await api.create(place, manifest | {"metadata": {"name": "gang"}})
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await api.until(accounts, lambda seen: "default" in seen)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    for index in range(4):
        created = await api.create(pods, pod(f"gang-{index}", link))
        # With a gate off, an API server drops the link without a word.
        assert created["spec"].items() >= link.items()
    return pods


def unschedulable(item: Manifest) -> bool:
    conditions = item.get("status", {}).get("conditions", [])
    return any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)


def test_the_version_is_the_one_that_was_asked_for(stage: Stage) -> None:
    async def story(api: Api) -> None:
        _, version = await api.send("GET", "/version")
        assert version["gitVersion"] == f"v{stage.plane.release.version}"
        assert f"{version['major']}.{version['minor']}" == stage.plane.release.minor

    stage.play(story)


def test_a_gang_is_bound_as_a_whole_once_there_is_room(stage: Stage) -> None:
    async def story(api: Api) -> None:
        await api.create("/api/v1/nodes", node("small", cpu=4))
        pods = await create_gang(api, stage.plane.release.minor, "whole")
        refused = await api.until(pods, lambda seen: any(map(unschedulable, seen.values())))
        assert not any(item["spec"].get("nodeName") for item in refused.values())
        await api.create("/api/v1/nodes", node("big", cpu=16))
        bound = await api.until(
            pods, lambda seen: len(seen) == 4 and all(each["spec"].get("nodeName") for each in seen.values())
        )
        assert {item["spec"]["nodeName"] for item in bound.values()} <= {"big", "small"}

    stage.play(story)


def test_a_deleted_namespace_goes_with_everything_in_it(stage: Stage) -> None:
    async def story(api: Api) -> None:
        pods = await create_gang(api, stage.plane.release.minor, "going")
        status, _ = await api.send("DELETE", "/api/v1/namespaces/going")
        assert status == 200
        left = await api.until("/api/v1/namespaces", lambda seen: "going" not in seen)
        assert "default" in left
        _, listed = await api.send("GET", pods)
        assert listed["items"] == []

    stage.play(story)


def test_a_user_may_do_what_rbac_says(stage: Stage, tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        review = {
            "spec": {
                "user": "jane",
                "groups": ["devs"],
                "resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "default"},
            }
        }
        reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        assert (await api.create(reviews, review))["status"]["allowed"] is False
        binding = {
            "metadata": {"name": "devs-view"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "Group", "name": "devs", "apiGroup": "rbac.authorization.k8s.io"}],
        }
        await api.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)

    stage.play(story)
    config = stage.plane.kubeconfig_for("jane", ["devs"], path=tmp_path / "jane")
    assert config.stat().st_mode & 0o777 == 0o600
    kubectl = Path(sys.executable).parent / "kubectl"
    if not kubectl.exists():
        pytest.skip(f"there is no {kubectl}; `make setup-dev` installs it")
    environ = {"KUBECONFIG": str(config), "HOME": str(tmp_path), "PATH": ""}
    asked = subprocess.run(
        [kubectl, "get", "pods", "-o", "name"], env=environ, capture_output=True, text=True, check=False
    )
    assert asked.returncode == 0, asked.stderr
    refused = subprocess.run(
        [kubectl, "get", "nodes"], env=environ, capture_output=True, text=True, check=False
    )
    assert 'User "jane" cannot list resource "nodes"' in refused.stderr


def test_after_a_compaction_and_a_restart_the_past_is_gone(stage: Stage) -> None:
    async def story(api: Api) -> None:
        _, before = await api.send("GET", "/api/v1/namespaces")
        version = before["metadata"]["resourceVersion"]
        await api.create("/api/v1/namespaces", {"metadata": {"name": "later"}})
        assert await stage.plane.compact() > int(version)
        pid = stage.plane.pids["kube-apiserver"]
        await stage.plane.restart("kube-apiserver")
        assert stage.plane.pids["kube-apiserver"] != pid
        old = f"/api/v1/namespaces?resourceVersion={version}&resourceVersionMatch=Exact"
        status, answer = await api.send("GET", old)
        assert (status, answer["reason"]) == (410, "Expired")

    stage.play(story)


def test_what_etcd_had_written_survives_its_being_killed(stage: Stage) -> None:
    async def story(api: Api) -> None:
        await api.create("/api/v1/namespaces", {"metadata": {"name": "kept"}})
        await stage.plane.kill("etcd")
        assert "etcd" not in stage.plane.pids
        await stage.plane.restart("etcd")
        await stage.plane.restart("kube-apiserver")
        status, _ = await api.send("GET", "/api/v1/namespaces/kept")
        assert status == 200

    stage.play(story)


def test_nothing_listens_beyond_the_loopback(stage: Stage) -> None:
    listening = [
        line.split()
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for line in Path(table).read_text().splitlines()[1:]
    ]
    sockets = {row[9]: row[1].partition(":")[0] for row in listening if row[3] == "0A"}
    ours = set()
    for pid in stage.plane.pids.values():
        for link in Path(f"/proc/{pid}/fd").iterdir():
            target = str(link.readlink())
            if target.startswith("socket:["):
                ours.add(target[len("socket:[") : -1])
    found = {sockets[inode] for inode in ours & sockets.keys()}
    assert found == {f"{int.from_bytes(socket.inet_aton('127.0.0.1'), 'little'):08X}"}


def widgets() -> Manifest:
    """A kind of its own, whose objects own others."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }


def test_what_an_object_of_a_given_kind_owns_goes_with_it_at_once() -> None:
    """The garbage collector would learn of a kind that comes later after half a minute."""
    options = Options(minor=any_installed(), scheduler=False, kinds=(widgets(),), say=lambda _: None)
    path, maps = "/apis/example.com/v1/namespaces/default/widgets", "/api/v1/namespaces/default/configmaps"

    async def story() -> None:
        async with RealControlPlane(options) as plane, admin(plane) as api:
            owner = await api.create(
                path, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "owner"}}
            )
            uid = owner["metadata"]["uid"]
            of = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "owner", "uid": uid}
            await api.create(maps, {"metadata": {"name": "owned", "ownerReferences": [of]}})
            await api.send("DELETE", f"{path}/owner")
            async with asyncio.timeout(15):
                await api.until(maps, lambda seen: "owned" not in seen)

    asyncio.run(story())


def test_a_kept_directory_holds_a_cluster_that_goes_on(tmp_path: Path) -> None:
    minor = any_installed()
    options = Options(
        minor=minor,
        scheduler=False,
        controller_manager=False,
        directory=tmp_path / "cp",
        keep=True,
        say=lambda _: None,
    )

    async def story() -> int:
        async with RealControlPlane(options) as plane, admin(plane) as api:
            await api.create("/api/v1/namespaces", {"metadata": {"name": "kept"}})
        async with RealControlPlane(options) as plane, admin(plane) as api:
            status, _ = await api.send("GET", "/api/v1/namespaces/kept")
        return status

    assert asyncio.run(story()) == 200
    assert (tmp_path / "cp" / "log" / "etcd.log").exists()


@pytest.mark.parametrize("end", [signal.SIGHUP, signal.SIGKILL])
def test_nothing_is_left_when_the_one_who_started_it_is_ended(tmp_path: Path, end: signal.Signals) -> None:
    minor = any_installed()
    command = [
        sys.executable,
        "-m",
        "grove.real",
        "start",
        "--minor",
        minor,
        "--directory",
        str(tmp_path / "cp"),
    ]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        assert parent.stdout is not None
        assert Path(parent.stdout.readline().strip()).is_relative_to(tmp_path)
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        handles = [os.pidfd_open(int(child)) for child in children]
        assert len(handles) == 4
        parent.send_signal(end)
        for handle in handles:
            assert select.select([handle], [], [], PATIENCE)[0] == [handle]
            os.close(handle)
    # Only an orderly end can also remove the files; the next start in a temporary folder sweeps up the rest.
    assert (tmp_path / "cp").exists() is (end is signal.SIGKILL)


def test_a_component_that_dies_is_reported_and_takes_the_others_along(tmp_path: Path) -> None:
    minor = any_installed()
    options = Options(minor=minor, scheduler=False, directory=tmp_path / "cp", say=lambda _: None)

    async def story() -> list[int]:
        async with RealControlPlane(options) as plane:
            pids = plane.pids
            os.kill(pids["kube-apiserver"], signal.SIGKILL)
            await asyncio.wait_for(plane.wait(), PATIENCE)
        return list(pids.values())

    with pytest.raises(ComponentFailed, match="kube-apiserver was ended by SIGKILL") as failure:
        asyncio.run(story())
    log = tmp_path / "cp" / "log" / "kube-apiserver.log"
    assert str(log) in str(failure.value)
    assert log.exists()
    assert not (tmp_path / "cp" / "etcd").exists()


def test_a_wrong_flag_is_reported_in_the_words_of_the_component(tmp_path: Path) -> None:
    minor = any_installed()
    options = Options(minor=minor, logs=tmp_path / "logs", gates={"NoSuchGate": True}, say=lambda _: None)
    with pytest.raises(ComponentFailed, match=r"(?s)kube-apiserver ended by itself .*NoSuchGate") as failure:
        asyncio.run(RealControlPlane(options).start())
    assert str(tmp_path / "logs" / "kube-apiserver.log") in str(failure.value)
