"""SO1 to SO4 of the incumbent's end-to-end tests: the workloads, and which of their cliques start after which others.

How long a pod takes to start must differ from pod to pod, by a seed: without that everything would seem to be
in order, whether anybody waits or not.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from tests.scenarios.stories import Stage
from tests.scenarios.workloads import explicitly, in_order, wl1, wl2

from grove.api import labels
from grove.meta import Manifest

NAME: Final = "wl"
PODS: Final = 10
STARTUP: Final = "embedded.grove.io/startup"


@dataclass(frozen=True)
class Case:
    """A workload, and which of its cliques must have which others before them."""

    workload: Callable[[Stage], Manifest]
    #: Parents by clique, both without the name of the replica.
    after: Mapping[str, tuple[str, ...]]
    #: How many ready pods of each role suffice.
    minimum: Mapping[str, int]

    def needed(self, clique: str) -> int:
        """How many ready pods of a clique others wait for."""
        return self.minimum[clique[-4:]]


ALL: Final = {"pc-a": 2, "pc-b": 1, "pc-c": 3}
FEWEST: Final = {"pc-a": 1, "pc-b": 1, "pc-c": 1}
BOTH_B, BOTH_C = ("sg-x-0-pc-b", "sg-x-1-pc-b"), ("sg-x-0-pc-c", "sg-x-1-pc-c")
CLIQUES: Final = {"pc-a", *BOTH_B, *BOTH_C}

CASES: Final = {
    "SO1": Case(
        lambda stage: in_order(wl1(stage, NAME)),
        {**dict.fromkeys(BOTH_B, ("pc-a",)), **dict.fromkeys(BOTH_C, BOTH_B)},
        ALL,
    ),
    "SO2": Case(
        lambda stage: in_order(wl2(stage, NAME)),
        {"sg-x-0-pc-b": ("pc-a",), "sg-x-0-pc-c": ("sg-x-0-pc-b",), "sg-x-1-pc-c": ("sg-x-1-pc-b",)},
        FEWEST,
    ),
    "SO3": Case(
        lambda stage: explicitly(wl1(stage, NAME), pc_c="pc-a", pc_b="pc-c"),
        {**dict.fromkeys(BOTH_C, ("pc-a",)), **dict.fromkeys(BOTH_B, BOTH_C)},
        ALL,
    ),
    "SO4": Case(
        lambda stage: explicitly(wl2(stage, NAME), pc_b="pc-a", pc_c="pc-b"),
        {"sg-x-0-pc-b": ("pc-a",), "sg-x-0-pc-c": ("sg-x-0-pc-b",), "sg-x-1-pc-c": ("sg-x-1-pc-b",)},
        FEWEST,
    ),
}


def clique_of(pod: Manifest) -> str:
    """The clique of a pod, without the name of the replica."""
    return str(pod["metadata"]["labels"][labels.POD_CLIQUE]).removeprefix(f"{NAME}-0-")


def without_order(workload: Manifest) -> Manifest:
    """The same workload, whose roles start as it happens."""
    template = workload["spec"]["template"]
    del template["cliqueStartupType"]
    for role in template["cliques"]:
        role["spec"].pop("startsAfter", None)
    return workload


def slow(workload: Manifest, role: str, seconds: int) -> Manifest:
    """The workload, of which one role takes so long to start."""
    for each in workload["spec"]["template"]["cliques"]:
        if each["name"] == role:
            each["annotations"] = {STARTUP: f"{seconds}s"}
    return workload


def waits(pod: Manifest) -> list[str]:
    """The arguments of the waiting container of a pod; empty where it has none."""
    init = pod["spec"].get("initContainers") or ()
    return [argument for each in init if each["name"] == "grove-initc" for argument in each["args"]]
