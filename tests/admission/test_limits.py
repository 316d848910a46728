"""What one set may ask for."""

from dataclasses import dataclass

import pytest

from grove.admission import validate_limits
from grove.api.cliqueset import PodCliqueSet
from grove.testing import make


@dataclass(frozen=True)
class Case:
    cliqueset: PodCliqueSet
    #: The field and a part of the message; empty when the set is within the limit.
    want: tuple[str, ...] = ()


SURGE = {"type": "RollingRecreate", "rollingRecreate": {"maxSurge": "40%"}}

CASES = {
    "exactly as many as allowed": Case(make.cliqueset("t", {"a": 3, "b": 2}, replicas=20)),
    "one replica too many": Case(
        make.cliqueset("t", {"a": 3, "b": 2}, replicas=21),
        ("spec.replicas", "asks for 105 pods (21 replicas of 5 pods each); this operator allows 100 pods"),
    ),
    "replicas of a single pod": Case(
        make.cliqueset("t", {"a": 1}, replicas=3_000_000), ("spec.replicas", "asks for 3000000 replicas")
    ),
    "replicas whose roles all sleep": Case(
        make.cliqueset("t", {"a": 0}, replicas=101), ("spec.replicas", "asks for 101 replicas")
    ),
    "one replica of too many pods": Case(
        make.cliqueset("t", {"a": 101}, replicas=1),
        ("spec.template.cliques", "101 pods (1 replica of 101 pods);"),
    ),
    "replicas that an update would add": Case(
        make.cliqueset("t", {"a": 3, "b": 2}, replicas=15, strategy=SURGE),
        ("spec.updateStrategy.rollingRecreate.maxSurge", "would add 6 replicas of 5 pods each to 75 pods"),
    ),
    "an update that adds none": Case(
        make.cliqueset("t", {"a": 3, "b": 2}, replicas=15, strategy={**SURGE, "type": "OnDelete"})
    ),
    "nothing": Case(make.cliqueset("t", {"a": 1000}, replicas=0)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_set_that_asks_for_too_much_is_told_the_field_the_numbers_and_the_way_out(case: Case) -> None:
    errors = list(validate_limits(case.cliqueset, pods_per_set=100))
    if not case.want:
        assert errors == []
        return
    (error,) = errors
    assert error.field == case.want[0]
    assert case.want[1] in error.message
    assert "limits.podsPerSet" in error.message
