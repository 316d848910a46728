"""The pods of a gang, as the cache has them."""

from collections.abc import Sequence
from typing import Final

from grove.api import labels
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.plan.foreign import is_foreign
from grove.runtime.cache import Cache

PODS_BY_GANG: Final = "gang"


def pods_of(cache: Cache, gang: PodGang) -> Sequence[Pod]:
    """Who belongs to a gang: of one of ours only pods that are ours, whatever others put on theirs."""
    pods = cache.store(Pod).index(PODS_BY_GANG, str(gang.key))
    if is_foreign(gang):
        return pods
    return [pod for pod in pods if pod.labels.get(labels.MANAGED_BY) == labels.MANAGER]
