"""For how long a preempted gang steps back, and which gangs were."""

import pytest
from tests.controllers.clocks import HandClock

from grove.api import labels
from grove.api.pod import Pod
from grove.controllers.memory.preemptions import LEAST_SECONDS, LONGEST_SECONDS, MOST_SECONDS, Preemptions
from grove.meta import Key, Manifest
from grove.testing import make

TRAIN = Key("default", "train-0")
GANG = make.gang("train-0")


def pod(index: int = 0, reason: str = "", status: str = "True", *, gang: bool = True) -> Pod:
    manifest = make.pod_manifest("train-0-worker", index, node="n1", gang=GANG)
    if not gang:
        del manifest["metadata"]["labels"][labels.POD_GANG]
    if reason:
        told: Manifest = {"type": "DisruptionTarget", "status": status, "reason": reason}
        manifest["status"]["conditions"].append(told)
    return make.view(Pod, manifest)


PREEMPTED = pod(0, "PreemptionByScheduler")

SEEN: dict[str, tuple[Pod | None, Pod | None, bool]] = {
    "a pod that the scheduler preempts": (pod(), PREEMPTED, True),
    "a pod that was preempted before we looked": (None, PREEMPTED, True),
    "a pod that a scheduler of its own calls preempted": (pod(), pod(0, "Preempted"), True),
    "a pod that is evicted for another reason": (pod(), pod(0, "EvictionByEvictionAPI"), False),
    "a pod that a taint drives away": (pod(), pod(0, "DeletionByTaintManager"), False),
    "a pod that is no longer to be preempted": (pod(), pod(0, "PreemptionByScheduler", "False"), False),
    "a pod of nobody's gang": (pod(gang=False), pod(0, "PreemptionByScheduler", gang=False), False),
    "a pod that came": (None, pod(), False),
    "a pod that went": (pod(), None, False),
    "a pod that is gone at once, of which only the last state says so": (PREEMPTED, None, True),
    "nothing": (None, None, False),
}


@pytest.mark.parametrize(("old", "new", "want"), SEEN.values(), ids=SEEN)
def test_who_was_preempted(old: Pod | None, new: Pod | None, want: bool) -> None:
    preemptions = Preemptions(HandClock())
    preemptions.saw(old, new)
    assert preemptions.left(TRAIN, awaited=False) == (LEAST_SECONDS if want else 0.0)


def test_a_preempted_gang_steps_back_for_a_moment_even_if_nobody_seems_to_wait() -> None:
    clock = HandClock()
    preemptions = Preemptions(clock)
    preemptions.saw(pod(), PREEMPTED)
    clock.seconds += LEAST_SECONDS - 1
    assert preemptions.left(TRAIN, awaited=False) == 1
    clock.seconds += 1
    assert preemptions.left(TRAIN, awaited=False) == 0


def test_it_steps_back_longer_while_a_gang_of_higher_priority_waits_but_not_for_ever() -> None:
    clock = HandClock()
    preemptions = Preemptions(clock)
    preemptions.saw(pod(), PREEMPTED)
    clock.seconds += LEAST_SECONDS
    assert preemptions.left(TRAIN, awaited=True) == MOST_SECONDS - LEAST_SECONDS
    clock.seconds += MOST_SECONDS
    assert preemptions.left(TRAIN, awaited=True) == 0


def test_the_pods_of_one_preemption_count_once() -> None:
    clock = HandClock()
    preemptions = Preemptions(clock)
    for index in range(8):
        preemptions.saw(pod(index), pod(index, "PreemptionByScheduler"))
        clock.seconds += 0.1
    assert preemptions.left(TRAIN, awaited=True) == pytest.approx(MOST_SECONDS - 0.8)


def test_other_changes_of_a_pod_that_is_being_preempted_are_no_news() -> None:
    clock = HandClock()
    preemptions = Preemptions(clock)
    preemptions.saw(pod(), PREEMPTED)
    clock.seconds += 20
    preemptions.saw(PREEMPTED, pod(0, "PreemptionByScheduler"))
    preemptions.saw(PREEMPTED, PREEMPTED)
    assert preemptions.left(TRAIN, awaited=True) == MOST_SECONDS - 20


def test_the_end_of_a_pod_that_was_preempted_is_not_a_second_preemption() -> None:
    clock = HandClock()
    preemptions = Preemptions(clock)
    preemptions.saw(pod(), PREEMPTED)
    clock.seconds += LEAST_SECONDS + 3
    preemptions.saw(PREEMPTED, None)
    assert preemptions.left(TRAIN, awaited=True) == MOST_SECONDS - LEAST_SECONDS - 3


def again(preemptions: Preemptions, clock: HandClock, seconds: float) -> float:
    """The gang goes on after so long and is preempted once more; for how long it then steps back at most."""
    preemptions.saw(PREEMPTED, None)
    clock.seconds += seconds
    preemptions.saw(pod(), PREEMPTED)
    return preemptions.left(TRAIN, awaited=True)


def test_it_steps_back_twice_as_long_each_time_that_it_is_preempted_again_up_to_a_limit() -> None:
    clock = HandClock()
    preemptions = Preemptions(clock)
    preemptions.saw(pod(), PREEMPTED)
    limits = [again(preemptions, clock, MOST_SECONDS) for _ in range(20)]
    doubled = [2 * MOST_SECONDS, 4 * MOST_SECONDS, 8 * MOST_SECONDS]
    assert limits == [*doubled, *[LONGEST_SECONDS] * 17]


def test_one_that_ran_in_peace_for_long_is_preempted_for_the_first_time_again() -> None:
    clock = HandClock()
    preemptions = Preemptions(clock)
    preemptions.saw(pod(), PREEMPTED)
    assert again(preemptions, clock, MOST_SECONDS) == 2 * MOST_SECONDS
    assert again(preemptions, clock, 4 * MOST_SECONDS + 1) == MOST_SECONDS


def test_a_gang_that_is_gone_is_forgotten() -> None:
    preemptions = Preemptions(HandClock())
    preemptions.saw(pod(), PREEMPTED)
    preemptions.forget(TRAIN)
    preemptions.forget(TRAIN)
    assert preemptions.left(TRAIN, awaited=True) == 0


def test_another_gang_need_not_step_back() -> None:
    preemptions = Preemptions(HandClock())
    preemptions.saw(pod(), PREEMPTED)
    assert preemptions.left(Key("default", "train-1"), awaited=True) == 0
    assert preemptions.left(Key("elsewhere", "train-0"), awaited=True) == 0
