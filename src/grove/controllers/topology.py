"""Reconciles one ClusterTopologyBinding: keeps schedulers' topology objects equal to it, or reports drift."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from grove.admission.bindings import unusable_references, validate_topology_binding
from grove.api import conditions, kinds
from grove.api.topology import ClusterTopologyBinding, SchedulerTopologyStatus
from grove.backends.base import Backend, TopologyAware
from grove.controllers import events
from grove.controllers.apply import NO_BARRIER, WriteBarrier
from grove.controllers.dependencies import Dependencies
from grove.errors import FieldError
from grove.meta import Condition, Key, Manifest, UntypedObject, find_condition
from grove.plan.changes import Apply, Change, Delete
from grove.plan.conditions import merged
from grove.plan.standing import Standing, availability, standing_conditions
from grove.runtime.outcome import DONE, Outcome

log = logging.getLogger(__name__)

#: Conditions that are only there while they have something to say.
_OCCASIONAL = (conditions.SCHEDULER_TOPOLOGY_DRIFT, conditions.STALLED)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One scheduler's topology object against the binding, and what to change about it."""

    status: SchedulerTopologyStatus
    changes: tuple[Change, ...] = ()
    #: Whether there can be such an object at all: its scheduler is enabled, reads topology and is installed.
    comparable: bool = True
    #: Whether it is being brought in line, by these changes or by earlier ones.
    under_way: bool = False


class TopologyReconciler:
    """Brings the topology objects of every topology-aware backend in line with one binding."""

    def __init__(self, deps: Dependencies) -> None:
        self.deps = deps
        #: Replaced by the controller's own once it is wired.
        self.barrier: WriteBarrier = NO_BARRIER

    async def reconcile(self, key: Key) -> Outcome:
        binding = self.deps.cache.store(ClusterTopologyBinding).get(key)
        if binding is None or binding.terminating:
            self.deps.reporter.forget(kinds.TOPOLOGY_BINDINGS, key)
            return DONE
        contradictions = validate_topology_binding(binding)
        errors = [*contradictions, *unusable_references(binding, self._reads_topology())]
        compared = self.compare(binding) if not contradictions else []
        changes = [change for each in compared for change in each.changes]
        applied = await self.deps.applier.apply(changes, barrier=self.barrier, key=key)
        if applied.done:
            log.info(
                "topology objects written", extra={"binding": binding.name, "objects": len(applied.done)}
            )
        if changes and not applied.failures:
            # The change of the object wakes us again. What we replace ourselves is not out of sync meanwhile.
            return DONE
        outcome = await self.report(binding, errors, compared)
        applied.raise_failure()
        return outcome

    def _reads_topology(self) -> dict[str, bool]:
        """Which of the enabled schedulers read topology objects, by both of their names."""
        return {
            name: isinstance(backend, TopologyAware)
            for backend in self.deps.scheduling.registry.enabled
            for name in (backend.name, backend.scheduler_name)
        }

    def compare(self, binding: ClusterTopologyBinding) -> list[Comparison]:
        """Every enabled backend that reads topology, and every reference to one that does not."""
        compared = []
        followed: set[str] = set()
        for backend in self.deps.scheduling.registry.enabled:
            if isinstance(backend, TopologyAware):
                followed |= {backend.name, backend.scheduler_name}
                reference = binding.reference_for(backend.name, backend.scheduler_name)
                compared.append(self._compare(binding, backend, backend, reference))
        for each in binding.spec.scheduler_topology_bindings:
            if each.scheduler_name not in followed:
                message = "scheduler backend is not enabled in Grove, or does not read topology"
                status = SchedulerTopologyStatus(
                    scheduler_name=each.scheduler_name,
                    topology_reference=each.topology_reference,
                    message=message,
                )
                compared.append(Comparison(status, comparable=False))
        return compared

    def _compare(
        self, binding: ClusterTopologyBinding, backend: Backend, aware: TopologyAware, reference: str
    ) -> Comparison:
        resource = aware.topology_resource
        name = reference or binding.name
        if not self.deps.scheduling.cluster.serves(resource):
            missing = f"the cluster does not serve {resource}; install {backend.scheduler_name}'s CRDs"
            return Comparison(_status(backend, name, message=missing), comparable=False)
        informer = self.deps.cache.informer(resource)
        item = informer.store.get(Key("", name)) if informer is not None else None
        there = item if isinstance(item, UntypedObject) else None
        wanted = tuple(level.key for level in binding.spec.levels)
        same = there is not None and aware.levels_of(there.manifest) == wanted
        if same and there is not None:
            return Comparison(_status(backend, name, there))
        if reference:
            differs = "not found" if there is None else "levels differ from ClusterTopologyBinding levels"
            return Comparison(_status(backend, name, there, f'{resource.kind} "{name}" {differs}'))
        if there is None:
            return Comparison(
                _status(backend, name, message="is missing"),
                (Apply(resource, aware.desired_topology(binding)),),
                under_way=True,
            )
        if there.owner is None or there.owner.uid != binding.uid:
            message = f"{resource.kind} {name!r} exists, has other levels and is not owned by this binding"
            return Comparison(_status(backend, name, there, message))
        # Levels cannot be changed in place: the object goes now and comes back when it is gone.
        gone = () if there.terminating else (Delete(resource, there.key, there.uid),)
        return Comparison(_status(backend, name, there, "is being replaced"), gone, under_way=True)

    async def report(
        self, binding: ClusterTopologyBinding, errors: Sequence[FieldError], compared: Sequence[Comparison]
    ) -> Outcome:
        now = self.deps.clock.now()
        accepted, drift = _accepted(errors), _drift(compared)
        standing = _standing(accepted, drift, compared)
        updates = [accepted, *standing_conditions(standing)]
        updates.append(availability(standing.ready, standing.reason, ""))
        updates += [drift] if drift else []
        told = {update.type for update in updates}
        status: Manifest = {
            "observedGeneration": binding.metadata.generation,
            "schedulerTopologyStatuses": [_told(each.status) for each in compared],
            "conditions": merged(
                binding, updates, now=now, drop=[name for name in _OCCASIONAL if name not in told]
            ),
        }
        reported = await self.deps.reporter.report(
            kinds.TOPOLOGY_BINDINGS, binding, status, barrier=self.barrier
        )
        if reported.written:
            self._tell(binding, accepted, drift)
        return reported.outcome

    def _tell(self, binding: ClusterTopologyBinding, accepted: Condition, drift: Condition | None) -> None:
        if accepted.status == "False" and _is_news(binding, accepted):
            self.deps.recorder.send(events.binding_refused(binding, accepted.message))
        if drift is not None and _is_news(binding, drift):
            tell = events.topology_in_sync if drift.status == "False" else events.topology_drift
            self.deps.recorder.send(tell(binding, drift.message))


