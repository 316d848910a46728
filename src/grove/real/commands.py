"""The command line of each component. Pure: where things are comes in, arguments come out.

Everything listens on the loopback only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from grove.meta import Manifest
from grove.real.certificates import LOOPBACK
from grove.real.options import Options
from grove.real.versions import APISERVER, CONTROLLER_MANAGER, ETCD, SCHEDULER, Release

#: More than any test writes; etcd stops taking writes at 2 GiB otherwise.
_ETCD_QUOTA = 4 << 30

_CONTROLLERS = (
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller",
    "clusterrole-aggregation-controller",
    "resourcequota-controller",
    "disruption-controller",
    "endpointslice-controller",
    "pod-garbage-collector-controller",
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "job-controller",
    "horizontal-pod-autoscaler-controller",
    "resourceclaim-controller",
)
#: As whom the API server asks the API servers behind it.
FRONT_PROXY = "front-proxy-client"
_NODE_CONTROLLERS = ("node-lifecycle-controller", "taint-eviction-controller")
_OPEN_PATHS = "/healthz,/readyz,/livez,/metrics"


@dataclass(frozen=True, slots=True)
class Ports:
    """One port for each listener."""

    etcd: int
    etcd_peer: int
    apiserver: int
    controller_manager: int
    scheduler: int

    @property
    def etcd_url(self) -> str:
        return f"https://{LOOPBACK}:{self.etcd}"

    @property
    def url(self) -> str:
        return f"https://{LOOPBACK}:{self.apiserver}"


@dataclass(frozen=True, slots=True)
class Files:
    """Where the files of one control plane are."""

    root: Path

    @property
    def keys(self) -> Path:
        return self.root / "keys"

    @property
    def etcd_data(self) -> Path:
        return self.root / "etcd"

    @property
    def scheduler_config(self) -> Path:
        return self.root / "scheduler.json"

    @property
    def users(self) -> Path:
        return self.root / "users"

    @property
    def third_party(self) -> Path:
        return self.root / "scheduler"

    def key(self, name: str) -> Path:
        return self.keys / name

    def kubeconfig(self, component: str) -> Path:
        return self.keys / f"{component}.kubeconfig"


@dataclass(frozen=True, slots=True)
class Commands:
    """Builds the command lines of one control plane."""

    release: Release
    options: Options
    files: Files
    ports: Ports
    programs: Mapping[str, Path]

    def etcd(self) -> list[str]:
        key, peer = self.files.key, f"https://{LOOPBACK}:{self.ports.etcd_peer}"
        return self._command(
            ETCD,
            "--name=default",
            f"--data-dir={self.files.etcd_data}",
            # The data does not outlive the machine's being up; waiting for the disk would only cost time.
            "--unsafe-no-fsync",
            "--log-level=warn",
            f"--quota-backend-bytes={_ETCD_QUOTA}",
            f"--listen-client-urls={self.ports.etcd_url}",
            f"--advertise-client-urls={self.ports.etcd_url}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            f"--cert-file={key('etcd.crt')}",
            f"--key-file={key('etcd.key')}",
            "--client-cert-auth",
            f"--trusted-ca-file={key('etcd-ca.crt')}",
            f"--peer-cert-file={key('etcd.crt')}",
            f"--peer-key-file={key('etcd.key')}",
            "--peer-client-cert-auth",
            f"--peer-trusted-ca-file={key('etcd-ca.crt')}",
        )

    def apiserver(self) -> list[str]:
        key = self.files.key
        return self._command(
            APISERVER,
            f"--etcd-servers={self.ports.etcd_url}",
            f"--etcd-cafile={key('etcd-ca.crt')}",
            f"--etcd-certfile={key('etcd-client.crt')}",
            f"--etcd-keyfile={key('etcd-client.key')}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={self.ports.apiserver}",
            # Said outright: with a loopback bind it looks for a default route and ends when there is none.
            f"--advertise-address={LOOPBACK}",
            # The loopback is no lawful address of an endpoint.
            "--endpoint-reconciler-type=none",
            *self.serving(),
            f"--client-ca-file={key('ca.crt')}",
            f"--cert-dir={self.files.keys}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/16",
            "--allow-privileged=true",
            "--profiling=false",
            f"--service-account-issuer={self.ports.url}",
            f"--api-audiences={self.ports.url}",
            f"--service-account-key-file={key('sa.pub')}",
            f"--service-account-signing-key-file={key('sa.key')}",
            *self._aggregation(),
            f"--disable-admission-plugins={','.join(self._without_plugins())}",
            *_flag("feature-gates", self._gates()),
            *_flag("runtime-config", self._runtime_config()),
        )

    def _aggregation(self) -> tuple[str, ...]:
        """With which certificate, and in which headers, API servers behind this one are told who asks."""
        key = self.files.key
        return (
            f"--requestheader-client-ca-file={key('front-proxy-ca.crt')}",
            f"--requestheader-allowed-names={FRONT_PROXY}",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={key('front-proxy.crt')}",
            f"--proxy-client-key-file={key('front-proxy.key')}",
        )

    def controller_manager(self) -> list[str]:
        key, kubeconfig = self.files.key, self.files.kubeconfig(CONTROLLER_MANAGER)
        controllers = [*_CONTROLLERS]
        if self._groups_are_protected():
            controllers.append("podgroup-protection-controller")
        if self.options.node_lifecycle:
            controllers += _NODE_CONTROLLERS
        return self._command(
            CONTROLLER_MANAGER,
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--leader-elect=false",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={self.ports.controller_manager}",
            *self.serving(),
            f"--authorization-always-allow-paths={_OPEN_PATHS}",
            "--use-service-account-credentials=false",
            "--profiling=false",
            f"--root-ca-file={key('ca.crt')}",
            f"--service-account-private-key-file={key('sa.key')}",
            "--kube-api-qps=1000",
            "--kube-api-burst=2000",
            f"--controllers={','.join(controllers)}",
            *_flag("feature-gates", self._gates()),
        )

    def scheduler(self) -> list[str]:
        kubeconfig = self.files.kubeconfig(SCHEDULER)
        asked = self.options.gates or {}
        own = tuple(gate for gate in self.release.scheduler_gates if gate.partition("=")[0] not in asked)
        return self._command(
            SCHEDULER,
            f"--config={self.files.scheduler_config}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={self.ports.scheduler}",
            *self.serving(),
            f"--authorization-always-allow-paths={_OPEN_PATHS}",
            "--v=2",
            *_flag("feature-gates", (*self._gates(), *own)),
        )

    def scheduler_config(self) -> Manifest:
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {
                "kubeconfig": str(self.files.kubeconfig(SCHEDULER)),
                "qps": 1000,
                "burst": 2000,
            },
            "leaderElection": {"leaderElect": False},
            "podInitialBackoffSeconds": 1,
            "podMaxBackoffSeconds": self.options.pod_max_backoff_seconds,
        }

    def _command(self, name: str, *arguments: str) -> list[str]:
        return [str(self.programs[name]), *arguments, *self.options.arguments.get(name, ())]

    def serving(self) -> tuple[str, str]:
        """With which certificate a program serves."""
        key = self.files.key
        return f"--tls-cert-file={key('server.crt')}", f"--tls-private-key-file={key('server.key')}"

    def _gates(self) -> tuple[str, ...]:
        return _chosen(self.options.gates, self.release.gates)

    def _runtime_config(self) -> tuple[str, ...]:
        default = self.release.runtime_config if "GenericWorkload=true" in self._gates() else ()
        return _chosen(self.options.runtime_config, default)

    def _groups_are_protected(self) -> bool:
        return self.release.pod_groups and "GenericWorkload=true" in self._gates()

    def _without_plugins(self) -> list[str]:
        """Admission that waits for somebody who is not there."""
        plugins = ["StorageObjectInUseProtection"]
        if not self.options.node_lifecycle:
            # Nobody would take the not-ready taint off a new node again.
            plugins += ["TaintNodesByCondition", "DefaultTolerationSeconds"]
        if not self.options.controller_manager:
            plugins.append("ServiceAccount")
            if self._groups_are_protected():
                plugins.append("PodGroupProtection")
        return plugins


def _chosen(asked: Mapping[str, bool] | None, default: tuple[str, ...]) -> tuple[str, ...]:
    if asked is None:
        return default
    return tuple(f"{name}={'true' if on else 'false'}" for name, on in asked.items())


def _flag(name: str, values: tuple[str, ...]) -> tuple[str, ...]:
    return (f"--{name}={','.join(values)}",) if values else ()
