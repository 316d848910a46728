"""What is installed, exactly: the version of every program, and what each Kubernetes minor must be told.

The versions repeat what the `go.mod` files in `modules/` pin; a test holds the two together. Pure data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from grove.real.failure import NotInstalled

ETCD_VERSION = "3.6.16"
#: Of the Go module; Prometheus itself calls it 3.15.0.
PROMETHEUS_VERSION = "0.315.0"

#: An etcd that somebody else installed is good enough from here on: it reports the progress of watches.
ETCD_MINIMUM = (3, 5, 13)

#: What the newest tool module asks for in its `go` line.
GO_MINIMUM = (1, 26)

HELM_VERSION = "4.3.1"
KWOK_VERSION = "0.7.0"
CERT_MANAGER_VERSION = "1.21.2"
PROMETHEUS_OPERATOR_VERSION = "0.85.0"

ETCD = "etcd"
HELM = "helm"
KWOK = "kwok"
APISERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"

_KUBERNETES = (APISERVER, CONTROLLER_MANAGER, SCHEDULER)
_STAMPED = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


@dataclass(frozen=True, slots=True)
class Release:
    """One Kubernetes minor: its version and how its gang scheduling is switched on."""

    minor: str
    version: str
    gates: tuple[str, ...]
    runtime_config: tuple[str, ...]
    #: Gates that only kube-scheduler gets.
    scheduler_gates: tuple[str, ...] = ()
    #: From 1.36 there is a PodGroup kind, whose finalizer a controller takes off.
    pod_groups: bool = True


RELEASES = {
    release.minor: release
    for release in (
        Release(
            minor="1.35",
            version="1.35.8",
            gates=("GenericWorkload=true", "GangScheduling=true"),
            runtime_config=("scheduling.k8s.io/v1alpha1=true",),
            pod_groups=False,
        ),
        Release(
            minor="1.36",
            version="1.36.4",
            gates=(
                "GenericWorkload=true",
                "GangScheduling=true",
                "TopologyAwareWorkloadScheduling=true",
                "WorkloadAwarePreemption=true",
            ),
            runtime_config=("scheduling.k8s.io/v1alpha2=true",),
            # With this gate on, as it is by default, 1.36 tries an unschedulable group again without a pause:
            # thousands of attempts a second and a whole core.
            scheduler_gates=("SchedulerPopFromBackoffQ=false",),
        ),
        Release(
            minor="1.37",
            version="1.37.1",
            # GangScheduling became a part of GenericWorkload; naming it is fatal to every 1.37 program.
            gates=("GenericWorkload=true", "TopologyAwareWorkloadScheduling=true", "CompositePodGroup=true"),
            runtime_config=("scheduling.k8s.io/v1beta1=true", "scheduling.k8s.io/v1alpha3=true"),
        ),
    )
}

MINORS = tuple(RELEASES)


@dataclass(frozen=True, slots=True)
class Tool:
    """One program: where its source is and which version of it we mean."""

    name: str
    version: str
    module: str
    package: str
    #: The Go module of a program that does not say its version: the build information in it does.
    source: str = ""
    #: Files of that module that are kept beside the program.
    beside: tuple[str, ...] = ()
    #: Build tags.
    tags: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Name and version as they stand in the cache and in messages."""
        return f"{self.name}-{self.version}"

    @property
    def minor(self) -> str:
        return ".".join(self.version.split(".")[:2])

    @property
    def linker_flags(self) -> str:
        """Flags that leave out debug tables and write the version in, so that `/version` tells the truth."""
        flags = ["-s", "-w"]
        if self.name in _KUBERNETES:
            major, minor = self.minor.split(".")
            stamps = {
                "gitVersion": f"v{self.version}",
                "gitMajor": major,
                "gitMinor": minor,
                "gitTreeState": "clean",
                # A fixed date: the same source gives the same bytes.
                "buildDate": "1970-01-01T00:00:00Z",
            }
            flags += [
                f"-X={package}.{name}={value}" for package in _STAMPED for name, value in stamps.items()
            ]
        return " ".join(flags)


