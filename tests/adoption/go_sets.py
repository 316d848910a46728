"""Sets as users of the Go operator have them, and how their objects get into a cluster."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.adoption.go_shapes import NAMESPACE, GoObject, GoSet, objects_of

from grove.api import kinds
from grove.kube.client import Client
from grove.meta import Key, Manifest, Resource, resource
from grove.testing.world import World

PRIORITY_CLASSES: Final = resource(
    "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False
)
GPU: Final = "nvidia.com/gpu"


def role(name: str, replicas: int = 1, minimum: int | None = None, **fields: Any) -> Manifest:
    """A role with one container; `pods` adds to its podSpec, `spec` to its clique's spec."""
    pods = {
        "containers": [
            {"name": "main", "image": "registry.example.com/app:1", **fields.pop("container", {})}
        ],
        **fields.pop("pods", {}),
    }
    spec: Manifest = {"roleName": name, "replicas": replicas, "podSpec": pods, **fields.pop("spec", {})}
    if minimum is not None:
        spec["minAvailable"] = minimum
    return {"name": name, "spec": spec, **fields}


def group(name: str, roles: Sequence[str], replicas: int = 1, minimum: int = 1, **fields: Any) -> Manifest:
    """A scaling group."""
    return {
        "name": name,
        "cliqueNames": list(roles),
        "replicas": replicas,
        "minAvailable": minimum,
        **fields,
    }


def cliqueset(name: str, roles: Sequence[Manifest], replicas: int = 1, **fields: Any) -> Manifest:
    """A set; what is not about its metadata or its spec goes into its template."""
    metadata: Manifest = {
        "name": name,
        "namespace": NAMESPACE,
        **{key: fields.pop(key) for key in ("labels", "annotations") if key in fields},
    }
    spec = {"replicas": replicas, **fields.pop("spec", {})}
    return {
        "apiVersion": kinds.CLIQUESETS.api_version,
        "kind": kinds.CLIQUESETS.kind,
        "metadata": metadata,
        "spec": {**spec, "template": {"cliques": list(roles), **fields}},
    }


def _device(count: int) -> Manifest:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": count}}
    return {"spec": {"devices": {"requests": [request]}}}


def _cpu(percent: int) -> Manifest:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


_REQUESTS: Final = {"resources": {"requests": {"cpu": "100m"}}}
IN_ORDER: Final = "CliqueStartupTypeInOrder"
EXPLICIT: Final = "CliqueStartupTypeExplicit"


def _plain() -> GoSet:
    ports = {"ports": [{"containerPort": 8000}], "command": ["serve"], "env": [{"name": "A", "value": "1"}]}
    return GoSet(cliqueset("plain", [role("router", 1, container=ports), role("worker", 3, 2)]))


def _groups() -> GoSet:
    roles = [role("fe"), role("lead"), role("work", 2, 1), role("dlead"), role("dwork", 2)]
    groups = [group("prefill", ["lead", "work"], 3), group("decode", ["dlead", "dwork"], 2, 2)]
    return GoSet(cliqueset("groups", roles, podCliqueScalingGroups=groups))


def _in_order() -> GoSet:
    first = {"initContainers": [{"name": "fetch", "image": "registry.example.com/fetch:1"}]}
    roles = [role("fe"), role("lead"), role("work", 3, 2, pods=first)]
    groups = [group("dec", ["lead", "work"], 2)]
    return GoSet(cliqueset("ordered", roles, podCliqueScalingGroups=groups, cliqueStartupType=IN_ORDER))


def _explicit() -> GoSet:
    roles = [
        role("db"),
        role("cache"),
        role("api", 2, spec={"startsAfter": ["db", "cache"]}),
    ]
    return GoSet(cliqueset("explicit", roles, cliqueStartupType=EXPLICIT), legacy_secret=True)


def _autoscaled() -> GoSet:
    scale = {"maxReplicas": 5, "metrics": [_cpu(70)]}
    roles = [
        role("web", 2, 1, container=_REQUESTS, spec={"autoScalingConfig": {"minReplicas": 1, **scale}}),
        role("solo", container=_REQUESTS),
    ]
    return GoSet(
        cliqueset("loaded", roles, podCliqueScalingGroups=[group("sg", ["solo"], 1, scaleConfig=scale)]),
        scaled={"loaded-0-web": 4, "loaded-0-sg": 3},
    )


def _sharing() -> GoSet:
    whole = [
        {"name": "pool", "scope": "AllReplicas"},
        {"name": "own", "scope": "PerReplica", "filter": {"childCliqueNames": ["work"]}},
    ]
    roles = [
        role("fe", resourceSharing=[{"name": "own", "scope": "AllReplicas"}]),
        role("work", 2, resourceSharing=[{"name": "pool", "scope": "PerReplica"}]),
    ]
    groups = [group("g", ["work"], 2, resourceSharing=[{"name": "own", "scope": "PerReplica"}])]
    templates = [{"name": name, "templateSpec": _device(1)} for name in ("pool", "own")]
    return GoSet(
        cliqueset(
            "sharing",
            roles,
            podCliqueScalingGroups=groups,
            resourceSharing=whole,
            resourceClaimTemplates=templates,
        )
    )


