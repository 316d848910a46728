"""Koordinator's own CRD accepts what we write; run by `make compat` beside the recorded material."""

import os
from dataclasses import replace
from pathlib import Path

import jsonschema_rs
import pytest
import yaml
from tests.backends.clusters import on

from grove.backends.koordinator import KoordinatorBackend
from grove.backends.koordinator.quota import QUOTAS
from grove.backends.koordinator.topology import TOPOLOGIES, layers
from grove.errors import Unsupported
from grove.meta import Manifest
from grove.testing.conformance import SAMPLES
from grove.testing.kits.koordinator import KOORDINATOR

pytestmark = pytest.mark.compat


def definition(name: str) -> Manifest:
    """A CRD of Koordinator as its project publishes it."""
    shared = Path(os.environ.get("GROVE_SHARED", "../shared"))
    [crd] = [
        each
        for each in yaml.safe_load_all((shared / "data/crds/koordinator" / f"{name}.yaml").read_text())
        if each
    ]
    found: Manifest = crd
    return found


def test_podgroups_are_valid() -> None:
    crd = definition("scheduling.sigs.k8s.io_podgroups")
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["additionalProperties"] = False
    validator = jsonschema_rs.validator_for(schema)
    made: list[Manifest] = []
    for context in (on(KOORDINATOR), replace(on(KOORDINATOR), released=True)):
        for gang in SAMPLES.values():
            try:
                made += KoordinatorBackend().translate(gang, context).manifests
            except Unsupported:
                continue
    assert made
    assert [error.message for each in made for error in validator.iter_errors(each)] == []
    assert not validator.is_valid({"spec": {"unknown": 1}})


def test_there_is_no_status_subresource_so_a_put_would_wipe_what_the_scheduler_wrote() -> None:
    [version] = definition("scheduling.sigs.k8s.io_podgroups")["spec"]["versions"]
    assert "status" not in (version.get("subresources") or {})


@pytest.mark.parametrize("watched", [TOPOLOGIES, QUOTAS], ids=str)
def test_what_is_watched_is_what_koordinator_defines(watched: object) -> None:
    resource = TOPOLOGIES if watched == TOPOLOGIES else QUOTAS
    crd = definition(f"{resource.gvk.group}_{resource.plural}")
    assert crd["spec"]["names"]["plural"] == resource.plural
    assert crd["spec"]["names"]["kind"] == resource.kind
    assert crd["spec"]["scope"] == ("Namespaced" if resource.namespaced else "Cluster")
    assert resource.gvk.version in [each["name"] for each in crd["spec"]["versions"]]


def test_layers_are_read_from_the_fields_that_koordinator_has() -> None:
    crd = definition("scheduling.koordinator.sh_clusternetworktopologies")
    validator = jsonschema_rs.validator_for(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    entries = [
        {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "RackLayer"},
        {"topologyLayer": "RackLayer", "labelKey": ["example.com/rack"]},
    ]
    topology: Manifest = {"metadata": {"name": "default"}, "spec": {"networkTopologySpec": entries}}
    assert validator.is_valid(topology)
    context = replace(on(KOORDINATOR), observed={TOPOLOGIES: (topology,)})
    assert layers(context) == {
        "kubernetes.io/hostname": "NodeTopologyLayer",
        "example.com/rack": "RackLayer",
    }
