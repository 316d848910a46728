"""Which gangs and cliques the replicas of a set have."""

import pytest

from grove.api.clique import PodCliqueSpec
from grove.api.cliqueset import PodCliqueSetTemplate, PodCliqueTemplate, ScalingGroupConfig
from grove.plan.layout import Layout, PlannedGang


def role(name: str) -> PodCliqueTemplate:
    return PodCliqueTemplate(name=name, spec=PodCliqueSpec(role_name=name, replicas=1))


def layout(replicas: int = 3, minimum: int = 1, scaled_to: dict[str, int] | None = None) -> Layout:
    group = ScalingGroupConfig(
        name="dec", clique_names=("lead", "work"), replicas=replicas, min_available=minimum
    )
    template = PodCliqueSetTemplate(
        cliques=(role("lead"), role("fe"), role("work")), pod_clique_scaling_groups=(group,)
    )
    return Layout("llm", template, scaled_to or {})


def names_of(gang: PlannedGang) -> list[str]:
    return [clique.name for clique in gang.cliques]


def test_the_base_gang_holds_the_standalone_cliques_and_the_groups_minimum() -> None:
    base = layout(replicas=3, minimum=2).base_gang(0)
    assert base.name == "llm-0"
    assert names_of(base) == [
        "llm-0-fe",
        "llm-0-dec-0-lead",
        "llm-0-dec-0-work",
        "llm-0-dec-1-lead",
        "llm-0-dec-1-work",
    ]


def test_each_replica_above_the_minimum_is_a_scaled_gang_counted_from_there() -> None:
    _, first, second = layout(replicas=3).gangs(4)
    assert (first.name, first.base, names_of(first)) == (
        "llm-4-dec-0",
        "llm-4",
        ["llm-4-dec-1-lead", "llm-4-dec-1-work"],
    )
    assert (second.name, names_of(second)) == ("llm-4-dec-1", ["llm-4-dec-2-lead", "llm-4-dec-2-work"])


def test_a_group_that_was_scaled_has_as_many_replicas_as_it_was_scaled_to() -> None:
    gangs = list(layout(replicas=1, scaled_to={"llm-0-dec": 3, "llm-1-dec": 1}).gangs(0))
    assert [gang.name for gang in gangs] == ["llm-0", "llm-0-dec-0", "llm-0-dec-1"]
    assert [gang.name for gang in layout(replicas=1, scaled_to={"llm-0-dec": 3}).gangs(1)] == ["llm-1"]


def test_a_group_scaled_below_its_minimum_keeps_its_podgroups_and_loses_its_cliques() -> None:
    zero = layout(minimum=2, scaled_to={"llm-0-dec": 1})
    assert len(zero.base_gang(0).cliques) == 5
    assert [clique.name for clique in zero.cliques(0)] == ["llm-0-fe", "llm-0-dec-0-lead", "llm-0-dec-0-work"]
    assert zero.find_clique(0, "llm-0-dec-1-lead") is None


@pytest.mark.parametrize("minimum", [1, 2, 3])
def test_every_gang_and_every_clique_is_found_by_its_name(minimum: int) -> None:
    planned = layout(replicas=4, minimum=minimum)
    assert [planned.find_gang(2, gang.name) for gang in planned.gangs(2)] == list(planned.gangs(2))
    for clique in planned.cliques(2):
        assert planned.find_clique(2, clique.name) == clique


@pytest.mark.parametrize(
    "name",
    ["llm-0-dec", "llm-0-dec-", "llm-0-dec-2", "llm-0-dec-00", "llm-0-dec-0-", "llm-0-dec-0-lead", "llm-1"],
)
def test_no_gang_is_found_by_another_name(name: str) -> None:
    assert layout(replicas=3).find_gang(0, name) is None


@pytest.mark.parametrize(
    "name",
    [
        "llm-0-lead",
        "llm-0-dec-3-lead",
        "llm-0-dec-01-lead",
        "llm-0-dec-0-fe",
        "llm-0-dec-0",
        "llm-1-fe",
        "fe",
    ],
)
def test_no_clique_is_found_by_another_name(name: str) -> None:
    assert layout(replicas=3).find_clique(0, name) is None


def test_a_clique_whose_name_ends_like_another_is_not_mistaken_for_it() -> None:
    template = PodCliqueSetTemplate(cliques=(role("worker"), role("big-worker")))
    found = Layout("x", template).find_clique(0, "x-0-big-worker")
    assert found is not None
    assert found.role.name == "big-worker"
