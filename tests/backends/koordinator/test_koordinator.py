"""Koordinator's objects as a whole, the pods' marks, what is held back, refused and waited for."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tests.backends.clusters import on

from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang, PodGangStatus
from grove.backends.base import Capability, Cluster, Context, Edit, Fidelity
from grove.backends.koordinator.backend import SENTINEL, KoordinatorBackend
from grove.backends.koordinator.quota import QUOTA, QUOTAS
from grove.backends.koordinator.topology import TOPOLOGIES
from grove.errors import InvalidConfiguration, Unsupported, Waiting
from grove.meta import Condition, Manifest
from grove.testing import make
from grove.testing.kits.koordinator import KOORDINATOR

BACKEND = KoordinatorBackend()
RACK, ZONE = "example.com/rack", "topology.kubernetes.io/zone"
GANG = "gang.scheduling.koordinator.sh"
LABEL = "pod-group.scheduling.sigs.k8s.io"

PAIR = make.gang("g", {"g-leader": 1, "g-worker": 3}, uid="u1")


def topology(*layers: tuple[str, str], name: str = "default") -> Manifest:
    """A ClusterNetworkTopology with these layers, narrowest first."""
    entries: list[Manifest] = [{"topologyLayer": "NodeTopologyLayer"}]
    entries += [{"topologyLayer": layer, "labelKey": [key]} for layer, key in layers]
    return {"metadata": {"name": name}, "spec": {"networkTopologySpec": entries}}


def seeing(*layers: tuple[str, str], cluster: Cluster = KOORDINATOR) -> Context:
    """A context in which topology is in use, with these layers; all gates are open."""
    context = on(cluster, networkTopologyEnabled=True)
    return replace(context, observed={TOPOLOGIES: (topology(*layers),)}, released=True)


RACKS = seeing(("RackLayer", RACK), ("ZoneLayer", ZONE))
OPEN = replace(on(KOORDINATOR), released=True)


def told(gang: PodGang, *types: str) -> PodGang:
    """The gang with these conditions true."""
    conditions = tuple(Condition(type=each, status="True") for each in types)
    return msgspec.structs.replace(gang, status=PodGangStatus(conditions=conditions))


def podgroup(name: str, minimum: int, groups: str, **annotations: str) -> Manifest:
    owner = {
        "apiVersion": "scheduler.grove.io/v1alpha1",
        "kind": "PodGang",
        "name": "g",
        "uid": "u1",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"app.kubernetes.io/managed-by": "grove-operator", "grove.io/podgang": "g"},
            "ownerReferences": [owner],
            "annotations": {
                f"{GANG}/groups": groups,
                f"{GANG}/mode": "Strict",
                f"{GANG}/match-policy": "once-satisfied",
                **annotations,
            },
        },
        "spec": {"minMember": minimum},
    }


def minima(gang: PodGang, context: Context) -> list[int]:
    return [each["spec"]["minMember"] for each in BACKEND.translate(gang, context).manifests]


def test_one_podgroup_for_each_podgroup_all_in_one_gang_group() -> None:
    groups = '["default/g-leader-r1", "default/g-worker-r1"]'
    assert BACKEND.translate(PAIR, OPEN).manifests == (
        podgroup("g-leader-r1", 1, groups),
        podgroup("g-worker-r1", 3, groups),
    )


def test_until_all_gates_are_open_no_podgroup_can_be_satisfied() -> None:
    assert minima(PAIR, on(KOORDINATOR)) == [SENTINEL, SENTINEL]
    assert 1000 * PAIR.minimum < SENTINEL


def test_only_the_minimum_changes_when_the_gates_are_open() -> None:
    held = BACKEND.translate(PAIR, on(KOORDINATOR)).manifests
    free = BACKEND.translate(PAIR, OPEN).manifests
    assert [{**each, "spec": None} for each in held] == [{**each, "spec": None} for each in free]


@pytest.mark.parametrize("condition", ["Scheduled", "Unhealthy"])
def test_a_gang_that_was_placed_keeps_its_minimum_while_a_pod_of_it_is_replaced(condition: str) -> None:
    context = replace(on(KOORDINATOR), bound={"g-leader": 1, "g-worker": 2})
    assert minima(told(PAIR, condition), context) == [1, 3]


@pytest.mark.parametrize("condition", ["Scheduled", "Unhealthy"])
def test_a_gang_that_was_placed_and_lost_all_pods_starts_like_a_new_one(condition: str) -> None:
    """Koordinator would place the first pods whose gates open: it asks for the minimum only once."""
    context = replace(on(KOORDINATOR), bound={"g-leader": 0})
    assert minima(told(PAIR, condition), context) == [SENTINEL, SENTINEL]


def test_every_start_of_a_gang_has_podgroups_of_its_own_and_pods_point_to_them() -> None:
    """Koordinator remembers by name that a gang was placed once, and no longer waits for its minimum."""
    names = []
    for revision in ("r1", "r2"):
        context = replace(OPEN, revision=revision)
        leader, worker = BACKEND.translate(PAIR, context).manifests
        pod = BACKEND.prepare_pod(make.pod_manifest("g-worker", 0, gang=PAIR), PAIR, context)
        assert pod["metadata"]["labels"][LABEL] == worker["metadata"]["name"]
        names.append([leader["metadata"]["name"], worker["metadata"]["name"]])
    assert names == [["g-leader-r1", "g-worker-r1"], ["g-leader-r2", "g-worker-r2"]]


def test_what_can_be_edited_while_pods_are_on_nodes() -> None:
    assert BACKEND.traits(OPEN).editable == {Edit.MINIMUM}


def test_a_podgroup_without_a_minimum_is_no_part_of_the_gang() -> None:
    gang = make.gang("g", {"g-a": 2, "g-spare": 0}, uid="u1")
    assert BACKEND.translate(gang, OPEN).manifests == (podgroup("g-a-r1", 2, '["default/g-a-r1"]'),)
    spare = BACKEND.prepare_pod(make.pod_manifest("g-spare", 0, gang=gang), gang, OPEN)
    assert LABEL not in spare["metadata"]["labels"]


def test_a_name_that_is_too_long_for_a_label_is_shortened_alike_on_object_and_pod() -> None:
    name = "g-" + "x" * 80
    gang = make.gang("g", {name: 1})
    [made] = BACKEND.translate(gang, OPEN).manifests
    pod = BACKEND.prepare_pod(make.pod_manifest(name, 0, gang=gang), gang, OPEN)
    assert pod["metadata"]["labels"][LABEL] == made["metadata"]["name"]
    assert len(made["metadata"]["name"]) == 63
    assert made["metadata"]["name"].endswith("-r1"), "starts of the gang stay apart"


def test_the_api_version_of_the_early_design_can_be_chosen() -> None:
    early = Cluster(served={"scheduling.koordinator.sh/v1alpha1": frozenset({"podgroups"})})
    context = on(early, podGroupApiVersion="scheduling.koordinator.sh/v1alpha1")
    assert {each["apiVersion"] for each in BACKEND.translate(PAIR, context).manifests} == {
        "scheduling.koordinator.sh/v1alpha1"
    }
    assert [each.api_version for each in BACKEND.resources(context)] == ["scheduling.koordinator.sh/v1alpha1"]
    assert not any(each.missing for each in BACKEND.preconditions(context))


CONFIGS: dict[str, tuple[Mapping[str, Any], str]] = {
    "an unknown version": (
        {"podGroupApiVersion": "scheduling.x-k8s.io/v1alpha1"},
        "config.podGroupApiVersion is 'scheduling.x-k8s.io/v1alpha1'; it must be one of",
    ),
    "a quota that is no name": ({"quota": 3}, "config.quota is 3; it must be the name of an ElasticQuota"),
    "a topology that is neither": (
        {"networkTopologyEnabled": "yes"},
        "config.networkTopologyEnabled is 'yes'; it must be true or false",
    ),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_wrong_profile_is_named(name: str) -> None:
    config, text = CONFIGS[name]
    with pytest.raises(InvalidConfiguration, match=text):
        BACKEND.resources(Context(config=config))


@pytest.mark.parametrize("name", ["koord-scheduler", "my-koord", "koordinator"])
def test_any_name_with_koord_is_its_own(name: str) -> None:
    assert BACKEND.matches(name)
    assert not BACKEND.matches("kai-scheduler")


def test_without_its_kind_koordinator_is_waited_for() -> None:
    [missing] = [each.missing for each in BACKEND.preconditions(on(Cluster()))]
    assert missing == (
        "the cluster does not serve podgroups.scheduling.sigs.k8s.io in scheduling.sigs.k8s.io/v1alpha1; "
        "install Koordinator"
    )
    with pytest.raises(Waiting, match="install Koordinator"):
        BACKEND.translate(PAIR, on(Cluster()))


# Pods -----------------------------------------------------------------------------------------------


def test_a_prepared_pod_as_a_whole() -> None:
    gang = make.gang("g", {"g-worker": 3}, uid="u1", priority="high")
    pod = make.pod_manifest("g-worker", 2, gang=gang, gates=["example.com/quota"])
    assert BACKEND.prepare_pod(pod, gang, on(KOORDINATOR, quota="research")) == {
        **pod,
        "metadata": {
            **pod["metadata"],
            "labels": {**pod["metadata"]["labels"], LABEL: "g-worker-r1", QUOTA: "research"},
        },
        "spec": {
            **pod["spec"],
            "schedulerName": "koord-scheduler",
            "priorityClassName": "high",
            "schedulingGates": [{"name": "example.com/quota"}, {"name": "scheduling.koordinator.sh/gang"}],
        },
    }


def test_pods_above_the_minimum_are_no_members() -> None:
    linked = [
        LABEL
        in BACKEND.prepare_pod(make.pod_manifest("g-worker", index, gang=PAIR), PAIR, OPEN)["metadata"][
            "labels"
        ]
        for index in range(5)
    ]
    assert linked == [True, True, True, False, False]


ROLE = make.pod_manifest("g-worker", 0, gang=PAIR, labels={QUOTA: "role"})
NOTED = make.pod_manifest("g-worker", 0, gang=PAIR, annotations={QUOTA: "noted"})
PLAIN = make.pod_manifest("g-worker", 0, gang=PAIR)
LABELLED = make.gang("g", {"g-leader": 1, "g-worker": 3}, labels={QUOTA: "gang"})
QUOTA_CASES: dict[str, tuple[Manifest, PodGang, PodCliqueSet | None, str]] = {
    "the role's label": (ROLE, LABELLED, None, "role"),
    "the role's annotation": (NOTED, LABELLED, None, "noted"),
    "the gang's": (PLAIN, LABELLED, make.cliqueset(labels={QUOTA: "set"}), "gang"),
    "the set's": (PLAIN, PAIR, make.cliqueset(annotations={QUOTA: "set"}), "set"),
    "the profile's": (PLAIN, PAIR, make.cliqueset(), "profile"),
}


@pytest.mark.parametrize("name", QUOTA_CASES)
def test_quota(name: str) -> None:
    pod, gang, cliqueset, want = QUOTA_CASES[name]
    context = replace(on(KOORDINATOR, quota="profile"), cliqueset=cliqueset)
    assert BACKEND.prepare_pod(pod, gang, context)["metadata"]["labels"][QUOTA] == want


def test_without_a_quota_the_pod_has_no_such_label() -> None:
    assert QUOTA not in BACKEND.prepare_pod(PLAIN, PAIR, OPEN)["metadata"]["labels"]


def test_a_quota_that_does_not_exist_is_waited_for_because_koordinator_would_take_another() -> None:
    named = replace(OPEN, config={"quota": "research"})
    none = replace(named, observed={QUOTAS: ()})
    there = replace(named, observed={QUOTAS: ({"metadata": {"name": "research", "namespace": "any"}},)})
    with pytest.raises(Waiting, match="ElasticQuota research does not exist"):
        BACKEND.translate(PAIR, none)
    assert minima(PAIR, there) == minima(PAIR, named) == [1, 3]


def test_a_named_quota_waits_where_elastic_quotas_are_not_served() -> None:
    bare = Cluster(served={"scheduling.sigs.k8s.io/v1alpha1": frozenset({"podgroups"})})
    with pytest.raises(Waiting, match=r"does not serve elasticquotas.* would ignore the quota research"):
        BACKEND.translate(PAIR, replace(OPEN, cluster=bare, config={"quota": "research"}))
    assert minima(PAIR, replace(OPEN, cluster=bare)) == [1, 3]


def test_quotas_of_roles_are_looked_for_too() -> None:
    cliqueset = make.cliqueset(cliques=[make.template("a", labels={QUOTA: "x"}), make.template("b")])
    context = replace(OPEN, cliqueset=cliqueset, observed={QUOTAS: ()})
    with pytest.raises(Waiting, match="ElasticQuota x does not exist"):
        BACKEND.translate(PAIR, context)


# Topology -------------------------------------------------------------------------------------------


def spec_of(gang: PodGang, context: Context = RACKS) -> set[str]:
    made = BACKEND.translate(gang, context).manifests
    return {each["metadata"]["annotations"].get(f"{GANG}/network-topology-spec", "") for each in made}


GATHER = '{"layer":"%s","strategy":"%sGather"}'
PACKED: dict[str, tuple[PodGang, str]] = {
    "the whole gang": (
        make.gang("g", {"a": 1, "b": 2}, required=RACK),
        GATHER % ("RackLayer", "Must"),
    ),
    "a wish": (make.gang("g", {"a": 1, "b": 2}, preferred=RACK), GATHER % ("RackLayer", "Prefer")),
    "a must and a wish below it": (
        make.gang("g", {"a": 1}, required=ZONE, preferred=RACK),
        f"{GATHER % ('RackLayer', 'Prefer')},{GATHER % ('ZoneLayer', 'Must')}",
    ),
    "one node": (
        make.gang("g", {"a": 1}, required="kubernetes.io/hostname"),
        GATHER % ("NodeTopologyLayer", "Must"),
    ),
    "the only podgroup": (
        make.gang("g", [make.podgroup("a", 2, required=RACK)]),
        GATHER % ("RackLayer", "Must"),
    ),
    "a group of all podgroups": (
        make.gang("g", {"a": 1, "b": 1}, groups=[make.group("ab", ["a", "b"], required=RACK)]),
        GATHER % ("RackLayer", "Must"),
    ),
    "nothing": (make.gang("g", {"a": 1}), ""),
    "a wish for a part": (make.gang("g", [make.podgroup("a", 1, preferred=RACK), make.podgroup("b", 1)]), ""),
    "a wish without a layer": (make.gang("g", {"a": 1}, preferred="example.com/row"), ""),
}


@pytest.mark.parametrize("name", PACKED)
def test_every_podgroup_says_the_same_about_topology(name: str) -> None:
    gang, rules = PACKED[name]
    assert spec_of(gang) == {f'{{"gatherStrategy":[{rules}]}}' if rules else ""}


def test_without_the_feature_the_annotation_that_would_wedge_a_gang_is_never_written() -> None:
    context = replace(RACKS, config={})
    assert spec_of(make.gang("g", {"a": 1}, preferred=RACK), context) == {""}
    [_, treatment] = BACKEND.translate(make.gang("g", {"a": 1}, preferred=RACK), context).treatments
    assert (treatment.property, treatment.fidelity) == (
        Capability.TOPOLOGY_PREFERRED,
        Fidelity.NOT_EXPRESSIBLE,
    )
    with pytest.raises(Unsupported, match="set networkTopologyEnabled"):
        BACKEND.translate(make.gang("g", {"a": 1}, required=RACK), context)


WAITS: dict[str, tuple[Context, str]] = {
    "no topology": (
        replace(RACKS, observed={TOPOLOGIES: ()}),
        "there is no ClusterNetworkTopology 'default'; create it",
    ),
    "another topology": (
        replace(RACKS, observed={TOPOLOGIES: (topology(("RackLayer", RACK), name="other"),)}),
        "there is no ClusterNetworkTopology 'default'",
    ),
    "no such layer": (seeing(("ZoneLayer", ZONE)), "no layer of .* has example.com/rack; add a layer"),
    "not read yet": (replace(RACKS, observed={}), "has not been read yet"),
    "garbage": (
        replace(RACKS, observed={TOPOLOGIES: ({"metadata": {"name": "default"}, "spec": {"x": 1}},)}),
        "no layer of",
    ),
}


@pytest.mark.parametrize("name", WAITS)
def test_a_required_layer_that_is_missing_is_waited_for(name: str) -> None:
    context, text = WAITS[name]
    gang = make.gang("g", {"a": 1}, required=RACK)
    with pytest.raises(Waiting, match=text):
        BACKEND.translate(gang, context)


REFUSED: dict[str, tuple[PodGang, str]] = {
    "one podgroup of several": (
        make.gang("g", [make.podgroup("a", 1, required=RACK), make.podgroup("b", 1)]),
        "packs a gang as a whole only",
    ),
    "a group of some podgroups": (
        make.gang("g", {"a": 1, "b": 1, "c": 1}, groups=[make.group("ab", ["a", "b"], required=RACK)]),
        "packs a gang as a whole only",
    ),
    "a podgroup in two groups": (
        make.gang("g", {"a": 1, "b": 1}, groups=[make.group("x", ["a"]), make.group("y", ["a"])]),
        "is in the groups",
    ),
    "one name twice": (make.gang("g", [make.podgroup("a", 1), make.podgroup("a", 1)]), "have one name"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_koordinator_would_ignore_is_refused(name: str) -> None:
    gang, text = REFUSED[name]
    with pytest.raises(Unsupported, match=text):
        BACKEND.translate(gang, RACKS)


def test_a_wish_for_a_part_of_the_gang_is_reported_as_lost() -> None:
    gang = make.gang("g", {"a": 1, "b": 1, "c": 1}, groups=[make.group("ab", ["a", "b"], preferred=RACK)])
    lost = {each.property: each.fidelity for each in BACKEND.translate(gang, RACKS).treatments}
    assert lost[Capability.TOPOLOGY_PREFERRED] is Fidelity.NOT_EXPRESSIBLE
    assert lost[Capability.HIERARCHY] is Fidelity.NOT_EXPRESSIBLE


def test_unlike_roles_are_only_approximated() -> None:
    cliqueset = make.cliqueset(
        cliques=[
            make.template("a", pod={"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}),
            make.template("b", pod={"containers": [{"name": "c", "resources": {"limits": {"cpu": "8"}}}]}),
        ]
    )
    gang = make.gang("g", {"a": 1, "b": 1}, required=RACK)
    fidelity = {
        each.property: each.fidelity
        for each in BACKEND.translate(gang, replace(RACKS, cliqueset=cliqueset)).treatments
    }
    assert fidelity[Capability.TOPOLOGY_REQUIRED] is Fidelity.APPROXIMATED
    alike = make.cliqueset(cliques={"a": 1, "b": 1})
    for each in BACKEND.translate(gang, replace(RACKS, cliqueset=alike)).treatments:
        assert each.fidelity is Fidelity.ENFORCED


def affinity_of(pod: Manifest) -> Manifest:
    found: Manifest = pod["spec"].get("affinity", {})
    return found


def test_who_comes_after_the_gang_stays_in_its_domain_because_koordinator_does_not_care() -> None:
    gang = make.gang("g", {"a": 1}, required=ZONE, preferred=RACK)
    near = {"matchLabels": {"grove.io/podgang": "g"}}
    want = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ZONE, "labelSelector": near}],
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 100, "podAffinityTerm": {"topologyKey": RACK, "labelSelector": near}}
            ],
        }
    }
    first, extra = (make.pod_manifest("a", index, gang=gang) for index in (0, 1))
    assert affinity_of(BACKEND.prepare_pod(first, gang, RACKS)) == {}
    assert affinity_of(BACKEND.prepare_pod(extra, gang, RACKS)) == want
    placed = replace(RACKS, bound={"a": 1})
    assert affinity_of(BACKEND.prepare_pod(first, told(gang, "Scheduled"), placed)) == want
    assert affinity_of(BACKEND.prepare_pod(first, told(gang, "Scheduled"), RACKS)) == {}, (
        "nothing is left of it"
    )


def test_topology_and_quotas_are_watched() -> None:
    assert [(str(each.resource), each.name) for each in BACKEND.traits(OPEN).observes] == [
        ("clusternetworktopologies.scheduling.koordinator.sh", "default"),
        ("elasticquotas.scheduling.sigs.k8s.io", ""),
    ]


PACK = {"topologyName": "c", "pack": {"required": "rack"}}
VALIDATIONS: dict[str, tuple[PodCliqueSet, Context, Sequence[str]]] = {
    "a plain set": (make.cliqueset(), OPEN, []),
    "a must without the feature": (
        make.cliqueset(template={"topologyConstraint": PACK}),
        OPEN,
        ["spec.template.topologyConstraint.pack.required"],
    ),
    "a must with the feature": (make.cliqueset(template={"topologyConstraint": PACK}), RACKS, []),
    "the old spelling": (
        make.cliqueset(template={"topologyConstraint": {"packDomain": "rack"}}),
        OPEN,
        ["spec.template.topologyConstraint.packDomain"],
    ),
    "a must of the only role": (
        make.cliqueset(cliques=[make.template("a", topologyConstraint=PACK)]),
        RACKS,
        [],
    ),
    "a must of one role of two": (
        make.cliqueset(cliques=[make.template("b"), make.template("a", topologyConstraint=PACK)]),
        RACKS,
        ["spec.template.cliques[1].topologyConstraint.pack.required"],
    ),
    "a must of a scaling group": (
        make.cliqueset(cliques={"a": 1}, groups=[make.scaling_group("s", ["a"], topologyConstraint=PACK)]),
        RACKS,
        ["spec.template.podCliqueScalingGroups[0].topologyConstraint.pack.required"],
    ),
    "a quota that is no label value": (
        make.cliqueset(cliques=[make.template("a", annotations={QUOTA: "a/b"})]),
        OPEN,
        [f"spec.template.cliques[0].annotations[{QUOTA}]"],
    ),
}


@pytest.mark.parametrize("name", VALIDATIONS)
def test_a_set_is_refused_by_field(name: str) -> None:
    cliqueset, context, want = VALIDATIONS[name]
    assert [error.field for error in BACKEND.validate(cliqueset, context)] == list(want)
