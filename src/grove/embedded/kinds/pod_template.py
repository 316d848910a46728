"""Defaults of a pod spec that pods and pod templates share, and the rules for its containers.

Changes the spec in place; knows nothing of status or of updates.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grove.embedded.errors import Cause, Manifest
from grove.embedded.kinds.base import (
    dns_label,
    dns_subdomain,
    duplicate,
    fill,
    forbidden,
    invalid,
    label_key,
    required,
    unsupported,
)
from grove.embedded.kinds.devices import pod_claim_errors
from grove.embedded.machinery.quantities import parse

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_STANDARD_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage", "storage"})


def default_pod_spec(spec: Manifest) -> None:
    """What the server fills in wherever a pod spec appears."""
    fill(
        spec,
        restartPolicy="Always",
        dnsPolicy="ClusterFirst",
        terminationGracePeriodSeconds=30,
        schedulerName="default-scheduler",
        securityContext={},
    )
    if spec.get("serviceAccountName") and not spec.get("serviceAccount"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif spec.get("serviceAccount") and not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = spec["serviceAccount"]
    for container in containers(spec):
        _default_container(container)
    for volume in spec.get("volumes") or ():
        for source in ("configMap", "secret", "downwardAPI", "projected"):
            if isinstance(volume.get(source), dict):
                fill(volume[source], defaultMode=420)
        if isinstance(volume.get("hostPath"), dict):
            fill(volume["hostPath"], type="")


def containers(spec: Manifest) -> Iterator[Manifest]:
    """Every container of a spec, init containers included."""
    for name in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(name) or ()


def _default_container(container: Manifest) -> None:
    image = container.get("image") or ""
    last = image.rsplit("/", 1)[-1]
    latest = last.endswith(":latest") or not (":" in last or "@" in last)
    fill(
        container,
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy="Always" if latest else "IfNotPresent",
        resources={},
    )
    for port in container.get("ports") or ():
        fill(port, protocol="TCP")
    for name in _PROBES:
        if probe := container.get(name):
            fill(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
            if isinstance(probe.get("httpGet"), dict):
                fill(probe["httpGet"], path="/", scheme="HTTP")
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference is not None:
            fill(reference, apiVersion="v1")


def requests_from_limits(spec: Manifest) -> None:
    """A pod (not a template) asks for what it is limited to, unless it says otherwise."""
    for container in containers(spec):
        resources = container.get("resources") or {}
        if resources.get("limits"):
            asked = resources.setdefault("requests", {})
            for name, amount in resources["limits"].items():
                asked.setdefault(name, amount)


def pod_spec_errors(spec: Manifest, path: str) -> list[Cause]:
    """What is wrong with a pod spec wherever it appears."""
    causes: list[Cause] = []
    if not spec.get("containers"):
        causes.append(required(f"{path}.containers"))
    names: set[str] = set()
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            causes += _container_errors(container, f"{path}.{group}[{index}]", names)
    if spec.get("restartPolicy") not in ("Always", "OnFailure", "Never"):
        causes.append(
            unsupported(f"{path}.restartPolicy", spec.get("restartPolicy"), ("Always", "OnFailure", "Never"))
        )
    if (grace := spec.get("terminationGracePeriodSeconds")) is not None and grace < 0:
        causes.append(
            invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than or equal to 0")
        )
    if spec.get("nodeName"):
        causes += dns_subdomain(f"{path}.nodeName", spec["nodeName"])
    causes += _gate_errors(spec, path)
    for key in spec.get("nodeSelector") or {}:
        causes += label_key(f"{path}.nodeSelector", key)
    causes += _link_errors(spec, path)
    causes += pod_claim_errors(spec, path)
    return causes + _toleration_errors(spec, path)


def _gate_errors(spec: Manifest, path: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        where = f"{path}.schedulingGates[{index}]"
        name = gate.get("name")
        causes += label_key(where, name)
        if name in seen:
            causes.append(duplicate(where, name))
        seen.add(name)
    return causes


def _link_errors(spec: Manifest, path: str) -> list[Cause]:
    """The gang that a pod belongs to: a Workload's group in 1.35, a PodGroup since."""
    causes: list[Cause] = []
    if (link := spec.get("workloadRef")) is not None:
        causes += dns_subdomain(f"{path}.workloadRef.name", link.get("name"))
        causes += dns_label(f"{path}.workloadRef.podGroup", link.get("podGroup"))
        if link.get("podGroupReplicaKey"):
            causes += dns_label(f"{path}.workloadRef.podGroupReplicaKey", link["podGroupReplicaKey"])
    if (link := spec.get("schedulingGroup")) is not None:
        causes += dns_subdomain(f"{path}.schedulingGroup.podGroupName", link.get("podGroupName"))
    return causes


