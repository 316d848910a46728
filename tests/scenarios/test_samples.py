"""The incumbent's own samples: each applies unchanged, and the operator's verdict on it is the documented one."""

import os
from pathlib import Path

import pytest
import yaml
from tests.scenarios.stories import refusal, until_running

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


def needs(manifest: Manifest) -> set[str]:
    """The fields of a sample that this release does not carry out."""
    template = manifest["spec"]["template"]
    fields = set()
    if template.get("podCliqueScalingGroups"):
        fields.add("spec.template.podCliqueScalingGroups")
    ordered = template.get("cliqueStartupType", "CliqueStartupTypeAnyOrder") != "CliqueStartupTypeAnyOrder"
    if ordered and len(template["cliques"]) > 1:
        fields.add("spec.template.cliqueStartupType")
    return fields


def test_there_are_samples() -> None:
    assert len(FILES) > 5


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_sample_applies_unchanged_and_is_judged_as_documented(file: Path) -> None:
    async def story(world: World) -> None:
        manifests = cliquesets(file)
        assert manifests
        await world.apply(*manifests)
        for manifest in manifests:
            name = manifest["metadata"]["name"]
            accepted = await refusal(world, name)
            missing = needs(manifest)
            if missing:
                assert (accepted["status"], accepted["reason"]) == ("False", "Unsupported")
                assert all(field in accepted["message"] for field in missing)
                assert await world.all(kinds.PODS) == []
            else:
                assert (accepted["status"], accepted["reason"]) == ("True", "Valid"), accepted["message"]
                replicas = manifest["spec"].get("replicas", 1)
                await until_running(world, *(f"{name}-{index}" for index in range(replicas)))
        operator = world.operator
        assert operator is not None
        for controller in operator.controllers:
            failed = operator.metrics.value("grove_reconciles_total", controller=controller, result="error")
            assert failed == 0

    run_world(story, WorldOptions(nodes=16, schedulers=("kai",)))
