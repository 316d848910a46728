"""Reconciles one scaling group: writes its status. The set's reconciler makes the group and its cliques."""

from grove.api import kinds, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.pod import Pod
from grove.api.scaling_group import PodCliqueScalingGroup
from grove.controllers.apply import NO_BARRIER, WriteBarrier
from grove.controllers.dependencies import Dependencies
from grove.controllers.members import CLIQUES_BY_OWNER, PODS_BY_OWNER
from grove.meta import Key, Manifest
from grove.plan.changes import Patch
from grove.plan.scaling_group_status import desired_group_status
from grove.plan.update.groups import plan_group_update
from grove.plan.urgency import Urgency
from grove.runtime.outcome import DONE, Outcome


class ScalingGroupReconciler:
    """Says how far the replicas of one scaling group are."""

    def __init__(self, deps: Dependencies) -> None:
        self.deps = deps
        #: Replaced by the controller's own once it is wired.
        self.barrier: WriteBarrier = NO_BARRIER

    async def reconcile(self, key: Key) -> Outcome:
        group = self.observe(key)
        if group is None:
            return DONE
        if group.terminating:
            return await self.release(group)
        cliqueset = self.deps.cache.store(PodCliqueSet).get(Key(key.namespace, group.labels[labels.PART_OF]))
        now = self.deps.clock.now()
        cliques = self.cliques_of(group)
        update = plan_group_update(group, cliques, cliqueset, self._pods_of, now=now)
        status = desired_group_status(group, cliques, cliqueset, update=update, now=now)
        # The next replica gets its template once the status names it, so that one must not wait.
        urgency = Urgency.IMMEDIATE if update.chosen else _urgency(group, status)
        reported = await self.deps.reporter.report(
            kinds.SCALING_GROUPS, group, status, barrier=self.barrier, urgency=urgency
        )
        return reported.outcome

    def _pods_of(self, clique: PodClique) -> list[Pod]:
        return list(self.deps.cache.store(Pod).index(PODS_BY_OWNER, clique.uid))

    def observe(self, key: Key) -> PodCliqueScalingGroup | None:
        """The group; None when it is gone or not ours."""
        group = self.deps.cache.store(PodCliqueScalingGroup).get(key)
        if group is None or labels.PART_OF not in group.labels:
            self.deps.reporter.forget(kinds.SCALING_GROUPS, key)
            self.deps.liveness.forget(kinds.SCALING_GROUPS, key)
            return None
        return group

    def cliques_of(self, group: PodCliqueScalingGroup) -> dict[str, PodClique]:
        """The cliques that the group owns, by name; those of an earlier group of the same name are not."""
        found = self.deps.cache.store(PodClique).index(CLIQUES_BY_OWNER, group.uid)
        return {clique.name: clique for clique in found}

    async def release(self, group: PodCliqueScalingGroup) -> Outcome:
        """Take the Go operator's finalizer off a group that goes: its cliques go with it, by their owner."""
        kept = [name for name in group.metadata.finalizers if name != labels.SCALING_GROUP_FINALIZER]
        if len(kept) < len(group.metadata.finalizers):
            patch = Patch(
                kinds.SCALING_GROUPS,
                group.key,
                {"metadata": {"finalizers": kept}},
                resource_version=group.metadata.resource_version,
            )
            applied = await self.deps.applier.apply([patch], barrier=self.barrier, key=group.key)
            applied.raise_failure()
        return DONE


def _urgency(group: PodCliqueScalingGroup, status: Manifest) -> Urgency:
    """Late while its first replicas wait to be placed or get ready, as its cliques and gangs are."""
    if status["lastErrors"] or group.status.available_replicas:
        return Urgency.SETTLED
    if status["scheduledReplicas"] or group.status.scheduled_replicas:
        return Urgency.STARTING
    return Urgency.DEFERRED
