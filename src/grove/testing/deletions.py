"""Which pods the operator deletes although they run and are up to date, and what it recycles too early.

A pod that runs is deleted only where its template changed, where it is too much, where a clique of its
replica was below its minimum for too long, where its gang was never placed as a whole, or where its gang,
clique, group or set goes. For a changed template no more may go at once than the set allows (`takedowns`).
The operator decides by what its watches have shown it. So a reason counts that there was at any time within
the `lag` of those watches.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import msgspec

from grove.api import conditions, durations, kinds, labels
from grove.api.cliqueset import PodCliqueTemplate
from grove.embedded.cluster import EmbeddedCluster
from grove.embedded.requests import Logged
from grove.embedded.storage.store import Event
from grove.meta import Manifest, Resource
from grove.plan.hashing import template_hash
from grove.plan.termination import DEFAULT_DELAY
from grove.testing.headcount import Headcount, Place, is_going, is_ready, runs
from grove.testing.takedowns import Takedowns
from grove.testing.timelines import Past

#: After so many seconds the operator has noticed that a watch stands still, and has listed again.
LONGEST_LAG: Final = 150.0
#: How late it is at most while nothing disturbs its watches.
PROMPT: Final = 1.0
_KINDS: Final = {
    (each.gvk.group, each.plural): each
    for each in (kinds.CLIQUESETS, kinds.SCALING_GROUPS, kinds.CLIQUES, kinds.GANGS)
}
_COUNTED: Final = (kinds.CLIQUES, kinds.SCALING_GROUPS)
_PODS: Final = ("", "pods")
_EVENTS: Final = ("", "events")
#: What the operator says when it has recycled a part of a set.
_RECYCLED: Final = ("PodCliqueSetReplicaDeleteSuccessful", "PodCliqueScalingGroupReplicaDeleteSuccessful")


@dataclass(frozen=True, slots=True)
class _Suspect:
    """A pod that was just deleted: what is wrong with that, and what it means, if the operator did it."""

    complaints: tuple[str, ...] = ()
    taking: Callable[[], None] = lambda: None


@dataclass
class Deletions:
    """Watches a cluster and writes down which pods the operator deletes without a reason."""

    cluster: EmbeddedCluster
    operator: str
    broken: list[str]
    #: How many seconds the operator may see the world later than it is.
    lag: float = LONGEST_LAG
    #: How the owners of pods were.
    past: Past = field(default_factory=Past)
    headcount: Headcount = field(default_factory=Headcount)
    takedowns: Takedowns = field(init=False)
    #: Since when a start of a gang has been known as placed, by namespace, gang and revision.
    _placed: dict[tuple[str, str, str], datetime] = field(default_factory=dict)
    #: By path, pods that are just deleted.
    _suspects: dict[str, _Suspect] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.takedowns = Takedowns(self.past, self.headcount)
        self.cluster.store.listeners.append(self._changed)
        self.cluster.requests.listeners.append(self._answered)

    @property
    def _now(self) -> datetime:
        return self.cluster.clock.now()

    @property
    def _since(self) -> datetime:
        """What was so at any time since then, the operator may still think so."""
        return self._now - timedelta(seconds=self.lag)

    def _changed(self, table: tuple[str, str], event: Event) -> None:
        gone, obj = event.type == "DELETED", event.entry.obj
        if (kind := _KINDS.get(table)) is not None:
            self.past.note(self._now, kind, obj, gone=gone)
            self._owner(kind, event, gone=gone)
        elif table == _PODS:
            # Judged by how it was before.
            if event.previous is not None and _goes(event) and _is_ours(event.previous.obj):
                self._judge(event.previous.obj)
            self.headcount.pod(self._now, obj, gone=gone)
            self._note_placed(obj)
        elif table == _EVENTS and not gone and obj.get("reason") in _RECYCLED:
            about, told = obj["involvedObject"], obj.get("lastTimestamp")
            # News may come late; times have whole seconds.
            at = datetime.fromisoformat(told) + timedelta(seconds=1) if told else self._now
            if not self._overdue(about["namespace"], about["name"], at=at):
                self.broken.append(f"recycled before its delay was over: {obj['message']}")

    def _owner(self, kind: Resource, event: Event, *, gone: bool) -> None:
        obj = event.entry.obj
        if kind in _COUNTED:
            self.headcount.owner(self._now, kind, obj, gone=gone)
        elif kind == kinds.CLIQUESETS and gone:
            self.takedowns.forget(obj["metadata"]["namespace"], obj["metadata"]["name"])
        elif kind == kinds.CLIQUESETS:
            before = event.previous.obj if event.previous is not None else None
            self.broken += self.takedowns.granted(before, obj, self._since)
        elif not gone and _is_placed(obj) and not (event.previous and _is_placed(event.previous.obj)):
            for pod in self.cluster.api.all_of("", "pods"):
                self._note_placed(pod, obj)

    def _note_placed(self, pod: Manifest, gang: Manifest | None = None) -> None:
        """Remember from when on a pod belongs to a start of its gang that was placed as a whole."""
        metadata = pod["metadata"]
        name = metadata.get("labels", {}).get(labels.POD_GANG)
        if name is None or not runs(pod) or is_going(pod):
            return
        group, namespace = kinds.GANGS.gvk.group, metadata["namespace"]
        gang = gang or self.cluster.api.find(group, "podgangs", namespace, name)
        if gang is None or not _is_placed(gang) or _called(gang) != (namespace, name):
            return
        self._placed.setdefault(_start(pod), self._now)

    def _judge(self, pod: Manifest) -> None:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        suspect = _Suspect()
        if runs(pod) and not any(self._reasons(pod)):
            place = Place.of(pod)
            if not self._is_outdated(pod):
                suspect = _Suspect((self._complaint(pod, place),))
            elif is_ready(pod):
                complaints = tuple(self.takedowns.complaints(place, self._since))
                suspect = _Suspect(complaints, self.takedowns.taking(place))
        self._suspects[f"/api/v1/namespaces/{namespace}/pods/{name}"] = suspect

    def _complaint(self, pod: Manifest, place: Place) -> str:
        name = pod["metadata"]["name"]
        cliques = self.headcount.cliques_of(place.namespace, place.cliqueset, str(place.replica))
        if any(self.headcount.below[key].holds for key in cliques):
            return f"the operator recycled pod {name} before the delay of its set was over"
        state = "ready" if is_ready(pod) else "running"
        return f"the operator deleted pod {name}, which was {state} and up to date"

    def _answered(self, request: Logged) -> None:
        """Whoever asked for the deletion is logged right after it, also where the answer is lost."""
        if request.verb not in ("delete", "create"):
            return
        suspect = self._suspects.pop(request.path.removesuffix("/eviction"), None)
        if suspect is not None and request.user == self.operator:
            self.broken += suspect.complaints
            suspect.taking()

    def _overdue(self, namespace: str, cliqueset: str, replica: str | None = None, *, at: datetime) -> bool:
        """Whether a clique of a set, or of a replica, was below its minimum for as long as the set allows.

        One that recovered for less than the lag may not have been seen to.
        """
        sets = self.past.since(self._since, kinds.CLIQUESETS, namespace, cliqueset)
        delay = min((_delay(state) for state in sets if state is not None), default=timedelta())
        began = (
            self.headcount.below[key].began(at, timedelta(seconds=self.lag))
            for key in self.headcount.cliques_of(namespace, cliqueset, replica)
        )
        return any(since is not None and at - since >= delay for since in began)

    def _is_outdated(self, pod: Manifest) -> bool:
        """Whether the pod was made from another template than its clique and its set had within the lag."""
        marks, namespace = pod["metadata"]["labels"], pod["metadata"]["namespace"]
        made_from = marks.get(labels.POD_TEMPLATE_HASH)
        sets = self.past.since(self._since, kinds.CLIQUESETS, namespace, marks[labels.PART_OF])
        role = Place.of(pod).role
        return self._any(
            kinds.CLIQUES,
            pod,
            labels.POD_CLIQUE,
            lambda clique: clique["metadata"]["labels"].get(labels.POD_TEMPLATE_HASH) != made_from,
        ) and any(state is None or _hash_of(state, role) != made_from for state in sets)

    def _reasons(self, pod: Manifest) -> Iterator[bool]:
        """Why it may be deleted, other templates aside."""
        marks = pod["metadata"]["labels"]
        yield self._any(
            kinds.CLIQUES,
            pod,
            labels.POD_CLIQUE,
            lambda clique: clique["spec"]["replicas"] < self.headcount.living(*_clique(pod)),
        )
        yield self._any(kinds.CLIQUESETS, pod, labels.PART_OF, _without(marks, labels.SET_REPLICA_INDEX))
        if labels.SCALING_GROUP in marks:
            without = _without(marks, labels.SCALING_GROUP_REPLICA_INDEX)
            yield self._any(kinds.SCALING_GROUPS, pod, labels.SCALING_GROUP, without)
        place = Place.of(pod)
        yield self._overdue(place.namespace, place.cliqueset, str(place.replica), at=self._now)
        # Before it was ever placed as a whole a gang gives back what it holds, and starts anew.
        placed = self._placed.get(_start(pod))
        yield placed is None or placed > self._since
        yield self._any(kinds.GANGS, pod, labels.POD_GANG, lambda gang: False)

    def _any(self, kind: Resource, pod: Manifest, label: str, holds: Callable[[Manifest], bool]) -> bool:
        """Whether something held of an owner at some time within the lag, or whether it goes or is gone."""
        metadata = pod["metadata"]
        recent = self.past.since(self._since, kind, metadata["namespace"], metadata["labels"][label])
        return not recent or any(state is None or is_going(state) or holds(state) for state in recent)


def _goes(event: Event) -> bool:
    """Whether a pod has just been deleted, at once or with time to stop."""
    if event.previous is None or is_going(event.previous.obj):
        return False
    return event.type == "DELETED" or is_going(event.entry.obj)


def _is_ours(pod: Manifest) -> bool:
    marks = pod["metadata"].get("labels", {})
    return all(label in marks for label in (labels.POD_CLIQUE, labels.PART_OF, labels.POD_GANG))


def _clique(pod: Manifest) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["labels"][labels.POD_CLIQUE]


def _start(pod: Manifest) -> tuple[str, str, str]:
    """The start of its gang that a pod was made for."""
    metadata = pod["metadata"]
    revision = (metadata.get("annotations") or {}).get(labels.GANG_REVISION, "")
    return metadata["namespace"], metadata["labels"][labels.POD_GANG], revision


def _called(obj: Manifest) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _without(marks: Manifest, index: str) -> Callable[[Manifest], bool]:
    """Whether a set or a group has too few replicas for a pod with these labels."""
    return lambda owner: bool(owner["spec"]["replicas"] <= int(marks[index]))


def _is_placed(gang: Manifest) -> bool:
    told = {each["type"]: each["status"] for each in gang.get("status", {}).get("conditions") or ()}
    return told.get(conditions.SCHEDULED) == "True"


def _hash_of(cliqueset: Manifest, name: str) -> str:
    """The hash of the pod template that a set has for a role; empty where it has no such role."""
    template = cliqueset["spec"]["template"]
    for role in template["cliques"]:
        if role["name"] == name:
            decoded = msgspec.convert(role, PodCliqueTemplate, strict=False)
            return template_hash(decoded, priority_class=template.get("priorityClassName", ""))
    return ""


def _delay(cliqueset: Manifest) -> timedelta:
    """How long a part of a set may be below its minimum."""
    said = cliqueset["spec"]["template"].get("terminationDelay")
    return durations.parse(said) if said else DEFAULT_DELAY
