"""Topology constraints: one binding, known domains, levels that nest, and no change of mind."""

import pytest

from grove.admission import validate
from grove.admission.levels import levels_condition, unmet_requirements
from grove.admission.topology import topology_notices, validate_nesting
from grove.api.cliqueset import PodCliqueSet
from grove.api.constraints import topology_name
from grove.api.decode import decode
from grove.api.topology import ClusterTopologyBinding, ClusterTopologyBindingSpec, TopologyLevel
from grove.errors import FieldError
from grove.meta import Manifest

LEVELS = ("zone", "block", "rack", "host")
BINDING = ClusterTopologyBinding(
    spec=ClusterTopologyBindingSpec(
        levels=tuple(TopologyLevel(domain=name, key=f"example.com/{name}") for name in LEVELS)
    )
)
TWICE = ClusterTopologyBinding(
    spec=ClusterTopologyBindingSpec(
        levels=tuple(TopologyLevel(domain="zone", key=f"example.com/{name}") for name in LEVELS[:2])
    )
)
TOP, GROUP, CLIQUE = (
    "spec.template.topologyConstraint",
    "spec.template.podCliqueScalingGroups[0].topologyConstraint",
    "spec.template.cliques[0].topologyConstraint",
)


def view(
    top: Manifest | None = None, group: Manifest | None = None, clique: Manifest | None = None
) -> PodCliqueSet:
    pods = {"containers": [{"name": "main"}]}
    manifest: Manifest = {
        "metadata": {"name": "llm"},
        "spec": {
            "template": {
                "topologyConstraint": top,
                "cliques": [{"name": "work", "topologyConstraint": clique, "spec": {"podSpec": pods}}],
                "podCliqueScalingGroups": [
                    {"name": "g", "cliqueNames": ["work"], "topologyConstraint": group}
                ],
            }
        },
    }
    return decode(manifest, PodCliqueSet)


def need(domain: str, name: str = "", preferred: str | None = None) -> Manifest:
    return {"topologyName": name, "pack": {"required": domain, "preferred": preferred}}


def old(domain: str, name: str = "") -> Manifest:
    return {"topologyName": name, "packDomain": domain}


NESTED = {
    "no constraint": view(),
    "one": view(need("zone", "t")),
    "each narrower": view(need("zone", "t"), need("block"), need("rack")),
    "the same again": view(need("rack", "t"), None, need("rack")),
    "none on the set": view(None, need("block", "t"), need("host")),
    "a domain that nobody knows": view(need("galaxy", "t"), need("zone")),
}


@pytest.mark.parametrize("cliqueset", NESTED.values(), ids=NESTED)
def test_constraints_that_nest_are_allowed(cliqueset: PodCliqueSet) -> None:
    assert validate(cliqueset) == []
    assert list(validate_nesting(cliqueset, BINDING)) == []


def test_a_level_above_must_not_be_narrower_and_the_error_stands_there() -> None:
    (error,) = validate_nesting(view(need("rack", "t"), need("zone")), BINDING)
    assert error.field == TOP
    assert "'rack' is narrower than 'zone'" in error.message
    assert GROUP in error.message


def test_preferred_domains_nest_too() -> None:
    cliqueset = view(need("zone", "t", preferred="host"), need("zone", preferred="rack"))
    assert [error.field for error in validate_nesting(cliqueset, BINDING)] == [f"{TOP}.pack.preferred"]


MIXED = "all topologyConstraint.topologyName values within a PodCliqueSet must match in the current implementation"
UNNAMED = "topologyName is required when topologyConstraint is set and cannot be inherited"


def test_a_constraint_about_another_binding_than_the_one_above_it_is_refused_where_it_stands() -> None:
    found = validate(view(need("zone", "t"), need("rack", "u"), need("host")))
    assert found == [FieldError(f"{GROUP}.topologyName", MIXED)]
    assert validate(view(need("zone", "t"), need("block", "t"), need("rack", "t"))) == []


def siblings(*names: str) -> PodCliqueSet:
    """Roles with constraints of their own, and nothing above them."""
    pods = {"containers": [{"name": "main"}]}
    roles = [
        {"name": f"role-{index}", "topologyConstraint": need("rack", name), "spec": {"podSpec": pods}}
        for index, name in enumerate(names)
    ]
    manifest = {"metadata": {"name": "llm"}, "spec": {"template": {"cliques": roles}}}
    return decode(manifest, PodCliqueSet)


def test_of_siblings_that_contradict_one_another_each_is_refused() -> None:
    assert validate(siblings("t", "u", "t")) == [
        FieldError(f"spec.template.cliques[{index}].topologyConstraint.topologyName", MIXED)
        for index in range(3)
    ]


