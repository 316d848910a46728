"""A scaling group gets what its template says, and more only while its set stays within the limit."""

from dataclasses import dataclass, field

import pytest

from grove.api import labels
from grove.api.clique import PodClique
from grove.api.kinds import SCALING_GROUPS
from grove.api.scaling_group import PodCliqueScalingGroup
from grove.plan.group_limit import grant_replicas
from grove.testing import make

#: One replica of the set has 1 + 2 x 4 pods.
SET = make.cliqueset(
    "t",
    {"fe": 1, "lead": 1, "work": 3},
    groups=[make.scaling_group("dec", ["lead", "work"], replicas=2)],
    replicas=2,
)


def group(name: str, replicas: int) -> PodCliqueScalingGroup:
    spec = {"replicas": replicas, "cliqueNames": ["lead", "work"]}
    return make.view(PodCliqueScalingGroup, make.object_manifest(SCALING_GROUPS, name, spec))


def clique(name: str, owner: str, index: int) -> PodClique:
    marks = {labels.SCALING_GROUP: owner, labels.SCALING_GROUP_REPLICA_INDEX: str(index)}
    return make.view(PodClique, make.clique_manifest(name, 1, labels=marks))


@dataclass(frozen=True)
class Case:
    asked: dict[str, int]
    most: int
    want: dict[str, int] = field(default_factory=dict)


CASES = {
    "the template's replicas are always granted": Case({"t-0-dec": 2, "t-1-dec": 2}, most=1),
    "there is room": Case({"t-0-dec": 3, "t-1-dec": 2}, most=22),
    "there is room for one of two": Case({"t-0-dec": 4}, most=22, want={"t-0-dec": 3}),
    "there is room for one group": Case({"t-0-dec": 3, "t-1-dec": 3}, most=24, want={"t-1-dec": 2}),
    "a slip of the finger": Case({"t-0-dec": 3_000_000}, most=100, want={"t-0-dec": 22}),
    "scaled down": Case({"t-0-dec": 0}, most=1),
    "of another template": Case({"t-0-enc": 900}, most=1),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_a_group_is_granted(case: Case) -> None:
    groups = {name: group(name, replicas) for name, replicas in case.asked.items()}
    granted = grant_replicas(SET, groups, {}, case.most)
    assert granted.replicas == case.want
    assert len(granted.sentences) == len(case.want)
    assert all(name in said for name, said in zip(case.want, granted.sentences, strict=True))


def test_what_exists_is_not_taken_away() -> None:
    there = {f"t-0-dec-{index}-lead": clique(f"t-0-dec-{index}-lead", "t-0-dec", index) for index in range(5)}
    granted = grant_replicas(SET, {"t-0-dec": group("t-0-dec", 9)}, there, most=18)
    assert granted.replicas == {"t-0-dec": 5}
    assert "9 replicas are asked for and 5 may exist" in granted.sentences[0]


def test_a_label_that_somebody_edited_takes_no_replica_away() -> None:
    marks = {labels.SCALING_GROUP: "t-0-dec", labels.SCALING_GROUP_REPLICA_INDEX: "x"}
    edited = make.view(PodClique, make.clique_manifest("t-0-dec-4-lead", 1, labels=marks))
    granted = grant_replicas(SET, {"t-0-dec": group("t-0-dec", 9)}, {edited.name: edited}, 1)
    assert granted.replicas == {"t-0-dec": 5}
