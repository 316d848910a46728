"""Volcano's objects as a whole, the pods' marks, what is refused, and the queue a gang goes to."""

import timeit
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from tests.backends.clusters import on
from tests.backends.volcano.volcanoes import HOST, RACK, V113, V114, ZONE, seen, volcano

from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.backends.base import Capability, Cluster, Context, Edit, Fidelity
from grove.backends.volcano import VolcanoBackend
from grove.errors import InvalidConfiguration, Unsupported, Waiting
from grove.meta import Manifest
from grove.testing import make

BACKEND = VolcanoBackend()
PAIR = make.gang("g", {"leader": 1, "worker": 3}, uid="u1")


def podgroup(spec: Manifest, *, gang: PodGang = PAIR) -> Manifest:
    owner = {
        "apiVersion": "scheduler.grove.io/v1alpha1",
        "kind": "PodGang",
        "name": gang.name,
        "uid": "u1",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    marks = {"app.kubernetes.io/managed-by": "grove-operator", "grove.io/podgang": gang.name}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": f"{gang.name}-r1",
            "namespace": "default",
            "labels": marks,
            "ownerReferences": [owner],
        },
        "spec": spec,
    }


def policy(
    name: str, size: int, *, key: str = "grove.io/podclique", needed: int = 1, **beside: object
) -> Manifest:
    return {
        "name": name,
        "labelSelector": {"matchLabels": {key: name}},
        "matchLabelKeys": [key],
        "subGroupSize": size,
        "minSubGroups": needed,
        **beside,
    }


def hard(tier: str) -> Manifest:
    return {"networkTopology": {"mode": "hard", "highestTierName": tier}}


def numbered(tier: int) -> Manifest:
    """In a policy: there Volcano ignores the name of a tier."""
    return {"networkTopology": {"mode": "hard", "highestTierAllowed": tier}}


SOFT: Manifest = {"networkTopology": {"mode": "soft"}}
GROUPED = "scheduler.grove.io/topology-group"


@dataclass(frozen=True)
class Case:
    gang: PodGang
    want: Manifest
    cluster: Cluster = V114
    config: Manifest = field(default_factory=dict)


