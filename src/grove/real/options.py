"""What can be asked of a real control plane."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from grove.meta import Manifest
from grove.real.binaries import Locator
from grove.real.progress import say


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """One control plane; the defaults are what Grove's tests want."""

    minor: str = "1.36"
    #: Leave kube-scheduler out to play it.
    scheduler: bool = True
    #: A scheduler of others that runs in its place; see `third_party`.
    third_party: str = ""
    #: Schedulers of others that run beside that, each for the pods which name it.
    beside: Sequence[str] = ()
    #: Without it nothing is collected, no namespace ends, and no PodGroup loses its finalizer.
    controller_manager: bool = True
    #: CustomResourceDefinitions that are served before the controller manager starts: of those that come
    #: later its garbage collector learns after half a minute.
    kinds: Sequence[Manifest] = ()
    #: Where the API server listens on the loopback; 0 for any free port.
    port: int = 0
    #: Where the control plane keeps its files; a temporary folder unless given.
    directory: Path | None = None
    #: Where logs go and stay; `log` in the directory unless given.
    logs: Path | None = None
    #: Keep the directory with etcd's data, keys and logs afterwards; a later start goes on from there.
    keep: bool = False
    #: How long kube-scheduler lets an unschedulable pod rest at most. 1.37 multiplies it by the square root
    #: of the group's size.
    pod_max_backoff_seconds: int = 1
    #: Watch the nodes' leases as a cluster with kubelets does; needs somebody who renews them.
    node_lifecycle: bool = False
    #: Replace what the minor gets by default: None means the default, an empty mapping means nothing.
    gates: Mapping[str, bool] | None = None
    runtime_config: Mapping[str, bool] | None = None
    #: Further arguments by the name of the program; the last one given wins.
    arguments: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: How long one component may take to become ready.
    ready_seconds: float = 60.0
    locator: Locator = field(default_factory=Locator)
    say: Callable[[str], None] = say
