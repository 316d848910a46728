"""Which cached pods belong to a gang: decided by the UIDs of their owners, never by labels alone."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from grove.api import kinds, labels, names
from grove.api.clique import PodClique
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.api.scaling_group import PodCliqueScalingGroup
from grove.meta import Key
from grove.plan.gang.standalone import is_standalone
from grove.plan.kept import KeptChild, is_kept
from grove.runtime.cache import Cache

PODS_BY_GANG: Final = "gang"
#: Without those that are terminating.
LIVING_PODS_BY_GANG: Final = "living"
PODS_BY_CLIQUE: Final = "clique"
PODS_BY_OWNER: Final = "owner"
CLIQUES_BY_OWNER: Final = "owner"
GANGS_BY_BASE: Final = "base"
_GROUP: Final = kinds.SCALING_GROUPS.kind
_CLIQUE: Final = kinds.CLIQUES.kind


def cliques_of(cache: Cache, gang: PodGang) -> list[PodClique]:
    """The cliques that fill the podgroups of a gang of ours: of the same set, not of an earlier one."""
    if is_standalone(gang):
        return []
    found = (cache.store(PodClique).get(Key(gang.namespace, group.name)) for group in gang.spec.podgroups)
    return [
        clique
        for clique in found
        if clique is not None and not clique.terminating and of_one_set(cache, clique, gang)
    ]


def kept_members(cache: Cache, gang: PodGang, cliques: Sequence[PodClique]) -> list[KeptChild]:
    """What has the names of cliques that the gang lacks, or of their groups, and should be gone."""
    there = {clique.name for clique in cliques}
    missing = [group.name for group in gang.spec.podgroups if group.name not in there]
    if not missing:
        return []
    found = (cache.store(PodClique).get(Key(gang.namespace, name)) for name in missing)
    kept = [KeptChild(kinds.CLIQUES, clique) for clique in found if clique is not None and is_kept(clique)]
    cliqueset = str(Key(gang.namespace, gang.labels.get(labels.PART_OF, "")))
    return kept + [
        KeptChild(kinds.SCALING_GROUPS, group)
        for group in cache.store(PodCliqueScalingGroup).index("set", cliqueset)
        if is_kept(group) and any(name.startswith(f"{group.name}-") for name in missing)
    ]


def of_one_set(cache: Cache, clique: PodClique, gang: PodGang) -> bool:
    """Whether a clique and a gang belong to the same set.

    What lost its owner is given it back by the set that its label names. What has neither is somebody else's,
    who took a name of ours.
    """
    owner = gang.owner
    if owner is None:
        return True
    owned: PodClique | PodCliqueScalingGroup = clique
    owned_by = clique.owner
    if owned_by is not None and owned_by.kind == _GROUP:
        # The child of the set is the scaling group. A clique whose group the cache does not have belongs to
        # no set before the group is seen, which wakes its gang.
        group = cache.store(PodCliqueScalingGroup).get(Key(clique.namespace, owned_by.name))
        if group is not None and group.uid == owned_by.uid:
            owned, owned_by = group, group.owner
    if owned_by is None:
        return owned.labels.get(labels.PART_OF) == owner.name
    return owned_by.uid == owner.uid


def pods_of(cache: Cache, gang: PodGang, cliques: Sequence[PodClique] | None = None) -> list[Pod]:
    """The pods of a gang: those that its cliques own, and what a scheduler made to hold places for them.

    The pods of a standalone gang are labelled by their creator. Those of a clique belong to a gang of a set,
    which may have the same name. `cliques` are those of the gang, where the caller has found them already.
    """
    store = cache.store(Pod)
    labelled = store.index(PODS_BY_GANG, str(gang.key))
    if is_standalone(gang):
        return [pod for pod in labelled if pod.owner is None or pod.owner.kind != _CLIQUE]
    found: list[Pod] = []
    for clique in cliques_of(cache, gang) if cliques is None else cliques:
        found += [_as_member(pod, clique) for pod in store.index(PODS_BY_OWNER, clique.uid)]
    found += [pod for pod in labelled if labels.POD_CLIQUE not in pod.metadata.labels and _is_ours(pod)]
    return found


def lists_pods_of_cliques(cache: Cache, gang: PodGang) -> bool:
    """Whether all pods that a gang lists are those of cliques: it is a set's, whatever its marks say."""
    listed = {each.uid for group in gang.spec.podgroups for each in group.pod_references}
    there = [pod for pod in cache.store(Pod).index(PODS_BY_GANG, str(gang.key)) if pod.uid in listed]
    return bool(there) and all(pod.owner is not None and pod.owner.kind == _CLIQUE for pod in there)


def pods_on_nodes(cache: Cache, gang: PodGang) -> list[Pod]:
    """Those pods of a gang that are on nodes, without what only holds places for them."""
    if is_standalone(gang):
        return [pod for pod in pods_of(cache, gang) if pod.bound]
    store = cache.store(Pod)
    return [
        _as_member(pod, clique)
        for clique in cliques_of(cache, gang)
        for pod in store.index(PODS_BY_OWNER, clique.uid)
        if pod.bound
    ]


def predecessors_of(cache: Cache, clique: PodClique) -> list[Pod]:
    """The pods of an earlier clique of the same name: while they live, they have hostnames of its pods."""
    name, uid = clique.name, clique.uid
    return [
        pod
        for pod in cache.store(Pod).index(PODS_BY_CLIQUE, str(clique.key))
        if (owner := pod.owner) is not None
        and owner.uid != uid
        and (owner.kind, owner.name) == (_CLIQUE, name)
    ]


def stray_pods_of(cache: Cache, gang: PodGang, members: Sequence[Pod]) -> list[Pod]:
    """Pods that carry the labels of a gang of ours and do not belong to it."""
    ours = {pod.uid for pod in members}
    return [
        pod
        for pod in cache.store(Pod).index(PODS_BY_GANG, str(gang.key))
        if pod.uid not in ours and pod.active and pod.owner is None
    ]


def _is_ours(pod: Pod) -> bool:
    return pod.labels.get(labels.MANAGED_BY) == labels.MANAGER


def _as_member(pod: Pod, clique: PodClique) -> Pod:
    """The pod with the labels that say where it belongs, also when somebody edited them."""
    told, name = pod.metadata.labels, clique.metadata.name
    if told.get(labels.POD_CLIQUE) == name and pod.spec.hostname == names.hostname(
        name, told.get(labels.POD_INDEX, "")
    ):
        return pod
    index = names.hostname_index(name, pod.spec.hostname)
    marks = {**told, labels.POD_CLIQUE: name}
    if index is not None:
        marks[labels.POD_INDEX] = str(index)
    return replace(pod, metadata=replace(pod.metadata, labels=marks))
