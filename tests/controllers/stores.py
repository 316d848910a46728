"""A cache that holds what it is given, without an API server."""

from typing import cast

from grove.api import kinds
from grove.api.clique import PodClique
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.assembly import clique_of, gang_of, gang_of_living
from grove.controllers.members import LIVING_PODS_BY_GANG, PODS_BY_CLIQUE, PODS_BY_GANG, PODS_BY_OWNER
from grove.controllers.schedulers.scheduling import owner_uids
from grove.meta import Object
from grove.runtime.cache import Cache
from grove.runtime.ports import Reader


def cache(*objects: Object) -> Cache:
    """Gangs, cliques and pods, indexed as the operator indexes them."""
    made = Cache(cast(Reader, None))
    made.add(kinds.GANGS, PodGang)
    made.add(kinds.CLIQUES, PodClique)
    indexes = {
        PODS_BY_OWNER: owner_uids,
        PODS_BY_GANG: gang_of,
        LIVING_PODS_BY_GANG: gang_of_living,
        PODS_BY_CLIQUE: clique_of,
    }
    made.add(kinds.PODS, Pod, indexes=indexes)
    for each in objects:
        made.store(type(each)).put(each)
    return made
