"""Whether the process lives, whether it is ready and why not, and its metrics, over plain HTTP.

`/healthz` answers as long as the event loop turns. `/readyz` is 200 only when every check passes; otherwise
503, and its body says what is missing, one sentence a line. Carries no secrets and changes nothing.
"""

from collections.abc import Callable

from aiohttp import web

from grove.runtime.listening import Listener
from grove.runtime.metrics import CONTENT_TYPE, Metrics

#: None when all is well, otherwise one or several sentences that say what is missing.
Check = Callable[[], str | list[str] | None]


class Readiness:
    """The named checks that must all pass."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {}

    def add(self, name: str, check: Check) -> None:
        """Be ready only when this check passes too."""
        self._checks[name] = check

    def missing(self) -> list[str]:
        """What is missing, as `name: sentence`; empty when ready.

        A check that fails to run counts as missing.
        """
        lines: list[str] = []
        for name, check in self._checks.items():
            try:
                answer = check()
            except Exception as error:
                answer = f"the check itself failed: {type(error).__name__}: {error}"
            sentences = [answer] if isinstance(answer, str) else answer or []
            lines += [f"{name}: {sentence}" for sentence in sentences]
        return lines


def _add_metrics(router: web.UrlDispatcher, metrics: Metrics) -> None:
    """Serve these metrics."""

    async def page(request: web.Request) -> web.Response:
        return web.Response(body=metrics.render(), headers={"Content-Type": CONTENT_TYPE})

    router.add_get("/metrics", page)


class MetricsServer(Listener):
    """Metrics alone, on an address that probes are not on."""

    def __init__(self, metrics: Metrics, *, host: str = "127.0.0.1", port: int = 0) -> None:
        super().__init__(host=host, port=port)
        self._metrics = metrics

    def add_pages(self, router: web.UrlDispatcher) -> None:
        _add_metrics(router, self._metrics)


class HealthServer(Listener):
    """Probes; metrics with them only where both have one address.

    Everybody may probe, because nobody knows where a kubelet asks from: who may read metrics can be limited
    by their port only if they are nowhere else.
    """

    def __init__(
        self, readiness: Readiness, metrics: Metrics | None = None, *, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        super().__init__(host=host, port=port)
        self._readiness = readiness
        self._metrics = metrics

    def add_pages(self, router: web.UrlDispatcher) -> None:
        if self._metrics is not None:
            _add_metrics(router, self._metrics)
        router.add_get("/healthz", self._healthz)
        router.add_get("/readyz", self._readyz)

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        missing = self._readiness.missing()
        if missing:
            return web.Response(status=503, text="not ready:\n" + "".join(f"- {line}\n" for line in missing))
        return web.Response(text="ok\n")
