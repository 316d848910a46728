"""What tells that a clique was whole, although nobody of ours saw it."""

import pytest

from grove.api.clique import PodClique
from grove.meta import Manifest
from grove.plan.wholeness import said_by_go
from grove.testing import make


def status(scheduled: int = 2, observed: int = 1, placed: str = "True", breached: str = "False") -> Manifest:
    told = {"PodCliqueScheduled": placed, "MinAvailableBreached": breached}
    return {
        "observedGeneration": observed,
        "scheduledReplicas": scheduled,
        "conditions": [{"type": each, "status": value} for each, value in told.items()],
    }


SAID = {
    "placed and working": (status(), "adopted", True),
    "placed, and below its minimum": (status(breached="True"), "adopted", False),
    "replaced by an update": (status(breached="Unknown"), "adopted", False),
    "not placed": (status(placed="False", breached="True"), "adopted", False),
    "fewer placed than the minimum is now": (status(1), "adopted", False),
    "of a spec that was edited since": (status(observed=0), "adopted", False),
    "of another start of the gang": (status(), "bcdfghjklm", False),
    "nothing": ({}, "adopted", False),
}


@pytest.mark.parametrize(("told", "revision", "want"), SAID.values(), ids=SAID)
def test_what_of_the_go_operators_status_proves_that_a_clique_was_whole(
    told: Manifest, revision: str, want: bool
) -> None:
    manifest = make.clique_manifest("train-0-worker", 2)
    manifest["metadata"]["generation"] = 1
    assert said_by_go(make.view(PodClique, {**manifest, "status": told}), revision) is want
