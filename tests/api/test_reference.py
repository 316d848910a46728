"""The reference pages list what the types have."""

import pytest

from grove.api import conditions, reference
from grove.api.crd import KINDS, Kind, schema_of

PAGES = reference.files()


@pytest.mark.parametrize("kind", KINDS, ids=[kind.resource.kind for kind in KINDS])
def test_every_field_of_a_spec_and_status_has_a_line_with_its_meaning(kind: Kind) -> None:
    page = PAGES[f"{kind.resource.kind.lower()}.md"]
    schema = schema_of(kind.view)
    for section in ("spec", "status"):
        for field, value in schema["properties"][section]["properties"].items():
            (line,) = [line for line in page.splitlines() if line.startswith(f"| `{section}.{field}` |")]
            assert value["description"] in line


def test_a_pod_spec_is_named_but_not_described() -> None:
    assert "`spec.template.cliques[].spec.podSpec`" in PAGES["podcliqueset.md"]
    assert "podSpec.containers" not in PAGES["podcliqueset.md"].partition("## Refused")[0]


def test_the_configuration_page_shows_the_defaults() -> None:
    page = PAGES["operatorconfiguration.md"]
    assert '| `leaderElection.leaseDuration` | string | `"15s"` |' in page
    assert "| `runtimeClientConnection.burst` | integer | `10000` |" in page
    assert "| `network.autoMNNVLEnabled` | boolean | `false` |" in page


def test_every_condition_is_explained() -> None:
    assert all(
        f"| `{entry.type}` | {entry.meaning} |" in PAGES["conditions.md"] for entry in conditions.TABLE
    )