def _toleration_errors(spec: Manifest, path: str) -> list[Cause]:
    causes = []
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        where = f"{path}.tolerations[{index}]"
        operator = toleration.get("operator") or "Equal"
        if operator == "Exists" and toleration.get("value"):
            causes.append(invalid(where, toleration, "value must be empty when `operator` is 'Exists'"))
        if not toleration.get("key") and operator != "Exists":
            causes.append(
                invalid(
                    f"{where}.operator",
                    operator,
                    'operator must be Exists when `key` is empty, which means "match all values and '
                    'all keys"',
                )
            )
        if operator not in ("Equal", "Exists", "Lt", "Gt"):
            causes.append(unsupported(f"{where}.operator", operator, ("Equal", "Exists")))
    return causes


def _container_errors(container: Manifest, path: str, names: set[str]) -> list[Cause]:
    causes = dns_label(f"{path}.name", container.get("name"))
    if container.get("name") in names:
        causes.append(duplicate(f"{path}.name", container["name"]))
    names.add(container.get("name", ""))
    image = container.get("image")
    if not image:
        causes.append(required(f"{path}.image"))
    elif image != image.strip():
        causes.append(invalid(f"{path}.image", image, "must not have leading or trailing whitespace"))
    if container.get("imagePullPolicy") not in (None, "Always", "IfNotPresent", "Never"):
        causes.append(
            unsupported(
                f"{path}.imagePullPolicy", container["imagePullPolicy"], ("Always", "IfNotPresent", "Never")
            )
        )
    for index, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            causes.append(required(f"{path}.env[{index}].name"))
    for index, port in enumerate(container.get("ports") or ()):
        number = port.get("containerPort", 0)
        if not 0 < number < 65536:
            causes.append(
                invalid(
                    f"{path}.ports[{index}].containerPort", number, "must be between 1 and 65535, inclusive"
                )
            )
    return causes + _resource_errors(container.get("resources") or {}, f"{path}.resources")


def _resource_errors(resources: Manifest, path: str) -> list[Cause]:
    causes: list[Cause] = []
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            causes += _amount_errors(name, amount, f"{path}.{kind}[{name}]")
    for name, asked in requests.items():
        causes += _overcommit_errors(name, asked, limits.get(name), path)
    return causes


def _amount_errors(name: str, amount: Any, where: str) -> list[Cause]:
    number = parse(amount)
    if number < 0:
        return [invalid(where, str(amount), "must be greater than or equal to 0")]
    if is_extended(name) and number != number.to_integral_value():
        return [invalid(where, str(amount), "must be an integer")]
    if "/" not in name and name not in _STANDARD_RESOURCES and not name.startswith("hugepages-"):
        return [invalid(where, name, "must be a standard resource type or fully qualified")]
    return []


def is_extended(name: str) -> bool:
    """A resource that a device plugin counts, such as a GPU: it cannot be overcommitted."""
    return "/" in name and not name.startswith("kubernetes.io/")


def _overcommit_errors(name: str, asked: Any, limit: Any, path: str) -> list[Cause]:
    strict = is_extended(name) or name.startswith("hugepages-")
    if limit is None:
        return (
            [required(f"{path}.limits", "Limit must be set for non overcommitable resources")]
            if strict
            else []
        )
    if strict and parse(asked) != parse(limit):
        return [invalid(f"{path}.requests", str(asked), f"must be equal to {name} limit of {limit}")]
    if parse(asked) > parse(limit):
        return [
            invalid(f"{path}.requests", str(asked), f"must be less than or equal to {name} limit of {limit}")
        ]
    return []


def gated_node_errors(spec: Manifest) -> list[Cause]:
    """A pod that waits behind a gate has no node yet."""
    if spec.get("nodeName") and spec.get("schedulingGates"):
        return [forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")]
    return []
