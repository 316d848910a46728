"""An embedded cluster in a thread of its own, for tests that come to it over HTTPS."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.contract.contract import Server

from grove.embedded.cluster import ClusterOptions, EmbeddedCluster
from grove.kube import config

START_SECONDS = 30.0
BARE = ClusterOptions(nodes=0, schedulers=())
"""No nodes and no scheduler: pods stay where a check puts them."""


@dataclass(frozen=True, slots=True)
class Served:
    """A running cluster, and the kubeconfig of its administrator."""

    cluster: EmbeddedCluster
    loop: asyncio.AbstractEventLoop
    kubeconfig: Path

    def server(self) -> Server:
        """The cluster as checks see it."""
        connection = config.load(str(self.kubeconfig))
        return Server(connection, self.cluster.options.kubernetes, forget=self._forget)

    async def _forget(self) -> None:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._compact(), self.loop))

    async def _compact(self) -> None:
        self.cluster.compact()


@contextmanager
def served(kubeconfig: Path, options: ClusterOptions = BARE) -> Iterator[Served]:
    """Runs a cluster until the block ends."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="embedded cluster", daemon=True)
    thread.start()

    def run(what: Awaitable[object]) -> None:
        async def awaited() -> None:
            await what

        asyncio.run_coroutine_threadsafe(awaited(), loop).result(START_SECONDS)

    cluster = EmbeddedCluster(options)
    try:
        run(cluster.start())
        cluster.kubeconfig(kubeconfig)
        yield Served(cluster, loop, kubeconfig)
    finally:
        run(cluster.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(START_SECONDS)
        loop.close()
