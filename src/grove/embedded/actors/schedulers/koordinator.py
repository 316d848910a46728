"""The Koordinator scheduler (1.8): PodGroups that are joined to gang groups, and packing by network topology.

Schedules pods of `koord-scheduler`; those without a PodGroup one by one. A pod whose gang is not complete is
refused without a word, and tried again only when a pod or a PodGroup comes, a PodGroup becomes satisfiable or
the pod's own gate opens. Once one pod gets through, its whole gang group is tried, gated pods included: they
cannot be bound, and the gang is then placed in part. While its CRDs are not installed it idles. It counts no
quotas, never preempts and writes no `scheduleStartTime`: those are the declared deviations.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from grove.embedded.actors.mirror import Mirrors
from grove.embedded.actors.objects import (
    CRDS,
    MERGE,
    Key,
    condition,
    is_deleting,
    is_gated,
    is_terminal,
    key_of,
    node_of,
)
from grove.embedded.actors.schedulers.desk import Desk, Outcome, Refusal, run_all
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
from grove.embedded.actors.schedulers.native_rules import in_order, priority_of
from grove.embedded.actors.schedulers.placement import Trial
from grove.embedded.clock import Clock
from grove.embedded.errors import ApiError, Manifest
from grove.embedded.local import ActorClient

log = logging.getLogger(__name__)

NAME = "koord-scheduler"
RETRY_SECONDS = 1.0
OURS = (PODGROUPS, TOPOLOGIES)

Unit = tuple[Key, ...]
"""What is tried together: the PodGroups of a gang group, or one pod."""


@dataclass(frozen=True, slots=True)
class KoordinatorOptions:
    topology: bool = True
    """Runs with `--enable-network-topology-manager` and `awareNetworkTopology`; both are off by default."""
    tell_bound: bool = True
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


class KoordinatorScheduler:
    """Runs until cancelled."""

    def __init__(
        self,
        client: ActorClient,
        clock: Clock,
        *,
        mirrors: Mirrors | None = None,
        options: KoordinatorOptions | None = None,
    ) -> None:
        self._client = client
        self._options = options or KoordinatorOptions()
        self._own_mirrors = None if mirrors else Mirrors(client)
        self._mirrors = mirrors or self._own_mirrors or Mirrors(client)
        self._desk = Desk(
            client, clock, name=NAME, mirrors=self._mirrors, tell_bound=self._options.tell_bound
        )
        self._memory = Memory()
        self._active: dict[tuple[str, Unit], None] = {}
        self._parked: dict[tuple[str, Unit], None] = {}
        self._stale: dict[Key, None] = {}
        self._timers: dict[tuple[str, Unit], asyncio.TimerHandle] = {}
        self._installed = False
        self._wake = asyncio.Event()

    async def run(self) -> None:
        self._desk.on_pod = self._pod_changed
        self._desk.on_room = self._room
        try:
            self._mirrors.of(CRDS).subscribe(lambda old, new: self._wake.set())
            await self._desk.open()
            while True:
                await self._wake.wait()
                await asyncio.sleep(self._options.period_seconds)
                self._wake.clear()
                if self._is_installed():
                    await self._mirrors.synced(*OURS)
                    await self._cycle()
        finally:
            for timer in self._timers.values():
                timer.cancel()
            if self._own_mirrors:
                await self._own_mirrors.close()

    # What wakes whom

    def _is_installed(self) -> bool:
        if self._installed:
            return True
        crds = self._mirrors.of(CRDS)
        for resource in OURS:
            crd = crds.get(("", f"{resource.plural}.{resource.group}"))
            if crd is None or condition(crd, "Established").get("status") != "True":
                return False
        self._installed = True
        self._mirrors.of(PODGROUPS).subscribe(self._podgroup_changed)
        self._mirrors.of(TOPOLOGIES).subscribe(lambda old, new: self._room())
        return True

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

    def _activate(self, unit: tuple[str, Unit]) -> None:
        self._parked.pop(unit, None)
        self._active[unit] = None
        self._wake.set()

    def _room(self) -> None:
        for unit in list(self._parked):
            self._activate(unit)

    # Deciding

    async def _cycle(self) -> None:
        while self._active or self._stale:
            units = sorted(self._active, key=self._rank)
            self._active.clear()
            decided = [(unit, self._consider(unit)) for unit in units]
            await run_all([self._write(unit, outcome) for unit, outcome in decided if outcome is not None])
            stale = list(self._stale)
            self._stale.clear()
            await run_all([self._tell_podgroup(key) for key in stale])

    def _rank(self, unit: tuple[str, Unit]) -> tuple[int, str, tuple[str, Unit]]:
        pods = self._pending(unit)
        if not pods:
            return 0, "", unit
        first = in_order(pods)[0]
        return -priority_of(first), first["metadata"].get("creationTimestamp") or "", unit

    def _pending(self, unit: tuple[str, Unit]) -> list[Manifest]:
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

    def _consider(self, unit: tuple[str, Unit]) -> Outcome | None:
        try:
            outcome = self._alone(unit) if unit[0] == "pod" else self._together(unit[1])
        except Exception:
            # One gang that we cannot read must not stop the others.
            log.exception("cannot decide", extra={"unit": unit})
            return None
        if outcome is not None and outcome.refusals:
            self._parked[unit] = None
        return outcome

    def _alone(self, unit: tuple[str, Unit]) -> Outcome | None:
        outcome = Outcome()
        for pod in self._pending(unit):
            shape = self._desk.shape(pod)
            node = Trial(self._desk.ledger).place(key_of(pod), shape)
            if node is not None:
                outcome.binds.append((pod, node))
            else:
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
        return outcome

    def _refused(self, trying: Attempt, words: str) -> Outcome:
        return Outcome(refusals=[Refusal(pod, words) for pod in trying.pods if not is_gated(pod)])

    # Writing

    async def _write(self, unit: tuple[str, Unit], outcome: Outcome) -> None:
        lost = await self._desk.write(outcome)
        if lost and unit not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers[unit] = loop.call_later(RETRY_SECONDS, self._retry, unit, tuple(lost))

    def _retry(self, unit: tuple[str, Unit], lost: Sequence[Key]) -> None:
        self._timers.pop(unit, None)
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
