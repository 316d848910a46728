"""Pods of gangs that Kubernetes' own scheduler places: their links, and what keeps them in their domains."""

from dataclasses import replace

import pytest
from tests.backends import clusters
from tests.backends.clusters import on
from tests.backends.default.gangs import (
    BACKEND,
    HOST,
    ONE_PACKED,
    PAIR,
    PLAIN_PAIR,
    RACK,
    SINGLE,
    SLEEPING,
    TREE,
    ZONE,
)

from grove.api.gang import PodGang
from grove.api.revision import next_revision
from grove.backends.base import Cluster, Context, GangSnapshot
from grove.errors import InvalidInput
from grove.meta import Manifest
from grove.testing import make
from grove.testing.virtual_time import EPOCH

LINKS: dict[str, tuple[Cluster, PodGang, int, Manifest]] = {
    "1.35 single": (clusters.V135, SINGLE, 3, {"workloadRef": {"name": "g-r1", "podGroup": "worker"}}),
    "1.35 single, above the minimum": (clusters.V135, SINGLE, 4, {}),
    "1.35 merged": (clusters.V135, PLAIN_PAIR, 2, {"workloadRef": {"name": "g-r1", "podGroup": "gang"}}),
    "1.35 merged, above the minimum": (clusters.V135, PLAIN_PAIR, 3, {}),
    "1.36 single": (clusters.V136_PLAIN, SINGLE, 3, {"schedulingGroup": {"podGroupName": "g-worker-r1"}}),
    "1.36 single, above the minimum": (clusters.V136_PLAIN, SINGLE, 4, {}),
    "1.36 merged": (clusters.V136_PLAIN, PLAIN_PAIR, 2, {"schedulingGroup": {"podGroupName": "g-r1"}}),
    "1.36 merged, above the minimum": (clusters.V136_PLAIN, PLAIN_PAIR, 3, {}),
    "1.37 merged": (clusters.V137_PLAIN, PLAIN_PAIR, 2, {"schedulingGroup": {"podGroupName": "g-r1"}}),
    "1.37 merged, above the minimum": (clusters.V137_PLAIN, PLAIN_PAIR, 3, {}),
    "1.37 tree": (clusters.V137, TREE, 2, {"schedulingGroup": {"podGroupName": "g-worker-r1"}}),
    "1.37 tree, above the minimum": (clusters.V137, TREE, 3, {}),
    "1.37 tree, a podgroup without a minimum": (clusters.V137, SLEEPING, 0, {}),
    "nothing served": (clusters.BARE, PLAIN_PAIR, 0, {}),
}


@pytest.mark.parametrize("name", LINKS)
def test_links(name: str) -> None:
    cluster, gang, index, want = LINKS[name]
    spec = BACKEND.prepare_pod(make.pod_manifest("worker", index, gang=gang), gang, on(cluster))["spec"]
    found = {key: spec[key] for key in ("workloadRef", "schedulingGroup") if key in spec}
    assert found == want


OUTGROWN: dict[str, tuple[Cluster, PodGang, Context, bool]] = {
    "nothing is placed": (clusters.V136, PAIR, Context(revision="r1"), True),
    "placed as it is": (
        clusters.V136,
        PAIR,
        Context(revision=next_revision(PAIR), bound={"leader": 1}),
        True,
    ),
    "placed otherwise": (clusters.V136, PAIR, Context(revision="r1", bound={"leader": 1}), False),
    "others belong to no PodGroup": (
        clusters.V136,
        PAIR,
        Context(revision=next_revision(PAIR), bound={"leader": 1}, ungrouped={"worker": 1}),
        False,
    ),
    "another podgroup has pods that belong to none": (
        clusters.V136,
        PAIR,
        Context(revision=next_revision(PAIR), bound={"leader": 1}, ungrouped={"leader": 1}),
        False,
    ),
    "1.36, one podgroup only, and one that belongs to none": (
        clusters.V136,
        SINGLE,
        Context(revision=next_revision(SINGLE), bound={"worker": 3}, ungrouped={"worker": 1}),
        False,
    ),
    "1.35, others belong to no Workload": (
        clusters.V135,
        PLAIN_PAIR,
        Context(revision="r1", bound={"leader": 1}, ungrouped={"worker": 1}),
        False,
    ),
    "1.35, as it should be": (
        clusters.V135,
        PLAIN_PAIR,
        Context(revision="r1", bound={"leader": 1}),
        True,
    ),
    "1.37, others belong to no PodGroup": (
        clusters.V137,
        TREE,
        Context(revision="r1", bound={"leader": 1}, ungrouped={"worker": 1}),
        False,
    ),
    "1.37, the tree waits for the other podgroup": (
        clusters.V137,
        TREE,
        Context(revision="r1", bound={"leader": 1}, ungrouped={"frontend": 1}),
        False,
    ),
    "nothing is placed, and one belongs to none": (
        clusters.V137,
        TREE,
        Context(revision="r1", ungrouped={"worker": 1}),
        True,
    ),
    "one podgroup only": (clusters.V136, SINGLE, Context(revision="r1", bound={"worker": 3}), True),
    "1.37, where the minimum can be changed": (
        clusters.V137_PLAIN,
        PLAIN_PAIR,
        Context(revision="r1", bound={"leader": 1}),
        True,
    ),
}


