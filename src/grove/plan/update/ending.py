"""When an update has ended: with the write of the status that counts its last replica as updated. Pure.

That it is over is known by pods, while the set's status counts by the statuses of cliques, which are written
later. Clients take both together for the end; one that reads only the time must not be told too soon.
"""

from collections.abc import Callable, Mapping, Sequence

from grove.api.clique import PodClique
from grove.api.pod import Pod
from grove.plan.availability import ReplicaCliques, is_updated, said_ready
from grove.plan.layout import Layout
from grove.plan.update.pods import ready_pods
from grove.plan.update.revisions import pod_template_of

PodsOf = Callable[[PodClique], Sequence[Pod]]


def any_uncounted(layout: Layout, replicas: int, cliques: Mapping[str, PodClique], pods_of: PodsOf) -> bool:
    """Whether a replica is updated by its pods, which the statuses of its cliques do not say yet."""

    def ready(clique: PodClique) -> int:
        return ready_pods(pods_of(clique))

    def updated(clique: PodClique) -> bool:
        template = pod_template_of(clique)
        made = sum(pod.keeps_place and pod_template_of(pod) == template for pod in pods_of(clique))
        return made >= clique.spec.needed

    for index in range(replicas):
        replica = ReplicaCliques.of(list(layout.gangs(index)), cliques)
        if not _counts(replica, layout, index, said_ready, is_updated) and _counts(
            replica, layout, index, ready, updated
        ):
            return True
    return False


def _counts(
    replica: ReplicaCliques,
    layout: Layout,
    index: int,
    ready: Callable[[PodClique], int],
    updated: Callable[[PodClique], bool],
) -> bool:
    return replica.available(layout, index, ready) and all(
        clique is not None and updated(clique) for clique in replica.all()
    )
