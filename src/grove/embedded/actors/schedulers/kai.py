"""The KAI scheduler (0.12 to 0.17) with its binder inside: PodGroups with subGroups, queues and topologies.

Schedules pods of `kai-scheduler` that name a PodGroup in the annotation `pod-group-name`; others it ignores
in silence. A group starts when every required leaf has its minimum and all of it fits; pods above the minimum
follow one by one. While KAI's CRDs are not installed it idles. It never preempts, reclaims, consolidates or
evicts (also not the rest of a stale gang), and it counts no queue quotas: those are the declared deviations.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grove.embedded.actors.mirror import Mirrors
from grove.embedded.actors.objects import (
    CRDS,
    MERGE,
    PRIORITY_CLASSES,
    Key,
    Resource,
    annotations_of,
    condition,
    is_deleting,
    is_gated,
    is_terminal,
    key_of,
    node_of,
)
from grove.embedded.actors.schedulers.desk import Desk, Outcome, Refusal, run_all
from grove.embedded.actors.schedulers.gangs import Verdict, attempt
from grove.embedded.actors.schedulers.kai_rules import (
    GROUP_ANNOTATION,
    POD_ERRORS,
    PODGROUPS,
    QUEUES,
    TOPOLOGIES,
    UNABLE,
    UnknownTopology,
    Verdictless,
    fit_words,
    leaf_minimums,
    members_by_subgroup,
    not_ready,
    queue_problem,
    shortage_problem,
    tree,
)
from grove.embedded.actors.schedulers.native_rules import in_order
from grove.embedded.actors.schedulers.placement import Trial
from grove.embedded.clock import Clock, rfc3339
from grove.embedded.errors import ApiError, Manifest
from grove.embedded.local import ActorClient

log = logging.getLogger(__name__)

NAME = "kai-scheduler"
LAST_START = "kai.scheduler/last-start-timestamp"
DEFAULT_PRIORITY = 50
RETRY_SECONDS = 1.0
BATCH = 64
OURS = (PODGROUPS, QUEUES, TOPOLOGIES)


@dataclass(frozen=True, slots=True)
class KaiOptions:
    keeps_conditions: bool = False
    """As 0.12 does: the unschedulable condition stays when the group runs. Later versions take it away."""
    tell_bound: bool = True
    period_seconds: float = 0.1
    """Like the real one's sessions: what happens within one period is decided together."""


@dataclass(slots=True)
class Decision:
    group: Manifest
    outcome: Outcome
    problem: Verdictless | None = None
    waiting_for: str = ""
    started: bool = False


