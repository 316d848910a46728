"""What an update takes down at once, and whether that is more than its set allows.

Three limits are held, each by the pods themselves: a replica of a set gets its turn only while fewer others
are down than `maxUnavailable` and the surplus replicas that serve allow, and one of those only while it does
not serve; a pod that serves goes only in a
replica that has its turn; and in there one pod of a clique and one replica of a scaling group go at a time.
What is down for another reason counts once the operator must have seen it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from grove.api import kinds, labels, names
from grove.api.cliqueset import ON_DELETE
from grove.meta import Manifest
from grove.testing.headcount import Headcount, Place
from grove.testing.timelines import Past, Timeline


class Taken(NamedTuple):
    """Something that an update has taken down, until it serves again."""

    timeline: Timeline
    mark: int
    served: bool

    @classmethod
    def now(cls, timeline: Timeline) -> "Taken":
        return cls(timeline, timeline.mark, timeline.holds)

    @property
    def is_down(self) -> bool:
        return not self.timeline.held_after(self.mark)


@dataclass
class Takedowns:
    """Keeps account of what an update has taken down, and says when that is too much."""

    past: Past
    headcount: Headcount
    #: By namespace and clique, what of it is down for an update, by hostname.
    _pods: dict[tuple[str, str], dict[str, Taken]] = field(default_factory=lambda: defaultdict(dict))
    #: By namespace and scaling group, by the number of the group's replica.
    _members: dict[tuple[str, str], dict[int, Taken]] = field(default_factory=lambda: defaultdict(dict))
    #: By namespace and set, by the index of the replica.
    _replicas: dict[tuple[str, str], dict[int, Taken]] = field(default_factory=lambda: defaultdict(dict))

    def forget(self, namespace: str, cliqueset: str) -> None:
        """The set is gone, and what it took down."""
        self._replicas.pop((namespace, cliqueset), None)
        for kept in (self._pods, self._members):
            for key in [key for key in kept if key[0] == namespace and key[1].startswith(f"{cliqueset}-")]:
                del kept[key]

    # Turns ----------------------------------------------------------------------------------------

    def granted(self, before: Manifest | None, after: Manifest, since: datetime) -> Iterator[str]:
        """What is wrong with the turns that a set has just given to replicas of it."""
        namespace, name = after["metadata"]["namespace"], after["metadata"]["name"]
        turns = turns_of(after)
        added = sorted(turns - (turns_of(before) if before is not None else frozenset()))
        states = [each for each in self.past.since(since, kinds.CLIQUESETS, namespace, name) if each]
        if not added or not states:
            return
        most = max(state["spec"]["replicas"] for state in (*states, after))
        for each in (each for each in added if each >= most):
            # Others may be down because it stands in for them.
            if self._replica(namespace, name, each).held_since(since):
                yield f"surplus replica {each} of {name} got a turn although it served"
        turns = frozenset(each for each in turns if each < most)
        added = [each for each in added if each < most]
        if not added:
            return
        allowed = max(self._allowed(state, since) for state in states)
        # One that does not serve loses nothing and takes what is allowed first.
        serving = [each for each in added if self._replica(namespace, name, each).held_since(since)]
        least = min(state["spec"]["replicas"] for state in states)
        down = turns | set(self._down(namespace, name, least, since)) if serving else turns
        if len(down) > allowed:
            told = f"of {name} got a turn while {', '.join(map(str, sorted(down - set(added)))) or 'none'}"
            yield f"replica {', '.join(map(str, added))} {told} was down; {allowed} may be down at once"

    def _allowed(self, cliqueset: Manifest, since: datetime) -> int:
        unavailable, surge = limits_of(cliqueset)
        metadata, first = cliqueset["metadata"], cliqueset["spec"]["replicas"]
        surplus = range(first, first + surge)
        serving = (self._replica(metadata["namespace"], metadata["name"], each) for each in surplus)
        return unavailable + sum(not each.lacked_since(since) for each in serving)

    def _down(self, namespace: str, name: str, replicas: int, since: datetime) -> Iterator[int]:
        """The replicas that an update took down and that are not back, and those that have long been broken.

        One that was never placed waits for nodes for as long as it likes and counts for nothing.
        """
        for index in range(replicas):
            taken = self._replicas[namespace, name].get(index)
            if taken is not None and taken.is_down:
                yield index
            elif self._replica(namespace, name, index).lacked_since(since):
                placed = self.headcount.placed[namespace, name, str(index)]
                if placed.held_since(since) or self._was_restarted(namespace, name, index, since):
                    yield index

    def _was_restarted(self, namespace: str, name: str, index: int, since: datetime) -> bool:
        gangs = self.past.since(since, kinds.GANGS, namespace, names.base_gang(name, index))
        return bool(gangs) and all(
            gang is not None and int(gang["metadata"].get("annotations", {}).get(labels.RESTARTS, 0)) > 0
            for gang in gangs
        )

    def _replica(self, namespace: str, name: str, index: int) -> Timeline:
        return self.headcount.replicas[namespace, name, str(index)]

    # Pods -----------------------------------------------------------------------------------------

    def complaints(self, place: Place, since: datetime) -> Iterator[str]:
        """What is wrong with it when an update deletes the pod there, which serves."""
        namespace, name = place.namespace, place.cliqueset
        sets = self.past.since(since, kinds.CLIQUESETS, namespace, name)
        if not any(each is None or _may_take_down(each, place.replica) for each in sets):
            yield f"an update took down {place.hostname}, whose replica had no turn"
        if place.group:
            yield from self._beside_members(place, since)
        elif self.headcount.places[namespace, place.clique, place.hostname].held_since(since):
            yield from self._beside_pods(place, since)

    def _beside_members(self, place: Place, since: datetime) -> Iterator[str]:
        if not self.headcount.members[place.namespace, place.group, str(place.number)].held_since(since):
            # What does not serve is replaced at once.
            return
        states = self.past.since(since, kinds.SCALING_GROUPS, place.namespace, place.group)
        least = min((each["spec"]["replicas"] for each in states if each is not None), default=0)
        for number, taken in self._members[place.namespace, place.group].items():
            if number != place.number and number < least and taken.is_down:
                yield f"an update took down {place.hostname} while {place.group}-{number} was down"

    def _beside_pods(self, place: Place, since: datetime) -> Iterator[str]:
        states = self.past.since(since, kinds.CLIQUES, place.namespace, place.clique)
        least = min((each["spec"]["replicas"] for each in states if each is not None), default=0)
        if self.headcount.living(place.namespace, place.clique) >= least:
            # The place that was taken is not filled again, for the clique has become smaller.
            return
        for hostname, taken in self._pods[place.namespace, place.clique].items():
            if hostname != place.hostname and taken.is_down:
                yield f"an update took down {place.hostname} while {hostname} was down"

    def taking(self, place: Place) -> Callable[[], None]:
        """How to note that the pod there goes for an update, once it is known who deletes it.

        What did not serve before is not taken down by that: within a replica that has its turn it is replaced
        at once, beside what goes one after the other.
        """
        namespace, name = place.namespace, place.cliqueset
        replica = Taken.now(self._replica(namespace, name, place.replica))
        member = Taken.now(self.headcount.members[namespace, place.group, str(place.number)])
        pod = Taken.now(self.headcount.places[namespace, place.clique, place.hostname])

        def note() -> None:
            if replica.served:
                self._replicas[namespace, name][place.replica] = replica
            if place.group and member.served:
                self._members[namespace, place.group][place.number] = member
            elif not place.group:
                self._pods[namespace, place.clique][place.hostname] = pod

        return note


def turns_of(cliqueset: Manifest) -> frozenset[int]:
    """The replicas of a set that have their turn."""
    progress = cliqueset.get("status", {}).get("updateProgress")
    if not progress or progress.get("updateEndedAt"):
        return frozenset()
    return frozenset(each["replicaIndex"] for each in progress.get("currentlyUpdating") or ())


def limits_of(cliqueset: Manifest) -> tuple[int, int]:
    """How many replicas of a set may be down because of an update, and how many it may add."""
    replicas = cliqueset["spec"]["replicas"]
    said = (cliqueset["spec"].get("updateStrategy") or {}).get("rollingRecreate") or {}
    surge = min(replicas, _share(said.get("maxSurge", 0), replicas, up=True))
    unavailable = _share(said.get("maxUnavailable", 1), replicas, up=False)
    return (unavailable if unavailable or surge else 1), surge


def _share(value: int | str, replicas: int, *, up: bool) -> int:
    text = str(value)
    if not text.endswith("%"):
        return int(text)
    hundredths = int(text[:-1]) * replicas
    return -(-hundredths // 100) if up else hundredths // 100


def _may_take_down(cliqueset: Manifest, replica: int) -> bool:
    paused = cliqueset["metadata"].get("annotations", {}).get(labels.UPDATE_PAUSED) == "true"
    strategy = (cliqueset["spec"].get("updateStrategy") or {}).get("type")
    return replica in turns_of(cliqueset) and not paused and strategy != ON_DELETE
