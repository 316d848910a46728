"""What a CustomResourceDefinition adds to the server: kinds with schema, columns, scale, selectable fields.

Turns a CRD into `Definition`s and writes the CRD's status; serving them is `catalog.py`'s business. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from grove.embedded.errors import Manifest
from grove.embedded.resource_type import ResourceType

GROUP = "apiextensions.k8s.io"
PLURAL = "customresourcedefinitions"
AGE_COLUMN: Manifest = {
    "name": "Age",
    "type": "date",
    "description": "When the object was created.",
    "jsonPath": ".metadata.creationTimestamp",
}


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where a kind keeps what its scale subresource shows; each path is a tuple of keys."""

    spec_replicas: tuple[str, ...]
    status_replicas: tuple[str, ...]
    selector: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Definition:
    """One served version of a custom kind."""

    resource: ResourceType
    openapi: Manifest
    columns: tuple[Manifest, ...]
    selectable: tuple[str, ...]
    scale: ScalePaths | None
    preserve: bool
    """Unknown fields are kept: the schema says so at its root."""


def definitions(crd: Manifest) -> list[Definition]:
    """The versions that a CRD serves, the storage version first."""
    spec = crd["spec"]
    versions = [version for version in spec["versions"] if version.get("served")]
    stored = next((v["name"] for v in spec["versions"] if v.get("storage")), "")
    ordered = sorted(versions, key=lambda version: version["name"] != stored)
    return [_definition(spec, version, stored=stored) for version in ordered]


def _definition(spec: Manifest, version: Manifest, *, stored: str) -> Definition:
    names = spec["names"]
    parts = version.get("subresources") or {}
    own = version["name"] == stored
    resource = ResourceType(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=frozenset(part for part in ("status", "scale") if parts.get(part) is not None),
        list_kind=names.get("listKind") or f"{names['kind']}List",
        custom=True,
        has_generation=True,
        stored_as="" if own else f"{spec['group']}/{stored}",
    )
    schema = version["schema"]["openAPIV3Schema"]
    return Definition(
        resource=resource,
        openapi=schema,
        columns=tuple(version.get("additionalPrinterColumns") or (AGE_COLUMN,)),
        selectable=tuple(f["jsonPath"].removeprefix(".") for f in version.get("selectableFields") or ()),
        scale=_scale(parts.get("scale")),
        preserve=bool(schema.get("x-kubernetes-preserve-unknown-fields")) and not schema.get("properties"),
    )


def _scale(scale: Manifest | None) -> ScalePaths | None:
    if scale is None:
        return None
    paths = (scale.get(f) or "" for f in ("specReplicasPath", "statusReplicasPath", "labelSelectorPath"))
    spec, status, selector = (tuple(path.removeprefix(".").split(".")) if path else () for path in paths)
    return ScalePaths(spec, status, selector)


def complete(crd: Manifest) -> None:
    """Fills in the names that a CRD may leave out, as the server does before storing it."""
    spec = crd.get("spec")
    if not isinstance(spec, dict) or not isinstance(spec.get("names"), dict):
        return
    names = spec["names"]
    kind = names.get("kind") or ""
    names.setdefault("singular", kind.lower())
    names.setdefault("listKind", f"{kind}List")
    spec.setdefault("conversion", {"strategy": "None"})
    for version in spec.get("versions") or ():
        if isinstance(version.get("subresources"), dict):
            for part in ("status", "scale"):
                if part in version["subresources"] and version["subresources"][part] is None:
                    version["subresources"][part] = {}


def status_of(crd: Manifest, *, conflict: str, now: str) -> Manifest:
    """The status of a CRD whose names were accepted, or were not because of `conflict`."""
    spec = crd["spec"]
    old = crd.get("status") or {}
    accepted = not conflict
    conditions = [
        _condition(old, "NamesAccepted", accepted, "NoConflicts" if accepted else "KindConflict", now=now),
        _condition(
            old, "Established", accepted, "InitialNamesAccepted" if accepted else "NotAccepted", now=now
        ),
    ]
    conditions[0]["message"] = conflict or "no conflicts found"
    conditions[1]["message"] = (
        "the initial names have been accepted" if accepted else "not all names are accepted"
    )
    stored = next(v["name"] for v in spec["versions"] if v.get("storage"))
    versions = list(old.get("storedVersions") or ())
    if stored not in versions:
        versions.append(stored)
    names = dict(spec["names"]) if accepted else {"plural": "", "kind": ""}
    return {"conditions": conditions, "acceptedNames": names, "storedVersions": versions}


def _condition(old: Manifest, kind: str, holds: bool, reason: str, *, now: str) -> Manifest:
    status = "True" if holds else "False"
    before = next((c for c in old.get("conditions") or () if c.get("type") == kind), None)
    since = before["lastTransitionTime"] if before and before.get("status") == status else now
    return {"type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": ""}


def name_conflict(crd: Manifest, served: Iterable[ResourceType]) -> str:
    """Why this CRD's names cannot be accepted; empty when they can."""
    spec = crd["spec"]
    kind, plural = spec["names"]["kind"], spec["names"]["plural"]
    for other in served:
        if other.group == spec["group"] and other.plural != plural and other.kind == kind:
            return f'"{kind}" is already in use'
    return ""


def is_established(crd: Manifest) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)
