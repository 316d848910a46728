"""What of a refused set goes: the replicas that are too many, and nothing else."""

from dataclasses import replace

import pytest
from tests.plan.at_once import at_once
from tests.plan.looks import again, grown

from grove.api import kinds
from grove.api.service import Service
from grove.controllers.apply import first_removals
from grove.plan.changes import Delete
from grove.plan.children import KINDS, CliqueSetState
from grove.plan.children.surplus import plan_surplus
from grove.testing import make


def scaled(replicas: int) -> CliqueSetState:
    """A set of three replicas that is scaled to so many."""
    seen = grown(make.cliqueset("t", {"worker": 1}, replicas=3))
    return again(seen, make.cliqueset("t", {"worker": 1}, replicas=replicas))


def surplus(seen: CliqueSetState) -> list[Delete]:
    found = at_once(first_removals(plan_surplus(seen, KINDS))).changes
    assert all(isinstance(change, Delete) for change in found)
    return [change for change in found if isinstance(change, Delete)]


def names(seen: CliqueSetState) -> list[str]:
    return [f"{each.resource.kind} {each.key.name}" for each in surplus(seen)]


def test_gangs_of_replicas_that_are_too_many_go_first_then_their_other_children() -> None:
    assert names(scaled(1)) == [
        *("PodGang t-1", "PodGang t-2"),
        *("PodClique t-1-worker", "PodClique t-2-worker"),
        *("Service t-1", "Service t-2"),
    ]


@pytest.mark.parametrize("replicas", [3, 7, -1])
def test_no_other_number_of_replicas_costs_anything(replicas: int) -> None:
    assert names(scaled(replicas)) == []


def test_the_record_of_a_template_goes_with_no_replica_whatever_its_name_looks_like() -> None:
    seen = scaled(0)
    (record,) = seen.recorded.values()
    named = replace(seen, children={**seen.children, kinds.CONTROLLER_REVISIONS: {"t-2456789244": record}})
    assert {each.resource for each in surplus(named)} == {
        kinds.GANGS,
        kinds.CLIQUES,
        kinds.SERVICES,
    }


def test_what_has_no_owner_is_left_alone() -> None:
    seen = scaled(1)
    orphan = make.view(Service, {"metadata": {"name": "t-1", "namespace": "default"}})
    assert "Service t-1" not in names(again(seen, seen.cliqueset, services={"t-1": orphan}))
