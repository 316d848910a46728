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
from grove.extensions import registry_for
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
    enabled = registry_for(load(text).scheduler).enabled
    assert [each.name for each in enabled] == ["default", "kai", "koordinator", "volcano", "yunikorn"]


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


def stage(name: str) -> list[str]:
    """The lines of one stage of the Dockerfile; the operator's own has no name and is the last."""
    stages = (DEPLOY / "Dockerfile").read_text().split("\nFROM ")[1:]
    (found,) = [each for each in stages if each.splitlines()[0].endswith(f" AS {name}")]
    return found.splitlines()


def test_the_image_of_the_waiting_program_holds_python_and_its_folder_alone() -> None:
    lines = stage("grove-initc")
    copied = [line.split()[1] for line in lines if line.startswith("COPY")]
    assert copied == ["src/grove/__init__.py", "src/grove/wait_for"]
    assert all((DEPLOY.parent / each).exists() for each in copied)
    assert "USER 65532:65532" in lines
    assert 'ENTRYPOINT ["/grove-initc"]' in lines
    assert (DEPLOY / "Dockerfile").read_text().rstrip().endswith('"/opt/grove/venv/bin/grove", "run"]')


def test_the_entry_point_of_the_waiting_program_is_a_shell_script_that_becomes_it(tmp_path: Path) -> None:
    (line,) = [each for each in stage("grove-initc") if each.startswith("RUN printf")]
    script = line.split("'")[1].replace("\\n", "\n")
    entry = tmp_path / "grove-initc"
    entry.write_text(script)
    entry.chmod(0o755)
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    environment = {"PATH": path, "PYTHONPATH": str(DEPLOY.parent / "src")}
    ran = subprocess.run([entry, "--version"], capture_output=True, text=True, env=environment, check=False)
    assert (ran.returncode, ran.stdout) == (0, f"grove-initc {__version__}\n"), ran.stderr


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
