"""The minimum of a gang comes first: which of its pods are above the minimum and wait for the others."""

from collections.abc import Callable

from grove.api import labels
from grove.api.gang import PodGang
from grove.api.pod import Pod


def above_minimum(gang: PodGang) -> Callable[[Pod], bool]:
    """Tells whether the index of a pod is at or above the minimum of its podgroup.

    Such a pod stays behind its gate until the minimum of the whole gang is placed, whose room it could take.
    """
    least = {group.name: group.min_replicas for group in gang.spec.podgroups}

    def above(pod: Pod) -> bool:
        index = pod.labels.get(labels.POD_INDEX, "")
        minimum = least.get(pod.labels.get(labels.POD_CLIQUE, ""), 0)
        return index.isascii() and index.isdigit() and int(index) >= minimum

    return above
