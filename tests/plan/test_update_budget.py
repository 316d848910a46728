"""How many replicas an update may take down and add."""

import pytest

from grove.api import labels
from grove.meta import Manifest
from grove.plan.update.budget import Budget, budget_of, validate_budget
from grove.testing import make


def strategy(**limits: object) -> Manifest:
    return {"type": "RollingRecreate", "rollingRecreate": limits}


BUDGETS: dict[str, tuple[Manifest, int, Budget]] = {
    "one at a time where nothing is said": ({"type": "RollingRecreate"}, 10, Budget(1, 0)),
    "a number": (strategy(maxUnavailable=3), 10, Budget(3, 0)),
    "a share of what may be down is rounded down": (strategy(maxUnavailable="25%"), 10, Budget(2, 0)),
    "less than one replica is one": (strategy(maxUnavailable="5%"), 10, Budget(1, 0)),
    "a share of what is added is rounded up": (strategy(maxSurge="25%"), 10, Budget(1, 3)),
    "no more are added than there are": (strategy(maxSurge=500), 10, Budget(1, 10)),
    "none may be down while some are added": (strategy(maxUnavailable=0, maxSurge=1), 10, Budget(0, 1)),
}


@pytest.mark.parametrize("case", BUDGETS.values(), ids=BUDGETS)
def test_limits_are_counted_in_replicas(case: tuple[Manifest, int, Budget]) -> None:
    said, replicas, want = case
    assert budget_of(make.cliqueset("t", replicas=replicas, strategy=said)) == want


REFUSED: dict[str, tuple[Manifest, list[str]]] = {
    "words": (strategy(maxUnavailable="some"), ["spec.updateStrategy.rollingRecreate.maxUnavailable"]),
    "less than nothing": (strategy(maxSurge=-1), ["spec.updateStrategy.rollingRecreate.maxSurge"]),
    "nothing at all": (strategy(maxUnavailable=0), ["spec.updateStrategy.rollingRecreate.maxUnavailable"]),
    "nothing at all in other words": (
        strategy(maxUnavailable="00%", maxSurge="0"),
        ["spec.updateStrategy.rollingRecreate.maxUnavailable"],
    ),
    "a share": (strategy(maxUnavailable="25%", maxSurge=1), []),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_limits_that_mean_nothing_are_refused_by_name(case: tuple[Manifest, list[str]]) -> None:
    said, want = case
    assert [error.field for error in validate_budget(make.cliqueset("t", strategy=said))] == want


PAUSES = {"true": (True, 0), "false": (False, 0), "True": (True, 1), "": (True, 1), "no": (True, 1)}


@pytest.mark.parametrize("value", PAUSES)
def test_a_pause_that_is_spelt_in_another_way_is_refused_and_takes_nothing_down(value: str) -> None:
    cliqueset = make.cliqueset("t", annotations={labels.UPDATE_PAUSED: value})
    found = [error.field for error in validate_budget(cliqueset)]
    paused, errors = PAUSES[value]
    assert found == ["metadata.annotations[grove.io/update-paused]"] * errors
    assert cliqueset.update_paused is paused
