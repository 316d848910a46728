"""Which control plane a measurement is taken on: the embedded one, or the real programs of Kubernetes."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What answers the requests."""

    EMBEDDED = "embedded"
    REAL = "real"


class Players(StrEnum):
    """Who plays nodes and kubelets on a real control plane."""

    OURS = "ours"
    KWOK = "kwok"

    @property
    def module(self) -> str:
        """The process that plays them."""
        return "bench.kwok_process" if self is Players.KWOK else "bench.players_process"


@dataclass(frozen=True, slots=True)
class Plane:
    """A control plane of one Kubernetes minor, with one scheduler."""

    kind: Kind
    minor: str
    #: The backend whose scheduler runs in place of Kubernetes' own; empty for that.
    scheduler: str = ""
    #: How many objects the garbage collector gets through in a second; 0 for as many as it can.
    collected_per_second: float = 0.0
    players: Players = Players.OURS

    @property
    def real(self) -> bool:
        return self.kind is Kind.REAL

    @property
    def module(self) -> str:
        """The process that runs it."""
        return "bench.real_process" if self.real else "bench.cluster_process"

    @property
    def settings(self) -> tuple[str, ...]:
        """What that process is told besides."""
        return (str(self.collected_per_second),)

    @property
    def profiled(self) -> str:
        """The process of it that is written in Python and can be profiled; empty where there is none."""
        if self.players is Players.KWOK:
            return ""
        return "players" if self.real else "cluster"
