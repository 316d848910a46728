"""The stages of one look at a gang: which there are, and what keeps each from happening."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from tests.plan.gang.states import (
    GATE,
    GROUPS,
    PLAIN,
    PRESENT,
    ROLE,
    PlainBackend,
    existing,
    gang,
    group_manifest,
    pod,
    state,
)

from grove.api import kinds, labels
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import Context, GangSnapshot, Lifecycle, Marks
from grove.errors import BackendFailed, Unsupported
from grove.meta import Manifest, UntypedObject
from grove.plan.changes import Apply, Delete, Patch
from grove.plan.gang.plan import GangPlan, plan_gang
from grove.plan.gang.standalone import Adoption, PodPreparation
from grove.plan.gang.state import (
    Duties,
    GangState,
    OtherGang,
    PartialMemory,
    StepBackTime,
    Translated,
    WantedObject,
)
from grove.testing import make

A, B = pod("a"), pod("b")
NEW, LISTED = gang(), gang("a", "b", Initialized="True")
WANTED = group_manifest(PRESENT, NEW)
HERE = [WantedObject(WANTED, GROUPS, existing(WANTED))]
MISSING = [WantedObject(WANTED, GROUPS)]
GOING = [WantedObject(WANTED, GROUPS, existing(WANTED, deletionTimestamp="2026-01-01T00:00:00Z"))]
CLIQUES = [make.clique(ROLE, 2)]


def seen(
    about: PodGang, pods: Sequence[Pod], objects: Sequence[WantedObject] = HERE, **fields: Any
) -> GangState:
    return state(about, pods, **{"cliques": CLIQUES, "wanted_objects": objects, **fields})


def stages(plan: GangPlan) -> dict[str, Any]:
    """What the plan does, in order, by the names of the pods and kinds that it concerns."""
    done = {
        "adopt": plan.adopt is not None,
        "objects": [type(each).__name__ for each in plan.objects.changes],
        "prepare": len(plan.prepare),
        "unlist": plan.unlist is not None,
        "list": plan.listing is not None and plan.listing.change is not None,
        "give up": [each.name for each in plan.partial.give_up],
        "gates": [each.key.name for each in plan.gates],
    }
    return {stage: what for stage, what in done.items() if what}


@dataclass(frozen=True)
class Case:
    state: GangState
    want: dict[str, Any] = field(default_factory=dict)


PREPARED = PodPreparation(Patch(kinds.PODS, A.key, {}))
STANDALONE = gang(standalone=True)

CASES = {
    "objects come first, while pods are missing": Case(seen(NEW, [A], MISSING), {"objects": ["Apply"]}),
    "all pods exist: they are listed and their gates open": Case(
        seen(NEW, [A, B]), {"list": True, "gates": ["a", "b"]}
    ),
    "objects that are created in the same look are in place then": Case(
        seen(NEW, [A, B], MISSING), {"objects": ["Apply"], "list": True, "gates": ["a", "b"]}
    ),
    "a gang that lists its pods already only opens": Case(seen(LISTED, [A, B]), {"gates": ["a", "b"]}),
    "open gates are not opened again": Case(seen(LISTED, [pod("a", gates=()), pod("b", gates=())]), {}),
    "a clique that does not exist yet has all pods to come": Case(seen(NEW, [A, B], cliques=[]), {}),
    "a gang that cannot be translated does nothing": Case(
        seen(NEW, [A, B], [], translated=Translated(failure=Unsupported("no"))), {}
    ),
    "an object that goes restarts a gang that lists its pods": Case(
        seen(LISTED, [A, B], GOING), {"unlist": True}
    ),
    "one that has not begun waits for it, gates closed": Case(seen(NEW, [A, B], GOING), {"list": True}),
    "a gang that ran and lost all pods is restarted": Case(
        seen(gang("a", "b", Initialized="True", Scheduled="True"), []), {"unlist": True}
    ),
    "a preempted gang lists its pods and opens nothing": Case(
        seen(NEW, [A, B], step_back=StepBackTime(3, 3)), {"list": True}
    ),
    "an edit that waits for the gang to be empty comes before its pods are listed": Case(
        seen(
            make.view(
                PodGang,
                make.gang_manifest(
                    "train-0",
                    [make.podgroup(ROLE, 2)],
                    cliqueset="train",
                    annotations={labels.EDIT_PENDING: "true"},
                ),
            ),
            [A, B],
        ),
        {},
    ),
    "a gang that holds a part for too long gives it up": Case(
        seen(
            LISTED,
            [pod("a", node="n1"), pod("b", gates=())],
            partial=PartialMemory((1, PRESENT), 0.0),
            monotonic=30.0,
        ),
        {"give up": ["a"]},
    ),
    "a gang of somebody else first gets its backend": Case(
        seen(STANDALONE, [A, B], [], adoption=Adoption("plain")), {"adopt": True}
    ),
    "its pods are prepared before they are listed": Case(
        seen(STANDALONE, [A, B], preparations=[PREPARED]), {"prepare": 1, "list": True, "gates": ["a", "b"]}
    ),
    "what its pods lack keeps it from being listed": Case(
        seen(STANDALONE, [A, B], preparations=[PREPARED, PodPreparation(problems=("no gate",))]),
        {"prepare": 1},
    ),
    "the process of a backend writes no pods": Case(
        seen(NEW, [A, B], MISSING, duties=Duties(pods=False)), {"objects": ["Apply"], "list": True}
    ),
    "and the operator only pods": Case(
        seen(LISTED, [A, B], duties=Duties(objects=False)), {"gates": ["a", "b"]}
    ),
    "once that process has written the objects": Case(
        seen(LISTED, [A, B], MISSING, duties=Duties(objects=False)), {}
    ),
    "and says that the gang is initialised": Case(seen(NEW, [A, B], duties=Duties(objects=False)), {}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_stages(case: Case) -> None:
    # A gang of somebody else has no revision, and neither have its pods.
    about = case.state
    if labels.MANAGED_BY not in about.gang.labels:
        about = replace(about, context=Context())
    assert stages(plan_gang(about)) == case.want


def test_gates_of_a_gang_that_is_not_initialised_yet_open_only_once_it_says_so() -> None:
    new, listed = plan_gang(seen(NEW, [A, B])).listing, plan_gang(seen(LISTED, [A, B])).listing
    assert new is not None
    assert listed is not None
    assert (new.initializes, listed.initializes) == (True, False)


def test_a_gate_is_removed_from_the_pod_that_was_seen_and_from_no_other() -> None:
    (first, _) = plan_gang(seen(LISTED, [A, B])).gates
    assert (first.uid, first.operations) == (
        A.uid,
        (
            {"op": "test", "path": "/spec/schedulingGates/0/name", "value": GATE},
            {"op": "remove", "path": "/spec/schedulingGates/0"},
        ),
    )


def test_a_restart_that_is_due_later_keeps_the_gates_closed_and_is_looked_for() -> None:
    class Once(PlainBackend):
        def lifecycle(self, snapshot: GangSnapshot) -> Lifecycle:
            return Lifecycle(starts_once=True)

    about = make.gang_manifest("train-0", [make.podgroup(ROLE, 2)], cliqueset="train")
    group = about["spec"]["podgroups"][0]
    group["podReferences"] = [{"namespace": "default", "name": each, "uid": f"uid-{each}"} for each in "ab"]
    about["metadata"]["annotations"] = {labels.RESTARTS: "1"}
    manifest = make.pod_manifest(ROLE, 0, name="a", uid="uid-a", gates=(GATE,))
    manifest["metadata"]["creationTimestamp"] = "2026-01-01T11:59:58Z"
    plan = plan_gang(seen(make.view(PodGang, about), [make.view(Pod, manifest)], backend=Once()))
    assert stages(plan) == {}
    assert [(each.seconds, each.why) for each in plan.waits] == [(3.0, "the gang is restarted")]


def test_a_defect_in_what_is_decided_about_pods_does_not_cost_the_objects_and_the_status() -> None:
    class Defective(PlainBackend):
        def lifecycle(self, snapshot: GangSnapshot) -> Lifecycle:
            raise KeyError("held")

    stuck = PartialMemory((1, 2, PRESENT), 0.0)
    held = Translated(lifecycle=Lifecycle(reserved=1, sought=1))
    about = seen(
        NEW,
        [A],
        MISSING,
        backend=PLAIN,
        translated=held,
        partial=stuck,
        monotonic=30.0,
        others=[OtherGang(gang(name="old-0"), [])],
    )
    plan = plan_gang(replace(about, backend=Defective()))
    assert stages(plan) == {"objects": ["Apply"]}
    assert isinstance(plan.pods_failure, BackendFailed)


def test_what_a_pod_must_get_when_its_gate_opens_is_in_the_same_patch() -> None:
    class Late(PlainBackend):
        def lifecycle(self, snapshot: GangSnapshot) -> Lifecycle:
            return Lifecycle(on_opening={"a": Marks(annotations={"x": "1"})})

    first, second = plan_gang(seen(LISTED, [A, B], backend=Late())).gates
    added = {"op": "add", "path": "/metadata/annotations/x", "value": "1"}
    assert first.operations[0] == added
    assert added not in second.operations


def test_pods_are_given_up_by_their_uid() -> None:
    bound = pod("a", node="n1")
    plan = plan_gang(seen(LISTED, [bound, B], partial=PartialMemory((1, PRESENT), 0.0), monotonic=30.0))
    assert plan.give_up == [Delete(kinds.PODS, bound.key, bound.uid)]


def test_the_same_view_leads_to_the_same_plan() -> None:
    about = seen(NEW, [A, B], MISSING)
    assert plan_gang(about) == plan_gang(about)


def test_what_is_applied_is_the_translation_itself() -> None:
    there: UntypedObject | None = None
    wanted: Manifest = WANTED
    plan = plan_gang(seen(NEW, [A], [WantedObject(wanted, GROUPS, there)], backend=PLAIN))
    assert plan.objects.changes == (Apply(GROUPS, WANTED),)
