"""The tree of a set, drawn from given objects: what is where, and why a gang does not run."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from grove.api import kinds, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.api.scaling_group import PodCliqueScalingGroup
from grove.cli.treeview import Node, as_manifest, lines, nodes
from grove.meta import Manifest
from grove.testing import make
from grove.view.forest import forest as forest_of
from grove.view.pods import ShownPod
from grove.view.reasons import reasons_of_gang
from grove.view.world import World

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SET = "train"
GANG = "train-0"
CLIQUE = "train-0-worker"


def condition(type: str, status: str, message: str = "", reason: str = "Because") -> Manifest:
    return {"type": type, "status": status, "reason": reason, "message": message}


def gang(phase: str, *conditions: Manifest) -> PodGang:
    manifest = make.gang_manifest(
        GANG,
        {CLIQUE: 2},
        labels={
            **labels.owned_by(SET),
            labels.SCHEDULER_BACKEND: "default",
            labels.SET_REPLICA_INDEX: "0",
        },
    )
    manifest["status"] = {"phase": phase, "conditions": list(conditions)}
    return make.view(PodGang, manifest)


def pod(name: str, *, node: str = "", gates: Sequence[str] = (), ready: bool = False) -> Manifest:
    spec: Manifest = {"nodeName": node, "schedulingGates": [{"name": gate} for gate in gates]}
    manifest = make.object_manifest(
        kinds.PODS,
        name,
        spec,
        labels={**labels.owned_by(SET), labels.POD_GANG: GANG, labels.POD_CLIQUE: CLIQUE},
        owner=(make.clique(CLIQUE, 2), kinds.CLIQUES),
    )
    manifest["status"] = {"phase": "Running" if ready else "Pending"}
    if ready:
        manifest["status"]["conditions"] = [condition("Ready", "True")]
    return manifest


def world(the_gang: PodGang, *pods: Manifest) -> World:
    marks = {**labels.owned_by(SET), labels.POD_GANG: GANG}
    cliqueset = make.object_manifest(kinds.CLIQUESETS, SET, {"replicas": 1, "template": {"cliques": []}})
    cliqueset["status"] = {"observedGeneration": 1, "availableReplicas": 0, "scheduledReplicas": 0}
    clique = make.object_manifest(
        kinds.CLIQUES, CLIQUE, {"replicas": 2, "minAvailable": 2, "podSpec": {}}, labels=marks
    )
    podgroup: Manifest = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "train-0-2w3e4r5t6z", "ownerReferences": [{"uid": the_gang.uid}]},
    }
    standalone: Manifest = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "other", "ownerReferences": [{"uid": "another"}]},
    }
    return World(
        [make.view(PodCliqueSet, cliqueset)],
        [the_gang],
        [make.view(PodClique, clique)],
        [make.view(Pod, each) for each in pods],
        [standalone, podgroup],
    )


def forest(found: World) -> list[Node]:
    return nodes(forest_of(found, now=NOW))


def why_not(the_gang: PodGang) -> tuple[str, ...]:
    return tuple(str(reason) for reason in reasons_of_gang(the_gang))


def drawing(tree: Node, *, plain: bool = False) -> str:
    return "\n".join(lines(tree, plain=plain))


def test_a_running_gang_is_drawn_with_its_objects_cliques_and_nodes() -> None:
    (tree,) = forest(world(gang("Running"), pod("a", node="n1", ready=True), pod("b", node="n2", ready=True)))
    assert drawing(tree) == "\n".join(
        [
            "PodCliqueSet default/train  0 of 1 available  0 of 1 gangs placed",
            "└─ PodGang train-0  replica 0  Running  2 of 2 pods placed  2 ready  needs 2  backend default",
            "   ├─ PodGroup train-0-2w3e4r5t6z  scheduling.k8s.io/v1alpha2",
            "   └─ PodClique train-0-worker  2 of 2 ready",
            "      ├─ Pod a  Running  on n1",
            "      └─ Pod b  Running  on n2",
        ]
    )


def test_a_gang_that_cannot_be_placed_says_why_beside_itself() -> None:
    stuck = gang(
        "Pending",
        condition("Initialized", "True"),
        condition("Scheduled", "False", "0/4 nodes have\n enough GPUs"),
        condition("Ready", "False", "0 of 2 ready"),
    )
    (tree,) = forest(world(stuck, pod("a"), pod("b")))
    assert why_not(stuck) == ("not placed: 0/4 nodes have enough GPUs",)
    shown = drawing(tree).splitlines()
    position = next(index for index, line in enumerate(shown) if "PodGang" in line)
    assert shown[position + 1].strip("│ ") == "why not: not placed: 0/4 nodes have enough GPUs"


def test_a_gated_pod_says_behind_what() -> None:
    waiting = gang("Pending", condition("Initialized", "False", "1 of 2 pods exist"))
    (tree,) = forest(world(waiting, pod("a", gates=["scheduling.k8s.io/workload"])))
    assert "Pod a  Gated  behind scheduling.k8s.io/workload" in drawing(tree)
    assert why_not(waiting) == ("waits for its pods: 1 of 2 pods exist",)


def test_the_cause_is_told_before_the_symptom() -> None:
    broken = gang(
        "Pending",
        condition("Initialized", "False", "2 of 2 pods exist"),
        condition("Scheduled", "False", "install KAI Scheduler", reason="PreconditionMissing"),
    )
    assert why_not(broken) == ("not submitted to its scheduler: install KAI Scheduler",)


def test_a_reason_that_was_given_wins_over_a_step_of_which_nobody_spoke() -> None:
    stuck = gang("Pending", condition("Scheduled", "False", "0/4 nodes are available"))
    assert why_not(stuck) == ("not placed: 0/4 nodes are available",)


def test_a_running_gang_still_tells_what_it_lost() -> None:
    lossy = gang(
        "Running",
        condition("GangGuarantee", "False", "the cluster serves no gang API"),
        condition("TranslationLoss", "True", "topology-preferred approximated"),
    )
    assert why_not(lossy) == (
        "no gang guarantee: the cluster serves no gang API",
        "not fully expressible for its scheduler: topology-preferred approximated",
    )
    (tree,) = forest(world(lossy))
    shown = drawing(tree)
    assert "note: no gang guarantee: the cluster serves no gang API" in shown
    assert "why not" not in shown, "it runs"


def test_the_drawing_has_a_form_for_terminals_without_line_characters() -> None:
    (tree,) = forest(world(gang("Running"), pod("a", node="n1", ready=True)))
    shown = drawing(tree, plain=True)
    assert shown.isascii()
    assert "`- PodGang train-0" in shown


def test_the_same_tree_is_data_for_programs() -> None:
    (tree,) = forest(world(gang("Pending"), pod("a", node="n1", ready=True)))
    data = as_manifest(tree)
    (the_gang,) = data["children"]
    assert (the_gang["phase"], the_gang["placed"], the_gang["minimum"]) == ("Pending", 1, 2)
    assert the_gang["why"] == ["waits for its pods: no reason reported yet"]
    clique = the_gang["children"][1]
    assert clique["children"] == [
        {"kind": "Pod", "name": "a", "phase": "Running", "ready": True, "hostname": "", "node": "n1"}
    ]


def test_a_set_that_no_operator_has_seen_says_so() -> None:
    manifest = make.object_manifest(kinds.CLIQUESETS, SET, {"replicas": 1, "template": {"cliques": []}})
    (tree,) = forest(World([make.view(PodCliqueSet, manifest)]))
    assert [str(reason) for reason in tree.why] == ["no operator has reconciled it yet"]


def shown(name: str, **status: object) -> ShownPod:
    manifest = pod(name, node="n1")
    manifest["status"] = {"phase": "Running", **status}
    return make.view(ShownPod, manifest)


def container(reason: str, message: str = "", **more: object) -> Manifest:
    return {
        "name": "main",
        "ready": False,
        "state": {"waiting": {"reason": reason, "message": message}},
        **more,
    }


def test_a_container_that_cannot_run_is_shown_as_such_with_its_message() -> None:
    crashing = container(
        "CrashLoopBackOff", "back-off 5m0s restarting", lastState={"terminated": {"exitCode": 137}}
    )
    pulling = container("ImagePullBackOff", 'Back-off pulling image "nowhere"')
    pods = [
        shown("a", containerStatuses=[crashing]),
        shown("b", phase="Pending", containerStatuses=[pulling]),
        shown("c", initContainerStatuses=[container("CreateContainerConfigError")]),
        shown("d", phase="Pending", containerStatuses=[container("ContainerCreating")]),
        shown("e", containerStatuses=[{"name": "main", "state": {"terminated": {"exitCode": 1}}}]),
    ]
    found = world(gang("Starting"))
    (tree,) = forest(replace(found, pods=pods))
    drawn = drawing(tree, plain=True)
    for line in (
        "Pod a  CrashLoopBackOff  on n1",
        "why not: container main: back-off 5m0s restarting; it ended with exit code 137",
        "Pod b  ImagePullBackOff  on n1",
        'why not: container main: Back-off pulling image "nowhere"',
        "Pod c  CreateContainerConfigError  on n1",
        "why not: container main: CreateContainerConfigError",
        "Pod d  Starting  on n1",
        "Pod e  Error  on n1",
        "why not: container main: ended with exit code 1",
    ):
        assert line in drawn


def with_a_scaled_gang() -> World:
    """A gang that cannot be placed, with a scaling group of two replicas of which one is a scaled gang."""
    group = f"{GANG}-decode"
    stuck = gang(
        "Pending",
        condition("Initialized", "True"),
        condition("Scheduled", "False", "0/4 nodes are available"),
    )
    waiting = make.gang_manifest(
        f"{group}-0",
        {f"{group}-1-leader": 1},
        labels={
            **labels.owned_by(SET),
            labels.BASE_POD_GANG: GANG,
            labels.SET_REPLICA_INDEX: "0",
            labels.SCALING_GROUP: group,
            labels.SCALING_GROUP_REPLICA_INDEX: "1",
            labels.SCHEDULER_BACKEND: "default",
        },
    )
    said = [
        condition("Initialized", "True"),
        condition("Scheduled", "False", f"its base gang {GANG} must be placed first", "WaitingForBaseGang"),
    ]
    waiting["status"] = {"phase": "Pending", "conditions": said}
    members = [
        make.object_manifest(
            kinds.CLIQUES,
            name,
            {"replicas": 1, "minAvailable": 1, "podSpec": {}},
            labels={**labels.owned_by(SET), labels.POD_GANG: of, labels.SCALING_GROUP: group},
        )
        for name, of in ((f"{group}-0-leader", GANG), (f"{group}-1-leader", f"{group}-0"))
    ]
    the_group = make.object_manifest(
        kinds.SCALING_GROUPS,
        group,
        {"replicas": 2, "minAvailable": 1, "cliqueNames": ["leader"]},
        labels={**labels.owned_by(SET), labels.SET_REPLICA_INDEX: "0"},
    )
    found = world(stuck, pod("a"))
    return replace(
        found,
        gangs=[*found.gangs, make.view(PodGang, waiting)],
        cliques=[*found.cliques, *(make.view(PodClique, each) for each in members)],
        scaling_groups=[make.view(PodCliqueScalingGroup, the_group)],
    )


def test_scaling_groups_and_scaled_gangs_are_drawn_below_their_base_gang() -> None:
    (tree,) = forest(with_a_scaled_gang())
    assert drawing(tree) == "\n".join(
        [
            "PodCliqueSet default/train  0 of 1 available  0 of 2 gangs placed",
            "└─ PodGang train-0  replica 0  Pending  0 of 3 pods placed  0 ready  needs 2  backend default",
            "   │  why not: not placed: 0/4 nodes are available",
            "   ├─ PodGroup train-0-2w3e4r5t6z  scheduling.k8s.io/v1alpha2",
            "   ├─ PodClique train-0-worker  0 of 2 ready",
            "   │  └─ Pod a  Pending",
            "   ├─ PodCliqueScalingGroup train-0-decode  0 of 2 available  needs 1",
            "   │  └─ PodClique train-0-decode-0-leader  0 of 1 ready",
            "   └─ PodGang train-0-decode-0  replica 1 of train-0-decode  Pending  0 of 1 pods placed  0 ready"
            "  needs 1  backend default",
            "      │  why not: not placed: its base gang train-0 must be placed first",
            "      └─ PodClique train-0-decode-1-leader  0 of 1 ready",
        ]
    )


def test_a_scaled_gang_is_data_with_the_replica_that_it_is() -> None:
    (tree,) = forest(with_a_scaled_gang())
    base = as_manifest(tree)["children"][0]
    assert (base["replica"], "scalingGroup" in base) == (0, False)
    *_, group, scaled = base["children"]
    assert (group["kind"], group["replicas"], group["availableReplicas"], group["minimum"]) == (
        "PodCliqueScalingGroup",
        2,
        0,
        1,
    )
    assert (scaled["replica"], scaled["scalingGroup"], scaled["scalingGroupReplica"]) == (
        0,
        "train-0-decode",
        1,
    )
    assert scaled["why"] == ["not placed: its base gang train-0 must be placed first"]


def test_a_gang_without_a_set_is_a_tree_of_its_own_with_its_pods() -> None:
    solo = make.view(PodGang, make.gang_manifest("solo", {"solo-a": 1}, namespace="lab"))
    marks = {labels.POD_GANG: "solo", labels.POD_CLIQUE: "solo-a"}
    one = make.view(
        Pod, make.object_manifest(kinds.PODS, "one", {"nodeName": "n1"}, labels=marks, namespace="lab")
    )
    podgroup: Manifest = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "solo-m1", "ownerReferences": [{"uid": solo.uid}]},
    }
    (tree,) = forest(World([], [solo], [], [one], [podgroup]))
    assert (tree.kind, tree.name) == ("PodGang", "lab/solo")
    assert [(child.kind, child.name) for child in tree.children] == [("PodGroup", "solo-m1"), ("Pod", "one")]


def test_a_gang_that_carries_a_sets_label_by_chance_is_not_drawn_below_the_set() -> None:
    found = world(gang("Running"))
    stranger = make.view(PodGang, make.gang_manifest("stranger", {"s": 1}, labels={labels.PART_OF: SET}))
    trees = forest(replace(found, gangs=[*found.gangs, stranger]))
    assert [(tree.kind, tree.name) for tree in trees] == [
        ("PodCliqueSet", "default/train"),
        ("PodGang", "default/stranger"),
    ]
