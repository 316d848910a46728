"""What the native backend finds out about a cluster, and what it refuses of a set there."""

from collections.abc import Sequence

import pytest
from tests.backends import clusters
from tests.backends.clusters import on

from grove.api.cliqueset import PodCliqueSet
from grove.backends.base import Capability, Cluster, WithLifecycle, WithTraits
from grove.backends.default import DefaultBackend
from grove.backends.default.generation import DISRUPTION_FIELD, TOPOLOGY_FIELD, detect
from grove.meta import Manifest
from grove.testing import make

BACKEND = DefaultBackend()
BASIC = {Capability.PRIORITY, Capability.REPLICA_TOPOLOGY}
GANGS = BASIC | {Capability.GANG, Capability.SUBGROUPS}
PACKED = GANGS | {Capability.TOPOLOGY_REQUIRED}

CAPABILITIES: dict[str, tuple[Cluster, set[Capability], Sequence[str]]] = {
    "bare": (clusters.BARE, BASIC, []),
    "empty": (Cluster(), BASIC, []),
    "1.35": (clusters.V135, GANGS, ["scheduling.k8s.io/v1alpha1 Workload"]),
    "1.36 plain": (clusters.V136_PLAIN, GANGS, ["scheduling.k8s.io/v1alpha2 PodGroup"]),
    "1.36": (clusters.V136, PACKED, ["scheduling.k8s.io/v1alpha2 PodGroup"]),
    "1.37 plain": (clusters.V137_PLAIN, GANGS, ["scheduling.k8s.io/v1beta1 PodGroup"]),
    "1.37": (
        clusters.V137,
        PACKED | {Capability.HIERARCHY},
        [
            "scheduling.k8s.io/v1beta1 Workload",
            "scheduling.k8s.io/v1alpha3 CompositePodGroup",
            "scheduling.k8s.io/v1beta1 PodGroup",
        ],
    ),
    "1.37, only alpha": (clusters.V137_ALPHA_ONLY, BASIC, []),
}


@pytest.mark.parametrize("name", CAPABILITIES)
def test_capabilities_and_kinds_follow_from_the_resources_that_are_served(name: str) -> None:
    cluster, capabilities, kinds = CAPABILITIES[name]
    assert BACKEND.capabilities(on(cluster)) == capabilities
    assert [f"{each.api_version} {each.kind}" for each in BACKEND.resources(on(cluster))] == list(kinds)


def test_a_version_without_the_resource_proves_nothing() -> None:
    assert detect(Cluster(served={"scheduling.k8s.io/v1beta1": frozenset({"priorityclasses"})})) is None
    assert detect(Cluster(served={"scheduling.k8s.io/v1alpha2": frozenset({"workloads"})})) is None


def test_the_backend_offers_its_optional_abilities() -> None:
    assert isinstance(BACKEND, WithLifecycle)
    assert isinstance(BACKEND, WithTraits)


PROBES: dict[str, tuple[Cluster, Manifest, frozenset[str]]] = {
    "1.36, everything kept": (
        clusters.V136_PLAIN,
        {"spec": {"schedulingConstraints": {"topology": []}, "disruptionMode": "PodGroup"}},
        frozenset({TOPOLOGY_FIELD, DISRUPTION_FIELD}),
    ),
    "1.36, everything dropped": (clusters.V136_PLAIN, {"spec": {}}, frozenset()),
    "1.36, topology only": (
        clusters.V136_PLAIN,
        {"spec": {"schedulingConstraints": {}, "disruptionMode": None}},
        frozenset({TOPOLOGY_FIELD}),
    ),
    "1.36, dropped and replaced by its default": (
        clusters.V136_PLAIN,
        {"spec": {"disruptionMode": "Pod"}},
        frozenset(),
    ),
    "1.37": (
        clusters.V137_PLAIN,
        {"spec": {"schedulingConstraints": {}, "disruptionMode": {"all": {}}}},
        frozenset({TOPOLOGY_FIELD}),
    ),
}


