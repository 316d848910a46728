"""Which pods the operator deletes although they serve and are up to date, and what it recycles too early.

A pod that serves is deleted only where its template changed, where it is too much, where a clique of its set
was below its minimum for too long, or where its gang, clique, group or set goes. The operator decides by what
its watches have shown it. So a reason counts that there was at any time within the `lag` of those watches.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from grove.api import conditions, durations, kinds, labels
from grove.embedded.cluster import EmbeddedCluster
from grove.embedded.requests import Logged
from grove.embedded.storage.store import Event
from grove.meta import Manifest, Resource
from grove.plan.termination import DEFAULT_DELAY

#: After so many seconds the operator has noticed that a watch stands still, and has listed again.
LONGEST_LAG: Final = 150.0
_KINDS: Final = {
    (each.gvk.group, each.plural): each
    for each in (kinds.CLIQUESETS, kinds.SCALING_GROUPS, kinds.CLIQUES, kinds.GANGS)
}
_PODS: Final = ("", "pods")
_EVENTS: Final = ("", "events")
#: What the operator says when it has recycled a part of a set.
_RECYCLED: Final = ("PodCliqueSetReplicaDeleteSuccessful", "PodCliqueScalingGroupReplicaDeleteSuccessful")


@dataclass
class Deletions:
    """Watches a cluster and writes down which pods the operator deletes without a reason."""

    cluster: EmbeddedCluster
    operator: str
    broken: list[str]
    #: How many seconds the operator may see the world later than it is.
    lag: float = LONGEST_LAG
    #: How the owners of pods were, and since when; None since they are gone.
    _past: dict[tuple[Resource, str, str], list[tuple[datetime, Manifest | None]]] = field(
        default_factory=dict
    )
    #: By path, pods that are just deleted, and what is wrong with that if the operator did it.
    _suspects: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cluster.store.listeners.append(self._changed)
        self.cluster.requests.listeners.append(self._answered)

    def _changed(self, table: tuple[str, str], event: Event) -> None:
        if (kind := _KINDS.get(table)) is not None:
            metadata = event.entry.obj["metadata"]
            state = None if event.type == "DELETED" else event.entry.obj
            past = self._past.setdefault((kind, metadata["namespace"], metadata["name"]), [])
            past.append((self.cluster.clock.now(), state))
        elif table == _PODS and event.previous is not None and _goes(event):
            pod = event.previous.obj
            if _serves(pod) and not any(self._reasons(pod)):
                name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
                complaint = f"the operator deleted pod {name}, which was ready and up to date"
                self._suspects[f"/api/v1/namespaces/{namespace}/pods/{name}"] = complaint

        elif table == _EVENTS and event.type != "DELETED" and event.entry.obj.get("reason") in _RECYCLED:
            about = event.entry.obj["involvedObject"]
            if not self._overdue(about["namespace"], about["name"]):
                self.broken.append(f"recycled before its delay was over: {event.entry.obj['message']}")

    def _overdue(self, namespace: str, cliqueset: str) -> bool:
        """Whether a clique of a set was below its minimum for as long as the set allows."""
        now, past = self.cluster.clock.now(), self._past.get((kinds.CLIQUESETS, namespace, cliqueset), [])
        delays = [_delay(state) for _, state in past if state is not None]
        breaches = (
            now - datetime.fromisoformat(each["lastTransitionTime"])
            for (kind, place, _), states in self._past.items()
            if kind is kinds.CLIQUES and place == namespace
            for _, state in states
            if state is not None and state["metadata"]["labels"].get(labels.PART_OF) == cliqueset
            for each in state.get("status", {}).get("conditions") or ()
            if each["type"] == conditions.MIN_AVAILABLE_BREACHED and each["status"] == "True"
        )
        return any(passed >= min(delays, default=timedelta()) for passed in breaches)

    def _answered(self, request: Logged) -> None:
        """Whoever asked for the deletion is logged right after it, also where the answer is lost."""
        if request.verb not in ("delete", "create"):
            return
        complaint = self._suspects.pop(request.path.removesuffix("/eviction"), None)
        if complaint is not None and request.user == self.operator:
            self.broken.append(complaint)

    def _reasons(self, pod: Manifest) -> Iterator[bool]:
        marks = pod["metadata"]["labels"]
        hash_ = marks.get(labels.POD_TEMPLATE_HASH)
        yield self._any(
            kinds.CLIQUES,
            pod,
            labels.POD_CLIQUE,
            lambda clique: (
                clique["metadata"]["labels"].get(labels.POD_TEMPLATE_HASH) != hash_
                or clique["spec"]["replicas"] < self._pods_of(pod)
            ),
        )
        yield self._any(kinds.CLIQUESETS, pod, labels.PART_OF, _without(marks, labels.SET_REPLICA_INDEX))
        if labels.SCALING_GROUP in marks:
            without = _without(marks, labels.SCALING_GROUP_REPLICA_INDEX)
            yield self._any(kinds.SCALING_GROUPS, pod, labels.SCALING_GROUP, without)
        yield self._overdue(pod["metadata"]["namespace"], marks[labels.PART_OF])
        # Without its minimum on nodes a gang gives back what it holds, and starts anew.
        yield self._any(kinds.GANGS, pod, labels.POD_GANG, lambda gang: not _is_placed(gang))

    def _any(self, kind: Resource, pod: Manifest, label: str, holds: Callable[[Manifest], bool]) -> bool:
        """Whether something held of an owner at some time within the lag, or whether it goes or is gone."""
        metadata = pod["metadata"]
        past = self._past.get((kind, metadata["namespace"], metadata["labels"][label]), [])
        since = self.cluster.clock.now() - timedelta(seconds=self.lag)
        first = max((at for at, (when, _) in enumerate(past) if when <= since), default=0)
        recent = [state for _, state in past[first:]]
        return not recent or any(
            state is None or "deletionTimestamp" in state["metadata"] or holds(state) for state in recent
        )

    def _pods_of(self, pod: Manifest) -> int:
        """How many pods its clique has that are not going, itself included."""
        clique = pod["metadata"]["labels"][labels.POD_CLIQUE]
        return sum(
            each["metadata"].get("labels", {}).get(labels.POD_CLIQUE) == clique
            and each["metadata"]["namespace"] == pod["metadata"]["namespace"]
            and (
                "deletionTimestamp" not in each["metadata"]
                or each["metadata"]["uid"] == pod["metadata"]["uid"]
            )
            for each in self.cluster.api.all_of("", "pods")
        )


def _goes(event: Event) -> bool:
    """Whether a pod has just been deleted, at once or with time to stop."""
    before = event.previous.obj["metadata"] if event.previous is not None else {}
    if "deletionTimestamp" in before:
        return False
    return event.type == "DELETED" or "deletionTimestamp" in event.entry.obj["metadata"]


def _serves(pod: Manifest) -> bool:
    told = {each["type"]: each["status"] for each in pod["status"].get("conditions") or ()}
    return told.get("Ready") == "True" and labels.POD_CLIQUE in pod["metadata"].get("labels", {})


def _without(marks: Manifest, index: str) -> Callable[[Manifest], bool]:
    """Whether a set or a group has too few replicas for a pod with these labels."""
    return lambda owner: bool(owner["spec"]["replicas"] <= int(marks[index]))


def _is_placed(gang: Manifest) -> bool:
    told = {each["type"]: each["status"] for each in gang.get("status", {}).get("conditions") or ()}
    return told.get(conditions.SCHEDULED) == "True"


def _delay(cliqueset: Manifest) -> timedelta:
    """How long a part of a set may be below its minimum."""
    said = cliqueset["spec"]["template"].get("terminationDelay")
    return durations.parse(said) if said else DEFAULT_DELAY
