"""How objects come back whose scheduler lost their pods when they were deleted."""

from collections.abc import Sequence

import pytest
from tests.plan.gang.views import PLAIN, PRESENT, RECALLING, PlainBackend, existing, gang, group_manifest, pod

from grove.api import kinds, labels
from grove.backends.base import Marks, Recall
from grove.meta import UntypedObject
from grove.plan.changes import Delete, Patch
from grove.plan.gang.resync import changes, present_form, recall_of

GANG = gang("a")
WANTED = group_manifest(PRESENT, GANG)
REMADE = RECALLING.made_anew(WANTED)
MARKED = existing(REMADE, annotations={labels.MADE_ANEW: "true"})
PLACED, WAITING = pod("a", node="n1", resource_version="3"), pod("b", resource_version="4")

FORMS: dict[str, tuple[PlainBackend, UntypedObject | None, Recall | None, bool, bool]] = {
    "a new one of a gang that has not begun is as translated": (RECALLING, None, None, False, False),
    "one that comes back is as nothing can be placed under": (RECALLING, None, None, True, True),
    "and stays so while its scheduler has not heard of the pods": (
        RECALLING,
        MARKED,
        Recall(True),
        True,
        True,
    ),
    "then it becomes what was translated": (RECALLING, MARKED, Recall(False), True, False),
    "one that was never gone is as translated": (RECALLING, existing(WANTED), Recall(True), True, False),
    "a scheduler that looks itself needs none of this": (PLAIN, None, None, True, False),
}


@pytest.mark.parametrize(("backend", "there", "recall", "initialized", "remade"), FORMS.values(), ids=FORMS)
def test_an_object_as_it_must_be_now(
    backend: PlainBackend, there: UntypedObject | None, recall: Recall | None, initialized: bool, remade: bool
) -> None:
    found = present_form(backend, WANTED, there, recall, initialized=initialized)
    assert found == (REMADE if remade else WANTED)


RECALLS: dict[str, tuple[PlainBackend, Sequence[UntypedObject], bool]] = {
    "an object that came back": (RECALLING, [MARKED], True),
    "none came back": (RECALLING, [existing(WANTED)], False),
    "one that came back and is going again": (
        RECALLING,
        [existing(REMADE, annotations={labels.MADE_ANEW: "true"}, deletionTimestamp="2026-01-01T00:00:00Z")],
        False,
    ),
    "a scheduler that looks itself": (PLAIN, [MARKED], False),
}


@pytest.mark.parametrize(("backend", "objects", "want"), RECALLS.values(), ids=RECALLS)
def test_what_is_left_to_do(backend: PlainBackend, objects: Sequence[UntypedObject], want: bool) -> None:
    assert (recall_of(backend, GANG, objects, [PLACED]) is not None) == want


def test_each_pod_is_changed_only_as_it_was_seen() -> None:
    recall = Recall(touched=((PLACED, Marks(annotations={"x": "1"})),), replaced=(WAITING,))
    marks = {"metadata": {"labels": {}, "annotations": {"x": "1"}}}
    assert changes(recall) == [
        Patch(kinds.PODS, PLACED.key, marks, resource_version=PLACED.metadata.resource_version),
        Delete(kinds.PODS, WAITING.key, WAITING.uid, resource_version=WAITING.metadata.resource_version),
    ]
    assert changes(None) == []
