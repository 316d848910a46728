"""Core kinds with a few rules each: namespaces, nodes, services, secrets, leases, events, and the like.

Each strategy says only what differs from a plain stored object.
"""

from __future__ import annotations

import base64
import ipaddress

from grove.embedded.errors import Cause, Manifest
from grove.embedded.kinds.base import (
    IMMUTABLE,
    Strategy,
    dns_label,
    fill,
    forbidden,
    invalid,
    required,
    unsupported,
)
from grove.embedded.kinds.context import Context

_HIGHEST_USER_PRIORITY = 1_000_000_000


class NamespaceStrategy(Strategy):
    """A namespace lives until the finalizer `kubernetes` in its spec is gone."""

    def prepare_create(self, obj: Manifest, ctx: Context) -> None:
        finalizers = (obj.get("spec") or {}).get("finalizers") or []
        obj["spec"] = {"finalizers": [*finalizers, *([] if "kubernetes" in finalizers else ["kubernetes"])]}
        obj["status"] = {"phase": "Active"}

    def default(self, obj: Manifest, ctx: Context) -> None:
        super().default(obj, ctx)
        labels = obj["metadata"].setdefault("labels", {})
        labels["kubernetes.io/metadata.name"] = obj["metadata"].get("name", "")

    def prepare_update(self, new: Manifest, old: Manifest, ctx: Context) -> None:
        if ctx.subresource != "finalize" and "spec" in old:
            new["spec"] = {**(new.get("spec") or {}), "finalizers": old["spec"].get("finalizers", [])}
            if not new["spec"]["finalizers"]:
                del new["spec"]["finalizers"]

    def validate_create(self, obj: Manifest, ctx: Context) -> list[Cause]:
        return dns_label("metadata.name", obj["metadata"].get("name"))


class NodeStrategy(Strategy):
    def validate_create(self, obj: Manifest, ctx: Context) -> list[Cause]:
        return self._taint_errors(obj)

    def validate_update(self, new: Manifest, old: Manifest, ctx: Context) -> list[Cause]:
        causes = self._taint_errors(new)
        before, after = (o.get("spec", {}) for o in (old, new))
        for name in ("providerID", "podCIDR"):
            if before.get(name) and before[name] != after.get(name):
                causes.append(
                    forbidden("spec", f"node updates may only change labels, taints, or capacity: {name}")
                )
        return causes

    @staticmethod
    def _taint_errors(obj: Manifest) -> list[Cause]:
        causes = []
        for index, taint in enumerate((obj.get("spec") or {}).get("taints") or ()):
            if not taint.get("key"):
                causes.append(required(f"spec.taints[{index}].key"))
            effects = ("NoSchedule", "PreferNoSchedule", "NoExecute")
            if taint.get("effect") not in effects:
                causes.append(unsupported(f"spec.taints[{index}].effect", taint.get("effect", ""), effects))
        return causes


