"""The one client of an API server: every verb, on any transport.

Promises typed errors (`grove.errors`) and typed answers: `type` is a View, or `dict` for plain mappings.
Keeps no cache and starts no task. The verbs themselves are in `reading` and `writing`.
"""

import copy
from datetime import datetime

from grove import __version__
from grove.kube import discovery
from grove.kube.discovery import Discovery, VersionInfo
from grove.kube.exchange import Exchange, RequestObserver
from grove.kube.fence import Fence
from grove.kube.limiter import Limiter
from grove.kube.reading import Listing, Reads
from grove.kube.retry import RetryPolicy
from grove.kube.transport import Transport
from grove.kube.watch import WatchEvent
from grove.kube.writing import IGNORING, Writes, Written

__all__ = ["Client", "Discovery", "Listing", "VersionInfo", "WatchEvent", "Written"]


class Client(Reads, Writes):
    """Speaks to one API server; the limiter is generous unless given, and `Limiter.off()` means none."""

    def __init__(
        self,
        transport: Transport,
        *,
        limiter: Limiter | None = None,
        retries: RetryPolicy | None = None,
        field_manager: str = "grove-operator",
        user_agent: str = f"grove-operator/{__version__}",
    ) -> None:
        self._manager = (("fieldManager", field_manager),)
        self._exchange = Exchange(
            transport,
            limiter=limiter if limiter is not None else Limiter(),
            retries=retries if retries is not None else RetryPolicy(),
            user_agent=user_agent,
        )

    def fenced(self, fence: Fence) -> "Client":
        """The same client for somebody who may write only while the fence is open; reading is always allowed.

        Both share connections and rate limit; closing one closes both.
        """
        fenced = copy.copy(self)
        fenced._exchange = self._exchange.fenced(fence)
        return fenced

    def observed(self, observer: RequestObserver) -> "Client":
        """The same client for somebody whose requests are counted; closing one closes both."""
        observed = copy.copy(self)
        observed._exchange = self._exchange.observed(observer)
        return observed

    def trusted(self) -> "Client":
        """The same client for somebody who builds what it writes; closing one closes both.

        Fields that the server does not know are not looked for, unless a write asks for that: it costs the
        server a second decoding of the whole object.
        """
        trusted = copy.copy(self)
        trusted._unknown = IGNORING
        return trusted

    async def discover(self) -> Discovery:
        """What the cluster serves now."""
        return await discovery.discover(self._exchange)

    async def version(self) -> VersionInfo:
        """The server's version."""
        return await discovery.version(self._exchange)

    async def server_time(self) -> datetime | None:
        """What time it is for the server, to the second; None if it does not say."""
        return await discovery.server_time(self._exchange)

    async def close(self) -> None:
        """Close the transport."""
        await self._exchange.close()