class KaiScheduler:
    """Runs until cancelled."""

    def __init__(
        self,
        client: ActorClient,
        clock: Clock,
        *,
        mirrors: Mirrors | None = None,
        options: KaiOptions | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._options = options or KaiOptions()
        self._own_mirrors = None if mirrors else Mirrors(client)
        self._mirrors = mirrors or self._own_mirrors or Mirrors(client)
        self._desk = Desk(
            client,
            clock,
            name=NAME,
            mirrors=self._mirrors,
            tell_bound=self._options.tell_bound,
            refused="Unschedulable",
        )
        self._members: dict[str, dict[Key, None]] = {}
        self._groups: dict[str, Manifest] = {}
        self._active: dict[str, None] = {}
        self._parked: dict[str, None] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._installed = False
        self._wake = asyncio.Event()

    async def run(self) -> None:
        self._desk.on_pod = self._pod_changed
        self._desk.on_room = self._room
        try:
            self._mirrors.of(CRDS).subscribe(self._crd_changed)
            await self._desk.open()
            self._classes = self._mirrors.of(PRIORITY_CLASSES)
            while True:
                await self._wake.wait()
                await asyncio.sleep(self._options.period_seconds)
                self._wake.clear()
                if self._is_installed():
                    await self._cycle()
        finally:
            for timer in self._timers.values():
                timer.cancel()
            if self._own_mirrors:
                await self._own_mirrors.close()

    # What wakes whom

    def _crd_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        self._wake.set()

    def _is_installed(self) -> bool:
        """All of KAI's CRDs are there; from then on their objects are followed."""
        if self._installed:
            return True
        crds = self._mirrors.of(CRDS)
        for resource in OURS:
            crd = crds.get(("", f"{resource.plural}.{resource.group}"))
            if crd is None or condition(crd, "Established").get("status") != "True":
                return False
        self._installed = True
        self._mirrors.of(PODGROUPS).subscribe(self._group_changed)
        self._mirrors.of(QUEUES).subscribe(self._spec_changed)
        self._mirrors.of(TOPOLOGIES).subscribe(self._spec_changed)
        return True

    def _group_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        # Like the real one, by name alone: groups of the same name in two namespaces disturb each other.
        if new is None:
            assert old is not None
            self._groups.pop(old["metadata"]["name"], None)
            return
        name = new["metadata"]["name"]
        self._groups[name] = new
        if old is None or old.get("spec") != new.get("spec"):
            self._activate(name)

    def _spec_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if old is None or new is None or old.get("spec") != new.get("spec"):
            self._room()

    def _pod_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        for pod, is_new in ((old, False), (new, True)):
            if pod is None or pod["spec"].get("schedulerName") != NAME:
                continue
            name = annotations_of(pod).get(GROUP_ANNOTATION)
            if not name:
                continue
            members = self._members.setdefault(name, {})
            alive = is_new and not is_terminal(pod) and (bool(node_of(pod)) or not is_deleting(pod))
            if alive:
                members[key_of(pod)] = None
            else:
                members.pop(key_of(pod), None)
                if not members:
                    del self._members[name]
        if new is not None and self._is_news(old, new):
            self._activate(annotations_of(new).get(GROUP_ANNOTATION) or "")

    def _is_news(self, old: Manifest | None, new: Manifest) -> bool:
        if new["spec"].get("schedulerName") != NAME or node_of(new):
            return False
        if old is None or old["spec"] != new["spec"]:
            return True
        meta, before = new["metadata"], old["metadata"]
        return any(meta.get(part) != before.get(part) for part in ("labels", "annotations"))

    def _activate(self, name: str) -> None:
        if name:
            self._parked.pop(name, None)
            self._active[name] = None
            self._wake.set()

    def _room(self) -> None:
        for name in list(self._parked):
            self._activate(name)

    # Deciding

    async def _cycle(self) -> None:
        await self._mirrors.synced(*OURS)
        while self._active:
            order = sorted(self._active, key=self._rank)
            for start in range(0, len(order), BATCH):
                decisions = []
                for name in order[start : start + BATCH]:
                    self._active.pop(name, None)
                    decision = self._consider(name)
                    if decision is not None:
                        decisions.append(self._write(name, decision))
                await run_all(decisions)

    def _rank(self, name: str) -> tuple[int, str, str]:
        group = self._groups.get(name)
        if group is None:
            return 0, "", name
        wanted = (group.get("spec") or {}).get("priorityClassName")
        found = self._classes.get(("", wanted)) if wanted else None
        if found is None:
            found = next((c for c in self._classes if c.get("globalDefault")), None)
        value = DEFAULT_PRIORITY if found is None else int(found.get("value") or 0)
        return -value, group["metadata"].get("creationTimestamp") or "", name

    def _pods(self, name: str) -> list[Manifest]:
        found = (self._desk.pods.get(key) for key in self._members.get(name, ()))
        return [self._as_bound(pod) for pod in in_order(pod for pod in found if pod is not None)]

    def _as_bound(self, pod: Manifest) -> Manifest:
        booked = self._desk.ledger.node_for(key_of(pod))
        if booked is None or node_of(pod):
            return pod
        return {**pod, "spec": {**pod["spec"], "nodeName": booked}}

    def _consider(self, name: str) -> Decision | None:
        try:
            return self._decide(name)
        except Exception:
            # One group that we cannot read must not stop the others.
            log.exception("cannot decide", extra={"podgroup": name})
            return None

    def _decide(self, name: str) -> Decision | None:
        group = self._groups.get(name)
        if group is None or is_deleting(group):
            return None
        spec = group.get("spec") or {}
        pods = self._pods(name)
        waiting = [pod for pod in pods if not node_of(pod) and not is_gated(pod)]
        decision = Decision(group, Outcome(waits=bool(waiting)))
        if not any(not node_of(pod) for pod in pods):
            return None
        members = members_by_subgroup(pods)
        decision.waiting_for = not_ready(spec, members)
        if waiting and not decision.waiting_for:
            self._parked[name] = None
            self._place(decision, waiting, members)
        return decision

    def _place(
        self, decision: Decision, waiting: Sequence[Manifest], members: Mapping[str, Sequence[Manifest]]
    ) -> None:
        group = decision.group
        spec = group.get("spec") or {}
        strangers = self._strangers(group, waiting, members, decision)
        queues = self._by_name(QUEUES)
        decision.problem = queue_problem(str(spec.get("queue") or ""), queues)
        if decision.problem is not None:
            self._refuse_all(decision, waiting)
            return
        known = [pod for pod in waiting if key_of(pod) not in strangers]
        shapes = {key_of(pod): self._desk.shape(self._stored(pod)) for pod in known}
        try:
            root = tree(group, members, shapes=shapes, topologies=self._by_name(TOPOLOGIES))
        except UnknownTopology:
            decision.problem = Verdictless("", UNABLE)
            self._refuse_all(decision, known)
            return
        verdict = attempt(Trial(self._desk.ledger), root)
        if verdict.shortage is not None:
            decision.problem = shortage_problem(group, root, verdict.shortage)
        self._accept(decision, known, verdict)

    def _accept(self, decision: Decision, waiting: Sequence[Manifest], verdict: Verdict) -> None:
        outcome = decision.outcome
        decision.started = bool(verdict.placed)
        for pod in waiting:
            node = verdict.placed.get(key_of(pod))
            if node is not None:
                outcome.binds.append((pod, node))
            elif key_of(pod) in verdict.unfit and verdict.shortage is None:
                why = fit_words(verdict.unfit[key_of(pod)])
                text = f"Resources were not found for pod {'/'.join(key_of(pod))} due to: {why}"
                outcome.refusals.append(Refusal(pod, f"{POD_ERRORS}: {text}."))
            elif key_of(pod) in verdict.unfit:
                outcome.refusals.append(Refusal(pod, fit_words(verdict.unfit[key_of(pod)])))
            elif decision.problem is not None:
                outcome.refusals.append(Refusal(pod, decision.problem.sentence))
        if not outcome.refusals:
            self._parked.pop(decision.group["metadata"]["name"], None)

    def _strangers(
        self,
        group: Manifest,
        waiting: Sequence[Manifest],
        members: Mapping[str, Sequence[Manifest]],
        decision: Decision,
    ) -> set[Key]:
        """Pods of a subgroup that the PodGroup does not have as a leaf."""
        known = leaf_minimums(group.get("spec") or {})
        lost = {key_of(p): name for name, pods in members.items() if name not in known for p in pods}
        for pod in waiting:
            subgroup = lost.get(key_of(pod))
            if subgroup is not None:
                text = (
                    f"Pod {'/'.join(key_of(pod))} references subgroup {subgroup} "
                    f"which does not exist in PodGroup {group['metadata']['name']}"
                )
                decision.outcome.refusals.append(Refusal(pod, text))
        return set(lost)

    def _refuse_all(self, decision: Decision, waiting: Sequence[Manifest]) -> None:
        assert decision.problem is not None
        text = decision.problem.sentence
        decision.outcome.refusals.extend(Refusal(pod, text) for pod in waiting)

    def _stored(self, pod: Manifest) -> Manifest:
        return self._desk.pods.get(key_of(pod)) or pod

    def _by_name(self, resource: Resource) -> dict[str, Manifest]:
        return {obj["metadata"]["name"]: obj for obj in self._mirrors.of(resource)}

    # Writing

    async def _write(self, name: str, decision: Decision) -> None:
        group = decision.group
        if decision.waiting_for:
            await self._desk.events.write(group, "NotReady", decision.waiting_for)
            return
        if (group.get("spec") or {}).get("markUnschedulable") is False:
            decision.outcome.refusals.clear()
        if decision.problem is not None:
            await self._tell_group(group, decision.problem)
        elif decision.started:
            await self._tell_start(group, settled=not decision.outcome.refusals)
        lost = await self._desk.write(decision.outcome)
        if lost and name not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers[name] = loop.call_later(RETRY_SECONDS, self._retry, name)

    def _retry(self, name: str) -> None:
        self._timers.pop(name, None)
        self._activate(name)

    async def _tell_group(self, group: Manifest, problem: Verdictless) -> None:
        text = problem.sentence
        told = (group.get("status") or {}).get("schedulingConditions") or []
        if told and told[-1].get("message") == text:
            return
        await self._desk.events.write(group, "Unschedulable", text)
        if any(node_of(pod) for pod in self._pods(group["metadata"]["name"])):
            # A group that already runs is never called unschedulable.
            return
        serial = int(told[-1].get("transitionID") or 0) + 1 if told else 1
        wanted: Manifest = {
            "type": "UnschedulableOnNodePool",
            "nodePool": "default",
            "status": "True",
            "reason": "Unschedulable",
            "message": text,
            "transitionID": str(serial),
            "lastTransitionTime": rfc3339(self._clock.now()),
        }
        if problem.reasons:
            wanted["reasons"] = problem.reasons
        await self._desk.patch_status(
            PODGROUPS, group, {"schedulingConditions": [wanted]}, content_type=MERGE
        )

    async def _tell_start(self, group: Manifest, *, settled: bool) -> None:
        stamp = rfc3339(self._clock.now())
        patch = {"metadata": {"annotations": {LAST_START: stamp}}}
        try:
            await self._client.patch(PODGROUPS.path(key_of(group)), patch)
        except (ApiError, OSError, TimeoutError):
            # The stamp is a courtesy; the pods must be bound all the same.
            return
        told = (group.get("status") or {}).get("schedulingConditions")
        if told and settled and not self._options.keeps_conditions:
            await self._desk.patch_status(
                PODGROUPS, group, {"schedulingConditions": None}, content_type=MERGE
            )
