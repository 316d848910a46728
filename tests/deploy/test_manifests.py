"""The parts of deploy/ agree with one another and with the operator that they start."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
import yaml

from grove import __version__
from grove.api.config import load, unknown_keys
from grove.meta import Manifest

DEPLOY: Final = Path(__file__).resolve().parents[2] / "deploy"
KUBECTL: Final = shutil.which("kubectl", path=str(Path(sys.executable).parent))


def read(name: str) -> Manifest:
    found: Manifest = yaml.safe_load((DEPLOY / name).read_text())
    return found


def container() -> Manifest:
    (found,) = read("deployment.yaml")["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_the_configuration_is_valid_and_every_key_is_read() -> None:
    text = (DEPLOY / "config.yaml").read_text()
    assert unknown_keys(text) == []
    assert load(text).scheduler.enabled_backends == ("default", "kai", "koordinator", "volcano", "yunikorn")


def test_replicas_elect_a_leader() -> None:
    assert read("deployment.yaml")["spec"]["replicas"] > 1
    assert load((DEPLOY / "config.yaml").read_text()).leader_election.enabled


def test_the_probes_ask_the_configured_port_at_the_address_of_the_pod() -> None:
    probes = load((DEPLOY / "config.yaml").read_text()).server.health_probes
    port = probes.port
    assert probes.bind_address == "0.0.0.0"
    (health,) = container()["ports"]
    assert health == {"name": "health", "containerPort": port}
    assert container()["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"}
    assert container()["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}


def test_image_tag_and_package_have_one_version() -> None:
    (image,) = read("kustomization.yaml")["images"]
    assert container()["image"] == f"grove-operator:{__version__}"
    assert (image["name"], image["newTag"]) == ("grove-operator", __version__)


def test_the_pod_runs_as_the_user_of_the_image_without_any_privilege() -> None:
    spec = read("deployment.yaml")["spec"]["template"]["spec"]
    user = spec["securityContext"]["runAsUser"]
    assert f"USER {user}:{user}" in (DEPLOY / "Dockerfile").read_text()
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not in the virtual environment")
def test_kustomize_hands_the_configuration_to_the_deployment_under_a_name_with_a_hash() -> None:
    command = [str(KUBECTL), "kustomize", str(DEPLOY)]
    built = list(
        yaml.safe_load_all(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    )
    (config,) = [each for each in built if each["kind"] == "ConfigMap"]
    (deployment,) = [each for each in built if each["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    assert config["metadata"]["name"].startswith("grove-operator-cm-")
    assert config["data"] == {"config.yaml": (DEPLOY / "config.yaml").read_text()}
    assert pod["volumes"] == [{"name": "operator-config", "configMap": {"name": config["metadata"]["name"]}}]
    (mount,) = pod["containers"][0]["volumeMounts"]
    assert pod["containers"][0]["args"] == [f"--config={mount['mountPath']}/config.yaml"]
