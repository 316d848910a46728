"""Which pods a gang has still to tell that they were taken away."""

from grove.api import labels
from grove.api.pod import Pod
from grove.controllers.memory.disruptions import Disruptions
from grove.meta import Key
from grove.testing import make

TRAIN = Key("default", "train-0")
GANG = make.gang("train-0")


def pod(index: int = 0, reason: str = "", *, gang: bool = True) -> Pod:
    manifest = make.pod_manifest("train-0-worker", index, node="n1", gang=GANG)
    if not gang:
        del manifest["metadata"]["labels"][labels.POD_GANG]
    if reason:
        manifest["status"]["conditions"].append(
            {"type": "DisruptionTarget", "status": "True", "reason": reason}
        )
    return make.view(Pod, manifest)


EVICTED = pod(0, "EvictionByEvictionAPI")


def test_a_pod_is_told_once_however_often_it_changes_afterwards() -> None:
    disruptions = Disruptions()
    disruptions.saw(pod(), EVICTED)
    disruptions.saw(EVICTED, pod(0, "EvictionByEvictionAPI"))
    assert disruptions.take(TRAIN) == [EVICTED]
    disruptions.saw(EVICTED, pod(0, "EvictionByEvictionAPI"))
    disruptions.saw(EVICTED, None)
    assert disruptions.take(TRAIN) == []


def test_a_pod_that_is_gone_at_once_is_told_by_its_last_state() -> None:
    disruptions = Disruptions()
    disruptions.saw(pod(0, "DeletionByPodGC"), None)
    assert [each.name for each in disruptions.take(TRAIN)] == [pod().name]


def test_another_reason_is_told_anew_and_so_is_another_pod() -> None:
    disruptions = Disruptions()
    disruptions.saw(pod(), EVICTED)
    disruptions.saw(None, pod(1, "PreemptionByScheduler"))
    assert len(disruptions.take(TRAIN)) == 2
    disruptions.saw(EVICTED, pod(0, "DeletionByTaintManager"))
    assert disruptions.take(TRAIN) == [pod(0, "DeletionByTaintManager")]


def test_what_is_no_disruption_or_no_gang_of_ours_is_not_told() -> None:
    disruptions = Disruptions()
    disruptions.saw(None, pod())
    disruptions.saw(pod(), None)
    disruptions.saw(None, None)
    disruptions.saw(None, pod(0, "EvictionByEvictionAPI", gang=False))
    assert disruptions.take(TRAIN) == []


def test_a_gang_that_is_gone_has_nothing_to_tell() -> None:
    disruptions = Disruptions()
    disruptions.saw(pod(), EVICTED)
    disruptions.forget(TRAIN)
    assert disruptions.take(TRAIN) == []
