"""What cluster `grove up` was asked for, and the control plane that this means."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from grove.cli.planes import Kind
from grove.cli.talk import Failed
from grove.errors import GroveError

if TYPE_CHECKING:
    from grove.api.config import OperatorConfiguration
    from grove.cli.planes import Plane, RealRequest
    from grove.embedded.nodes import NodeShape

USUAL_MINOR = "1.36"


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of the command that say what cluster it is about."""

    kind: Kind
    minor: str
    #: A scheduler of others; empty for Kubernetes' own.
    scheduler: str
    #: Nodes, GPUs, zones, racks.
    numbers: tuple[int, int, int, int]
    port: int
    data_dir: Path | None
    write_kubeconfig: Path | None
    force: bool
    kubeconfig: str | None
    context: str | None
    install_crds: bool
    play_nodes: bool

    @property
    def shape(self) -> "NodeShape":
        from grove.embedded.nodes import NodeShape

        nodes, gpus, zones, racks = self.numbers
        return NodeShape(nodes=nodes, gpus=gpus, zones=zones, racks=racks)

    def plane(
        self, folder: Path, configuration: "OperatorConfiguration"
    ) -> "AbstractAsyncContextManager[Plane]":
        """The control plane that was asked for; files that are not asked for go to the folder."""
        from grove.cli import planes

        kubeconfig = self.write_kubeconfig or folder / "kubeconfig"
        if self.kind is Kind.KUBECONFIG:
            shape = self.shape if self.play_nodes else None
            return planes.guest_plane(planes.GuestRequest(self.kubeconfig, self.context, shape))
        if self.kind is Kind.REAL:
            return planes.real_plane(self._real(configuration), kubeconfig)
        from grove.embedded.cluster import ClusterOptions

        nodes, gpus, zones, racks = self.numbers
        options = ClusterOptions(
            kubernetes=self.minor,
            nodes=nodes,
            gpus=gpus,
            zones=zones,
            racks=racks,
            port=self.port,
            data_dir=self.data_dir,
            force=self.force,
        )
        return planes.embedded_plane(options, kubeconfig)

    def _real(self, configuration: "OperatorConfiguration") -> "RealRequest":
        from grove.cli.planes import RealRequest
        from grove.embedded.actors.schedulers.simulators import BESIDE_REAL
        from grove.extensions import registry_for

        enabled = {each.name for each in registry_for(configuration.scheduler).enabled}
        return RealRequest(
            self.minor,
            self.shape,
            port=self.port,
            data_dir=self.data_dir,
            # Two of a kind would fight over the same pods: what runs is not played.
            simulated=tuple(name for name in BESIDE_REAL if name in enabled and name != self.scheduler),
            scheduler=self.scheduler,
            force=self.force,
        )


def minor_for(scheduler: str, minor: str | None) -> str:
    """The minor that is meant; raises Failed when the scheduler is not run on it."""
    if not scheduler:
        return minor or USUAL_MINOR
    from grove.real.third_party import third_party

    known = third_party(scheduler)
    try:
        known.check_minor(minor or known.minor)
    except GroveError as error:
        raise Failed(str(error)) from None
    return minor or known.minor
