"""kwok as the player of 100 nodes and their kubelets, in place of our own simulator.

    python -m bench.kwok_process KUBECONFIG MINOR

Creates the nodes, starts kwok (after `python -m grove.real tool kwok`), and writes one line of JSON with its
process when it is ready; ends, with kwok, with its standard input. The Go operator was measured with kwok.
"""

import asyncio
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from bench.arena import free_port
from bench.cases import NODES
from bench.observer import BenchFailed
from bench.pipe import answer, questions, until_told
from grove.cli.loop import run_loop
from grove.embedded.clock import SystemClock, rfc3339
from grove.embedded.nodes import NodeShape, node_objects
from grove.errors import GroveError
from grove.kube.client import Client
from grove.kube.config import load
from grove.kube.transport import HttpTransport
from grove.meta import resource
from grove.real.binaries import Locator
from grove.real.component import Component
from grove.real.versions import kwok_tool

_NODES: Final = resource("", "v1", "Node", namespaced=False)
_READY_SECONDS: Final = 30.0
_GRACE_SECONDS: Final = 5.0


async def _play(kubeconfig: Path, minor: str) -> None:
    await _create_nodes(kubeconfig, minor)
    async with _kwok(kubeconfig) as kwok:
        answer({"pid": kwok.pid or 0})
        listening = asyncio.create_task(_until_alone())
        broken = asyncio.create_task(kwok.unexpected_end())
        await asyncio.wait({listening, broken}, return_when=asyncio.FIRST_COMPLETED)
        broken.cancel()
        if not listening.done():
            listening.cancel()
            raise broken.result()


async def _until_alone() -> None:
    async for _ in questions():
        answer({})


async def _create_nodes(kubeconfig: Path, minor: str) -> None:
    client = Client(HttpTransport(load(str(kubeconfig))), field_manager="grove-bench")
    try:
        now = rfc3339(SystemClock().now())
        for node in node_objects(NodeShape(nodes=NODES), version=f"v{minor}.0", now=now):
            await client.create(_NODES, node)
    finally:
        await client.close()


@asynccontextmanager
async def _kwok(kubeconfig: Path) -> AsyncIterator[Component]:
    found, port = Locator().find(kwok_tool()), free_port()
    if found is None:
        raise BenchFailed("kwok is not installed; `python -m grove.real tool kwok` builds it")
    command = (
        str(found.path),
        f"--kubeconfig={kubeconfig}",
        "--manage-all-nodes=true",
        "--node-lease-duration-seconds=40",
        # It would listen on every interface.
        f"--server-address=127.0.0.1:{port}",
        "--node-ip=127.0.0.1",
    )
    kwok = Component("kwok", command, kubeconfig.parent / "kwok.log")
    await kwok.start()
    try:
        await kwok.ready(lambda: asyncio.to_thread(_healthy, port), within=_READY_SECONDS)
        yield kwok
    finally:
        await kwok.stop(grace=_GRACE_SECONDS)


def _healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1) as said:
            return bool(said.status == 200)
    except OSError:
        return False


async def _until_told(kubeconfig: Path, minor: str) -> int:
    try:
        await until_told(_play(kubeconfig, minor))
    except (GroveError, BenchFailed) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(run_loop(_until_told(Path(sys.argv[1]), sys.argv[2])))
