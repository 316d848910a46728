"""Which sets kube-scheduler of 1.35 and 1.37 cannot place because pods of one gang share a device claim."""

from collections.abc import Sequence
from typing import Any

import pytest
from tests.backends import clusters
from tests.backends.clusters import on

from grove.api.cliqueset import PodCliqueSet
from grove.backends.default import DefaultBackend
from grove.meta import Manifest
from grove.testing import make

BACKEND = DefaultBackend()
SET = "spec.template.resourceSharing[0]"
GROUP = "spec.template.podCliqueScalingGroups[0].resourceSharing[0]"
ROLE = "spec.template.cliques[0].resourceSharing[0]"


def shared(scope: str = "AllReplicas", **only: Sequence[str]) -> list[Manifest]:
    return [{"name": "gpu", "scope": scope, **({"filter": only} if only else {})}]


def role(name: str, replicas: int = 1, minimum: int | None = None, **fields: Any) -> Manifest:
    made = make.template(name, replicas, **fields)
    if minimum is not None:
        made["spec"]["minAvailable"] = minimum
    return made


def of(*roles: Manifest, groups: Sequence[Manifest] = (), **template: object) -> PodCliqueSet:
    return make.cliqueset(cliques=roles, groups=groups, template=template)


def group(minimum: int = 1, **fields: object) -> list[Manifest]:
    return [make.scaling_group("g", ["b", "c"], replicas=3, minAvailable=minimum, **fields)]


TWO = (role("a"), role("b"))
THREE = (role("a"), role("b"), role("c"))
CASES: dict[str, tuple[PodCliqueSet, Sequence[str]]] = {
    "nothing is shared": (of(*TWO), []),
    "roles share the claim of the set": (of(*TWO, resourceSharing=shared()), [SET]),
    "or that of their replica": (of(*TWO, resourceSharing=shared("PerReplica")), [SET]),
    "only one pod uses it": (of(*TWO, resourceSharing=shared(childCliqueNames=["b"])), []),
    "two pods of a role use it": (
        of(role("a", 2), role("b"), resourceSharing=shared(childCliqueNames=["a"])),
        [SET],
    ),
    "one of them is above the minimum": (
        of(role("a", 2, 1), role("b"), resourceSharing=shared(childCliqueNames=["a"])),
        [],
    ),
    "the pods of a role share one": (of(role("a", 2, resourceSharing=shared())), [ROLE]),
    "each pod of a role has its own": (of(role("a", 2, resourceSharing=shared("PerReplica"))), []),
    "the only pod of a role has one": (of(role("a", resourceSharing=shared()), role("b")), []),
    "a role of a group alone uses that of the set": (
        of(*THREE, groups=group(), resourceSharing=shared(childCliqueNames=["b"])),
        [],
    ),
    "in two replicas of the base gang": (
        of(*THREE, groups=group(2), resourceSharing=shared(childCliqueNames=["b"])),
        [SET],
    ),
    "a whole group uses that of the set": (
        of(*THREE, groups=group(), resourceSharing=shared(childScalingGroupNames=["g"])),
        [SET],
    ),
    "roles of a group share that of their replica": (
        of(*THREE, groups=group(resourceSharing=shared("PerReplica"))),
        [GROUP],
    ),
    "each replica of a group has its own": (
        of(*THREE, groups=group(2, resourceSharing=shared("PerReplica", childCliqueNames=["b"]))),
        [],
    ),
    "replicas of a group in the base gang share one": (
        of(*THREE, groups=group(2, resourceSharing=shared(childCliqueNames=["b"]))),
        [GROUP],
    ),
    "replicas of a group in gangs of their own share one": (
        of(*THREE, groups=group(resourceSharing=shared(childCliqueNames=["b"]))),
        [],
    ),
}


@pytest.mark.parametrize(("cliqueset", "want"), CASES.values(), ids=CASES)
def test_on_1_35_a_set_is_refused_by_field_if_pods_of_a_gang_share_a_claim(
    cliqueset: PodCliqueSet, want: Sequence[str]
) -> None:
    assert [error.field for error in BACKEND.validate(cliqueset, on(clusters.V135))] == list(want)
    assert BACKEND.validate(cliqueset, on(clusters.V136)) == []
    assert BACKEND.validate(cliqueset, on(clusters.BARE)) == []


#: Where two pods of one role share a claim, and nobody else: they are one PodGroup.
WITHIN_A_ROLE = ("two pods of a role use it", "the pods of a role share one")


@pytest.mark.parametrize("case", CASES)
def test_below_a_composite_a_set_is_refused_by_field_if_roles_of_a_gang_share_a_claim(case: str) -> None:
    cliqueset, want = CASES[case]
    said = [error.field for error in BACKEND.validate(cliqueset, on(clusters.V137))]
    assert said == ([] if case in WITHIN_A_ROLE else list(want))
    assert BACKEND.validate(cliqueset, on(clusters.V137, mode="Merged")) == []
    assert BACKEND.validate(cliqueset, on(clusters.V137, mode="Flat")) == []


def test_podgroups_that_are_placed_one_by_one_may_share_a_claim() -> None:
    flat = on(clusters.V135, mode="Flat")
    assert BACKEND.validate(of(*TWO, resourceSharing=shared()), flat) == []
    both = of(role("a", 2), role("b"), resourceSharing=shared())
    assert [error.field for error in BACKEND.validate(both, flat)] == [SET]


def test_the_refusal_says_what_cannot_be_and_the_ways_out() -> None:
    [error] = BACKEND.validate(of(*TWO, resourceSharing=shared()), on(clusters.V135))
    assert "2 pods of a gang would share a claim of 'gpu'" in error.message
    assert "Kubernetes 1.35" in error.message
    assert "use Kubernetes 1.36 or newer or another scheduler backend" in error.message
    [error] = BACKEND.validate(of(*TWO, resourceSharing=shared()), on(clusters.V137))
    assert "2 roles of a gang would share a claim of 'gpu'" in error.message
    assert "Kubernetes 1.37" in error.message
    assert "set mode: Merged in the configuration of the profile" in error.message
