"""Dynamic resource allocation: ResourceClaims and ResourceClaimTemplates, and the claims that pods name.

A claim asks for devices and never changes: what it got stands in its status. CEL selectors are not compiled.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from grove.embedded.errors import Cause, Manifest
from grove.embedded.kinds.base import (
    IMMUTABLE,
    Strategy,
    dns_label,
    dns_subdomain,
    duplicate,
    fill,
    forbidden,
    invalid,
    required,
    too_many,
    unsupported,
)
from grove.embedded.kinds.context import Context

MOST_REQUESTS = 32
MOST_ALTERNATIVES = 8
MOST_CONSUMERS = 256
_ONE_OF = "exactly one of `exactly` or `firstAvailable` is required"
_MODES = ("All", "ExactCount")
_NAMED = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)


class ResourceClaimStrategy(Strategy):
    def default(self, obj: Manifest, ctx: Context) -> None:
        super().default(obj, ctx)
        _default_devices(obj.get("spec") or {})

    def prepare_create(self, obj: Manifest, ctx: Context) -> None:
        obj["status"] = {}

    def validate_create(self, obj: Manifest, ctx: Context) -> list[Cause]:
        return _device_errors(obj.get("spec") or {}, "spec.devices")

    def validate_update(self, new: Manifest, old: Manifest, ctx: Context) -> list[Cause]:
        return _changed_spec(new, old)

    def validate_status(self, new: Manifest, old: Manifest, ctx: Context) -> list[Cause]:
        status, before = new.get("status") or {}, old.get("status") or {}
        consumers = status.get("reservedFor") or []
        causes: list[Cause] = []
        if len(consumers) > MOST_CONSUMERS:
            causes.append(too_many("status.reservedFor", len(consumers), MOST_CONSUMERS))
        if consumers and not status.get("allocation"):
            why = "may not be specified when `allocated` is not set"
            causes.append(forbidden("status.reservedFor", why))
        known = [each.get("uid") for each in before.get("reservedFor") or ()]
        added = [each for each in consumers if each.get("uid") not in known]
        if added and new["metadata"].get("deletionTimestamp"):
            why = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
            causes.append(forbidden("status.reservedFor", why))
        allocated, granted = before.get("allocation"), status.get("allocation")
        if allocated and granted and allocated != granted:
            causes.append(invalid("status.allocation", granted, IMMUTABLE))
        return causes


class ResourceClaimTemplateStrategy(Strategy):
    def default(self, obj: Manifest, ctx: Context) -> None:
        super().default(obj, ctx)
        _default_devices((obj.get("spec") or {}).get("spec") or {})

    def validate_create(self, obj: Manifest, ctx: Context) -> list[Cause]:
        return _device_errors((obj.get("spec") or {}).get("spec") or {}, "spec.spec.devices")

    def validate_update(self, new: Manifest, old: Manifest, ctx: Context) -> list[Cause]:
        return _changed_spec(new, old)


def pod_claim_errors(spec: Manifest, path: str) -> list[Cause]:
    """What is wrong with the claims that a pod names and its containers use."""
    causes: list[Cause] = []
    names: set[str] = set()
    for index, claim in enumerate(spec.get("resourceClaims") or ()):
        where, name = f"{path}.resourceClaims[{index}]", claim.get("name")
        if name in names:
            causes.append(duplicate(f"{where}.name", name))
        else:
            causes += dns_label(f"{where}.name", name)
        names.add(name or "")
        causes += _source_errors(claim, where)
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            claims = (container.get("resources") or {}).get("claims") or ()
            causes += _use_errors(claims, names, f"{path}.{group}[{index}].resources.claims")
    return causes


def _source_errors(claim: Manifest, where: str) -> list[Cause]:
    given = [name for name in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(name)]
    if not given:
        return [
            invalid(where, claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
        ]
    causes = []
    if len(given) > 1:
        why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        causes.append(invalid(where, claim, why))
    return causes + [cause for name in given for cause in dns_subdomain(f"{where}.{name}", claim[name])]


def _use_errors(claims: Iterable[Manifest], names: set[str], path: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[tuple[str, str]] = set()
    for index, claim in enumerate(claims):
        where, name, request = f"{path}[{index}]", claim.get("name") or "", claim.get("request") or ""
        if not name:
            causes.append(required(where))
            continue
        overlaps = [used for used in seen if used[0] == name and (not request or used[1] in ("", request))]
        if overlaps:
            causes.append(duplicate(where, name))
        seen.add((name, request))
        if name not in names:
            known = ": " + ", ".join(sorted(names)) if names else " which is empty"
            why = f"must be one of the names in pod.spec.resourceClaims{known}"
            causes.append(Cause(where, "FieldValueNotFound", f'Not found: "{name}": {why}'))
    return causes


def _changed_spec(new: Manifest, old: Manifest) -> list[Cause]:
    same = new.get("spec") == old.get("spec")
    return [] if same else [invalid("spec", new.get("spec"), IMMUTABLE)]


def _default_devices(spec: Manifest) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        for each in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if isinstance(each, dict):
                fill(each, allocationMode="ExactCount")
                if each["allocationMode"] == "ExactCount" and not each.get("count"):
                    each["count"] = 1
                for toleration in each.get("tolerations") or ():
                    fill(toleration, operator="Equal")


def _device_errors(spec: Manifest, path: str) -> list[Cause]:
    devices = spec.get("devices") or {}
    requests = devices.get("requests") or []
    causes = (
        [too_many(f"{path}.requests", len(requests), MOST_REQUESTS)] if len(requests) > MOST_REQUESTS else []
    )
    names: set[str] = set()
    for index, request in enumerate(requests):
        where = f"{path}.requests[{index}]"
        if request.get("name") in names:
            causes.append(duplicate(where, request["name"]))
        names |= _names_of(request)
        causes += _request_errors(request, where)
    for field in ("constraints", "config"):
        for index, each in enumerate(devices.get(field) or ()):
            causes += [
                invalid(f"{path}.{field}[{index}].requests[{position}]", name, _NAMED)
                for position, name in enumerate(each.get("requests") or ())
                if name not in names
            ]
    return causes


def _names_of(request: Manifest) -> set[str]:
    """How constraints may call a request: by its name, or by one of its alternatives."""
    name = request.get("name") or ""
    return {name, *(f"{name}/{each.get('name')}" for each in request.get("firstAvailable") or ())}


def _request_errors(request: Manifest, where: str) -> list[Cause]:
    causes = dns_label(f"{where}.name", request.get("name"))
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or []
    if exactly is None and not alternatives:
        return [*causes, required(where, _ONE_OF)]
    if exactly is not None and alternatives:
        return [*causes, invalid(where, None, f"{_ONE_OF}, but multiple fields are set")]
    if exactly is not None:
        return causes + _exact_errors(exactly, f"{where}.exactly")
    if len(alternatives) > MOST_ALTERNATIVES:
        causes.append(too_many(f"{where}.firstAvailable", len(alternatives), MOST_ALTERNATIVES))
    for index, each in enumerate(alternatives):
        at = f"{where}.firstAvailable[{index}]"
        causes += dns_label(f"{at}.name", each.get("name")) + _exact_errors(each, at)
    return causes


def _exact_errors(request: Any, where: str) -> list[Cause]:
    causes = dns_subdomain(f"{where}.deviceClassName", request.get("deviceClassName"))
    mode, count = request.get("allocationMode"), request.get("count") or 0
    if mode not in _MODES:
        causes.append(unsupported(f"{where}.allocationMode", mode, _MODES))
    elif mode == "All" and count:
        why = "must not be specified when allocationMode is 'All'"
        causes.append(invalid(f"{where}.count", count, why))
    elif mode == "ExactCount" and count <= 0:
        causes.append(invalid(f"{where}.count", count, "must be greater than zero"))
    return causes


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("resource.k8s.io", "ResourceClaim"): ResourceClaimStrategy(),
    ("resource.k8s.io", "ResourceClaimTemplate"): ResourceClaimTemplateStrategy(),
}