def _nvlink() -> GoSet:
    gpus = {"resources": {"limits": {GPU: "1"}, "requests": {GPU: "1"}}}
    roles = [role("cpu"), role("gpu", 2, container=gpus), role("member", container=gpus)]
    return GoSet(
        cliqueset(
            "linked",
            roles,
            annotations={"grove.io/mnnvl-group": "fabric"},
            podCliqueScalingGroups=[group("sg", ["member"], 2)],
        )
    )


def _several() -> GoSet:
    return GoSet(
        cliqueset(
            "several",
            [role("a", 2), role("b")],
            3,
            podCliqueScalingGroups=[group("g", ["b"], 2)],
        )
    )


def _marked() -> GoSet:
    marks: Manifest = {"labels": {"team": "ml", "tier": "gpu"}, "annotations": {"example.com/scrape": "true"}}
    roles = [role("w", 2, **marks), role("x", annotations={"sidecar.example.com/inject": "no"})]
    return GoSet(
        cliqueset(
            "marked",
            roles,
            labels={"owner": "search", "grove.io/private": "1"},
            annotations={"example.com/note": "hello"},
        )
    )


def _urgent() -> GoSet:
    own = {"priorityClassName": "urgent"}
    return GoSet(cliqueset("priority", [role("w", 2), role("x", pods=own)], priorityClassName="urgent"))


def _on_delete() -> GoSet:
    return GoSet(cliqueset("manual", [role("w", 2)], spec={"updateStrategy": {"type": "OnDelete"}}))


def _by_hand() -> GoSet:
    return GoSet(
        cliqueset("byhand", [role("w", 2, 1), role("m")], podCliqueScalingGroups=[group("g", ["m"], 1)]),
        scaled={"byhand-0-w": 4, "byhand-0-g": 3},
    )


def _edited() -> GoSet:
    """A set whose template says another number of replicas than when it was created; nothing came of that."""
    roles = [role("lead"), role("work", 4, 1)]
    return GoSet(
        cliqueset("edited", roles, podCliqueScalingGroups=[group("g", ["lead", "work"], 2)]),
        scaled={f"edited-0-g-{number}-work": 2 for number in range(2)},
        born={"work": 2},
    )


#: Sets for Kubernetes' own scheduler.
SETS: Final[Mapping[str, GoSet]] = {
    each.name: each
    for each in (
        _plain(),
        _groups(),
        _in_order(),
        _explicit(),
        _autoscaled(),
        _sharing(),
        _nvlink(),
        _several(),
        _marked(),
        _urgent(),
        _on_delete(),
        _by_hand(),
        _edited(),
    )
}


def on_scheduler(scheduler: str, *, name: str = "train", gated: frozenset[str] = frozenset()) -> GoSet:
    """A set with a scaled gang for one of the schedulers that the Go operator knows."""
    pods = {} if scheduler == "default-scheduler" else {"schedulerName": scheduler}
    roles = [role("lead", pods=pods), role("work", 3, 2, pods=pods), role("more", 2, pods=pods)]
    queue = {"kai.scheduler/queue": "default-queue"} if scheduler == "kai-scheduler" else {}
    return GoSet(
        cliqueset(name, roles, podCliqueScalingGroups=[group("g", ["more"], 2)], labels=queue),
        gated=gated,
    )


# Into a cluster -----------------------------------------------------------------------------------


async def install(world: World, *taken: GoSet, ready: bool = True) -> None:
    """Create everything that the Go operator would have made, with its pods on nodes and running."""
    await create(world.user, world.options.nodes, *taken)
    if ready:
        await until_ready(world)


async def create(client: Client, nodes: int, *taken: GoSet) -> None:
    """The same in any cluster with so many nodes."""
    for each in taken:
        identities: dict[tuple[Resource, str], str] = {}
        for number, made in enumerate(objects_of(each)):
            node = f"node-{number % nodes}"
            identities[made.resource, made.name] = await _create(client, made, identities, node)


async def _create(
    client: Client, made: GoObject, identities: Mapping[tuple[Resource, str], str], node: str
) -> str:
    metadata, spec = dict(made.manifest["metadata"]), made.manifest.get("spec")
    if made.owner is not None:
        kind, name = made.owner
        metadata["ownerReferences"] = [
            {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "name": name,
                "uid": identities[made.owner],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    manifest = {**made.manifest, "metadata": metadata}
    if made.resource == kinds.PODS and not (spec or {}).get("schedulingGates"):
        manifest["spec"] = {**(spec or {}), "nodeName": node}
    found: Manifest = await client.create(made.resource, manifest, type=dict, strict=True)
    if made.status is not None:
        key = Key(NAMESPACE, made.name)
        await client.merge_patch(made.resource, key, {"status": made.status}, subresource="status")
    return str(found["metadata"]["uid"])


async def until_ready(world: World) -> None:
    """Until every pod that has no gate runs and is ready."""

    async def ready() -> bool:
        return all(
            is_ready(pod) for pod in await world.all(kinds.PODS) if not pod["spec"].get("schedulingGates")
        )

    await world.until(ready, "every pod is ready")


def is_ready(pod: Manifest) -> bool:
    told = pod["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in told)
