"""The KAI scheduler (0.12 to 0.17) with its binder inside: PodGroups with subGroups, queues and topologies.

Schedules pods of `kai-scheduler` that name a PodGroup in the annotation `pod-group-name`; others it ignores
in silence. A group starts when every required leaf has its minimum and all of it fits; pods above the minimum
follow one by one. A group preempts whole groups of its queue with a lower priority, unless they are
non-preemptible. While KAI's CRDs are not installed it idles. It never reclaims, consolidates or evicts the
rest of a stale gang, and it counts no queue quotas: those are the declared deviations.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from grove.embedded.actors.mirror import Mirrors
from grove.embedded.actors.objects import (
    MERGE,
    Key,
    Resource,
    annotations_of,
    is_deleting,
    is_gated,
    key_of,
    node_of,
)
from grove.embedded.actors.schedulers.desk import Outcome, Refusal
from grove.embedded.actors.schedulers.gangs import Group, Verdict, attempt
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
from grove.embedded.actors.schedulers.placement import Trial
from grove.embedded.actors.schedulers.preemption import evict_for_group
from grove.embedded.actors.schedulers.sessions import PodGroupScheduler, SessionOptions
from grove.embedded.clock import Clock, rfc3339
from grove.embedded.errors import ApiError, Manifest
from grove.embedded.local import ActorClient

NAME = "kai-scheduler"
LAST_START = "kai.scheduler/last-start-timestamp"
DEFAULT_PRIORITY = 50
NON_PREEMPTIBLE = 100
"""From this priority on a group that does not say otherwise is never preempted."""


@dataclass(frozen=True, slots=True)
class KaiOptions(SessionOptions):
    keeps_conditions: bool = False
    """As 0.12 does: the unschedulable condition stays when the group runs. Later versions take it away."""
    period_seconds: float = 0.1


@dataclass(slots=True)
class Decision:
    group: Manifest
    outcome: Outcome
    problem: Verdictless | None = None
    waiting_for: str = ""
    started: bool = False


class KaiScheduler(PodGroupScheduler[str, Decision]):
    """Runs until cancelled."""

    name = NAME
    refused = "Unschedulable"
    kinds = (PODGROUPS, QUEUES, TOPOLOGIES)

    def __init__(
        self,
        client: ActorClient,
        clock: Clock,
        *,
        mirrors: Mirrors | None = None,
        options: KaiOptions | None = None,
    ) -> None:
        self._options = options or KaiOptions()
        super().__init__(client, clock, mirrors=mirrors, options=self._options)
        self._groups: dict[str, Manifest] = {}

    # What wakes whom

    def _follow(self) -> None:
        self._mirrors.of(PODGROUPS).subscribe(self._group_changed)
        self._mirrors.of(QUEUES).subscribe(self._spec_changed)
        self._mirrors.of(TOPOLOGIES).subscribe(self._spec_changed)

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

    def _home(self, pod: Manifest) -> str | None:
        return annotations_of(pod).get(GROUP_ANNOTATION) or None

    # Deciding

    def _rank(self, name: str) -> tuple[int, str, str]:
        group = self._groups.get(name)
        if group is None:
            return 0, "", name
        return -self._priority(group), self._starved_first(name, group), name

    def _priority(self, group: Manifest) -> int:
        wanted = (group.get("spec") or {}).get("priorityClassName")
        found = self._classes.get(("", wanted)) if wanted else None
        if found is None:
            found = next((c for c in self._classes if c.get("globalDefault")), None)
        return DEFAULT_PRIORITY if found is None else int(found.get("value") or 0)

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
            self._park(name)
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
        shapes = {key_of(pod): self._desk.shape(self._desk.stored(pod)) for pod in known}
        try:
            root = tree(group, members, shapes=shapes, topologies=self._by_name(TOPOLOGIES))
        except UnknownTopology:
            decision.problem = Verdictless("", UNABLE)
            self._refuse_all(decision, known)
            return
        verdict = attempt(Trial(self._desk.ledger), root)
        if verdict.shortage is not None:
            decision.problem = shortage_problem(group, root, verdict.shortage)
            self._preempt(decision, root, known)
        self._accept(decision, known, verdict)

    def _preempt(self, decision: Decision, root: Group, waiting: Sequence[Manifest]) -> None:
        mine, queue = self._priority(decision.group), decision.group["spec"].get("queue")
        below = {
            name: priority
            for name, group in self._groups.items()
            if (priority := self._priority(group)) < mine
            and group["spec"].get("queue") == queue
            and _is_preemptible(group, priority)
        }
        if not below or not waiting:
            return

        def owner(pod: Manifest) -> tuple[Hashable, int] | None:
            home = self._home(pod) if pod["spec"].get("schedulerName") == NAME else None
            return None if home is None or home not in below else (home, below[home])

        evict_for_group(self._desk, decision.outcome, root, waiting, owner=owner, priority=mine)

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
        if lost:
            self._retry(name)

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


def _is_preemptible(group: Manifest, priority: int) -> bool:
    said = group["spec"].get("preemptibility")
    return said == "preemptible" if said else priority < NON_PREEMPTIBLE
