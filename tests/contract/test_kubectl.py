"""The real kubectl against the embedded server, over HTTPS: what it prints, and what is true afterwards."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.contract.objects import deployment, gang, gang_crd, pod
from tests.contract.serving import served

from grove.api import crd_files
from grove.embedded.cluster import ClusterOptions

Manifest = dict[str, Any]
KUBECTL = os.environ.get("GROVE_KUBECTL") or shutil.which(
    "kubectl", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
)
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is neither in the environment nor on PATH")
SECONDS = 60


@dataclass(frozen=True, slots=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def words(self) -> list[list[str]]:
        return [line.split() for line in self.lines]


@dataclass(slots=True)
class Kubectl:
    """kubectl with a home of its own, in one namespace."""

    home: Path
    namespace: str = "default"
    _files: int = field(default=0)

    def __call__(self, command: str, *more: str, stdin: str | None = None) -> Said:
        """Runs `kubectl command more...`; `more` are arguments that may hold spaces."""
        assert KUBECTL is not None
        done = subprocess.run(
            [KUBECTL, *command.split(), *more],
            env={
                "KUBECONFIG": str(self.home / "kubeconfig"),
                "HOME": str(self.home),
                "PATH": os.environ["PATH"],
                "KUBECTL_EXTERNAL_DIFF": "diff -u",
            },
            input=stdin,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return Said(done.returncode, done.stdout.strip(), done.stderr.strip())

    def says(self, command: str, *more: str, stdin: str | None = None) -> str:
        """What a command that must succeed prints."""
        said = self(command, *more, stdin=stdin)
        assert said.code == 0, f"kubectl {command} failed: {said.err}"
        return said.out

    def refuses(self, command: str, *more: str, stdin: str | None = None) -> str:
        """What a command that must fail complains about."""
        said = self(command, *more, stdin=stdin)
        assert said.code != 0, f"kubectl {command} succeeded: {said.out}"
        return said.err

    def read(self, what: str) -> Manifest:
        found: Manifest = json.loads(self.says(f"get {what} -o json"))
        return found

    def file(self, *objects: Manifest) -> str:
        """The path of a file with these objects."""
        self._files += 1
        path = self.home / f"objects-{self._files}.yaml"
        path.write_text(yaml.safe_dump_all(objects))
        return str(path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """kubectl on a cluster with two nodes, a scheduler, the checks' custom kind and Grove's own."""
    home = tmp_path_factory.mktemp("kubectl")
    with served(home / "kubeconfig", ClusterOptions(nodes=2)):
        kubectl = Kubectl(home)
        kubectl.says(f"create -f {kubectl.file(gang_crd())}")
        folder = home / "crds"
        folder.mkdir()
        for name, text in crd_files.files().items():
            (folder / name).write_text(text)
        kubectl.says(f"create -f {folder}")
        kubectl.says("wait --for=condition=Established crd --all --timeout=10s")
        yield kubectl


@pytest.fixture
def kubectl(shared: Kubectl) -> Kubectl:
    """The shared kubectl in a namespace that only this test uses."""
    name = f"t-{secrets.token_hex(4)}"
    shared.says(f"create namespace {name}")
    shared.says(f"config set-context --current --namespace={name}")
    return Kubectl(shared.home, name)


# --- what there is


def test_api_resources_lists_built_in_and_custom_kinds(kubectl: Kubectl) -> None:
    rows = {row[0]: row for row in kubectl("api-resources --no-headers").words}
    assert rows["pods"] == ["pods", "po", "v1", "true", "Pod"]
    assert rows["gangs"] == ["gangs", "gg", "sched.example.com/v1", "true", "Gang"]
    assert rows["podcliquesets"] == ["podcliquesets", "pcs", "grove.io/v1alpha1", "true", "PodCliqueSet"]


def test_api_versions_lists_the_served_groups(kubectl: Kubectl) -> None:
    versions = kubectl("api-versions").lines
    assert {"v1", "apps/v1", "sched.example.com/v1", "scheduling.k8s.io/v1alpha2"} <= set(versions)


def test_cluster_info_names_the_server(kubectl: Kubectl) -> None:
    assert "control plane is running at https://127.0.0.1:" in kubectl.says("cluster-info").replace(
        "\x1b[0;32m", ""
    ).replace("\x1b[0m", "").replace("\x1b[0;33m", "")


def test_version_says_that_the_server_is_embedded(kubectl: Kubectl) -> None:
    version = json.loads(kubectl.says("version -o json"))["serverVersion"]["gitVersion"]
    assert version.startswith("v1.36.")
    assert version.endswith("-embedded")


def test_explain_knows_built_in_fields(kubectl: Kubectl) -> None:
    assert "FIELD: schedulingGates <[]PodSchedulingGate>" in kubectl.says("explain pod.spec.schedulingGates")


def test_explain_knows_fields_of_custom_kinds(kubectl: Kubectl) -> None:
    assert "FIELD: minMember <integer>" in kubectl.says("explain gang.spec.minMember")
    assert "minMember\t<integer> -required-" in kubectl.says("explain gang --recursive")


# --- reading


def test_get_shows_pods_wide_as_yaml_and_by_path(kubectl: Kubectl) -> None:
    kubectl.says(f"create -f {kubectl.file(pod('p', {'labels': {'app': 'demo'}}))}")
    kubectl.says("wait pod/p --for=condition=Ready --timeout=30s")
    assert kubectl("get pods").words[1][:4] == ["p", "1/1", "Running", "0"]
    assert "NODE" in kubectl("get pods -o wide").words[0]
    assert kubectl.says("get pods -o wide --no-headers").split()[6].startswith("node-")
    assert yaml.safe_load(kubectl.says("get pod p -o yaml"))["spec"]["containers"][0]["image"] == "busybox"
    assert kubectl.says("get pod p -o jsonpath={.status.phase}") == "Running"
    assert kubectl.says("get pods -A -o name").count("pod/p") >= 1


def test_get_selects_by_label_and_field(kubectl: Kubectl) -> None:
    maps = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app": name}}}
        for name in ("a", "b")
    ]
    kubectl.says(f"create -f {kubectl.file(*maps)}")
    assert kubectl.says("get cm -l app=a -o name") == "configmap/a"
    assert kubectl("get cm -o name -l", "app in (a,b)").lines == ["configmap/a", "configmap/b"]
    assert kubectl("get cm -o name -l", "app,app!=a").lines == ["configmap/b"]
    assert kubectl.says("get cm --field-selector=metadata.name=b -o name") == "configmap/b"
    assert "field label not supported" in kubectl.refuses("get cm --field-selector=data.x=b")


def test_get_watches_until_its_time_is_over(kubectl: Kubectl) -> None:
    kubectl.says("create configmap seen --from-literal=a=b")
    said = kubectl("get configmap seen --watch --request-timeout=1s")
    assert said.words[0] == ["NAME", "DATA", "AGE"]
    assert said.words[1][:2] == ["seen", "1"]


def test_get_of_a_missing_object_and_kind_says_so(kubectl: Kubectl) -> None:
    assert kubectl.refuses("get pod none") == 'Error from server (NotFound): pods "none" not found'
    assert "the server doesn't have a resource type" in kubectl.refuses("get nonsense")


def test_get_raw_reaches_any_path(kubectl: Kubectl) -> None:
    assert kubectl.says("get --raw /readyz") == "ok"


def test_describe_tells_about_pods_nodes_and_custom_objects(kubectl: Kubectl) -> None:
    kubectl.says(f"create -f {kubectl.file(pod('p'), gang('g'))}")
    kubectl.says("wait pod/p --for=condition=Ready --timeout=30s")
    told = kubectl.says("describe pod p")
    assert "Scheduled" in told
    assert "Node:             node-" in told
    assert "nvidia.com/gpu" in kubectl.says("describe node node-0")
    assert "Min Member:  2" in kubectl.says("describe gang g")
    assert "Established" in kubectl.says("describe crd gangs.sched.example.com")


def test_events_tell_where_a_pod_went(kubectl: Kubectl) -> None:
    kubectl.says(f"create -f {kubectl.file(pod('p'))}")
    kubectl.says("wait pod/p --for=condition=Ready --timeout=30s")
    assert "Successfully assigned" in kubectl.says("events")
    assert "Scheduled" in kubectl.says("get events")


def test_logs_are_those_of_the_container(kubectl: Kubectl) -> None:
    kubectl.says(f"create -f {kubectl.file(pod('p'))}")
    kubectl.says("wait pod/p --for=condition=Ready --timeout=30s")
    assert "simulated container" in kubectl.says("logs p")
    assert "container x is not valid for pod p" in kubectl.refuses("logs p -c x")


# --- applying and patching


def test_apply_creates_changes_and_leaves_alone(kubectl: Kubectl) -> None:
    path = kubectl.file(deployment("d"))
    assert kubectl.says(f"apply -f {path}") == "deployment.apps/d created"
    assert kubectl.says(f"apply -f {path}") == "deployment.apps/d unchanged"
    assert (
        kubectl.says(f"apply -f {kubectl.file(deployment('d', replicas=4))}")
        == "deployment.apps/d configured"
    )
    assert kubectl.read("deployment d")["spec"]["replicas"] == 4


def test_apply_on_the_server_conflicts_until_forced(kubectl: Kubectl) -> None:
    first, second = (kubectl.file(gang("g", {"minMember": count})) for count in (1, 2))
    assert kubectl.says(f"apply --server-side --field-manager=a -f {first}").endswith("serverside-applied")
    complaint = kubectl.refuses(f"apply --server-side --field-manager=b -f {second}")
    assert 'conflict with "a": .spec.minMember' in complaint
    kubectl.says(f"apply --server-side --field-manager=b --force-conflicts -f {second}")
    assert kubectl.read("gang g")["spec"]["minMember"] == 2


def test_apply_moves_from_the_client_to_the_server(kubectl: Kubectl) -> None:
    path = kubectl.file(deployment("d"))
    kubectl.says(f"apply -f {path}")
    kubectl.says(f"apply --server-side -f {path}")
    meta = json.loads(kubectl.says("get deployment d -o json --show-managed-fields"))["metadata"]
    assert ["kubectl", "Apply"] in [[entry["manager"], entry["operation"]] for entry in meta["managedFields"]]


def test_apply_of_a_dry_run_stores_nothing(kubectl: Kubectl) -> None:
    path = kubectl.file(gang("g"))
    assert (
        kubectl.says(f"apply --dry-run=server -f {path}")
        == "gang.sched.example.com/g created (server dry run)"
    )
    assert "not found" in kubectl.refuses("get gang g")


def test_apply_refuses_an_unknown_field(kubectl: Kubectl) -> None:
    wrong = pod("p", bogus=1)
    assert 'unknown field "spec.bogus"' in kubectl.refuses(f"apply -f {kubectl.file(wrong)}")


def test_diff_shows_what_apply_would_change(kubectl: Kubectl) -> None:
    kubectl.says(f"apply -f {kubectl.file(deployment('d'))}")
    same = kubectl(f"diff -f {kubectl.file(deployment('d'))}")
    other = kubectl(f"diff -f {kubectl.file(deployment('d', replicas=7))}")
    assert (same.code, same.out) == (0, "")
    assert other.code == 1
    assert "+  replicas: 7" in other.out


def test_patch_knows_three_ways(kubectl: Kubectl) -> None:
    kubectl.says(f"create -f {kubectl.file(deployment('d'))}")
    env = {"name": "c", "env": [{"name": "B", "value": "2"}]}
    strategic = {"spec": {"template": {"spec": {"containers": [env]}}}}
    kubectl.says("patch deployment d -p", json.dumps(strategic))
    kubectl.says("patch deployment d --type=merge -p", '{"spec":{"replicas":5}}')
    kubectl.says(
        "patch deployment d --type=json -p", '[{"op":"add","path":"/metadata/labels","value":{"x":"y"}}]'
    )
    found = kubectl.read("deployment d")
    assert {each["name"] for each in found["spec"]["template"]["spec"]["containers"][0]["env"]} == {"A", "B"}
    assert (found["spec"]["replicas"], found["metadata"]["labels"]) == (5, {"x": "y"})


def test_patch_of_status_leaves_the_spec_alone(kubectl: Kubectl) -> None:
    kubectl.says(f"create -f {kubectl.file(gang('g'))}")
    patch = {"status": {"phase": "Up"}, "spec": {"minMember": 4}}
    kubectl.says("patch gang g --type=merge --subresource=status -p", json.dumps(patch))
    found = kubectl.read("gang g")
    assert (found["status"]["phase"], found["spec"]["minMember"]) == ("Up", 2)
    assert kubectl("get gang g --no-headers").words[0][:3] == ["g", "2", "Up"]


def test_patch_that_breaks_a_rule_is_refused_with_its_message(kubectl: Kubectl) -> None:
    kubectl.says(f"create -f {kubectl.file(gang('g'))}")
    complaint = kubectl.refuses("patch gang g --type=merge -p", '{"spec":{"minMember":99}}')
    assert "minMember must be <= replicas" in complaint
    assert "queue is immutable" in kubectl.refuses("patch gang g --type=merge -p", '{"spec":{"queue":"x"}}')


def test_replace_changes_the_whole_object(kubectl: Kubectl) -> None:
    kubectl.says(f"create -f {kubectl.file(deployment('d'))}")
    assert (
        kubectl.says(f"replace -f {kubectl.file(deployment('d', replicas=3))}")
        == "deployment.apps/d replaced"
    )
    assert kubectl.read("deployment d")["spec"]["replicas"] == 3


def test_label_and_annotate_write_metadata(kubectl: Kubectl) -> None:
    kubectl.says("create configmap c")
    kubectl.says("label configmap c x=y")
    kubectl.says("annotate configmap c note=this")
    assert "already has a value" in kubectl.refuses("label configmap c x=z")
    kubectl.says("label configmap c x=z --overwrite")
    meta = kubectl.read("configmap c")["metadata"]
    assert (meta["labels"], meta["annotations"]) == ({"x": "z"}, {"note": "this"})


def test_scale_works_for_built_in_and_custom_kinds(kubectl: Kubectl) -> None:
    kubectl.says(f"create -f {kubectl.file(deployment('d'), gang('g'))}")
    assert kubectl.says("scale deployment d --replicas=6") == "deployment.apps/d scaled"
    assert kubectl.says("scale gang g --replicas=7") == "gang.sched.example.com/g scaled"
    assert kubectl.read("deployment d")["spec"]["replicas"] == 6
    assert kubectl.read("gang g")["spec"]["replicas"] == 7
    assert "Expected replicas to be 1" in kubectl.refuses("scale gang g --replicas=2 --current-replicas=1")


def test_set_image_and_rollout_speak_of_the_deployment(kubectl: Kubectl) -> None:
    kubectl.says(f"create -f {kubectl.file(deployment('d'))}")
    kubectl.says("set image deployment/d c=busybox:9")
    assert kubectl.says("get deployment d -o jsonpath={..image}") == "busybox:9"
    status = {
        "status": {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}
    }
    kubectl.says("patch deployment d --subresource=status --type=merge -p", json.dumps(status))
    assert "successfully rolled out" in kubectl.says("rollout status deployment/d --timeout=5s")


# --- waiting and deleting


def test_wait_knows_conditions_values_and_deletion(kubectl: Kubectl) -> None:
    kubectl.says(f"create -f {kubectl.file(gang('g'))}")
    status = {"status": {"phase": "Up", "conditions": [{"type": "Ready", "status": "True"}]}}
    kubectl.says("patch gang g --type=merge --subresource=status -p", json.dumps(status))
    assert kubectl.says("wait --for=condition=Ready gang/g --timeout=5s").endswith("condition met")
    assert kubectl.says("wait --for=jsonpath={.status.phase}=Up gang/g --timeout=5s").endswith(
        "condition met"
    )
    kubectl.says("delete gang g --wait=false")
    assert kubectl("wait --for=delete gang/g --timeout=5s").code == 0
    assert "not found" in kubectl.refuses("get gang g")


@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
def test_delete_treats_dependents_as_it_is_told(kubectl: Kubectl, cascade: str) -> None:
    kubectl.says("create configmap owner")
    uid = kubectl.says("get configmap owner -o jsonpath={.metadata.uid}")
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": uid,
        "blockOwnerDeletion": True,
    }
    child = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "child", "ownerReferences": [reference]},
    }
    kubectl.says(f"create -f {kubectl.file(child)}")
    kubectl.says(f"delete configmap owner --cascade={cascade} --timeout=20s")
    if cascade == "orphan":
        assert "ownerReferences" not in kubectl.read("configmap child")["metadata"]
    else:
        assert kubectl("wait --for=delete configmap/child --timeout=20s").code == 0
        assert "not found" in kubectl.refuses("get configmap child")


def test_delete_waits_for_a_running_pod_and_can_be_forced(kubectl: Kubectl) -> None:
    kubectl.says(f"create -f {kubectl.file(pod('a'), pod('b'))}")
    kubectl.says("wait pod --all --for=condition=Ready --timeout=30s")
    assert 'pod "a" deleted' in kubectl.says("delete pod a --timeout=30s")
    assert "force deleted" in kubectl.says("delete pod b --force --grace-period=0")
    assert kubectl.says("get pods -o name") == ""


def test_delete_by_label_takes_only_what_matches(kubectl: Kubectl) -> None:
    for name in ("a", "b"):
        kubectl.says(f"create configmap {name}")
    kubectl.says("label configmap a doomed=yes")
    kubectl.says("delete configmap -l doomed=yes")
    assert kubectl.says("get configmap a b -o name --ignore-not-found") == "configmap/b"


def test_delete_of_a_namespace_takes_everything_along(kubectl: Kubectl) -> None:
    name = f"{kubectl.namespace}-x"
    kubectl.says(f"create namespace {name}")
    kubectl.says(f"-n {name} create configmap c")
    kubectl.says(f"delete namespace {name} --timeout=20s")
    assert "not found" in kubectl.refuses(f"get namespace {name}")


# --- typed clients: these bodies are protobuf


CREATED = {
    "configmap": ("create configmap x --from-literal=a=b", "configmap x", "{.data.a}", "b"),
    "secret": ("create secret generic x --from-literal=a=b", "secret x", "{.data.a}", "Yg=="),
    "service account": ("create serviceaccount x", "serviceaccount x", "{.metadata.name}", "x"),
    "job": ("create job x --image=busybox", "job x", "{.spec.backoffLimit}", "6"),
    "deployment": (
        "create deployment x --image=busybox --replicas=2",
        "deployment x",
        "{.spec.replicas}",
        "2",
    ),
    "role": ("create role x --verb=get --resource=pods", "role x", "{.rules[0].resources[0]}", "pods"),
    "role binding": (
        "create rolebinding x --role=x --user=ann",
        "rolebinding x",
        "{.subjects[0].name}",
        "ann",
    ),
    "quota": ("create quota x --hard=pods=5", "quota x", "{.spec.hard.pods}", "5"),
    "service": (
        "create service clusterip x --tcp=80:8080",
        "service x",
        "{.spec.ports[0].targetPort}",
        "8080",
    ),
    "budget": ("create pdb x --min-available=1 --selector=a=b", "pdb x", "{.spec.minAvailable}", "1"),
}


@pytest.mark.parametrize(("command", "what", "path", "want"), CREATED.values(), ids=CREATED)
def test_create_makes(kubectl: Kubectl, command: str, what: str, path: str, want: str) -> None:
    assert kubectl.says(command).endswith("/x created")
    assert kubectl.says(f"get {what} -o", f"jsonpath={path}") == want


def test_create_makes_priority_classes(kubectl: Kubectl) -> None:
    name = f"pc-{kubectl.namespace}"
    kubectl.says(f"create priorityclass {name} --value=10")
    assert kubectl.says(f"get priorityclass {name} -o jsonpath={{.value}}") == "10"
    kubectl.says(f"delete priorityclass {name}")


def test_create_twice_is_an_error_that_says_so(kubectl: Kubectl) -> None:
    kubectl.says("create configmap x")
    complaint = kubectl.refuses("create configmap x")
    assert "(AlreadyExists)" in complaint or "already exists" in complaint


def test_create_token_gives_one_that_the_server_knows(kubectl: Kubectl) -> None:
    kubectl.says("create serviceaccount robot")
    token = kubectl.says("create token robot")
    assert f"system:serviceaccount:{kubectl.namespace}:robot" in kubectl.says(
        "auth whoami", f"--token={token}"
    )


def test_auth_tells_who_may_what(kubectl: Kubectl) -> None:
    assert kubectl.says("auth can-i create pods") == "yes"
    assert kubectl("auth can-i create pods --as=nobody").out == "no"
    kubectl.says("create role reader --verb=list --resource=pods")
    kubectl.says("create rolebinding reader --role=reader --user=ann")
    assert kubectl("auth can-i list pods --as=ann").out == "yes"
    assert 'User "ann" cannot list resource "configmaps"' in kubectl.refuses("get configmaps --as=ann")


# --- nodes


def test_cordon_and_drain_empty_a_node(kubectl: Kubectl) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": kubectl.namespace}}
    kubectl.says(f"create -f {kubectl.file(node)}")
    placed = pod("p", nodeName=kubectl.namespace)
    kubectl.says(f"create -f {kubectl.file(placed)}")
    kubectl.says("wait pod/p --for=condition=Ready --timeout=30s")
    drained = kubectl.says(f"drain {kubectl.namespace} --force --timeout=30s")
    assert f"node/{kubectl.namespace} drained" in drained
    assert "not found" in kubectl.refuses("get pod p")
    assert "SchedulingDisabled" in kubectl.says(f"get node {kubectl.namespace}")
    kubectl.says(f"uncordon {kubectl.namespace}")
    assert "unschedulable" not in kubectl.read(f"node {kubectl.namespace}")["spec"]
    kubectl.says(f"taint node {kubectl.namespace} a=b:NoSchedule")
    assert kubectl.read(f"node {kubectl.namespace}")["spec"]["taints"][0]["key"] == "a"
    kubectl.says(f"delete node {kubectl.namespace}")


# --- Grove's own kinds


def test_groves_kinds_answer_to_their_short_names_with_columns(kubectl: Kubectl) -> None:
    template = {"spec": {"roleName": "r", "replicas": 2, "podSpec": pod("x")["spec"]}, "name": "worker"}
    made = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "s"},
        "spec": {"replicas": 1, "template": {"cliques": [template]}},
    }
    assert kubectl.says(f"apply -f {kubectl.file(made)}") == "podcliqueset.grove.io/s created"
    header, row = kubectl("get pcs").words
    assert (header[0], row[0]) == ("NAME", "s")
    assert "AGE" in header
    assert kubectl.says("get pcs,pclq,pg -o name") == "podcliqueset.grove.io/s"
    assert "FIELD: cliques" in kubectl.says("explain pcs.spec.template.cliques")


# --- kinds that only OpenAPI v2 leads to


def test_apply_of_a_list_makes_what_is_in_it(kubectl: Kubectl) -> None:
    items = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"a": "b"}},
        {**pod("two"), "apiVersion": "v1", "kind": "Pod"},
        {**gang("three"), "apiVersion": "sched.example.com/v1", "kind": "Gang"},
    ]
    file = kubectl.file({"apiVersion": "v1", "kind": "List", "items": items})
    kubectl.says(f"apply -f {file}")
    assert kubectl.says("get configmap/one pod/two gang/three -o name").splitlines() == [
        "configmap/one",
        "pod/two",
        "gang.sched.example.com/three",
    ]


def test_apply_of_a_list_names_the_field_that_a_kind_in_it_does_not_have(kubectl: Kubectl) -> None:
    wrong = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "dta": {"a": "b"}}
    file = kubectl.file({"apiVersion": "v1", "kind": "List", "items": [wrong]})
    assert 'unknown field "dta"' in kubectl.refuses(f"apply -f {file}")
