"""Which disruption budgets a set has, and what of a living one is put right."""

from dataclasses import replace

import msgspec
import pytest
from tests.plan.looks import bare, grown, patches, plan_children, written

from grove.api import kinds, labels
from grove.api.budget import PodDisruptionBudget
from grove.api.cliqueset import PodCliqueSet
from grove.meta import Manifest
from grove.plan.changes import Create, Patch
from grove.plan.children import Settled
from grove.plan.children.state import CliqueSetState
from grove.testing import make

ASKED = {labels.DISRUPTION_BUDGET: "MinAvailable"}


def role(name: str, replicas: int = 2, **spec: object) -> Manifest:
    found = make.template(name, replicas)
    found["spec"].update(spec)
    return found


def asking(*roles: Manifest, **fields: object) -> PodCliqueSet:
    return make.cliqueset("t", list(roles), annotations=ASKED, **fields)  # type: ignore[arg-type]


def budgets(state: CliqueSetState) -> dict[str, Manifest]:
    """What would be created, by name."""
    created = [
        change.manifest
        for change in plan_children(state, Settled()).changes
        if isinstance(change, Create) and change.resource == kinds.DISRUPTION_BUDGETS
    ]
    return {manifest["metadata"]["name"]: manifest for manifest in created}


def test_a_set_that_does_not_ask_has_none() -> None:
    assert budgets(bare(make.cliqueset("t", [role("w")]))) == {}


