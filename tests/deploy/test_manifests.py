"""An installation by `grove install` and by kustomize: the same objects, agreeing with the operator that they start."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
import yaml
from typer.testing import CliRunner

from grove import __version__
from grove.api.config import load, unknown_keys
from grove.cli.main import app
from grove.cli.manifests.installation import desired_installation, desired_namespace
from grove.cli.manifests.values import values_from
from grove.errors import InvalidConfiguration
from grove.extensions import registry_for
from grove.meta import Manifest
from grove.runtime.lease import LeaseTimes

DEPLOY: Final = Path(__file__).resolve().parents[2] / "deploy"
KUBECTL: Final = shutil.which("kubectl", path=str(Path(sys.executable).parent))
NAMESPACE: Final = "grove-system"
Named = dict[tuple[str, str], Manifest]


def named(objects: list[Manifest]) -> Named:
    found = {(each["kind"], each["metadata"]["name"]): each for each in objects}
    assert len(found) == len(objects)
    return found


def installed(overrides: Manifest | None = None) -> Named:
    return named(desired_installation(values_from(overrides or {}), NAMESPACE))


def one(kind: str, overrides: Manifest | None = None) -> Manifest:
    (found,) = [each for (of, _), each in installed(overrides).items() if of == kind]
    return found


def pod(overrides: Manifest | None = None) -> Manifest:
    return dict(one("Deployment", overrides)["spec"]["template"]["spec"])


def container(overrides: Manifest | None = None) -> Manifest:
    (found,) = pod(overrides)["containers"]
    return dict(found)


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["install", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_command_prints_namespace_and_objects_and_the_same_every_time() -> None:
    text = printed()
    want = [desired_namespace(NAMESPACE), *installed().values()]
    assert list(yaml.safe_load_all(text)) == want
    assert printed() == text


def test_every_name_that_clients_look_for_is_there() -> None:
    found = installed()
    assert {
        ("Deployment", "grove-operator"),
        ("ServiceAccount", "grove-operator"),
        ("Service", "grove-operator"),
        ("ClusterRole", "grove:system:grove-operator"),
        ("ClusterRoleBinding", "grove:system:grove-operator"),
        ("Role", "grove:system:grove-operator-lease"),
        ("RoleBinding", "grove:system:grove-operator-lease"),
        ("PriorityClass", "grove-operator-priority-critical"),
        ("MutatingWebhookConfiguration", "podcliqueset-defaulting-webhook"),
        ("ValidatingWebhookConfiguration", "podcliqueset-validating-webhook"),
        ("ValidatingWebhookConfiguration", "clustertopology-validating-webhook"),
    } <= set(found)
    config = one("ConfigMap")
    assert re.fullmatch(r"grove-operator-cm-[0-9a-f]{8}", config["metadata"]["name"])
    assert list(config["data"]) == ["config.yaml"]
    volumes = {each["name"]: each for each in pod()["volumes"]}
    assert volumes["operator-config"]["configMap"] == {"name": config["metadata"]["name"]}
    ports = {each["name"]: each["port"] for each in one("Service")["spec"]["ports"]}
    assert ports == {"metrics": 9445, "webhooks": 9443}


def test_the_configuration_is_valid_and_every_key_is_read() -> None:
    text = one("ConfigMap")["data"]["config.yaml"]
    assert unknown_keys(text) == []
    enabled = registry_for(load(text).scheduler).enabled
    assert [each.name for each in enabled] == ["default", "kai", "koordinator", "volcano", "yunikorn"]
    (mount,) = [each for each in container()["volumeMounts"] if each["name"] == "operator-config"]
    assert container()["args"] == [f"--config={mount['mountPath']}/config.yaml"]


def test_another_configuration_has_another_name_so_that_the_deployment_rolls() -> None:
    changed = {"config": {"logLevel": "debug"}}
    assert one("ConfigMap")["metadata"]["name"] != one("ConfigMap", changed)["metadata"]["name"]
    assert pod() != pod(changed)


def test_replicas_elect_a_leader_and_a_drain_takes_one_at_a_time() -> None:
    assert one("Deployment")["spec"]["replicas"] == 2
    assert load(one("ConfigMap")["data"]["config.yaml"]).leader_election.enabled
    budget = one("PodDisruptionBudget")["spec"]
    assert budget["maxUnavailable"] == 1
    labels = one("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert budget["selector"]["matchLabels"].items() <= labels.items()
    assert one("Service")["spec"]["selector"].items() <= labels.items()


def test_the_work_of_a_leader_that_was_killed_goes_on_within_ten_seconds() -> None:
    election = load(one("ConfigMap")["data"]["config.yaml"]).leader_election
    # Another replica saw the last renewal up to a period late, and looks again up to a period after the lease ran out.
    looks = 2 * election.retry_seconds * 1.2
    assert election.lease_seconds + looks < 10
    LeaseTimes(election.lease_seconds, election.renew_seconds, election.retry_seconds)
    # A file of the Go operator that says nothing means what it means there.
    assert load("").leader_election.lease_seconds == 15


def test_probes_ports_and_network_policy_follow_the_configuration() -> None:
    ports = {"server": {"webhooks": {"port": 1}, "healthProbes": {"port": 2}, "metrics": {"port": 3}}}
    changed = {"config": ports, "networkPolicy": {"metricsFrom": [{"podSelector": {}}]}}
    listening = {each["name"]: each["containerPort"] for each in container(changed)["ports"]}
    assert listening == {"webhooks": 1, "health": 2, "metrics": 3}
    assert container(changed)["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"}
    assert container(changed)["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}
    everybody, prometheus = one("NetworkPolicy", changed)["spec"]["ingress"]
    assert sorted(each["port"] for each in everybody["ports"]) == [1, 2]
    assert "from" not in everybody
    assert prometheus == {"ports": [{"port": 3, "protocol": "TCP"}], "from": [{"podSelector": {}}]}


def test_the_operator_has_a_priority_level_of_its_own_and_its_lease_waits_with_other_leases() -> None:
    found = installed({"flowControl": {"shares": 7}})
    level = found["PriorityLevelConfiguration", "grove-operator"]["spec"]["limited"]
    assert level["nominalConcurrencyShares"] == 7
    assert level["borrowingLimitPercent"] == 0
    requests, leases = (found["FlowSchema", f"grove-operator{end}"]["spec"] for end in ("", "-lease"))
    assert requests["priorityLevelConfiguration"] == {"name": "grove-operator"}
    assert leases["priorityLevelConfiguration"] == {"name": "leader-election"}
    # The first schema that matches decides; that of all service accounts has 9000.
    assert leases["matchingPrecedence"] < requests["matchingPrecedence"] < 9000
    account = found["ServiceAccount", "grove-operator"]["metadata"]
    for schema in (requests, leases):
        ((subject,),) = [rule["subjects"] for rule in schema["rules"]]
        named_account = {"name": account["name"], "namespace": account["namespace"]}
        assert subject == {"kind": "ServiceAccount", "serviceAccount": named_account}


def test_without_flow_control_the_operator_stays_among_the_other_service_accounts() -> None:
    kinds = {kind for kind, _ in installed({"flowControl": {"enabled": False}})}
    assert not kinds & {"FlowSchema", "PriorityLevelConfiguration"}


def test_without_webhooks_nothing_is_registered_and_no_port_is_open_for_them() -> None:
    found = installed({"config": {"server": {"webhooks": {"enabled": False}}}})
    assert not [kind for kind, _ in found if kind.endswith("WebhookConfiguration")]
    assert [each["name"] for each in found["Service", "grove-operator"]["spec"]["ports"]] == ["metrics"]


def test_the_authorizer_is_registered_only_where_it_is_enabled() -> None:
    name = ("ValidatingWebhookConfiguration", "authorizer-webhook")
    assert name not in installed()
    assert name in installed({"config": {"authorizer": {"enabled": True}}})


def test_the_certificate_is_mounted_only_where_somebody_else_makes_it_and_its_secret_is_never_rendered() -> (
    None
):
    manual = {"config": {"server": {"webhooks": {"certProvisionMode": "manual", "secretName": "mine"}}}}
    assert "webhook-certs" not in {each["name"] for each in pod()["volumes"]}
    volumes = {each["name"]: each for each in pod(manual)["volumes"]}
    assert volumes["webhook-certs"]["secret"]["secretName"] == "mine"
    assert "Secret" not in {kind for kind, _ in (*installed(), *installed(manual))}


def test_webhooks_can_be_outside_of_the_cluster_for_developers() -> None:
    url = {"webhooks": {"url": "https://127.0.0.1:9443/", "caBundle": "Q0E="}}
    clients = [
        webhook["clientConfig"]
        for (kind, _), each in installed(url).items()
        if kind.endswith("WebhookConfiguration")
        for webhook in each["webhooks"]
    ]
    assert {"url": "https://127.0.0.1:9443/webhooks/default-podcliqueset", "caBundle": "Q0E="} in clients
    assert not any("service" in each for each in clients)


def test_the_pod_runs_as_the_user_of_the_image_without_any_privilege() -> None:
    user = pod()["securityContext"]["runAsUser"]
    assert f"USER {user}:{user}" in (DEPLOY / "Dockerfile").read_text()
    assert pod()["securityContext"]["runAsNonRoot"] is True
    assert pod()["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert one("ServiceAccount")["automountServiceAccountToken"] is False


def test_the_image_has_the_version_of_the_package_unless_a_tag_or_a_digest_is_given() -> None:
    assert container()["image"] == f"grove-operator:{__version__}"
    assert container({"image": {"repository": "r/g", "tag": "2"}})["image"] == "r/g:2"
    assert container({"image": {"tag": "sha256:ab"}})["image"] == "grove-operator@sha256:ab"
    init = {each["name"]: each.get("value") for each in container({"initImage": {"tag": "3"}})["env"]}
    assert init["GROVE_INIT_CONTAINER_IMAGE"] == "grove-initc:3"


def test_people_with_the_roles_view_and_edit_get_what_concerns_them() -> None:
    found = installed()
    view, edit = (found["ClusterRole", name]["metadata"]["labels"] for name in ("grove-view", "grove-edit"))
    aggregate = "rbac.authorization.k8s.io/aggregate-to-"
    assert [each for each in ("view", "edit", "admin") if view.get(f"{aggregate}{each}") == "true"] == [
        "view",
        "edit",
        "admin",
    ]
    assert f"{aggregate}view" not in edit
    read = {verb for rule in found["ClusterRole", "grove-view"]["rules"] for verb in rule["verbs"]}
    assert read == {"get", "list", "watch"}


def test_to_keep_workloads_is_to_keep_the_definitions() -> None:
    kept = installed({"keepWorkloads": True})
    definitions = [each for (kind, _), each in kept.items() if kind == "CustomResourceDefinition"]
    assert len(definitions) == 5
    assert all(each["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"} for each in definitions)
    assert "CustomResourceDefinition" not in {kind for kind, _ in installed({"crds": {"install": False}})}


def test_who_reads_metrics_cannot_be_limited_on_the_port_of_the_probes() -> None:
    peers: Manifest = {"networkPolicy": {"metricsFrom": [{"podSelector": {}}]}}
    assert one("NetworkPolicy", peers)["spec"]["ingress"][1]["from"] == [{"podSelector": {}}]
    together: Manifest = {"config": {"server": {"metrics": {"port": 9444}}}}
    assert one("NetworkPolicy", together)["spec"]["ingress"][1] == {
        "ports": [{"port": 9444, "protocol": "TCP"}]
    }
    with pytest.raises(InvalidConfiguration, match=r"networkPolicy\.metricsFrom: cannot limit a port"):
        values_from(peers, together)


@pytest.mark.parametrize(
    ("base", "before"),
    [
        ("", ""),
        ("https://git.example.com/grove", "https://git.example.com/grove/"),
        ("https://git.example.com/grove/", "https://git.example.com/grove/"),
    ],
)
def test_every_runbook_is_behind_the_address_of_the_documentation(base: str, before: str) -> None:
    values: Manifest = {"documentationUrl": base, "metrics": {"prometheusRule": {"enabled": True}}}
    rules = [each for group in one("PrometheusRule", values)["spec"]["groups"] for each in group["rules"]]
    assert len(rules) > 20
    for rule in rules:
        page = f"docs/guides/runbooks.md#{rule['alert'].lower()}"
        assert rule["annotations"]["runbook_url"] == f"{before}{page}"


def test_the_names_of_an_installation_are_those_that_kubectl_prints() -> None:
    names = printed("-o", "name").splitlines()
    assert names[0] == f"namespace/{NAMESPACE}"
    assert len(names) == len(set(names)) == len(list(yaml.safe_load_all(printed())))
    assert {
        "customresourcedefinition.apiextensions.k8s.io/podcliquesets.grove.io",
        "deployment.apps/grove-operator",
        "clusterrole.rbac.authorization.k8s.io/grove:system:grove-operator",
        "service/grove-operator",
    } <= set(names)
    namespaces = [line.split()[0] for line in printed("-o", "wide").splitlines()]
    assert len(namespaces) == len(names) + 1
    assert set(namespaces) == {"NAMESPACE", NAMESPACE, "-"}


REFUSED: Final = {
    "--set replicas=3": "replicas: unknown field",
    "--set replicaCount=many": "replicaCount: must be a whole number",
    "--set replicaCount=0": "replicaCount: must be at least 1",
    "--set flowControl.shares=0": "flowControl.shares: must be at least 1; got 0",
    "--set config.leaderElection.enabled=false": "replicaCount: must be 1 without config.leaderElection.enabled",
    "--set config.logLevel=loud": "logLevel: must be one of",
    "--set config.server.webhoks.port=1": "config.server.webhoks: unknown field",
    "--set documentationUrl=git.example.com": "documentationUrl: must begin with https:// or http://",
    "--set nonsense": "must be of the form name.of.value=something",
    "--set webhooks.caBundle=x-": "webhooks.caBundle: must be base64",
    "-f nowhere.yaml": "nowhere.yaml: cannot be read",
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_a_bad_value_is_refused_by_its_name(arguments: str, capfd: pytest.CaptureFixture[str]) -> None:
    from grove.cli.main import main

    assert main(["install", *arguments.split()]) == 1
    captured = capfd.readouterr()
    assert REFUSED[arguments] in captured.err
    assert captured.out == ""


def test_files_and_settings_are_merged_in_their_order(tmp_path: Path) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text("replicaCount: 3\nnodeSelector: {a: b}\n")
    second.write_text("nodeSelector: {c: d}\n")
    text = printed("-f", str(first), "-f", str(second), "--set", "replicaCount=4")
    (deployment,) = [each for each in yaml.safe_load_all(text) if each["kind"] == "Deployment"]
    assert deployment["spec"]["replicas"] == 4
    assert deployment["spec"]["template"]["spec"]["nodeSelector"] == {"a": "b", "c": "d"}


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not in the virtual environment")
def test_kustomize_builds_what_the_command_prints_but_for_the_hash_of_the_configuration() -> None:
    command = [str(KUBECTL), "kustomize", str(DEPLOY)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    built = {_without_hash(each) for each in yaml.safe_load_all(text)}
    assert built == {_without_hash(each) for each in (desired_namespace(NAMESPACE), *installed().values())}


def _without_hash(manifest: Manifest) -> str:
    if manifest["kind"] == "ConfigMap":
        manifest = {**manifest, "data": yaml.safe_load(manifest["data"]["config.yaml"])}
    return re.sub(r"grove-operator-cm-[0-9a-z]{8,10}", "grove-operator-cm", yaml.safe_dump(manifest))


def stage(name: str) -> list[str]:
    """The lines of one stage of the Dockerfile."""
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
