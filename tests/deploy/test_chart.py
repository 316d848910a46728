"""The Helm chart, with the real Helm: it makes what `grove install` prints, and its releases live and end in order."""

from pathlib import Path
from typing import Final

import pytest
import yaml
from tests.cli.processes import kubectl, started
from tests.deploy.helm import CHART, FOUND, MISSING, NAMESPACE, Installed, get, helm, live_a_whole_life

from grove.cli.manifests.installation import desired_installation
from grove.cli.manifests.values import values_from
from grove.meta import Manifest

pytestmark = pytest.mark.skipif(FOUND is None, reason=MISSING)

HOOK: Final = "helm.sh/hook"
CASES: Final[dict[str, Manifest]] = {
    "the defaults": {},
    "certificates of somebody else": {
        "webhooks": {"caBundle": "Q0E=", "annotations": {"cert-manager.io/inject-ca-from": "a/b"}},
        "config": {"server": {"webhooks": {"certProvisionMode": "manual", "secretName": "mine"}}},
    },
    "no webhooks and one scheduler": {
        "config": {
            "server": {"webhooks": {"enabled": False}},
            "scheduler": {"profiles": [{"name": "default-scheduler"}]},
        }
    },
    "schedulers by the names of backends, with settings": {
        "config": {
            "scheduler": {
                "profiles": [
                    {"name": "kai", "config": {"queue": "a<b&c"}},
                    {"name": "yunikorn", "external": True},
                ],
                "defaultProfileName": "kai",
            },
            "runtimeClientConnection": {"qps": 50.0, "burst": 7},
        }
    },
    "everything that can be switched on": {
        "keepWorkloads": True,
        "rbac": {"extraRules": [{"apiGroups": ["example.com"], "resources": ["gangs"], "verbs": ["get"]}]},
        "metrics": {"serviceMonitor": {"enabled": True, "interval": "5s", "labels": {"release": "p"}}},
        "networkPolicy": {"egress": [{"ports": [{"port": 443}]}], "metricsFrom": [{"podSelector": {}}]},
        "config": {"authorizer": {"enabled": True}, "network": {"autoMNNVLEnabled": True}},
    },
    "everything that can be switched off": {
        "replicaCount": 1,
        "crds": {"install": False},
        "rbac": {"userRoles": False},
        "priorityClass": {"enabled": False, "name": ""},
        "podDisruptionBudget": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "flowControl": {"enabled": False},
        "topologySpreadConstraints": [],
        "config": {"leaderElection": {"enabled": False}},
    },
    "pods as somebody wants them": {
        "image": {"repository": "registry.example.com/g", "tag": "sha256:12"},
        "initImage": {"repository": "registry.example.com/grove-initc", "tag": "3"},
        "imagePullSecrets": [{"name": "s"}],
        "env": [{"name": "A", "value": "b"}],
        "nodeSelector": {"a": "b"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "podAnnotations": {"a": "b"},
        "podLabels": {"team": "x"},
        "service": {"type": "NodePort", "annotations": {"a": "b"}},
    },
    "webhooks outside of the cluster, and another place for the lease": {
        "webhooks": {"url": "https://127.0.0.1:9443/"},
        "flowControl": {"shares": 5},
        "config": {"leaderElection": {"resourceNamespace": "elsewhere", "resourceName": "mine"}},
    },
}


def template(folder: Path, values: Manifest) -> str:
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    return helm("template", "grove", str(CHART), "-n", NAMESPACE, "-f", str(file))


def comparable(objects: list[Manifest]) -> dict[str, Manifest]:
    """Objects by kind and name: configuration files as what they say, sets of namespaces sorted."""
    found = {f"{each['kind']} {each['metadata']['name']}": each for each in objects}
    assert len(found) == len(objects)
    for each in objects:
        if "config.yaml" in each.get("data", {}):
            each["data"] = yaml.safe_load(each["data"]["config.yaml"])
        for webhook in each.get("webhooks", ()):
            for expression in webhook["namespaceSelector"].get("matchExpressions", ()):
                expression["values"].sort()
    return found


if (CHART / "files" / "alerts.yaml").exists():
    CASES["alerts and a dashboard"] = {
        "metrics": {"prometheusRule": {"enabled": True, "labels": {"a": "b"}}, "dashboard": {"enabled": True}}
    }
    CASES["alerts whose runbooks are somewhere"] = {
        "metrics": {"prometheusRule": {"enabled": True}},
        "documentationUrl": "https://git.example.com/grove/blob/main/",
    }


@pytest.mark.parametrize("case", CASES)
def test_the_chart_makes_what_the_command_prints(case: str, tmp_path: Path) -> None:
    values = CASES[case]
    rendered = [each for each in yaml.safe_load_all(template(tmp_path, values)) if each]
    objects = [each for each in rendered if HOOK not in each["metadata"].get("annotations", {})]
    want = comparable(desired_installation(values_from(values), NAMESPACE))
    found = comparable(objects)
    assert sorted(found) == sorted(want)
    for name, each in want.items():
        assert found[name] == each, name


def test_the_same_values_give_the_same_text(tmp_path: Path) -> None:
    assert template(tmp_path, {}) == template(tmp_path, {})


def test_lint_finds_nothing() -> None:
    said = helm("lint", "--strict", str(CHART))
    assert "1 chart(s) linted, 0 chart(s) failed" in said
    assert "[WARNING]" not in said


def test_only_what_the_operator_makes_is_removed_by_hooks_and_never_created_before(tmp_path: Path) -> None:
    rendered = [each for each in yaml.safe_load_all(template(tmp_path, {})) if each]
    hooks = {each["kind"]: each for each in rendered if HOOK in each["metadata"].get("annotations", {})}
    assert sorted(hooks) == ["Lease", "Secret"]
    assert all(each["metadata"]["annotations"][HOOK] == "post-delete" for each in hooks.values())
    assert not any("data" in each for each in hooks.values())


@pytest.mark.parametrize(
    ("settings", "goes"), [("", True), ("keepWorkloads=true", False), ("crds.install=false", False)]
)
def test_the_notes_say_what_an_uninstallation_deletes(settings: str, goes: bool) -> None:
    """Definitions that are no part of the release stay, and the sets with them."""
    said = helm("install", "grove", str(CHART), "-n", "here", "--dry-run=client", "--set", settings)
    notes = said.partition("\nNOTES:\n")[2]
    # Alone it leaves pods where the garbage collector loses sight of the definitions first.
    sets_first = [
        "  kubectl delete podcliqueset --all --all-namespaces --cascade=foreground",
        "  helm uninstall grove -n here",
    ]
    commands = [line for line in notes.splitlines() if line in sets_first]
    assert commands == (sets_first if goes else [])
    assert ("`helm uninstall` deletes every PodCliqueSet too" in notes) == goes
    assert ("`helm uninstall` leaves the CustomResourceDefinitions, every PodCliqueSet" in notes) != goes


REFUSED: Final = {
    "replicas: 3": "replicas",
    "config: {server: {webhoks: {}}}": "webhoks",
    "replicaCount: many": "replicaCount",
    "documentationUrl: git.example.com": "documentationUrl",
    "image: {pullPolicy: Sometimes}": "pullPolicy",
    "config: {leaderElection: {enabled: false}}": "must be 1 without config.leaderElection.enabled",
    "config: {server: {metrics: {port: 9444}}}\nnetworkPolicy: {metricsFrom: [{podSelector: {}}]}": (
        "networkPolicy.metricsFrom: cannot limit a port that everybody must be able to probe"
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_bad_value_is_refused_by_its_name(text: str, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(text)
    assert REFUSED[text] in helm("template", "grove", str(CHART), "-f", str(file), refused=True)


def test_a_release_lives_on_the_embedded_cluster_and_leaves_nothing(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with started("up", "--no-operator", "--write-kubeconfig", str(kubeconfig), folder=tmp_path) as cluster:
        assert cluster.output.readline(), cluster.said
        kubectl(kubeconfig, "delete", "crd", "--all")
        release = Installed(kubeconfig, tmp_path)
        live_a_whole_life(release, tmp_path / "older")
        release.until_nothing_is_left(60)
        assert cluster.ask_to_stop() == 0


def test_definitions_leave_a_release_only_when_they_are_kept(tmp_path: Path) -> None:
    """Helm deletes what an upgrade leaves out: with the definitions every set and its pods would go."""
    kubeconfig = tmp_path / "kubeconfig"
    with started("up", "--no-operator", "--write-kubeconfig", str(kubeconfig), folder=tmp_path) as cluster:
        assert cluster.output.readline(), cluster.said
        kubectl(kubeconfig, "delete", "crd", "--all")
        release = Installed(kubeconfig, tmp_path)
        release.install(CHART)
        before = {each["metadata"]["uid"] for each in get(kubeconfig, "crd")}
        without = ("upgrade", "grove", str(CHART), "--set", "crds.install=false")
        said = helm(*without, kubeconfig=kubeconfig, refused=True)
        assert "crds.install=false would delete the CustomResourceDefinitions of this release" in said
        assert "upgrade with keepWorkloads=true first" in said
        release.upgrade("--set", "keepWorkloads=true")
        helm(*without, kubeconfig=kubeconfig)
        helm(*without, kubeconfig=kubeconfig)
        assert {each["metadata"]["uid"] for each in get(kubeconfig, "crd")} == before
        assert cluster.ask_to_stop() == 0