def test_every_clique_gets_one_with_its_minimum_and_exactly_its_pods() -> None:
    cliqueset = asking(role("w", 4, minAvailable=3), role("l", 1), replicas=2)
    found = budgets(bare(cliqueset))
    assert set(found) == {"t-0-w", "t-0-l", "t-1-w", "t-1-l"}
    made = found["t-1-w"]
    assert (made["apiVersion"], made["kind"]) == ("policy/v1", "PodDisruptionBudget")
    selected = {labels.MANAGED_BY: "grove-operator", labels.PART_OF: "t", labels.POD_CLIQUE: "t-1-w"}
    assert made["metadata"]["labels"] == {
        **selected,
        labels.NAME: "t-1-w",
        labels.COMPONENT: "pcs-disruption-budget",
        labels.SET_REPLICA_INDEX: "1",
        labels.POD_GANG: "t-1",
    }
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("PodCliqueSet", cliqueset.uid, True)
    assert made["spec"] == {
        "minAvailable": 3,
        "selector": {"matchLabels": selected},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    assert found["t-0-l"]["spec"]["minAvailable"] == 1


def test_a_scaled_gang_has_budgets_of_its_own() -> None:
    group = make.scaling_group("g", ["lead", "work"], replicas=2, minAvailable=1)
    seen = grown(asking(role("front", 1), role("lead", 1), role("work", 3, minAvailable=2), groups=[group]))
    # The cliques of a group come once the group exists, and budgets wait for nobody.
    there = seen.children[kinds.DISRUPTION_BUDGETS]
    minima = {name: each.spec["minAvailable"] for name, each in there.items()}  # type: ignore[attr-defined]
    assert minima == {
        "t-0-front": 1,
        "t-0-g-0-lead": 1,
        "t-0-g-0-work": 2,
        "t-0-g-1-lead": 1,
        "t-0-g-1-work": 2,
    }
    gangs = {name: each.labels[labels.POD_GANG] for name, each in there.items()}
    assert (gangs["t-0-g-0-work"], gangs["t-0-g-1-work"]) == ("t-0", "t-0-g-0")


def with_clique(seen: CliqueSetState, **spec: object) -> CliqueSetState:
    clique = seen.cliques["t-0-w"]
    changed = msgspec.structs.replace(clique, spec=msgspec.structs.replace(clique.spec, **spec))
    return replace(seen, children={**seen.children, kinds.CLIQUES: {"t-0-w": changed}})


FOLLOWED: dict[str, tuple[dict[str, object], int]] = {
    "its minimum": ({"min_available": 2}, 2),
    "that it is scaled to zero": ({"replicas": 0}, 0),
    "no other scale": ({"replicas": 9}, 3),
    "no scale below the minimum": ({"replicas": 1}, 3),
}


@pytest.mark.parametrize(("spec", "want"), FOLLOWED.values(), ids=FOLLOWED)
def test_a_budget_follows_of_its_clique(spec: dict[str, object], want: int) -> None:
    seen = grown(asking(role("w", 4, minAvailable=3)))
    changes = plan_children(with_clique(seen, **spec), Settled()).changes
    patched = [
        change.patch
        for change in changes
        if isinstance(change, Patch) and change.resource == kinds.DISRUPTION_BUDGETS
    ]
    patch = patched[0] if patched else {}
    budget = seen.children[kinds.DISRUPTION_BUDGETS]["t-0-w"]
    assert isinstance(budget, PodDisruptionBudget)
    assert {**budget.spec, **patch.get("spec", {})}["minAvailable"] == want


def test_a_change_of_a_clique_reaches_a_budget_that_was_in_order() -> None:
    seen = grown(asking(role("w", 4, minAvailable=3)))
    first = plan_children(seen, Settled())
    assert written(first) == []
    then = plan_children(with_clique(seen, replicas=0), first.settled)
    assert "patch PodDisruptionBudget t-0-w" in written(then)


def living(seen: CliqueSetState, **spec: object) -> CliqueSetState:
    budget = seen.children[kinds.DISRUPTION_BUDGETS]["t-0-w"]
    assert isinstance(budget, PodDisruptionBudget)
    changed = msgspec.structs.replace(budget, spec={**budget.spec, **spec})
    return replace(seen, children={**seen.children, kinds.DISRUPTION_BUDGETS: {"t-0-w": changed}})


EXPRESSIONS = [{"key": "x", "operator": "Exists"}]
MENDED: dict[str, tuple[dict[str, object], Manifest]] = {
    "another number": ({"minAvailable": 1}, {"minAvailable": 3}),
    "a percentage": ({"minAvailable": "50%"}, {"minAvailable": 3}),
    "the other way to write a budget": (
        {"minAvailable": None, "maxUnavailable": 1},
        {"minAvailable": 3, "maxUnavailable": None},
    ),
    "another policy": (
        {"unhealthyPodEvictionPolicy": "IfHealthyBudget"},
        {"unhealthyPodEvictionPolicy": "AlwaysAllow"},
    ),
    "a selector that covers fewer pods": (
        {
            "selector": {
                "matchLabels": {
                    labels.MANAGED_BY: "grove-operator",
                    labels.PART_OF: "t",
                    labels.POD_CLIQUE: "t-0-w",
                    "x": "y",
                },
                "matchExpressions": EXPRESSIONS,
            }
        },
        {"selector": {"matchLabels": {"x": None}, "matchExpressions": None}},
    ),
    "a selector that covers more": (
        {"selector": {"matchLabels": {labels.PART_OF: "t", labels.MANAGED_BY: "grove-operator"}}},
        {"selector": {"matchLabels": {labels.POD_CLIQUE: "t-0-w"}}},
    ),
}


@pytest.mark.parametrize(("spec", "want"), MENDED.values(), ids=MENDED)
def test_what_somebody_wrote_into_a_budget_is_put_right(spec: dict[str, object], want: Manifest) -> None:
    seen = grown(asking(role("w", 4, minAvailable=3)))
    assert patches(living(seen, **spec)) == {"t-0-w": {"spec": want}}


def test_budgets_go_with_the_annotation_and_with_their_cliques() -> None:
    seen = grown(asking(role("w"), replicas=2))
    unasked = make.cliqueset("t", [role("w")], replicas=2)
    assert written(plan_children(replace(seen, cliqueset=unasked), Settled())) == [
        "delete PodDisruptionBudget t-0-w",
        "delete PodDisruptionBudget t-1-w",
    ]
    removed = written(plan_children(replace(seen, cliqueset=asking(role("w"))), Settled()))
    assert "delete PodDisruptionBudget t-1-w" in removed
    assert "delete PodDisruptionBudget t-0-w" not in removed
