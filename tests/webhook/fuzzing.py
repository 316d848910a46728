"""Objects as nobody would write them: good ones in which parts are replaced, doubled, moved or taken away."""

import copy
import random
from collections.abc import Iterator

from grove.api import kinds, labels
from grove.meta import Manifest, Resource
from grove.testing import make

#: What may stand anywhere, whatever is wanted there.
ODD: tuple[object, ...] = (
    *(None, True, False, 0, 1, -1, 2, 7, 2**31 - 1, 2**31, -(2**31), 2**63, 1e300, 0.5),
    *(
        "",
        " ",
        "a",
        "A",
        "-",
        "a.b",
        "a/b",
        "worker",
        "leader",
        "x" * 300,
        "\u0000",
        "\u200b",
        "ü",
        "1Gi",
        "2 cores",
    ),
    *("4h", "-1s", "1e9h", "CliqueStartupTypeExplicit", "CliqueStartupTypeInOrder", "OnDelete", "150%"),
    *("kai-scheduler", "none", "rack", "AllReplicas", "true", "Utilization", "Resource", "Always"),
    *([], {}, [None], [[]], [{}], {"": ""}, {"a": None}, [1, "a"], {"name": "worker"}, ["worker", "worker"]),
)


def rich_set() -> Manifest:
    """A set that uses every part of the API."""
    shared = [{"name": "gpus", "scope": "PerReplica"}]
    scaled = {
        "minReplicas": 1,
        "maxReplicas": 4,
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}},
            }
        ],
    }
    container = {
        "name": "main",
        "image": "registry.example/serve:1",
        "env": [{"name": "A", "value": "b"}],
        "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": 1}},
    }
    pod = {"containers": [container], "initContainers": [dict(container, name="first")], "tolerations": [{}]}
    pack = {"topologyName": "cluster", "pack": {"required": "rack", "preferred": "zone"}}
    front = make.template("front", 2, pod=pod, labels={"a": "b"}, annotations={"c": "d"})
    front["spec"]["autoScalingConfig"] = scaled
    leader = make.template("leader", 1, pod=pod, topologyConstraint=pack, resourceSharing=shared)
    worker = make.template("worker", 3, pod={**pod, "affinity": {"podAffinity": {}}})
    worker["spec"] |= {"startsAfter": ["leader"], "minAvailable": 2}
    group = make.scaling_group("decode", ["leader", "worker"], replicas=2, topologyConstraint=pack)
    group |= {"scaleConfig": copy.deepcopy(scaled), "annotations": {labels.MNNVL_GROUP: "a"}}
    return make.cliqueset_manifest(
        "llm",
        [front, leader, worker],
        groups=[group],
        replicas=2,
        annotations={labels.DISRUPTION_BUDGET: "MinAvailable"},
        strategy={"type": "RollingRecreate", "rollingRecreate": {"maxUnavailable": "25%", "maxSurge": 1}},
        template={
            "cliqueStartupType": "CliqueStartupTypeExplicit",
            "terminationDelay": "1h",
            "priorityClassName": "high",
            "headlessServiceConfig": {"publishNotReadyAddresses": False},
            "topologyConstraint": pack,
            "resourceSharing": [{**shared[0], "filter": {"childCliqueNames": ["front"]}}],
            "resourceClaimTemplates": [
                {"name": "gpus", "templateSpec": {"spec": {"devices": {"requests": [{"name": "g"}]}}}}
            ],
        },
    )


def seeds() -> list[tuple[Resource, Manifest]]:
    """One good object of each kind that is asked about."""
    levels = [{"domain": "zone", "key": "z"}, {"domain": "rack", "key": "r"}]
    references = [{"schedulerName": "kai-scheduler", "topologyReference": "t"}]
    spec = {"levels": levels, "schedulerTopologyBindings": references}
    gang = make.gang_manifest(
        podgroups={"a": 1, "b": 2},
        groups=[make.group("g", ["a", "b"], required="r")],
        priority="high",
        reuse="other",
        annotations={labels.SCHEDULER_BACKEND: "default"},
    )
    return [
        (kinds.CLIQUESETS, rich_set()),
        (kinds.CLIQUESETS, make.cliqueset_manifest()),
        (kinds.TOPOLOGY_BINDINGS, make.object_manifest(kinds.TOPOLOGY_BINDINGS, "dc", spec)),
        (kinds.CLIQUES, make.clique_manifest(owner=(make.cliqueset(), kinds.CLIQUESETS))),
        (kinds.SCALING_GROUPS, make.object_manifest(kinds.SCALING_GROUPS, "g", {"cliqueNames": ["a"]})),
        (kinds.GANGS, gang),
        (kinds.GANGS, make.gang_manifest(cliqueset="train", labels={labels.SCHEDULER_BACKEND: "kai"})),
    ]


def places(value: object, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    """Every place in a document."""
    items: list[tuple[object, object]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    for name, item in items:
        yield (*path, name)
        yield from places(item, (*path, name))


def disturbed(rng: random.Random, manifest: Manifest) -> Manifest:
    """The object with one to five disturbances; more often than not with one."""
    found = copy.deepcopy(manifest)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
        chosen = [place for place in places(found) if place[0] not in ("apiVersion", "kind")]
        if chosen:
            _disturb(rng, found, rng.choice(chosen))
    if not isinstance(found.get("metadata"), dict):
        # An API server fills it in before it asks anybody.
        found["metadata"] = {"name": "x", "namespace": "default"}
    return found


def _disturb(rng: random.Random, document: Manifest, place: tuple[object, ...]) -> None:
    parent: object = document
    for step in place[:-1]:
        parent = parent[step]  # type: ignore[index]
    last = place[-1]
    match rng.randrange(5):
        case 0:
            del parent[last]  # type: ignore[attr-defined]
        case 1 if isinstance(parent, list):
            parent.append(copy.deepcopy(parent[last]))  # type: ignore[call-overload]
        case 2 if isinstance(parent, dict):
            parent[rng.choice(("", "name", "spec", "replicas", "x"))] = copy.deepcopy(parent[last])
        case _:
            parent[last] = copy.deepcopy(rng.choice(ODD))  # type: ignore[index]
