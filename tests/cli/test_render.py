"""`grove render`: the objects of a set, and one clear sentence for everything that is wrong with it."""

import copy
import io
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from grove.backends.registry import BUILT_INS
from grove.meta import Manifest

from .conftest import Grove, Ran

GATES = {name: make().scheduling_gate for name, make in BUILT_INS.items()}


def cliqueset(**spec: Any) -> Manifest:
    """A small set that is valid unless a test says otherwise."""
    containers = [{"name": "main", "image": "busybox:1.37"}]
    cliques = [{"name": "worker", "spec": {"replicas": 2, "podSpec": {"containers": containers}}}]
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"replicas": 1, "template": {"cliques": cliques}, **spec},
    }


def items(ran: Ran) -> list[Manifest]:
    document = yaml.safe_load(ran.out)
    assert document["kind"] == "List"
    found: list[Manifest] = document["items"]
    return found


def kinds(found: list[Manifest]) -> Counter[str]:
    return Counter(f"{item['apiVersion']} {item['kind']}" for item in found)


def of_kind(found: list[Manifest], kind: str) -> list[Manifest]:
    return [item for item in found if item["kind"] == kind]


def test_a_native_set_becomes_service_gang_podgroup_cliques_and_gated_pods(
    grove: Grove, examples: Path
) -> None:
    ran = grove("render", "-f", str(examples / "disaggregated.yaml"))
    found = items(ran)
    assert ran.code == 0
    # Pods above the minimum wait behind their gates, so nothing is lost in translation.
    assert ran.err == ""
    assert kinds(found) == {
        "apps/v1 ControllerRevision": 1,
        "v1 Service": 1,
        "scheduler.grove.io/v1alpha1 PodGang": 1,
        "scheduling.k8s.io/v1alpha2 PodGroup": 1,
        "grove.io/v1alpha1 PodClique": 2,
        "v1 Pod": 5,
    }
    pods = of_kind(found, "Pod")
    assert {pod["metadata"]["labels"]["grove.io/podclique"] for pod in pods} == {
        "disaggregated-0-prefill",
        "disaggregated-0-decode",
    }
    (podgroup,) = of_kind(found, "PodGroup")
    for pod in pods:
        assert [gate["name"] for gate in pod["spec"]["schedulingGates"]] == [GATES["default"]]
    links = [pod["spec"]["schedulingGroup"] for pod in pods if "schedulingGroup" in pod["spec"]]
    # The fifth pod is one that the gang can do without: it is placed when there is room.
    assert links == [{"podGroupName": podgroup["metadata"]["name"]}] * 4


def test_the_gang_lists_exactly_the_pods_that_point_back_to_it(grove: Grove, examples: Path) -> None:
    found = items(grove("render", "-f", str(examples / "disaggregated.yaml")))
    (gang,) = of_kind(found, "PodGang")
    listed = {ref["name"] for group in gang["spec"]["podgroups"] for ref in group["podReferences"]}
    assert listed == {pod["metadata"]["name"] for pod in of_kind(found, "Pod")}
    assert {pod["metadata"]["labels"]["grove.io/podgang"] for pod in of_kind(found, "Pod")} == {
        gang["metadata"]["name"]
    }


def test_a_kai_set_becomes_one_podgroup_in_its_queue_that_the_pods_name(grove: Grove, examples: Path) -> None:
    found = items(grove("render", "-f", str(examples / "leader-workers-kai.yaml")))
    (podgroup,) = of_kind(found, "PodGroup")
    assert podgroup["apiVersion"] == "scheduling.run.ai/v2alpha2"
    assert podgroup["spec"]["queue"] == "default-queue"
    assert podgroup["spec"]["minMember"] == 4
    for pod in of_kind(found, "Pod"):
        assert pod["spec"]["schedulerName"] == "kai-scheduler"
        assert [gate["name"] for gate in pod["spec"]["schedulingGates"]] == [GATES["kai"]]
        assert pod["metadata"]["annotations"]["pod-group-name"] == podgroup["metadata"]["name"]


