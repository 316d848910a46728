"""GPUs that gangs hold without being placed as a whole, now and over time."""

from datetime import UTC, datetime

import pytest

from grove.api import conditions
from grove.api.clique import PodClique
from grove.api.gang import PodGang
from grove.api.labels import POD_GANG, SCHEDULER_BACKEND
from grove.api.pod import Pod
from grove.controllers.memory.holdings import Holdings, gpus_of
from grove.meta import Manifest
from grove.runtime.metrics import Metrics
from grove.testing import make


class Stopwatch:
    """Time passes when the test says so."""

    seconds = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.seconds


def gang(*, placed: bool, backend: str = "kai") -> PodGang:
    manifest = make.gang_manifest("train-0", {"train-0-worker": 2}, labels={SCHEDULER_BACKEND: backend})
    said = {"type": conditions.SCHEDULED, "status": str(placed), "reason": "R"}
    return make.view(PodGang, {**manifest, "status": {"conditions": [said]}})


def asking(gpus: object, **more: object) -> Manifest:
    return {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": gpus}}, **more}


CLIQUE = make.view(
    PodClique,
    make.clique_manifest(
        "train-0-worker", 2, spec={"podSpec": {"containers": [asking("4")]}}, labels={POD_GANG: "train-0"}
    ),
)


def pod(index: int, **fields: str) -> Pod:
    return make.view(Pod, make.pod_manifest("train-0-worker", index, gang=gang(placed=False), **fields))  # type: ignore[arg-type]


class Scene:
    def __init__(self) -> None:
        self.metrics, self.clock = Metrics(), Stopwatch()
        self.holdings = Holdings(self.metrics, self.clock, answers=lambda: True)

    @property
    def held(self) -> tuple[float, float]:
        """GPUs now, and GPU-seconds so far."""
        return (
            self.metrics.value("grove_gang_held_gpus", backend="kai"),
            self.metrics.value("grove_gang_held_gpu_seconds_total", backend="kai"),
        )


def test_gpus_count_while_a_part_of_the_gang_is_on_nodes() -> None:
    scene = Scene()
    scene.holdings.saw_gang(None, gang(placed=False))
    scene.holdings.saw_clique(None, CLIQUE)
    scene.holdings.saw_pod(None, pod(0))
    assert scene.held == (0, 0), "a pod that is on no node holds nothing"
    scene.holdings.saw_pod(pod(0), pod(0, node="a"))
    scene.clock.seconds = 10
    assert scene.held == (4, 40)
    scene.holdings.saw_pod(None, pod(1, node="b"))
    scene.clock.seconds = 15
    assert scene.held == (8, 80)
    scene.holdings.saw_gang(gang(placed=False), gang(placed=True))
    scene.clock.seconds = 1000
    assert scene.held == (0, 80), "a gang that is placed as a whole uses what it has"
    scene.holdings.saw_gang(gang(placed=True), gang(placed=False))
    scene.holdings.saw_pod(pod(1, node="b"), None)
    scene.clock.seconds = 1001
    assert scene.held == (4, 84), "until it has lost a pod"
    scene.holdings.saw_gang(gang(placed=False), None)
    assert scene.held == (0, 84)


def test_it_does_not_matter_in_which_order_things_are_seen() -> None:
    scene = Scene()
    scene.holdings.saw_pod(None, pod(0, node="a"))
    scene.holdings.saw_clique(None, CLIQUE)
    scene.holdings.saw_gang(None, gang(placed=False))
    assert scene.held == (4, 0)
    scene.holdings.saw_clique(CLIQUE, None)
    assert scene.held == (0, 0)


def test_a_pod_that_has_ended_holds_nothing() -> None:
    scene = Scene()
    scene.holdings.saw_gang(None, gang(placed=False))
    scene.holdings.saw_clique(None, CLIQUE)
    scene.holdings.saw_pod(None, pod(0, node="a"))
    scene.holdings.saw_pod(pod(0, node="a"), pod(0, node="a", phase="Failed"))
    assert scene.held == (0, 0)


CASES = {
    "none": ({"containers": [{"name": "c"}]}, 0),
    "one container": ({"containers": [asking("2")]}, 2),
    "a number": ({"containers": [asking(2)]}, 2),
    "all containers together": ({"containers": [asking("2"), asking("1")]}, 3),
    "requests alone": ({"containers": [{"resources": {"requests": {"amd.com/gpu": "8"}}}]}, 8),
    "an init container runs before the others": (
        {"containers": [asking("2")], "initContainers": [asking("4")]},
        4,
    ),
    "a sidecar runs beside them": (
        {"containers": [asking("2")], "initContainers": [asking("1", restartPolicy="Always")]},
        3,
    ),
    "shares of a GPU are not counted": ({"containers": [asking("500m")]}, 0),
    "other devices are none": (
        {"containers": [{"resources": {"limits": {"nvidia.com/mig-1g.5gb": "1"}}}]},
        0,
    ),
}


@pytest.mark.parametrize(("spec", "want"), CASES.values(), ids=CASES)
def test_gpus_of_a_pod(spec: Manifest, want: int) -> None:
    assert gpus_of(spec) == want
