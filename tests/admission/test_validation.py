"""What may be stored: each error names its field and says what to do."""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grove.admission import default, validate, validate_topology_binding
from grove.admission.bindings import unusable_references
from grove.admission.order import find_cycle
from grove.api.cliqueset import PodCliqueSet
from grove.api.decode import decode
from grove.api.topology import (
    ClusterTopologyBinding,
    ClusterTopologyBindingSpec,
    SchedulerTopologyBinding,
    TopologyLevel,
)
from grove.meta import Manifest

CLIQUES, GROUPS = "spec.template.cliques", "spec.template.podCliqueScalingGroups"
Edit = Callable[[Manifest], object]


def clique(name: str, **spec: object) -> Manifest:
    return {"name": name, "spec": {"podSpec": {"containers": [{"name": "main", "image": "app"}]}, **spec}}


def template() -> Manifest:
    return {
        "cliqueStartupType": "CliqueStartupTypeExplicit",
        "cliques": [
            clique("front", roleName="front"),
            clique("lead", roleName="lead", startsAfter=["front"]),
            clique("work", roleName="work", replicas=4, startsAfter=["lead"]),
        ],
        "podCliqueScalingGroups": [{"name": "decode", "cliqueNames": ["lead", "work"], "replicas": 2}],
    }


def view(
    edit: Edit = lambda _: None, name: str = "llm", annotations: dict[str, str] | None = None
) -> PodCliqueSet:
    content = template()
    edit(content)
    metadata = {"name": name, "annotations": annotations or {}}
    return decode(default({"metadata": metadata, "spec": {"replicas": 1, "template": content}}), PodCliqueSet)


def spec(index: int) -> Callable[[Manifest], Manifest]:
    return lambda content: content["cliques"][index]["spec"]


def with_spec(index: int, **fields: object) -> Edit:
    return lambda content: spec(index)(content).update(fields)


def with_pods(index: int, **fields: object) -> Edit:
    return lambda content: spec(index)(content)["podSpec"].update(fields)


def with_group(**fields: object) -> Edit:
    return lambda content: content["podCliqueScalingGroups"][0].update(fields)


def with_template(**fields: object) -> Edit:
    return lambda content: content.update(fields)


def cycle(content: Manifest) -> None:
    spec(0)(content)["startsAfter"] = ["work"]


class Case(NamedTuple):
    edit: Edit
    field: str
    says: str


