"""The Go operator's figures, measured elsewhere on such a machine, to be shown beside ours. Constants.

Two cores and 24 GiB, Kubernetes 1.36.4, 100 nodes played by kwok, the operator of 2026-08-19 with the
defaults of its Helm chart (100 requests a second, burst 150) and its webhooks; medians of three runs.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Reference:
    """One case; times in seconds, memory in MB."""

    gates_open: float
    running: float
    available: float
    writes_per_pod: float
    cpu: float
    rss: float
    deleted: float


GO: Final = {
    "5x2": Reference(5.5, 5.5, 5.6, 12, 0.15, 51, 0.16),
    "500x2": Reference(60.2, 60.3, 68.0, 11, 12.1, 160, 16),
    "125x8": Reference(27.4, 27.5, 29.3, 5.9, 6.9, 124, 7.2),
    "1x1000": Reference(23.6, 25.8, 25.9, 2.1, 3.1, 145, 5.6),
    "2500x2": Reference(325, 325, 362, 11.5, 64, 520, 71),
}
#: Gates open and running of its own floor, by pods.
GO_FLOOR: Final = {1000: (5.6, 7.7)}
EXPLAINED: Final = (
    "In each cell ours / the Go operator's. The latter were measured elsewhere on such a machine (two cores, "
    "24 GiB, Kubernetes 1.36.4, nodes played by kwok, the defaults of its Helm chart, medians of three runs) "
    "and are held against the floor that was measured there."
)