@dataclass(frozen=True, slots=True)
class ModuleFiles:
    """Files of a Go module that are used as they are."""

    name: str
    version: str
    module: str
    source: str
    files: tuple[str, ...]

    @property
    def label(self) -> str:
        return f"{self.name}-{self.version}"


def release(minor: str) -> Release:
    """The release of one minor; says which there are when it is none of them."""
    try:
        return RELEASES[minor]
    except KeyError:
        known = ", ".join(MINORS)
        raise NotInstalled(
            f"Kubernetes {minor!r} is not among the minors that can be run here: {known}."
        ) from None


def etcd_tool() -> Tool:
    return Tool(ETCD, ETCD_VERSION, "etcd", "go.etcd.io/etcd/server/v3")


def helm_tool() -> Tool:
    """The program that installs charts; no part of a control plane."""
    source = "helm.sh/helm/v4"
    return Tool(HELM, HELM_VERSION, "helm", f"{source}/cmd/helm", source)


def kwok_tool() -> Tool:
    """A simulator of nodes and kubelets that others use: the benchmark can be taken with it, too."""
    source = "sigs.k8s.io/kwok"
    return Tool(KWOK, KWOK_VERSION, "kwok", f"{source}/cmd/kwok", source)


def promtool() -> Tool:
    """What tests alert rules; without the clouds in which Prometheus can look for targets."""
    module = "github.com/prometheus/prometheus"
    return Tool(
        "promtool",
        PROMETHEUS_VERSION,
        "prometheus",
        f"{module}/cmd/promtool",
        module,
        tags=("remove_all_sd",),
    )


def cert_manager() -> Tool:
    """What issues certificates; its kinds are kept beside it."""
    names = ("certificaterequests", "certificates", "clusterissuers", "issuers")
    return _of_cert_manager("controller", tuple(f"deploy/crds/cert-manager.io_{name}.yaml" for name in names))


def cainjector() -> Tool:
    """What writes the authorities of cert-manager's certificates into webhook configurations."""
    return _of_cert_manager("cainjector")


def _of_cert_manager(name: str, beside: tuple[str, ...] = ()) -> Tool:
    # Our own few lines of main around its packages: in the module of its releases there is no main.
    source = "github.com/cert-manager/cert-manager"
    return Tool(
        f"cert-manager-{name}", CERT_MANAGER_VERSION, "cert-manager", f"./{name}", source, beside=beside
    )


def prometheus_operator() -> ModuleFiles:
    """The kinds by which the Prometheus operator is told what to scrape and when to alert."""
    names = ("podmonitors", "prometheusrules", "servicemonitors")
    return ModuleFiles(
        "prometheus-operator",
        PROMETHEUS_OPERATOR_VERSION,
        "prometheus-operator",
        "github.com/prometheus-operator/prometheus-operator",
        tuple(f"example/prometheus-operator-crd/monitoring.coreos.com_{name}.yaml" for name in names),
    )


#: Programs that are no part of a control plane, by name.
TOOLS: Mapping[str, Callable[[], Tool]] = {
    "cainjector": cainjector,
    "cert-manager": cert_manager,
    "helm": helm_tool,
    "kwok": kwok_tool,
    "promtool": promtool,
}


#: Files of others, by name.
FILES: Mapping[str, Callable[[], ModuleFiles]] = {"prometheus-operator": prometheus_operator}


def tools(minor: str) -> tuple[Tool, ...]:
    """Everything that a control plane of one minor consists of, in the order in which it is built."""
    version = release(minor).version
    return (
        etcd_tool(),
        *(Tool(name, version, f"k8s-{minor}", f"k8s.io/kubernetes/cmd/{name}") for name in _KUBERNETES),
    )
