"""What every source of a certificate does with it: hand it to the server, measure it, say what is wrong."""

import logging
from collections.abc import Callable

from grove.runtime.clock import Clock, rfc3339
from grove.runtime.metrics import Metrics
from grove.webhook.certificates.inspection import certificates_in
from grove.webhook.serving import ServingCertificate

log = logging.getLogger(__name__)

#: Tells people beside the log, for example by an event on the operator's own pod.
Tell = Callable[[str], None]


def measured_by(metrics: Metrics) -> Callable[[ServingCertificate], None]:
    """A subscriber that keeps the metric of when certificates end."""
    ends = metrics.gauge(
        "grove_webhook_certificate_expiry_seconds",
        "When the certificate of the webhooks and its authority end, in seconds since 1970.",
        ("certificate",),
    )

    def changed(certificate: ServingCertificate) -> None:
        ends.labels("server").set(certificate.not_after.timestamp())
        for authority in certificates_in(certificate.ca)[:1]:
            ends.labels("ca").set(authority.not_valid_after_utc.timestamp())

    return changed


class Publisher:
    """The certificate in use, and those who want to know of it."""

    def __init__(self, clock: Clock) -> None:
        self.certificate: ServingCertificate | None = None
        #: What is wrong, as a sentence; None while all is well.
        self.problem: str | None = None
        self._clock = clock
        self._tell: Tell | None = None
        self._subscribers: list[Callable[[ServingCertificate], None]] = []

    def subscribe(self, changed: Callable[[ServingCertificate], None]) -> None:
        """Tell of every new certificate, and of the present one at once."""
        self._subscribers.append(changed)
        if self.certificate is not None:
            changed(self.certificate)

    def tell(self, tell: Tell) -> None:
        """Say what is wrong in this way too, from now on and at once."""
        self._tell = tell
        if self.problem is not None:
            tell(self.problem)

    def publish(self, certificate: ServingCertificate) -> None:
        """Serve this from now on."""
        if certificate == self.certificate:
            return
        if self.certificate is None or certificate.chain != self.certificate.chain:
            log.info(
                "webhooks are served with another certificate",
                extra={"not_after": rfc3339(certificate.not_after)},
            )
        self.certificate = certificate
        for changed in self._subscribers:
            changed(certificate)

    def report(self, problem: str | None) -> None:
        """Keep what is wrong; said when it is something else than before."""
        if problem is not None and problem != self.problem:
            log.error("the certificate of the webhooks cannot be kept right", extra={"problem": problem})
            if self._tell is not None:
                self._tell(problem)
        elif problem is None and self.problem is not None:
            log.info("the certificate of the webhooks is right again")
        self.problem = problem

    def expired(self) -> str | None:
        """That the certificate in use has ended, as a sentence."""
        if self.certificate is None or self._clock.now() < self.certificate.not_after:
            return None
        return f"the certificate expired at {rfc3339(self.certificate.not_after)}"