UNNAMED_CASES = {
    "of the set": (view(need("zone")), [f"{TOP}.topologyName"]),
    "below one that has none": (
        view(need("zone"), need("rack")),
        [f"{TOP}.topologyName", f"{GROUP}.topologyName"],
    ),
    "a sibling does not pass it on": (
        siblings("t", ""),
        ["spec.template.cliques[1].topologyConstraint.topologyName"],
    ),
    "nor does a level below": (view(need("zone"), None, need("rack", "t")), [f"{TOP}.topologyName"]),
    "inherited from the group": (view(None, need("rack", "t"), need("host")), []),
    "inherited through the group": (view(need("zone", "t"), need("rack"), need("host")), []),
}


@pytest.mark.parametrize(("cliqueset", "fields"), UNNAMED_CASES.values(), ids=UNNAMED_CASES)
def test_a_binding_that_is_neither_named_nor_inherited_is_asked_for(
    cliqueset: PodCliqueSet, fields: list[str]
) -> None:
    assert validate(cliqueset) == [FieldError(field, UNNAMED) for field in fields]


def test_a_required_domain_is_said_once() -> None:
    both = view({**need("zone", "t"), "packDomain": "zone"})
    assert [error.field for error in validate(both)] == [f"{TOP}.pack.required"]


LACKING = {
    "topology is switched off": (
        view(need("zone", "t")),
        BINDING,
        False,
        f"{TOP}.pack.required: topology-aware scheduling is switched off (topologyAwareScheduling.enabled)",
    ),
    "the binding does not exist": (
        view(need("zone", "t")),
        None,
        True,
        f'{TOP}.topologyName: ClusterTopologyBinding "t" not found',
    ),
    "the binding of a level below does not exist": (
        view(None, need("block", "t"), need("rack")),
        None,
        True,
        f'{GROUP}.topologyName: ClusterTopologyBinding "t" not found',
    ),
    "the binding contradicts itself": (
        view(need("zone", "t")),
        TWICE,
        True,
        f'{TOP}.topologyName: ClusterTopologyBinding "t" is not valid: spec.levels[1].domain: Duplicate value: "zone"',
    ),
    "the binding lacks the level": (
        view(need("galaxy", "t")),
        BINDING,
        True,
        f"{TOP}.pack.required: topology domain 'galaxy' does not exist in cluster topology [zone block rack host]",
    ),
    "it lacks one of several": (
        view(need("zone", "t", preferred="galaxy"), need("universe")),
        BINDING,
        True,
        f"{GROUP}.pack.required: topology domain 'universe' does not exist in cluster topology "
        "[zone block rack host]",
    ),
}


@pytest.mark.parametrize(("cliqueset", "binding", "enabled", "text"), LACKING.values(), ids=LACKING)
def test_what_the_cluster_lacks_is_refused_where_it_is_required(
    cliqueset: PodCliqueSet, binding: ClusterTopologyBinding | None, enabled: bool, text: str
) -> None:
    condition = levels_condition(cliqueset, binding, enabled=enabled)
    (error,) = unmet_requirements(cliqueset, binding, condition)
    assert str(error).startswith(text)


def test_a_set_that_names_no_binding_says_so_in_its_condition_too() -> None:
    condition = levels_condition(view(need("zone")), BINDING, enabled=True)
    assert condition is not None
    assert (condition.status, condition.reason) == ("Unknown", "TopologyNameMissing")


def test_the_field_is_pack_domain_where_that_is_what_was_written() -> None:
    cliqueset = view(None, None, old("galaxy", "t"))
    condition = levels_condition(cliqueset, BINDING, enabled=True)
    (error,) = unmet_requirements(cliqueset, BINDING, condition)
    assert error.field == f"{CLIQUE}.packDomain"


def test_a_preferred_domain_that_the_cluster_lacks_is_told_and_not_refused() -> None:
    for cliqueset in (
        view({"topologyName": "t", "pack": {"preferred": "galaxy"}}),
        view(need("zone", "t", preferred="galaxy")),
    ):
        condition = levels_condition(cliqueset, BINDING, enabled=True)
        assert condition is not None
        assert (condition.status, unmet_requirements(cliqueset, BINDING, condition)) == ("True", [])


def test_a_preferred_domain_coarser_than_the_required_one_is_worth_a_word() -> None:
    (notice,) = topology_notices(view(need("rack", "t", preferred="zone")), BINDING)
    assert notice.field == f"{TOP}.pack.preferred"


def test_pack_domain_is_worth_a_word() -> None:
    (notice,) = topology_notices(view(old("rack", "t")), None)
    assert str(notice) == f"{TOP}.packDomain: is deprecated; use pack.required instead"


def test_the_binding_of_a_set_is_found_at_any_level() -> None:
    assert topology_name(view()) == ""
    assert topology_name(view(None, need("rack", "t"))) == "t"
    assert topology_name(view(None, None, need("rack", "t"))) == "t"
