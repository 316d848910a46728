"""The workloads of the incumbent's end-to-end tests, of which each pod takes a node."""

from typing import Any

from tests.scenarios.stories import Stage, gpu_role

from grove.api.cliqueset import EXPLICIT, IN_ORDER
from grove.meta import Manifest
from grove.testing import make

#: Replicas and minimum.
Counts = tuple[int, int]


def workload(
    stage: Stage, name: str, a: Counts, b: Counts, c: Counts, group: Counts, **template: Any
) -> Manifest:
    """A standalone role `pc-a` and a scaling group `sg-x` of `pc-b` and `pc-c`."""
    roles = [
        gpu_role(role, replicas, minAvailable=minimum)
        for role, (replicas, minimum) in (("pc-a", a), ("pc-b", b), ("pc-c", c))
    ]
    replicas, minimum = group
    scaled = make.scaling_group("sg-x", ["pc-b", "pc-c"], replicas=replicas, minAvailable=minimum)
    return stage.cliqueset(name, cliques=roles, groups=[scaled], template=template)


def wl1(stage: Stage, name: str = "wl1", **template: Any) -> Manifest:
    """Ten pods, all of which the base gang needs."""
    return workload(stage, name, (2, 2), (1, 1), (3, 3), (2, 2), **template)


def in_order(workload: Manifest) -> Manifest:
    """The workload, each role of which starts after the one before it."""
    workload["spec"]["template"]["cliqueStartupType"] = IN_ORDER
    return workload


def explicitly(workload: Manifest, **after: str) -> Manifest:
    """The workload, whose roles start after those that they name: `pc_b="pc-a"`."""
    workload["spec"]["template"]["cliqueStartupType"] = EXPLICIT
    for role in workload["spec"]["template"]["cliques"]:
        if parent := after.get(role["name"].replace("-", "_")):
            role["spec"]["startsAfter"] = [parent]
    return workload


def wl2(stage: Stage, name: str = "wl2", **template: Any) -> Manifest:
    """Ten pods; the base gang needs three of them, the scaled gang two."""
    return workload(stage, name, (2, 1), (1, 1), (3, 1), (2, 1), **template)


def wl5(stage: Stage, name: str = "wl5", **template: Any) -> Manifest:
    """Ten pods; a replica of the group needs all four of its own, the group only one replica."""
    return workload(stage, name, (2, 1), (1, 1), (3, 3), (2, 1), **template)
