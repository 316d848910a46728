"""Which changes of a pod somebody waits for, and which only go into a status."""

import pytest

from grove.api.pod import Pod
from grove.controllers.wakeups import only_stands, pod_counts
from grove.testing import make

GATED = make.pod(gates=["grove.io/gate"])
WAITING = make.pod()
MARKS = dict(WAITING.labels)


@pytest.mark.parametrize(
    "after",
    [
        make.pod(labels={**MARKS, "grove.io/podgang": "another"}),
        make.pod(annotations={"example.com/seen": "yes"}),
        make.pod(phase="Failed"),
        make.pod(uid="another"),
    ],
)
def test_a_pod_that_ended_or_means_something_else_now_counts(after: Pod) -> None:
    assert pod_counts(WAITING, after)
    assert not only_stands(WAITING, after)


def test_a_gate_that_opened_counts() -> None:
    assert pod_counts(GATED, WAITING)


def test_a_pod_that_was_bound_only_stands_elsewhere_though_it_got_the_labels_of_its_place() -> None:
    place = {"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "b"}
    bound = make.pod(node="node-0", labels={**MARKS, **place}, generation=3)
    assert bound.labels != WAITING.labels
    assert only_stands(WAITING, bound)
