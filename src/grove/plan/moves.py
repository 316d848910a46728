"""A set that changes its scheduler: which gangs move now, which stay, which pods are replaced. Pure.

A pod's scheduler cannot be changed, and a gang is placed by one scheduler or it is no gang. So a gang moves
when none of its pods is placed: those that wait go first, and come back for the new scheduler. While pods of
it run, it stays with the scheduler that placed them, which also places the replacements; it moves once none
of them is left.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from grove.api import kinds, labels
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.plan.changes import Change, Patch

#: The pods of a gang, looked up only where they matter.
PodsOf = Callable[[PodGang], Iterable[Pod]]


def backend_of(gang: PodGang) -> str:
    """The name of the backend that acts on a gang."""
    return gang.metadata.labels.get(labels.SCHEDULER_BACKEND, "")


def leaves(gang: PodGang, pods: Iterable[Pod], wanted: str) -> list[Pod] | None:
    """The waiting pods that must go before a gang can move; None for a gang that does not move now.

    They go first: a scheduler that meets them a moment later could place what is no longer its own.
    """
    if backend_of(gang) in ("", wanted):
        return None
    living = [pod for pod in pods if pod.active]
    return None if any(pod.bound for pod in living) else living


def stays(gang: PodGang, pods: Iterable[Pod], wanted: str) -> bool:
    """Whether a gang that should go to another backend must wait for its pods to go."""
    return backend_of(gang) not in ("", wanted) and any(pod.active and pod.bound for pod in pods)


def staying_gangs(gangs: Mapping[str, PodGang], pods_of: PodsOf, wanted: str) -> dict[str, str]:
    """The gangs that cannot move to the wanted backend yet, by name, and the backend that they stay with."""
    return {
        name: backend_of(gang)
        for name, gang in gangs.items()
        if backend_of(gang) not in ("", wanted) and any(pod.active for pod in pods_of(gang))
    }


def placed_by(pods: Iterable[Pod], backend_for: Callable[[str], str]) -> str:
    """The backend whose pods are on nodes; empty when none are, or none of a backend that is known.

    `backend_for` tells whose a schedulerName is. It is asked where a gang itself no longer says it.
    """
    names = (backend_for(pod.spec.scheduler_name) for pod in pods if pod.active and pod.bound)
    found = Counter(name for name in names if name)
    return min(found, key=lambda name: (-found[name], name), default="")


def any_leaves(gangs: Iterable[PodGang], pods_of: PodsOf, wanted: str) -> bool:
    """Whether a gang waits only for its unplaced pods to go; nobody need tell us of the last one."""
    return any(backend_of(gang) != wanted and leaves(gang, pods_of(gang), wanted) for gang in gangs)


def moved(gangs: Mapping[str, PodGang], changes: Iterable[Change]) -> list[PodGang]:
    """The gangs that these changes gave to another backend, as they were before."""
    return [
        gangs[change.key.name]
        for change in changes
        if isinstance(change, Patch)
        and change.resource == kinds.GANGS
        and labels.SCHEDULER_BACKEND in (change.patch.get("metadata") or {}).get("labels", {})
    ]


def stranded(pods: Sequence[Pod], ours: Callable[[str], bool], other_gates: Collection[str]) -> set[str]:
    """The waiting pods that were made for another backend: nobody would ever place them.

    `ours` tells whose a schedulerName is; `other_gates` are those of all other backends.
    """
    return {
        pod.name
        for pod in pods
        if pod.active
        and not pod.bound
        and (
            not ours(pod.spec.scheduler_name)
            or any(each.name in other_gates for each in pod.spec.scheduling_gates)
        )
    }


def pending_sentence(gang: PodGang, pods: Iterable[Pod], wanted: str) -> str:
    """What will happen to a gang that stays for now, and how to make it move."""
    placed, now = sum(1 for pod in pods if pod.active and pod.bound), backend_of(gang)
    return (
        f"the set asks for {wanted}, but {now} placed {placed} of the gang's pods, and the scheduler of a "
        f"pod cannot be changed; the gang stays with {now} until none of them is left: "
        f"kubectl delete pods -n {gang.namespace} -l {labels.POD_GANG}={gang.name} moves it at once"
    )
