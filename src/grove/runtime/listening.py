"""An HTTP server of this process on one address: pages that are read, nothing that changes anything."""

from aiohttp import web


class Listener:
    """Serves the pages that a subclass adds; `port` is the real one after `start`.

    A blank host is every address, of IPv4 and of IPv6.
    """

    def __init__(self, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.host = host
        self.port = port
        self._runner: web.AppRunner | None = None

    def add_pages(self, router: web.UrlDispatcher) -> None:
        """Say what is served."""
        raise NotImplementedError

    async def start(self) -> None:
        """Listen; raises OSError if the address is taken."""
        app = web.Application()
        self.add_pages(app.router)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, self.host or None, self.port).start()
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner
        self.port = int(runner.addresses[0][1])

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
