"""Which pods leave their gate, and how."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from grove.api import labels
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.meta import Manifest
from grove.plan.gang.gates import Opening, as_opened, is_released, opening, releasable
from grove.testing import make

GATE = "grove.io/podgang"
CLIQUE = "train-0-worker"
LEADER = "train-0-leader"
PRESENT, EARLIER = "bcdfghjklm", "nprstvwxyz"


def gang(
    listed: Sequence[str], *, minimum: int = 2, initialized: str = "True", named_only: bool = False
) -> PodGang:
    """A gang that lists these pods of one role: by UID, as we do, or by name alone, as others may."""
    group = make.podgroup(CLIQUE, minimum)
    group["podReferences"] = [
        {"namespace": "default", "name": name} | ({} if named_only else {"uid": f"uid-{name}"})
        for name in listed
    ]
    manifest = make.gang_manifest("train-0", [group])
    manifest["status"] = {"conditions": [{"type": "Initialized", "status": initialized}]}
    return make.view(PodGang, manifest)


def pod(name: str, index: int = 0, revision: str = PRESENT, clique: str = CLIQUE, **fields: object) -> Pod:
    """A gated pod unless it is on a node; it knows the revision that it was made for."""
    given: dict[str, object] = {"uid": f"uid-{name}", **fields}
    if "node" not in given:
        given.setdefault("gates", (GATE,))
    marks = {labels.GANG_REVISION: revision} if revision else {}
    return make.pod(clique, index, name=name, annotations=marks, **given)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Case:
    pods: list[Pod]
    gang: PodGang
    want: list[str]
    revision: str = PRESENT
    in_place: bool = True
    placed: bool = False


A, B, C = pod("a"), pod("b", 1), pod("c", 2)
A_PLACED, B_PLACED = pod("a", node="n1"), pod("b", 1, node="n1")

CASES = {
    "a listed pod of an initialised gang is released": Case([A], gang("a", minimum=1), ["a"]),
    "no pod leaves while its role is scaled below the minimum": Case([A], gang("a"), []),
    "one that replaces a pod of a gang that runs leaves although its role is scaled below the minimum": Case(
        [A_PLACED, B], gang("ab", minimum=3), ["b"]
    ),
    "gangs of others are whatever they list": Case([pod("a", revision="")], gang("a"), ["a"], revision=""),
    "the pods of the minimum are released together": Case([A, B], gang("ab"), ["a", "b"]),
    "no pod of the minimum leaves while one that the gang lists is missing": Case([A], gang("ab"), []),
    "no pod of the minimum leaves while one above it is missing: the gang is not what it lists": Case(
        [A, B], gang("abc"), []
    ),
    "a pod above the minimum waits for the minimum": Case([A, B, C], gang("abc"), ["a", "b"]),
    "a pod above the minimum leaves once the minimum is placed": Case(
        [A_PLACED, B_PLACED, C], gang("abc"), ["c"], placed=True
    ),
    "a pod above the minimum waits also while the minimum is placed only in part": Case(
        [A_PLACED, B, C], gang("abc"), ["b"]
    ),
    "a replacement within the minimum leaves although the pods above it are gone": Case(
        [A_PLACED, B], gang("abc"), ["b"]
    ),
    "a role without a minimum waits for the others": Case([A, B], gang("ab", minimum=0), []),
    "a role without a minimum leaves when the others are placed": Case(
        [A, B], gang("ab", minimum=0), ["a", "b"], placed=True
    ),
    "a pod whose index nobody can read is taken for one of the minimum": Case(
        [A, pod("b", labels={labels.POD_INDEX: "one"})], gang("ab"), ["a", "b"]
    ),
    "a pod its gang does not list stays gated": Case([A], gang(""), []),
    "a pod its gang does not list stays gated though the gang is placed": Case(
        [A_PLACED, pod("x", 1)], gang("a"), [], placed=True
    ),
    "a listed name with another UID stays closed": Case([pod("a", uid="uid-of-a-later-pod")], gang("a"), []),
    "a listed name with another UID keeps the others closed: the pod that is listed is gone": Case(
        [A, pod("b", 1, uid="uid-of-a-later-pod")], gang("ab"), []
    ),
    "a reference without UID, which somebody else wrote, means the pod of that name": Case(
        [A, B], gang("ab", named_only=True), ["a", "b"]
    ),
    "a pod of an earlier revision stays closed, and so do the others": Case(
        [A, pod("b", 1, EARLIER)], gang("ab"), []
    ),
    "a pod of an earlier revision stays closed though the gang is placed": Case(
        [A_PLACED, B_PLACED, pod("c", 2, EARLIER)], gang("abc"), [], placed=True
    ),
    "a pod on a node counts whatever revision it is of": Case(
        [pod("a", node="n1", revision=EARLIER), B], gang("ab"), ["b"]
    ),
    "a pod that says no revision is not of ours": Case([pod("a", revision="")], gang("a"), []),
    "in a gang of somebody else pods need no revision": Case(
        [pod("a", revision="")], gang("a"), ["a"], revision=""
    ),
    "no pod leaves before the gang is Initialized": Case([A], gang("a", initialized="False"), []),
    "no pod leaves before the scheduler's objects are in place": Case([A], gang("a"), [], in_place=False),
    "a pod that succeeded keeps its place: the one that was lost beside it leaves": Case(
        [pod("a", node="n1", phase="Succeeded"), B], gang("ab"), ["b"]
    ),
    "a pod that failed has lost its place: the others wait for the one that replaces it": Case(
        [pod("a", node="n1", phase="Failed"), B], gang("ab"), []
    ),
    "a pod that is going stays where it is": Case([pod("a", deleted=True)], gang("a"), []),
    "a pod that is going does not count as one that is there": Case(
        [A, pod("b", 1, deleted=True)], gang("ab"), []
    ),
    "a pod without our gate is left alone": Case([pod("a", gates=("somebody.else/gate",))], gang("a"), []),
    "a pod taken over from the incumbent is released too": Case(
        [pod("a", gates=(labels.LEGACY_GATE,))], gang("a", minimum=1), ["a"]
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_releasable(case: Case) -> None:
    given = Opening(GATE, case.revision, in_place=case.in_place, placed=case.placed)
    assert [each.name for each in releasable(case.gang, case.pods, given)] == case.want


def test_the_minimum_of_every_role_opens_together_and_what_is_above_any_of_them_waits() -> None:
    groups = [make.podgroup(LEADER, 1), make.podgroup(CLIQUE, 2)]
    pods = [pod("l", clique=LEADER), pod("m", 1, clique=LEADER), A, B, C]
    for group, names in zip(groups, ("lm", "abc"), strict=True):
        group["podReferences"] = [
            {"namespace": "default", "name": each, "uid": f"uid-{each}"} for each in names
        ]
    manifest = make.gang_manifest("train-0", groups)
    manifest["status"] = {"conditions": [{"type": "Initialized", "status": "True"}]}
    both = make.view(PodGang, manifest)
    first = Opening(GATE, PRESENT, in_place=True, placed=False)
    assert [each.name for each in releasable(both, pods, first)] == ["l", "a", "b"]
    without_leader = [each for each in pods if each.name != "l"]
    assert releasable(both, without_leader, first) == []


RELEASED = {
    "the minimum is open and what is above it is gated": (
        gang("abc"),
        [pod("a", gates=()), pod("b", 1, gates=()), C],
        True,
    ),
    "a pod of the minimum is gated": (gang("ab"), [pod("a", gates=()), B], False),
    "a pod of the minimum has a gate of somebody else only": (
        gang("ab"),
        [pod("a", gates=()), pod("b", 1, gates=("somebody.else/gate",))],
        True,
    ),
    "a listed pod is gone": (gang("ab"), [pod("a", gates=())], False),
    "a listed pod is another one of its name": (
        gang("ab"),
        [pod("a", gates=()), pod("b", 1, gates=(), uid="uid-of-a-later-pod")],
        False,
    ),
    "a listed pod is going": (gang("ab"), [pod("a", gates=()), pod("b", 1, gates=(), deleted=True)], False),
    "a listed pod succeeded": (
        gang("ab"),
        [pod("a", gates=()), pod("b", 1, node="n1", phase="Succeeded")],
        True,
    ),
    "a listed pod failed": (gang("ab"), [pod("a", gates=()), pod("b", 1, node="n1", phase="Failed")], False),
    "the gang is not Initialized": (gang("a", initialized="False"), [pod("a", gates=())], False),
}


@pytest.mark.parametrize(("of", "pods", "want"), RELEASED.values(), ids=RELEASED)
def test_nothing_of_ours_keeps_a_gang_once_every_pod_of_the_minimum_is_there_and_open(
    of: PodGang, pods: list[Pod], want: bool
) -> None:
    assert is_released(of, pods, GATE) is want


def test_what_is_told_as_the_gates_open_sees_the_minimum_open_and_the_others_gated() -> None:
    told = as_opened([A, B, C], gang("abc"), GATE)
    assert [(each.name, bool(each.spec.scheduling_gates)) for each in told] == [
        ("a", False),
        ("b", False),
        ("c", True),
    ]


def apply_json_patch(gates: list[Manifest], operations: tuple[Manifest, ...]) -> list[Manifest]:
    """What a server would do with the operations that we use."""
    result = list(gates)
    for operation in operations:
        position = int(str(operation["path"]).split("/")[3])
        if operation["op"] == "test":
            assert result[position]["name"] == operation["value"]
        else:
            del result[position]
    return result


GATES = {
    "ours alone": ([GATE], []),
    "ours among others": (["a/x", GATE, "b/y"], ["a/x", "b/y"]),
    "ours and the incumbent's": ([labels.LEGACY_GATE, "a/x", GATE], ["a/x"]),
}


@pytest.mark.parametrize(("before", "after"), GATES.values(), ids=GATES)
def test_opening_removes_our_gates_and_keeps_those_of_others(before: list[str], after: list[str]) -> None:
    closed = pod("a", gates=before)
    left = apply_json_patch([{"name": name} for name in before], opening(closed, GATE))
    assert [gate["name"] for gate in left] == after