class ServiceStrategy(Strategy):
    assigned = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")

    def prepare_create(self, obj: Manifest, ctx: Context) -> None:
        spec = obj.setdefault("spec", {})
        obj["status"] = {"loadBalancer": {}}
        if spec.get("type") == "ExternalName":
            return
        if not spec.get("clusterIP"):
            spec["clusterIP"] = (spec.get("clusterIPs") or [None])[0] or ctx.new_cluster_ip()
        spec["clusterIPs"] = [spec["clusterIP"]]
        if spec["clusterIP"] == "None" and not spec.get("selector"):
            # Whoever writes its endpoints may write both families.
            fill(spec, ipFamilies=["IPv4", "IPv6"], ipFamilyPolicy="RequireDualStack")

    def prepare_update(self, new: Manifest, old: Manifest, ctx: Context) -> None:
        # A client that does not know the allocated address keeps it.
        spec, before = new.setdefault("spec", {}), old.get("spec", {})
        if spec.get("type") != "ExternalName":
            for name in ("clusterIP", "clusterIPs"):
                if not spec.get(name) and name in before:
                    spec[name] = before[name]

    def default(self, obj: Manifest, ctx: Context) -> None:
        super().default(obj, ctx)
        spec = obj.setdefault("spec", {})
        fill(spec, type="ClusterIP", sessionAffinity="None")
        if spec["type"] != "ExternalName":
            fill(spec, internalTrafficPolicy="Cluster", ipFamilies=["IPv4"], ipFamilyPolicy="SingleStack")
        if spec["sessionAffinity"] == "ClientIP":
            fill(spec, sessionAffinityConfig={"clientIP": {"timeoutSeconds": 10800}})
        else:
            spec.pop("sessionAffinityConfig", None)
        for port in spec.get("ports") or ():
            fill(port, protocol="TCP", targetPort=port.get("port"))

    def validate_create(self, obj: Manifest, ctx: Context) -> list[Cause]:
        spec = obj["spec"]
        kinds = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
        causes = [] if spec["type"] in kinds else [unsupported("spec.type", spec["type"], kinds)]
        headless = spec.get("clusterIP") == "None"
        if not spec.get("ports") and not headless and spec["type"] != "ExternalName":
            causes.append(required("spec.ports"))
        for index, port in enumerate(spec.get("ports") or ()):
            if not 0 < port.get("port", 0) < 65536:
                where = f"spec.ports[{index}].port"
                causes.append(invalid(where, port.get("port", 0), "must be between 1 and 65535, inclusive"))
            if len(spec["ports"]) > 1 and not port.get("name"):
                causes.append(required(f"spec.ports[{index}].name"))
        return causes + self._address_errors(spec)

    def validate_update(self, new: Manifest, old: Manifest, ctx: Context) -> list[Cause]:
        causes = self.validate_create(new, ctx)
        before, after = old["spec"].get("clusterIP"), new["spec"].get("clusterIP")
        if before and after != before and new["spec"]["type"] != "ExternalName":
            causes.append(invalid("spec.clusterIPs[0]", [after], "may not change once set"))
        return causes

    @staticmethod
    def _address_errors(spec: Manifest) -> list[Cause]:
        address = spec.get("clusterIP")
        if not address or address == "None":
            return []
        try:
            ipaddress.ip_address(address)
        except ValueError:
            return [
                invalid(
                    "spec.clusterIPs[0]",
                    address,
                    "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                )
            ]
        return []


class SecretStrategy(Strategy):
    def default(self, obj: Manifest, ctx: Context) -> None:
        super().default(obj, ctx)
        fill(obj, type="Opaque")
        given = obj.pop("stringData", None)
        if given:
            encoded = {name: base64.b64encode(text.encode()).decode() for name, text in given.items()}
            obj["data"] = {**(obj.get("data") or {}), **encoded}

    def validate_update(self, new: Manifest, old: Manifest, ctx: Context) -> list[Cause]:
        causes = _frozen_data_errors(new, old)
        if new.get("type") != old.get("type"):
            causes.append(invalid("type", new.get("type"), IMMUTABLE))
        return causes


class ConfigMapStrategy(Strategy):
    def validate_create(self, obj: Manifest, ctx: Context) -> list[Cause]:
        both = sorted(set(obj.get("data") or ()) & set(obj.get("binaryData") or ()))
        return [invalid(f"data[{key}]", key, "duplicate of key present in binaryData") for key in both]

    def validate_update(self, new: Manifest, old: Manifest, ctx: Context) -> list[Cause]:
        return [*self.validate_create(new, ctx), *_frozen_data_errors(new, old)]


def _frozen_data_errors(new: Manifest, old: Manifest) -> list[Cause]:
    """Data of an object that was marked immutable stays, and so does the mark."""
    if not old.get("immutable"):
        return []
    why = "field is immutable when `immutable` is set"
    causes = [] if new.get("immutable") else [forbidden("immutable", why)]
    return causes + [
        forbidden(name, why) for name in ("data", "binaryData") if new.get(name) != old.get(name)
    ]


class VolumeClaimStrategy(Strategy):
    def prepare_create(self, obj: Manifest, ctx: Context) -> None:
        obj["status"] = {"phase": "Pending"}

    def default(self, obj: Manifest, ctx: Context) -> None:
        super().default(obj, ctx)
        fill(obj.setdefault("spec", {}), volumeMode="Filesystem")

    def validate_create(self, obj: Manifest, ctx: Context) -> list[Cause]:
        spec = obj["spec"]
        causes = [] if spec.get("accessModes") else [required("spec.accessModes")]
        if "storage" not in ((spec.get("resources") or {}).get("requests") or {}):
            causes.append(required("spec.resources[storage]"))
        return causes


class PriorityClassStrategy(Strategy):
    def default(self, obj: Manifest, ctx: Context) -> None:
        super().default(obj, ctx)
        fill(obj, preemptionPolicy="PreemptLowerPriority", value=0)

    def validate_create(self, obj: Manifest, ctx: Context) -> list[Cause]:
        name = obj["metadata"].get("name", "")
        causes = []
        if obj["value"] > _HIGHEST_USER_PRIORITY and not name.startswith("system-"):
            why = f"maximum allowed value of a user defined priority is {_HIGHEST_USER_PRIORITY}"
            causes.append(forbidden("value", why))
        if obj["preemptionPolicy"] not in ("PreemptLowerPriority", "Never"):
            causes.append(
                unsupported("preemptionPolicy", obj["preemptionPolicy"], ("Never", "PreemptLowerPriority"))
            )
        return causes

    def validate_update(self, new: Manifest, old: Manifest, ctx: Context) -> list[Cause]:
        causes = self.validate_create(new, ctx)
        if new["value"] != old["value"]:
            causes.append(forbidden("value", "may not be changed in an update."))
        if new["preemptionPolicy"] != old["preemptionPolicy"]:
            causes.append(invalid("preemptionPolicy", new["preemptionPolicy"], IMMUTABLE))
        return causes


class LeaseStrategy(Strategy):
    def validate_create(self, obj: Manifest, ctx: Context) -> list[Cause]:
        spec = obj.get("spec") or {}
        causes = []
        if (seconds := spec.get("leaseDurationSeconds")) is not None and seconds <= 0:
            causes.append(invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
        if (changes := spec.get("leaseTransitions")) is not None and changes < 0:
            causes.append(invalid("spec.leaseTransitions", changes, "must be greater than or equal to 0"))
        return causes

    def validate_update(self, new: Manifest, old: Manifest, ctx: Context) -> list[Cause]:
        return self.validate_create(new, ctx)

    def default(self, obj: Manifest, ctx: Context) -> None:
        super().default(obj, ctx)
        spec = obj.get("spec") or {}
        for name in ("acquireTime", "renewTime"):
            if spec.get(name):
                spec[name] = micro_time(spec[name])


def micro_time(text: str) -> str:
    """A timestamp with exactly six digits of fraction, as MicroTime is written."""
    if not text.endswith("Z"):
        return text
    whole, _, fraction = text[:-1].partition(".")
    return f"{whole}.{fraction[:6]:0<6}Z"


class EventStrategy(Strategy):
    def validate_create(self, obj: Manifest, ctx: Context) -> list[Cause]:
        about = obj.get("involvedObject") or obj.get("regarding") or {}
        namespace = obj["metadata"].get("namespace", "")
        home = about.get("namespace") or "default"
        if namespace != home:
            field = "involvedObject.namespace"
            return [invalid(field, about.get("namespace", ""), "does not match event.namespace")]
        return []


class BindingStrategy(Strategy):
    """RBAC bindings: whom they name may change, which role they give may not."""

    def default(self, obj: Manifest, ctx: Context) -> None:
        super().default(obj, ctx)
        fill(obj.setdefault("roleRef", {}), apiGroup="rbac.authorization.k8s.io")
        for subject in obj.get("subjects") or ():
            if subject.get("kind") in ("User", "Group"):
                fill(subject, apiGroup="rbac.authorization.k8s.io")

    def validate_create(self, obj: Manifest, ctx: Context) -> list[Cause]:
        reference = obj["roleRef"]
        causes = [] if reference.get("name") else [required("roleRef.name")]
        if reference.get("kind") not in ("ClusterRole", "Role"):
            causes.append(unsupported("roleRef.kind", reference.get("kind", ""), ("ClusterRole", "Role")))
        for index, subject in enumerate(obj.get("subjects") or ()):
            if not subject.get("name"):
                causes.append(required(f"subjects[{index}].name"))
        return causes

    def validate_update(self, new: Manifest, old: Manifest, ctx: Context) -> list[Cause]:
        causes = self.validate_create(new, ctx)
        if new["roleRef"] != old.get("roleRef"):
            causes.append(invalid("roleRef", new["roleRef"], "cannot change roleRef"))
        return causes


_RBAC = "rbac.authorization.k8s.io"
STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("", "Namespace"): NamespaceStrategy(),
    ("", "Node"): NodeStrategy(),
    ("", "Service"): ServiceStrategy(),
    ("", "Secret"): SecretStrategy(),
    ("", "ConfigMap"): ConfigMapStrategy(),
    ("", "PersistentVolumeClaim"): VolumeClaimStrategy(),
    ("", "Event"): EventStrategy(),
    ("events.k8s.io", "Event"): EventStrategy(),
    ("coordination.k8s.io", "Lease"): LeaseStrategy(),
    ("scheduling.k8s.io", "PriorityClass"): PriorityClassStrategy(),
    (_RBAC, "RoleBinding"): BindingStrategy(),
    (_RBAC, "ClusterRoleBinding"): BindingStrategy(),
}
