"""Two `grove run` processes on one cluster, over sockets: the leader is stopped with SIGSTOP and goes on too late.

The cluster is the embedded one, since its log of requests tells who wrote what and whether it took effect.
"""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from grove.api.crd import definitions
from grove.embedded.cluster import ClusterOptions, EmbeddedCluster
from grove.embedded.local import LocalClient
from grove.meta import Manifest
from grove.testing import make

ROUNDS = 3
NAMES = ("first", "second")
LAUNCH = "import sys; from grove.cli.main import main; sys.exit(main())"
CONFIGURATION = """
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
logFormat: text
leaderElection: {enabled: true, leaseDuration: 4s, renewDeadline: 3s, retryPeriod: 500ms}
server: {healthProbes: {bindAddress: 127.0.0.1, port: 0}, metrics: {bindAddress: 127.0.0.1, port: 0}}
"""
LEASE = "grove-operator-leader-election"
LEASES = "leases.coordination.k8s.io"
SETS = "/apis/grove.io/v1alpha1/namespaces/default/podcliquesets"
#: Pods of one replica of the set.
PODS = 4


@dataclass
class Scene:
    """A cluster, the operator processes on it, and who wrote what."""

    cluster: EmbeddedCluster
    admin: LocalClient
    folder: Path
    processes: dict[str, asyncio.subprocess.Process]

    async def account(self, name: str) -> None:
        """A service account of its own, so that the log tells the processes apart."""
        await self.admin.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "all"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
        }
        await self.admin.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        path = f"/api/v1/namespaces/default/serviceaccounts/{name}/token"
        token = await self.admin.create(path, {"spec": {}})
        content = self.cluster.kubeconfig()
        content["users"][0]["user"] = {"token": token["status"]["token"]}
        (self.folder / name).write_text(yaml.safe_dump(content))

    async def start(self, name: str) -> None:
        arguments = ["--kubeconfig", str(self.folder / name), "--config", str(self.folder / "operator.yaml")]
        with (self.folder / f"{name}.err").open("a") as said:
            self.processes[name] = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", LAUNCH, "run", *arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )

    def leader(self) -> str:
        """The process that holds the lease; empty while none of them does."""
        lease = self.cluster.api.find("coordination.k8s.io", "leases", "default", LEASE)
        holder = str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")
        found = [name for name, each in self.processes.items() if holder.endswith(f"-{each.pid}")]
        return found[0] if found else ""

    def written(self, name: str, since: int = 0) -> list[str]:
        """The writes of one process that took effect, leases aside."""
        user = f"system:serviceaccount:default:{name}"
        return [
            f"{each.verb} {each.path}"
            for each in list(self.cluster.requests)[since:]
            if each.user == user and each.is_write and each.status < 400 and each.resource != LEASES
        ]

    async def scale(self, replicas: int) -> None:
        body: Manifest = {"spec": {"replicas": replicas}}
        await self.admin.patch(f"{SETS}/train", body)

    def runs(self, replicas: int) -> bool:
        pods = self.cluster.api.all_of("", "pods")
        phases = [each["status"].get("phase") for each in pods]
        return phases == ["Running"] * (PODS * replicas)


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    options = ClusterOptions(nodes=8, gpus=8, schedulers=("default",), force=True)
    async with EmbeddedCluster(options) as cluster:
        admin = cluster.client()
        made = Scene(cluster, admin, folder, {})
        (folder / "operator.yaml").write_text(CONFIGURATION)
        for crd in definitions():
            await admin.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
        role = {"metadata": {"name": "all"}, "rules": rules}
        await admin.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
        try:
            for name in NAMES:
                await made.account(name)
                await made.start(name)
            yield made
        finally:
            for each in made.processes.values():
                if each.returncode is None:
                    each.kill()
                await each.wait()


async def until(holds: Callable[[], bool], what: str, seconds: float = 40) -> None:
    try:
        async with asyncio.timeout(seconds):
            while not holds():  # noqa: ASYNC110 - what other processes do is only to be seen in the log
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"not within {seconds:g} s: {what}") from None


async def stop_the_leader(scene: Scene, number: int) -> None:
    """One round: it is stopped in the middle of its work, another one takes over, and then it goes on."""
    await until(lambda: scene.leader() != "", "one of them leads")
    stopped, other = scene.leader(), NAMES[1 - NAMES.index(scene.leader())]
    before = len(scene.cluster.requests)
    await scene.scale(6)
    await until(lambda: len(scene.written(stopped, before)) > 7 * number, "the leader is at work")
    scene.processes[stopped].send_signal(signal.SIGSTOP)
    try:
        await until(lambda: scene.leader() == other, "the other one takes over")
        await scene.scale(2)
        await until(lambda: scene.runs(2), "the other one works")
        since = len(scene.cluster.requests)
    finally:
        scene.processes[stopped].send_signal(signal.SIGCONT)
    assert await asyncio.wait_for(scene.processes[stopped].wait(), 40) == 1
    assert scene.written(stopped, since) == []
    assert "lost the lease" in (scene.folder / f"{stopped}.err").read_text()
    assert scene.leader() == other
    assert scene.runs(2)
    await scene.start(stopped)


def test_what_a_stopped_leader_wanted_to_write_takes_no_effect_when_it_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with scene(tmp_path) as played:
            await played.admin.create(SETS, make.cliqueset_manifest("train", {"worker": PODS}, replicas=2))
            await until(lambda: played.runs(2), "the set runs")
            for number in range(ROUNDS):
                await stop_the_leader(played, number)

    asyncio.run(story())
