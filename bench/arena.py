"""One cluster for one measurement: started, furnished, watched for failures, and gone afterwards."""

import asyncio
import shutil
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import aiohttp

from bench.audit import AuditLog
from bench.load import Spent, spent
from bench.observer import BenchFailed
from bench.planes import Plane
from bench.processes import ChildProcess, Launch, started
from bench.profiling import PROFILE
from bench.results import Cost
from bench.usage import Usage, usage_of
from grove import __version__
from grove.api import kinds
from grove.cli.local import install_crds
from grove.kube.client import Client
from grove.kube.config import load
from grove.kube.limiter import Limiter
from grove.kube.transport import HttpTransport
from grove.meta import Object, resource

T = TypeVar("T")

_NAMESPACES: Final = resource("", "v1", "Namespace", namespaced=False)
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
  metrics: {{bindAddress: 127.0.0.1, port: {port}}}
"""
_ONE_SCHEDULER: Final = """\
scheduler: {{profiles: [{{name: {name}}}], defaultProfileName: {name}}}
"""


@dataclass(frozen=True, slots=True)
class Arena:
    """A running cluster with Grove's kinds in it."""

    plane: Plane
    cluster: ChildProcess
    client: Client
    folder: Path
    #: The programs of the control plane, by name.
    pids: Mapping[str, int]
    players: ChildProcess | None = None

    @property
    def children(self) -> tuple[ChildProcess, ...]:
        """Who must not end before the measurement does."""
        return (self.cluster,) if self.players is None else (self.cluster, self.players)

    @property
    def operator_kubeconfig(self) -> Path:
        return self.folder / ("operator.kubeconfig" if self.plane.real else "kubeconfig")

    @property
    def home(self) -> str:
        """The operator's own namespace; on a real control plane it may keep its certificate nowhere else."""
        return "grove-system" if self.plane.real else "default"

    def usages(self) -> dict[str, Usage]:
        """What every program but the operator has used so far."""
        return {name: usage_of(pid) for name, pid in self.pids.items()}

    def spent(self, *more: ChildProcess) -> Spent:
        """What the machine has used so far, and of that all programs of this measurement."""
        children = [child.pid for child in (*self.children, *more)]
        return spent((*self.pids.values(), *children))

    def costs_since(self, before: Mapping[str, Usage]) -> dict[str, Cost]:
        """What they needed since then."""
        return {name: Cost(now.cpu - before[name].cpu, now.peak) for name, now in self.usages().items()}

    @asynccontextmanager
    async def operator(
        self, *, profile: Path | None = None, settings: str = ""
    ) -> AsyncIterator[ChildProcess]:
        """The operator as its own process, ready for work; ended in order with the block.

        `settings` are further lines of its configuration.
        """
        port, config = free_port(), self.folder / "operator.yaml"
        text = _CONFIGURATION.format(port=port) + settings
        if self.plane.scheduler:
            text += _ONE_SCHEDULER.format(name=self.plane.scheduler)
        config.write_text(text)
        launch = Launch(
            "operator",
            "bench.operator_process",
            ("--kubeconfig", str(self.operator_kubeconfig), "--config", str(config), "-n", self.home),
            _profiled(profile),
        )
        async with started(launch, self.folder) as operator:
            waiting = _until_ready(f"http://127.0.0.1:{port}/readyz")
            await within(
                _READY_SECONDS, waiting, unless=(operator,), hope=lambda: "the operator is not ready"
            )
            yield operator

    async def make_namespaces(self, names: Iterable[str]) -> None:
        """Have these namespaces, with the account that their pods get; `default` is there already."""
        for name in {*names} - {"default"}:
            await self.client.create(
                _NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            )
            # A real API server admits no pod before its controller manager has made this account.
            while self.plane.real and not await self._has_account(name):  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    async def _has_account(self, namespace: str) -> bool:
        page = await self.client.list(kinds.SERVICE_ACCOUNTS, type=Object, namespace=namespace)
        return any(each.name == "default" for each in page.items)

    async def quiet_writes(self, operator: ChildProcess) -> dict[str, int]:
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
async def arena(plane: Plane, *, profile: Path | None = None) -> AsyncIterator[Arena]:
    """A fresh cluster in processes of its own and a client of it; all are gone afterwards."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="grove-bench-")))
        seen = _profiled(profile)
        launch = Launch(
            "cluster",
            plane.module,
            (str(folder), plane.minor, plane.scheduler, *plane.settings),
            {} if plane.real else seen,
            answers=True,
        )
        cluster = await stack.enter_async_context(started(launch, folder))
        await cluster.answer()
        pids, players = dict(await cluster.ask("pids")), None
        if plane.real:
            arguments = (str(folder / "kubeconfig"), plane.minor)
            launch = Launch("players", plane.players.module, arguments, seen, answers=True)
            players = await stack.enter_async_context(started(launch, folder))
            # Who plays may be a program of its own, which that process has started.
            pids["players"] = (await players.answer()).get("pid", players.pid)
        client = Client(
            HttpTransport(load(str(folder / "kubeconfig"))),
            limiter=Limiter.off(),
            field_manager="grove-bench",
            user_agent=f"grove-bench/{__version__}",
        )
        stack.push_async_callback(client.close)
        if not plane.real:
            await install_crds(client)
        yield Arena(plane, cluster, client, folder, pids, players)
        _keep_audit(folder, profile)


def _keep_audit(folder: Path, profile: Path | None) -> None:
    """Beside a profile: when each request came and was answered."""
    log = AuditLog(folder).file
    if profile is not None and log.exists():
        shutil.copy(log, profile.with_suffix(".audit.log"))


async def within(
    seconds: float, work: Awaitable[T], *, unless: Sequence[ChildProcess], hope: Callable[[], str]
) -> T:
    """The result of the work; a failure that says how far it came if it takes too long or a child ends."""
    task = asyncio.ensure_future(work)
    ends = [asyncio.ensure_future(child.ended()) for child in unless]
    try:
        await asyncio.wait({task, *ends}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        for child, ended in zip(unless, ends, strict=True):
            if ended.done():
                raise child.failed()
        first = unless[0]
        words = first.last_words()
        raise BenchFailed(
            f"gave up after {seconds:.0f} s: {hope()}; the {first.name} said last: {words or 'nothing'}"
        )
    finally:
        for each in (task, *ends):
            each.cancel()
        await asyncio.gather(task, *ends, return_exceptions=True)


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


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
