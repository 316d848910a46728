"""Releases of the chart, with the real Helm: what it renders again, and what the operator made meanwhile."""

from pathlib import Path
from typing import Final

import pytest
import yaml
from tests.cli.processes import kubectl, started
from tests.deploy.helm import CHART, FOUND, MISSING, NAMESPACE, RELEASE, Installed, free_port, get

from grove.meta import Manifest

pytestmark = pytest.mark.skipif(FOUND is None, reason=MISSING)

CERTIFICATE: Final = "grove-webhook-server-cert"


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
