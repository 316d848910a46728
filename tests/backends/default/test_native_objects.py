"""Whole native objects per generation and mode, and the link that pods get to them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest
from tests.backends import clusters
from tests.backends.clusters import on
from tests.backends.default.gangs import (
    BACKEND,
    HOST,
    OF_SET,
    ONE_PACKED,
    OPTIONAL,
    PAIR,
    PER_PODGROUP,
    PLAIN_PAIR,
    RACK,
    SINGLE,
    TREE,
    ZONE,
)

from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import Capability, Cluster, Fidelity, GangSnapshot, Treatment
from grove.errors import InvalidConfiguration, Unsupported, Waiting
from grove.meta import Manifest
from grove.testing import make
from grove.testing.virtual_time import EPOCH


def meta(name: str, *, blocks: bool = True) -> Manifest:
    return {
        "name": name,
        "namespace": "default",
        "labels": {"app.kubernetes.io/managed-by": "grove-operator", "grove.io/podgang": "g"},
        "ownerReferences": [
            {
                "apiVersion": "scheduler.grove.io/v1alpha1",
                "kind": "PodGang",
                "name": "g",
                "uid": "u1",
                "controller": True,
                "blockOwnerDeletion": blocks,
            }
        ],
    }


def workload_135(name: str, podgroups: Sequence[Manifest]) -> Manifest:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha1",
        "kind": "Workload",
        "metadata": meta(name),
        "spec": {
            "controllerRef": {"apiGroup": "scheduler.grove.io", "kind": "PodGang", "name": "g"},
            "podGroups": list(podgroups),
        },
    }


def podgroup(version: str, name: str, minimum: int, **spec: object) -> Manifest:
    policy = {"gang": {"minCount": minimum}} if minimum else {"basic": {}}
    return {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "kind": "PodGroup",
        # Kubernetes keeps it while pods of it run: a gang that goes does not wait for it.
        "metadata": meta(name, blocks=False),
        "spec": {"schedulingPolicy": policy, **spec},
    }


def composite(name: str, children: int, template: str, **spec: object) -> Manifest:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "CompositePodGroup",
        "metadata": meta(name),
        "spec": {
            "workloadRef": {"workloadName": "g-r1", "templateName": template},
            "schedulingPolicy": {"gang": {"minGroupCount": children}},
            **spec,
        },
    }


def topology(key: str) -> Manifest:
    return {"topology": [{"key": key}]}


ALL: Manifest = {"all": {}}
HIGH: Manifest = {"disruptionMode": ALL, "priorityClassName": "high"}
TREE_OBJECTS: list[Manifest] = [
    {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": meta("g-r1"),
        "spec": {
            "controllerRef": {"apiGroup": "scheduler.grove.io", "kind": "PodGang", "name": "g"},
            "compositePodGroupTemplates": [
                {
                    "name": "root",
                    "schedulingPolicy": {"gang": {"minGroupCount": 2}},
                    "schedulingConstraints": topology(ZONE),
                    **HIGH,
                    "compositePodGroupTemplates": [
                        {
                            "name": "decode",
                            "schedulingPolicy": {"gang": {"minGroupCount": 2}},
                            "schedulingConstraints": topology(RACK),
                            **HIGH,
                            "podGroupTemplates": [
                                {"name": "leader", "schedulingPolicy": {"gang": {"minCount": 1}}, **HIGH},
                                {
                                    "name": "worker",
                                    "schedulingPolicy": {"gang": {"minCount": 3}},
                                    "schedulingConstraints": topology(HOST),
                                    **HIGH,
                                },
                            ],
                        }
                    ],
                    "podGroupTemplates": [
                        {"name": "frontend", "schedulingPolicy": {"gang": {"minCount": 1}}, **HIGH}
                    ],
                }
            ],
        },
    },
    composite("g-r1", 2, "root", schedulingConstraints=topology(ZONE), **HIGH),
    composite(
        "g-decode-r1",
        2,
        "decode",
        parentCompositePodGroupName="g-r1",
        schedulingConstraints=topology(RACK),
        **HIGH,
    ),
    podgroup(
        "v1beta1",
        "g-frontend-r1",
        1,
        parentCompositePodGroupName="g-r1",
        workloadRef={"workloadName": "g-r1", "templateName": "frontend"},
        **HIGH,
    ),
    podgroup(
        "v1beta1",
        "g-leader-r1",
        1,
        parentCompositePodGroupName="g-decode-r1",
        workloadRef={"workloadName": "g-r1", "templateName": "leader"},
        **HIGH,
    ),
    podgroup(
        "v1beta1",
        "g-worker-r1",
        3,
        parentCompositePodGroupName="g-decode-r1",
        workloadRef={"workloadName": "g-r1", "templateName": "worker"},
        schedulingConstraints=topology(HOST),
        **HIGH,
    ),
]


@dataclass(frozen=True)
class Case:
    gang: PodGang
    cluster: Cluster
    want: Sequence[Manifest]
    config: Manifest = field(default_factory=dict)


CASES = {
    "nothing served: nothing written": Case(PLAIN_PAIR, clusters.BARE, []),
    "1.35: one podgroup is a gang": Case(
        SINGLE,
        clusters.V135,
        [workload_135("g-r1", [{"name": "worker", "policy": {"gang": {"minCount": 4}}}])],
    ),
    "1.35: several podgroups are merged": Case(
        PLAIN_PAIR,
        clusters.V135,
        [workload_135("g-r1", [{"name": "gang", "policy": {"gang": {"minCount": 4}}}])],
    ),
    "1.35: flat by configuration": Case(
        OPTIONAL,
        clusters.V135,
        [
            workload_135(
                "g-r1",
                [
                    {"name": "leader", "policy": {"gang": {"minCount": 1}}},
                    {"name": "spare", "policy": {"basic": {}}},
                ],
            )
        ],
        {"mode": "Flat"},
    ),
    "1.36: no Workload": Case(SINGLE, clusters.V136_PLAIN, [podgroup("v1alpha2", "g-worker-r1", 4)]),
    "1.36: merged, with all that the gates keep": Case(
        PAIR,
        clusters.V136,
        [
            podgroup(
                "v1alpha2",
                "g-r1",
                4,
                schedulingConstraints=topology(RACK),
                disruptionMode="PodGroup",
                priorityClassName="high",
            )
        ],
    ),
    "1.36: a level of the only podgroup": Case(
        ONE_PACKED,
        clusters.V136,
        [podgroup("v1alpha2", "g-a-r1", 2, schedulingConstraints=topology(RACK), disruptionMode="PodGroup")],
    ),
    "1.36: flat by configuration, each podgroup with a level of its own": Case(
        PER_PODGROUP,
        clusters.V136,
        [
            podgroup(
                "v1alpha2", "g-a-r1", 2, schedulingConstraints=topology(RACK), disruptionMode="PodGroup"
            ),
            podgroup("v1alpha2", "g-b-r1", 1, disruptionMode="PodGroup"),
        ],
        {"mode": "Flat"},
    ),
    "1.37 without composites: merged": Case(
        PAIR,
        clusters.V137_TOPOLOGY,
        [podgroup("v1beta1", "g-r1", 4, schedulingConstraints=topology(RACK), **HIGH)],
    ),
    "1.37 without composites: flat by configuration": Case(
        OPTIONAL,
        clusters.V137_PLAIN,
        [
            podgroup("v1beta1", "g-leader-r1", 1, disruptionMode=ALL),
            podgroup("v1beta1", "g-spare-r1", 0, disruptionMode=ALL),
        ],
        {"mode": "Flat"},
    ),
    "1.37 with composites: the whole tree": Case(TREE, clusters.V137, TREE_OBJECTS),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_objects(case: Case) -> None:
    translation = BACKEND.translate(case.gang, on(case.cluster, **case.config))
    assert list(translation.manifests) == list(case.want)


def test_gangs_of_a_set_name_their_objects_after_their_cliques_and_are_part_of_the_set() -> None:
    [made] = BACKEND.translate(OF_SET, on(clusters.V137_PLAIN)).manifests
    assert made["metadata"]["name"] == "train-0-worker-r1"
    assert made["metadata"]["labels"]["app.kubernetes.io/part-of"] == "train"


def test_an_optional_podgroup_is_not_counted_among_the_children_that_a_tree_needs() -> None:
    root = BACKEND.translate(OPTIONAL, on(clusters.V137)).manifests[1]
    assert root["kind"] == "CompositePodGroup"
    assert root["spec"]["schedulingPolicy"] == {"gang": {"minGroupCount": 1}}


def test_more_than_eight_podgroups_are_spread_over_workloads_on_1_35() -> None:
    gang = make.gang("g", {f"role{index}": 1 for index in range(10)})
    context = on(clusters.V135, mode="Flat")
    made = BACKEND.translate(gang, context).manifests
    sizes = {each["metadata"]["name"]: len(each["spec"]["podGroups"]) for each in made}
    assert sizes == {"g-r1-w0": 8, "g-r1-w1": 2}
    pod = BACKEND.prepare_pod(make.pod_manifest("role9", 0, gang=gang), gang, context)
    assert pod["spec"]["workloadRef"] == {"name": "g-r1-w1", "podGroup": "role9"}


@pytest.mark.parametrize(
    ("minima", "want"),
    [
        ([1] * 20, 1),
        ([index % 3 + 1 for index in range(20)], 3),
        (list(range(1, 21)), 8),
        ([1] * 8, 8),
    ],
)
def test_more_than_eight_podgroups_share_templates_in_a_tree(minima: Sequence[int], want: int) -> None:
    gang = make.gang("g", {f"role{index}": minimum for index, minimum in enumerate(minima)})
    made = BACKEND.translate(gang, on(clusters.V137)).manifests
    [root] = made[0]["spec"]["compositePodGroupTemplates"]
    templates = [each["name"] for each in root["podGroupTemplates"]]
    used = {each["spec"]["workloadRef"]["templateName"] for each in made if each["kind"] == "PodGroup"}
    assert len(templates) == len(set(templates)) == want
    assert used == set(templates)


def test_more_than_eight_groups_share_templates_too() -> None:
    roles = {f"role{index}": index + 1 for index in range(20)}
    groups = [
        make.group(f"group{index}", [f"role{2 * index}", f"role{2 * index + 1}"]) for index in range(10)
    ]
    made = BACKEND.translate(make.gang("g", roles, groups=groups), on(clusters.V137)).manifests
    [root] = made[0]["spec"]["compositePodGroupTemplates"]
    known = {each["name"] for each in root["compositePodGroupTemplates"]}
    known |= {
        leaf["name"] for each in root["compositePodGroupTemplates"] for leaf in each["podGroupTemplates"]
    }
    assert len(root["compositePodGroupTemplates"]) == 8
    assert {each["spec"]["workloadRef"]["templateName"] for each in made[2:]} <= known
    assert len([each for each in made if each["kind"] == "CompositePodGroup"]) == 11


def test_template_names_are_unique_whatever_podgroups_are_called() -> None:
    gang = make.gang("g", {"root": 1, "x": 1}, groups=[make.group("x", ["x"])])
    made = BACKEND.translate(gang, on(clusters.V137)).manifests
    [root] = made[0]["spec"]["compositePodGroupTemplates"]
    [branch] = root["compositePodGroupTemplates"]
    named = [root["name"], branch["name"], *(each["name"] for each in root["podGroupTemplates"])]
    named += [each["name"] for each in branch["podGroupTemplates"]]
    assert sorted(named) == ["podgroup-root", "podgroup-x", "root", "x"]


def listing(gang: PodGang, pods: int) -> PodGang:
    """The gang with so many pods in the list of each podgroup."""
    manifest: Manifest = msgspec.to_builtins(gang)
    for group in manifest["spec"]["podgroups"]:
        names = [f"{group['name']}-{number}" for number in range(pods)]
        group["podReferences"] = [{"namespace": "default", "name": name, "uid": name} for name in names]
    return make.view(PodGang, manifest)


LOSSES: dict[str, tuple[PodGang, Cluster, Sequence[tuple[str, Fidelity]]]] = {
    "exact in a tree": (TREE, clusters.V137, []),
    "exact when merged": (PAIR, clusters.V136, []),
    "exact when merged, with pods above the minimum": (listing(PAIR, 5), clusters.V136, []),
    "exact on 1.35, with pods above the minimum": (listing(PLAIN_PAIR, 5), clusters.V135, []),
    "no gang at all": (
        PLAIN_PAIR,
        clusters.BARE,
        [
            (Capability.GANG, Fidelity.NOT_EXPRESSIBLE),
            (Capability.SUBGROUPS, Fidelity.NOT_EXPRESSIBLE),
        ],
    ),
    "preferred": (
        make.gang("g", {"a": 1}, preferred=RACK),
        clusters.V135,
        [(Capability.TOPOLOGY_PREFERRED, Fidelity.APPROXIMATED)],
    ),
    "reuse": (
        make.gang("g", {"a": 1}, reuse="old"),
        clusters.V137,
        [(Capability.REUSE, Fidelity.NOT_EXPRESSIBLE)],
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str) -> None:
    gang, cluster, want = LOSSES[name]
    account: Sequence[Treatment] = BACKEND.translate(gang, on(cluster)).treatments
    losses = [loss for loss in account if loss.fidelity is not Fidelity.ENFORCED]
    assert [(loss.property, loss.fidelity) for loss in losses] == list(want)
    assert all(loss.reason for loss in losses)


def test_that_podgroups_apart_do_not_wait_for_one_another_is_said_where_they_are_asked_for() -> None:
    account = BACKEND.translate(PER_PODGROUP, on(clusters.V136, mode="Flat")).treatments
    losses = [loss for loss in account if loss.fidelity is not Fidelity.ENFORCED]
    assert [(loss.property, loss.fidelity) for loss in losses] == [
        (Capability.HIERARCHY, Fidelity.APPROXIMATED)
    ]
    assert "nothing makes them wait for one another" in losses[0].reason


REFUSED: dict[str, tuple[PodGang, Cluster, str]] = {
    "topology on 1.35": (PAIR, clusters.V135, r"spec.topologyConstraint.packConstraint.required: .*1.35"),
    "topology without its gate": (
        PAIR,
        clusters.V136_PLAIN,
        "does not support topology constraints for groups here",
    ),
    "topology without any gang API": (PAIR, clusters.BARE, "kube-scheduler without gang scheduling"),
    "two levels on 1.36": (TREE, clusters.V136, r"spec.podgroups\[2\].topologyConstraint"),
    "a group's level on 1.36": (
        make.gang("g", {"a": 1, "b": 1, "c": 1}, groups=[make.group("ab", ["a", "b"], required=RACK)]),
        clusters.V136,
        r"spec.topologyConstraintGroupConfigs\[0\].topologyConstraint.packConstraint.required",
    ),
    "a level of one of several podgroups on 1.36": (
        PER_PODGROUP,
        clusters.V136,
        r"spec.podgroups\[0\].topologyConstraint.*do not wait for one another",
    ),
    "a level of one of several podgroups on 1.37 without composites": (
        PER_PODGROUP,
        clusters.V137_TOPOLOGY,
        r"spec.podgroups\[0\].topologyConstraint.*do not wait for one another",
    ),
    "a podgroup in two groups": (
        make.gang("g", {"a": 1, "b": 1}, groups=[make.group("x", ["a"]), make.group("y", ["a", "b"])]),
        clusters.V137,
        "is in the groups 'x' and 'y'",
    ),
    "a group of strangers": (
        make.gang("g", {"a": 1}, groups=[make.group("x", ["nobody"])]),
        clusters.V137,
        "names podgroup 'nobody'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_required_constraint_that_cannot_be_kept_is_refused_by_field(name: str) -> None:
    gang, cluster, text = REFUSED[name]
    with pytest.raises(Unsupported, match=text):
        BACKEND.translate(gang, on(cluster))


def test_the_same_key_at_several_levels_is_one_constraint() -> None:
    gang = make.gang("g", [make.podgroup("a", 1, required=RACK), make.podgroup("b", 2)], required=RACK)
    [made] = BACKEND.translate(gang, on(clusters.V136)).manifests
    assert made["spec"]["schedulingConstraints"] == topology(RACK)
    assert made["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}


def test_pods_of_another_namespace_are_refused() -> None:
    stranger = {**make.podgroup("a"), "podReferences": [{"namespace": "other", "name": "p"}]}
    with pytest.raises(Unsupported, match="other/p; a native gang and its pods share a namespace"):
        BACKEND.translate(make.gang("g", [stranger]), on(clusters.V136))


def test_podgroups_only_in_v1alpha3_are_a_misconfiguration_that_is_waited_for() -> None:
    context = on(clusters.V137_ALPHA_ONLY)
    [precondition] = BACKEND.preconditions(context)
    assert "scheduling.k8s.io/v1beta1=true" in precondition.missing
    with pytest.raises(Waiting, match="v1beta1"):
        BACKEND.translate(SINGLE, context)
    with pytest.raises(Waiting, match="v1beta1"):
        BACKEND.prepare_pod(make.pod_manifest("worker", 0, gang=SINGLE), SINGLE, context)


def test_gangs_may_be_required_by_configuration() -> None:
    context = on(clusters.BARE, gangScheduling="Required")
    [error] = BACKEND.validate(make.cliqueset(), context)
    assert error.field == "metadata.annotations[grove.io/scheduler-backend]"
    assert "cannot guarantee gang scheduling here" in error.message
    assert BACKEND.preconditions(context)[0].missing
    with pytest.raises(Waiting):
        BACKEND.translate(SINGLE, context)
    assert BACKEND.validate(make.cliqueset(), on(clusters.V135, gangScheduling="Required")) == []


@pytest.mark.parametrize(("key", "value"), [("mode", "Hierarchical"), ("gangScheduling", "Maybe")])
def test_a_wrong_configuration_names_its_field(key: str, value: str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"config.{key} is '{value}'"):
        BACKEND.translate(SINGLE, on(clusters.V136, **{key: value}))


FIXED = (
    "spec.schedulingConstraints",
    "spec.disruptionMode",
    "spec.priorityClassName",
    "spec.parentCompositePodGroupName",
    "spec.workloadRef",
)
IMMUTABLE: dict[str, tuple[PodGang, Cluster, list[tuple[str, tuple[str, ...], bool]]]] = {
    "1.35: a Workload is deleted and recreated": (SINGLE, clusters.V135, [("Workload", ("spec",), True)]),
    "1.36: nothing of a PodGroup can be changed, and it stays while its pods do": (
        SINGLE,
        clusters.V136,
        [("PodGroup", ("spec",), False)],
    ),
    "1.37: the minimum of a PodGroup can be changed, and only that": (
        SINGLE,
        clusters.V137_PLAIN,
        [("PodGroup", FIXED, False)],
    ),
    "1.37: in a tree a PodGroup stays, and the others are recreated": (
        TREE,
        clusters.V137,
        [
            ("Workload", ("spec",), True),
            ("CompositePodGroup", ("spec",), True),
            ("CompositePodGroup", ("spec",), True),
            ("PodGroup", FIXED, False),
            ("PodGroup", FIXED, False),
            ("PodGroup", FIXED, False),
        ],
    ),
}


@pytest.mark.parametrize("name", IMMUTABLE)
def test_what_cannot_be_changed_in_place_and_what_is_then_recreated(name: str) -> None:
    gang, cluster, want = IMMUTABLE[name]
    made = BACKEND.translate(gang, on(cluster)).manifests
    fixed = BACKEND.lifecycle(GangSnapshot(gang, (), on(cluster), EPOCH, translated=made)).fixed
    assert [(kind, each.paths, each.replaceable) for (kind, _), each in fixed.items()] == want


def nominated(index: int, **fields: Any) -> Pod:
    """A pod that waits at Permit for the others of its gang."""
    pod = make.pod("worker", index, gang=FOUR, **fields)
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, nominated_node_name="n1"))


FOUR = make.gang("g", {"worker": 4})
HOLDING = [nominated(0), nominated(1), make.pod("worker", 2, gang=FOUR), nominated(3, node="n1")]
RESERVED = {
    "1.35 keeps nodes for pods that wait for the others": (clusters.V135, HOLDING, (2, 2)),
    "not for those that are leaving": (clusters.V135, [nominated(0, deleted=True)], (0, 4)),
    "1.36 keeps none": (clusters.V136, HOLDING, (None, 0)),
    "1.37 keeps none": (clusters.V137, HOLDING, (None, 0)),
}


@pytest.mark.parametrize("name", RESERVED)
def test_how_many_nodes_are_kept_for_a_gang_that_is_not_complete(name: str) -> None:
    cluster, pods, want = RESERVED[name]
    found = BACKEND.lifecycle(GangSnapshot(FOUR, pods, on(cluster), EPOCH))
    assert (found.reserved, found.sought) == want


def test_every_start_of_a_gang_has_objects_of_its_own_and_pods_point_to_them() -> None:
    for cluster in (clusters.V135, clusters.V136, clusters.V137_PLAIN, clusters.V137):
        names: list[set[str]] = []
        for revision in ("r1", "r2"):
            context = replace(on(cluster), revision=revision)
            made = BACKEND.translate(PLAIN_PAIR, context).manifests
            names.append({each["metadata"]["name"] for each in made})
            spec = BACKEND.prepare_pod(make.pod_manifest("worker", 0, gang=PLAIN_PAIR), PLAIN_PAIR, context)[
                "spec"
            ]
            link = spec.get("schedulingGroup", {}).get("podGroupName") or spec["workloadRef"]["name"]
            assert link in names[-1]
        assert not names[0] & names[1]


def test_a_long_name_is_shortened_before_the_revision_so_that_starts_stay_apart() -> None:
    gang = make.gang("g" * 253, {"w" * 253: 1})
    for cluster in (clusters.V135, clusters.V136, clusters.V137):
        made = BACKEND.translate(gang, on(cluster)).manifests
        assert all(each["metadata"]["name"].endswith("-r1") for each in made)
        assert all(len(each["metadata"]["name"]) <= 253 for each in made)
