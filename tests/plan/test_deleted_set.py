"""What a set says while it is being deleted."""

from datetime import UTC, datetime

import pytest

from grove.api.cliqueset import PodCliqueSet
from grove.meta import Manifest
from grove.plan.deleted_set import deleted_set_status
from grove.testing import make

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def deleted(*finalizers: str) -> PodCliqueSet:
    """A set that worked and whose update went on."""
    said = {"Available": "True", "Ready": "True", "UpdateInProgress": "True", "SomebodyElses": "True"}
    told = [{"type": type_, "status": status, "reason": "R"} for type_, status in said.items()]
    manifest = make.cliqueset_manifest("train", deleted=True)
    manifest["metadata"]["finalizers"] = [*finalizers]
    return make.view(PodCliqueSet, {**manifest, "status": {"availableReplicas": 1, "conditions": told}})


CASES = {
    "in the foreground": (
        ("foregroundDeletion",),
        ("False", "the set is being deleted, its pods and everything else of it first"),
        {"scheduledReplicas": 0, "availableReplicas": 0, "updatedReplicas": 0},
    ),
    "without its pods": (("orphan",), ("True", "the set is being deleted, and its pods go on running"), {}),
    "with a finalizer of somebody": (
        ("example.com/keep",),
        (
            "True",
            "the set is being deleted and waits for its finalizer example.com/keep; what runs goes on running, "
            "and nothing else is done for it",
        ),
        {},
    ),
}


@pytest.mark.parametrize(("finalizers", "available", "counts"), CASES.values(), ids=CASES)
def test_a_set_that_is_being_deleted_says_so_and_what_it_waits_for(
    finalizers: tuple[str, ...], available: tuple[str, str], counts: Manifest
) -> None:
    status = deleted_set_status(deleted(*finalizers), now=NOW)
    told = {each["type"]: each for each in status.pop("conditions")}
    assert sorted(told) == ["Available", "Progressing", "Ready", "SomebodyElses"]
    assert (told["Available"]["status"], told["Available"]["message"]) == available
    assert (told["Ready"]["status"], told["Ready"]["reason"]) == ("False", "BeingDeleted")
    assert status == {"observedGeneration": 1, "lastErrors": [], **counts}
