"""The columns that `kubectl get` shows for built-in kinds, and how each cell is computed.

Facts and formatting only; `tables.py` makes the Table of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from grove.embedded.clock import parse_rfc3339
from grove.embedded.errors import Manifest

Cell = Callable[[Manifest, datetime], object]


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    cell: Cell
    type: str = "string"
    priority: int = 0
    """Above 0: only with `-o wide`."""
    format: str = ""

    def definition(self) -> Manifest:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.name,
            "priority": self.priority,
        }


def duration(seconds: int) -> str:
    """A span of time in the short form of kubectl."""
    if seconds < 0:
        return "0s"
    if seconds < 120:
        return f"{seconds}s"
    minutes = seconds // 60
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    return f"{days}d" if days < 730 else f"{days // 365}y{days % 365}d"


def age(stamp: object, now: datetime) -> str:
    if not isinstance(stamp, str) or not stamp:
        return "<unknown>"
    return duration(int((now - parse_rfc3339(stamp)).total_seconds()))


def _own_age(obj: Manifest, now: datetime) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


NAME = Column("Name", lambda obj, _: obj["metadata"]["name"], format="name")
AGE = Column("Age", _own_age)


def plain_columns() -> Sequence[Column]:
    return (NAME, Column("Created At", lambda obj, _: obj["metadata"].get("creationTimestamp")))


def _at(*path: str, empty: object = "") -> Cell:
    def cell(obj: Manifest, _: datetime) -> object:
        value: object = obj
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        return empty if value is None or value == "" else value

    return cell


def _count(name: str) -> Cell:
    return lambda obj, _: len(obj.get(name) or ())


def _number(*path: str) -> Cell:
    return _at(*path, empty=0)


def _conditions(obj: Manifest) -> dict[str, str]:
    return {c["type"]: c.get("status", "") for c in (obj.get("status") or {}).get("conditions") or ()}


def _joined(values: Iterable[object]) -> str:
    return ",".join(str(value) for value in values) or "<none>"


def _labels_text(selector: object) -> str:
    if not isinstance(selector, dict):
        return "<none>"
    labels = selector.get("matchLabels", selector if "matchExpressions" not in selector else {})
    return _joined(f"{key}={value}" for key, value in sorted((labels or {}).items()))


# --- pods


def _statuses(obj: Manifest) -> list[Manifest]:
    return (obj.get("status") or {}).get("containerStatuses") or []


def _sidecars(obj: Manifest) -> set[str]:
    """The init containers that go on running beside the others."""
    init = obj["spec"].get("initContainers") or ()
    return {each["name"] for each in init if each.get("restartPolicy") == "Always"}


def _init_statuses(obj: Manifest) -> list[Manifest]:
    return (obj.get("status") or {}).get("initContainerStatuses") or []


def _beside(obj: Manifest) -> list[Manifest]:
    """The statuses of the sidecars that run."""
    sidecars = _sidecars(obj)
    return [each for each in _init_statuses(obj) if each["name"] in sidecars and each.get("started")]


def _pod_ready(obj: Manifest, _: datetime) -> str:
    ready = sum(1 for status in [*_statuses(obj), *_beside(obj)] if status.get("ready"))
    return f"{ready}/{len(obj['spec'].get('containers') or ()) + len(_sidecars(obj))}"


def _initializing(obj: Manifest) -> str:
    """How far the init containers are, as `Init:1/2`; empty when they are through."""
    sidecars = _sidecars(obj)
    if _conditions(obj).get("Initialized") == "True":
        return ""
    for position, each in enumerate(_init_statuses(obj)):
        state = each.get("state") or {}
        waiting, ended = (state.get("waiting") or {}).get("reason"), state.get("terminated")
        if (ended and not ended.get("exitCode")) or (each["name"] in sidecars and each.get("started")):
            continue
        if ended:
            return f"Init:{ended.get('reason') or 'ExitCode:' + str(ended['exitCode'])}"
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{position}/{len(obj['spec'].get('initContainers') or ())}"
    return ""


def _pod_status(obj: Manifest, _: datetime) -> str:
    status = obj.get("status") or {}
    shown = status.get("reason") or status.get("phase") or "Unknown"
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            shown = "SchedulingGated"
    initializing = _initializing(obj)
    shown = initializing or shown
    for container in reversed(_statuses(obj) if not initializing else []):
        state = container.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
        if waiting.get("reason"):
            shown = waiting["reason"]
        elif ended.get("reason"):
            shown = ended["reason"]
        elif ended:
            shown = f"ExitCode:{ended.get('exitCode', 0)}"
    if obj["metadata"].get("deletionTimestamp"):
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return str(shown)


def _pod_restarts(obj: Manifest, now: datetime) -> str:
    initializing = bool(_initializing(obj))
    shown = _init_statuses(obj) if initializing else [*_statuses(obj), *_beside(obj)]
    count = sum(int(status.get("restartCount", 0)) for status in shown)
    ends = [((s.get("lastState") or {}).get("terminated") or {}).get("finishedAt") for s in shown]
    last = max((end for end in ends if end), default=None)
    return f"{count} ({age(last, now)} ago)" if count and last else str(count)


def _readiness_gates(obj: Manifest, _: datetime) -> str:
    gates = obj["spec"].get("readinessGates") or ()
    if not gates:
        return "<none>"
    holds = _conditions(obj)
    return f"{sum(1 for gate in gates if holds.get(gate['conditionType']) == 'True')}/{len(gates)}"


_POD = (
    NAME,
    Column("Ready", _pod_ready),
    Column("Status", _pod_status),
    Column("Restarts", _pod_restarts),
    AGE,
    Column("IP", _at("status", "podIP", empty="<none>"), priority=1),
    Column("Node", _at("spec", "nodeName", empty="<none>"), priority=1),
    Column("Nominated Node", _at("status", "nominatedNodeName", empty="<none>"), priority=1),
    Column("Readiness Gates", _readiness_gates, priority=1),
)


# --- nodes and namespaces


def _node_status(obj: Manifest, _: datetime) -> str:
    ready = _conditions(obj).get("Ready")
    shown = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    return f"{shown},SchedulingDisabled" if (obj.get("spec") or {}).get("unschedulable") else shown


def _node_roles(obj: Manifest, _: datetime) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = obj["metadata"].get("labels") or {}
    return _joined(sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix)))


def _node_address(kind: str) -> Cell:
    def cell(obj: Manifest, _: datetime) -> object:
        addresses = (obj.get("status") or {}).get("addresses") or ()
        return next((a["address"] for a in addresses if a.get("type") == kind), "<none>")

    return cell


_NODE = (
    NAME,
    Column("Status", _node_status),
    Column("Roles", _node_roles),
    AGE,
    Column("Version", _at("status", "nodeInfo", "kubeletVersion")),
    Column("Internal-IP", _node_address("InternalIP"), priority=1),
    Column("External-IP", _node_address("ExternalIP"), priority=1),
    Column("OS-Image", _at("status", "nodeInfo", "osImage", empty="<unknown>"), priority=1),
    Column("Kernel-Version", _at("status", "nodeInfo", "kernelVersion", empty="<unknown>"), priority=1),
    Column(
        "Container-Runtime",
        _at("status", "nodeInfo", "containerRuntimeVersion", empty="<unknown>"),
        priority=1,
    ),
)


# --- workloads


def _containers(obj: Manifest) -> list[Manifest]:
    return (((obj.get("spec") or {}).get("template") or {}).get("spec") or {}).get("containers") or []


_TEMPLATE = (
    Column("Containers", lambda obj, _: _joined(c["name"] for c in _containers(obj)), priority=1),
    Column("Images", lambda obj, _: _joined(c.get("image", "") for c in _containers(obj)), priority=1),
)
_SELECTOR = Column(
    "Selector", lambda obj, _: _labels_text((obj.get("spec") or {}).get("selector")), priority=1
)


def _ready_of(obj: Manifest, _: datetime) -> str:
    ready = (obj.get("status") or {}).get("readyReplicas", 0)
    return f"{ready}/{(obj.get('spec') or {}).get('replicas', 0)}"


def _integer(name: str, *path: str) -> Column:
    return Column(name, _number(*path), type="integer")


_DEPLOYMENT = (
    NAME,
    Column("Ready", _ready_of),
    _integer("Up-to-date", "status", "updatedReplicas"),
    _integer("Available", "status", "availableReplicas"),
    AGE,
    *_TEMPLATE,
    _SELECTOR,
)
_REPLICAS = (
    NAME,
    _integer("Desired", "spec", "replicas"),
    _integer("Current", "status", "replicas"),
    _integer("Ready", "status", "readyReplicas"),
    AGE,
    *_TEMPLATE,
    _SELECTOR,
)
_DAEMON_SET = (
    NAME,
    _integer("Desired", "status", "desiredNumberScheduled"),
    _integer("Current", "status", "currentNumberScheduled"),
    _integer("Ready", "status", "numberReady"),
    _integer("Up-to-date", "status", "updatedNumberScheduled"),
    _integer("Available", "status", "numberAvailable"),
    AGE,
    *_TEMPLATE,
    _SELECTOR,
)


def _job_status(obj: Manifest, _: datetime) -> str:
    holds = _conditions(obj)
    for kind in ("Complete", "Failed", "Suspended"):
        if holds.get(kind) == "True":
            return kind
    return "Terminating" if obj["metadata"].get("deletionTimestamp") else "Running"


def _job_completions(obj: Manifest, _: datetime) -> str:
    wanted = (obj.get("spec") or {}).get("completions")
    done = (obj.get("status") or {}).get("succeeded", 0)
    return f"{done}/{wanted if wanted is not None else 1}"


def _job_duration(obj: Manifest, now: datetime) -> str:
    status = obj.get("status") or {}
    if not status.get("startTime"):
        return ""
    end = parse_rfc3339(status["completionTime"]) if status.get("completionTime") else now
    return duration(int((end - parse_rfc3339(status["startTime"])).total_seconds()))


_JOB = (
    NAME,
    Column("Status", _job_status),
    Column("Completions", _job_completions),
    Column("Duration", _job_duration),
    AGE,
    *_TEMPLATE,
    _SELECTOR,
)
_CRON_JOB = (
    NAME,
    Column("Schedule", _at("spec", "schedule")),
    Column("Timezone", _at("spec", "timeZone", empty="<none>")),
    Column("Suspend", lambda obj, _: str(bool((obj.get("spec") or {}).get("suspend")))),
    Column("Active", lambda obj, _: len((obj.get("status") or {}).get("active") or ()), type="integer"),
    AGE,
)


def _hpa_reference(obj: Manifest, _: datetime) -> str:
    target = (obj.get("spec") or {}).get("scaleTargetRef") or {}
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def _hpa_minimum(obj: Manifest, _: datetime) -> str:
    return str(obj["spec"].get("minReplicas", "<unset>"))


def _hpa_targets(obj: Manifest, _: datetime) -> str:
    """What each metric is at and should be at; nothing is measured here, but a client may say otherwise."""
    metrics = obj["spec"].get("metrics") or []
    current = (obj.get("status") or {}).get("currentMetrics") or []
    shown = [
        _hpa_target(metric, current[index] if index < len(current) else {})
        for index, metric in enumerate(metrics)
    ]
    more = f" + {len(shown) - 2} more..." if len(shown) > 2 else ""
    return ", ".join(shown[:2]) + more or "<none>"


def _hpa_target(metric: Manifest, current: Manifest) -> str:
    kind = metric["type"]
    field = kind[0].lower() + kind[1:]
    source, target = metric[field], metric[field]["target"]
    now = (current.get(field) or {}).get("current") or {}
    name = f"{source['name']}: " if kind in ("Resource", "ContainerResource") else ""
    for value, mark in (("averageValue", "" if name or kind == "Pods" else " (avg)"), ("value", "")):
        if target.get(value) is not None:
            return f"{name}{now.get(value, '<unknown>')}/{target[value]}{mark}"
    used = now.get("averageUtilization")
    return f"{name}{'<unknown>' if used is None else f'{used}%'}/{target.get('averageUtilization')}%"


def _budget(field: str) -> Cell:
    return _at("spec", field, empty="N/A")


# --- services, events and the rest


def _ports(obj: Manifest, _: datetime) -> str:
    return _joined(
        f"{p['port']}{':' + str(p['nodePort']) if p.get('nodePort') else ''}/{p.get('protocol', 'TCP')}"
        for p in (obj.get("spec") or {}).get("ports") or ()
    )


def _event_object(obj: Manifest, _: datetime) -> str:
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _event_last(obj: Manifest, now: datetime) -> str:
    series = obj.get("series") or {}
    stamps = ("lastTimestamp", "deprecatedLastTimestamp", "eventTime")
    last = series.get("lastObservedTime") or next((obj[s] for s in stamps if obj.get(s)), None)
    return age(last or obj["metadata"].get("creationTimestamp"), now)


def _event_text(obj: Manifest, _: datetime) -> str:
    return str(obj.get("message") or obj.get("note") or "").strip()


def _event_count(obj: Manifest, _: datetime) -> object:
    return (obj.get("series") or {}).get("count") or obj.get("count") or obj.get("deprecatedCount") or 1


_EVENT = (
    Column("Last Seen", _event_last),
    Column("Type", _at("type")),
    Column("Reason", _at("reason")),
    Column("Object", _event_object),
    Column("Message", _event_text),
    Column("Count", _event_count, type="integer", priority=1),
    Column("Name", lambda obj, _: obj["metadata"]["name"], priority=1, format="name"),
)


def _role_of(obj: Manifest, _: datetime) -> str:
    reference = obj.get("roleRef") or {}
    return f"{reference.get('kind', '')}/{reference.get('name', '')}"


def _subjects(obj: Manifest, _: datetime) -> str:
    return _joined(subject.get("name", "") for subject in obj.get("subjects") or ())


_BINDING = (NAME, Column("Role", _role_of), AGE, Column("Subjects", _subjects, priority=1))
_CREATED = (NAME, Column("Created At", lambda obj, _: obj["metadata"].get("creationTimestamp")))


def _quota(side: str) -> Cell:
    def cell(obj: Manifest, _: datetime) -> str:
        status = obj.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        return ", ".join(
            f"{key}: {used.get(key, '0')}/{hard[key]}"
            for key in sorted(hard)
            if key.startswith("limits.") is (side == "limits")
        )

    return cell


_AGED = (NAME, AGE)
_WEBHOOKS = (NAME, Column("Webhooks", _count("webhooks"), type="integer"), AGE)

BUILTIN: dict[tuple[str, str], Sequence[Column]] = {
    ("", "Pod"): _POD,
    ("", "Node"): _NODE,
    ("", "Namespace"): (NAME, Column("Status", _at("status", "phase")), AGE),
    ("", "ConfigMap"): (NAME, Column("Data", _count("data"), type="integer"), AGE),
    ("", "Secret"): (NAME, Column("Type", _at("type")), Column("Data", _count("data"), type="integer"), AGE),
    ("", "Service"): (
        NAME,
        Column("Type", _at("spec", "type")),
        Column("Cluster-IP", _at("spec", "clusterIP", empty="<none>")),
        Column("External-IP", lambda obj, _: _joined((obj.get("spec") or {}).get("externalIPs") or ())),
        Column("Port(s)", _ports),
        AGE,
        _SELECTOR,
    ),
    ("", "ServiceAccount"): (NAME, AGE),
    ("", "Event"): _EVENT,
    ("events.k8s.io", "Event"): _EVENT,
    ("", "LimitRange"): _CREATED,
    ("", "ResourceQuota"): (
        NAME,
        Column("Request", _quota("requests")),
        Column("Limit", _quota("limits")),
        AGE,
    ),
    ("", "PersistentVolumeClaim"): (
        NAME,
        Column("Status", _at("status", "phase")),
        Column("Volume", _at("spec", "volumeName")),
        AGE,
    ),
    ("", "ReplicationController"): _REPLICAS,
    ("apps", "Deployment"): _DEPLOYMENT,
    ("apps", "ReplicaSet"): _REPLICAS,
    ("apps", "StatefulSet"): (NAME, Column("Ready", _ready_of), AGE, *_TEMPLATE),
    ("apps", "DaemonSet"): _DAEMON_SET,
    ("batch", "Job"): _JOB,
    ("batch", "CronJob"): _CRON_JOB,
    ("autoscaling", "HorizontalPodAutoscaler"): (
        NAME,
        Column("Reference", _hpa_reference),
        Column("Targets", _hpa_targets),
        Column("MinPods", _hpa_minimum),
        _integer("MaxPods", "spec", "maxReplicas"),
        _integer("Replicas", "status", "currentReplicas"),
        AGE,
    ),
    ("policy", "PodDisruptionBudget"): (
        NAME,
        Column("Min Available", _budget("minAvailable")),
        Column("Max Unavailable", _budget("maxUnavailable")),
        _integer("Allowed Disruptions", "status", "disruptionsAllowed"),
        AGE,
    ),
    ("coordination.k8s.io", "Lease"): (NAME, Column("Holder", _at("spec", "holderIdentity")), AGE),
    ("scheduling.k8s.io", "PriorityClass"): (
        NAME,
        Column("Value", _number("value"), type="integer"),
        Column("Global-Default", _at("globalDefault", empty=False), type="boolean"),
        AGE,
        Column("PreemptionPolicy", _at("preemptionPolicy"), priority=1),
    ),
    ("scheduling.k8s.io", "Workload"): _AGED,
    ("scheduling.k8s.io", "PodGroup"): (
        NAME,
        Column(
            "Policy", lambda obj, _: _joined(((obj.get("spec") or {}).get("schedulingPolicy") or {}).keys())
        ),
        AGE,
    ),
    ("scheduling.k8s.io", "CompositePodGroup"): _AGED,
    ("storage.k8s.io", "StorageClass"): (NAME, Column("Provisioner", _at("provisioner")), AGE),
    ("rbac.authorization.k8s.io", "Role"): _CREATED,
    ("rbac.authorization.k8s.io", "ClusterRole"): _CREATED,
    ("rbac.authorization.k8s.io", "RoleBinding"): _BINDING,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _BINDING,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _WEBHOOKS,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _WEBHOOKS,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _CREATED,
    ("networking.k8s.io", "NetworkPolicy"): (
        NAME,
        Column("Pod-Selector", lambda obj, _: _labels_text((obj.get("spec") or {}).get("podSelector"))),
        AGE,
    ),
    ("node.k8s.io", "RuntimeClass"): (NAME, Column("Handler", _at("handler")), AGE),
}
