"""What a set asks of a whole replica, for its scaled gangs: to stay in the domain of its other pods.

A scaled gang has objects of its own and is placed after its base gang, so that no scheduler sees the two as
one. What the set requires or prefers of the replica becomes affinity of the scaled gang's pods to the pods of
the replica that are on nodes by then. A base gang that is placed once more, after all of its pods were lost,
is held to nothing.
"""

from collections.abc import Iterator

from grove.api import labels
from grove.api.gang import PodGang
from grove.backends.base import Capability, Fidelity, Treatment
from grove.backends.podspec import PREFERRED, REQUIRED, WEIGHT, add_affinity
from grove.meta import Manifest


def stay_with_replica(pod: Manifest, gang: PodGang) -> None:
    """Hold a pod of a scaled gang to the domain in which the rest of its replica is, changing the pod."""
    names = (labels.PART_OF, labels.SET_REPLICA_INDEX)
    selector = {"matchLabels": {name: gang.labels[name] for name in names if name in gang.labels}}
    if key := gang.annotations.get(labels.REPLICA_REQUIRED):
        add_affinity(pod, REQUIRED, {"labelSelector": selector, "topologyKey": key})
    if key := gang.annotations.get(labels.REPLICA_PREFERRED):
        term = {"labelSelector": selector, "topologyKey": key}
        add_affinity(pod, PREFERRED, {"weight": WEIGHT, "podAffinityTerm": term})


def replica_treatments(gang: PodGang) -> Iterator[Treatment]:
    """That a preference of this kind is a weight among others."""
    if key := gang.annotations.get(labels.REPLICA_PREFERRED):
        reason = (
            f"pod affinity to the replica's other pods by {key} stands for a preferred domain of them all"
        )
        yield Treatment(Capability.REPLICA_TOPOLOGY, Fidelity.APPROXIMATED, reason)
