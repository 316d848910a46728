"""Whole native objects per generation and mode, and the link that pods get to them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from tests.backends import clusters
from tests.backends.clusters import on

from grove.api.gang import PodGang
from grove.backends.base import Capability, Cluster, Fidelity, Loss
from grove.backends.default import DefaultBackend
from grove.errors import InvalidConfiguration, InvalidInput, Unsupported, Waiting
from grove.meta import Manifest
from grove.testing import make

BACKEND = DefaultBackend()
RACK, ZONE = "example.com/rack", "topology.kubernetes.io/zone"

SINGLE = make.gang("g", {"worker": 4}, uid="u1")
PAIR = make.gang("g", {"leader": 1, "worker": 3}, uid="u1", priority="high", required=RACK)
OPTIONAL = make.gang("g", {"leader": 1, "spare": 0}, uid="u1")
TREE = make.gang(
    "g",
    [
        make.podgroup("frontend", 1),
        make.podgroup("leader", 1),
        make.podgroup("worker", 3, required="kubernetes.io/hostname"),
    ],
    uid="u1",
    required=ZONE,
    priority="high",
    groups=[make.group("decode", ["leader", "worker"], required=RACK)],
)
PER_PODGROUP = make.gang("g", [make.podgroup("a", 2, required=RACK), make.podgroup("b", 1)], uid="u1")
OF_SET = make.gang("train-0", {"train-0-worker": 2}, uid="u1", cliqueset="train")


def meta(name: str) -> Manifest:
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
                "blockOwnerDeletion": True,
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
        "metadata": meta(name),
        "spec": {"schedulingPolicy": policy, **spec},
    }


def composite(name: str, children: int, template: str, **spec: object) -> Manifest:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "CompositePodGroup",
        "metadata": meta(name),
        "spec": {
            "workloadRef": {"workloadName": "g", "templateName": template},
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
        "metadata": meta("g"),
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
                                    "schedulingConstraints": topology("kubernetes.io/hostname"),
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
    composite("g", 2, "root", schedulingConstraints=topology(ZONE), **HIGH),
    composite(
        "g-decode", 2, "decode", parentCompositePodGroupName="g", schedulingConstraints=topology(RACK), **HIGH
    ),
    podgroup(
        "v1beta1",
        "g-frontend",
        1,
        parentCompositePodGroupName="g",
        workloadRef={"workloadName": "g", "templateName": "frontend"},
        **HIGH,
    ),
    podgroup(
        "v1beta1",
        "g-leader",
        1,
        parentCompositePodGroupName="g-decode",
        workloadRef={"workloadName": "g", "templateName": "leader"},
        **HIGH,
    ),
    podgroup(
        "v1beta1",
        "g-worker",
        3,
        parentCompositePodGroupName="g-decode",
        workloadRef={"workloadName": "g", "templateName": "worker"},
        schedulingConstraints=topology("kubernetes.io/hostname"),
        **HIGH,
    ),
]


@dataclass(frozen=True)
class Case:
    gang: PodGang
    cluster: Cluster
    want: Sequence[Manifest]
    config: Manifest = field(default_factory=dict)


PLAIN_PAIR = make.gang("g", {"leader": 1, "worker": 3}, uid="u1")
CASES = {
    "nothing served: nothing written": Case(PLAIN_PAIR, clusters.BARE, []),
    "1.35: one podgroup is a gang": Case(
        SINGLE,
        clusters.V135,
        [workload_135("g", [{"name": "worker", "policy": {"gang": {"minCount": 4}}}])],
    ),
    "1.35: several podgroups are merged": Case(
        PLAIN_PAIR,
        clusters.V135,
        [workload_135("g", [{"name": "gang", "policy": {"gang": {"minCount": 4}}}])],
    ),
    "1.35: flat by configuration": Case(
        OPTIONAL,
        clusters.V135,
        [
            workload_135(
                "g",
                [
                    {"name": "leader", "policy": {"gang": {"minCount": 1}}},
                    {"name": "spare", "policy": {"basic": {}}},
                ],
            )
        ],
        {"mode": "Flat"},
    ),
    "1.36: no Workload, the minimum in the name": Case(
        SINGLE, clusters.V136_PLAIN, [podgroup("v1alpha2", "g-worker-m4", 4)]
    ),
    "1.36: merged, with all that the gates keep": Case(
        PAIR,
        clusters.V136,
        [
            podgroup(
                "v1alpha2",
                "g-m4",
                4,
                schedulingConstraints=topology(RACK),
                disruptionMode="PodGroup",
                priorityClassName="high",
            )
        ],
    ),
    "1.36: flat for a constraint of one podgroup": Case(
        PER_PODGROUP,
        clusters.V136,
        [
            podgroup(
                "v1alpha2", "g-a-m2", 2, schedulingConstraints=topology(RACK), disruptionMode="PodGroup"
            ),
            podgroup("v1alpha2", "g-b-m1", 1, disruptionMode="PodGroup"),
        ],
    ),
    "1.37 without composites: merged": Case(
        PAIR,
        clusters.V137_TOPOLOGY,
        [podgroup("v1beta1", "g", 4, schedulingConstraints=topology(RACK), **HIGH)],
    ),
    "1.37 without composites: flat by configuration": Case(
        OPTIONAL,
        clusters.V137_PLAIN,
        [
            podgroup("v1beta1", "g-leader", 1, disruptionMode=ALL),
            podgroup("v1beta1", "g-spare", 0, disruptionMode=ALL),
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
    assert made["metadata"]["name"] == "train-0-worker"
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
    assert sizes == {"g-w0": 8, "g-w1": 2}
    pod = BACKEND.prepare_pod(make.pod_manifest("role9", 0, gang=gang), gang, context)
    assert pod["spec"]["workloadRef"] == {"name": "g-w1", "podGroup": "role9"}


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


LINKS: dict[str, tuple[Cluster, PodGang, int, Manifest]] = {
    "1.35 single": (clusters.V135, SINGLE, 3, {"workloadRef": {"name": "g", "podGroup": "worker"}}),
    "1.35 merged": (clusters.V135, PLAIN_PAIR, 2, {"workloadRef": {"name": "g", "podGroup": "gang"}}),
    "1.35 merged, beyond the minimum": (clusters.V135, PLAIN_PAIR, 3, {}),
    "1.36 merged": (clusters.V136_PLAIN, PLAIN_PAIR, 2, {"schedulingGroup": {"podGroupName": "g-m4"}}),
    "1.36 merged, beyond the minimum": (clusters.V136_PLAIN, PLAIN_PAIR, 3, {}),
    "1.36 flat, beyond the minimum": (
        clusters.V136_PLAIN,
        SINGLE,
        9,
        {"schedulingGroup": {"podGroupName": "g-worker-m4"}},
    ),
    "1.37 tree": (clusters.V137, TREE, 7, {"schedulingGroup": {"podGroupName": "g-worker"}}),
    "nothing served": (clusters.BARE, PLAIN_PAIR, 0, {}),
}


@pytest.mark.parametrize("name", LINKS)
def test_links(name: str) -> None:
    cluster, gang, index, want = LINKS[name]
    spec = BACKEND.prepare_pod(make.pod_manifest("worker", index, gang=gang), gang, on(cluster))["spec"]
    found = {key: spec[key] for key in ("workloadRef", "schedulingGroup") if key in spec}
    assert found == want


def test_a_prepared_pod_as_a_whole() -> None:
    pod = make.pod_manifest("worker", 0, gang=PAIR, gates=["example.com/quota"])
    prepared = BACKEND.prepare_pod(pod, PAIR, on(clusters.V137_TOPOLOGY))
    assert prepared == {
        **pod,
        "spec": {
            **pod["spec"],
            "schedulerName": "default-scheduler",
            "schedulingGates": [{"name": "example.com/quota"}, {"name": "scheduling.k8s.io/workload"}],
            "priorityClassName": "high",
            "schedulingGroup": {"podGroupName": "g"},
        },
    }


def test_a_pods_own_priority_class_stays() -> None:
    pod = make.pod_manifest("worker", 0, gang=PAIR, spec={"priorityClassName": "own"})
    prepared = BACKEND.prepare_pod(pod, PAIR, on(clusters.V136))
    assert prepared["spec"]["priorityClassName"] == "own"


def test_a_pod_outside_a_merged_gang_must_follow_it_into_its_domain() -> None:
    prepared = BACKEND.prepare_pod(make.pod_manifest("worker", 3, gang=PAIR), PAIR, on(clusters.V136))
    assert "schedulingGroup" not in prepared["spec"]
    assert prepared["spec"]["affinity"]["podAffinity"] == {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "topologyKey": RACK,
                "labelSelector": {
                    "matchLabels": {"grove.io/podgang": "g"},
                    "matchExpressions": [
                        {"key": "grove.io/podclique", "operator": "In", "values": ["leader", "worker"]},
                        {"key": "grove.io/podclique-pod-index", "operator": "In", "values": ["0"]},
                    ],
                },
            }
        ]
    }


def test_preferred_levels_become_preferred_affinity_beside_the_users_own() -> None:
    gang = make.gang(
        "g", [make.podgroup("leader"), make.podgroup("worker", 2, preferred=RACK)], preferred=ZONE
    )
    own = {"weight": 1, "podAffinityTerm": {"topologyKey": "x", "labelSelector": {}}}
    rule = "preferredDuringSchedulingIgnoredDuringExecution"
    affinity = {"nodeAffinity": {"x": 1}, "podAffinity": {rule: [own]}}
    prepared = BACKEND.prepare_pod(
        make.pod_manifest("worker", 0, gang=gang, spec={"affinity": affinity}), gang, on(clusters.V137)
    )
    everyone = {"matchLabels": {"grove.io/podgang": "g"}}
    workers = [{"key": "grove.io/podclique", "operator": "In", "values": ["worker"]}]
    assert prepared["spec"]["affinity"] == {
        "nodeAffinity": {"x": 1},
        "podAffinity": {
            rule: [
                own,
                {"weight": 100, "podAffinityTerm": {"topologyKey": ZONE, "labelSelector": everyone}},
                {
                    "weight": 100,
                    "podAffinityTerm": {
                        "topologyKey": RACK,
                        "labelSelector": {**everyone, "matchExpressions": workers},
                    },
                },
            ]
        },
    }
    leader = BACKEND.prepare_pod(make.pod_manifest("leader", 0, gang=gang), gang, on(clusters.V137))
    assert len(leader["spec"]["affinity"]["podAffinity"][rule]) == 1


def test_a_pod_of_nobodys_podgroup_is_refused_by_label() -> None:
    with pytest.raises(
        InvalidInput, match=r"metadata.labels\[grove.io/podclique\]: 'other' is not a podgroup"
    ):
        BACKEND.prepare_pod(make.pod_manifest("other", 0, gang=PAIR), PAIR, on(clusters.V136))


LOSSES: dict[str, tuple[PodGang, Cluster, Sequence[tuple[str, Fidelity]]]] = {
    "exact in a tree": (TREE, clusters.V137, []),
    "exact when merged": (PAIR, clusters.V136, []),
    "no gang at all": (
        PLAIN_PAIR,
        clusters.BARE,
        [
            (Capability.GANG, Fidelity.NOT_EXPRESSIBLE),
            (Capability.SUBGROUPS, Fidelity.NOT_EXPRESSIBLE),
        ],
    ),
    "podgroups apart": (PER_PODGROUP, clusters.V136, [(Capability.HIERARCHY, Fidelity.APPROXIMATED)]),
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
    account: Sequence[Loss] = BACKEND.translate(gang, on(cluster)).losses
    losses = [loss for loss in account if loss.fidelity is not Fidelity.ENFORCED]
    assert [(loss.property, loss.fidelity) for loss in losses] == list(want)
    assert all(loss.reason for loss in losses)


REFUSED: dict[str, tuple[PodGang, Cluster, str]] = {
    "topology on 1.35": (PAIR, clusters.V135, r"spec.topologyConstraint.packConstraint.required: .*1.35"),
    "topology without its gate": (PAIR, clusters.V136_PLAIN, "knows no topology constraints for groups here"),
    "topology without any gang API": (PAIR, clusters.BARE, "kube-scheduler without gang scheduling"),
    "two levels on 1.36": (TREE, clusters.V136, r"spec.podgroups\[2\].topologyConstraint"),
    "a group's level on 1.36": (
        make.gang("g", {"a": 1, "b": 1, "c": 1}, groups=[make.group("ab", ["a", "b"], required=RACK)]),
        clusters.V136,
        r"spec.topologyConstraintGroupConfigs\[0\].topologyConstraint.packConstraint.required",
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
    assert "guarantees no gang here" in error.message
    assert BACKEND.preconditions(context)[0].missing
    with pytest.raises(Waiting):
        BACKEND.translate(SINGLE, context)
    assert BACKEND.validate(make.cliqueset(), on(clusters.V135, gangScheduling="Required")) == []


@pytest.mark.parametrize(("key", "value"), [("mode", "Hierarchical"), ("gangScheduling", "Maybe")])
def test_a_wrong_configuration_names_its_field(key: str, value: str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"config.{key} is '{value}'"):
        BACKEND.translate(SINGLE, on(clusters.V136, **{key: value}))


def test_only_what_nothing_holds_back_is_replaced() -> None:
    made = BACKEND.translate(TREE, on(clusters.V137)).manifests
    assert [tuple(BACKEND.immutable(each)) for each in made] == [("spec",)] * 3 + [()] * 3
