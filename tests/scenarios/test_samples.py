"""The incumbent's own samples: each applies unchanged and runs, all of its pods ready."""

import os
from pathlib import Path

import pytest
import yaml
from tests.scenarios.stories import refusal

from grove.api import kinds
from grove.meta import Manifest
from grove.testing.world import World, WorldOptions, run_world

pytestmark = pytest.mark.compat

SHARED = Path(os.environ.get("GROVE_SHARED", "../shared"))
SAMPLES = SHARED / "data" / "samples"
FILES = sorted(SAMPLES.rglob("*.yaml"))


def cliquesets(file: Path) -> list[Manifest]:
    documents = yaml.safe_load_all(file.read_text())
    return [each for each in documents if each and each["kind"] == "PodCliqueSet"]


def pods_of(manifest: Manifest) -> int:
    """How many pods a set has, its scaling groups as large as the template says."""
    template = manifest["spec"]["template"]
    copies = {
        role: group.get("replicas", 1)
        for group in template.get("podCliqueScalingGroups") or ()
        for role in group["cliqueNames"]
    }
    each = sum(role["spec"].get("replicas", 1) * copies.get(role["name"], 1) for role in template["cliques"])
    return int(manifest["spec"].get("replicas", 1) * each)


def is_ready(pod: Manifest) -> bool:
    listed = pod["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in listed)


def test_there_are_samples() -> None:
    assert len(FILES) > 5


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_sample_applies_unchanged_and_runs(file: Path) -> None:
    async def story(world: World) -> None:
        manifests = cliquesets(file)
        assert manifests
        await world.apply(*manifests)
        expected = 0
        for manifest in manifests:
            accepted = await refusal(world, manifest["metadata"]["name"])
            assert (accepted["status"], accepted["reason"]) == ("True", "Valid"), accepted["message"]
            expected += pods_of(manifest)

        async def all_ready() -> bool:
            pods = await world.pods()
            return len(pods) == expected and all(map(is_ready, pods))

        await world.until(all_ready, f"{expected} pods are ready")
        await world.settle()
        for each in await world.all(kinds.GANGS):
            assert each["status"]["phase"] == "Running"
        operator = world.operator
        assert operator is not None
        for controller in operator.controllers:
            failed = operator.metrics.value("grove_reconciles_total", controller=controller, result="error")
            assert failed == 0

    run_world(story, WorldOptions(nodes=16, schedulers=("kai",)))
