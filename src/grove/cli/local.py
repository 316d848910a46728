"""A cluster on this machine for `up` and `demo`: the embedded one, with Grove's kinds installed.

Whoever uses it talks to it over HTTPS with the kubeconfig that it wrote, like anybody else. Everything that
was started or written is gone when the block is left.
"""

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grove.api import kinds
from grove.api.config import OperatorConfiguration, load
from grove.api.crd import definitions
from grove.backends.default import DefaultBackend
from grove.backends.registry import BUILT_INS
from grove.backends.sample import sample_of
from grove.cli.talk import Failed
from grove.kube.client import Client
from grove.meta import Resource, resource
from grove.words import file_problem

if TYPE_CHECKING:
    from grove.embedded.cluster import ClusterOptions, EmbeddedCluster

CRDS: Final = resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", namespaced=False)
MINORS: Final = ("1.35", "1.36", "1.37")

#: Topology, text logs; probes on any free port of the loopback.
_FURTHER: Final = """
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
logFormat: text
runtimeClientConnection: {qps: 0}
server:
  healthProbes: {bindAddress: 127.0.0.1, port: 0}
  metrics: {bindAddress: 127.0.0.1, port: 0}
topologyAwareScheduling: {enabled: true}
"""
#: A new kind is served a moment after its definition was accepted.
_LOOKS: Final = 200
_LOOK_AGAIN_SECONDS: Final = 0.05


def configuration(scheduler: str = "", *, real: bool = False) -> OperatorConfiguration:
    """How the operator is configured on a local cluster unless a file says otherwise.

    Only schedulers that run or are played there are enabled. Where one runs in place of all others, it is
    the one for every set.
    """
    names = (scheduler,) if scheduler else _schedulers(real=real)
    profiles = [{"name": name, "config": dict(sample_of(name).local_config)} for name in names]
    chosen = {"profiles": profiles, "defaultProfileName": names[0]}
    return load(f"{_FURTHER}scheduler: {json.dumps(chosen)}\n")


def _schedulers(*, real: bool) -> tuple[str, ...]:
    """The backends whose schedulers run or are simulated, Kubernetes' own first."""
    if not real:
        return tuple(BUILT_INS)
    from grove.embedded.actors.schedulers.simulators import BESIDE_REAL

    return (DefaultBackend.name, *BESIDE_REAL)


@contextlib.asynccontextmanager
async def local_cluster(options: "ClusterOptions", kubeconfig: Path) -> "AsyncIterator[EmbeddedCluster]":
    """A running cluster whose kubeconfig is in the file; both are gone afterwards."""
    from grove.embedded.cluster import EmbeddedCluster, RefusedToStart
    from grove.embedded.server.http import PortInUse
    from grove.embedded.storage.journal import DirectoryInUse

    try:
        cluster = await EmbeddedCluster(options).start()
    except RefusedToStart as error:
        raise Failed(f"{error} (--force)") from None
    except (PortInUse, DirectoryInUse) as error:
        raise Failed(str(error)) from None
    except sqlite3.Error as error:
        raise Failed(f"the data in {options.data_dir} cannot be used: {error}") from None
    except OSError as error:
        raise Failed(f"the embedded cluster cannot start: {file_problem(error)}") from None
    try:
        try:
            cluster.kubeconfig(kubeconfig)
        except OSError as error:
            raise Failed(f"the kubeconfig cannot be written: {file_problem(error)}") from None
        try:
            yield cluster
        finally:
            _remove(kubeconfig)
    finally:
        await cluster.stop()


def _remove(file: Path) -> None:
    file.unlink(missing_ok=True)


def require_embedded() -> None:
    """Raise the sentence that helps where the embedded cluster was left out, as in a production image."""
    try:
        import grove.embedded.cluster  # noqa: F401
        from grove.embedded.machinery.cel import environment

        # Its package is loaded when a rule is compiled, which would be too late for a sentence.
        environment()
    except ImportError as error:
        raise Failed(
            f"the embedded cluster needs {error.name}, which is not installed: "
            "pip install 'grove-operator[embedded]'"
        ) from None


async def install_crds(client: Client) -> None:
    """Put in what the operator needs, and wait until it is served."""
    for each in definitions():
        await client.apply(CRDS, each, force=True)
    for _ in range(_LOOKS):
        if await _serves(client, kinds.OURS):
            return
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)
    raise Failed("the cluster accepted Grove's CustomResourceDefinitions but does not serve them")


async def _serves(client: Client, needed: Iterable[Resource]) -> bool:
    served = (await client.discover()).served
    return all(each.plural in served.get(each.api_version, ()) for each in needed)
