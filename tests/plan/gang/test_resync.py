"""How objects come back whose scheduler lost their pods when they were deleted."""

import pytest
from tests.plan.gang.states import PRESENT, existing, gang, group_manifest, pod

from grove.api import kinds, labels
from grove.backends.base import Lifecycle, Marks, object_name
from grove.meta import Manifest, UntypedObject
from grove.plan.changes import Delete, Patch
from grove.plan.gang.resync import changes, present_form

GANG = gang("a")
WANTED = group_manifest(PRESENT, GANG)
NAME = object_name(WANTED)
REMADE = {**WANTED, "spec": {"minMember": 999}}
MARKED = existing(REMADE, annotations={labels.RECREATED: "true"})
PLACED, WAITING = pod("a", node="n1"), pod("b")
NOTHING = Lifecycle()
GOES_ON, HOLDS = Lifecycle(recreated={NAME: REMADE}), Lifecycle(recreated={NAME: REMADE}, hold_back=True)

FORMS: dict[str, tuple[UntypedObject | None, Lifecycle, bool, Manifest]] = {
    "a new one of a gang that has not begun is as translated": (None, GOES_ON, False, WANTED),
    "one that comes back is as nothing can be placed under": (None, GOES_ON, True, REMADE),
    "and stays so while its scheduler has not heard of the pods": (MARKED, HOLDS, True, REMADE),
    "then it becomes what was translated": (MARKED, GOES_ON, True, WANTED),
    "one that was never gone is as translated": (existing(WANTED), HOLDS, True, WANTED),
    "a scheduler that looks itself needs none of this": (None, NOTHING, True, WANTED),
}


@pytest.mark.parametrize(("there", "lifecycle", "initialized", "want"), FORMS.values(), ids=FORMS)
def test_an_object_as_it_must_be_now(
    there: UntypedObject | None, lifecycle: Lifecycle, initialized: bool, want: Manifest
) -> None:
    assert present_form(WANTED, there, lifecycle, initialized=initialized) == want


def test_each_pod_is_changed_only_as_it_was_seen() -> None:
    lifecycle = Lifecycle(touch=((PLACED, Marks(annotations={"x": "1"})),), replace=(WAITING,))
    marks = {"metadata": {"labels": {}, "annotations": {"x": "1"}}}
    assert changes(lifecycle) == [
        Patch(kinds.PODS, PLACED.key, marks, resource_version=PLACED.metadata.resource_version),
        Delete(kinds.PODS, WAITING.key, WAITING.uid, resource_version=WAITING.metadata.resource_version),
    ]
    assert changes(NOTHING) == []
