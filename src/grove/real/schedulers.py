"""How each scheduler of others is started: its configuration, the objects it wants, its command lines.

Pure: where things are comes in, a `Launch` comes out. Everything listens on the loopback or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from grove.meta import Manifest
from grove.real.certificates import LOOPBACK
from grove.real.third_party import (
    KAI_BINDER,
    KAI_SCHEDULER,
    KOORD_SCHEDULER,
    VOLCANO_CONTROLLERS,
    VOLCANO_SCHEDULER,
    YUNIKORN_SCHEDULER,
)

VOLCANO_SYSTEM: Final = "volcano-system"
YUNIKORN_SYSTEM: Final = "yunikorn"
#: How many ports a launch may use.
PORTS: Final = 2

#: The gang and its topology; no preemption, which Grove leaves to whoever configures the cluster.
VOLCANO_CONF: Final = """actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: network-topology-aware
"""
#: What Volcano makes HyperNodes of by itself, the widest first; it leaves the last one out.
VOLCANO_CONTROLLER_CONF: Final = """networkTopologyDiscovery:
- source: label
  enabled: true
  config:
    networkTopologyTypes:
      grove:
      - nodeLabel: topology.kubernetes.io/zone
      - nodeLabel: topology.kubernetes.io/rack
      - nodeLabel: kubernetes.io/hostname
"""
#: The only topology that Koordinator reads; a node without these labels is in no domain.
KOORDINATOR_TOPOLOGY: Final[Manifest] = {
    "apiVersion": "scheduling.koordinator.sh/v1alpha1",
    "kind": "ClusterNetworkTopology",
    "metadata": {"name": "default"},
    "spec": {
        "networkTopologySpec": [
            {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "RackLayer"},
            {
                "topologyLayer": "RackLayer",
                "parentTopologyLayer": "ZoneLayer",
                "labelKey": ["topology.kubernetes.io/rack"],
            },
            {"topologyLayer": "ZoneLayer", "labelKey": ["topology.kubernetes.io/zone"]},
        ]
    },
}
_AMOUNTS: Final[Manifest] = {
    "type": "object",
    "additionalProperties": {"x-kubernetes-int-or-string": True},
}
#: The kind of Koordinator's quotas, with the fields that its scheduler reads.
KOORDINATOR_QUOTAS: Final[Manifest] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "elasticquotas.scheduling.sigs.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, for a local control plane"},
    },
    "spec": {
        "group": "scheduling.sigs.k8s.io",
        "scope": "Namespaced",
        "names": {"kind": "ElasticQuota", "listKind": "ElasticQuotaList", "plural": "elasticquotas"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"min": _AMOUNTS, "max": _AMOUNTS}},
                            "status": {"type": "object", "properties": {"used": _AMOUNTS}},
                        },
                    }
                },
            }
        ],
    },
}
#: Where Koordinator keeps the quotas of pods that name none.
KOORDINATOR_SYSTEM: Final = "koordinator-system"
#: A queue that the pods name is made when it is missing; pods that name none go to that of their namespace.
YUNIKORN_QUEUES: Final = """partitions:
- name: default
  placementrules:
  - name: provided
    create: true
  - name: tag
    value: namespace
    create: true
  queues:
  - name: root
    submitacl: "*"
"""
#: Where Koordinator's gang plugin takes part; it must not sort the queue.
_COSCHEDULING: Final = ("preEnqueue", "preFilter", "preScore", "reserve", "permit", "postBind")
_QUOTA_POINTS: Final = ("preFilter", "reserve")


@dataclass(frozen=True, slots=True)
class Site:
    """Where a scheduler is started."""

    programs: Mapping[str, Path]
    kubeconfig: Path
    #: For the files of its configuration.
    folder: Path
    url: str
    ports: Sequence[int]
    #: The flags by which Kubernetes' own programs serve with the certificate of the control plane.
    serving: Sequence[str]
    pod_max_backoff_seconds: int = 1


@dataclass(frozen=True, slots=True)
class Probe:
    """A request whose answer says whether a program is ready."""

    url: str
    #: What must hold of the answer; that there is one, unless given.
    holds: Callable[[Manifest], bool] | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One program of a scheduler."""

    name: str
    command: Sequence[str]
    probe: Probe
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Launch:
    """What makes a scheduler run: files first, then kinds and objects, then the programs in their order."""

    parts: Sequence[Part]
    objects: Sequence[Manifest] = ()
    files: Mapping[Path, str] = field(default_factory=dict)
    #: CustomResourceDefinitions beside those that come with the programs.
    kinds: Sequence[Manifest] = ()


