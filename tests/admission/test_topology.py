"""Topology constraints: one binding, known domains, levels that nest, and no change of mind."""

import pytest

from grove.admission import validate
from grove.admission.levels import levels_condition, unmet_requirements
from grove.admission.topology import topology_notices, validate_nesting
from grove.api.cliqueset import PodCliqueSet
from grove.api.constraints import topology_name
from grove.api.decode import decode
from grove.api.topology import ClusterTopologyBinding, ClusterTopologyBindingSpec, TopologyLevel
from grove.meta import Manifest

LEVELS = ("zone", "block", "rack", "host")
BINDING = ClusterTopologyBinding(
    spec=ClusterTopologyBindingSpec(
        levels=tuple(TopologyLevel(domain=name, key=f"example.com/{name}") for name in LEVELS)
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


def test_all_constraints_of_a_set_are_about_one_binding() -> None:
    found = validate(view(need("zone", "t"), need("rack", "u")))
    assert [error.field for error in found] == [f"{TOP}.topologyName", f"{GROUP}.topologyName"]


def test_a_required_domain_is_said_once() -> None:
    both = view({**need("zone", "t"), "packDomain": "zone"})
    assert [error.field for error in validate(both)] == [f"{TOP}.pack.required"]


LACKING = {
    "topology is switched off": (view(need("zone", "t")), BINDING, False, "topologyAwareScheduling.enabled"),
    "no binding is named": (view(need("zone")), BINDING, True, "no topologyConstraint says topologyName"),
    "the binding does not exist": (view(need("zone", "t")), None, True, "'t' does not exist"),
    "the binding lacks the level": (view(need("galaxy", "t")), BINDING, True, "has no level 'galaxy'"),
}


@pytest.mark.parametrize(("cliqueset", "binding", "enabled", "word"), LACKING.values(), ids=LACKING)
def test_what_the_cluster_lacks_is_refused_where_it_is_required(
    cliqueset: PodCliqueSet, binding: ClusterTopologyBinding | None, enabled: bool, word: str
) -> None:
    condition = levels_condition(cliqueset, binding, enabled=enabled)
    (error,) = unmet_requirements(cliqueset, condition)
    assert error.field == f"{TOP}.pack.required"
    assert word in error.message


def test_the_field_is_pack_domain_where_that_is_what_was_written() -> None:
    cliqueset = view(None, None, old("rack", "t"))
    condition = levels_condition(cliqueset, None, enabled=True)
    assert [error.field for error in unmet_requirements(cliqueset, condition)] == [f"{CLIQUE}.packDomain"]


def test_a_preferred_domain_that_the_cluster_lacks_is_told_and_not_refused() -> None:
    cliqueset = view({"topologyName": "t", "pack": {"preferred": "galaxy"}})
    condition = levels_condition(cliqueset, BINDING, enabled=True)
    assert condition is not None
    assert (condition.status, unmet_requirements(cliqueset, condition)) == ("True", [])


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
