"""Which pods of a gang are above its minimum."""

import pytest

from grove.api import labels
from grove.api.minimum import above_minimum
from grove.api.pod import Pod
from grove.testing import make

LEADER, WORKER = "train-0-leader", "train-0-worker"
GANG = make.gang("train-0", {LEADER: 1, WORKER: 2, "train-0-idle": 0})

CASES: dict[str, tuple[Pod, bool]] = {
    "the first pod": (make.pod(WORKER, 0), False),
    "the last pod of the minimum": (make.pod(WORKER, 1), False),
    "the first pod above it": (make.pod(WORKER, 2), True),
    "a pod far above it": (make.pod(WORKER, 99), True),
    "each role has its own minimum": (make.pod(LEADER, 1), True),
    "every pod of a role without a minimum is above it": (make.pod("train-0-idle", 0), True),
    "every pod of a role that the gang does not know is above it": (make.pod("train-0-router", 0), True),
    "a pod on a node is above it all the same": (make.pod(WORKER, 2, node="n1"), True),
    "a pod without an index is not": (make.pod(WORKER, 2, labels={labels.POD_INDEX: ""}), False),
    "a pod with an index that is no number is not": (
        make.pod(WORKER, 2, labels={labels.POD_INDEX: "two"}),
        False,
    ),
    "a pod with an index that is no ASCII digit is not": (
        make.pod(WORKER, 2, labels={labels.POD_INDEX: "²"}),
        False,
    ),
    "a pod with an index below zero is not": (make.pod(WORKER, 2, labels={labels.POD_INDEX: "-1"}), False),
}


@pytest.mark.parametrize(("pod", "want"), CASES.values(), ids=CASES)
def test_above_minimum(pod: Pod, want: bool) -> None:
    assert above_minimum(GANG)(pod) is want
