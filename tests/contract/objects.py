"""Small objects that checks send."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

Manifest = dict[str, Any]


def config_map(name: str, data: Manifest | None = None, **meta: object) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **meta},
        "data": {"a": "1"} if data is None else data,
    }


def pod(name: str, meta: Manifest | None = None, **spec: object) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(meta or {})},
        "spec": {"containers": [{"name": "c", "image": "busybox"}], **spec},
    }


def pod_asking(name: str, **resources: Manifest) -> Manifest:
    """A pod whose container has these requests and limits."""
    made = pod(name)
    made["spec"]["containers"][0]["resources"] = resources
    return made


def gang(name: str, spec: Manifest | None = None, **meta: object) -> Manifest:
    return {
        "apiVersion": "sched.example.com/v1",
        "kind": "Gang",
        "metadata": {"name": name, **meta},
        "spec": {"minMember": 2} if spec is None else spec,
    }


def deployment(name: str, **spec: object) -> Manifest:
    container = {"name": "c", "image": "busybox", "env": [{"name": "A", "value": "1"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
            **spec,
        },
    }


def binding(name: str, node: str) -> Manifest:
    target = {"kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}


def owned_by(*owners: Manifest, controller: bool = True) -> list[Manifest]:
    """References to owners; only the first may be the controller."""
    return [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": controller and index == 0,
            "blockOwnerDeletion": True,
        }
        for index, owner in enumerate(owners)
    ]


def crd(plural: str, group: str, *versions: Manifest, kind: str = "Thing") -> Manifest:
    """A namespaced custom kind; the first version is stored."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [
                {"served": True, "storage": index == 0, **version} for index, version in enumerate(versions)
            ],
        },
    }


def version(name: str, properties: Manifest, **more: object) -> Manifest:
    """One version of a custom kind with these properties."""
    schema = {"type": "object", "properties": properties}
    return {"name": name, "schema": {"openAPIV3Schema": schema}, **more}


_SPEC: Manifest = {
    "type": "object",
    "required": ["minMember"],
    "x-kubernetes-validations": [
        {"rule": "self.minMember <= self.replicas", "message": "minMember must be <= replicas"},
        {"rule": "self.queue == oldSelf.queue", "message": "queue is immutable"},
    ],
    "properties": {
        "minMember": {"type": "integer", "minimum": 1, "maximum": 10000, "description": "minimum pods"},
        "replicas": {"type": "integer", "default": 4, "minimum": 0},
        "queue": {"type": "string", "default": "default", "maxLength": 63},
        "policy": {"type": "string", "enum": ["Strict", "BestEffort"], "default": "Strict"},
        "timeout": {"type": "string", "pattern": "^[0-9]+[smh]$", "default": "60s"},
        "roles": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "count": {"type": "integer", "default": 1}},
            },
        },
        "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "port": {"x-kubernetes-int-or-string": True},
    },
}
_CONDITION = {
    "type": "object",
    "required": ["type", "status"],
    "properties": {
        "type": {"type": "string"},
        "status": {"type": "string"},
        "reason": {"type": "string"},
        "message": {"type": "string"},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "observedGeneration": {"type": "integer"},
    },
}
_STATUS = {
    "type": "object",
    "properties": {
        "phase": {"type": "string"},
        "ready": {"type": "integer"},
        "selector": {"type": "string"},
        "observedGeneration": {"type": "integer"},
        "conditions": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": _CONDITION,
        },
    },
}


def gang_crd() -> Manifest:
    """The custom kind that most checks of custom kinds use; one for the whole server."""
    schema = {
        "type": "object",
        "description": "Gang is a group of pods scheduled together",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": deepcopy(_SPEC),
            "status": deepcopy(_STATUS),
        },
    }
    served = {
        "name": "v1",
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.ready",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": [
            {"name": "Min", "type": "integer", "jsonPath": ".spec.minMember"},
            {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
        "selectableFields": [{"jsonPath": ".spec.queue"}],
        "schema": {"openAPIV3Schema": schema},
    }
    made = crd("gangs", "sched.example.com", served, kind="Gang")
    made["spec"]["names"] |= {
        "listKind": "GangList",
        "singular": "gang",
        "shortNames": ["gg"],
        "categories": ["all"],
    }
    return made
