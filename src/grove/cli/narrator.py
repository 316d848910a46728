"""Tells what happens to gangs as lines with the time since the beginning, from what watches bring.

Says only what it has read: every line follows from an object as the API server sent it. Each milestone of a
gang is told once, when all of its pods have reached it. Writes nothing but its lines.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from grove.api import conditions, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import RUNNING, PodGang
from grove.api.pod import Pod
from grove.meta import Key, Object, Resource, UntypedObject, find_condition, is_true
from grove.view.reasons import waiting_for
from grove.view.world import node_view
from grove.words import counted

#: Reasons for which a gang may wait for long; the others are steps on its way.
_WORTH_TELLING: Final = (conditions.UNSCHEDULABLE, conditions.WAITING_FOR_BASE)


@dataclass(slots=True)
class Seen:
    """What has been seen of one gang so far."""

    gang: PodGang | None = None
    objects: list[str] = field(default_factory=list)
    pods: dict[str, Pod] = field(default_factory=dict)
    wanted: dict[str, int] = field(default_factory=dict)
    gates: dict[str, str] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    why: str = ""

    @property
    def expected(self) -> int:
        return sum(self.wanted.values())

    def all_cliques(self) -> bool:
        """Whether every clique that the gang lists has been seen, so that `expected` is final."""
        return self.gang is not None and all(group.name in self.wanted for group in self.gang.spec.podgroups)


class Narrator:
    """Listens to informers and tells the story."""

    def __init__(self, tell: Callable[[str, str], None], changed: Callable[[], None]) -> None:
        self._tell = tell
        self._changed = changed
        self.gangs: dict[Key, Seen] = {}
        self.cliquesets: dict[Key, PodCliqueSet] = {}
        #: Nodes that are no news.
        self.known_nodes: set[str] = set()

    # What has happened ----------------------------------------------------------------------------

    def running(self, key: Key) -> bool:
        """Whether the gang runs, as its own status says."""
        seen = self.gangs.get(key)
        return seen is not None and seen.gang is not None and seen.gang.status.phase == RUNNING

    def all_told(self, key: Key, *milestones: str) -> bool:
        """Whether the gang has reached these milestones."""
        seen = self.gangs.get(key)
        return seen is not None and seen.told.issuperset(milestones)

    def why_not(self, key: Key) -> str:
        """Why the gang is not placed, in the words of its status; empty when it did not say so."""
        seen = self.gangs.get(key)
        return seen.why if seen is not None else ""

    def refusal(self, key: Key) -> str:
        """Why a set was refused; empty when it was not."""
        cliqueset = self.cliquesets.get(key)
        told = cliqueset.status.conditions if cliqueset is not None else ()
        accepted = find_condition(told, conditions.ACCEPTED)
        return accepted.message if accepted is not None and accepted.status == "False" else ""

    def settled(self) -> bool:
        """Whether every set has all of its replicas available, or was refused."""
        return all(
            self.refusal(key) or each.status.available_replicas == each.spec.replicas
            for key, each in self.cliquesets.items()
        )

    # Listeners ------------------------------------------------------------------------------------

    def cliqueset(self, old: PodCliqueSet | None, new: PodCliqueSet | None) -> None:
        if new is not None:
            before = self.refusal(new.key)
            self.cliquesets[new.key] = new
            if (why := self.refusal(new.key)) and why != before:
                self._tell("refused", f"{new.name}: {why}")
            self._changed()

    def gang(self, old: PodGang | None, new: PodGang | None) -> None:
        if new is None:
            return
        seen = self._of(new.key)
        seen.gang = new
        if old is None:
            groups = ", ".join(f"{group.name} {group.min_replicas}" for group in new.spec.podgroups)
            backend = new.labels.get(labels.SCHEDULER_BACKEND, "")
            base = new.labels.get(labels.BASE_POD_GANG)
            after = f"; to be placed after its base gang {base}" if base else ""
            self._once(seen, "gang", f"{new.name} created for backend {backend}; needs {groups}{after}")
        if is_true(new.status.conditions, conditions.INITIALIZED):
            self._once(seen, "complete", f"{new.name}: every pod exists and is listed")
        self._verdict(seen, new)
        self._advance(seen)

    def clique(self, old: PodClique | None, new: PodClique | None) -> None:
        if new is not None:
            seen = self._of(Key(new.namespace, new.labels.get(labels.POD_GANG, "")))
            seen.wanted[new.name] = new.spec.replicas
            self._advance(seen)

    def pod(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is None:
            return
        seen = self._of(Key(pod.namespace, pod.labels.get(labels.POD_GANG, "")))
        if new is None:
            seen.pods.pop(pod.name, None)
        else:
            seen.pods[pod.name] = new
            for gate in new.spec.scheduling_gates:
                seen.gates[pod.name] = gate.name
        self._advance(seen)

    def object(self, resource: Resource, old: UntypedObject | None, new: UntypedObject | None) -> None:
        if new is None or old is not None or new.owner is None:
            return
        seen = self._of(Key(new.namespace, new.owner.name))
        seen.objects.append(new.name)
        self._tell("scheduler", f"{resource.kind} {new.name} created ({resource.api_version})")
        self._once(seen, "objects", "")

    def node(self, old: Object | None, new: UntypedObject | None) -> None:
        if new is not None and new.name not in self.known_nodes:
            self.known_nodes.add(new.name)
            self._tell("node", f"{new.name} joined with {counted(node_view(new.manifest).gpus, 'GPU')}")
        self._changed()

    # Milestones -----------------------------------------------------------------------------------

    def _advance(self, seen: Seen) -> None:
        """Tell the milestones that all pods of the gang have reached."""
        if seen.gang is not None and seen.all_cliques() and len(seen.pods) >= seen.expected > 0:
            name, pods = seen.gang.name, list(seen.pods.values())
            count = counted(len(pods), "pod")
            if len(seen.gates) >= seen.expected:
                behind = ", ".join(sorted(set(seen.gates.values())))
                self._once(seen, "gated", f"{name}: {count} created, held back by {behind}")
            if "gated" in seen.told and not any(pod.spec.scheduling_gates for pod in pods):
                self._once(seen, "released", f"{name}: gates of all {count} opened")
            if all(pod.bound for pod in pods):
                self._once(seen, "bound", f"{name}: {count} bound to {_spread(pods)}")
            if self.running(seen.gang.key) and all(pod.ready for pod in pods):
                self._once(seen, "running", f"{name}: {count} running and ready")
        self._changed()

    def _verdict(self, seen: Seen, gang: PodGang) -> None:
        waits = waiting_for(gang)
        if is_true(gang.status.conditions, conditions.SCHEDULED):
            seen.why = ""
        elif waits is not None and waits.reason in _WORTH_TELLING and waits.message != seen.why:
            seen.why = waits.message
            self._tell("why not", f"{gang.name}: {seen.why}")

    def _once(self, seen: Seen, milestone: str, text: str) -> None:
        if milestone not in seen.told:
            seen.told.add(milestone)
            if text:
                self._tell(milestone, text)
            self._changed()

    def _of(self, key: Key) -> Seen:
        return self.gangs.setdefault(key, Seen())


def _spread(pods: Iterable[Pod]) -> str:
    """`node-0 (2), node-1 (1)`."""
    counted = Counter(pod.spec.node_name for pod in pods)
    return ", ".join(f"{node} ({number})" for node, number in sorted(counted.items()))