def test_the_topology_in_the_file_becomes_node_labels(grove: Grove, examples: Path) -> None:
    found = items(grove("render", "-f", str(examples / "topology.yaml")))
    (gang,) = of_kind(found, "PodGang")
    assert gang["spec"]["topologyConstraint"] == {
        "packConstraint": {"required": "topology.kubernetes.io/rack"}
    }
    (podgroup,) = of_kind(found, "PodGroup")
    assert podgroup["spec"]["schedulingConstraints"] == {"topology": [{"key": "topology.kubernetes.io/rack"}]}


def test_kai_gets_its_own_topology_object_first(grove: Grove, examples: Path) -> None:
    found = items(grove("render", "-f", str(examples / "topology.yaml"), "--backend", "kai"))
    assert (found[0]["kind"], found[0]["metadata"]["name"]) == ("Topology", "datacenter")


@pytest.mark.parametrize(
    ("minor", "want"),
    [
        ("1.35", {"scheduling.k8s.io/v1alpha1 Workload"}),
        ("1.36", {"scheduling.k8s.io/v1alpha2 PodGroup"}),
        (
            "1.37",
            {
                "scheduling.k8s.io/v1beta1 PodGroup",
                "scheduling.k8s.io/v1alpha3 CompositePodGroup",
                "scheduling.k8s.io/v1beta1 Workload",
            },
        ),
        ("none", set()),
    ],
)
def test_the_native_objects_are_those_of_the_kubernetes_minor(
    grove: Grove, examples: Path, minor: str, want: set[str]
) -> None:
    found = items(grove("render", "-f", str(examples / "disaggregated.yaml"), "--kubernetes", minor))
    native = {name for name in kinds(found) if name.startswith("scheduling.k8s.io/")}
    assert native <= want
    assert bool(native) == bool(want)


def test_what_is_lost_is_told_on_standard_error_and_as_a_comment(grove: Grove, examples: Path) -> None:
    ran = grove("render", "-f", str(examples / "disaggregated.yaml"), "--kubernetes", "none")
    assert ran.code == 0
    assert "PodGang disaggregated-0: gang not expressible" in ran.err
    assert any(line.startswith("# ") and "gang not expressible" in line for line in ran.out.splitlines())


def test_all_backends_come_in_one_list_that_says_whose_each_item_is(grove: Grove, examples: Path) -> None:
    ran = grove("render", "-f", str(examples / "disaggregated.yaml"), "--backend", "all", "-o", "json")
    found = json.loads(ran.out)["items"]
    whose = [item["metadata"]["annotations"]["grove.io/scheduler-backend"] for item in found]
    assert whose == sorted(whose)
    assert set(whose) == set(BUILT_INS)
    for pod in of_kind(found, "Pod"):
        backend = pod["metadata"]["annotations"]["grove.io/scheduler-backend"]
        assert pod["spec"]["schedulingGates"] == [{"name": GATES[backend]}]


def test_a_backend_that_refuses_the_set_does_not_hide_the_others(grove: Grove, examples: Path) -> None:
    ran = grove("render", "-f", str(examples / "topology.yaml"), "--backend", "all", "--kubernetes", "1.35")
    assert ran.code == 0
    assert "default refuses the set: " in ran.err
    assert {item["metadata"]["annotations"]["grove.io/scheduler-backend"] for item in items(ran)} == {
        "kai",
        "volcano",
    }


def test_rendering_twice_gives_the_same_text(grove: Grove, examples: Path) -> None:
    once = grove("render", "-f", str(examples / "disaggregated.yaml"))
    assert once.out == grove("render", "-f", str(examples / "disaggregated.yaml")).out


def test_replicas_are_numbered_and_none_is_shared(grove: Grove, tmp_path: Path) -> None:
    found = items(rendered(grove, tmp_path, cliqueset(replicas=3)))
    assert [gang["metadata"]["name"] for gang in of_kind(found, "PodGang")] == [
        "train-0",
        "train-1",
        "train-2",
    ]
    assert len({pod["metadata"]["name"] for pod in of_kind(found, "Pod")}) == 6


def test_every_replica_is_rendered_however_many_there_are(grove: Grove, tmp_path: Path) -> None:
    found = items(rendered(grove, tmp_path, cliqueset(replicas=200)))
    names = [f"train-{index}" for index in range(200)]
    assert [gang["metadata"]["name"] for gang in of_kind(found, "PodGang")] == names
    assert kinds(found) == {
        "apps/v1 ControllerRevision": 1,
        "v1 Service": 200,
        "scheduler.grove.io/v1alpha1 PodGang": 200,
        "scheduling.k8s.io/v1alpha2 PodGroup": 200,
        "grove.io/v1alpha1 PodClique": 200,
        "v1 Pod": 400,
    }