def launch(name: str, site: Site) -> Launch:
    """The launch of one of the schedulers in `third_party`."""
    return _LAUNCHES[name](site)


def _kai(site: Site) -> Launch:
    metrics, binder = (f"{LOOPBACK}:{port}" for port in site.ports)
    scheduler = Part(
        KAI_SCHEDULER,
        (
            str(site.programs[KAI_SCHEDULER]),
            "--schedule-period=1s",
            "--leader-elect=false",
            f"--listen-address={metrics}",
            # Its second server takes a port and no address, and would listen on every interface. It does
            # without where it cannot listen, and there is no port -1.
            "--plugin-server-port=-1",
            "--qps=1000",
            "--burst=2000",
        ),
        Probe(f"http://{metrics}/metrics"),
        # It has no flag for it.
        {"KUBECONFIG": str(site.kubeconfig)},
    )
    # The scheduler only asks for bindings; this one binds.
    binding = Part(
        KAI_BINDER,
        (
            str(site.programs[KAI_BINDER]),
            f"--kubeconfig={site.kubeconfig}",
            "--leader-elect=false",
            f"--metrics-bind-address={binder}",
            "--health-probe-bind-address=0",
            "--qps=1000",
            "--burst=2000",
        ),
        Probe(f"http://{binder}/metrics"),
    )
    parent = _kai_queue("default-parent-queue")
    return Launch((scheduler, binding), (parent, _kai_queue("default-queue", "default-parent-queue")))


def _kai_queue(name: str, parent: str = "") -> Manifest:
    # A quota of 0, as KAI's chart has it, would never let pods in that must not be preempted.
    share = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    spec: Manifest = {"resources": dict.fromkeys(("cpu", "gpu", "memory"), share)}
    if parent:
        spec["parentQueue"] = parent
    return _object("scheduling.run.ai/v2", "Queue", name, spec=spec)


def _volcano(site: Site) -> Launch:
    health, controllers = (f"{LOOPBACK}:{port}" for port in site.ports)
    conf = site.folder / "volcano-scheduler.conf"
    common = (f"--kubeconfig={site.kubeconfig}", "--leader-elect=false", "--enable-healthz=true")
    scheduler = Part(
        VOLCANO_SCHEDULER,
        (
            str(site.programs[VOLCANO_SCHEDULER]),
            *common,
            f"--healthz-address={health}",
            f"--scheduler-conf={conf}",
            "--schedule-period=1s",
            "--cache-dumper=false",
        ),
        Probe(f"http://{health}/healthz"),
    )
    # It opens queues; without it every gang would wait for resources that are there. The controller that
    # makes PodGroups for pods which have none stays out: ours have one.
    opening = Part(
        VOLCANO_CONTROLLERS,
        (
            str(site.programs[VOLCANO_CONTROLLERS]),
            *common,
            f"--healthz-address={controllers}",
            "--controllers=queue-controller,hyperNode-controller",
        ),
        Probe(
            f"{site.url}/apis/scheduling.volcano.sh/v1beta1/queues/default",
            lambda queue: (queue.get("status") or {}).get("state") == "Open",
        ),
        # Where it looks for its settings, whatever the environment of this process says.
        {"KUBE_POD_NAMESPACE": VOLCANO_SYSTEM, "HELM_RELEASE_NAME": "volcano"},
    )
    # The first as an installation has it: by this a client finds out which plugins are on.
    settings = {
        "volcano-scheduler-configmap": {"volcano-scheduler.conf": VOLCANO_CONF},
        "volcano-controller-configmap": {"volcano-controller.conf": VOLCANO_CONTROLLER_CONF},
    }
    maps = [_object("v1", "ConfigMap", name, VOLCANO_SYSTEM, data=data) for name, data in settings.items()]
    objects = (_object("v1", "Namespace", VOLCANO_SYSTEM), *maps)
    return Launch((scheduler, opening), objects, {conf: VOLCANO_CONF})


