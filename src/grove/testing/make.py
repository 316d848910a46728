"""Objects for tests: sensible defaults, keywords for what a test is about.

    make.gang(podgroups={"leader": 1, "worker": 3}, required="example.com/rack")
    make.pod("worker", 0, gang=gang, node="n1")

Each builder returns the read-view; its `*_manifest` sibling returns what would be written. Same arguments,
same object: nothing is random and nothing depends on the clock.
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import Final, TypedDict, TypeVar, Unpack, cast

import msgspec

from grove.api import labels, names
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.kinds import CLIQUES, CLIQUESETS, GANGS, PODS, TOPOLOGY_BINDINGS
from grove.api.pod import Pod
from grove.api.topology import ClusterTopologyBinding
from grove.meta import Manifest, Object, Resource, owner_reference

NAMESPACE: Final = "default"
_CREATED: Final = "2026-01-01T00:00:00Z"

V = TypeVar("V", bound=Object)


class Meta(TypedDict, total=False):
    """What any object's metadata may be given; `owner` is the controlling object and its resource."""

    namespace: str
    uid: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    owner: tuple[Object, Resource]
    generation: int
    deleted: bool


def view(type_: type[V], manifest: Manifest) -> V:
    """A manifest as its read-view."""
    return msgspec.convert(manifest, type_)


def object_manifest(
    resource: Resource, name: str, spec: Manifest | None = None, **meta: Unpack[Meta]
) -> Manifest:
    """Any object; the UID follows from kind, namespace and name unless given."""
    namespace = meta.get("namespace", NAMESPACE) if resource.namespaced else ""
    metadata: Manifest = {
        "name": name,
        "uid": meta.get("uid") or str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{resource}/{namespace}/{name}")),
        "generation": meta.get("generation", 1),
        "creationTimestamp": _CREATED,
        "labels": dict(meta.get("labels", {})),
        "annotations": dict(meta.get("annotations", {})),
    }
    if namespace:
        metadata["namespace"] = namespace
    if "owner" in meta:
        owner, kind = meta["owner"]
        metadata["ownerReferences"] = [owner_reference(owner, kind.gvk)]
    if meta.get("deleted"):
        metadata["deletionTimestamp"] = _CREATED
    manifest: Manifest = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    if spec is not None:
        manifest["spec"] = spec
    return manifest


def _meta(fields: Meta) -> Meta:
    """Those of a builder's keywords that are about metadata."""
    return cast(Meta, {key: value for key, value in fields.items() if key in Meta.__annotations__})


# Gangs --------------------------------------------------------------------------------------------


def pack(required: str = "", preferred: str = "") -> Manifest:
    """The topology constraint of a gang, a group or a podgroup, or nothing."""
    levels = {"required": required, "preferred": preferred}
    constraint = {key: value for key, value in levels.items() if value}
    return {"topologyConstraint": {"packConstraint": constraint}} if constraint else {}


def podgroup(name: str, minimum: int = 1, *, required: str = "", preferred: str = "") -> Manifest:
    """One podgroup of a gang."""
    return {"name": name, "podReferences": [], "minReplicas": minimum, **pack(required, preferred)}


def group(name: str, members: Sequence[str], *, required: str = "", preferred: str = "") -> Manifest:
    """Podgroups that share a constraint."""
    return {"name": name, "podGroupNames": list(members), **pack(required, preferred)}


class GangFields(Meta, total=False):
    """What a gang's spec may be given besides its podgroups."""

    groups: Sequence[Manifest]
    required: str
    preferred: str
    priority: str
    reuse: str
    cliqueset: str


def gang_manifest(
    name: str = "train-0",
    podgroups: Mapping[str, int] | Sequence[Manifest] = (),
    **fields: Unpack[GangFields],
) -> Manifest:
    """A gang; podgroups as `{name: minimum}` or as manifests; two workers unless given."""
    listed = podgroups or {"train-0-worker": 2}
    groups = [podgroup(*each) for each in listed.items()] if isinstance(listed, Mapping) else list(listed)
    spec: Manifest = {"podgroups": groups, **pack(fields.get("required", ""), fields.get("preferred", ""))}
    if fields.get("groups"):
        spec["topologyConstraintGroupConfigs"] = list(fields["groups"])
    if fields.get("priority"):
        spec["priorityClassName"] = fields["priority"]
    if fields.get("reuse"):
        spec["reuseReservationRef"] = {
            "namespace": fields.get("namespace", NAMESPACE),
            "name": fields["reuse"],
        }
    meta = _meta(fields)
    if cliqueset_name := fields.get("cliqueset"):
        owner = view(
            PodCliqueSet,
            object_manifest(CLIQUESETS, cliqueset_name, namespace=meta.get("namespace", NAMESPACE)),
        )
        meta.setdefault("owner", (owner, CLIQUESETS))
        meta["labels"] = {**labels.owned_by(cliqueset_name), **meta.get("labels", {})}
    return object_manifest(GANGS, name, spec, **meta)


def gang(
    name: str = "train-0",
    podgroups: Mapping[str, int] | Sequence[Manifest] = (),
    **fields: Unpack[GangFields],
) -> PodGang:
    """A gang, as `gang_manifest` writes it."""
    return view(PodGang, gang_manifest(name, podgroups, **fields))


# Sets and cliques ---------------------------------------------------------------------------------


def pod_spec(**fields: object) -> Manifest:
    """The smallest pod spec that an API server takes, with these fields."""
    containers = [{"name": "main", "image": "registry.example/serve:1"}]
    return {"containers": containers, **fields}


