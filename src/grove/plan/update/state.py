"""What the update of a set looks at, and how far each of its replicas is. Pure; decides nothing.

By pods where statuses may be older: a replica serves if enough of its pods are ready or have done their
work.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from grove.api import names
from grove.api.clique import PodClique, PodCliqueUpdateProgress
from grove.api.cliqueset import CurrentlyUpdating, PodCliqueSet
from grove.api.controller_revision import ControllerRevision
from grove.api.gang import PodGang
from grove.api.revision import restarts
from grove.api.scaling_group import PodCliqueScalingGroup, PodCliqueScalingGroupUpdateProgress
from grove.meta import Object
from grove.plan.availability import ReplicaCliques, said_ready
from grove.plan.layout import Layout
from grove.plan.termination import termination_delay
from grove.plan.update.groups import PodsOf
from grove.plan.update.pods import completed_pods, has_outdated, ready_pods, useful_pods
from grove.plan.update.recycled import available_since, patience, was_recycled
from grove.plan.update.revisions import (
    TemplateRevision,
    follows,
)
from grove.plan.update.surplus import (
    waits_for_room,
)


@dataclass(frozen=True)
class UpdateState:
    """A set and what of it an update looks at."""

    cliqueset: PodCliqueSet
    layout: Layout
    cliques: Mapping[str, PodClique] = field(default_factory=dict)
    gangs: Mapping[str, PodGang] = field(default_factory=dict)
    groups: Mapping[str, PodCliqueScalingGroup] = field(default_factory=dict)
    recorded: Mapping[str, ControllerRevision] = field(default_factory=dict)
    #: The gangs that have pods on nodes.
    placed: Collection[str] = ()
    pods_of: PodsOf = lambda clique: ()
    #: Whether a clique that was made by somebody else has the pod template that it should have.
    same: Callable[[PodClique], bool] = lambda clique: True
    #: Whether a clique has the pod template that it should have of this revision.
    has: Callable[[PodClique, TemplateRevision], bool] = lambda clique, revision: False
    #: What time it is; without it a replica that was recycled is no other one.
    now: datetime | None = None
    #: A clique that follows the present template, with the label of its pods where somebody edited that.
    mended: Callable[[PodClique], PodClique] = lambda clique: clique


def turns_of(cliqueset: PodCliqueSet) -> Sequence[CurrentlyUpdating]:
    progress = cliqueset.status.update_progress
    if progress is None or progress.update_ended_at is not None:
        return ()
    return progress.currently_updating


def replicas_behind(state: UpdateState, present: TemplateRevision, replicas: range) -> dict[int, str]:
    """Those of the replicas of which something does not follow the present template, and what it follows."""
    cliqueset, found = state.cliqueset, dict[int, str]()
    for child in _children(state):
        known = follows(child)
        if known == present.hash and not (isinstance(child, PodClique) and lags(state, child)):
            continue
        if known is None and _is_up_to_date(state, child):
            continue
        replica = names.set_replica(cliqueset.name, child.name)
        if replica is not None and replica in replicas and not child.terminating:
            found.setdefault(replica, _followed_by(state, replica, known))
    return found


def _children(state: UpdateState) -> Iterator[Object]:
    yield from state.gangs.values()
    yield from state.groups.values()
    yield from state.cliques.values()


def _is_up_to_date(state: UpdateState, child: Object) -> bool:
    """Whether an object that somebody else made has what it should have; only cliques have templates."""
    if not isinstance(child, PodClique):
        return True
    return state.same(child) and not lags(state, child)


def lags(state: UpdateState, clique: PodClique) -> bool:
    """Whether a clique has pods of another template; a label that is about to be put back tells of none."""
    return has_outdated(clique, state.pods_of) and has_outdated(state.mended(clique), state.pods_of)


def _followed_by(state: UpdateState, replica: int, known: str | None) -> str:
    """The hash of the template that a replica follows: its base gang says so, or else what is left of it."""
    gang = state.gangs.get(names.base_gang(state.cliqueset.name, replica))
    recorded = follows(gang) if gang is not None else None
    return recorded or known or ""


def is_placed(state: UpdateState, replica: int) -> bool:
    return names.base_gang(state.cliqueset.name, replica) in state.placed


def holds_nodes(state: UpdateState, replica: int) -> bool:
    """Whether a replica has something to lose: its base gang is placed, or was deleted while its pods run."""
    if is_placed(state, replica):
        return True
    cliques = (state.cliques.get(each.name) for each in state.layout.cliques(replica))
    return any(
        pod.bound and pod.keeps_place
        for clique in cliques
        if clique is not None
        for pod in state.pods_of(clique)
    )


def is_at_work(state: UpdateState, replica: int) -> bool:
    """Whether what an update took down of a replica is not back yet, above its minimum too."""
    name = state.cliqueset.name
    for role in state.cliqueset.template.standalone_cliques:
        clique = state.cliques.get(names.clique(name, replica, role.name))
        if clique is not None and _is_open(clique.status.update_progress):
            return True
    for group_name, _ in state.layout.groups(replica):
        group = state.groups.get(group_name)
        if group is not None and _is_open(group.status.update_progress):
            return True
    return not serves(state, replica)


def _is_open(progress: PodCliqueUpdateProgress | PodCliqueScalingGroupUpdateProgress | None) -> bool:
    return progress is not None and progress.update_ended_at is None


def serves(state: UpdateState, replica: int) -> bool:
    """Whether a replica is available by its pods, or has done its work; statuses may be written later."""
    return _available(state, replica, lambda clique: useful_pods(state.pods_of(clique)))


def _says_that_it_serves(state: UpdateState, replica: int) -> bool:
    """The same by what statuses tell; of pods that have done their work they tell nothing."""
    return _available(
        state, replica, lambda clique: said_ready(clique) + completed_pods(state.pods_of(clique))
    )


def _available(state: UpdateState, replica: int, ready: Callable[[PodClique], int]) -> bool:
    cliques = ReplicaCliques.of(list(state.layout.gangs(replica)), state.cliques)
    return cliques.available(state.layout, replica, ready)


def broken_replicas(state: UpdateState, others: Collection[int]) -> Iterator[int]:
    """Replicas that were placed and do not serve: they count against what may be down.

    One that was never placed does not: it may wait for nodes for as long as it likes.
    """
    for replica in range(state.cliqueset.spec.replicas):
        if replica in others or not (is_placed(state, replica) or _was_placed(state, replica)):
            continue
        if not _says_that_it_serves(state, replica) or not serves(state, replica):
            yield replica


def _was_placed(state: UpdateState, replica: int) -> bool:
    """Whether a replica lost all of its pods: its gang was restarted."""
    gang = state.gangs.get(names.base_gang(state.cliqueset.name, replica))
    return gang is not None and restarts(gang) > 0


def recycled_replicas(state: UpdateState) -> Mapping[int, datetime | None]:
    """The replicas that keep their turn because they were recycled in it, and until when if that is known."""
    progress, now = state.cliqueset.status.update_progress, state.now
    if now is None or progress is None:
        return {}
    delay, found = termination_delay(state.cliqueset.template), dict[int, datetime | None]()
    for turn in turns_of(state.cliqueset):
        times = [each for each in (progress.update_started_at, turn.update_started_at) if each]
        planned = (state.cliques.get(each.name) for each in state.layout.cliques(turn.replica_index))
        cliques = [each for each in planned if each is not None]
        since = max(map(datetime.fromisoformat, times)) if times else None
        if since is None or not any(
            was_recycled(each, state.pods_of(each), since, delay) for each in cliques
        ):
            continue
        serving = [each for each in cliques if ready_pods(state.pods_of(each)) >= each.spec.needed]
        if not serving and serves(state, turn.replica_index):
            # It has done its work.
            continue
        available = available_since(serving) if serves(state, turn.replica_index) else None
        until = available + patience(delay) if available is not None else None
        if until is None or until > now:
            found[turn.replica_index] = until
    return found


def is_short(state: UpdateState, replica: int) -> bool:
    """Whether something of a replica that was placed finds no room; what never was may wait for ever."""
    gangs = (state.gangs.get(each.name) for each in state.layout.gangs(replica))
    return any(
        gang is not None and (gang.name in state.placed or restarts(gang) > 0) and waits_for_room(gang)
        for gang in gangs
    )
