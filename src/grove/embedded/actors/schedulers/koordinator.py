"""The Koordinator scheduler (1.8): PodGroups that are joined to gang groups, and packing by network topology.

Schedules pods of `koord-scheduler`; those without a PodGroup one by one. A pod whose gang is not complete is
refused without a word, and tried again only when a pod or a PodGroup comes, a PodGroup becomes satisfiable or
the pod's own gate opens. Once one pod gets through, its whole gang group is tried, gated pods included: they
cannot be bound, and the gang is then placed in part. The pod that fits nowhere preempts others on one node,
as kube-scheduler's plugin does it: one pod of the gang after the other. While its CRDs are not installed it
idles. It counts no quotas and writes no `scheduleStartTime`: those are the declared deviations.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from grove.embedded.actors.mirror import Mirrors
from grove.embedded.actors.objects import (
    MERGE,
    Key,
    is_deleting,
    is_gated,
    is_terminal,
    key_of,
    node_of,
    priority_of,
)
from grove.embedded.actors.schedulers.desk import Outcome, Refusal, run_all
from grove.embedded.actors.schedulers.gangs import Branch, Candidate, Keys, Leaf, Shortage, Verdict, attempt
from grove.embedded.actors.schedulers.koordinator_memory import Group, Memory
from grove.embedded.actors.schedulers.koordinator_rules import (
    NO_TOPOLOGY,
    PODGROUPS,
    TOPOLOGIES,
    TOPOLOGY_NAME,
    chain,
    gang_of,
    layers_to_try,
    next_status,
    no_domain,
    rejection,
)
from grove.embedded.actors.schedulers.native_rules import in_order
from grove.embedded.actors.schedulers.placement import Trial
from grove.embedded.actors.schedulers.preemption import evict_for_pods
from grove.embedded.actors.schedulers.sessions import RETRY_SECONDS, DecidingScheduler, SessionOptions
from grove.embedded.clock import Clock
from grove.embedded.errors import ApiError, Manifest
from grove.embedded.local import ActorClient

NAME = "koord-scheduler"

Unit = tuple[str, tuple[Key, ...]]
"""What is tried together: "group" with the PodGroups of a gang group, or "pod" with one pod."""


@dataclass(frozen=True, slots=True)
class KoordinatorOptions(SessionOptions):
    topology: bool = True
    """Runs with `--enable-network-topology-manager` and `awareNetworkTopology`; both are off by default."""
    period_seconds: float = 0.05


@dataclass(slots=True)
class Attempt:
    """One gang group that is about to be tried."""

    group: Group
    pods: list[Manifest] = field(default_factory=list)
    leaves: list[Leaf] = field(default_factory=list)
    gather: tuple[tuple[str, str], ...] | None = None

    def before(self, pod: Key | None) -> int:
        """How many pods were already waiting when this one was tried."""
        order = [candidate.key for leaf in self.leaves for candidate in leaf.pods]
        return order.index(pod) if pod in order else 0


class KoordinatorScheduler(DecidingScheduler[Unit, Outcome]):
    """Runs until cancelled."""

    name = NAME
    kinds = (PODGROUPS, TOPOLOGIES)

    def __init__(
        self,
        client: ActorClient,
        clock: Clock,
        *,
        mirrors: Mirrors | None = None,
        options: KoordinatorOptions | None = None,
    ) -> None:
        self._options = options or KoordinatorOptions()
        super().__init__(client, clock, mirrors=mirrors, options=self._options)
        self._memory = Memory()
        self._stale: dict[Key, None] = {}

    # What wakes whom

    def _follow(self) -> None:
        self._mirrors.of(PODGROUPS).subscribe(self._podgroup_changed)
        self._mirrors.of(TOPOLOGIES).subscribe(lambda old, new: self._room())

    def _podgroup_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        key = key_of(new or old or {})
        if new is None:
            self._memory.drop_podgroup(key)
            return
        if old is not None and old["metadata"]["uid"] != new["metadata"]["uid"]:
            self._memory.drop_podgroup(key)
            old = None
        # A scheduler that starts hears of PodGroups before pods, so that it knows who was placed.
        placed = old is None and any(node_of(pod) for pod in self._children(key))
        if self._memory.put_podgroup(key, new, placed=placed):
            self._knock(*(pod for pod in self._children(key) if not is_gated(pod)))
        self._outdate(key)

    def _pod_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        pod = new or old
        if pod is None or pod["spec"].get("schedulerName") != NAME:
            return
        gang = gang_of(pod)
        if gang is not None:
            self._remember(gang, pod, gone=new is None)
        if new is not None and (old is None or is_gated(old)) and not is_gated(new):
            self._knock(new)

    def _remember(self, gang: Key, pod: Manifest, *, gone: bool) -> None:
        if gone:
            self._memory.forget(gang, key_of(pod))
        elif not is_terminal(pod):
            self._memory.see(gang, key_of(pod), bound=bool(node_of(pod)))
        self._outdate(gang)

    def _outdate(self, gang: Key) -> None:
        self._stale[gang] = None
        self._wake.set()

    def _knock(self, *pods: Manifest) -> None:
        """Let the first of the pods that may into the queue, and with it its gang."""
        for pod in in_order(pods):
            if node_of(pod) or is_deleting(pod) or is_terminal(pod):
                continue
            gang = gang_of(pod)
            if gang is not None and not self._memory.passes(gang):
                continue
            spec = self._memory.spec(gang) if gang is not None else None
            if gang is None or spec is None or self._memory.satisfied(gang):
                self._activate(("pod", (key_of(pod),)))
                continue
            self._activate(("group", spec.group))
            return

    # Deciding

    async def _cycle(self) -> None:
        while self._active or self._stale:
            units = sorted(self._active, key=self._rank)
            self._active.clear()
            decided = [(unit, self._consider(unit)) for unit in units]
            await run_all(
                [
                    functools.partial(self._write, unit, outcome)
                    for unit, outcome in decided
                    if outcome is not None
                ]
            )
            stale = list(self._stale)
            self._stale.clear()
            await run_all([functools.partial(self._tell_podgroup, key) for key in stale])

    def _rank(self, unit: Unit) -> tuple[int, str, Unit]:
        pods = self._pending(unit)
        if not pods:
            return 0, "", unit
        first = in_order(pods)[0]
        return -priority_of(first), first["metadata"].get("creationTimestamp") or "", unit

    def _pending(self, unit: Unit) -> list[Manifest]:
        """The pods of a unit that have no node; of a gang group also those behind gates."""
        kind, keys = unit
        if kind == "pod":
            found = [self._desk.pods.get(keys[0])]
            return [pod for pod in found if pod is not None and self._waits(pod) and not is_gated(pod)]
        return [pod for key in keys for pod in self._children(key) if self._waits(pod)]

    def _waits(self, pod: Manifest) -> bool:
        taken = node_of(pod) or self._desk.ledger.node_for(key_of(pod))
        return not taken and not is_deleting(pod) and not is_terminal(pod)

    def _children(self, gang: Key) -> list[Manifest]:
        found = (self._desk.pods.get(key) for key in self._memory.children(gang))
        return in_order(pod for pod in found if pod is not None)

    def _decide(self, unit: Unit) -> Outcome | None:
        outcome = self._alone(unit) if unit[0] == "pod" else self._together(unit[1])
        if outcome is not None and outcome.refusals:
            self._park(unit)
        return outcome

    def _alone(self, unit: Unit) -> Outcome | None:
        outcome = Outcome()
        for pod in self._pending(unit):
            shape = self._desk.shape(pod)
            node = Trial(self._desk.ledger).place(key_of(pod), shape)
            if node is not None:
                outcome.binds.append((pod, node))
            else:
                evict_for_pods(self._desk, outcome, [pod])
                outcome.refusals.append(Refusal(pod, self._desk.ledger.diagnose(shape).text))
        return outcome

    def _together(self, group: Group) -> Outcome | None:
        if not self._memory.complete(group[0]):
            return None
        trying = self._attempt(group)
        if not any(not is_gated(pod) for pod in trying.pods):
            return None
        if trying.gather is None:
            verdict = attempt(Trial(self._desk.ledger), Branch("", tuple(trying.leaves), len(trying.leaves)))
            return self._outcome(trying, verdict)
        return self._packed(trying, trying.gather)

    def _attempt(self, group: Group) -> Attempt:
        """The pods in the order in which they are handed out: all of a gang before the next.

        The group is satisfied when its last gang is, so of the others every pod is tried, those above the
        minimum too, and any that fits nowhere rejects them all.
        """
        trying = Attempt(group)
        members = list(self._memory.members(group))
        for position, (key, spec, _) in enumerate(members):
            if self._memory.satisfied(key):
                # Placed with another group, before this one was named: it is asked no more.
                continue
            pods = [pod for pod in self._children(key) if self._waits(pod)]
            placed = tuple(node_of(pod) for pod in self._children(key) if node_of(pod))
            counted = placed if spec.policy == "waiting-and-running" else ()
            needed = max(0, spec.minimum - len(counted))
            tried = needed if position == len(members) - 1 else len(pods)
            trying.pods += pods
            trying.gather = trying.gather or spec.gather
            shapes = tuple(Candidate(key_of(pod), self._desk.shape(pod)) for pod in pods[:tried])
            trying.leaves.append(Leaf("/".join(key), shapes, tried))
        return trying

    def _packed(self, trying: Attempt, gather: Sequence[tuple[str, str]]) -> Outcome:
        topology = self._mirrors.of(TOPOLOGIES).get(("", TOPOLOGY_NAME))
        tree = chain(topology) if self._options.topology else None
        if tree is None:
            return self._refused(trying, NO_TOPOLOGY)
        tried, must = layers_to_try(gather, tree)
        branch = Branch("", tuple(trying.leaves), len(trying.leaves))
        options: list[tuple[str, Keys]] = [*tried, *([] if must else [("", ())])]
        verdict = Verdict()
        for _, keys in options:
            verdict = attempt(Trial(self._desk.ledger), replace(branch, required=keys))
            if verdict.ok:
                return self._outcome(trying, verdict)
        if must:
            layer = options[-1][0] if options else ""
            wanted = sum(len(leaf.pods) for leaf in trying.leaves)
            return self._refused(trying, no_domain(wanted, layer, verdict.shortage, self._nodes_say(trying)))
        return self._outcome(trying, verdict)

    def _nodes_say(self, trying: Attempt) -> str:
        first = next((pod for leaf in trying.leaves for pod in leaf.pods), None)
        return self._desk.ledger.overfull(first.shape).text if first is not None else ""

    def _outcome(self, trying: Attempt, verdict: Verdict) -> Outcome:
        if verdict.shortage is not None:
            return self._rejected(trying, verdict.shortage)
        by_key = {key_of(pod): pod for pod in trying.pods}
        return Outcome(binds=[(by_key[key], node) for key, node in verdict.placed.items()])

    def _rejected(self, trying: Attempt, shortage: Shortage) -> Outcome:
        trigger = shortage.pod or key_of(trying.pods[0])
        why = shortage.diagnosis.text if shortage.diagnosis else ""
        words = rejection(trying.group, trigger, why, trying.before(trigger))
        outcome = self._refused(trying, words)
        outcome.refusals = [
            replace(each, message=why) if key_of(each.pod) == trigger else each for each in outcome.refusals
        ]
        self._preempt(trying, trigger, outcome)
        return outcome

    def _preempt(self, trying: Attempt, trigger: Key, outcome: Outcome) -> None:
        """Make room for the pod that found none, beside those that found a node before it."""
        order = [candidate.key for leaf in trying.leaves for candidate in leaf.pods]
        by_key = {key_of(pod): pod for pod in trying.pods}
        if trigger in order and not is_gated(by_key[trigger]):
            until = order[: order.index(trigger) + 1]
            evict_for_pods(self._desk, outcome, [by_key[key] for key in until])

    def _refused(self, trying: Attempt, words: str) -> Outcome:
        return Outcome(refusals=[Refusal(pod, words) for pod in trying.pods if not is_gated(pod)])

    # Writing

    async def _write(self, unit: Unit, outcome: Outcome) -> None:
        lost = await self._desk.write(outcome)
        if lost:
            self._later(unit, RETRY_SECONDS, functools.partial(self._knock_again, lost))

    def _knock_again(self, lost: Sequence[Key]) -> None:
        found = (self._desk.pods.get(key) for key in lost)
        self._knock(*(pod for pod in found if pod is not None and not is_gated(pod)))

    async def _tell_podgroup(self, key: Key) -> None:
        podgroup = self._mirrors.of(PODGROUPS).get(key) if self._installed else None
        if podgroup is None or is_deleting(podgroup):
            return
        status = next_status(podgroup, self._children(key))
        if status == (podgroup.get("status") or {}):
            return
        patch = {"metadata": {"uid": podgroup["metadata"]["uid"]}, "status": status}
        try:
            await self._client.patch(PODGROUPS.path(key), patch, content_type=MERGE)
        except (ApiError, OSError, TimeoutError):
            return
