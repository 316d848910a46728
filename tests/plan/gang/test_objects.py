"""Which scheduler objects of a gang are created, changed and deleted, and when they are in place."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.plan.gang.states import (
    EARLIER,
    GROUPS,
    PLAIN,
    PRESENT,
    PlainBackend,
    existing,
    gang,
    group_manifest,
    pod,
    state,
)

from grove.api import labels
from grove.api.pod import Pod
from grove.backends.base import FixedFields, GangSnapshot, Lifecycle, object_name
from grove.errors import Unsupported
from grove.meta import UntypedObject
from grove.plan.changes import Apply, Delete
from grove.plan.gang.objects import ObjectsPlan, in_place, plan_objects
from grove.plan.gang.state import Duties, OwnedObject, Translated, WantedObject

GANG = gang("a", "b")
INITIALIZED = gang("a", "b", Initialized="True")
WANTED = group_manifest(PRESENT, GANG)
NAME = f"PodGroup {WANTED['metadata']['name']}"
WAITING, HALF = [pod("a"), pod("b")], [pod("a", node="n1"), pod("b")]
STRANGER = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "x", "uid": "uid-x", "controller": True}]
PREDECESSOR = [
    {"apiVersion": "v1", "kind": "PodGang", "name": "train-0", "uid": "uid-earlier", "controller": True}
]


class Frozen(PlainBackend):
    """Its objects cannot be changed and stay while pods of the gang run."""

    replaceable = False

    def lifecycle(self, snapshot: GangSnapshot) -> Lifecycle:
        return Lifecycle(fixed={object_name(WANTED): FixedFields(("spec.minMember",), self.replaceable)})


class Replaceable(Frozen):
    replaceable = True


def other(minimum: int, **fields: Any) -> UntypedObject:
    return existing(group_manifest(PRESENT, GANG, minimum), **fields)


def created() -> Apply:
    return Apply(GROUPS, WANTED)


def updated(uid: str = "uid-object", version: str = "7") -> Apply:
    return Apply(GROUPS, WANTED, uid=uid, resource_version=version)


@dataclass(frozen=True)
class Case:
    there: UntypedObject | None
    changes: Sequence[object] = ()
    repairs: Sequence[str] = ()
    leaving: Sequence[str] = ()
    pods: Sequence[Pod] = ()
    backend: PlainBackend = PLAIN
    initialized: bool = False
    in_place: bool = True
    owned: Sequence[UntypedObject] = field(default=())


DELETED = Delete(GROUPS, existing(WANTED).key, "uid-object")
STALE = existing(group_manifest(EARLIER, GANG))

CASES = {
    "an object that is missing is created": Case(None, [created()]),
    "one that was deleted by hand is created, and said": Case(None, [created()], [NAME], initialized=True),
    "gates that are open tell that the gang was initialised": Case(
        None, [created()], [NAME], pods=[pod("a", gates=())]
    ),
    "one that is as it should be is left alone": Case(existing(WANTED)),
    "our own change is applied without a word": Case(other(1), [updated()]),
    "what somebody else edited is put back and said": Case(
        other(1, applied={"f:metadata": {}}), [updated()], [NAME]
    ),
    "one of somebody else is refused by the applier": Case(
        other(1, ownerReferences=STRANGER), [created()], in_place=False
    ),
    "one that is being deleted is waited for": Case(
        existing(WANTED, deletionTimestamp="2026-01-01T00:00:00Z"), leaving=[NAME], in_place=False
    ),
    "one of an earlier gang of this name is waited for": Case(
        existing(WANTED, ownerReferences=PREDECESSOR), leaving=[NAME], in_place=False
    ),
    "one that is being deleted does for a gang that runs": Case(
        existing(WANTED, deletionTimestamp="2026-01-01T00:00:00Z"), leaving=[NAME], pods=HALF
    ),
    "one that a person created again is waited for": Case(existing(WANTED, applied={}), leaving=[NAME]),
    "what cannot be changed stays as it is": Case(other(1), backend=Frozen()),
    "what may be replaced is deleted, and created when it is gone": Case(
        other(1), [DELETED], backend=Replaceable(), in_place=False
    ),
    "replaced while the gang runs it is not in place either": Case(
        other(1), [DELETED], backend=Replaceable(), pods=HALF, in_place=False
    ),
    "objects of an earlier start go": Case(
        existing(WANTED), [Delete(GROUPS, STALE.key, "uid-object")], owned=[STALE]
    ),
    "but not while a pod of it is left": Case(existing(WANTED), owned=[STALE], pods=[pod("x", EARLIER)]),
    "and not twice": Case(
        existing(WANTED),
        owned=[existing(group_manifest(EARLIER, GANG), deletionTimestamp="2026-01-01T00:00:00Z")],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_objects(case: Case) -> None:
    about = state(
        INITIALIZED if case.initialized else GANG,
        case.pods,
        case.backend,
        wanted_objects=[WantedObject(WANTED, GROUPS, case.there)],
        owned=[OwnedObject(each, GROUPS) for each in case.owned],
    )
    plan = plan_objects(about)
    assert list(plan.changes) == list(case.changes)
    assert (list(plan.repairs), list(plan.leaving)) == (list(case.repairs), list(case.leaving))
    assert in_place(about, plan) == case.in_place


def test_a_gang_that_cannot_be_translated_has_no_objects_and_says_why() -> None:
    failure = Unsupported("no")
    plan = plan_objects(
        state(GANG, translated=Translated(failure=failure), owned=[OwnedObject(STALE, GROUPS)])
    )
    assert plan == ObjectsPlan(failure=failure)


def test_an_object_that_another_process_has_yet_to_write_is_not_in_place() -> None:
    wanted = [WantedObject(WANTED, GROUPS)]
    assert not in_place(state(GANG, wanted_objects=wanted, duties=Duties(objects=False)), ObjectsPlan())
    assert in_place(state(GANG, wanted_objects=wanted), ObjectsPlan())


def test_a_field_that_an_earlier_translation_had_is_taken_back() -> None:
    had = {**group_manifest(PRESENT, GANG), "spec": {"minMember": 2, "queue": "x"}}
    there = existing(had, applied={"f:spec": {"f:minMember": {}, "f:queue": {}}})
    plan = plan_objects(state(GANG, wanted_objects=[WantedObject(WANTED, GROUPS, there)]))
    assert (plan.changes, plan.repairs) == ((updated(),), ())


def test_an_object_without_an_owner_is_ours_if_we_applied_it() -> None:
    applied = existing(group_manifest(PRESENT, GANG, 1), ownerReferences=[])
    found = plan_objects(state(GANG, wanted_objects=[WantedObject(WANTED, GROUPS, applied)]))
    assert found.changes == (updated(),)
    assert labels.MANAGER in applied.applied
