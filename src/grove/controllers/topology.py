"""Reconciles one ClusterTopologyBinding: keeps schedulers' topology objects equal to it, or reports drift."""

from collections.abc import Sequence
from dataclasses import dataclass

from grove.api import conditions, kinds
from grove.api.topology import ClusterTopologyBinding, SchedulerTopologyStatus
from grove.backends.base import Backend, TopologyAware
from grove.controllers import events
from grove.controllers.apply import NO_BARRIER, WriteBarrier
from grove.controllers.dependencies import Dependencies
from grove.meta import Condition, Key, Manifest, UntypedObject, find_condition
from grove.plan.changes import Apply, Change, Delete
from grove.plan.conditions import merged
from grove.runtime.outcome import DONE, Outcome


@dataclass(frozen=True, slots=True)
class Comparison:
    """One scheduler's topology object against the binding, and what to change about it."""

    status: SchedulerTopologyStatus
    changes: tuple[Change, ...] = ()


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
        compared = self.compare(binding)
        changes = [change for each in compared for change in each.changes]
        applied = await self.deps.applier.apply(changes, barrier=self.barrier, key=key)
        outcome = await self.report(binding, [each.status for each in compared])
        applied.raise_failure()
        return outcome

    def compare(self, binding: ClusterTopologyBinding) -> list[Comparison]:
        """Every enabled backend that reads topology, and every binding that names one which does not."""
        external = {
            each.scheduler_name: each.topology_reference for each in binding.spec.scheduler_topology_bindings
        }
        compared = []
        for backend in self.deps.scheduling.registry.enabled:
            if isinstance(backend, TopologyAware):
                names = [name for name in (backend.name, backend.scheduler_name) if name in external]
                reference = external.pop(names[0]) if names else None
                compared.append(self._compare(binding, backend, backend, reference))
        compared += [
            Comparison(
                SchedulerTopologyStatus(
                    scheduler_name=name,
                    topology_reference=reference,
                    message=f"{name!r}: scheduler backend is not enabled in Grove, or does not read topology",
                )
            )
            for name, reference in external.items()
        ]
        return compared

    def _compare(
        self, binding: ClusterTopologyBinding, backend: Backend, aware: TopologyAware, reference: str | None
    ) -> Comparison:
        resource = aware.topology_resource
        name = reference or binding.name
        if not self.deps.scheduling.cluster.serves(resource):
            missing = f"the cluster does not serve {resource}; install {backend.scheduler_name}'s CRDs"
            return Comparison(_status(backend, name, message=missing))
        informer = self.deps.cache.informer(resource)
        item = informer.store.get(Key("", name)) if informer is not None else None
        there = item if isinstance(item, UntypedObject) else None
        wanted = tuple(level.key for level in binding.spec.levels)
        same = there is not None and aware.levels_of(there.manifest) == wanted
        if same and there is not None:
            return Comparison(_status(backend, name, there))
        if reference is not None:
            message = (
                "does not exist" if there is None else "has other levels than the ClusterTopologyBinding"
            )
            return Comparison(_status(backend, name, there, f"{resource.kind} {name!r} {message}"))
        if there is None:
            return Comparison(_status(backend, name), (Apply(resource, aware.desired_topology(binding)),))
        if there.owner is None or there.owner.uid != binding.uid:
            message = f"{resource.kind} {name!r} exists, has other levels and is not owned by this binding"
            return Comparison(_status(backend, name, there, message))
        # Levels cannot be changed in place: the object goes now and comes back when it is gone.
        gone = () if there.terminating else (Delete(resource, there.key, there.uid),)
        return Comparison(_status(backend, name, there, "is being replaced"), gone)

    async def report(
        self, binding: ClusterTopologyBinding, statuses: Sequence[SchedulerTopologyStatus]
    ) -> Outcome:
        now = self.deps.clock.now()
        condition = _drift(statuses)
        status: Manifest = {
            "observedGeneration": binding.metadata.generation,
            "schedulerTopologyStatuses": [_told(each) for each in statuses],
            "conditions": merged(binding, [condition] if condition else [], now=now),
        }
        reported = await self.deps.reporter.report(
            kinds.TOPOLOGY_BINDINGS, binding, status, barrier=self.barrier
        )
        before = find_condition(binding.status.conditions, conditions.SCHEDULER_TOPOLOGY_DRIFT)
        if (
            condition is not None
            and reported.written
            and (before is None or before.status != condition.status)
        ):
            tell = events.topology_in_sync if condition.status == "False" else events.topology_drift
            self.deps.recorder.send(tell(binding, condition.message))
        return reported.outcome


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


def _drift(statuses: Sequence[SchedulerTopologyStatus]) -> Condition | None:
    if not statuses:
        return None
    off = [each for each in statuses if not each.in_sync]
    if not off:
        status, reason, message = "False", conditions.IN_SYNC, "every scheduler's topology agrees"
    else:
        message = "; ".join(f"{each.scheduler_name}: {each.message or 'not there yet'}" for each in off)
        drifted = any(each.scheduler_backend_topology_observed_generation for each in off)
        status = "True" if drifted else "Unknown"
        reason = conditions.DRIFT if drifted else conditions.TOPOLOGY_NOT_FOUND
    return Condition(type=conditions.SCHEDULER_TOPOLOGY_DRIFT, status=status, reason=reason, message=message)
