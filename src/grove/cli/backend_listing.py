"""Every backend that can be used, with what it is and what it can do."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grove import __version__
from grove.backends.base import Backend, Capability, Context
from grove.backends.registry import BUILT_INS
from grove.extensions import installed
from grove.meta import Manifest
from grove.testing.kits import BadKit, kit_for

BUILT_IN = "built-in"


@dataclass(frozen=True, slots=True)
class Row:
    """One backend as it is listed."""

    backend: Backend
    source: str
    capabilities: tuple[Capability, ...]

    def data(self) -> Manifest:
        return {
            "name": self.backend.name,
            "schedulerName": self.backend.scheduler_name,
            "gate": self.backend.scheduling_gate,
            "from": self.source,
            "capabilities": [str(each) for each in self.capabilities],
        }


def listed() -> list[Row]:
    """The built-ins in their order, then those of installed packages in theirs."""
    return [Row(backend, source, _capabilities(backend)) for backend, source in usable()]


def usable() -> Iterator[tuple[Backend, str]]:
    """Every backend that can be used and where it is from."""
    for make in BUILT_INS.values():
        yield make(), f"{BUILT_IN} (grove {__version__})"
    for each in installed():
        if each.backend is not None:
            yield each.backend, each.distribution


def _capabilities(backend: Backend) -> tuple[Capability, ...]:
    """What it can honour on at least one of the clusters that its kit says it is made for."""
    try:
        kit = kit_for(backend.name)
    except BadKit:
        kit = None
    contexts = kit.contexts() if kit is not None else [Context()]
    able = {capability for context in contexts for capability in backend.capabilities(context)}
    return tuple(each for each in Capability if each in able)


def table(rows: Sequence[Row]) -> str:
    """The list for people."""
    cells = [("NAME", "SCHEDULER", "GATE", "FROM", "CAPABILITIES")]
    for row in rows:
        told = row.data()
        able = ", ".join(told["capabilities"]) or "none"
        cells.append((told["name"], told["schedulerName"], told["gate"], told["from"], able))
    return aligned(cells)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns that line up; the last one is as long as it is."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widths[-1] = 0
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
