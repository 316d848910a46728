"""Serves the webhooks over HTTPS, on every replica of the operator, leading or not.

Every AdmissionReview gets an answer: what cannot be read is a 4xx with a sentence, a defect of ours a
refusal that says so. A new certificate is used for the next connection; nothing is restarted for it. Until
there is a certificate, and the caches are filled, nothing is listened on.
"""

import asyncio
import errno
import logging
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from aiohttp import web

from grove.errors import FieldError, Terminal
from grove.runtime.metrics import Metrics
from grove.webhook.review import KIND, Answer, NotAReview, Request, read, written
from grove.webhook.serving import CertificateSource, ServingCertificate

log = logging.getLogger(__name__)

Review = Callable[[Request], Awaitable[Answer]]

#: An object is 3 MiB at most, and a review holds two of them.
_LARGEST_BODY: Final = 16 * 1024 * 1024
_JSON: Final = "application/json"
_CANNOT_LISTEN: Final = {
    errno.EADDRINUSE: "is already in use",
    errno.EACCES: "may not be used by this user",
    errno.EADDRNOTAVAIL: "is on an address that this machine does not have",
}
#: What the metric tells of an answer.
_ALLOWED, _REFUSED, _UNREADABLE, _DEFECT = "allowed", "refused", "unreadable", "defect"


class CannotServe(Terminal):
    """The webhooks cannot be served where the configuration says."""

    code = "ERR_WEBHOOKS"


class WebhookServer:
    """The HTTPS server of one process; `port` is the real one once it listens."""

    def __init__(
        self,
        reviews: Mapping[str, Review],
        certificates: CertificateSource,
        metrics: Metrics,
        *,
        synced: Callable[[], Awaitable[None]],
        host: str = "",
        port: int = 0,
    ) -> None:
        self.host = host
        self.port = port
        #: Set once connections are accepted.
        self.listening = asyncio.Event()
        self._reviews = reviews
        self._certificates = certificates
        #: Returns once everything is known that answers depend on.
        self._synced = synced
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.minimum_version = ssl.TLSVersion.TLSv1_2
        self._certified = asyncio.Event()
        self._requests = metrics.counter(
            "grove_webhook_requests_total", "Requests of API servers, by path and answer.", ("path", "answer")
        )
        self._seconds = metrics.histogram(
            "grove_webhook_duration_seconds", "How long a request of an API server took.", ("path",)
        )

    async def run(self) -> None:
        """Serve until cancelled; raises CannotServe if the address cannot be listened on."""
        self._certificates.subscribe(self._renewed)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._certificates.run(), name="webhook certificates")
                group.create_task(self._serve(), name="webhook server")
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    def lacking(self) -> str | None:
        """The readiness check: what keeps API servers from being answered."""
        missing = self._certificates.lacking()
        if missing is not None or self.listening.is_set():
            return missing
        return "the webhooks are not served yet"

    def _renewed(self, certificate: ServingCertificate) -> None:
        """Use this certificate for every connection from now on."""
        with tempfile.TemporaryDirectory(prefix="grove-webhook-") as folder:
            # OpenSSL takes certificates from files only; the folder is this user's alone.
            chain, key = Path(folder) / "tls.crt", Path(folder) / "tls.key"
            chain.write_bytes(certificate.chain)
            key.write_bytes(certificate.key)
            try:
                self._tls.load_cert_chain(chain, key)
            except (ssl.SSLError, ValueError) as error:
                log.error("the webhook certificate cannot be used", extra={"error": str(error)})
                return
        log.info("webhook certificate loaded", extra={"not_after": certificate.not_after.isoformat()})
        self._certified.set()

    async def _serve(self) -> None:
        await self._certified.wait()
        await self._synced()
        app = web.Application(client_max_size=_LARGEST_BODY)
        app.router.add_route("*", "/{path:.*}", self._answered)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=5.0)
        await runner.setup()
        try:
            await self._listen(runner)
            await asyncio.get_running_loop().create_future()
        finally:
            self.listening.clear()
            await runner.cleanup()

    async def _listen(self, runner: web.AppRunner) -> None:
        try:
            await web.TCPSite(runner, self.host or None, self.port, ssl_context=self._tls).start()
        except OSError as error:
            why = _CANNOT_LISTEN.get(error.errno or 0, error.strerror or str(error))
            raise CannotServe(
                f"port {self.port} for webhooks {why}; choose another with server.webhooks.port and "
                "server.webhooks.bindAddress in the operator's configuration"
            ) from None
        self.port = int(runner.addresses[0][1])
        self.listening.set()
        log.info("webhooks are served", extra={"host": self.host, "port": self.port})

    async def _answered(self, request: web.Request) -> web.Response:
        path, started = request.path, time.perf_counter()
        review = self._reviews.get(path)
        if review is None:
            return web.Response(status=404, text=f"no webhook is served here; there are {self._listed()}\n")
        if request.method != "POST":
            why = f"an {KIND} is posted here, not sent by {request.method}\n"
            return web.Response(status=405, text=why, headers={"Allow": "POST"})
        if request.content_type != _JSON:
            return web.Response(status=415, text=f"must be {_JSON}; it is {request.content_type}\n")
        try:
            asked = read(await request.read())
        except NotAReview as error:
            self._requests.labels(path, _UNREADABLE).inc()
            return web.Response(status=400, text=f"{error}\n")
        answer, kind = await self._reviewed(review, asked)
        self._requests.labels(path, kind).inc()
        self._seconds.labels(path).observe(time.perf_counter() - started)
        return web.Response(body=written(asked, answer), content_type=_JSON)

    async def _reviewed(self, review: Review, asked: Request) -> tuple[Answer, str]:
        """The answer; a defect of ours refuses, because what was not looked at must not be stored."""
        try:
            answer = await review(asked)
        except Exception as defect:
            where = f"{asked.resource.resource} {asked.namespace}/{asked.name}"
            log.exception("a webhook failed; the object was refused", extra={"object": where})
            why = f"could not be looked at, by a defect of Grove ({type(defect).__name__}); see its log"
            return Answer((FieldError("", why),)), _DEFECT
        return answer, _ALLOWED if answer.allowed else _REFUSED

    def _listed(self) -> str:
        return ", ".join(sorted(self._reviews))
