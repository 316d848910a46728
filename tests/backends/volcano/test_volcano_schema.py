"""Volcano's own CRDs accept what we write; run by `make compat` beside the recorded material."""

import os
from pathlib import Path

import jsonschema_rs
import pytest
import yaml
from tests.backends.volcano.volcanoes import RACK, V113, ZONE, volcano

from grove.backends.volcano import VolcanoBackend
from grove.meta import Manifest
from grove.testing import make
from grove.testing.conformance import SAMPLES

pytestmark = pytest.mark.compat


def schema(name: str) -> Manifest:
    """The schema of a CRD, closed to unknown fields as strict field validation is."""
    shared = Path(os.environ.get("GROVE_SHARED", "../shared"))
    [crd] = yaml.safe_load_all((shared / "data/crds/volcano" / f"{name}.yaml").read_text())
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
    validator = jsonschema_rs.validator_for(schema("scheduling.volcano.sh_podgroups"))
    everything = make.gang(
        "all",
        [make.podgroup("fe", 0), make.podgroup("leader", 1), make.podgroup("worker", 3)],
        required=ZONE,
        priority="high",
        groups=[make.group("d-0", ["leader", "worker"], required=RACK)],
    )
    old, new = volcano(V113, queue="q"), volcano(queue="q")
    made = [
        each
        for gang in (*SAMPLES.values(), everything)
        for each in VolcanoBackend().translate(gang, new).manifests
    ]
    made += VolcanoBackend().translate(make.gang("g", {"a": 1, "b": 0}), old).manifests
    made += [probe.manifest for probe in VolcanoBackend().traits(new).probes]
    assert [error.message for each in made for error in validator.iter_errors(each)] == []
    assert not validator.is_valid({"spec": {"unknown": 1}})


def test_what_the_probes_ask_about_is_declared_by_this_release() -> None:
    spec = schema("scheduling.volcano.sh_podgroups")["properties"]["spec"]["properties"]
    assert "subGroupPolicy" in spec
    assert "highestTierName" in spec["networkTopology"]["properties"]


def test_hypernodes_have_the_fields_that_we_read() -> None:
    spec = schema("topology.volcano.sh_hypernodes")["properties"]["spec"]["properties"]
    assert {"tier", "tierName"} <= spec.keys()
    status = schema("scheduling.volcano.sh_queues")["properties"]["status"]["properties"]
    assert "state" in status