REFUSED = {
    "no clique": Case(
        with_template(cliques=[], podCliqueScalingGroups=[]),
        CLIQUES,
        "at least one PodClique must be defined",
    ),
    "an unknown startup type": Case(
        with_template(cliqueStartupType="Random"), "spec.template.cliqueStartupType", "can only be one of"
    ),
    "a delay that is none": Case(
        with_template(terminationDelay="soon"), "spec.template.terminationDelay", "'soon' is not a duration"
    ),
    "a delay of nothing": Case(
        with_template(terminationDelay="0s"), "spec.template.terminationDelay", "must be greater than 0"
    ),
    "a blank clique name": Case(
        lambda content: content["cliques"].append(clique(" ")), f"{CLIQUES}[3].name", "is required"
    ),
    "a clique name with a dot": Case(
        lambda content: content["cliques"].append(clique("a.b")), f"{CLIQUES}[3].name", "must be a DNS label"
    ),
    "a clique twice": Case(
        lambda content: content["cliques"].append(clique("front")),
        f"{CLIQUES}.name",
        "used more than once: front",
    ),
    "a role twice": Case(with_spec(1, roleName="front"), f"{CLIQUES}.roleName", "used more than once: front"),
    "negative replicas": Case(
        with_spec(0, replicas=-2, minAvailable=1),
        f"{CLIQUES}[0].spec.replicas",
        "must not be negative; got -2",
    ),
    "a minimum of zero": Case(
        with_spec(0, minAvailable=0), f"{CLIQUES}[0].spec.minAvailable", "must be greater than 0"
    ),
    "a minimum over replicas": Case(
        with_spec(2, minAvailable=5),
        f"{CLIQUES}[2].spec.minAvailable",
        "must not be greater than replicas; got 5 with 4 replicas",
    ),
    "autoscaling below the minimum": Case(
        with_spec(0, replicas=3, autoScalingConfig={"minReplicas": 1, "maxReplicas": 5}),
        f"{CLIQUES}[0].spec.autoScalingConfig.minReplicas",
        "minAvailable (3); got 1",
    ),
    "autoscaling below the replicas": Case(
        with_spec(0, replicas=3, autoScalingConfig={"maxReplicas": 2}),
        f"{CLIQUES}[0].spec.autoScalingConfig.maxReplicas",
        "replicas (3); got 2",
    ),
    "a label that cannot be one": Case(
        lambda content: content["cliques"][0].update(labels={"a b": "c"}),
        f"{CLIQUES}[0].labels",
        "not a valid key",
    ),
    "a label value that is too long": Case(
        lambda content: content["cliques"][0].update(labels={"a": "c" * 64}),
        f"{CLIQUES}[0].labels",
        "at most 63",
    ),
    "an annotation that cannot be one": Case(
        lambda content: content["cliques"][0].update(annotations={"/x": "c"}),
        f"{CLIQUES}[0].annotations",
        "not a valid key",
    ),
    "a node of one's own": Case(
        with_pods(0, nodeName="n1"), f"{CLIQUES}[0].spec.podSpec.nodeName", "must not be set"
    ),
    "spreading": Case(
        with_pods(0, topologySpreadConstraints=[{}]),
        f"{CLIQUES}[0].spec.podSpec.topologySpreadConstraints",
        "must not be set",
    ),
    "a variable twice": Case(
        with_pods(0, containers=[{"name": "m", "env": [{"name": "A"}, {"name": "A"}]}]),
        f"{CLIQUES}[0].spec.podSpec.containers[0].env",
        "used more than once: A",
    ),
    "a variable without a name": Case(
        with_pods(0, initContainers=[{"name": "m", "env": [{"value": "A"}]}]),
        f"{CLIQUES}[0].spec.podSpec.initContainers[0].env[0].name",
        "cannot be the name",
    ),
    "starting after itself": Case(
        with_spec(1, startsAfter=["lead"]), f"{CLIQUES}[1].spec.startsAfter", "cannot start after itself"
    ),
    "starting after a stranger": Case(
        with_spec(1, startsAfter=["ghost"]), f"{CLIQUES}[1].spec.startsAfter", "unknown: ghost"
    ),
    "starting after the same twice": Case(
        with_spec(1, startsAfter=["front", "front"]),
        f"{CLIQUES}[1].spec.startsAfter",
        "used more than once: front",
    ),
    "a circle": Case(
        cycle,
        f"{CLIQUES}[0].spec.startsAfter",
        "clique must not have circular dependencies: front -> work -> lead -> front",
    ),
    "a container that has the name of the one that waits": Case(
        with_pods(1, initContainers=[{"name": "a"}, {"name": "grove-initc"}]),
        f"{CLIQUES}[1].spec.podSpec.initContainers[1].name",
        "'grove-initc' is reserved in a role that starts after others",
    ),
    "a volume that has the name of one of the container that waits": Case(
        with_pods(1, volumes=[{"name": "pod-info-vol"}]),
        f"{CLIQUES}[1].spec.podSpec.volumes[0].name",
        "'pod-info-vol' is reserved",
    ),
    "a group of strangers": Case(
        with_group(cliqueNames=["ghost"]),
        f"{GROUPS}[0].cliqueNames",
        "unidentified PodClique names found: ghost",
    ),
    "a group of nothing": Case(with_group(cliqueNames=[]), f"{GROUPS}[0].cliqueNames", "at least one clique"),
    "a clique in two groups": Case(
        lambda content: content["podCliqueScalingGroups"].append({"name": "g", "cliqueNames": ["work"]}),
        f"{GROUPS}.cliqueNames",
        "found twice: work",
    ),
    "a group twice": Case(
        lambda content: content["podCliqueScalingGroups"].append(
            {"name": "decode", "cliqueNames": ["front"]}
        ),
        f"{GROUPS}.name",
        "used more than once: decode",
    ),
    "a group's minimum over replicas": Case(
        with_group(minAvailable=3),
        f"{GROUPS}[0].minAvailable",
        "must not be greater than replicas; got 3 with 2",
    ),
    "a group's minimum of zero": Case(
        with_group(minAvailable=0), f"{GROUPS}[0].minAvailable", "must be greater than 0"
    ),
    "a group scaled below its minimum": Case(
        with_group(minAvailable=2, scaleConfig={"minReplicas": 1, "maxReplicas": 3}),
        f"{GROUPS}[0].scaleConfig.minReplicas",
        "minAvailable (2); got 1",
    ),
    "a group scaled downwards": Case(
        with_group(scaleConfig={"maxReplicas": 1}),
        f"{GROUPS}[0].scaleConfig.maxReplicas",
        "minReplicas (2); got 1",
    ),
    "a group scaled below its replicas": Case(
        with_group(scaleConfig={"minReplicas": 1, "maxReplicas": 1}),
        f"{GROUPS}[0].scaleConfig.maxReplicas",
        "replicas (2); got 1",
    ),
    "a group's metric": Case(
        with_group(scaleConfig={"maxReplicas": 3, "metrics": [{"type": "Pods"}]}),
        f"{GROUPS}[0].scaleConfig.metrics[0].pods",
        "is required for a metric of type Pods",
    ),
    "an autoscaled member": Case(
        with_spec(2, autoScalingConfig={"maxReplicas": 9}), GROUPS, "use the group's scaleConfig"
    ),
    "autoscalers of one name": Case(
        lambda content: (
            with_spec(0, autoScalingConfig={"maxReplicas": 3})(content),
            with_group(name="front", scaleConfig={"maxReplicas": 3})(content),
        ),
        f"{GROUPS}[0].name",
        "their autoscalers would have the same name",
    ),
    "a clique named like a member": Case(
        lambda content: content["cliques"].append(clique("decode-0-lead")),
        f"{CLIQUES}.name",
        "is also the name",
    ),
    "claims of two levels with one name": Case(
        lambda content: (
            with_template(
                resourceClaimTemplates=[
                    {"name": each, "templateSpec": {"spec": {"devices": {"requests": [{}]}}}}
                    for each in ("front-all-gpu", "gpu")
                ],
                resourceSharing=[{"name": "front-all-gpu", "scope": "PerReplica"}],
            )(content),
            content["cliques"][0].update(resourceSharing=[{"name": "gpu", "scope": "AllReplicas"}]),
        ),
        f"{CLIQUES}[0].resourceSharing[0].name",
        "would have the same names as those of spec.template.resourceSharing[0]",
    ),
    "a claim whose name begins like the index of a pod": Case(
        lambda content: (
            with_template(
                resourceClaimTemplates=[
                    {"name": each, "templateSpec": {"spec": {"devices": {"requests": [{}]}}}}
                    for each in ("front-0-gpu", "gpu")
                ],
                resourceSharing=[{"name": "front-0-gpu", "scope": "PerReplica"}],
            )(content),
            content["cliques"][0].update(resourceSharing=[{"name": "gpu", "scope": "PerReplica"}]),
        ),
        f"{CLIQUES}[0].resourceSharing[0].name",
        "would have the same names",
    ),
    "a template with a name that no claim can have": Case(
        with_template(resourceSharing=[{"name": "Not_A_Name", "scope": "PerReplica"}]),
        "spec.template.resourceSharing[0].name",
        "must be a DNS subdomain",
    ),
    "a claim without requests": Case(
        with_template(resourceClaimTemplates=[{"name": "gpu", "templateSpec": {"spec": {}}}]),
        "spec.template.resourceClaimTemplates[0].templateSpec.spec.devices.requests",
        "at least one device request",
    ),
    "an internal claim with a namespace": Case(
        with_template(
            resourceClaimTemplates=[
                {"name": "gpu", "templateSpec": {"spec": {"devices": {"requests": [{}]}}}}
            ],
            resourceSharing=[{"name": "gpu", "namespace": "x", "scope": "PerReplica"}],
        ),
        "spec.template.resourceSharing[0].namespace",
        "must be empty",
    ),
    "a scope that is none": Case(
        with_template(resourceSharing=[{"name": "gpu", "scope": "Some"}]),
        "spec.template.resourceSharing[0].scope",
        "AllReplicas or PerReplica",
    ),
    "an empty filter": Case(
        with_template(resourceSharing=[{"name": "gpu", "scope": "PerReplica", "filter": {}}]),
        "spec.template.resourceSharing[0].filter",
        "at least one child",
    ),
    "a filter for strangers": Case(
        with_group(
            resourceSharing=[
                {"name": "gpu", "scope": "PerReplica", "filter": {"childCliqueNames": ["front"]}}
            ]
        ),
        f"{GROUPS}[0].resourceSharing[0].filter.childCliqueNames[0]",
        "clique 'front' not found",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refused_with_the_field_and_the_reason(case: Case) -> None:
    found = validate(view(case.edit))
    assert any(error.field == case.field and case.says in error.message for error in found), found


ALLOWED: dict[str, Edit] = {
    "as it is": lambda _: None,
    "a role that sleeps": with_spec(2, replicas=0),
    "a sleeping role that will need two": with_spec(2, replicas=0, minAvailable=2),
    "a group that sleeps": with_group(replicas=0),
    "two roles without a name": lambda content: (
        with_spec(0, roleName="")(content),
        with_spec(1, roleName="")(content),
    ),
    "scheduling gates of others": with_pods(0, schedulingGates=[{"name": "example.com/wait"}]),
    "reserved names in a role that waits for nobody": with_pods(0, volumes=[{"name": "pod-info-vol"}]),
    "a startsAfter that nobody reads": lambda content: content.update(
        cliqueStartupType="CliqueStartupTypeAnyOrder",
        cliques=[clique("lead", startsAfter=["ghost"]), clique("work")],
    ),
}


@pytest.mark.parametrize("edit", ALLOWED.values(), ids=ALLOWED)
def test_allowed(edit: Edit) -> None:
    assert validate(view(edit)) == []


@pytest.mark.parametrize(
    ("edit", "field"),
    [
        (with_spec(0, replicas=-1), f"{CLIQUES}[0].spec.replicas"),
        (with_spec(0, replicas=-1, autoScalingConfig={"maxReplicas": 3}), f"{CLIQUES}[0].spec.replicas"),
        (with_group(replicas=-1, scaleConfig={"maxReplicas": 3}), f"{GROUPS}[0].replicas"),
    ],
    ids=["of a role", "of a role that is scaled", "of a group that is scaled"],
)
def test_a_mistake_in_replicas_is_told_once_and_not_of_what_is_derived_from_them(
    edit: Edit, field: str
) -> None:
    assert [error.field for error in validate(view(edit))] == [field]


def test_a_name_over_the_budget_is_refused_with_the_budget_at_both_names() -> None:
    found = validate(view(name="l" * 41))
    assert {error.field for error in found} == {
        "metadata.name",
        f"{CLIQUES}[0].name",
        f"{GROUPS}[0].cliqueNames[0].name",
        f"{GROUPS}[0].cliqueNames[1].name",
    }
    assert found[0].message.startswith(
        "combined resource name length 46 exceeds 45-character limit required for pod naming"
    )
    assert found[0].message.endswith("shorten by 1")


@given(st.integers(1, 50))
def test_the_budget_is_exact(length: int) -> None:
    too_long = length + len("decode") + len("lead") > 45
    assert bool(validate(view(name="l" * length))) == too_long


@pytest.mark.parametrize("name", ["", "1llm", "a.b", "Llm", "llm-"])
def test_a_set_name_that_no_service_can_have_is_refused(name: str) -> None:
    assert "metadata.name" in {error.field for error in validate(view(name=name))}


def test_rules_for_new_sets_do_not_hold_for_stored_ones() -> None:
    old = view(with_template(topologyConstraint={"topologyName": "t", "packDomain": "rack"}))
    assert validate(old) == []
    assert [error.field for error in validate(old, new=True)] == [
        "spec.template.topologyConstraint.packDomain"
    ]


@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdef"), max_size=3).map(tuple)))
def test_a_cycle_is_found_exactly_when_there_is_one(after: dict[str, tuple[str, ...]]) -> None:
    found = find_cycle(after)
    if found:
        assert len(found) > 2
        assert found[0] == found[-1]
        assert all(later in after[earlier] for earlier, later in pairwise(found))
    else:
        done: set[str] = set()
        for _ in after:
            done |= {
                name
                for name, parents in after.items()
                if all(p in done or p not in after or p == name for p in parents)
            }
        assert done == set(after)


def binding(levels: list[tuple[str, str]], *schedulers: str) -> ClusterTopologyBinding:
    return ClusterTopologyBinding(
        spec=ClusterTopologyBindingSpec(
            levels=tuple(TopologyLevel(domain=domain, key=key) for domain, key in levels),
            scheduler_topology_bindings=tuple(
                SchedulerTopologyBinding(scheduler_name=name, topology_reference="t") for name in schedulers
            ),
        )
    )


def test_a_topology_binding_names_each_level_and_key_once() -> None:
    found = validate_topology_binding(binding([("zone", "a"), ("rack", "a"), ("zone", "b")]))
    assert [error.field for error in found] == ["spec.levels[2].domain", "spec.levels[1].key"]
    assert validate_topology_binding(binding([("zone", "a"), ("rack", "b")])) == []


def test_a_topology_binding_names_each_scheduler_once() -> None:
    twice = binding([("zone", "a")], "kai-scheduler", "kai-scheduler", "volcano")
    found = validate_topology_binding(twice)
    assert list(map(str, found)) == [
        'spec.schedulerTopologyReferences[1].schedulerName: Duplicate value: "kai-scheduler"'
    ]


def test_a_topology_binding_references_schedulers_that_read_topology() -> None:
    found = unusable_references(
        binding([("zone", "a")], "kai-scheduler", "volcano", "nobody"),
        {"kai-scheduler": True, "volcano": False},
    )
    assert list(map(str, found)) == [
        'spec.schedulerTopologyReferences[1].schedulerName: Invalid value: "volcano": '
        "scheduler backend does not implement topology-aware scheduling",
        'spec.schedulerTopologyReferences[2].schedulerName: Invalid value: "nobody": '
        "scheduler backend is not enabled in Grove",
    ]
