"""What a simulated scheduler declares of itself, so that a cluster can install and run it by its name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from grove.embedded.actors.mirror import Mirrors
from grove.embedded.clock import Clock
from grove.embedded.errors import Manifest
from grove.embedded.local import ActorClient


class Actor(Protocol):
    """A part of the cluster that acts by itself until it is cancelled."""

    async def run(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the actors of a simulated scheduler are given."""

    #: The client of the actor of this name.
    client: Callable[[str], ActorClient]
    clock: Clock
    mirrors: Mirrors
    #: The Kubernetes minor of the cluster.
    minor: str


async def _nothing(_: ActorClient) -> None:
    """Needs nothing in the cluster that is not there already."""


class Difference(NamedTuple):
    """Where a simulation is known to differ from its scheduler: what a user meets, and why it is left so."""

    id: str
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Simulator:
    """One simulated scheduler: what it needs in a cluster and who acts for it there."""

    #: Its actors, by names that are unique in the cluster.
    actors: Callable[[Surroundings], Mapping[str, Actor]]
    #: Its CRDs, for a cluster that is given them before it starts.
    definitions: Callable[[], list[Manifest]] = list
    #: Creates what it needs; what is there already is left as it is.
    install: Callable[[ActorClient], Awaitable[None]] = _nothing
    #: Whether it is also simulated beside a real kube-scheduler.
    beside_real: bool = False
    #: The annotation of pods that it creates itself to hold places for others; empty if it creates none.
    placeholder: str = ""
    #: For the table of `embedded.deviations`.
    differences: tuple[Difference, ...] = ()
