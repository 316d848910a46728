"""The real control plane on this machine: what to install, how to start it, how to stop it.

`python -m grove.real install` builds the programs from the Go module registry into a cache;
`RealControlPlane` runs them on the loopback. Shares nothing with the operator or with the embedded cluster.
"""

from grove.real.binaries import Locator
from grove.real.control_plane import RealControlPlane
from grove.real.failure import BuildFailed, ComponentFailed, NotInstalled, RealFailure
from grove.real.install import Installer
from grove.real.options import Options
from grove.real.versions import MINORS

__all__ = [
    "MINORS",
    "BuildFailed",
    "ComponentFailed",
    "Installer",
    "Locator",
    "NotInstalled",
    "Options",
    "RealControlPlane",
    "RealFailure",
]
