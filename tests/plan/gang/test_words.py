"""The words of a gang's status: reasons for failures, conditions for losses, sentences about pods."""

import pytest

from grove.api.clique import PodClique
from grove.backends.base import Capability, Fidelity, Reading, Treatment, Verdict
from grove.errors import (
    BackendFailed,
    BeingDeleted,
    Conflict,
    GroveError,
    NotEnabled,
    OwnershipConflict,
    PodLimitReached,
    Unreachable,
    Unsupported,
    Waiting,
)
from grove.plan.gang.words import (
    beyond_limit,
    extra_conditions,
    reason_of,
    scaled_below_minimum,
    score_sentence,
    stray_pods,
    troubles,
)
from grove.testing import make

WORKER = "train-0-worker"

#: The reason of Scheduled=False, and the condition that says it also of a gang that is placed.
FAILURES: dict[str, tuple[GroveError, str, list[tuple[str, str]]]] = {
    "the backend is not enabled": (
        NotEnabled("x"),
        "BackendNotEnabled",
        [("Degraded", "BackendNotEnabled")],
    ),
    "a finalizer keeps a gang that is being deleted": (
        BeingDeleted("x"),
        "BeingDeleted",
        [("Degraded", "BeingDeleted")],
    ),
    "something is missing in the cluster": (
        Waiting("x"),
        "PreconditionMissing",
        [("Degraded", "PreconditionMissing")],
    ),
    "the scheduler cannot express it": (Unsupported("x"), "Unsupported", [("Degraded", "Unsupported")]),
    "somebody else holds a field": (
        OwnershipConflict("x"),
        "OwnershipConflict",
        [("OwnershipConflict", "FieldOwnedByOther")],
    ),
    "a backend has a defect": (
        BackendFailed("mine", KeyError("x")),
        "SyncFailed",
        [("Degraded", "SyncFailed")],
    ),
    "a race is tried again and not said": (Conflict("x"), "SyncFailed", []),
    "so is an outage": (Unreachable("x"), "SyncFailed", []),
}


@pytest.mark.parametrize(("failure", "reason", "want"), FAILURES.values(), ids=FAILURES)
def test_failures(failure: GroveError, reason: str, want: list[tuple[str, str]]) -> None:
    said = extra_conditions((), failure)
    assert reason_of(failure) == reason
    assert [(each.type, each.reason) for each in said] == want
    assert all((each.status, each.message) == ("True", str(failure)) for each in said)


def test_what_is_lost_in_translation_is_one_condition_and_a_missing_guarantee_another() -> None:
    treatments = [
        Treatment(Capability.GANG, Fidelity.NOT_EXPRESSIBLE, "no gangs"),
        Treatment(Capability.PRIORITY, Fidelity.APPROXIMATED, "roughly"),
        Treatment(Capability.QUEUE, Fidelity.ENFORCED, "all of it"),
        Treatment(Capability.REUSE, Fidelity.NOT_EXPRESSIBLE, "not at all"),
    ]
    assert [(each.type, each.status, each.message) for each in extra_conditions(treatments, None)] == [
        ("GangGuarantee", "False", "no gangs"),
        (
            "TranslationLoss",
            "True",
            "priority approximated: roughly; reuse-reservation not expressible: not at all",
        ),
    ]


def clique(replicas: int = 2, *errors: tuple[str, str]) -> PodClique:
    manifest = make.clique_manifest(WORKER, replicas)
    manifest["status"] = {
        "lastErrors": [
            {"code": code, "description": text, "observedAt": "2026-01-01T00:00:00Z"} for code, text in errors
        ]
    }
    return make.view(PodClique, manifest)


@pytest.mark.parametrize(
    ("replicas", "want"),
    [(2, ""), (3, ""), (1, f"clique {WORKER} is scaled to 1, the gang needs 2")],
)
def test_a_clique_that_is_scaled_below_what_the_gang_needs(replicas: int, want: str) -> None:
    assert scaled_below_minimum(make.gang("train-0", {WORKER: 2}), [clique(replicas)]) == want


def test_troubles_are_those_of_the_cliques() -> None:
    assert troubles([clique(2, ("ERR_X", "no quota")), clique()]) == ["no quota"]


def test_only_a_limit_on_pods_keeps_a_gang_from_growing() -> None:
    errors = (PodLimitReached.code, "4 pods are asked for"), ("ERR_X", "no quota")
    assert beyond_limit([clique(2, *errors)]) == [f"Clique {WORKER}: 4 pods are asked for."]


def test_pods_of_nobody_are_named_but_not_all_of_many() -> None:
    assert stray_pods([]) == []
    (few,), (many,) = stray_pods(["b", "a"]), stray_pods([f"p{number}" for number in range(9)])
    assert few.message.startswith("a, b: labelled as pods of this gang but owned by no PodClique;")
    assert many.message.startswith("p0, p1, p2, p3, p4 and more: ")


@pytest.mark.parametrize(
    ("score", "want"), [(None, ""), (0.5, " Placement score: 0.5."), (1.0, " Placement score: 1.")]
)
def test_how_good_a_placement_is(score: float | None, want: str) -> None:
    assert score_sentence(Reading(Verdict.SCHEDULED, placement_score=score)) == want
