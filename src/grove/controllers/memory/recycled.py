"""Which cliques were recycled without their gang: they must be whole again before they can be broken.

A gang that loses all of its pods gets another revision, and what its cliques had before is forgotten with
it. A replica of a scaling group may be recycled alone while the rest of its gang runs on. Until the statuses
of its cliques have forgotten that they were whole, this does.
"""

from collections.abc import Iterable

from grove.api.clique import PodClique
from grove.api.conditions import MIN_AVAILABLE_REACHED
from grove.api.pod import Pod
from grove.meta import find_condition
from grove.plan.clique_status import working_pods


class Recycled:
    """Remembers the pods that recycling took from a clique until its status tells no more of them."""

    def __init__(self) -> None:
        #: The UIDs of the pods, by that of the clique.
        self._pods: dict[str, frozenset[str]] = {}

    def add(self, clique: PodClique, pods: Iterable[Pod]) -> None:
        """These pods of a clique were deleted."""
        self._pods[clique.uid] = frozenset(pod.uid for pod in pods)

    def left(self, clique: PodClique, pods: Iterable[Pod]) -> list[Pod]:
        """The pods of a clique without those that were recycled: the cache may still show them at work."""
        gone = self._pods.get(clique.uid, frozenset())
        return [pod for pod in pods if pod.uid not in gone]

    def begins_anew(self, clique: PodClique, pods: Iterable[Pod]) -> bool:
        """Whether what the clique says of the past was before it was recycled."""
        if clique.uid not in self._pods:
            return False
        said = find_condition(clique.status.conditions, MIN_AVAILABLE_REACHED)
        if said is None or working_pods(self.left(clique, pods)) >= clique.spec.needed:
            del self._pods[clique.uid]
            return False
        return True

    def forget(self, clique: str) -> None:
        """The clique of this UID is gone."""
        self._pods.pop(clique, None)