def _is_news(binding: ClusterTopologyBinding, condition: Condition) -> bool:
    before = find_condition(binding.status.conditions, condition.type)
    return before is None or before.status != condition.status


def _status(
    backend: Backend, reference: str, there: UntypedObject | None = None, message: str = ""
) -> SchedulerTopologyStatus:
    return SchedulerTopologyStatus(
        scheduler_name=backend.scheduler_name,
        topology_reference=reference,
        in_sync=there is not None and not message,
        scheduler_backend_topology_observed_generation=there.metadata.generation if there else 0,
        message=message,
    )


def _told(status: SchedulerTopologyStatus) -> Manifest:
    """One entry as it is written; a generation that nobody saw is left out."""
    told: Manifest = {
        "schedulerName": status.scheduler_name,
        "topologyReference": status.topology_reference,
        "inSync": status.in_sync,
        "message": status.message or None,
    }
    if status.scheduler_backend_topology_observed_generation:
        seen = status.scheduler_backend_topology_observed_generation
        told["schedulerBackendTopologyObservedGeneration"] = seen
    return told


def _accepted(errors: Sequence[FieldError]) -> Condition:
    if errors:
        message = "; ".join(map(str, errors))
        return Condition(type=conditions.ACCEPTED, status="False", reason=conditions.INVALID, message=message)
    return Condition(
        type=conditions.ACCEPTED,
        status="True",
        reason=conditions.VALID,
        message="every level and every reference is understood",
    )


def _standing(accepted: Condition, drift: Condition | None, compared: Sequence[Comparison]) -> Standing:
    """Whether every scheduler has the levels; stalled where nothing is written that would change it."""
    if not accepted.is_true:
        return Standing(False, accepted.reason, accepted.message, accepted.message, accepted.reason)
    if drift is None:
        return Standing(True, conditions.IN_SYNC, "no scheduler reads a topology object")
    left = any(not each.status.in_sync and not each.under_way for each in compared)
    ready = drift.reason == conditions.IN_SYNC
    return Standing(ready, drift.reason, drift.message, drift.message if left else "", drift.reason)


def _drift(compared: Sequence[Comparison]) -> Condition | None:
    if not compared:
        return None
    off = [each for each in compared if not each.status.in_sync]
    message = "; ".join(f"{each.status.scheduler_name}: {each.status.message}" for each in off)
    if not off:
        status, reason, message = "False", conditions.IN_SYNC, "every scheduler's topology agrees"
    elif all(each.comparable for each in off):
        status, reason = "True", conditions.DRIFT
    else:
        status, reason = "Unknown", conditions.TOPOLOGY_NOT_FOUND
    return Condition(type=conditions.SCHEDULER_TOPOLOGY_DRIFT, status=status, reason=reason, message=message)
