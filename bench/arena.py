"""One cluster for one measurement: started, furnished, watched for failures, and gone afterwards."""

import asyncio
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import aiohttp

from bench.observer import BenchFailed
from bench.processes import Child, Launch, started
from bench.profiling import PROFILE
from grove import __version__
from grove.cli.local import install_crds
from grove.kube.client import Client
from grove.kube.config import load
from grove.kube.limiter import Limiter
from grove.kube.transport import HttpTransport

T = TypeVar("T")

_READY_SECONDS: Final = 60.0
_LOOK_AGAIN_SECONDS: Final = 0.05
_QUIET_LOOK_SECONDS: Final = 0.5
#: A status may be held back for five seconds while the operator is busy; it is quiet after more than that.
_QUIET_SECONDS: Final = 6.0
#: The defaults of `grove run`, but for probes that listen on the loopback only.
_CONFIGURATION: Final = """\
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
server:
  healthProbes: {{bindAddress: 127.0.0.1, port: {port}}}
"""


@dataclass(frozen=True, slots=True)
class Arena:
    """A running cluster with Grove's kinds in it."""

    cluster: Child
    client: Client
    folder: Path

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @asynccontextmanager
    async def operator(self, *, profile: Path | None = None) -> AsyncIterator[Child]:
        """The operator as its own process, ready for work; ended in order with the block."""
        port, config = _free_port(), self.folder / "operator.yaml"
        config.write_text(_CONFIGURATION.format(port=port))
        launch = Launch(
            "operator",
            "bench.operator_process",
            ("--kubeconfig", str(self.kubeconfig), "--config", str(config)),
            _profiled(profile),
        )
        async with started(launch, self.folder) as operator:
            waiting = _until_ready(f"http://127.0.0.1:{port}/readyz")
            await within(_READY_SECONDS, waiting, unless=operator, hope=lambda: "the operator is not ready")
            yield operator

    async def quiet_writes(self, operator: Child) -> dict[str, int]:
        """What the operator has written once it writes nothing more."""
        counts, since = dict(await self.cluster.ask("writes")), time.monotonic()
        while time.monotonic() - since < _QUIET_SECONDS:
            await asyncio.sleep(_QUIET_LOOK_SECONDS)
            if operator.over:
                raise operator.failed()
            now = dict(await self.cluster.ask("writes"))
            if now != counts:
                counts, since = now, time.monotonic()
        return counts


@asynccontextmanager
async def arena(minor: str, *, profile: Path | None = None) -> AsyncIterator[Arena]:
    """A fresh cluster in its own process and a client of it; both are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="grove-bench-") as name:
        folder = Path(name)
        arguments = (str(folder / "kubeconfig"), minor)
        launch = Launch("cluster", "bench.cluster_process", arguments, _profiled(profile))
        async with started(launch, folder) as cluster:
            await cluster.answer()
            transport = HttpTransport(load(str(folder / "kubeconfig")))
            client = Client(
                transport,
                limiter=Limiter.off(),
                field_manager="grove-bench",
                user_agent=f"grove-bench/{__version__}",
            )
            try:
                await install_crds(client)
                yield Arena(cluster, client, folder)
            finally:
                await client.close()


async def within(seconds: float, work: Awaitable[T], *, unless: Child, hope: Callable[[], str]) -> T:
    """The result of the work; a failure that says how far it came if it takes too long or the child ends."""
    task, ended = asyncio.ensure_future(work), asyncio.ensure_future(unless.ended())
    try:
        await asyncio.wait({task, ended}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if ended.done():
            raise unless.failed()
        words = unless.last_words()
        raise BenchFailed(
            f"gave up after {seconds:.0f} s: {hope()}; the {unless.name} said last: {words or 'nothing'}"
        )
    finally:
        for each in (task, ended):
            each.cancel()
        await asyncio.gather(task, ended, return_exceptions=True)


async def _until_ready(url: str) -> None:
    async with aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(url) as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientConnectionError:
                pass
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)


def _profiled(file: Path | None) -> dict[str, str]:
    return {PROFILE: str(file)} if file is not None else {}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