def template(name: str, replicas: int = 1, *, pod: Manifest | None = None, **fields: object) -> Manifest:
    """One role of a set; `fields` go beside its name, `pod` into its pod spec."""
    spec = {"replicas": replicas, "roleName": name, "podSpec": pod_spec(**(pod or {}))}
    return {"name": name, "spec": spec, **fields}


def scaling_group(name: str, cliques: Sequence[str], **fields: object) -> Manifest:
    """One scaling group of a set."""
    return {"name": name, "cliqueNames": list(cliques), "replicas": 1, "minAvailable": 1, **fields}


class CliqueSetFields(Meta, total=False):
    """What a set may be given besides its roles; `template` is merged into `spec.template`."""

    replicas: int
    groups: Sequence[Manifest]
    template: Manifest
    strategy: Manifest


def cliqueset_manifest(
    name: str = "train",
    cliques: Mapping[str, int] | Sequence[Manifest] = (),
    **fields: Unpack[CliqueSetFields],
) -> Manifest:
    """A set; roles as `{name: replicas}` or as manifests; two workers unless given."""
    listed = cliques or {"worker": 2}
    roles = [template(*each) for each in listed.items()] if isinstance(listed, Mapping) else list(listed)
    content: Manifest = {"cliques": roles, **fields.get("template", {})}
    if fields.get("groups"):
        content["podCliqueScalingGroups"] = list(fields["groups"])
    meta = _meta(fields)
    spec: Manifest = {"replicas": fields.get("replicas", 1), "template": content}
    if fields.get("strategy"):
        spec["updateStrategy"] = fields["strategy"]
    return object_manifest(CLIQUESETS, name, spec, **meta)


def cliqueset(
    name: str = "train",
    cliques: Mapping[str, int] | Sequence[Manifest] = (),
    **fields: Unpack[CliqueSetFields],
) -> PodCliqueSet:
    """A set, as `cliqueset_manifest` writes it."""
    return view(PodCliqueSet, cliqueset_manifest(name, cliques, **fields))


def clique_manifest(
    name: str = "train-0-worker", replicas: int = 2, *, spec: Manifest | None = None, **meta: Unpack[Meta]
) -> Manifest:
    """A clique; `spec` is merged over the defaults."""
    content = {
        "roleName": name.rpartition("-")[2],
        "replicas": replicas,
        "podSpec": pod_spec(),
        **(spec or {}),
    }
    return object_manifest(CLIQUES, name, content, **meta)


def clique(
    name: str = "train-0-worker", replicas: int = 2, *, spec: Manifest | None = None, **meta: Unpack[Meta]
) -> PodClique:
    """A clique, as `clique_manifest` writes it."""
    return view(PodClique, clique_manifest(name, replicas, spec=spec, **meta))


# Pods ---------------------------------------------------------------------------------------------


class PodFields(Meta, total=False):
    """Where a pod is in its life: on a node, behind gates, refused with a message, in a phase."""

    gang: PodGang
    node: str
    gates: Sequence[str]
    #: The scheduler's message; the pod then has PodScheduled=False for `unschedulable_reason`.
    unschedulable: str
    unschedulable_reason: str
    phase: str
    ready: bool
    name: str
    spec: Manifest


def pod_manifest(clique: str = "train-0-worker", index: int = 0, **fields: Unpack[PodFields]) -> Manifest:
    """The pod with this index of a clique, in the gang that is given."""
    of = fields.get("gang")
    marks = {labels.POD_CLIQUE: clique, labels.POD_INDEX: str(index), labels.POD_GANG: of.name if of else ""}
    meta = _meta(fields)
    meta["labels"] = {**{key: value for key, value in marks.items() if value}, **meta.get("labels", {})}
    meta.setdefault("namespace", of.namespace if of else NAMESPACE)
    spec = pod_spec(hostname=names.hostname(clique, index), **fields.get("spec", {}))
    if fields.get("gates"):
        spec["schedulingGates"] = [{"name": gate} for gate in fields["gates"]]
    if fields.get("node"):
        spec["nodeName"] = fields["node"]
    manifest = object_manifest(
        PODS, fields.get("name") or f"{clique}-{names.suffix(clique, str(index))}", spec, **meta
    )
    return {**manifest, "status": _pod_status(fields)}


def _pod_status(fields: PodFields) -> Manifest:
    status: Manifest = {"phase": fields.get("phase", "Running" if fields.get("node") else "Pending")}
    if fields.get("unschedulable"):
        reason = fields.get("unschedulable_reason", "Unschedulable")
        message = fields["unschedulable"]
        status["conditions"] = [
            {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        ]
    elif fields.get("gates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    elif fields.get("node"):
        ready = "True" if fields.get("ready") else "False"
        status["conditions"] = [
            {"type": "PodScheduled", "status": "True"},
            {"type": "Ready", "status": ready},
        ]
    return status


def pod(clique: str = "train-0-worker", index: int = 0, **fields: Unpack[PodFields]) -> Pod:
    """A pod, as `pod_manifest` writes it."""
    return view(Pod, pod_manifest(clique, index, **fields))


# Topology -----------------------------------------------------------------------------------------


def topology_binding(
    name: str = "cluster", levels: Mapping[str, str] | None = None, **meta: Unpack[Meta]
) -> ClusterTopologyBinding:
    """A topology binding; levels as `{domain: node label}`, broadest first."""
    chosen = levels or {"zone": "topology.kubernetes.io/zone", "rack": "example.com/rack"}
    spec = {"levels": [{"domain": domain, "key": key} for domain, key in chosen.items()]}
    return view(ClusterTopologyBinding, object_manifest(TOPOLOGY_BINDINGS, name, spec, **meta))
