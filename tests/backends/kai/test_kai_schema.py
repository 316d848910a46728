"""KAI's own CRDs accept what we write; run by `make compat` beside the recorded material."""

import os
from pathlib import Path

import jsonschema_rs
import pytest
import yaml
from tests.backends import clusters
from tests.backends.clusters import on

from grove.backends.kai import KaiBackend
from grove.backends.kai.topology import desired_topology
from grove.meta import Manifest
from grove.testing import make
from grove.testing.conformance import SAMPLES

pytestmark = pytest.mark.compat


def schema(name: str) -> Manifest:
    """The schema of a CRD, closed to unknown fields as strict field validation is."""
    shared = Path(os.environ.get("GROVE_SHARED", "../shared"))
    [crd] = yaml.safe_load_all((shared / "data/crds/kai" / f"{name}.yaml").read_text())
    found: Manifest = crd["spec"]["versions"][-1]["schema"]["openAPIV3Schema"]
    _close(found["properties"]["spec"])
    return found


def _close(node: Manifest) -> None:
    if "properties" in node:
        node["additionalProperties"] = False
        for child in node["properties"].values():
            _close(child)
    if isinstance(node.get("items"), dict):
        _close(node["items"])


def test_podgroups_and_probes_are_valid() -> None:
    validator = jsonschema_rs.validator_for(schema("scheduling.run.ai_podgroups"))
    context = on(clusters.KAI_017)
    made = [each for gang in SAMPLES.values() for each in KaiBackend().translate(gang, context).manifests]
    made += [probe.manifest for probe in KaiBackend().traits(context).probes]
    assert [error.message for each in made for error in validator.iter_errors(each)] == []
    assert not validator.is_valid({"spec": {"unknown": 1}})


def test_topologies_are_valid() -> None:
    validator = jsonschema_rs.validator_for(schema("kai.scheduler_topologies"))
    assert validator.is_valid(desired_topology(make.topology_binding()))
    assert not validator.is_valid({"spec": {"levels": []}})
