"""The sets that are recorded with a release: every golden case of a way of scheduling, and some in mid-life."""

from dataclasses import replace
from pathlib import Path
from typing import Final

import yaml
from tests.adoption.go_sets import PRIORITY_CLASSES
from tests.adoption.taking_over import by_name
from tests.golden.test_golden import CASES
from tests.scenarios.nvlink import DEFINITION

from grove.api import kinds, labels
from grove.api.cliqueset import IN_ORDER
from grove.api.config import load
from grove.meta import Key, Manifest, resource
from grove.testing import make
from grove.testing.world import CRDS, World, WorldOptions, configuration_for

_NAMESPACES: Final = resource("", "v1", "Namespace", namespaced=False)
_SECOND: Final = "registry.example/serve:2"
_OTHERS: Final = ("kai", "koordinator", "volcano", "yunikorn")
_BASE: Final = WorldOptions(
    nodes=12,
    gpus=16,
    configuration=load(f"{configuration_for(*_OTHERS)}\nnetwork: {{autoMNNVLEnabled: true}}\n"),
)
#: By what the names of golden cases begin with.
CLUSTERS: Final = {
    "1.35": replace(_BASE, kubernetes="1.35"),
    "1.36": _BASE,
    "1.37": replace(_BASE, kubernetes="1.37"),
    "none": replace(_BASE, features=frozenset()),
    **{name: replace(_BASE, schedulers=(name,)) for name in _OTHERS},
}


async def live(world: World, offer: str) -> None:
    """A life of some minutes: sets of every shape, an update that is paused, a gang that waits, one scaled by hand."""
    await world.user.create(CRDS, DEFINITION)
    for case in CASES:
        if case.name.partition("-")[0] == offer and not case.name.endswith("refused"):
            await _apply_case(world, case)
    backend = "default" if offer[0] in "1n" else offer
    await _apply(world, "mid-life", _set("updated", backend, replicas=3))
    await _apply(world, "mid-life", _set("waits", backend, cpu="1000"))
    group = make.scaling_group("pair", ["lead", "work"], replicas=2, minAvailable=1)
    grouped = _set("grouped", backend, roles=("lead", "work"), groups=[group])
    await _apply(world, "mid-life", grouped)
    await world.settle()
    await _scale_group(world, "grouped-0-pair", 3)
    await _apply(world, "mid-life", _set("updated", backend, replicas=3, image=_SECOND))

    async def begun() -> bool:
        pods = await world.pods()
        return any(each["spec"]["containers"][0]["image"] == _SECOND for each in pods)

    await world.until(begun, "the update has begun")
    await world.user.merge_patch(
        kinds.CLIQUESETS,
        Key("mid-life", "updated"),
        {"metadata": {"annotations": {labels.UPDATE_PAUSED: "true"}}},
    )
    await world.settle()
    assert len(await by_name(world, kinds.PODS)) > 5


async def _apply_case(world: World, case: Path) -> None:
    namespace = case.name.replace(".", "-")
    for document in yaml.safe_load_all((case / "in.yaml").read_text()):
        if document["kind"] != "OperatorConfiguration":
            await _apply(world, namespace, document)


async def _apply(world: World, namespace: str, manifest: Manifest) -> None:
    if not await world.get(_NAMESPACES, namespace):
        await world.user.create(_NAMESPACES, {"metadata": {"name": namespace}})
    for name in _priority_classes(manifest):
        if not await world.get(PRIORITY_CLASSES, name):
            await world.user.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": 1000})
    metadata = {**manifest["metadata"], "namespace": namespace}
    if manifest["kind"] == "ClusterTopologyBinding":
        del metadata["namespace"]
    await world.apply({**manifest, "metadata": metadata})


def _priority_classes(manifest: Manifest) -> set[str]:
    template = (manifest.get("spec") or {}).get("template") or {}
    named = {template.get("priorityClassName")}
    return {str(each) for each in named if each}


def _set(
    name: str,
    backend: str,
    *,
    replicas: int = 1,
    roles: tuple[str, ...] = ("leader", "worker"),
    image: str = "registry.example/serve:1",
    cpu: str = "1",
    groups: list[Manifest] | None = None,
) -> Manifest:
    container = {"name": "main", "image": image, "resources": {"limits": {"cpu": cpu}}}
    cliques = [
        {"name": role, "spec": {"roleName": role, "replicas": 1, "podSpec": {"containers": [container]}}}
        for role in roles
    ]
    template: Manifest = {"cliques": cliques}
    if groups:
        template |= {"podCliqueScalingGroups": groups, "cliqueStartupType": IN_ORDER}
    return {
        "apiVersion": kinds.CLIQUESETS.api_version,
        "kind": "PodCliqueSet",
        "metadata": {"name": name, "annotations": {"grove.io/scheduler-backend": backend}},
        "spec": {"replicas": replicas, "template": template},
    }


async def _scale_group(world: World, name: str, replicas: int) -> None:
    await world.user.merge_patch(
        kinds.SCALING_GROUPS, Key("mid-life", name), {"spec": {"replicas": replicas}}, subresource="scale"
    )
