"""KAI's objects as a whole, the pods' marks, what is refused, and the queue a gang goes to."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import msgspec
import pytest
from tests.backends import clusters
from tests.backends.clusters import on

from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.revision import next_revision
from grove.backends.base import Capability, Cluster, Context, Edit, Fidelity, TopologyAware
from grove.backends.kai import KaiBackend, staleness
from grove.errors import Unsupported, Waiting
from grove.meta import Manifest
from grove.testing import make

BACKEND = KaiBackend()
RACK, ZONE = "example.com/rack", "topology.kubernetes.io/zone"
NAMED = {"grove.io/topology-name": "cluster"}

PAIR = make.gang("g", {"leader": 1, "worker": 3}, uid="u1")
TREE = make.gang(
    "train-0",
    [
        make.podgroup("train-0-fe", 1),
        make.podgroup("train-0-d-0-leader", 1, required=RACK),
        make.podgroup("train-0-d-0-worker", 3, preferred="kubernetes.io/hostname"),
    ],
    uid="u1",
    required=ZONE,
    preferred=RACK,
    priority="high",
    groups=[make.group("train-0-d-0", ["train-0-d-0-leader", "train-0-d-0-worker"], required=RACK)],
    annotations=NAMED,
    cliqueset="train",
)


def podgroup(name: str, spec: Manifest, *, gang: PodGang = PAIR) -> Manifest:
    marks = {"app.kubernetes.io/managed-by": "grove-operator", "grove.io/podgang": gang.name}
    if "app.kubernetes.io/part-of" in gang.labels:
        marks["app.kubernetes.io/part-of"] = gang.labels["app.kubernetes.io/part-of"]
    owner = {
        "apiVersion": "scheduler.grove.io/v1alpha1",
        "kind": "PodGang",
        "name": gang.name,
        "uid": "u1",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default", "labels": marks, "ownerReferences": [owner]},
        "spec": spec,
    }


def tree(**parent: int) -> list[Manifest]:
    return [
        {
            "name": "train-0-d-0",
            **parent,
            "topologyConstraint": {"topology": "cluster", "requiredTopologyLevel": RACK},
        },
        {"name": "train-0-fe", "minMember": 1},
        {
            "name": "train-0-d-0-leader",
            "minMember": 1,
            "parent": "train-0-d-0",
            "topologyConstraint": {"topology": "cluster", "requiredTopologyLevel": RACK},
        },
        {
            "name": "train-0-d-0-worker",
            "minMember": 3,
            "parent": "train-0-d-0",
            "topologyConstraint": {"topology": "cluster", "preferredTopologyLevel": "kubernetes.io/hostname"},
        },
    ]


def all_below(subgroups: list[Manifest]) -> list[Manifest]:
    """The same with a parent more, for the leaf that had none."""
    parent, leaf, *others = subgroups
    return [parent, {"name": "others-0"}, {**leaf, "parent": "others-0"}, *others]


TREE_SPEC: Manifest = {
    "minMember": 5,
    "queue": "default-queue",
    "priorityClassName": "high",
    "topologyConstraint": {
        "topology": "cluster",
        "requiredTopologyLevel": ZONE,
        "preferredTopologyLevel": RACK,
    },
}


@dataclass(frozen=True)
class Case:
    gang: PodGang
    want: Sequence[Manifest]
    cluster: Cluster = clusters.KAI_012
    config: Manifest = field(default_factory=dict)


LEAVES: list[Manifest] = [{"name": "leader", "minMember": 1}, {"name": "worker", "minMember": 3}]
CASES = {
    "a subGroup per podgroup": Case(
        PAIR, [podgroup("pg-g-r1", {"minMember": 4, "queue": "default-queue", "subGroups": LEAVES})]
    ),
    "newer KAI: no eviction of what is left, the queue from the profile": Case(
        PAIR,
        [
            podgroup(
                "pg-g-r1",
                {"minMember": 4, "queue": "q", "stalenessGracePeriod": "-1s", "subGroups": LEAVES},
            )
        ],
        clusters.KAI_017,
        {"queue": "q"},
    ),
    "parents in KAI 0.12, which drops a leaf that has none where others do": Case(
        TREE, [podgroup("pg-train-0-r1", {**TREE_SPEC, "subGroups": all_below(tree())}, gang=TREE)]
    ),
    "parents in newer KAI": Case(
        TREE,
        [
            podgroup(
                "pg-train-0-r1",
                {**TREE_SPEC, "stalenessGracePeriod": "5m", "subGroups": tree(minSubGroup=2)},
                gang=TREE,
            )
        ],
        clusters.KAI_017,
        {"stalenessGracePeriod": "5m"},
    ),
    "an optional podgroup stands alone": Case(
        make.gang("g", {"leader": 1, "spare": 0}, uid="u1"),
        [
            podgroup(
                "pg-g-r1",
                {
                    "minMember": 1,
                    "queue": "default-queue",
                    "subGroups": [{"name": "leader", "minMember": 1}],
                },
            ),
            podgroup("pg-g-spare-r1", {"minMember": 1, "queue": "default-queue"}),
        ],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_objects(case: Case) -> None:
    translation = BACKEND.translate(case.gang, on(case.cluster, **case.config))
    assert list(translation.manifests) == list(case.want)
    lost = [each.property for each in translation.treatments if each.fidelity is not Fidelity.ENFORCED]
    assert lost == ([staleness.STALENESS] if case.cluster is clusters.KAI_012 else [])


def test_the_parent_that_kai_012_needs_takes_no_name_of_others() -> None:
    gang = make.gang(
        "g",
        [make.podgroup("others-0", 1), make.podgroup("worker", 1)],
        groups=[make.group("others-1", ["worker"], required=RACK)],
        annotations=NAMED,
    )
    [made] = BACKEND.translate(gang, Context(clusters.KAI_012)).manifests
    parents = {each["name"]: each.get("parent", "") for each in made["spec"]["subGroups"]}
    assert parents == {"others-1": "", "others-2": "", "others-0": "others-2", "worker": "others-1"}


def test_equal_gangs_of_two_namespaces_never_share_a_name() -> None:
    made = [
        BACKEND.translate(make.gang("g", {"w": 1}, namespace=namespace), Context(clusters.KAI_012)).manifests[
            0
        ]
        for namespace in ("a", "b")
    ]
    assert made[0]["metadata"]["name"] != made[1]["metadata"]["name"]


def test_pods_find_their_object_also_where_nobody_says_which_start_of_the_gang_it_is() -> None:
    context = Context(clusters.KAI_012)
    ours = make.gang("g", {"leader": 1, "worker": 3}, uid="u1", cliqueset="s")
    [made] = BACKEND.translate(ours, context).manifests
    pod = BACKEND.prepare_pod(make.pod_manifest("worker", 0, gang=ours), ours, context)
    assert made["metadata"]["name"] == f"pg-g-{next_revision(ours)}"
    assert pod["metadata"]["annotations"]["pod-group-name"] == made["metadata"]["name"]


def test_an_edit_of_a_gang_of_somebody_else_keeps_the_object_that_its_pods_name() -> None:
    context = Context(clusters.KAI_012, bound={"w": 2})
    names = {
        BACKEND.translate(make.gang("g", {"w": size}, uid="u"), context).manifests[0]["metadata"]["name"]
        for size in (2, 3)
    }
    assert len(names) == 1


# Staleness ----------------------------------------------------------------------------------------


def told(gang: PodGang, *conditions: str) -> PodGang:
    """The gang with these conditions true."""
    status = {"conditions": [{"type": name, "status": "True"} for name in conditions]}
    return make.view(PodGang, {**msgspec.to_builtins(gang), "status": status})


KAIS = {"none": Cluster(), "0.12": clusters.KAI_012, "0.17": clusters.KAI_017}


@dataclass(frozen=True)
class Staleness:
    bound: dict[str, int]
    #: The minima of the whole and of its subgroups.
    want: tuple[int, int, int]
    conditions: tuple[str, ...] = ("Scheduled",)
    cluster: Cluster = clusters.KAI_012


STALENESS = {
    "not placed yet, all of it must be": Staleness({}, (4, 1, 3), ()),
    "not placed yet, a part on nodes lowers nothing: the rest must come too": Staleness(
        {"worker": 2}, (4, 1, 3), ("Initialized",)
    ),
    "placed, as it should be": Staleness({"leader": 1, "worker": 3}, (4, 1, 3)),
    "placed, and more than it needs": Staleness({"leader": 1, "worker": 5}, (4, 1, 3)),
    "placed, and a pod was lost": Staleness({"leader": 1, "worker": 2}, (3, 1, 2)),
    "placed, and a pod was lost, which was said": Staleness(
        {"leader": 1, "worker": 2}, (3, 1, 2), ("Unhealthy",)
    ),
    "placed, and a whole role was lost: its pods are a subgroup still": Staleness({"leader": 1}, (2, 1, 1)),
    "placed once, and nothing is left: it is restarted": Staleness({}, (4, 1, 3)),
    "placed once, and nothing is left, which was said": Staleness(
        {"leader": 0, "worker": 0}, (4, 1, 3), ("Unhealthy",)
    ),
    "newer KAI is told not to evict, and keeps the minimum": Staleness(
        {"leader": 1, "worker": 2}, (4, 1, 3), cluster=clusters.KAI_017
    ),
}


@pytest.mark.parametrize("case", STALENESS.values(), ids=STALENESS)
def test_a_kai_that_evicts_what_is_below_its_minimum_is_told_what_is_on_nodes(case: Staleness) -> None:
    context = replace(on(case.cluster), bound=case.bound)
    [made] = BACKEND.translate(told(PAIR, *case.conditions), context).manifests
    spec = made["spec"]
    assert (spec["minMember"], *(each["minMember"] for each in spec["subGroups"])) == case.want
    assert [each["name"] for each in spec["subGroups"]] == ["leader", "worker"]


def staleness_of(gang: PodGang, context: Context) -> list[tuple[Fidelity, str]]:
    made = BACKEND.translate(gang, context).treatments
    return [(each.fidelity, each.reason) for each in made if each.property == staleness.STALENESS]


def test_before_and_after_a_loss_a_gang_says_in_the_same_words_what_kai_cannot_be_told() -> None:
    before = staleness_of(PAIR, on(clusters.KAI_012))
    lost = replace(on(clusters.KAI_012), bound={"leader": 1, "worker": 2})
    assert staleness_of(told(PAIR, "Scheduled"), lost) == before
    [(fidelity, reason)] = before
    assert fidelity is Fidelity.APPROXIMATED
    assert "this release of KAI has no stalenessGracePeriod" in reason
    assert "gets a lower minimum" in reason
    assert staleness_of(PAIR, on(clusters.KAI_017)) == []


def test_a_setting_of_the_profile_that_kai_cannot_be_told_is_named_as_without_effect() -> None:
    [(fidelity, reason)] = staleness_of(PAIR, on(clusters.KAI_012, stalenessGracePeriod="5m"))
    assert fidelity is Fidelity.NOT_EXPRESSIBLE
    assert reason.startswith("the profile's stalenessGracePeriod 5m has no effect: this release of KAI")
    assert staleness_of(PAIR, on(clusters.KAI_017, stalenessGracePeriod="5m")) == []


def test_only_a_kai_that_is_there_and_old_falls_short() -> None:
    found = {name: BACKEND.traits(on(each)).shortcomings for name, each in KAIS.items()}
    assert {name: len(each) for name, each in found.items()} == {"none": 0, "0.12": 1, "0.17": 0}
    assert "no stalenessGracePeriod" in found["0.12"][0]


def test_an_optional_podgroup_of_a_placed_gang_stays_optional() -> None:
    gang = told(make.gang("g", {"leader": 2, "spare": 0}, uid="u1"), "Scheduled")
    context = replace(on(clusters.KAI_012), bound={"leader": 1, "spare": 3})
    whole, spare = BACKEND.translate(gang, context).manifests
    assert (whole["spec"]["minMember"], spare["spec"]["minMember"]) == (1, 1)
    assert [each["name"] for each in whole["spec"]["subGroups"]] == ["leader"]


def test_what_can_be_edited_while_pods_are_on_nodes() -> None:
    assert BACKEND.traits(on(clusters.KAI_012)).editable == {Edit.MINIMUM, Edit.PRIORITY}


def test_a_prepared_pod_as_a_whole() -> None:
    pod = make.pod_manifest("worker", 0, gang=PAIR, gates=["example.com/quota"], annotations={"a": "b"})
    assert BACKEND.prepare_pod(pod, PAIR, on(clusters.KAI_012, queue="research")) == {
        **pod,
        "metadata": {
            **pod["metadata"],
            "labels": {
                **pod["metadata"]["labels"],
                "kai.scheduler/queue": "research",
                "kai.scheduler/subgroup-name": "worker",
            },
            "annotations": {
                "a": "b",
                "pod-group-name": "pg-g-r1",
                "kai.scheduler/skip-podgrouper": "true",
            },
        },
        "spec": {
            **pod["spec"],
            "schedulerName": "kai-scheduler",
            "schedulingGates": [{"name": "example.com/quota"}, {"name": "grove.io/podgang"}],
        },
    }


def test_a_pod_of_an_optional_podgroup_belongs_to_its_own_object_and_to_no_subgroup() -> None:
    gang = make.gang("g", {"leader": 1, "spare": 0}, uid="u1")
    pod = BACKEND.prepare_pod(make.pod_manifest("spare", 0, gang=gang), gang, on(clusters.KAI_012))
    assert pod["metadata"]["annotations"]["pod-group-name"] == "pg-g-spare-r1"
    assert "kai.scheduler/subgroup-name" not in pod["metadata"]["labels"]


REFUSED: dict[str, tuple[PodGang, str]] = {
    "a constraint without a topology": (
        make.gang("g", {"a": 1}, required=RACK),
        "no annotation grove.io/topology-name",
    ),
    "no DNS label": (make.gang("g", {"a.b": 1}), "'a.b' is not a DNS label"),
    "too long for a label": (make.gang("g", {"a" * 64: 1}), "is not a DNS label"),
    "one name twice": (make.gang("g", {"a": 1}, groups=[make.group("a", ["a"])]), "are named 'a'"),
    "an optional podgroup that must follow": (
        make.gang("g", {"a": 1, "b": 0}, required=RACK, annotations=NAMED),
        "podgroup 'b' has minReplicas 0",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_kai_would_ignore_or_reject_is_refused(name: str) -> None:
    gang, text = REFUSED[name]
    with pytest.raises(Unsupported, match=text):
        BACKEND.translate(gang, on(clusters.KAI_012))


def test_kais_own_topology_annotation_is_the_fallback() -> None:
    gang = make.gang("g", {"a": 1}, required=RACK, annotations={"kai.scheduler/topology": "theirs"})
    [made] = BACKEND.translate(gang, on(clusters.KAI_012)).manifests
    assert made["spec"]["topologyConstraint"]["topology"] == "theirs"


def test_reuse_is_reported_as_lost() -> None:
    [gang, treatment] = BACKEND.translate(
        make.gang("g", {"a": 1}, reuse="old"), on(clusters.KAI_017)
    ).treatments
    assert gang.fidelity is Fidelity.ENFORCED
    assert treatment.property == Capability.REUSE


def test_without_its_kinds_kai_is_waited_for() -> None:
    missing = [each.name for each in BACKEND.preconditions(on(Cluster())) if each.missing]
    assert missing == [
        "CustomResourceDefinition podgroups.scheduling.run.ai",
        "CustomResourceDefinition queues.scheduling.run.ai",
        "CustomResourceDefinition bindrequests.scheduling.run.ai",
        "CustomResourceDefinition topologies.kai.scheduler",
    ]
    assert not any(each.missing for each in BACKEND.preconditions(on(clusters.KAI_012)))
    with pytest.raises(Waiting, match="install KAI"):
        BACKEND.translate(PAIR, on(Cluster()))


def test_what_an_older_kai_lacks_is_probed_field_by_field() -> None:
    probes = BACKEND.traits(on(clusters.KAI_012)).probes
    assert {fact for probe in probes for fact in probe.facts(probe.manifest)} == clusters.KAI_017.fields
    assert {fact for probe in probes for fact in probe.facts(None)} == set()
    assert [len(probe.fields) for probe in probes] == [1, 1]
    assert BACKEND.traits(on(Cluster())).probes == ()


Q = "kai.scheduler/queue"
QUEUES: dict[str, tuple[PodGang, PodCliqueSet | None, str]] = {
    "a label of the gang": (make.gang("g", {"a": 1}, labels={Q: "x"}, annotations={Q: "y"}), None, "x"),
    "an annotation of the gang": (make.gang("g", {"a": 1}, annotations={Q: "y"}), None, "y"),
    "a label of the set": (make.gang("g", {"a": 1}), make.cliqueset(labels={Q: "s"}), "s"),
    "the roles agree": (
        make.gang("g", {"a": 1}),
        make.cliqueset(
            cliques=[
                make.template("a", labels={Q: "r"}),
                make.template("b", annotations={Q: "r"}),
                make.template("c"),
            ]
        ),
        "r",
    ),
    "the roles do not agree: the profile": (
        make.gang("g", {"a": 1}),
        make.cliqueset(cliques=[make.template("a", labels={Q: "r"}), make.template("b", labels={Q: "t"})]),
        "profile",
    ),
    "nobody says: the profile": (make.gang("g", {"a": 1}), make.cliqueset(), "profile"),
}


@pytest.mark.parametrize("name", QUEUES)
def test_queue(name: str) -> None:
    gang, cliqueset, want = QUEUES[name]
    context = replace(on(clusters.KAI_012, queue="profile"), cliqueset=cliqueset)
    [made] = BACKEND.translate(gang, context).manifests
    assert made["spec"]["queue"] == want


VALIDATIONS: dict[str, tuple[PodCliqueSet, Sequence[str]]] = {
    "a plain set": (make.cliqueset(), []),
    "a role against the set": (
        make.cliqueset(cliques=[make.template("a", labels={Q: "r"})], annotations={Q: "s"}),
        [f"spec.template.cliques[0].labels[{Q}]"],
    ),
    "a role against a role": (
        make.cliqueset(
            cliques=[make.template("a", labels={Q: "r"}), make.template("b", annotations={Q: "t"})]
        ),
        [f"spec.template.cliques[1].annotations[{Q}]"],
    ),
    "a name that is too long": (
        make.cliqueset("s" * 40, {"c" * 30: 1}),
        ["spec.template.cliques[0].name"],
    ),
    "a name that is too long in its group": (
        make.cliqueset("s" * 20, {"c" * 20: 1}, groups=[make.scaling_group("g" * 20, ["c" * 20])]),
        ["spec.template.cliques[0].name"],
    ),
    "a constraint with a topology": (
        make.cliqueset(template={"topologyConstraint": {"topologyName": "c", "pack": {"required": "rack"}}}),
        [],
    ),
}


@pytest.mark.parametrize("name", VALIDATIONS)
def test_a_set_is_refused_by_field(name: str) -> None:
    cliqueset, want = VALIDATIONS[name]
    assert [error.field for error in BACKEND.validate(cliqueset, on(clusters.KAI_012))] == list(want)


def test_the_topology_is_named_like_its_binding_and_owned_by_it() -> None:
    binding = make.topology_binding("cluster", {"zone": ZONE, "rack": RACK}, uid="b1")
    made = BACKEND.desired_topology(binding)
    assert made == {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {
            "name": "cluster",
            "labels": {"app.kubernetes.io/managed-by": "grove-operator"},
            "ownerReferences": [
                {
                    "apiVersion": "grove.io/v1alpha1",
                    "kind": "ClusterTopologyBinding",
                    "name": "cluster",
                    "uid": "b1",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {"levels": [{"nodeLabel": ZONE}, {"nodeLabel": RACK}]},
    }
    assert isinstance(BACKEND, TopologyAware)
    assert BACKEND.levels_of(made) == (ZONE, RACK)
