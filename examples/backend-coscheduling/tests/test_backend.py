"""What is special about coscheduling: its configuration, its names, and what it cannot say."""

import pytest
from grove.backends.base import Capability, Context, Fidelity
from grove.errors import Unsupported
from grove.testing import make
from grove.testing.clusters import serving

from grove_coscheduling import Backend
from grove_coscheduling.backend import POD_GROUP_LABEL, PODGROUPS

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
    treatments = Backend().translate(GANG, Context(CLUSTER)).treatments
    (told,) = [each for each in treatments if each.property == Capability.SUBGROUPS]
    assert told.fidelity is Fidelity.APPROXIMATED


def test_a_required_rack_is_refused() -> None:
    with pytest.raises(Unsupported, match="required topology constraint"):
        Backend().translate(make.gang("train-0", required="example.com/rack"), Context(CLUSTER))


@pytest.mark.parametrize(
    "name", ["train-0", "a-name-of-a-set-that-leaves-no-room-for-anything-else-in-a-label-0"]
)
def test_every_start_of_a_gang_has_a_pod_group_of_its_own_and_its_pods_name_it(name: str) -> None:
    gang = make.gang(name, {"train-0-leader": 1, "train-0-worker": 3})
    made = []
    for revision in ("bcdfghjklm", "nprstvwxyz"):
        context = Context(CLUSTER, revision=revision)
        (podgroup,) = Backend().translate(gang, context).manifests
        pod = Backend().prepare_pod(make.pod_manifest("train-0-worker", 0, gang=gang), gang, context)
        assert pod["metadata"]["labels"][POD_GROUP_LABEL] == podgroup["metadata"]["name"]
        assert podgroup["metadata"]["name"].endswith(f"-{revision}")
        assert len(podgroup["metadata"]["name"]) <= 63
        made.append(podgroup["metadata"]["name"])
    assert len(set(made)) == 2
