"""Every sample of the incumbent is accepted as it is: by the schema, by the views and by admission."""

import copy
import os
from pathlib import Path

import pytest
import yaml

from grove.admission import default, validate
from grove.api.cliqueset import PodCliqueSet
from grove.api.crd import schema_of
from grove.api.decode import decode
from grove.embedded.machinery.schema import custom_schema
from grove.meta import Manifest

pytestmark = pytest.mark.compat

SHARED = Path(os.environ.get("GROVE_SHARED", "../shared"))
SAMPLES = {
    f"{path.relative_to(SHARED / 'data' / 'samples')}": path
    for path in sorted((SHARED / "data" / "samples").rglob("*.yaml"))
}


def cliquesets(path: Path) -> list[Manifest]:
    documents = [document for document in yaml.safe_load_all(path.read_text()) if document]
    return [document for document in documents if document["kind"] == "PodCliqueSet"]


@pytest.mark.parametrize("path", SAMPLES.values(), ids=SAMPLES)
def test_a_sample_is_accepted_by_the_schema_and_loses_nothing(path: Path) -> None:
    schema = custom_schema(schema_of(PodCliqueSet))
    samples = cliquesets(path)
    assert samples
    for manifest in samples:
        stored = copy.deepcopy(manifest)
        schema.default(stored)
        assert schema.prune(stored) == []
        assert schema.validate(stored) == []
        assert schema.validate(stored, copy.deepcopy(stored)) == []


@pytest.mark.parametrize("path", SAMPLES.values(), ids=SAMPLES)
def test_a_sample_is_decoded_filled_in_and_found_valid(path: Path) -> None:
    for manifest in cliquesets(path):
        view = decode(default(manifest), PodCliqueSet, strict=True)
        assert validate(view, new=True) == []
        for clique, written in zip(
            view.template.cliques, manifest["spec"]["template"]["cliques"], strict=True
        ):
            assert clique.spec.pod_spec.items() >= written["spec"]["podSpec"].items()
            assert (clique.spec.min_available or 0) >= 1


def test_there_are_samples() -> None:
    assert SAMPLES
