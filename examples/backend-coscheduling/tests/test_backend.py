"""What is special about coscheduling: its configuration, and who is held back."""

import pytest
from grove.backends.base import Capability, Context, Fidelity
from grove.errors import Unsupported
from grove.testing import make
from grove.testing.clusters import serving

from grove_coscheduling import Backend
from grove_coscheduling.backend import PODGROUPS

CLUSTER = serving(PODGROUPS)
GANG = make.gang("train-0", {"train-0-leader": 1, "train-0-worker": 3})


def test_the_timeout_of_the_profile_reaches_the_pod_group() -> None:
    (podgroup,) = Backend().translate(GANG, Context(CLUSTER, {"scheduleTimeoutSeconds": 30})).manifests
    assert podgroup["spec"] == {"minMember": 4, "scheduleTimeoutSeconds": 30}


@pytest.mark.parametrize("value", ["soon", 0, -1, True])
def test_a_bad_timeout_is_refused_by_name(value: object) -> None:
    with pytest.raises(Unsupported, match="scheduleTimeoutSeconds: must be a number of seconds"):
        Backend().translate(GANG, Context(CLUSTER, {"scheduleTimeoutSeconds": value}))


def test_that_roles_are_not_told_apart_is_said() -> None:
    losses = Backend().translate(GANG, Context(CLUSTER)).losses
    (told,) = [each for each in losses if each.property == Capability.SUBGROUPS]
    assert told.fidelity is Fidelity.APPROXIMATED


def test_a_required_rack_is_refused() -> None:
    with pytest.raises(Unsupported, match="required topology constraint"):
        Backend().translate(make.gang("train-0", required="example.com/rack"), Context(CLUSTER))


def test_pods_beyond_the_minimum_wait_until_the_gang_is_placed() -> None:
    backend = Backend()
    spare = make.pod("train-0-worker", 3, gang=GANG)
    assert [backend.holds_back(make.pod("train-0-worker", index), GANG) for index in range(3)] == [False] * 3
    assert backend.holds_back(spare, GANG)
    manifest = make.gang_manifest("train-0", {"train-0-leader": 1, "train-0-worker": 3})
    placed = {
        **manifest,
        "status": {"phase": "Running", "conditions": [{"type": "Scheduled", "status": "True"}]},
    }
    assert not backend.holds_back(spare, make.view(type(GANG), placed))
