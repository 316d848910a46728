"""Which pods leave their gate, and how."""

from dataclasses import dataclass

import pytest

from grove.api import labels
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.meta import Manifest
from grove.plan.gates import opening, releasable
from grove.testing import make

GATE = "grove.io/podgang"
CLIQUE = "train-0-worker"


def gang(listed: list[str], *, initialized: str = "True") -> PodGang:
    group = make.podgroup(CLIQUE, 1)
    group["podReferences"] = [{"namespace": "default", "name": name} for name in listed]
    manifest = make.gang_manifest("train-0", [group])
    manifest["status"] = {"conditions": [{"type": "Initialized", "status": initialized}]}
    return make.view(PodGang, manifest)


def gated(name: str, *gates: str, deleted: bool = False) -> Pod:
    return make.pod(CLIQUE, 0, name=name, gates=gates or (GATE,), deleted=deleted)


@dataclass(frozen=True)
class Case:
    pods: list[Pod]
    gang: PodGang
    want: list[str]
    objects_in_place: bool = True


CASES = {
    "a listed pod of an initialised gang is released": Case([gated("a")], gang(["a"]), ["a"]),
    "all listed pods are released together": Case([gated("a"), gated("b")], gang(["a", "b"]), ["a", "b"]),
    "a pod its gang does not list stays gated": Case([gated("a")], gang([]), []),
    "no pod leaves before the gang is Initialized": Case([gated("a")], gang(["a"], initialized="False"), []),
    "no pod leaves before the scheduler's objects are in place": Case(
        [gated("a")], gang(["a"]), [], objects_in_place=False
    ),
    "a pod that is going stays where it is": Case([gated("a", deleted=True)], gang(["a"]), []),
    "a pod without our gate is left alone": Case([gated("a", "somebody.else/gate")], gang(["a"]), []),
    "a pod taken over from the incumbent is released too": Case(
        [gated("a", labels.LEGACY_GATE)], gang(["a"]), ["a"]
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_releasable(case: Case) -> None:
    free = releasable(
        case.pods, gang=case.gang, clique=CLIQUE, gate=GATE, objects_in_place=case.objects_in_place
    )
    assert [pod.name for pod in free] == case.want


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
    pod = gated("a", *before)
    left = apply_json_patch([{"name": name} for name in before], opening(pod, GATE))
    assert [gate["name"] for gate in left] == after
