"""The schedulers of others that can run in place of kube-scheduler: what each consists of. Pure data.

The versions repeat what the `go.mod` files in `modules/` pin; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from grove.real.failure import NotInstalled
from grove.real.versions import Tool

KAI_SCHEDULER: Final = "kai-scheduler"
KAI_BINDER: Final = "kai-binder"
VOLCANO_SCHEDULER: Final = "volcano-scheduler"
VOLCANO_CONTROLLERS: Final = "volcano-controller-manager"
KOORD_SCHEDULER: Final = "koord-scheduler"
YUNIKORN_SCHEDULER: Final = "yunikorn-scheduler"

_KAI: Final = "github.com/NVIDIA/KAI-scheduler"
_VOLCANO: Final = "volcano.sh/volcano"
_KOORDINATOR: Final = "github.com/koordinator-sh/koordinator"
_YUNIKORN: Final = "github.com/apache/yunikorn-k8shim"


@dataclass(frozen=True, slots=True)
class ThirdParty:
    """One scheduler: its programs, and the Kubernetes minors that it is run on here, the usual one first."""

    name: str
    title: str
    version: str
    minors: tuple[str, ...]
    programs: tuple[Tool, ...]

    @property
    def label(self) -> str:
        return f"{self.title} {self.version}"

    @property
    def minor(self) -> str:
        return self.minors[0]

    def check_minor(self, minor: str) -> None:
        """Raises when it is not run on a minor here."""
        if minor not in self.minors:
            raise NotInstalled(
                f"{self.label} is not run on Kubernetes {minor} here; choose {' or '.join(self.minors)}."
            )


def _crds(folder: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}.yaml" for name in names)


def _kai() -> ThirdParty:
    version = "0.12.0"
    crds = _crds(
        "deployments/kai-scheduler/crds",
        "kai.scheduler_topologies",
        "scheduling.run.ai_bindrequests",
        "scheduling.run.ai_podgroups",
        "scheduling.run.ai_queues",
    )
    programs = (
        Tool(KAI_SCHEDULER, version, "kai", f"{_KAI}/cmd/scheduler", _KAI, crds),
        Tool(KAI_BINDER, version, "kai", f"{_KAI}/cmd/binder", _KAI),
    )
    return ThirdParty("kai", "KAI Scheduler", version, ("1.36", "1.35"), programs)


def _volcano() -> ThirdParty:
    version = "1.14.1"
    crds = _crds(
        "config/crd/volcano/bases",
        "bus.volcano.sh_commands",
        "nodeinfo.volcano.sh_numatopologies",
        "scheduling.volcano.sh_podgroups",
        "scheduling.volcano.sh_queues",
        "topology.volcano.sh_hypernodes",
    )
    programs = (
        Tool(VOLCANO_SCHEDULER, version, "volcano", f"{_VOLCANO}/cmd/scheduler", _VOLCANO, crds),
        Tool(VOLCANO_CONTROLLERS, version, "volcano", f"{_VOLCANO}/cmd/controller-manager", _VOLCANO),
    )
    return ThirdParty("volcano", "Volcano", version, ("1.36", "1.35"), programs)


def _koordinator() -> ThirdParty:
    version = "1.8.0"
    # Without the devices it waits for ever, and says that it is healthy.
    crds = _crds(
        "config/crd/bases",
        "scheduling.koordinator.sh_clusternetworktopologies",
        "scheduling.koordinator.sh_devices",
        "scheduling.koordinator.sh_reservations",
        "scheduling.sigs.k8s.io_podgroups",
    )
    package = f"{_KOORDINATOR}/cmd/koord-scheduler"
    programs = (Tool(KOORD_SCHEDULER, version, "koordinator", package, _KOORDINATOR, crds),)
    return ThirdParty("koordinator", "Koordinator", version, ("1.36", "1.35"), programs)


def _yunikorn() -> ThirdParty:
    version = "1.8.0"
    # Our own few lines of main around its packages: its own main listens on every interface.
    programs = (Tool(YUNIKORN_SCHEDULER, version, "yunikorn", ".", _YUNIKORN),)
    return ThirdParty("yunikorn", "YuniKorn", version, ("1.35",), programs)


THIRD_PARTIES: Final = {each.name: each for each in (_kai(), _volcano(), _koordinator(), _yunikorn())}


def third_party(name: str) -> ThirdParty:
    """A scheduler by its name; says which there are when it is none of them."""
    try:
        return THIRD_PARTIES[name]
    except KeyError:
        known = ", ".join(THIRD_PARTIES)
        raise NotInstalled(f"{name!r} is not among the schedulers that can be run here: {known}.") from None


def chosen(names: Sequence[str]) -> tuple[ThirdParty, ...]:
    """The schedulers by their names; `all` for every one."""
    if "all" in names:
        return tuple(THIRD_PARTIES.values())
    return tuple(dict.fromkeys(third_party(name) for name in names))
