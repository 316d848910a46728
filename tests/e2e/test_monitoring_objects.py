"""A real API server takes our monitoring objects by the Prometheus operator's own definitions, to the last field."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml
from tests.cli.processes import kubectl
from tests.deploy.helm import CHART, FOUND, NAMESPACE, ROOT, helm
from tests.e2e.conftest import asked
from tests.e2e.judges import MINORS

from grove.cli.manifests.installation import desired_monitoring, desired_namespace
from grove.cli.manifests.values import values_from
from grove.meta import Manifest
from grove.real import NotInstalled, Options, RealControlPlane
from grove.real.fetching import fetched
from grove.real.versions import prometheus_operator

pytestmark = pytest.mark.real

VALUES: Final[Manifest] = {
    "documentationUrl": "https://git.example.com/grove/blob/main",
    "metrics": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
        "dashboard": {"enabled": True},
    },
}
KINDS: Final = ["ConfigMap", "PodMonitor", "PrometheusRule", "ServiceMonitor"]
TRIED: Final = ("--server-side", "--dry-run=server", "--validate=strict")


def ours(folder: Path) -> Iterator[Manifest]:
    """What the chart and `grove install` make, and what the page on monitoring tells people to write."""
    yield from desired_monitoring(values_from(VALUES), NAMESPACE)
    if FOUND is not None:
        values = folder / "values.yaml"
        values.write_text(yaml.safe_dump(VALUES))
        text = helm(
            "template",
            "grove",
            str(CHART),
            "-f",
            str(values),
            "-s",
            "templates/monitoring.yaml",
            "-n",
            NAMESPACE,
        )
        yield from (each for each in yaml.safe_load_all(text) if each)
    page = (ROOT / "docs" / "guides" / "monitoring.md").read_text()
    for block in re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        if "monitoring.coreos.com" in block:
            yield from yaml.safe_load_all(block)


@pytest.mark.parametrize("minor", MINORS)
def test_monitoring_objects_are_what_the_prometheus_operator_reads(minor: str, tmp_path: Path) -> None:
    asked(minor)
    try:
        definitions = fetched(prometheus_operator(), offline=True)
    except NotInstalled as missing:
        pytest.skip(str(missing))
    objects = list(ours(tmp_path))
    assert sorted({each["kind"] for each in objects}) == KINDS
    admin = tmp_path / "admin"

    def story() -> None:
        for file in definitions:
            kubectl(admin, "apply", "--server-side", "-f", str(file))
        names = [f"crd/{each.stem.partition('_')[2]}.monitoring.coreos.com" for each in definitions]
        kubectl(admin, "wait", "--for=condition=Established", "--timeout=60s", *names)
        file = tmp_path / "object.json"
        file.write_text(json.dumps(desired_namespace(NAMESPACE)))
        kubectl(admin, "apply", "--server-side", "-f", str(file))
        for number, each in enumerate(objects):
            file.write_text(json.dumps(each))
            said = kubectl(admin, "apply", *TRIED, f"--field-manager=test-{number}", "-f", str(file))
            assert said.endswith("serverside-applied (server dry run)\n"), said
        file.write_text(json.dumps(misspelt(objects)))
        with pytest.raises(AssertionError, match=r"\.spec\.endpoints\[0\]\.intervall: field not declared"):
            kubectl(admin, "apply", *TRIED, "-f", str(file))

    async def beside_a_cluster() -> None:
        async with RealControlPlane(Options(minor=minor, say=lambda _: None)) as plane:
            plane.kubeconfig(admin)
            await asyncio.to_thread(story)

    asyncio.run(beside_a_cluster())


def misspelt(objects: list[Manifest]) -> Manifest:
    """What must be refused, or the rest would prove nothing."""
    found: Manifest = json.loads(
        json.dumps(next(each for each in objects if each["kind"] == "ServiceMonitor"))
    )
    found["spec"]["endpoints"][0]["intervall"] = "30s"
    return found
