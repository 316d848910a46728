"""Carries out gang termination: deletes the pods of what was below its minimum for too long.

What is recycled, and when, is decided in `plan.termination`. The cliques make the pods again, and a gang that
has lost all of its pods is restarted, so that it is placed as a whole. The cache only tells what seems to be
due: it may be old, and nothing is deleted before the API server's pods have said the same.
"""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from grove.api import conditions, kinds
from grove.api.clique import PodClique
from grove.api.pod import Pod
from grove.controllers import events
from grove.controllers.apply import WriteBarrier
from grove.controllers.dependencies import Dependencies
from grove.controllers.members import PODS_BY_OWNER
from grove.meta import Condition, Key
from grove.plan.changes import Delete
from grove.plan.children import CliqueSetState
from grove.plan.clique_status import is_breached
from grove.plan.conditions import timestamp
from grove.plan.termination import Termination, termination_delay, terminations
from grove.runtime.outcome import DONE, After, Outcome, soonest
from grove.words import counted

#: How long to wait for the cache where the API server says that what seems to be due has recovered.
RECOVERED_SECONDS: Final = 15.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Part:
    """A replica of a scaling group that was recycled: its cliques, and the UIDs of the pods that went."""

    cliques: tuple[str, ...]
    pods: frozenset[str]


@dataclass
class Recycling:
    """Which parts of sets are recycled, and when."""

    deps: Dependencies
    #: By set, what was recycled at which deadline: once, whatever the clock of the API server says.
    _done: dict[Key, set[tuple[str, str]]] = field(default_factory=dict)
    #: By set, the replicas of scaling groups that were recycled alone and not whole since. Their gang runs
    #: on, so that nothing else tells that they begin anew.
    _alone: dict[Key, dict[str, _Part]] = field(default_factory=dict)

    def pending(self, seen: CliqueSetState) -> list[Termination]:
        """What of a set is recycled unless it recovers, the soonest first."""
        template = seen.cliqueset.template
        found = terminations(seen.cliques, seen.groups, seen.layout, termination_delay(template))
        done = self._done.get(seen.cliqueset.key, set())
        if done:
            self._done[seen.cliqueset.key] = done & set(map(_identity, found))
        again = self._not_whole_since(seen)
        waiting = [
            each
            for each in found
            if _identity(each) not in done
            and each.group_replica not in again
            and each.holds_nodes(self._pods_of)
        ]
        return sorted(waiting, key=lambda each: (each.due, each.subject))

    def _not_whole_since(self, seen: CliqueSetState) -> Collection[str]:
        """The replicas of scaling groups that were recycled alone and not whole since."""
        key = seen.cliqueset.key
        known = {
            name: part for name, part in self._alone.get(key, {}).items() if not self._is_whole(part, seen)
        }
        if known:
            self._alone[key] = known
        else:
            self._alone.pop(key, None)
        return known

    def _is_whole(self, part: _Part, seen: CliqueSetState) -> bool:
        """Whether every clique has its minimum again; the cache may still show the pods that were taken."""
        return all(
            (clique := seen.cliques.get(name)) is not None
            and not is_breached(clique, [pod for pod in self._pods_of(clique) if pod.uid not in part.pods])
            for name in part.cliques
        )

    def condition(self, waiting: Sequence[Termination]) -> Condition | None:
        """The countdown, as the set's status tells it: with the time at which it ends."""
        if not waiting:
            return None
        first = waiting[0]
        message = f"{first.subject} is recycled at {timestamp(first.due)} {first.unless(self._pods_of)}"
        return Condition(
            type=conditions.GANG_TERMINATION_PENDING,
            status="True",
            reason=conditions.MIN_AVAILABLE_BREACHED,
            message=f"{message}{_others(waiting)}",
        )

    async def recycle(
        self, seen: CliqueSetState, waiting: Sequence[Termination], barrier: WriteBarrier
    ) -> Outcome:
        """Delete the pods of what is due now; and when the next is."""
        key, now, recovered = seen.cliqueset.key, self.deps.clock.now(), False
        for each in waiting:
            if not each.doomed(self._pods_of, now):
                continue
            if not (pods := await self._doomed_there(key, each)):
                recovered = True
                continue
            deletions = [Delete(kinds.PODS, pod.key, pod.uid) for pod in pods]
            applied = await self.deps.applier.apply(deletions, barrier=barrier, key=key)
            applied.raise_failure()
            self._done.setdefault(key, set()).add(_identity(each))
            if each.group_replica:
                part = _Part(
                    tuple(clique.name for clique in each.cliques), frozenset(pod.uid for pod in pods)
                )
                self._alone.setdefault(key, {})[each.group_replica] = part
            log.info("gang recycled", extra={"set": str(key), "part": each.subject, "pods": len(pods)})
            self.deps.milestones.recycled()
            self.deps.recorder.send(events.recycled(seen.cliqueset, each, len(pods)))
        again = After(RECOVERED_SECONDS, "the cache does not show yet that a gang recovered")
        later = [each.due for each in waiting if each.due > now]
        if not later:
            return again if recovered else DONE
        due = After((min(later) - now).total_seconds(), "a gang is recycled unless it recovers")
        return soonest(due, again) if recovered else due

    async def _doomed_there(self, key: Key, due: Termination) -> list[Pod]:
        """The pods that are deleted as the API server has them; where it has no breach, the cache is old."""
        there = await self.deps.removal.pods_there(key, due.replica)

        def pods_of(clique: PodClique) -> list[Pod]:
            return there.get(clique.uid, [])

        if due.holds_nodes(pods_of) and (pods := due.doomed(pods_of, self.deps.clock.now())):
            return pods
        if (informer := self.deps.cache.informer(kinds.PODS)) is not None:
            informer.doubt()
        return []

    def forget(self, key: Key) -> None:
        """The set is gone."""
        self._done.pop(key, None)
        self._alone.pop(key, None)

    def _pods_of(self, clique: PodClique) -> list[Pod]:
        return list(self.deps.cache.store(Pod).index(PODS_BY_OWNER, clique.uid))


def _others(waiting: Sequence[Termination]) -> str:
    """How many parts are recycled besides the first, and when."""
    first, *others = (timestamp(each.due) for each in waiting)
    together = others.count(first)
    numbers = (together, "at the same time"), (len(others) - together, "later")
    words = [f"{counted(number, 'other part')} {when}" for number, when in numbers if number]
    return f"; and {' and '.join(words)}" if words else ""


def _identity(termination: Termination) -> tuple[str, str]:
    return termination.subject, timestamp(termination.due)
