"""Who serves in a cluster, and since when: cliques, replicas of scaling groups and of sets, by their pods.

Counts in the store and believes no status, so that one that is wrong excuses nothing.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from grove.api import kinds, labels
from grove.meta import Manifest, Resource
from grove.testing.timelines import Timelines

_FINISHED: Final = ("Failed", "Succeeded")


class Place(NamedTuple):
    """Where a pod belongs; without a group it is one of a standalone clique."""

    namespace: str
    cliqueset: str
    replica: int
    clique: str
    hostname: str
    group: str = ""
    number: int = -1

    @property
    def role(self) -> str:
        """The role of its clique; names of cliques end with it."""
        owner = f"{self.group}-{self.number}-" if self.group else f"{self.cliqueset}-{self.replica}-"
        return self.clique.removeprefix(owner)

    @classmethod
    def of(cls, pod: Manifest) -> "Place":
        marks = pod["metadata"]["labels"]
        return cls(
            pod["metadata"]["namespace"],
            marks.get(labels.PART_OF, ""),
            int(marks.get(labels.SET_REPLICA_INDEX, -1)),
            marks[labels.POD_CLIQUE],
            pod["spec"].get("hostname", ""),
            marks.get(labels.SCALING_GROUP, ""),
            int(marks.get(labels.SCALING_GROUP_REPLICA_INDEX, -1)),
        )


@dataclass
class Headcount:
    """What serves now, and what did before."""

    #: By namespace and clique whether it has fewer working pods than it needs.
    below: Timelines = field(default_factory=Timelines)
    #: By namespace, clique and hostname whether a pod is ready there.
    places: Timelines = field(default_factory=Timelines)
    #: By namespace, scaling group and number whether every clique of the group's replica has its ready pods.
    members: Timelines = field(default_factory=Timelines)
    #: By namespace, set and index whether the set's replica is available.
    replicas: Timelines = field(default_factory=Timelines)
    #: By namespace, set and index whether a pod of the replica's base gang is on a node.
    placed: Timelines = field(default_factory=Timelines)
    _pods: dict[tuple[str, str], dict[str, Manifest]] = field(default_factory=lambda: defaultdict(dict))
    _cliques: dict[tuple[str, str], Manifest] = field(default_factory=dict)
    _groups: dict[tuple[str, str], Manifest] = field(default_factory=dict)
    #: The names that cliques of a replica have or had.
    _of_replica: dict[tuple[str, str, str], dict[tuple[str, str], None]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def pod(self, at: datetime, pod: Manifest, *, gone: bool) -> None:
        """A pod was made, has changed or is gone."""
        metadata = pod["metadata"]
        clique = metadata.get("labels", {}).get(labels.POD_CLIQUE)
        if clique is None:
            return
        key = metadata["namespace"], clique
        if gone or is_going(pod):
            self._pods[key].pop(metadata["uid"], None)
        else:
            self._pods[key][metadata["uid"]] = pod
        hostname = pod["spec"].get("hostname", "")
        self.places[*key, hostname].note(at, self._is_ready_at(*key, hostname))
        self._count(at, *key, metadata["labels"])

    def owner(self, at: datetime, kind: Resource, obj: Manifest, *, gone: bool) -> None:
        """A clique or a scaling group was made, has changed or is gone."""
        metadata = obj["metadata"]
        key = metadata["namespace"], metadata["name"]
        known = self._cliques if kind == kinds.CLIQUES else self._groups
        if gone:
            known.pop(key, None)
        else:
            known[key] = obj
        marks = _labels(obj)
        if kind == kinds.CLIQUES:
            part = key[0], marks.get(labels.PART_OF, ""), marks.get(labels.SET_REPLICA_INDEX, "")
            self._of_replica[part][key] = None
            self._count(at, *key, marks)
        else:
            self._count_replica(at, key[0], marks)

    def living(self, namespace: str, clique: str) -> int:
        """How many pods a clique has that are not going."""
        return len(self._pods[namespace, clique])

    def cliques_of(self, namespace: str, cliqueset: str, index: str | None) -> list[tuple[str, str]]:
        """The cliques of a replica of a set, or of all of them, by namespace and name."""
        parts = [(namespace, cliqueset, index)] if index is not None else list(self._of_replica)
        return [
            key
            for part in parts
            if part[:2] == (namespace, cliqueset)
            for key in self._of_replica[part]
            if key in self._cliques
        ]

    def _is_ready_at(self, namespace: str, clique: str, hostname: str) -> bool:
        there = self._pods[namespace, clique].values()
        return any(is_ready(pod) for pod in there if pod["spec"].get("hostname", "") == hostname)

    def _count(self, at: datetime, namespace: str, name: str, marks: Manifest) -> None:
        clique, pods = self._cliques.get((namespace, name)), self._pods[namespace, name].values()
        below = clique is not None and sum(map(is_working, pods)) < needed(clique)
        self.below[namespace, name].note(at, below)
        if group := marks.get(labels.SCALING_GROUP):
            number = marks.get(labels.SCALING_GROUP_REPLICA_INDEX, "")
            members = [
                key for key in self._cliques_beside(namespace, marks) if self._is_member(key, group, number)
            ]
            self.members[namespace, group, number].note(at, bool(members) and all(map(self._serves, members)))
        self._count_replica(at, namespace, marks)

    def _count_replica(self, at: datetime, namespace: str, marks: Manifest) -> None:
        cliqueset, index = marks.get(labels.PART_OF, ""), marks.get(labels.SET_REPLICA_INDEX, "")
        keys = self.cliques_of(namespace, cliqueset, index)
        groups = {key: _labels(self._cliques[key]).get(labels.SCALING_GROUP) for key in keys}
        available = all(self._serves(key) for key, group in groups.items() if group is None)
        available &= all(self._group_serves(namespace, group) for group in set(groups.values()) if group)
        self.replicas[namespace, cliqueset, index].note(at, bool(keys) and available)
        base = f"{cliqueset}-{index}"
        pods = (pod for key in keys for pod in self._pods[key].values())
        placed = any(runs(pod) and _labels(pod).get(labels.POD_GANG) == base for pod in pods)
        self.placed[namespace, cliqueset, index].note(at, placed)

    def _cliques_beside(self, namespace: str, marks: Manifest) -> list[tuple[str, str]]:
        return self.cliques_of(
            namespace, marks.get(labels.PART_OF, ""), marks.get(labels.SET_REPLICA_INDEX, "")
        )

    def _is_member(self, key: tuple[str, str], group: str, number: str) -> bool:
        marks = _labels(self._cliques[key])
        here = marks.get(labels.SCALING_GROUP), marks.get(labels.SCALING_GROUP_REPLICA_INDEX)
        return here == (group, number)

    def _serves(self, key: tuple[str, str]) -> bool:
        clique = self._cliques[key]
        return not is_going(clique) and sum(map(is_ready, self._pods[key].values())) >= needed(clique)

    def _group_serves(self, namespace: str, name: str) -> bool:
        group = self._groups.get((namespace, name))
        if group is None:
            return True
        replicas = group["spec"]["replicas"]
        serving = sum(self.members[namespace, name, str(number)].holds for number in range(replicas))
        return bool(serving >= min(replicas, group["spec"].get("minAvailable", 1)))


def needed(clique: Manifest) -> int:
    """How many pods a clique cannot do without."""
    replicas = clique["spec"].get("replicas", 1)
    return int(clique["spec"].get("minAvailable", replicas)) if replicas else 0


def is_going(obj: Manifest) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def is_ready(pod: Manifest) -> bool:
    told = {each["type"]: each["status"] for each in pod["status"].get("conditions") or ()}
    return told.get("Ready") == "True"


def runs(pod: Manifest) -> bool:
    """Whether a pod is on a node and has not ended."""
    return bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") not in _FINISHED


def is_working(pod: Manifest) -> bool:
    """Whether a pod is on a node and is not broken: it may be starting, or have done its work."""
    if not pod["spec"].get("nodeName") or is_ready(pod):
        return bool(pod["spec"].get("nodeName"))
    if runs(pod) and _is_on_lost_node(pod):
        return False
    for each in pod["status"].get("containerStatuses") or ():
        ended = (each.get("lastState") or {}).get("terminated")
        if (ended is not None and ended.get("exitCode")) or (each.get("started") and not each.get("ready")):
            return False
    return bool(pod["status"].get("phase") != "Failed")


def _is_on_lost_node(pod: Manifest) -> bool:
    """Whether the node controller says that the pod is not ready: it gives no reason, as a kubelet does."""
    told = {each["type"]: each for each in pod["status"].get("conditions") or ()}
    ready, containers = told.get("Ready", {}), told.get("ContainersReady", {})
    return (ready.get("status"), containers.get("status")) == ("False", "True") and not ready.get("reason")


def _labels(obj: Manifest) -> Manifest:
    found: Manifest = obj["metadata"].get("labels", {})
    return found
