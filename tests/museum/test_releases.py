"""Releases of the chart: what is rendered again, and what the operator made meanwhile.

With the real Helm where it is installed; what the templates and the plain manifests say is read without it.
"""

import re
from pathlib import Path
from typing import Final

import pytest
import yaml
from tests.cli.processes import kubectl, started
from tests.deploy.helm import CHART, FOUND, MISSING, NAMESPACE, RELEASE, ROOT, Installed, free_port, get

from grove.meta import Manifest

with_helm = pytest.mark.skipif(FOUND is None, reason=MISSING)

CERTIFICATE: Final = "grove-webhook-server-cert"


TEMPLATES: Final = sorted((CHART / "templates").rglob("*.yaml"))
PLAIN: Final = sorted((ROOT / "deploy").glob("*.yaml"))


def documents(path: Path) -> list[str]:
    """The objects in a file, as they are written; templates are no YAML."""
    return re.split(r"^---$", path.read_text(), flags=re.MULTILINE)


@pytest.mark.parametrize(
    "path", [*TEMPLATES, *PLAIN], ids=lambda path: str(path.relative_to(ROOT / "deploy"))
)
def test_nothing_that_is_rendered_has_a_certificate_in_it(path: Path) -> None:
    """grove#453: rendering the chart again leaves the certificate of the webhooks in its Secret."""
    assert "caBundle" not in path.read_text()
    for document in documents(path):
        if re.search(r"^kind: Secret$", document, re.MULTILINE):
            # What is named like it for the end of a release holds nothing, and no upgrade applies it.
            assert path.name == "cleanup.yaml"
            assert "toYaml $hook" in document
            assert not re.search(r"^(data|stringData|immutable|type):", document, re.MULTILINE)


def test_the_object_that_ends_the_secret_is_created_after_everything_else_is_gone() -> None:
    """grove#453: rendering the chart again leaves the certificate of the webhooks in its Secret."""
    hooks = re.findall(r'"helm.sh/hook" "([^"]*)"', (CHART / "templates" / "cleanup.yaml").read_text())
    assert hooks == ["post-delete"]


class WithWebhooks(Installed):
    """A release whose operator makes the certificate of its webhooks; nobody asks them."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        super().__init__(kubeconfig, folder)
        values = yaml.safe_load(self.values.read_text())
        values["config"]["server"]["webhooks"] = {"port": free_port(), "bindAddress": "127.0.0.1"}
        self.values.write_text(yaml.safe_dump(values))

    def secret(self) -> Manifest:
        (found,) = get(
            self.kubeconfig, "secrets", "-n", NAMESPACE, f"--field-selector=metadata.name={CERTIFICATE}"
        )
        return found


@with_helm
def test_an_upgrade_leaves_the_certificate_that_the_operator_made(tmp_path: Path) -> None:
    """grove#453: rendering the chart again leaves the certificate of the webhooks in its Secret."""
    kubeconfig = tmp_path / "kubeconfig"
    with started("up", "--no-operator", "--write-kubeconfig", str(kubeconfig), folder=tmp_path) as cluster:
        assert cluster.output.readline(), cluster.said
        kubectl(kubeconfig, "delete", "crd", "--all")
        release = WithWebhooks(kubeconfig, tmp_path)
        release.install(CHART)
        with release.operator():
            kubectl(
                kubeconfig, "wait", f"secret/{CERTIFICATE}", "-n", NAMESPACE, "--for=create", "--timeout=30s"
            )
        # No operator runs from here on: it would fill a Secret that somebody emptied.
        before = release.secret()
        assert all(before["data"][name] for name in ("ca.crt", "tls.crt", "tls.key"))
        for upgrade in ("1", "2"):
            release.upgrade("--set-string", f"podAnnotations.upgrade={upgrade}")
            (deployment,) = get(kubeconfig, "deployments", "-n", NAMESPACE)
            assert deployment["spec"]["template"]["metadata"]["annotations"]["upgrade"] == upgrade
            assert release.secret() == before
        release.helm("rollback", RELEASE, "1")
        assert release.secret() == before
        assert cluster.ask_to_stop() == 0
