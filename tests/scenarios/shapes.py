"""The shapes of sets that chaos, crashes and silence are played with, and the schedulers."""

from collections.abc import Callable, Mapping
from typing import Final

from tests.scenarios.disturbing import SHUTDOWN
from tests.scenarios.stories import STAGES, Stage, sharing_devices

from grove.api.cliqueset import IN_ORDER
from grove.api.labels import SCHEDULER_BACKEND
from grove.meta import Manifest
from grove.testing import make

#: For which sets are made.
BACKENDS: Final = ("default", "kai", "koordinator", "volcano", "yunikorn")
#: How many replicas a scaling group of these sets has by its template.
GROUP_REPLICAS: Final = 2
#: And how many pods a role of them that is scaled by load.
ROLE_REPLICAS: Final = 2
#: How much waits for each replica of a group.
QUEUE: Final[Manifest] = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "0.5"}},
}


def stage_of(backend: str) -> Stage:
    """A cluster with one backend; Kubernetes' own scheduler is that of 1.36."""
    return STAGES[{"default": "1.36"}.get(backend, backend)]


def alone() -> Manifest:
    return {"cliques": {"worker": 2}}


def pair() -> Manifest:
    return {"cliques": {"leader": 1, "worker": 2}}


def group() -> Manifest:
    """A router beside a scaling group of leader and worker: one replica in the base gang, one scaled gang."""
    return {
        "cliques": {"router": 1, "lead": 1, "work": 2},
        "groups": [make.scaling_group("dec", ["lead", "work"], replicas=GROUP_REPLICAS, minAvailable=1)],
    }


def scaled() -> Manifest:
    """A role and a scaling group that are scaled by load."""
    worker = make.template("worker", ROLE_REPLICAS)
    worker["spec"] |= {"minAvailable": 1, "autoScalingConfig": {"minReplicas": 1, "maxReplicas": 4}}
    config = {"minReplicas": 1, "maxReplicas": 3, "metrics": [QUEUE]}
    return {
        "cliques": [worker, make.template("lead"), make.template("work")],
        "groups": [
            make.scaling_group("dec", ["lead", "work"], replicas=GROUP_REPLICAS, scaleConfig=config),
        ],
    }


def order() -> Manifest:
    """The same, whose roles start one after the other."""
    return {**group(), "template": {"cliqueStartupType": IN_ORDER}}


SHAPES: Final[Mapping[str, Callable[[], Manifest]]] = {
    "alone": alone,
    "pair": pair,
    "group": group,
    "sharing": group,
    "scaled": scaled,
    "order": order,
}


def train(backend: str, shape: str, replicas: int, stop: int = 0) -> Manifest:
    """A set of one of the shapes for one backend, whose pods take so many seconds to stop."""
    made = make.cliqueset_manifest(
        "train", replicas=replicas, annotations={SCHEDULER_BACKEND: backend}, **SHAPES[shape]()
    )
    for role in made["spec"]["template"]["cliques"]:
        role["annotations"] = {SHUTDOWN: f"{stop}s"}
    return sharing_devices(made) if shape == "sharing" else made
