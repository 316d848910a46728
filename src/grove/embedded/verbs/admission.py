"""The admission that Kubernetes has built in: namespace lifecycle, limit ranges, resource quotas.

Simple forms: container defaults and bounds of LimitRanges; hard limits on object counts and on summed
requests and limits of a namespace. Priority classes are resolved by the pod's strategy.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING

from grove.embedded.errors import Manifest, NotStored, forbidden, not_found
from grove.embedded.kinds.context import Context
from grove.embedded.machinery import quantities
from grove.embedded.resource_type import ResourceType

if TYPE_CHECKING:
    from grove.embedded.verbs.api import API

PODS = ("", "pods")
QUOTAS = ("", "resourcequotas")
_PLAIN = frozenset({"cpu", "memory", "ephemeral-storage"})
_COUNTED = frozenset(
    {
        "pods",
        "services",
        "secrets",
        "configmaps",
        "resourcequotas",
        "replicationcontrollers",
        "persistentvolumeclaims",
    }
)


class Admission:
    def __init__(self, api: API) -> None:
        self._api = api

    def check_namespace(self, resource: ResourceType, namespace: str, name: str) -> None:
        """Nothing new is created in a namespace that is absent or on its way out."""
        if not resource.namespaced:
            return
        found = self._api.find("", "namespaces", "", namespace)
        if found is None:
            kind = self._api.catalog.registry.lookup("", "v1", "namespaces")
            assert kind is not None
            raise not_found(kind, namespace)
        if found["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            error = forbidden(resource, name, why)
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            error.details = {**(error.details or {}), "causes": [cause]}
            raise error

    def before_create(self, resource: ResourceType, obj: Manifest, context: Context) -> None:
        """Fills in and checks what the namespace's LimitRanges say about a pod's containers."""
        if resource.key != PODS or not self._api.store.table(("", "limitranges")).entries:
            return
        for limit_range in context.all_of("", "limitranges", obj["metadata"]["namespace"]):
            for limit in (limit_range.get("spec") or {}).get("limits") or ():
                if limit.get("type") == "Container":
                    for container in obj["spec"].get("containers") or ():
                        _apply_limit(resource, obj["metadata"]["name"], container, limit)

    def check_quota(self, resource: ResourceType, obj: Manifest) -> None:
        """Refuses what would exceed a quota of the namespace."""
        namespace = obj["metadata"].get("namespace")
        if not namespace or not self._api.store.table(QUOTAS).entries:
            return
        asked = usage_of(resource, obj)
        for quota in self._api.all_of(*QUOTAS, namespace):
            self._check_one(resource, obj, quota, asked)

    def _check_one(self, resource: ResourceType, obj: Manifest, quota: Manifest, asked: Counter[str]) -> None:
        hard = (quota.get("spec") or {}).get("hard") or {}
        name = quota["metadata"]["name"]
        if resource.key == PODS:
            missing = [key for key in hard if key in _MUST_SPECIFY and not asked.get(key)]
            if missing:
                lacking = "; ".join(f"{key} for: {_without(obj, key)}" for key in sorted(missing))
                why = f"failed quota: {name}: must specify {lacking}"
                raise forbidden(resource, obj["metadata"]["name"], why)
        relevant = sorted(key for key in hard if asked.get(key))
        used = self._used(obj["metadata"]["namespace"], relevant)
        over = [key for key in relevant if used[key] + asked[key] > quantities.parse(hard[key])]
        if over:
            why = (
                f"exceeded quota: {name}, requested: {_shown(over, asked)}, used: {_shown(over, used)}, "
                f"limited: {','.join(f'{key}={hard[key]}' for key in over)}"
            )
            raise forbidden(resource, obj["metadata"]["name"], why)

    def _used(self, namespace: str, keys: Iterable[str]) -> Counter[str]:
        """What the namespace uses of each quota key, counted from the stored objects."""
        total: Counter[str] = Counter()
        if not (wanted := set(keys)):
            return total
        for resource in self._api.catalog.registry:
            if not resource.namespaced or resource.stored_as or not _counts_for(resource, wanted):
                continue
            for obj in self._api.all_of(*resource.key, namespace):
                for key, amount in usage_of(resource, obj).items():
                    if key in wanted:
                        total[key] += amount
        return total

    def after_write(self, resource: ResourceType, obj: Manifest) -> None:
        """Keeps the status of the namespace's quotas true."""
        namespace = obj["metadata"].get("namespace")
        if not namespace or not self._api.store.table(QUOTAS).entries:
            return
        for quota in self._api.all_of(*QUOTAS, namespace):
            hard = (quota.get("spec") or {}).get("hard") or {}
            used = self._used(namespace, hard)
            status = {"hard": dict(hard), "used": {key: _text(used[key]) for key in hard}}
            if quota.get("status") != status:
                # What was asked for is done; a status that cannot be stored is made true by the next write.
                with contextlib.suppress(NotStored):
                    self._api.store.put(
                        QUOTAS, {**quota, "metadata": {**quota["metadata"]}, "status": status}
                    )