@pytest.mark.parametrize(("cluster", "gang", "context", "linked"), OUTGROWN.values(), ids=OUTGROWN)
def test_a_pod_belongs_to_no_podgroup_that_may_never_have_its_minimum_again(
    cluster: Cluster, gang: PodGang, context: Context, linked: bool
) -> None:
    context = replace(context, cluster=cluster)
    spec = BACKEND.prepare_pod(make.pod_manifest("worker", 0, gang=gang), gang, context)["spec"]
    assert ("schedulingGroup" in spec or "workloadRef" in spec) is linked


def test_such_a_pod_goes_to_the_domain_of_the_pods_on_nodes() -> None:
    context = replace(on(clusters.V136), revision="r1", bound={"leader": 1})
    spec = BACKEND.prepare_pod(make.pod_manifest("worker", 0, gang=PAIR), PAIR, context)["spec"]
    [term] = spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == RACK
    [chosen] = term["labelSelector"]["matchExpressions"]
    assert chosen["values"] == ["leader", "worker"]


@pytest.mark.parametrize(("minimum", "replaced"), [(4, []), (5, ["waits"])], ids=["can be met", "cannot"])
def test_a_pod_that_waits_in_a_podgroup_whose_minimum_cannot_be_met_is_replaced(
    minimum: int, replaced: list[str]
) -> None:
    gang = make.gang("g", {"leader": 1, "worker": 3}, uid="u1", cliqueset="train")
    podgroup = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g-r1"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}},
    }
    link = {"schedulingGroup": {"podGroupName": "g-r1"}}
    pods = [
        make.pod("worker", 0, gang=gang, name="runs", node="n1", spec=link),
        make.pod("worker", 1, gang=gang, name="waits", spec=link),
        make.pod("worker", 2, gang=gang, name="belongs-to-none"),
    ]
    context = replace(on(clusters.V136_PLAIN), revision="r1", bound={"worker": 1})
    lifecycle = BACKEND.lifecycle(GangSnapshot(gang, pods, context, EPOCH, [podgroup]))
    assert [pod.name for pod in lifecycle.replace] == replaced


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
            "schedulingGroup": {"podGroupName": "g-r1"},
        },
    }


def test_a_pods_own_priority_class_stays() -> None:
    pod = make.pod_manifest("worker", 0, gang=PAIR, spec={"priorityClassName": "own"})
    prepared = BACKEND.prepare_pod(pod, PAIR, on(clusters.V136))
    assert prepared["spec"]["priorityClassName"] == "own"


def required_terms(gang: PodGang, clique: str, index: int, cluster: Cluster) -> list[Manifest]:
    prepared = BACKEND.prepare_pod(make.pod_manifest(clique, index, gang=gang), gang, on(cluster))
    affinity: Manifest = prepared["spec"].get("affinity", {}).get("podAffinity", {})
    return list(affinity.get("requiredDuringSchedulingIgnoredDuringExecution", []))


def near(key: str, *podgroups: str) -> Manifest:
    """A term that leads to the first pods of these podgroups, which are of the minimum."""
    return {
        "topologyKey": key,
        "labelSelector": {
            "matchLabels": {"grove.io/podgang": "g"},
            "matchExpressions": [
                {"key": "grove.io/podclique", "operator": "In", "values": list(podgroups)},
                {"key": "grove.io/podclique-pod-index", "operator": "In", "values": ["0"]},
            ],
        },
    }


FOLLOWING: dict[str, tuple[PodGang, str, int, Cluster, list[Manifest]]] = {
    "a pod of the minimum is held by its group": (PAIR, "worker", 2, clusters.V136, []),
    "a pod above the minimum follows the merged gang": (
        PAIR,
        "worker",
        3,
        clusters.V136,
        [near(RACK, "leader", "worker")],
    ),
    "a pod above the minimum of the only podgroup follows it": (
        ONE_PACKED,
        "a",
        2,
        clusters.V136,
        [near(RACK, "a")],
    ),
    "a pod above the minimum follows every level of a tree that its podgroup is in": (
        TREE,
        "worker",
        3,
        clusters.V137,
        [near(ZONE, "frontend", "leader", "worker"), near(RACK, "leader", "worker"), near(HOST, "worker")],
    ),
    "a pod above the minimum follows no level that its podgroup is not in": (
        TREE,
        "frontend",
        1,
        clusters.V137,
        [near(ZONE, "frontend", "leader", "worker")],
    ),
    "a pod of a podgroup without a minimum follows those that have one": (
        make.gang("g", {"leader": 1, "worker": 0}, required=RACK),
        "worker",
        0,
        clusters.V136,
        [near(RACK, "leader")],
    ),
    "where no podgroup has a minimum there is nothing to follow": (
        make.gang("g", {"leader": 0, "worker": 0}, required=RACK),
        "worker",
        0,
        clusters.V136,
        [],
    ),
    "without a level there is nothing to follow": (PLAIN_PAIR, "worker", 3, clusters.V136, []),
    "a preference is not required of a pod above the minimum": (
        make.gang("g", {"leader": 1, "worker": 3}, preferred=RACK),
        "worker",
        3,
        clusters.V136,
        [],
    ),
}


@pytest.mark.parametrize("name", FOLLOWING)
def test_a_pod_above_the_minimum_is_no_member_and_must_follow_the_gang_into_its_domains(name: str) -> None:
    gang, clique, index, cluster, want = FOLLOWING[name]
    assert required_terms(gang, clique, index, cluster) == want


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
