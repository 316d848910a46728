"""Which wishes for disruption budgets are refused, and which deserve a word."""

import pytest

from grove.admission.disruption import budget_errors, budget_notices, unsupported_budgets
from grove.admission.support import notices
from grove.api import kinds, labels
from grove.backends.base import Cluster
from grove.backends.sample import serving
from grove.meta import Manifest
from grove.testing import make

FIELD = "metadata.annotations[grove.io/disruption-budget]"
ASKED = {labels.DISRUPTION_BUDGET: "MinAvailable"}


def role(name: str, replicas: int, minimum: int | None = None) -> Manifest:
    found = make.template(name, replicas)
    if minimum is not None:
        found["spec"]["minAvailable"] = minimum
    return found


@pytest.mark.parametrize("value", ["", "true", "minavailable", "PerGang", "1"])
def test_another_value_than_the_one_that_is_known_is_refused_with_the_field(value: str) -> None:
    (error,) = budget_errors(make.cliqueset("t", annotations={labels.DISRUPTION_BUDGET: value}))
    assert error.field == FIELD
    assert "must be 'MinAvailable'" in error.message


@pytest.mark.parametrize("annotations", [{}, ASKED])
def test_a_set_with_or_without_budgets_is_accepted(annotations: dict[str, str]) -> None:
    cliqueset = make.cliqueset("t", annotations=annotations)
    assert list(budget_errors(cliqueset)) == []
    assert notices(cliqueset) == []


def test_budgets_are_refused_where_the_cluster_serves_none() -> None:
    asking = make.cliqueset("t", annotations=ASKED)
    (error,) = unsupported_budgets(asking, Cluster())
    assert error.field == FIELD
    assert "does not serve poddisruptionbudgets.policy" in error.message
    assert list(unsupported_budgets(asking, serving(kinds.DISRUPTION_BUDGETS))) == []
    assert list(unsupported_budgets(asking, None)) == []
    assert list(unsupported_budgets(make.cliqueset("t"), Cluster())) == []


WHOLE: dict[str, tuple[list[Manifest], str]] = {
    "a role of which all pods are needed": ([role("w", 4, 4), role("l", 2, 1)], "role w "),
    "a role that leaves its minimum out": ([role("w", 4)], "role w "),
    "several": ([role("w", 4, 4), role("l", 1)], "roles w, l "),
    "none": ([role("w", 4, 3)], ""),
    "a role that is scaled to zero": ([role("w", 0, 0)], ""),
}


@pytest.mark.parametrize(("roles", "named"), WHOLE.values(), ids=WHOLE)
def test_a_drain_that_would_wait_for_ever_is_told(roles: list[Manifest], named: str) -> None:
    found = list(budget_notices(make.cliqueset("t", roles, annotations=ASKED)))
    assert [each.field for each in found] == ([FIELD] if named else [])
    assert all(f"all pods of {named}(minAvailable equals replicas)" in each.message for each in found)
    assert list(budget_notices(make.cliqueset("t", roles))) == []


def test_on_a_role_the_annotation_has_no_effect_and_that_is_told() -> None:
    marked = {**make.template("w", 2), "annotations": ASKED}
    (notice,) = notices(make.cliqueset("t", [marked]))
    assert notice.field == f"spec.template.cliques[0].annotations[{labels.DISRUPTION_BUDGET}]"
    assert "no effect" in notice.message
