"""How fast each backend says a gang, and how fast a set finds its backend: on one core, without a cluster."""

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from grove.api.gang import PodGang
from grove.api.revision import effective_revision
from grove.backends.base import Backend, Context
from grove.backends.registry import BUILT_INS, Registry
from grove.testing import make
from grove.testing.kits import kit_for

PODGROUPS: Final = 8
TURNS: Final = 5
_GANGS: Final = 400


@dataclass(frozen=True, slots=True)
class Speed:
    """Gangs of eight podgroups a second on one core; the slowest of the clusters that it is made for."""

    backend: str
    clusters: int
    translated: float
    #: Pods prepared for that scheduler a second.
    prepared: float


def speeds() -> Iterator[Speed]:
    """Every built-in backend in turn."""
    gangs = [_gang(f"bench-{number}") for number in range(_GANGS)]
    for name in BUILT_INS:
        kit = kit_for(name)
        if kit is None:
            raise LookupError(f"backend {name} has no conformance kit, which knows its clusters")
        contexts = [replace(each, released=True) for each in kit.contexts()]
        yield Speed(
            name,
            len(contexts),
            min(_translations(kit.backend, gangs, context) for context in contexts),
            min(_preparations(kit.backend, gangs, context) for context in contexts),
        )


def _gang(name: str) -> PodGang:
    return make.gang(name, {f"{name}-r{role}": 2 for role in range(PODGROUPS)}, cliqueset="bench")


def selections() -> float:
    """Sets a second for which a backend is chosen by the schedulerName of their roles, with all enabled."""
    registry = Registry.of(tuple(BUILT_INS), "default")
    roles = [make.template(name, 1, pod={"schedulerName": "volcano"}) for name in ("leader", "worker")]
    chosen = make.cliqueset("bench", roles)
    return _rate(lambda: registry.select(chosen), 2000)


def _translations(backend: Backend, gangs: list[PodGang], context: Context) -> float:
    def once() -> None:
        for gang in gangs:
            backend.translate(gang, _looked_at(gang, context))

    return _rate(once, 1) * len(gangs)


def _preparations(backend: Backend, gangs: list[PodGang], context: Context) -> float:
    few = gangs[:50]
    # The revision is found once for all pods that a clique makes.
    pods = [
        (gang, make.pod_manifest(gang.spec.podgroups[0].name, 0, gang=gang), _looked_at(gang, context))
        for gang in few
    ]

    def once() -> None:
        for gang, pod, seen in pods:
            backend.prepare_pod(pod, gang, seen)

    return _rate(once, 4) * len(pods)


def _looked_at(gang: PodGang, context: Context) -> Context:
    """The context as controllers make it for one gang: its revision is part of all names."""
    return replace(context, revision=effective_revision(gang, ()))


def _rate(work: Callable[[], object], times: int) -> float:
    """Calls a second, by the processor's time: the best of some turns, without the collector in between."""
    best = float("inf")
    for _ in range(TURNS):
        gc.collect()
        gc.disable()
        try:
            started = time.process_time()
            for _ in range(times):
                work()
            best = min(best, time.process_time() - started)
        finally:
            gc.enable()
    return times / max(best, 1e-9)