@pytest.mark.parametrize("name", PROBES)
def test_a_probes_answer_says_which_fields_are_kept(name: str) -> None:
    cluster, answer, want = PROBES[name]
    [probe] = BACKEND.traits(on(cluster)).probes
    assert probe.manifest["apiVersion"] == probe.resource.api_version
    assert probe.facts(answer) == want
    assert probe.facts(None) == frozenset()


@pytest.mark.parametrize("cluster", [clusters.BARE, clusters.V135, clusters.V137])
def test_nothing_is_probed_where_discovery_says_it_all(cluster: Cluster) -> None:
    assert BACKEND.traits(on(cluster)).probes == ()


def required(domain: str) -> Manifest:
    return {"topologyConstraint": {"topologyName": "cluster", "pack": {"required": domain}}}


WHOLE = make.cliqueset(cliques={"a": 1, "b": 2}, template=required("rack"))
ONE_ROLE = make.cliqueset(cliques=[make.template("a", **required("rack")), make.template("b")])
ONLY_ROLE = make.cliqueset(cliques=[make.template("a", **required("rack"))])
SAME_EVERYWHERE = make.cliqueset(
    cliques=[make.template("a", **required("rack")), make.template("b")], template=required("rack")
)
GROUPED = make.cliqueset(
    cliques={"a": 1, "b": 1, "c": 1}, groups=[make.scaling_group("g", ["a", "b"], **required("rack"))]
)
BOTH = make.cliqueset(
    cliques=[make.template("a", **required("host")), make.template("b")], template=required("rack")
)
OLD_FIELD = make.cliqueset(template={"topologyConstraint": {"packDomain": "rack"}})
PREFERRED = make.cliqueset(template={"topologyConstraint": {"pack": {"preferred": "rack"}}})

SET = "spec.template.topologyConstraint.pack.required"
GROUP = "spec.template.podCliqueScalingGroups[0].topologyConstraint.pack.required"
ROLE = "spec.template.cliques[0].topologyConstraint.pack.required"

VALIDATIONS: dict[str, tuple[PodCliqueSet, Cluster, Sequence[str]]] = {
    "no constraint, no gang API": (make.cliqueset(), clusters.BARE, []),
    "a preference is never refused": (PREFERRED, clusters.BARE, []),
    "set level on 1.35": (WHOLE, clusters.V135, [SET]),
    "set level without the gate": (WHOLE, clusters.V137_PLAIN, [SET]),
    "set level on 1.36": (WHOLE, clusters.V136, []),
    "the deprecated field by its name": (
        OLD_FIELD,
        clusters.V135,
        ["spec.template.topologyConstraint.packDomain"],
    ),
    "one of several roles on 1.36": (ONE_ROLE, clusters.V136, [ROLE]),
    "one of several roles on 1.37 without trees": (ONE_ROLE, clusters.V137_TOPOLOGY, [ROLE]),
    "one of several roles in a tree": (ONE_ROLE, clusters.V137, []),
    "the only role on 1.36": (ONLY_ROLE, clusters.V136, []),
    "every role the same as the set on 1.36": (SAME_EVERYWHERE, clusters.V136, []),
    "a scaling group on 1.36": (GROUPED, clusters.V136, [GROUP]),
    "a scaling group in a tree": (GROUPED, clusters.V137, []),
    "two levels on 1.36": (BOTH, clusters.V136, [ROLE]),
    "two levels in a tree": (BOTH, clusters.V137, []),
}


@pytest.mark.parametrize("name", VALIDATIONS)
def test_a_set_is_refused_by_field_for_what_the_cluster_cannot_enforce(name: str) -> None:
    cliqueset, cluster, want = VALIDATIONS[name]
    assert [error.field for error in BACKEND.validate(cliqueset, on(cluster))] == list(want)


def test_from_1_37_on_a_role_may_not_have_another_priority_than_its_gang() -> None:
    roles = [make.template("a", pod={"priorityClassName": "low"}), make.template("b")]
    mixed = make.cliqueset(cliques=roles, template={"priorityClassName": "high"})
    [error] = BACKEND.validate(mixed, on(clusters.V137))
    assert error.field == "spec.template.cliques[0].spec.podSpec.priorityClassName"
    assert "'low' but the gang's is 'high'" in error.message
    assert BACKEND.validate(mixed, on(clusters.V136)) == []
