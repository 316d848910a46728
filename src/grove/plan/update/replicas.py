"""The update of a set: which replica has its turn, and which template each replica follows. Pure.

A replica follows the set's present template, or the one that it followed before until it has its turn. Whose
turn it is stands in the set's status before a child of the replica is changed. Replicas of which nothing is
on a node lose nothing and follow at once. Of the others as many have their turn as `maxUnavailable` allows,
those first that do not serve anyway; a turn is over when all pods of the replica follow and it is available
again, for a while if it was recycled meanwhile. With `maxSurge` further replicas exist meanwhile, on the
present template; one that does not serve takes a later one too, in a turn of its own.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import takewhile

from grove.api import names
from grove.api.controller_revision import ControllerRevision
from grove.plan.layout import PlannedClique
from grove.plan.update.budget import budget_of
from grove.plan.update.ending import any_uncounted
from grove.plan.update.groups import has_turn, may_restart
from grove.plan.update.revisions import (
    TemplateRevision,
    follows,
    is_named_for,
    present_revision,
    recorded_revision,
)
from grove.plan.update.state import (
    UpdateState,
    broken_replicas,
    holds_nodes,
    is_at_work,
    is_placed,
    is_short,
    recycled_replicas,
    replicas_behind,
    serves,
    turns_of,
)
from grove.plan.update.surplus import (
    NO_SURPLUS,
    Surplus,
    surplus_allowed,
    surplus_kept,
    surplus_needed,
)


@dataclass(frozen=True)
class SetUpdate:
    """Which template the replicas of a set follow."""

    present: TemplateRevision
    state: UpdateState | None = None
    #: The replicas that stay with an earlier template for now, and its hash; empty for one that is unknown.
    staying: Mapping[int, str] = field(default_factory=dict)
    #: The replicas of which something does not follow the present template yet.
    behind: frozenset[int] = frozenset()
    #: The replicas that have their turn, in the order in which they got it.
    turns: tuple[int, ...] = ()
    #: Those of them that got it just now: nothing of them is taken down before the status says so.
    new_turns: tuple[int, ...] = ()
    #: The replicas beyond those that the set asks for.
    surplus: Surplus = NO_SURPLUS
    #: The replicas that must serve before a further one gets its turn, although some are behind.
    waits_for: Sequence[int] = ()
    #: The replicas that were recycled in their turn, and when those may end that are available.
    recycled: Mapping[int, datetime | None] = field(default_factory=dict)
    #: Whether all follow, which the statuses of cliques do not say yet.
    settling: bool = False

    @property
    def finished(self) -> bool:
        return not self.behind and not self.turns and not self.settling

    @property
    def surge(self) -> int:
        """How many replicas there are beyond those that the set asks for."""
        return self.surplus.count

    @property
    def crowding(self) -> list[int]:
        """The surplus replicas that hold room while one that has its turn finds none; none while some go."""
        state = self.state
        if state is None or not self.surplus.short:
            return []
        first, name = state.cliqueset.spec.replicas, state.cliqueset.name
        if names.base_gang(name, first + self.surge) in state.gangs:
            return []
        return [each for each in range(first, first + self.surge) if is_placed(state, each)]

    @property
    def again(self) -> float | None:
        """In how many seconds the turn of a replica may end that was recycled, unless something changes."""
        now = self.state.now if self.state is not None else None
        ends = [each for each in self.recycled.values() if each is not None]
        return max(0.0, (min(ends) - now).total_seconds()) if now is not None and ends else None

    @property
    def record(self) -> str:
        """The name of the record of the present template."""
        assert self.state is not None
        return names.template_revision(self.state.cliqueset.name, self.present.hash)

    @property
    def is_recorded(self) -> bool:
        """Whether the present template is recorded; until then nothing may follow it."""
        return self.state is not None and self.record in self.state.recorded

    def revision(self, replica: int) -> TemplateRevision | None:
        """What a replica is built from; None for one that stays with a template which nobody recorded."""
        known = self.staying.get(replica)
        return self.present if known is None else self.known(known)

    def known(self, hash_: str) -> TemplateRevision | None:
        """The template with this hash, if it is recorded."""
        if hash_ == self.present.hash:
            return self.present
        if hash_ not in self._known:
            self._known[hash_] = self._recorded(hash_)
        return self._known[hash_]

    def _recorded(self, hash_: str) -> TemplateRevision | None:
        """The recorded template with this hash; None where the record holds another."""
        state = self.state
        record = self._record(hash_)
        if state is None or record is None:
            return None
        found = recorded_revision(state.cliqueset, record, hash_)
        if found is None:
            return None
        priority = state.cliqueset.template.priority_class_name
        if is_named_for(record, hash_, priority_class=priority) or _is_followed(state, found):
            return found
        return None

    def _record(self, hash_: str) -> ControllerRevision | None:
        state = self.state
        return state.recorded.get(names.template_revision(state.cliqueset.name, hash_)) if state else None

    @property
    def disbelieved(self) -> list[ControllerRevision]:
        """The records that replicas follow and that do not hold the template which they are named for."""
        found = (
            self._record(each) for each in sorted(set(self.staying.values())) if self.known(each) is None
        )
        return [record for record in found if record is not None]

    @cached_property
    def _known(self) -> dict[str, TemplateRevision | None]:
        return {}

    def clique_revision(self, replica: int, clique: PlannedClique) -> TemplateRevision | None:
        """What a clique is built from; None for one that stays as it is, whatever that is."""
        wanted = self.revision(replica)
        if wanted is None or clique.group is None or self.state is None or not self.behind:
            return wanted
        if self.state.cliqueset.on_delete:
            return wanted
        return self._member_revision(clique, wanted, may=self._may_restart(replica, clique))

    def _member_revision(
        self, clique: PlannedClique, wanted: TemplateRevision, *, may: bool
    ) -> TemplateRevision | None:
        """The template of a clique in a scaling group: the replicas of the group follow one by one."""
        assert clique.group is not None
        assert self.state is not None
        siblings = [
            names.group_clique(clique.group.group, clique.group.number, role)
            for role in clique.group.config.clique_names
        ]
        there = [self.state.cliques[name] for name in siblings if name in self.state.cliques]
        living = self.state.cliques.get(clique.name)
        if not there or may:
            return wanted
        hashes = [follows(each) for each in ([living] if living is not None else there)]
        known = next((each for each in hashes if each != wanted.hash), wanted.hash)
        if known == wanted.hash:
            return wanted
        if known is None:
            return wanted if all(map(self.state.same, there)) else None
        before = self.known(known)
        roles = clique.group.config.clique_names
        if before is not None and all(
            before.pod_template(each) == wanted.pod_template(each) for each in roles
        ):
            # Nothing of its pods changes.
            return wanted
        return before

    def _may_restart(self, replica: int, clique: PlannedClique) -> bool:
        """Whether a replica of a scaling group may be taken down now."""
        assert clique.group is not None
        assert self.state is not None
        state = self.state
        group = state.groups.get(clique.group.group)
        if group is None or replica not in self.behind:
            return True
        if not state.cliqueset.update_paused and not holds_nodes(state, replica):
            return True
        if not has_turn(state.cliqueset, replica):
            return False
        number = clique.group.number
        members = [names.group_clique(group.name, number, role) for role in group.spec.clique_names]
        there = [state.cliques[name] for name in members if name in state.cliques]
        return may_restart(group, number, there, state.pods_of)


def _is_followed(state: UpdateState, revision: TemplateRevision) -> bool:
    """Whether of every role a clique that follows a record has the pod template that is recorded."""
    left = {role.name for role in state.cliqueset.template.cliques}
    for replica in range(state.cliqueset.spec.replicas):
        for planned in state.layout.cliques(replica) if left else ():
            clique = state.cliques.get(planned.name)
            if clique is None or planned.role.name not in left or follows(clique) != revision.hash:
                continue
            if not state.has(clique, revision):
                return False
            left.remove(planned.role.name)
    return not left


def plan_update(state: UpdateState) -> SetUpdate:
    """Which template each replica follows now, and which replica gets its turn next."""
    cliqueset = state.cliqueset
    present = present_revision(cliqueset, state.recorded)
    behind = replicas_behind(state, present, range(cliqueset.spec.replicas))
    turns = [each.replica_index for each in turns_of(cliqueset)]
    if cliqueset.on_delete:
        return SetUpdate(present, state, behind=frozenset(behind))
    recycled = recycled_replicas(state)
    unfinished = _unfinished(state, turns, {*behind, *recycled})
    if not behind and not unfinished:
        return _settling(state, present, turns)
    surplus = _surplus(state, unfinished, begins=is_new_template(state, present))
    unfinished = _within_budget(state, unfinished)
    waiting = {replica for replica in behind if not holds_nodes(state, replica)}
    candidates = [
        replica for replica in sorted(behind) if replica not in unfinished and replica not in waiting
    ]
    chosen, blockers = _next_turns(state, present, unfinished, candidates, surplus)
    free: set[int] = set() if cliqueset.update_paused else waiting
    staying = {
        replica: recorded
        for replica, recorded in behind.items()
        if replica not in free and replica not in unfinished and recorded != present.hash
    }
    redone = _surplus_turns(state, present, turns, surplus.count)
    return SetUpdate(
        present,
        state,
        staying,
        frozenset(behind),
        (*unfinished, *chosen, *redone),
        (*chosen, *(replica for replica in redone if replica not in turns)),
        surplus,
        blockers,
        recycled,
    )


def _unfinished(state: UpdateState, turns: Sequence[int], kept: Collection[int]) -> tuple[int, ...]:
    """The turns that are not over: of the replicas that are `kept` at it, and of those that are not back."""
    return tuple(
        replica
        for replica in dict.fromkeys(turns)
        if replica < state.cliqueset.spec.replicas and (replica in kept or is_at_work(state, replica))
    )


def _within_budget(state: UpdateState, unfinished: Sequence[int]) -> tuple[int, ...]:
    """The turns that go on, should a limit be lower now; what is down comes back with or without one."""
    allowed = max(1, sum(budget_of(state.cliqueset)))
    if len(unfinished) <= allowed:
        return tuple(unfinished)
    kept = sorted(unfinished, key=lambda replica: serves(state, replica))[:allowed]
    return tuple(replica for replica in unfinished if replica in kept)


def _surplus_turns(
    state: UpdateState, present: TemplateRevision, turns: Sequence[int], count: int
) -> list[int]:
    """The surplus replicas that do not serve and have pods of a template that was given up since."""
    if state.cliqueset.update_paused:
        return []
    first = state.cliqueset.spec.replicas
    behind = replicas_behind(state, present, range(first, first + count))
    return [replica for replica in sorted(behind) if replica in turns or not serves(state, replica)]


def _settling(state: UpdateState, present: TemplateRevision, turns: Sequence[int]) -> SetUpdate:
    """Everything follows: the update is over, unless the set could not yet count all of its replicas."""
    cliqueset = state.cliqueset
    progress = cliqueset.status.update_progress
    is_open = progress is not None and progress.update_ended_at is None
    if not is_open and not is_new_template(state, present):
        return SetUpdate(present, state)
    replicas = cliqueset.spec.replicas
    if not any_uncounted(state.layout, replicas, state.cliques, state.pods_of):
        return SetUpdate(present, state)
    left = tuple(dict.fromkeys(turn for turn in turns if turn < replicas))
    return SetUpdate(present, state, turns=left, settling=True)


def is_new_template(state: UpdateState, present: TemplateRevision) -> bool:
    """Whether the set tells of another template than the present one, which was recorded."""
    told = state.cliqueset.status.current_generation_hash
    if told in (None, present.hash):
        return False
    return names.template_revision(state.cliqueset.name, told or "") in state.recorded


def _surplus(state: UpdateState, unfinished: Sequence[int], *, begins: bool) -> Surplus:
    """The replicas that are added; while the update is paused, those that are there stay."""
    cliqueset = state.cliqueset
    budget, first = budget_of(cliqueset), cliqueset.spec.replicas
    allowed = surplus_allowed(cliqueset, begins=begins)
    left = allowed if allowed < budget.surge else None
    if cliqueset.update_paused:
        there = (names.base_gang(cliqueset.name, first + number) in state.gangs for number in range(allowed))
        return Surplus(sum(1 for _ in takewhile(bool, there)), left)
    short = tuple(each for each in unfinished if is_short(state, each)) if allowed else ()
    if not short:
        return Surplus(allowed, left)
    down = len(unfinished) + sum(1 for _ in broken_replicas(state, unfinished))
    serving = [is_placed(state, each) and serves(state, each) for each in range(first, first + allowed)]
    kept = surplus_kept(serving, surplus_needed(budget, down))
    return Surplus(kept, kept if kept < budget.surge else None, short)


def _next_turns(
    state: UpdateState,
    present: TemplateRevision,
    unfinished: Sequence[int],
    candidates: Sequence[int],
    surplus: Surplus,
) -> tuple[list[int], Sequence[int]]:
    """The replicas that get their turn now; and if none does, those that must serve first."""
    cliqueset = state.cliqueset
    recorded = names.template_revision(cliqueset.name, present.hash) in state.recorded
    if cliqueset.update_paused or not candidates or not recorded:
        return [], unfinished
    added = range(cliqueset.spec.replicas, cliqueset.spec.replicas + surplus.count)
    idle = [replica for replica in added if not (is_placed(state, replica) and serves(state, replica))]
    # What finds no room must not become more because of what holds some.
    allowed = budget_of(cliqueset).unavailable + (0 if surplus.short else surplus.count - len(idle))
    if len(unfinished) >= allowed:
        return [], (*unfinished, *idle)
    serving = {replica for replica in candidates if serves(state, replica)}
    down = [replica for replica in candidates if replica not in serving]
    chosen = down[: allowed - len(unfinished)]
    broken = list(broken_replicas(state, {*unfinished, *candidates}))
    left = allowed - len(unfinished) - len(down) - len(broken)
    chosen += [replica for replica in candidates if replica in serving][: max(0, left)]
    return chosen, () if chosen else (*unfinished, *broken, *idle)
