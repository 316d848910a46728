"""What is to be done about one gang: the stages in the order in which they are carried out. Pure.

The gang alone sees all of its pods, so it decides everything that concerns them together: its scheduler
objects, which pods it lists, when it is restarted, and when its gates open (decisions 0013 and 0016).
"""

from dataclasses import dataclass, field, replace

from grove.api import kinds
from grove.errors import GroveError
from grove.plan.changes import Change, Delete, JsonPatch, Patch
from grove.plan.clique_status import known_as_whole
from grove.plan.gang.objects import ObjectsPlan, plan_objects
from grove.plan.gang.opening import plan_gates
from grove.plan.gang.partial import PartialPlan, plan_partial
from grove.plan.gang.precedence import give_way
from grove.plan.gang.references import Listing, plan_listing
from grove.plan.gang.restart import Restart, restart_of, restart_patch
from grove.plan.gang.standalone import adoption_patch
from grove.plan.gang.state import GangState, Wait
from grove.plan.gang.stepping_back import step_back
from grove.plan.gang.translation import backend_failure
from grove.plan.places import until_stuck


@dataclass(frozen=True, slots=True)
class GangPlan:
    """The stages of one look at a gang. One that fails stops those after it, but for the restart.

    The status is not among them: it says what came of the others (`report_gang`). It is written after the
    pods are listed, before pods are given up and gates open.
    """

    #: Writes down which backend serves the gang; nothing else happens in the same look.
    adopt: Patch | None = None
    #: The scheduler's objects, and the pods that it must hear of before them.
    objects: ObjectsPlan = field(default_factory=ObjectsPlan)
    #: What pods of a gang of somebody else get for their scheduler, and what they lack all the same.
    prepare: tuple[Change, ...] = ()
    unready: tuple[str, ...] = ()
    #: That the gang is restarted, and the change by which it is; without one it is so later.
    restart: Restart | None = None
    unlist: Patch | None = None
    #: How the gang's pods are listed, all of which exist; None while they do not.
    listing: Listing | None = None
    #: Pods that the gang gives up because it has held a part of its nodes for too long.
    partial: PartialPlan = field(default_factory=PartialPlan)
    #: When a pod that is terminating counts as stuck.
    leaving: Wait | None = None
    #: That a gang which was preempted, or gave its places back, keeps its gates closed.
    steps_back: Wait | None = None
    gates: tuple[JsonPatch, ...] = ()
    #: Why nothing could be decided about the pods: a defect of the backend, raised once the rest is done.
    pods_failure: GroveError | None = None

    @property
    def give_up(self) -> list[Change]:
        """The deletion of the pods that the gang gives up."""
        return [Delete(kinds.PODS, pod.key, pod.uid) for pod in self.partial.give_up]

    @property
    def waits(self) -> list[Wait]:
        """When to look again although nothing changed."""
        waits = [self.partial.wait, self.steps_back, self.leaving]
        if self.restart is not None and self.unlist is None:
            waits.append(Wait(self.restart.seconds, "the gang is restarted"))
        return [wait for wait in waits if wait is not None]


def plan_gang(state: GangState) -> GangPlan:
    """Decide what happens to a gang, from its state alone."""
    if state.adoption is not None:
        return GangPlan(adopt=adoption_patch(state.gang, state.adoption))
    if state.duties.objects:
        return _with_pods(state, _plan_objects_and_listing(state))
    if state.translated.failure is not None:
        # The process that writes the objects says so in the gang's status.
        return GangPlan(objects=ObjectsPlan(failure=state.translated.failure))
    return _with_pods(state, GangPlan())


def _plan_objects_and_listing(state: GangState) -> GangPlan:
    """What the gang itself and its scheduler's objects need: the part of whoever serves its backend."""
    objects = plan_objects(state)
    restart = restart_of(
        state.gang,
        state.pods,
        state.translated.lifecycle,
        state.context,
        leaving=objects.leaving,
        strays=state.stray_pods,
        whole=_was_whole(state),
        now=state.now,
    )
    unready = tuple(problem for each in state.preparations for problem in each.problems)
    lists = restart is None and objects.failure is None and not unready
    return GangPlan(
        objects=objects,
        prepare=tuple(each.change for each in state.preparations if each.change is not None),
        unready=unready,
        restart=restart,
        unlist=restart_patch(state.gang) if restart is not None and restart.seconds <= 0 else None,
        listing=plan_listing(state) if lists else None,
        leaving=_leaving(state),
    )


def _was_whole(state: GangState) -> bool:
    """Whether every clique says that it had its minimum since the gang was started."""
    needed = [clique for clique in state.cliques if clique.spec.needed]
    return bool(needed) and all(known_as_whole(each, state.context.revision) for each in needed)


def _leaving(state: GangState) -> Wait | None:
    left = until_stuck((*state.members, *state.predecessors), state.now)
    return Wait(left, "a pod is terminating") if left is not None else None


def _with_pods(state: GangState, plan: GangPlan) -> GangPlan:
    """The plan with what happens to the gang's pods: the operator's part, whatever process serves it."""
    steps_back = step_back(state) or give_way(state)
    if not state.duties.pods:
        return replace(plan, steps_back=steps_back)
    gang = plan.listing.gang if plan.listing is not None else state.gang
    opens = plan.restart is None and steps_back is None and plan.objects.failure is None
    try:
        partial = plan_partial(state)
        opens = opens and not partial.give_up
        gates = tuple(plan_gates(state, gang, plan.objects)) if opens else ()
    except Exception as defect:
        name = state.backend.name if state.backend is not None else ""
        return replace(plan, steps_back=steps_back, pods_failure=backend_failure(name, defect))
    return replace(plan, steps_back=steps_back, partial=partial, gates=gates)
