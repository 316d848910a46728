"""What is measured: sets of equal gangs, and the bare pods that they are compared with. Pure."""

from dataclasses import dataclass
from typing import Final

from grove.api import kinds
from grove.meta import Manifest

NAMESPACE: Final = "default"
SET: Final = "bench"
#: The gate of the pods of the floor; nobody but the driver knows it.
GATE: Final = "bench.grove.io/floor"
FLOOR_LABEL: Final = "bench.grove.io/floor"
NODES: Final = 100


@dataclass(frozen=True, slots=True)
class Case:
    """So many gangs of so many pods each, as one set of one clique."""

    gangs: int
    size: int

    @property
    def pods(self) -> int:
        return self.gangs * self.size

    @property
    def name(self) -> str:
        return f"{self.gangs}x{self.size}"


TEN: Final = Case(5, 2)
HUNDRED: Final = Case(50, 2)
PAIRS: Final = Case(500, 2)
EIGHTS: Final = Case(125, 8)
ONE_GANG: Final = Case(1, 1000)
MANY: Final = Case(2500, 2)
CASES: Final = (TEN, HUNDRED, PAIRS, EIGHTS, ONE_GANG, MANY)
QUICK: Final = (TEN, HUNDRED)
#: For these the floor is also taken of the same pods in the same gangs.
SAME_PODS: Final = (PAIRS, EIGHTS, ONE_GANG, MANY)
#: And for these with their services: what those cost grows with their number times that of the pods.
WITH_SERVICES: Final = (PAIRS, MANY)
#: More than so many pods are measured once, however often the others are: with all floors that takes long.
REPEATED_PODS: Final = 1000
#: After this one the operator is restarted, to see that it writes nothing.
RESTARTED: Final = PAIRS


def case_named(name: str) -> Case:
    """The case of this name; raises KeyError whose text says which there are."""
    for case in CASES:
        if case.name == name:
            return case
    raise KeyError(f"there is no case {name!r}; choose from {', '.join(case.name for case in CASES)}")


def cliqueset(case: Case) -> Manifest:
    """The set of a case: a gang for each replica."""
    clique = {
        "name": "worker",
        "spec": {"roleName": "worker", "replicas": case.size, "podSpec": _pod_spec()},
    }
    return {
        "apiVersion": kinds.CLIQUESETS.api_version,
        "kind": kinds.CLIQUESETS.kind,
        "metadata": {"name": SET, "namespace": NAMESPACE},
        "spec": {"replicas": case.gangs, "template": {"cliques": [clique]}},
    }


def floor_pod(index: int) -> Manifest:
    """A gated pod like those of a set, that belongs to nobody."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"floor-{index}",
            "namespace": NAMESPACE,
            "labels": {FLOOR_LABEL: "true"},
        },
        "spec": {**_pod_spec(), "schedulingGates": [{"name": GATE}]},
    }


def _pod_spec() -> Manifest:
    requests = {"cpu": "100m", "memory": "64Mi"}
    container = {"name": "main", "image": "busybox:1.37", "resources": {"requests": requests}}
    return {"containers": [container]}
