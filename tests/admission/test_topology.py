"""Topology constraints: one binding, known domains, levels that nest, and no change of mind."""

import pytest

from grove.admission import Topology, topology_name, validate, validate_update, warnings
from grove.api.cliqueset import PodCliqueSet
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
ON = Topology(enabled=True, binding=BINDING)
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


@pytest.mark.parametrize(
    "cliqueset",
    [
        view(),
        view(need("zone", "t")),
        view(need("zone", "t"), need("block"), need("rack")),
        view(need("rack", "t"), None, need("rack")),
        view(None, need("block", "t"), need("host")),
    ],
)
def test_constraints_that_nest_are_allowed(cliqueset: PodCliqueSet) -> None:
    assert validate(cliqueset, topology=ON) == []


def test_constraints_are_refused_where_topology_does_not_count() -> None:
    found = validate(view(need("zone", "t"), need("rack")), topology=Topology())
    assert [error.field for error in found] == [TOP, GROUP]
    assert "Topology Aware Scheduling is disabled" in found[0].message


def test_a_binding_that_cannot_be_inherited_must_be_named() -> None:
    (error,) = validate(view(None, None, need("rack")), topology=ON)
    assert error == FieldError(
        f"{CLIQUE}.topologyName",
        "topologyName is required when topologyConstraint is set and cannot be inherited",
    )


def test_all_constraints_of_a_set_are_about_one_binding() -> None:
    found = validate(view(need("zone", "t"), need("rack", "u")), topology=ON)
    assert [error.field for error in found] == [f"{TOP}.topologyName", f"{GROUP}.topologyName"]


def test_the_binding_must_exist() -> None:
    (error,) = validate(view(need("zone", "t")), topology=Topology(enabled=True))
    assert error.field == f"{TOP}.topologyName"
    assert 'ClusterTopologyBinding "t" not found' in error.message


def test_a_domain_must_be_a_level_of_the_binding() -> None:
    (error,) = validate(view(need("galaxy", "t")), topology=ON)
    assert error.field == f"{TOP}.pack.required"
    assert (
        error.message
        == "topology domain 'galaxy' does not exist in cluster topology [zone, block, rack, host]"
    )


def test_a_level_above_must_not_be_narrower_and_the_error_stands_there() -> None:
    found = validate(view(need("rack", "t"), need("zone")), topology=ON)
    assert [error.field for error in found] == [TOP]
    assert "'rack' is narrower than 'zone'" in found[0].message
    assert GROUP in found[0].message


def test_preferred_domains_nest_too() -> None:
    cliqueset = view(need("zone", "t", preferred="host"), need("zone", preferred="rack"))
    assert [error.field for error in validate(cliqueset, topology=ON)] == [f"{TOP}.pack.preferred"]


def test_a_preferred_domain_coarser_than_the_required_one_is_worth_a_word() -> None:
    assert warnings(view(need("rack", "t", preferred="zone")), topology=ON) == [
        f"{TOP}.pack.preferred is coarser than {TOP}.pack.required and is redundant"
    ]


def test_pack_domain_is_worth_a_word() -> None:
    assert warnings(view(old("rack", "t"))) == [
        f"{TOP}.packDomain is deprecated; use {TOP}.pack.required instead"
    ]


def test_the_binding_of_a_set_is_found_at_any_level() -> None:
    assert topology_name(view()) == ""
    assert topology_name(view(None, None, need("rack", "t"))) == "t"


UPDATES = {
    "nothing": (view(need("zone", "t")), view(need("zone", "t")), []),
    "added": (view(need("zone", "t")), view(), [TOP]),
    "removed": (view(), view(need("zone", "t")), [TOP]),
    "another domain": (view(need("rack", "t")), view(need("zone", "t")), [TOP]),
    "another binding": (view(need("zone", "u")), view(need("zone", "t")), [TOP]),
    "on a clique": (view(None, None, need("rack", "t")), view(), [CLIQUE]),
    "on a group": (view(None, need("rack", "t")), view(None, need("zone", "t")), [GROUP]),
    "away from packDomain": (view(need("rack", "t")), view(old("rack", "t")), []),
    "back to packDomain": (view(old("rack", "t")), view(need("rack", "t")), [TOP]),
    "a missing name repaired": (view(old("rack", "t")), view(old("rack")), []),
    "a missing name repaired, but not the domain": (
        view(old("galaxy", "t")),
        view(old("galaxy")),
        [f"{TOP}.packDomain"],
    ),
}


@pytest.mark.parametrize(("new", "before", "want"), UPDATES.values(), ids=UPDATES)
def test_a_constraint_cannot_be_changed_except_away_from_pack_domain(
    new: PodCliqueSet, before: PodCliqueSet, want: list[str]
) -> None:
    assert [error.field for error in validate_update(new, before, topology=ON)] == want