_MUST_SPECIFY = frozenset(
    f"{side}{name}" for side in ("requests.", "limits.", "") for name in ("cpu", "memory")
)


def _without(pod: Manifest, key: str) -> str:
    """The containers that do not say how much they want of a quota key."""
    side, _, name = key.rpartition(".")
    return ",".join(
        container["name"]
        for container in pod["spec"].get("containers") or ()
        if name not in ((container.get("resources") or {}).get(side or "requests") or {})
    )


def _apply_limit(resource: ResourceType, name: str, container: Manifest, limit: Manifest) -> None:
    resources = container.setdefault("resources", {})
    limits, requests = dict(resources.get("limits") or {}), dict(resources.get("requests") or {})
    explicit = dict(limits)
    for key, value in (limit.get("default") or {}).items():
        limits.setdefault(key, value)
    for key, value in (limit.get("defaultRequest") or {}).items():
        requests.setdefault(key, explicit.get(key, value))
    for key, value in limits.items():
        requests.setdefault(key, value)
    for key, least in (limit.get("min") or {}).items():
        if key in requests and quantities.parse(requests[key]) < quantities.parse(least):
            raise forbidden(resource, name, _bound("minimum", key, least, "request", requests[key]))
    for key, most in (limit.get("max") or {}).items():
        if key in limits and quantities.parse(limits[key]) > quantities.parse(most):
            raise forbidden(resource, name, _bound("maximum", key, most, "limit", limits[key]))
    if limits:
        resources["limits"] = limits
    if requests:
        resources["requests"] = requests


def _bound(which: str, key: str, bound: str, what: str, value: str) -> str:
    return f"{which} {key} usage per Container is {bound}, but {what} is {value}"


def _counts_for(resource: ResourceType, keys: set[str]) -> bool:
    if resource.key == PODS:
        return any(
            key == "pods" or key in _PLAIN or key.startswith(("requests.", "limits.", "count/pods"))
            for key in keys
        )
    return resource.plural in keys or f"count/{resource}" in keys


def usage_of(resource: ResourceType, obj: Manifest) -> Counter[str]:
    """What one object uses, by quota key."""
    used: Counter[str] = Counter({f"count/{resource}": 1})
    if not resource.group and resource.plural in _COUNTED:
        used[resource.plural] = 1
    if resource.key != PODS:
        return used
    if (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return Counter({f"count/{resource}": 1})
    for container in obj["spec"].get("containers") or ():
        resources = container.get("resources") or {}
        for side in ("requests", "limits"):
            for name, value in (resources.get(side) or {}).items():
                amount = quantities.parse(value)
                used[f"{side}.{name}"] += amount  # type: ignore[assignment]
                if side == "requests" and name in _PLAIN:
                    used[name] += amount  # type: ignore[assignment]
    return used


def _shown(keys: Iterable[str], amounts: Counter[str]) -> str:
    return ",".join(f"{key}={_text(amounts[key])}" for key in keys)


def _text(amount: Decimal | int) -> str:
    """A quantity in its short form: whole, or in thousandths."""
    number = Decimal(amount)
    if number == number.to_integral_value():
        return str(int(number))
    return f"{int((number * 1000).to_integral_value(rounding='ROUND_CEILING'))}m"
