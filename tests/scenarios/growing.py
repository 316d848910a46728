"""GS1 to GS12 of the incumbent's end-to-end tests: base and scaled gangs as nodes come and groups grow.

Each pod takes a node. A step makes nodes available or scales something, and says how many pods are then on
nodes, of how many that exist. The same stories play on the embedded cluster and on real control planes.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from tests.scenarios.stories import Stage, condition_of
from tests.scenarios.workloads import wl1, wl2

from grove.api import kinds, labels
from grove.meta import Manifest, Resource

#: The backends whose scheduler serves gangs below their minimum before pods above it.
STARVED_FIRST: Final = ("kai", "volcano")


@dataclass(frozen=True)
class Step:
    """What is done, and how many pods are on nodes, of how many, once it has taken effect."""

    placed: int
    pods: int
    #: So many nodes can be used from now on; 0 leaves them as they are.
    nodes: int = 0
    scale: tuple[Resource, str, int] | None = None
    #: How many are on nodes where the scheduler serves what is older first: pods above the minimum of a gang
    #: may then take the room in which a scaled gang would fit.
    oldest_first: int | None = None
    #: How many at least where the scheduler takes nodes for a part of a gang: these are then kept from pods
    #: above the minimum of others.
    beside_a_part: int | None = None

    def reached(self, pods: list[Manifest], backend: str, *, takes_parts: bool = False) -> bool:
        """Whether so many pods are on nodes, of so many; those on their way out do not count."""
        present = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
        allowed = {self.placed}
        if self.oldest_first is not None and backend not in STARVED_FIRST:
            allowed.add(self.oldest_first)
        if self.beside_a_part is not None and takes_parts:
            allowed.add(self.beside_a_part)
        return sum(_is_placed(pod) for pod in present) in allowed and len(present) == self.pods


def group(replica: int, replicas: int) -> tuple[Resource, str, int]:
    return kinds.SCALING_GROUPS, f"wl-{replica}-sg-x", replicas


def whole(replicas: int) -> tuple[Resource, str, int]:
    return kinds.CLIQUESETS, "wl", replicas


@dataclass(frozen=True)
class Case:
    workload: Callable[[Stage, str], Manifest]
    nodes: int
    steps: tuple[Step, ...]


CASES: Final[Mapping[str, Case]] = {
    "GS1": Case(wl1, 10, (Step(0, 10, nodes=9), Step(10, 10, nodes=10))),
    "GS2": Case(
        wl1,
        14,
        (
            Step(0, 10, nodes=9),
            Step(10, 10, nodes=10),
            Step(10, 14, scale=group(0, 3)),
            Step(14, 14, nodes=14),
        ),
    ),
    "GS3": Case(
        wl1,
        20,
        (Step(0, 10, nodes=9), Step(10, 10, nodes=10), Step(10, 20, scale=whole(2)), Step(20, 20, nodes=20)),
    ),
    "GS4": Case(
        wl1,
        28,
        (
            Step(0, 10, nodes=9),
            Step(10, 10, nodes=10),
            Step(10, 14, scale=group(0, 3)),
            Step(14, 14, nodes=14),
            Step(14, 24, scale=whole(2)),
            Step(24, 24, nodes=24),
            Step(24, 28, scale=group(1, 3)),
            Step(28, 28, nodes=28),
        ),
    ),
    "GS5": Case(wl2, 10, (Step(0, 10, nodes=2), Step(3, 10, nodes=3), Step(10, 10, nodes=10))),
    "GS6": Case(
        wl2,
        14,
        (
            Step(0, 10, nodes=2),
            Step(3, 10, nodes=3),
            Step(10, 10, nodes=10),
            Step(10, 14, scale=group(0, 3)),
            Step(12, 14, nodes=12),
            Step(14, 14, nodes=14),
        ),
    ),
    "GS7": Case(
        wl2,
        14,
        (
            Step(0, 10, nodes=2),
            Step(3, 10, nodes=3),
            Step(5, 10, nodes=5, beside_a_part=4),
            Step(10, 10, nodes=10),
            Step(10, 14, scale=group(0, 3)),
            Step(12, 14, nodes=12),
            Step(14, 14, nodes=14),
        ),
    ),
    "GS8": Case(
        wl2,
        14,
        (
            Step(0, 10, nodes=2),
            Step(0, 14, scale=group(0, 3)),
            Step(3, 14, nodes=3),
            Step(7, 14, nodes=7, oldest_first=6, beside_a_part=6),
            Step(14, 14, nodes=14),
        ),
    ),
    "GS9": Case(
        wl2,
        20,
        (
            Step(0, 10, nodes=2),
            Step(3, 10, nodes=3),
            Step(10, 10, nodes=10),
            Step(10, 20, scale=whole(2)),
            Step(13, 20, nodes=13),
            Step(20, 20, nodes=20),
        ),
    ),
    "GS10": Case(
        wl2,
        20,
        (
            Step(0, 10, nodes=2),
            Step(0, 20, scale=whole(2)),
            Step(6, 20, nodes=6),
            Step(10, 20, nodes=10, beside_a_part=9),
            Step(20, 20, nodes=20),
        ),
    ),
    "GS11": Case(
        wl2,
        28,
        (
            Step(0, 10, nodes=2),
            Step(3, 10, nodes=3),
            Step(10, 10, nodes=10),
            Step(10, 14, scale=group(0, 3)),
            Step(12, 14, nodes=12),
            Step(14, 14, nodes=14),
            Step(14, 24, scale=whole(2)),
            Step(17, 24, nodes=17),
            Step(24, 24, nodes=24),
            Step(24, 28, scale=group(1, 3)),
            Step(26, 28, nodes=26),
            Step(28, 28, nodes=28),
        ),
    ),
    "GS12": Case(
        wl2,
        28,
        (
            Step(0, 10, nodes=2),
            Step(0, 14, scale=group(0, 3)),
            Step(0, 24, scale=whole(2)),
            Step(0, 28, scale=group(1, 3)),
            Step(6, 28, nodes=6),
            Step(14, 28, nodes=14, beside_a_part=13),
            Step(28, 28, nodes=28),
        ),
    ),
}


class Place(Protocol):
    """Where a case plays."""

    async def usable(self, nodes: int) -> None:
        """Make the first so many nodes usable, and no other."""

    async def apply(self, case: Case) -> None: ...

    async def scale(self, resource: Resource, name: str, replicas: int) -> None: ...

    async def reaches(self, step: Step, what: str) -> None:
        """Return when the step is reached and stays so."""

    async def objects(self, resource: Resource) -> list[Manifest]:
        """All gangs, or all pods but those that only hold a place."""


async def play(case: Case, place: Place) -> None:
    """Every step of the case, judged as it ends."""
    await place.usable(case.steps[0].nodes)
    await place.apply(case)
    for number, step in enumerate(case.steps):
        if number and step.nodes:
            await place.usable(step.nodes)
        if step.scale is not None:
            await place.scale(*step.scale)
        await place.reaches(step, f"step {number}: {step.placed} of {step.pods} pods on nodes")
        gangs, pods = await place.objects(kinds.GANGS), await place.objects(kinds.PODS)
        assert_gangs_are_whole_and_bases_come_first(gangs, pods)
    assert len({pod["spec"]["nodeName"] for pod in pods}) == case.nodes
    assert [pod["status"]["phase"] for pod in pods] == ["Running"] * case.nodes


def assert_gangs_are_whole_and_bases_come_first(gangs: list[Manifest], pods: list[Manifest]) -> None:
    """Gangs have their minima or nothing, and say which; scaled ones have nothing before their base has all."""
    bound = Counter(pod["metadata"]["labels"][labels.POD_CLIQUE] for pod in pods if _is_placed(pod))
    placed: dict[str, bool] = {}
    for gang in gangs:
        name, groups = gang["metadata"]["name"], gang["spec"]["podgroups"]
        placed[name] = all(bound[each["name"]] >= each["minReplicas"] for each in groups)
        assert placed[name] or not any(bound[each["name"]] for each in groups), f"{name} is placed in part"
        said = condition_of(gang, "Scheduled")
        assert said["status"] == str(placed[name]), f"{name} says {said}"
    for gang in gangs:
        name, base = gang["metadata"]["name"], gang["metadata"]["labels"].get(labels.BASE_POD_GANG)
        assert not (base and placed[name] and not placed[base]), f"{name} is placed before {base}"


def _is_placed(pod: Manifest) -> bool:
    return bool(pod["spec"].get("nodeName"))
