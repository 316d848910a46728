"""Whether the process lives, whether it is ready and why not, and its metrics, over plain HTTP.

`/healthz` answers as long as the event loop turns. `/readyz` is 200 only when every check passes; otherwise
503, and its body says what is missing, one sentence a line. Carries no secrets and changes nothing.
"""

from collections.abc import Callable, Mapping

from grove.runtime.listening import Listener, Page
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


def _metrics_page(metrics: Metrics) -> Page:
    return Page(metrics.render(), content_type=CONTENT_TYPE)


class MetricsServer(Listener):
    """Metrics alone, on an address that probes are not on."""

    def __init__(self, metrics: Metrics, *, host: str = "127.0.0.1", port: int = 0) -> None:
        super().__init__(host=host, port=port)
        self._metrics = metrics

    def pages(self) -> Mapping[str, Callable[[], Page]]:
        return {"/metrics": lambda: _metrics_page(self._metrics)}


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

    def pages(self) -> Mapping[str, Callable[[], Page]]:
        found: dict[str, Callable[[], Page]] = {"/healthz": _alive, "/readyz": self._ready}
        metrics = self._metrics
        if metrics is not None:
            found["/metrics"] = lambda: _metrics_page(metrics)
        return found

    def _ready(self) -> Page:
        missing = self._readiness.missing()
        if missing:
            lines = "".join(f"- {line}\n" for line in missing)
            return Page(f"not ready:\n{lines}".encode(), 503)
        return _alive()


def _alive() -> Page:
    return Page(b"ok\n")