def _koordinator(site: Site) -> Launch:
    secure, _ = site.ports
    config = site.folder / "koord-scheduler.json"
    command = (
        str(site.programs[KOORD_SCHEDULER]),
        f"--config={config}",
        f"--authorization-kubeconfig={site.kubeconfig}",
        "--authentication-skip-lookup=true",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={secure}",
        *site.serving,
        "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
        # A second server, without encryption and on every interface unless told otherwise.
        f"--address={LOOPBACK}",
        "--port=0",
        "--enable-network-topology-manager=true",
        # On, as by default, it would try a gang that does not fit again and again without a pause.
        "--feature-gates=SchedulerPopFromBackoffQ=false",
        "--v=2",
    )
    # It has no /readyz.
    part = Part(KOORD_SCHEDULER, command, Probe(f"https://{LOOPBACK}:{secure}/healthz"))
    objects = (_object("v1", "Namespace", KOORDINATOR_SYSTEM), KOORDINATOR_TOPOLOGY)
    files = {config: json.dumps(_koordinator_config(site), indent=2)}
    return Launch((part,), objects, files, kinds=(KOORDINATOR_QUOTAS,))


def _koordinator_config(site: Site) -> Manifest:
    gang: Manifest = {"name": "Coscheduling"}
    # It counts what pods use of their quotas; it does not evict for them, which Grove would take for losses.
    quota: Manifest = {"name": "ElasticQuota"}
    plugins: Manifest = {
        point: {"enabled": [gang, quota] if point in _QUOTA_POINTS else [gang]} for point in _COSCHEDULING
    }
    plugins["score"] = {"enabled": [{**gang, "weight": 1}]}
    plugins["preBind"] = {"enabled": [gang, {"name": "DefaultPreBind"}]}
    plugins["postFilter"] = {"disabled": [{"name": "*"}], "enabled": [gang, {"name": "DefaultPreemption"}]}
    version = "kubescheduler.config.k8s.io/v1"
    arguments = {"apiVersion": version, "kind": "CoschedulingArgs", "awareNetworkTopology": True}
    return {
        "apiVersion": version,
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(site.kubeconfig), "qps": 1000, "burst": 2000},
        "leaderElection": {"leaderElect": False},
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": site.pod_max_backoff_seconds,
        "profiles": [
            {
                "schedulerName": "koord-scheduler",
                "pluginConfig": [{**gang, "args": arguments}],
                "plugins": plugins,
            }
        ],
    }


def _yunikorn(site: Site) -> Launch:
    health = f"{LOOPBACK}:{site.ports[0]}"
    environment = {
        "KUBECONFIG": str(site.kubeconfig),
        "NAMESPACE": YUNIKORN_SYSTEM,
        "HEALTH_ADDRESS": health,
    }
    command = (str(site.programs[YUNIKORN_SCHEDULER]),)
    part = Part(YUNIKORN_SCHEDULER, command, Probe(f"http://{health}/"), environment)
    data = {"service.schedulingInterval": "100ms", "queues.yaml": YUNIKORN_QUEUES}
    settings = _object("v1", "ConfigMap", "yunikorn-configs", YUNIKORN_SYSTEM, data=data)
    return Launch((part,), (_object("v1", "Namespace", YUNIKORN_SYSTEM), settings))


def _object(version: str, kind: str, name: str, namespace: str = "", **content: object) -> Manifest:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **content}


_LAUNCHES: Final[Mapping[str, Callable[[Site], Launch]]] = {
    "kai": _kai,
    "volcano": _volcano,
    "koordinator": _koordinator,
    "yunikorn": _yunikorn,
}
