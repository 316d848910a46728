"""Reach a cluster from the command line: kubeconfig and context in, a client out."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from grove import __version__
from grove.kube.client import Client
from grove.kube.config import Connection, load
from grove.kube.limiter import Limiter
from grove.kube.transport import HttpTransport


@dataclass(frozen=True, slots=True)
class Reached:
    """A client and what it was made from."""

    client: Client
    connection: Connection
    #: What holds the client back; may be changed while it is in use.
    limiter: Limiter = field(default_factory=Limiter.off)


@asynccontextmanager
async def connected(
    kubeconfig: str | None, context: str | None, *, manager: str = "grove", limiter: Limiter | None = None
) -> AsyncIterator[Reached]:
    """A client of the cluster that the options mean; closed at the end."""
    connection = load(kubeconfig, context)
    agent = f"{manager}/{__version__}"
    pace = limiter if limiter is not None else Limiter()
    client = Client(HttpTransport(connection), limiter=pace, field_manager=manager, user_agent=agent)
    try:
        yield Reached(client, connection, pace)
    finally:
        await client.close()
