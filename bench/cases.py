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


@dataclass(frozen=True, slots=True)
class GroupCase(Case):
    """Replicas of `size` pods, a part of them in a scaling group of leader and workers."""

    title: str = ""
    standalone: int = 0
    workers: int = 1
    group_replicas: int = 1
    minimum: int = 1

    @property
    def name(self) -> str:
        return self.title

    @property
    def most_writes(self) -> int:
        """Two for the set and for each pod, three a gang, two a clique, one for each group and service."""
        gangs = self.gangs * (1 + self.group_replicas - self.minimum)
        cliques = self.gangs * (bool(self.standalone) + 2 * self.group_replicas)
        return 2 + 2 * self.pods + 3 * gangs + 2 * cliques + 2 * self.gangs


@dataclass(frozen=True, slots=True)
class ManySets(Case):
    """The gangs of a case in equal sets, each in a namespace of its own."""

    sets: int = 1

    @property
    def name(self) -> str:
        return f"{self.sets} sets of {self.gangs // self.sets}x{self.size}"


def group_case(
    title: str, replicas: int, *, standalone: int, workers: int, group_replicas: int, minimum: int
) -> GroupCase:
    """A case of sets with a scaling group."""
    size = standalone + group_replicas * (1 + workers)
    return GroupCase(replicas, size, title, standalone, workers, group_replicas, minimum)


TEN: Final = Case(5, 2)
HUNDRED: Final = Case(50, 2)
PAIRS: Final = Case(500, 2)
EIGHTS: Final = Case(125, 8)
ONE_GANG: Final = Case(1, 1000)
MANY: Final = Case(2500, 2)
#: The workload WL1 of the Go operator's tests: two pods, and a group of two replicas that the gang needs.
TEN_GROUPS: Final = group_case("10xWL1", 10, standalone=2, workers=3, group_replicas=2, minimum=2)
HUNDRED_GROUPS: Final = group_case("100xWL1", 100, standalone=2, workers=3, group_replicas=2, minimum=2)
#: One set whose group has a hundred replicas of eight pods, each a gang of its own but for the first.
LARGE_GROUP: Final = group_case("100x8 group", 1, standalone=0, workers=7, group_replicas=100, minimum=1)
GROUPS: Final = (TEN_GROUPS, HUNDRED_GROUPS, LARGE_GROUP)
#: Ten times as many pods as `500x2`, in twenty namespaces.
TEN_THOUSAND: Final = ManySets(5000, 2, 20)
CASES: Final = (TEN, HUNDRED, PAIRS, EIGHTS, ONE_GANG, *GROUPS, MANY, TEN_THOUSAND)
QUICK: Final = (TEN, HUNDRED)
#: For these the floor is also taken of the same pods in the same gangs.
SAME_PODS: Final = (PAIRS, EIGHTS, ONE_GANG, MANY)
#: And for these with their services: what those cost grows with their number times that of the pods.
WITH_SERVICES: Final = (PAIRS, MANY)
#: More than so many pods are measured once, however often the others are: with all floors that takes long.
REPEATED_PODS: Final = 1000
#: After these the operator is restarted, to see that it writes nothing, and how soon it is ready.
RESTARTED: Final = (PAIRS, MANY)


def case_named(name: str) -> Case:
    """The case of this name; raises KeyError whose text says which there are."""
    for case in CASES:
        if case.name == name:
            return case
    raise KeyError(f"there is no case {name!r}; choose from {', '.join(case.name for case in CASES)}")


def cliquesets(case: Case) -> list[Manifest]:
    """The sets of a case; several have names of their own too, so that all pods do."""
    if not isinstance(case, ManySets):
        return [cliqueset(case)]
    made = []
    for number in range(case.sets):
        each = cliqueset(Case(case.gangs // case.sets, case.size))
        name = f"{SET}-{number}"
        made.append({**each, "metadata": {"name": name, "namespace": name}})
    return made


def cliqueset(case: Case) -> Manifest:
    """The set of a case: a gang for each replica, and where it has a scaling group, more of them."""
    if isinstance(case, GroupCase):
        return _with_group(case)
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


def _with_group(case: GroupCase) -> Manifest:
    sizes = {"frontend": case.standalone, "leader": 1, "worker": case.workers}
    cliques = [
        {"name": name, "spec": {"roleName": name, "replicas": size, "podSpec": _pod_spec()}}
        for name, size in sizes.items()
        if size
    ]
    group = {
        "name": "decode",
        "cliqueNames": ["leader", "worker"],
        "replicas": case.group_replicas,
        "minAvailable": case.minimum,
    }
    return {
        "apiVersion": kinds.CLIQUESETS.api_version,
        "kind": kinds.CLIQUESETS.kind,
        "metadata": {"name": SET, "namespace": NAMESPACE},
        "spec": {
            "replicas": case.gangs,
            "template": {"cliques": cliques, "podCliqueScalingGroups": [group]},
        },
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
