"""How many GPUs are held by gangs that are not placed as a whole, and for how long, as metrics.

A pod on a node holds the GPUs that its clique's template asks for: of every extended resource whose name ends
in `/gpu`. Devices of resource claims, shares of a GPU and pods that belong to no clique are not counted.
Kept with every change that the cache tells of; a scrape adds up nothing but backends.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from grove.api import conditions, labels
from grove.api.clique import PodClique
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.meta import Key, Manifest, Object, find_condition
from grove.runtime.clock import Clock
from grove.runtime.metrics import Metrics, Sample

_GPU: Final = "/gpu"


class Holdings:
    """GPUs of incomplete gangs, by backend."""

    def __init__(self, metrics: Metrics, clock: Clock, *, answers: Callable[[], bool]) -> None:
        """`answers` tells whether this process is to tell."""
        self._clock = clock
        self._answers = answers
        #: How many pods of each clique are on nodes, by gang.
        self._bound: defaultdict[Key, Counter[Key]] = defaultdict(Counter)
        #: How many GPUs a pod of each clique asks for.
        self._gpus: dict[Key, int] = {}
        #: The backends of gangs that are not placed.
        self._incomplete: dict[Key, str] = {}
        #: What each of them holds now, and under which backend that is counted.
        self._held: dict[Key, tuple[str, int]] = {}
        self._by_backend: Counter[str] = Counter()
        self._gpu_seconds: defaultdict[str, float] = defaultdict(float)
        self._counted_until = clock.monotonic()
        metrics.at_scrape("grove_gang_held_gpus", self._now)
        metrics.at_scrape("grove_gang_held_gpu_seconds_total", self._so_far)

    def saw_pod(self, old: Object | None, new: Object | None) -> None:
        """A pod changed; to be subscribed to the informer."""
        if isinstance(old, Pod) and isinstance(new, Pod) and _alike(old, new):
            return
        before, after = _place(old), _place(new)
        if before == after:
            return
        for place, change in ((before, -1), (after, 1)):
            if place is not None:
                gang, clique = place
                bound = self._bound[gang]
                bound[clique] += change
                if bound[clique] <= 0:
                    del bound[clique]
                if not bound:
                    del self._bound[gang]
                self._recount(gang)

    def saw_clique(self, old: Object | None, new: Object | None) -> None:
        """A clique changed; to be subscribed to the informer."""
        clique = new or old
        if not isinstance(clique, PodClique):
            return
        gpus = gpus_of(clique.spec.pod_spec) if new is not None else 0
        if gpus == self._gpus.get(clique.key, 0):
            return
        self._gpus[clique.key] = gpus
        if not gpus:
            del self._gpus[clique.key]
        if gang := clique.labels.get(labels.POD_GANG):
            self._recount(Key(clique.namespace, gang))

    def saw_gang(self, old: Object | None, new: Object | None) -> None:
        """A gang changed; to be subscribed to the informer."""
        if isinstance(new, PodGang) and not _is_placed(new):
            self._incomplete[new.key] = new.labels.get(labels.SCHEDULER_BACKEND, "")
            self._recount(new.key)
        elif (gang := new or old) is not None and self._incomplete.pop(gang.key, None) is not None:
            self._recount(gang.key)

    def _recount(self, gang: Key) -> None:
        """Something about a gang changed: what does it hold now, if it is incomplete?"""
        backend = self._incomplete.get(gang)
        bound: Mapping[Key, int] = self._bound.get(gang, {}) if backend is not None else {}
        gpus = sum(self._gpus.get(clique, 0) * pods for clique, pods in bound.items())
        holds = (backend, gpus) if backend is not None and gpus else None
        held = self._held.get(gang)
        if holds == held:
            return
        self._advance()
        if held is not None:
            self._by_backend[held[0]] -= held[1]
            del self._held[gang]
        if holds is not None:
            self._by_backend[holds[0]] += holds[1]
            self._held[gang] = holds

    def _advance(self) -> None:
        """Add up what was held since the last time."""
        now = self._clock.monotonic()
        elapsed, self._counted_until = now - self._counted_until, now
        for backend, gpus in self._by_backend.items():
            self._gpu_seconds[backend] += gpus * elapsed

    def _now(self) -> Iterable[Sample]:
        return [((backend,), gpus) for backend, gpus in self._by_backend.items()] if self._answers() else ()

    def _so_far(self) -> Iterable[Sample]:
        self._advance()
        return (
            [((backend,), value) for backend, value in self._gpu_seconds.items()] if self._answers() else ()
        )


def gpus_of(spec: Manifest) -> int:
    """How many GPUs a pod of this spec asks for: all containers at once, or an init container before them."""
    first, together = 0, 0
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            together += _asks(container)
        else:
            first = max(first, together + _asks(container))
    return max(first, together + sum(_asks(container) for container in spec.get("containers") or ()))


def _asks(container: Manifest) -> int:
    resources = container.get("resources") or {}
    # Extended resources are limited to what they request; either may be left out.
    amounts = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    return sum(
        int(amount) for name, amount in amounts.items() if name.endswith(_GPU) and str(amount).isdecimal()
    )


def _place(pod: Object | None) -> tuple[Key, Key] | None:
    """The gang and the clique of a pod that holds its part of a node."""
    if not isinstance(pod, Pod) or not pod.may_run:
        return None
    gang, clique = pod.labels.get(labels.POD_GANG), pod.labels.get(labels.POD_CLIQUE)
    return (Key(pod.namespace, gang), Key(pod.namespace, clique)) if gang and clique else None


def _alike(old: Pod, new: Pod) -> bool:
    """Whether a pod is where it was, as nearly every pod that changes is."""
    return old.metadata.labels == new.metadata.labels and old.may_run == new.may_run


def _is_placed(gang: PodGang) -> bool:
    scheduled = find_condition(gang.status.conditions, conditions.SCHEDULED)
    return scheduled is not None and scheduled.is_true
