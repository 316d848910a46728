"""The certificate that webhooks are served with, and the contract with whatever keeps it valid."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ServingCertificate:
    """A certificate with its key, in PEM; `ca` is what clients verify it by."""

    #: The certificate of the server first, then those that lead to the CA.
    chain: bytes
    key: bytes = field(repr=False)
    ca: bytes
    not_after: datetime


class CertificateSource(Protocol):
    """Keeps the certificate of the server valid, and tells of every new one."""

    async def run(self) -> None:
        """Keep the certificate right until cancelled."""

    def lacking(self) -> str | None:
        """Why there is no usable certificate yet, in a sentence; None once there is one."""

    def subscribe(self, changed: Callable[[ServingCertificate], None]) -> None:
        """Call this with every new certificate, and at once with the present one, if there is one."""
