"""The simulated schedulers by the names of their backends: a line for each, in the order of their start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from grove.embedded.actors.schedulers import (
    kai_install,
    koordinator_install,
    native,
    volcano_install,
    yunikorn_install,
)
from grove.embedded.actors.schedulers.simulator import Simulator

SIMULATORS: Final[Mapping[str, Simulator]] = {
    "default": native.SIMULATOR,
    "kai": kai_install.SIMULATOR,
    "koordinator": koordinator_install.SIMULATOR,
    "volcano": volcano_install.SIMULATOR,
    "yunikorn": yunikorn_install.SIMULATOR,
}
#: Those that `grove up` simulates beside Kubernetes' own programs.
BESIDE_REAL: Final = tuple(name for name, each in SIMULATORS.items() if each.beside_real)
#: The annotations of pods that only hold places for others.
PLACEHOLDERS: Final = frozenset(each.placeholder for each in SIMULATORS.values() if each.placeholder)
