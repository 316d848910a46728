"""Pods: defaults, priority, quality of service, gates, binding and graceful deletion.

What an update may change is in `pod_updates`. Kubelets and schedulers obey these rules too.
"""

from __future__ import annotations

from grove.embedded.errors import ApiError, Cause, Manifest, conflict
from grove.embedded.kinds.base import Strategy, fill
from grove.embedded.kinds.context import Context
from grove.embedded.kinds.gang_rules import enabled
from grove.embedded.kinds.pod_template import (
    default_pod_spec,
    gated_node_errors,
    pod_spec_errors,
    requests_from_limits,
)
from grove.embedded.kinds.pod_updates import update_errors
from grove.embedded.kinds.priority import resolve_priority
from grove.embedded.machinery.options import DeleteOptions
from grove.embedded.machinery.quantities import parse

_EVICTING_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
GATED_MESSAGE = "Scheduling is blocked due to non-empty scheduling gates"


class PodStrategy(Strategy):
    assigned = ("priority", "preemptionPolicy", "serviceAccount", "serviceAccountName", "tolerations")

    def prepare_create(self, obj: Manifest, ctx: Context) -> None:
        spec = obj.setdefault("spec", {})
        obj.pop("status", None)
        if not enabled(ctx, "GenericWorkload"):
            spec.pop("workloadRef", None)
            spec.pop("schedulingGroup", None)
        spec.setdefault("serviceAccountName", spec.get("serviceAccount") or "default")
        resolve_priority(spec, ctx, obj["metadata"].get("name", ""))
        status: Manifest = {"phase": "Pending", "qosClass": quality_of_service(spec)}
        if spec.get("schedulingGates"):
            status["conditions"] = [gated_condition(ctx.now)]
        obj["status"] = status

    def default(self, obj: Manifest, ctx: Context) -> None:
        super().default(obj, ctx)
        spec = obj.setdefault("spec", {})
        default_pod_spec(spec)
        requests_from_limits(spec)
        fill(spec, enableServiceLinks=True, preemptionPolicy="PreemptLowerPriority", priority=0)
        if spec.get("hostNetwork"):
            for container in spec.get("containers") or ():
                for port in container.get("ports") or ():
                    fill(port, hostPort=port.get("containerPort"))
        _tolerate_node_trouble(spec)
        if obj.get("status", {}).get("phase") == "Pending":
            # A new dict: until the write is accepted, the old one is that of the stored pod.
            obj["status"] = {**obj["status"], "qosClass": quality_of_service(spec)}

    def prepare_update(self, new: Manifest, old: Manifest, ctx: Context) -> None:
        # Only /status writes status, and ungating is no reason to lose the condition that explains the wait.
        spec = new.setdefault("spec", {})
        for name in ("priority", "preemptionPolicy"):
            if spec.get(name) is None and name in old["spec"]:
                spec[name] = old["spec"][name]

    def prepare_status(self, new: Manifest, old: Manifest, ctx: Context) -> None:
        status = new.setdefault("status", {})
        if "qosClass" in old.get("status", {}):
            status["qosClass"] = old["status"]["qosClass"]

    def validate_create(self, obj: Manifest, ctx: Context) -> list[Cause]:
        spec = obj["spec"]
        return [*pod_spec_errors(spec, "spec"), *gated_node_errors(spec)]

    def validate_update(self, new: Manifest, old: Manifest, ctx: Context) -> list[Cause]:
        return update_errors(new["spec"], old["spec"])

    def graceful_delete(self, obj: Manifest, options: DeleteOptions, ctx: Context) -> int:
        """A pod on a node keeps its grace period; one that never started, or has ended, goes at once."""
        if not obj["spec"].get("nodeName") or obj.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            return 0
        if options.grace_seconds is not None:
            return max(options.grace_seconds, 0)
        return int(obj["spec"].get("terminationGracePeriodSeconds", 30))


def gated_condition(now: str) -> Manifest:
    return {
        "type": "PodScheduled",
        "status": "False",
        "lastTransitionTime": now,
        "reason": "SchedulingGated",
        "message": GATED_MESSAGE,
    }


def _tolerate_node_trouble(spec: Manifest) -> None:
    """Pods stay five minutes on a node that stopped answering, unless they say otherwise."""
    tolerations = spec.setdefault("tolerations", [])
    for key in _EVICTING_TAINTS:
        if not any(_tolerates(toleration, key) for toleration in tolerations):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            )


def _tolerates(toleration: Manifest, key: str) -> bool:
    if toleration.get("effect") not in (None, "", "NoExecute"):
        return False
    wanted = toleration.get("key")
    return wanted == key or (not wanted and toleration.get("operator") == "Exists")


def quality_of_service(spec: Manifest) -> str:
    """BestEffort without requests, Guaranteed when all limits equal the requests, else Burstable."""
    asks = False
    guaranteed = True
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = container.get("resources") or {}
        limits = resources.get("limits") or {}
        requests = {**limits, **(resources.get("requests") or {})}
        for name in ("cpu", "memory"):
            asks = asks or parse(requests.get(name, 0)) > 0 or parse(limits.get(name, 0)) > 0
            if name not in limits or parse(requests[name]) != parse(limits[name]):
                guaranteed = False
    if not asks:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def bind(pod: Manifest, binding: Manifest, ctx: Context) -> Manifest:
    """The pod bound to a node; 409 while it is gated, already bound, or on its way out."""
    name = pod["metadata"]["name"]
    node = (binding.get("target") or {}).get("name") or ""
    if (binding.get("target") or {}).get("kind", "Node") not in ("", "Node"):
        raise ApiError(400, "BadRequest", "target.kind must be Node")
    if not node:
        raise ApiError(400, "BadRequest", "target.name is required")
    if pod["metadata"].get("deletionTimestamp"):
        raise _binding_conflict(ctx, name, f"pod {name} is being deleted, cannot be assigned to a host")
    if bound := pod["spec"].get("nodeName"):
        raise _binding_conflict(ctx, name, f'pod {name} is already assigned to node "{bound}"')
    if pod["spec"].get("schedulingGates"):
        raise _binding_conflict(ctx, name, f"pod {name} has non-empty .spec.schedulingGates")
    meta = {**pod["metadata"]}
    given = (binding.get("metadata") or {}).get("annotations")
    if given:
        meta["annotations"] = {**(meta.get("annotations") or {}), **given}
    status = {**(pod.get("status") or {})}
    kept = [
        condition for condition in status.get("conditions") or () if condition.get("type") != "PodScheduled"
    ]
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastTransitionTime": ctx.now,
    }
    status["conditions"] = [*kept, scheduled]
    return {**pod, "metadata": meta, "spec": {**pod["spec"], "nodeName": node}, "status": status}


def _binding_conflict(ctx: Context, name: str, why: str) -> ApiError:
    error = conflict(ctx.resource, name, why)
    error.message = f'Operation cannot be fulfilled on pods/binding "{name}": {why}'
    error.args = (error.message,)
    return error


STRATEGIES: dict[tuple[str, str], Strategy] = {("", "Pod"): PodStrategy()}
