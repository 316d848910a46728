"""Volcano's scheduler (1.14, and as far as PodGroups go, older ones): PodGroups, queues and HyperNodes.

Schedules pods of `volcano` that name a PodGroup of their namespace; a gang is placed whole or not at all by
what its PodGroup demands, which by Volcano's defaults is nothing. A wrong name of a queue or a tier is passed
over in silence, conditions are never taken back, and pods that request nothing count as placed. It never
preempts, reclaims or evicts, counts no quotas, and makes no PodGroups for pods without one: those are the
declared deviations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from grove.embedded.actors.mirror import Mirrors
from grove.embedded.actors.objects import (
    Key,
    annotations_of,
    is_deleting,
    is_gated,
    key_of,
    node_of,
)
from grove.embedded.actors.schedulers import volcano_rules as rules
from grove.embedded.actors.schedulers.desk import Outcome, Refusal
from grove.embedded.actors.schedulers.gangs import Group, Verdict, attempt
from grove.embedded.actors.schedulers.placement import Trial
from grove.embedded.actors.schedulers.sessions import PodGroupScheduler, SessionOptions
from grove.embedded.actors.schedulers.shapes import PodShape
from grove.embedded.actors.schedulers.volcano_rules import CONFIG_MAPS, HYPERNODES, PODGROUPS, QUEUES
from grove.embedded.actors.schedulers.volcano_status import Secretary
from grove.embedded.actors.schedulers.volcano_topology import Map, MappedLedger, has_plugin
from grove.embedded.clock import Clock
from grove.embedded.errors import Manifest
from grove.embedded.local import ActorClient

NAME = "volcano"
CONFIGURATION = ("volcano-system", "volcano-scheduler-configmap")


@dataclass(frozen=True, slots=True)
class VolcanoOptions(SessionOptions):
    period_seconds: float = 0.2


@dataclass(slots=True)
class Decision:
    group: Manifest
    pods: Sequence[Manifest]
    outcome: Outcome = field(default_factory=Outcome)
    refusal: str = ""
    started: bool = False


class Recorder(Trial):
    """A trial that remembers where each pod would have gone, also after it was taken back."""

    def __init__(self, ledger: MappedLedger) -> None:
        super().__init__(ledger)
        self.tried: dict[Key, str] = {}

    def place(self, pod: Key, shape: PodShape, within: frozenset[str] | None = None) -> str | None:
        node = super().place(pod, shape, within)
        if node is not None:
            self.tried[pod] = node
        return node


class VolcanoScheduler(PodGroupScheduler[Key, Decision]):
    """Runs until cancelled."""

    name = NAME
    kinds = (PODGROUPS, QUEUES, HYPERNODES)

    def __init__(
        self,
        client: ActorClient,
        clock: Clock,
        *,
        mirrors: Mirrors | None = None,
        options: VolcanoOptions | None = None,
    ) -> None:
        super().__init__(client, clock, mirrors=mirrors, options=options or VolcanoOptions())
        self._ledger = MappedLedger()
        self._desk.ledger = self._ledger
        self._secretary = Secretary(client, clock, self._desk.events)
        self._remap = False

    # What wakes whom

    def _follow(self) -> None:
        self._mirrors.of(PODGROUPS).subscribe(self._group_changed)
        self._mirrors.of(QUEUES).subscribe(self._queue_changed)
        self._mirrors.of(HYPERNODES).subscribe(self._map_changed)
        self._mirrors.of(CONFIG_MAPS).subscribe(self._configuration_changed)

    def _group_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if new is not None and (old is None or old.get("spec") != new.get("spec")):
            self._activate(key_of(new))

    def _queue_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        states = [(each or {}).get("status", {}).get("state") for each in (old, new)]
        if old is None or states[0] != states[1]:
            self._reconsider()

    def _map_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if old is None or new is None or old.get("spec") != new.get("spec"):
            self._remap = True
            self._reconsider()

    def _configuration_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if key_of(new or old or {}) == CONFIGURATION:
            self._reconsider()

    def _reconsider(self) -> None:
        for key in self._mirrors.of(PODGROUPS).objects:
            self._activate(key)

    def _home(self, pod: Manifest) -> Key | None:
        # The scheduler reads this one annotation only.
        name = annotations_of(pod).get(rules.GROUP_ANNOTATION)
        return (key_of(pod)[0], name) if name else None

    # Deciding

    async def _cycle(self) -> None:
        await self._mirrors.synced(CONFIG_MAPS)
        if self._remap:
            self._remap = False
            self._ledger.remap(Map(self._mirrors.of(HYPERNODES)))
        await super()._cycle()

    def _rank(self, key: Key) -> tuple[int, str, Key]:
        group = self._mirrors.of(PODGROUPS).get(key)
        if group is None:
            return 0, "", key
        wanted = (group.get("spec") or {}).get("priorityClassName")
        # A class that does not exist is no error here: the gang has the priority of those without one.
        found = self._classes.get(("", wanted)) if wanted else None
        value = int((found or {}).get("value") or 0)
        return -value, self._starved_first(key, group), key

    def _decide(self, key: Key) -> Decision | None:
        group = self._mirrors.of(PODGROUPS).get(key)
        if group is None or is_deleting(group):
            return None
        spec = group.get("spec") or {}
        queue = self._mirrors.of(QUEUES).get(("", str(spec.get("queue") or "default")))
        if queue is None:
            # Such a gang is not even in the snapshot: nobody says anything about it.
            return None
        pods = self._pods(key)
        decision = Decision(group, pods)
        waiting = [pod for pod in pods if not node_of(pod) and not is_gated(pod)]
        is_open = (queue.get("status") or {}).get("state") == "Open"
        if waiting and is_open:
            self._park(key)
            self._place(decision, waiting)
        elif not rules.is_ready(spec, pods, frozenset(key_of(pod) for pod in pods if node_of(pod))):
            decision.refusal = rules.gang_words(spec, pods, {})
        return decision

    def _place(self, decision: Decision, waiting: Sequence[Manifest]) -> None:
        spec, pods = decision.group.get("spec") or {}, decision.pods
        shapes = {key_of(pod): self._desk.shape(self._desk.stored(pod)) for pod in pods}
        plugin = has_plugin(self._mirrors.of(CONFIG_MAPS).get(CONFIGURATION))
        if self._ledger.map.tangled and plugin and rules.asks_for_domains(spec):
            fates = {key_of(pod): rules.UNSCHEDULABLE for pod in waiting}
            decision.refusal = rules.gang_words(spec, pods, fates)
            return
        root = rules.tree(spec, pods, shapes, self._ledger.map, plugin=plugin)
        trial, verdict = self._attempt(root, spec, plugin=plugin)
        bound = {key_of(pod) for pod in pods if node_of(pod)}
        light = {key_of(pod) for pod in waiting if rules.is_best_effort(shapes[key_of(pod)])}
        good = verdict.ok and rules.is_ready(spec, pods, frozenset(bound | light | verdict.placed.keys()))
        if not good:
            trial.undo()
            self._refuse(decision, waiting, trial, verdict)
            return
        for pod in waiting:
            key = key_of(pod)
            node = verdict.placed.get(key) or (trial.place(key, shapes[key]) if key in light else None)
            if node is not None:
                decision.outcome.binds.append((pod, node))
            else:
                why = verdict.unfit.get(key) or self._ledger.diagnose(shapes[key])
                decision.outcome.refusals.append(Refusal(pod, rules.fit_words(why)))
        decision.started = bool(decision.outcome.binds)
        if not decision.outcome.refusals:
            self._parked.pop(key_of(decision.group), None)

    def _attempt(self, root: Group, spec: Manifest, *, plugin: bool) -> tuple[Recorder, Verdict]:
        """The first domain that takes the whole; the smallest are tried first."""
        trial, verdict = Recorder(self._ledger), Verdict()
        for keys in rules.gradient(spec, self._ledger.map, plugin=plugin):
            trial = Recorder(self._ledger)
            verdict = attempt(trial, replace(root, required=keys or root.required))
            if verdict.ok:
                break
        return trial, verdict

    def _refuse(
        self, decision: Decision, waiting: Sequence[Manifest], trial: Recorder, verdict: Verdict
    ) -> None:
        fates: dict[Key, str] = dict.fromkeys(trial.tried, rules.SCHEDULABLE)
        fates |= dict.fromkeys(verdict.unfit, rules.UNSCHEDULABLE)
        spec = decision.group.get("spec") or {}
        decision.refusal = rules.gang_words(spec, decision.pods, fates, _origin(verdict))
        free = map(self._ledger.free, self._ledger.nodes)
        shapes = {key_of(pod): self._desk.shape(self._desk.stored(pod)) for pod in decision.pods}
        left = rules.share_left(free, (shapes[key] for key in trial.tried))
        for pod in waiting:
            key = key_of(pod)
            if fates.get(key) == rules.UNSCHEDULABLE and not rules.has_share(shapes[key], left):
                decision.outcome.refusals.append(Refusal(pod, rules.without_count(decision.refusal)))
            else:
                decision.outcome.refusals.append(self._refusal(pod, decision, trial.tried, fates, verdict))

    def _refusal(
        self,
        pod: Manifest,
        decision: Decision,
        tried: Mapping[Key, str],
        fates: Mapping[Key, str],
        verdict: Verdict,
    ) -> Refusal:
        key = key_of(pod)
        match fates.get(key):
            case rules.UNSCHEDULABLE:
                return Refusal(pod, rules.fit_words(verdict.unfit[key]))
            case rules.SCHEDULABLE:
                return Refusal(pod, rules.could_words(key, tried[key]), rules.SCHEDULABLE)
        return Refusal(pod, rules.without_count(decision.refusal))

    # Writing

    async def _write(self, key: Key, decision: Decision) -> None:
        group = self._mirrors.of(PODGROUPS).get(key) or decision.group
        if decision.refusal:
            await self._secretary.refused(group, decision.pods, decision.refusal)
        elif decision.started:
            await self._secretary.started(group, decision.pods)
        else:
            await self._secretary.running(group, decision.pods)
        lost = await self._desk.write(decision.outcome)
        if lost or decision.started:
            self._retry(key)


def _origin(verdict: Verdict) -> str:
    """The pod that the domains had no room for, as Volcano adds it where a domain was asked for."""
    shortage = verdict.shortage
    if shortage is None or shortage.pod is None or not shortage.domain:
        return ""
    return f"{shortage.pod[1]}: In hyperNode {shortage.domain[-1]}: {rules.fit_words(shortage.diagnosis)}"