POLICIES = [policy("leader", 1), policy("worker", 3)]
CASES = {
    "a policy per podgroup that claims its pods and demands its minimum": Case(
        PAIR, {"minMember": 4, "subGroupPolicy": POLICIES}
    ),
    "queue and priority": Case(
        make.gang("g", {"leader": 1, "worker": 3}, uid="u1", priority="high"),
        {"minMember": 4, "queue": "q", "priorityClassName": "high", "subGroupPolicy": POLICIES},
        config={"queue": "q"},
    ),
    "the default queue is left to Volcano": Case(
        PAIR, {"minMember": 4, "subGroupPolicy": POLICIES}, config={"queue": "default"}
    ),
    "an optional podgroup demands nothing": Case(
        make.gang("g", {"leader": 1, "spare": 0}, uid="u1"),
        {"minMember": 1, "subGroupPolicy": [policy("leader", 1), policy("spare", 1, needed=0)]},
    ),
    "before 1.14: minima by task": Case(
        PAIR, {"minMember": 4, "minTaskMember": {"leader": 1, "worker": 3}}, V113
    ),
    "the whole gang in one rack": Case(
        make.gang("g", {"leader": 1, "worker": 3}, uid="u1", required=RACK, preferred=HOST),
        {"minMember": 4, **hard(RACK), "subGroupPolicy": POLICIES},
    ),
    "the whole gang close together": Case(
        make.gang("g", {"leader": 1, "worker": 3}, uid="u1", preferred=ZONE),
        {"minMember": 4, **SOFT, "subGroupPolicy": POLICIES},
    ),
    "a podgroup in one rack within a zone": Case(
        make.gang(
            "g",
            [make.podgroup("leader", 1), make.podgroup("worker", 3, required=RACK)],
            uid="u1",
            required=ZONE,
        ),
        {
            "minMember": 4,
            **hard(ZONE),
            "subGroupPolicy": [policy("leader", 1), policy("worker", 3, **numbered(2))],
        },
    ),
    "a podgroup that asks for no more than the gang": Case(
        make.gang(
            "g",
            [make.podgroup("leader", 1, required=ZONE), make.podgroup("worker", 3)],
            uid="u1",
            required=RACK,
        ),
        {"minMember": 4, **hard(RACK), "subGroupPolicy": POLICIES},
    ),
    "podgroups that share a rack are one subgroup, and tasks hold their minima": Case(
        make.gang(
            "g",
            {"fe": 1, "leader": 1, "worker": 3},
            uid="u1",
            required=ZONE,
            groups=[make.group("d-0", ["leader", "worker"], required=RACK)],
        ),
        {
            "minMember": 5,
            **hard(ZONE),
            "subGroupPolicy": [policy("fe", 1), policy("d-0", 4, key=GROUPED, **numbered(2))],
            "minTaskMember": {"leader": 1, "worker": 3},
        },
    ),
    "a group of all podgroups is the gang": Case(
        make.gang(
            "g",
            [make.podgroup("leader", 1), make.podgroup("worker", 3, required=HOST)],
            uid="u1",
            required=ZONE,
            groups=[make.group("all", ["leader", "worker"], required=RACK)],
        ),
        {
            "minMember": 4,
            **hard(RACK),
            "subGroupPolicy": [policy("leader", 1), policy("worker", 3, **numbered(1))],
        },
    ),
    "a group without a constraint changes nothing": Case(
        make.gang("g", {"leader": 1, "worker": 3}, uid="u1", groups=[make.group("x", ["leader"])]),
        {"minMember": 4, "subGroupPolicy": POLICIES},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_objects(case: Case) -> None:
    translation = BACKEND.translate(case.gang, volcano(case.cluster, **case.config))
    assert list(translation.manifests) == [podgroup(case.want, gang=case.gang)]


def test_a_prepared_pod_as_a_whole() -> None:
    pod = make.pod_manifest("worker", 0, gang=PAIR, gates=["example.com/quota"], annotations={"a": "b"})
    assert BACKEND.prepare_pod(pod, PAIR, volcano()) == {
        **pod,
        "metadata": {
            **pod["metadata"],
            "annotations": {
                "a": "b",
                "scheduling.k8s.io/group-name": "g-r1",
                "scheduling.volcano.sh/group-name": "g-r1",
            },
        },
        "spec": {
            **pod["spec"],
            "schedulerName": "volcano",
            "schedulingGates": [{"name": "example.com/quota"}, {"name": "scheduling.volcano.sh/podgroup"}],
        },
    }


def test_before_1_14_a_pod_names_its_task() -> None:
    pod = BACKEND.prepare_pod(make.pod_manifest("worker", 0, gang=PAIR), PAIR, volcano(V113))
    assert pod["metadata"]["annotations"]["volcano.sh/task-spec"] == "worker"


def test_a_pod_of_podgroups_that_share_a_rack_is_marked_for_their_subgroup_and_its_task() -> None:
    gang = CASES["podgroups that share a rack are one subgroup, and tasks hold their minima"].gang
    made = {
        name: BACKEND.prepare_pod(make.pod_manifest(name, 0, gang=gang), gang, volcano())["metadata"]
        for name in ("fe", "worker")
    }
    assert made["worker"]["labels"][GROUPED] == "d-0"
    assert made["worker"]["annotations"]["volcano.sh/task-spec"] == "worker"
    assert GROUPED not in made["fe"]["labels"]
    assert "volcano.sh/task-spec" not in made["fe"]["annotations"]


# Losses and refusals ------------------------------------------------------------------------------


def told(gang: PodGang, context: Context) -> dict[str, tuple[Fidelity, str]]:
    treatments = BACKEND.translate(gang, context).treatments
    return {each.property: (each.fidelity, each.reason) for each in treatments}


def test_everything_is_enforced_on_a_current_volcano() -> None:
    gang = CASES["podgroups that share a rack are one subgroup, and tasks hold their minima"].gang
    assert {fidelity for fidelity, _ in told(gang, volcano()).values()} == {Fidelity.ENFORCED}


def test_before_1_14_minima_are_approximated_and_preferences_lost() -> None:
    gang = make.gang("g", {"leader": 1, "worker": 3}, preferred=RACK)
    found = told(gang, volcano(V113))
    assert found[Capability.SUBGROUPS][0] is Fidelity.APPROXIMATED
    assert "minTaskMember" in found[Capability.SUBGROUPS][1]
    assert found[Capability.TOPOLOGY_PREFERRED] == (
        Fidelity.NOT_EXPRESSIBLE,
        "this release of Volcano cannot name tiers (1.14 can)",
    )


def test_a_preference_for_more_than_the_smallest_domain_is_approximated() -> None:
    near, far = (make.gang("g", {"leader": 1, "worker": 3}, preferred=key) for key in (HOST, RACK))
    assert BACKEND.translate(near, volcano()).manifests == BACKEND.translate(far, volcano()).manifests
    assert told(near, volcano())[Capability.TOPOLOGY_PREFERRED] == (Fidelity.ENFORCED, "")
    assert told(far, volcano())[Capability.TOPOLOGY_PREFERRED] == (
        Fidelity.APPROXIMATED,
        "example.com/rack: Volcano prefers the smallest domain that has room, whichever is named",
    )


def test_a_preference_within_what_is_required_is_lost_where_no_hypernode_has_its_tier() -> None:
    gang = make.gang("g", {"leader": 1, "worker": 3}, required=RACK, preferred=HOST)
    assert told(gang, volcano())[Capability.TOPOLOGY_PREFERRED] == (Fidelity.ENFORCED, "")
    racks = replace(volcano(), observed=seen(tiers={RACK: 1, ZONE: 2}))
    fidelity, reason = told(gang, racks)[Capability.TOPOLOGY_PREFERRED]
    assert fidelity is Fidelity.NOT_EXPRESSIBLE
    assert reason.startswith(f"no HyperNode has the tierName {HOST!r}")


def test_pods_that_request_nothing_are_told_to_be_bound_one_by_one() -> None:
    asking = {"containers": [{"name": "main", "image": "i", "resources": {"limits": {"cpu": "1"}}}]}
    cliqueset = make.cliqueset("g", cliques=[make.template("leader"), make.template("worker", pod=asking)])
    gang = make.gang("g-0", {"g-0-leader": 1, "g-0-worker": 1})
    fidelity, reason = told(gang, replace(volcano(), cliqueset=cliqueset))[Capability.SUBGROUPS]
    assert fidelity is Fidelity.APPROXIMATED
    assert reason.startswith("g-0-leader: pods that request no resources")


def test_more_pods_than_the_minimum_in_a_rack_of_their_own_are_told_to_be_wanted_whole() -> None:
    worker = make.podgroup("worker", 1, required=RACK)
    worker["podReferences"] = [{"namespace": "default", "name": f"w{index}"} for index in range(2)]
    gang = make.gang("g", [make.podgroup("leader", 1), worker])
    fidelity, reason = told(gang, volcano())[Capability.TOPOLOGY_REQUIRED]
    assert (fidelity, reason) == (
        Fidelity.APPROXIMATED,
        "worker: Volcano wants a domain with room for all pods, not for the minimum",
    )


THIRD_LEVEL = make.gang(
    "g",
    [make.podgroup("fe", 1), make.podgroup("leader", 1, required=HOST), make.podgroup("worker", 3)],
    groups=[make.group("d-0", ["leader", "worker"], required=RACK)],
)
REFUSED: dict[str, tuple[PodGang, Context, str]] = {
    "a third level": (THIRD_LEVEL, volcano(), "'leader' requires 'kubernetes.io/hostname' inside the group"),
    "a rack before 1.14": (
        make.gang("g", {"a": 1}, required=RACK),
        volcano(V113),
        "cannot enforce a required topology constraint",
    ),
    "a rack that the profile rules out": (
        make.gang("g", {"a": 1}, required=RACK),
        volcano(networkTopology="Disabled"),
        "cannot enforce a required topology constraint",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_volcano_would_ignore_is_refused(name: str) -> None:
    gang, context, text = REFUSED[name]
    with pytest.raises(Unsupported, match=text):
        BACKEND.translate(gang, context)


def test_a_third_level_that_asks_for_no_more_is_no_third_level() -> None:
    gang = make.gang(
        "g",
        [make.podgroup("fe", 1), make.podgroup("leader", 1, required=ZONE), make.podgroup("worker", 3)],
        groups=[make.group("d-0", ["leader", "worker"], required=RACK)],
    )
    [made] = BACKEND.translate(gang, volcano()).manifests
    assert made["spec"]["subGroupPolicy"] == [policy("fe", 1), policy("d-0", 4, key=GROUPED, **numbered(2))]


# Queues and validation ----------------------------------------------------------------------------

Q, GROVE_Q = "scheduling.volcano.sh/queue-name", "scheduling.grove.io/volcano-queue"
QUEUES: dict[str, tuple[PodGang, PodCliqueSet | None, str]] = {
    "a label of the gang": (make.gang("g", {"a": 1}, labels={Q: "x"}, annotations={Q: "y"}), None, "x"),
    "an annotation of the gang": (make.gang("g", {"a": 1}, annotations={Q: "y", GROVE_Q: "z"}), None, "y"),
    "the annotation of Grove in Go": (make.gang("g", {"a": 1}, annotations={GROVE_Q: "z"}), None, "z"),
    "a label of the set": (make.gang("g", {"a": 1}), make.cliqueset(labels={Q: "s"}), "s"),
    "the roles agree": (
        make.gang("g", {"a": 1}),
        make.cliqueset(
            cliques=[
                make.template("a", labels={Q: "r"}),
                make.template("b", annotations={GROVE_Q: "r"}),
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
    context = replace(on(V114, queue="profile"), cliqueset=cliqueset)
    [made] = BACKEND.translate(gang, context).manifests
    assert made["spec"]["queue"] == want


RACKED = {"topologyName": "c", "pack": {"required": "rack"}}
VALIDATIONS: dict[str, tuple[PodCliqueSet, Context, Sequence[str]]] = {
    "a plain set": (make.cliqueset(), volcano(), []),
    "a role against the set": (
        make.cliqueset(cliques=[make.template("a", labels={Q: "r"})], annotations={GROVE_Q: "s"}),
        volcano(),
        [f"spec.template.cliques[0].labels[{Q}]"],
    ),
    "a role against a role": (
        make.cliqueset(
            cliques=[make.template("a", labels={Q: "r"}), make.template("b", annotations={Q: "t"})]
        ),
        volcano(),
        [f"spec.template.cliques[1].annotations[{Q}]"],
    ),
    "no name of a queue": (
        make.cliqueset(annotations={Q: "Not a queue"}),
        volcano(),
        [f"metadata.annotations[{Q}]"],
    ),
    "a rack": (make.cliqueset(template={"topologyConstraint": RACKED}), volcano(), []),
    "a rack before Volcano is installed": (
        make.cliqueset(template={"topologyConstraint": RACKED}),
        volcano(Cluster()),
        [],
    ),
    "racks before 1.14": (
        make.cliqueset(
            cliques=[make.template("a", topologyConstraint={"pack": {"preferred": "rack"}})],
            groups=[make.scaling_group("g", ["a"], topologyConstraint=RACKED)],
            template={"topologyConstraint": RACKED},
        ),
        volcano(V113),
        [
            "spec.template.topologyConstraint.pack.required",
            "spec.template.podCliqueScalingGroups[0].topologyConstraint.pack.required",
        ],
    ),
    "a third level": (
        make.cliqueset(
            cliques=[
                make.template("a"),
                make.template("b", topologyConstraint={"topologyName": "c", "pack": {"required": "host"}}),
            ],
            groups=[make.scaling_group("g", ["b"], topologyConstraint=RACKED)],
        ),
        volcano(),
        ["spec.template.cliques[1].topologyConstraint.pack.required"],
    ),
}


@pytest.mark.parametrize("name", VALIDATIONS)
def test_a_set_is_refused_by_field(name: str) -> None:
    cliqueset, context, want = VALIDATIONS[name]
    assert [error.field for error in BACKEND.validate(cliqueset, context)] == list(want)


SETTINGS: dict[str, tuple[Manifest, str]] = {
    "queue": ({"queue": "No Queue"}, "config.queue is 'No Queue'; it must be the name of a Volcano queue"),
    "topology": (
        {"networkTopology": "Perhaps"},
        "config.networkTopology is 'Perhaps'; it must be Auto, Enabled or Disabled",
    ),
    "config map": (
        {"schedulerConfigMap": "volcano"},
        "config.schedulerConfigMap is 'volcano'; it must be namespace/name",
    ),
    "config map that is no text": (
        {"schedulerConfigMap": ["a", "b"]},
        r"config.schedulerConfigMap is \['a', 'b'\]; it must be namespace/name",
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_wrong_setting_of_the_profile_is_one_sentence(name: str) -> None:
    config, text = SETTINGS[name]
    with pytest.raises(InvalidConfiguration, match=f"^scheduler profile volcano: {text}$"):
        BACKEND.preconditions(volcano(**config))


# The cluster --------------------------------------------------------------------------------------


def test_without_its_kinds_volcano_is_waited_for() -> None:
    missing = [each.name for each in BACKEND.preconditions(on(Cluster())) if each.missing]
    assert missing == [
        "CustomResourceDefinition podgroups.scheduling.volcano.sh",
        "CustomResourceDefinition queues.scheduling.volcano.sh",
    ]
    assert not any(each.missing for each in BACKEND.preconditions(volcano()))
    with pytest.raises(Waiting, match="install Volcano"):
        BACKEND.translate(PAIR, on(Cluster()))


def test_what_an_older_volcano_lacks_is_probed_field_by_field() -> None:
    probes = BACKEND.traits(volcano(V113)).probes
    assert {fact for probe in probes for fact in probe.facts(probe.manifest)} == V114.fields
    assert {fact for probe in probes for fact in probe.facts(None)} == set()
    assert [len(probe.fields) for probe in probes] == [1, 1]
    assert BACKEND.traits(on(Cluster())).probes == ()


def test_queues_hypernodes_and_one_config_map_are_watched() -> None:
    watched = BACKEND.traits(volcano(schedulerConfigMap="ns/conf")).observes
    assert [(str(each.resource), each.namespace, each.name) for each in watched] == [
        ("queues.scheduling.volcano.sh", "", ""),
        ("hypernodes.topology.volcano.sh", "", ""),
        ("configmaps", "ns", "conf"),
    ]


def test_only_volcanos_own_name_is_volcanos() -> None:
    names = ("volcano", "", "default-scheduler", "volcano-2")
    assert [BACKEND.matches(each) for each in names] == [True, False, False, False]


def test_a_gang_of_eight_podgroups_takes_less_than_a_tenth_of_a_millisecond() -> None:
    gang = make.gang("big", {f"big-role-{index}": 4 for index in range(8)}, required=RACK)
    context = volcano()
    best = min(timeit.repeat(lambda: BACKEND.translate(gang, context), number=200, repeat=5)) / 200
    # A loaded machine may be slower: the target is 100 microseconds.
    assert best < 400e-6


def test_every_start_of_a_gang_has_a_podgroup_of_its_own_and_pods_point_to_it() -> None:
    names = []
    for revision in ("r1", "r2"):
        context = replace(volcano(), revision=revision)
        [made] = BACKEND.translate(PAIR, context).manifests
        pod = BACKEND.prepare_pod(make.pod_manifest("worker", 0, gang=PAIR), PAIR, context)
        assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == made["metadata"]["name"]
        names.append(made["metadata"]["name"])
    assert names == ["g-r1", "g-r2"]


def test_what_can_be_edited_while_pods_are_on_nodes() -> None:
    assert BACKEND.traits(volcano()).editable == {Edit.MINIMUM, Edit.PRIORITY}