def test_a_sleeping_set_renders_an_empty_list(grove: Grove, tmp_path: Path) -> None:
    assert items(rendered(grove, tmp_path, cliqueset(replicas=0))) == []


def test_standard_input_and_other_kinds_are_read_and_ignored(
    grove: Grove, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    monkeypatch.setattr("sys.stdin", io.StringIO(yaml.safe_dump_all([other, cliqueset()])))
    ran = grove("render", "-f", "-")
    assert ran.code == 0
    assert "ConfigMap" not in {item["kind"] for item in items(ran)}
    assert len(of_kind(items(ran), "Pod")) == 2


def test_a_list_is_opened(grove: Grove, tmp_path: Path) -> None:
    ran = rendered(grove, tmp_path, {"apiVersion": "v1", "kind": "List", "items": [cliqueset()]})
    assert [gang["metadata"]["name"] for gang in of_kind(items(ran), "PodGang")] == ["train-0"]


def rendered(grove: Grove, folder: Path, *documents: Manifest, backend: str = "") -> Ran:
    file = folder / "set.yaml"
    file.write_text(yaml.safe_dump_all([copy.deepcopy(each) for each in documents]))
    return grove("render", "-f", str(file), *(["--backend", backend] if backend else []))


@dataclass(frozen=True)
class Mistake:
    """A change to a valid set, and what the sentence about it must contain."""

    path: tuple[str | int, ...]
    value: object
    want: tuple[str, ...]


CLIQUE = ("spec", "template", "cliques", 0)
MISTAKES = {
    "a field nobody knows": Mistake(
        (*CLIQUE, "spec", "replcas"),
        3,
        ("spec.template.cliques[0].spec.replcas: unknown field; did you mean replicas?",),
    ),
    "a field in the wrong case": Mistake(
        (*CLIQUE, "spec", "minavailable"), 1, ("minavailable: unknown field; did you mean minAvailable?",)
    ),
    "negative replicas of the set": Mistake(("spec", "replicas"), -1, ("spec.replicas: ", "got -1")),
    "negative replicas of a clique": Mistake(
        (*CLIQUE, "spec", "replicas"), -2, ("spec.template.cliques[0].spec.replicas: ", "got -2")
    ),
    "replicas that are text": Mistake(
        ("spec", "replicas"), "many", ("spec.replicas: must be a whole number, not the text 'many'",)
    ),
    "no cliques": Mistake(("spec", "template", "cliques"), [], ("spec.template.cliques: at least one",)),
    "no name": Mistake(("metadata", "name"), "", ("metadata.name: ",)),
    "a name that is too long": Mistake(("metadata", "name"), "n" * 60, ("metadata.name: ",)),
    "a minimum above the replicas": Mistake(
        (*CLIQUE, "spec", "minAvailable"), 5, ("cliques[0].spec.minAvailable: ", "greater than replicas")
    ),
    "no container": Mistake(
        (*CLIQUE, "spec", "podSpec", "containers"), [], ("podSpec.containers: at least one container",)
    ),
    "a misspelt field of a container": Mistake(
        (*CLIQUE, "spec", "podSpec", "containers", 0, "imgae"),
        "x",
        ("cliques[0].spec.podSpec.containers[0].imgae: unknown field; did you mean image?",),
    ),
    "no image": Mistake(
        (*CLIQUE, "spec", "podSpec", "containers"),
        [{"name": "main"}],
        ("cliques[0].spec.podSpec.containers[0].image: Required value",),
    ),
    "a field of a container with the wrong type": Mistake(
        (*CLIQUE, "spec", "podSpec", "hostNetwork"),
        "yes please",
        ("cliques[0].spec.podSpec.hostNetwork: must be true or false, not the text 'yes please'",),
    ),
    "a scheduler nobody serves": Mistake(
        (*CLIQUE, "spec", "podSpec", "schedulerName"),
        "no-such-scheduler",
        ("schedulerName: ", "'no-such-scheduler'", "enabled:"),
    ),
    "a backend nobody serves": Mistake(
        ("metadata", "annotations"), {"grove.io/scheduler-backend": "slurm"}, ("'slurm'", "enabled:")
    ),
    "a topology that is not in the file": Mistake(
        ("spec", "template", "topologyConstraint"),
        {"topologyName": "rows", "pack": {"required": "rack"}},
        ('topologyConstraint.topologyName: ClusterTopologyBinding "rows" not found',),
    ),
    "another version of the kind": Mistake(
        ("apiVersion",), "grove.io/v2", ("apiVersion: must be grove.io/v1alpha1",)
    ),
    "no kind": Mistake(("kind",), "", ("kind: is required",)),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_sentence_with_file_and_field_and_no_output(
    grove: Grove, tmp_path: Path, mistake: Mistake
) -> None:
    wrong = cliqueset()
    place: Any = wrong
    for step in mistake.path[:-1]:
        place = place[step]
    place[mistake.path[-1]] = mistake.value
    ran = rendered(grove, tmp_path, wrong)
    assert (ran.code, ran.out) == (1, "")
    lines = ran.err.splitlines()
    assert all(line.startswith(f"{tmp_path / 'set.yaml'}: ") for line in lines)
    for want in mistake.want:
        assert want in ran.err


def test_two_cliques_of_one_name_are_refused(grove: Grove, tmp_path: Path) -> None:
    wrong = cliqueset()
    wrong["spec"]["template"]["cliques"] *= 2
    ran = rendered(grove, tmp_path, wrong)
    assert (ran.code, ran.out) == (1, "")
    assert "worker" in ran.err
    assert "spec.template.cliques" in ran.err


def test_every_wrong_document_is_told_by_its_number(grove: Grove, tmp_path: Path) -> None:
    wrong = cliqueset(replicas=-1)
    ran = rendered(grove, tmp_path, cliqueset(), wrong, wrong)
    assert (ran.code, ran.out) == (1, "")
    assert f"{tmp_path / 'set.yaml'}: document 2: spec.replicas: " in ran.err
    assert f"{tmp_path / 'set.yaml'}: document 3: spec.replicas: " in ran.err


FILES = {
    "broken YAML": ("a: b: c", "bad.yaml:1:5: is not valid YAML: "),
    "a key given twice": (
        "apiVersion: v1\nkind: A\nkind: B\n",
        "bad.yaml:3:1: is not valid YAML: key 'kind' is given twice",
    ),
    "a list instead of an object": ("- a\n", "must be an object with apiVersion and kind, not a list"),
    "nothing to render": ("apiVersion: v1\nkind: ConfigMap\n", "none of them a PodCliqueSet"),
    "an empty file": ("", "none of them a PodCliqueSet"),
}


@pytest.mark.parametrize(("text", "want"), FILES.values(), ids=FILES)
def test_a_file_that_cannot_be_used_is_told_in_one_line(
    grove: Grove, tmp_path: Path, text: str, want: str
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    ran = grove("render", "-f", str(file))
    assert (ran.code, ran.out) == (1, "")
    assert want in ran.err
    assert len(ran.err.splitlines()) == 1


def test_a_missing_file_is_named(grove: Grove, tmp_path: Path) -> None:
    ran = grove("render", "-f", str(tmp_path / "absent.yaml"))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"{tmp_path / 'absent.yaml'}: cannot be read: No such file or directory\n"


def test_dates_and_numbers_stay_what_the_author_wrote(grove: Grove, tmp_path: Path) -> None:
    dated = cliqueset()
    text = yaml.safe_dump(dated).replace("name: train", "name: train\n  labels: {day: 2026-01-01}")
    file = tmp_path / "dated.yaml"
    file.write_text(text)
    (gang,) = of_kind(items(grove("render", "-f", str(file))), "PodGang")
    assert gang["metadata"]["labels"]["day"] == "2026-01-01"


@pytest.mark.parametrize(
    "arguments",
    [
        ("render",),
        ("render", "-f", "x", "--kubernetes", "1.2"),
        ("render", "-f", "x", "--backend", "slurm"),
        ("render", "-f", "x", "-o", "xml"),
        ("nonsense",),
    ],
)
def test_wrong_usage_is_exit_code_2_and_nothing_on_standard_output(
    grove: Grove, arguments: tuple[str, ...]
) -> None:
    ran = grove(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert "Error: " in ran.err
