"""Serve webhooks with a certificate that somebody else provides as files, cert-manager for example.

The folder is read from time to time rather than watched, because a mounted Secret changes by swapping a link
underneath it. Files that cannot be used are named with what is wrong; what was served before stays in use
meanwhile. Never writes a file, and never touches a caBundle: that is for whoever provides the files.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from grove.runtime.clock import Clock
from grove.webhook.certificates.inspection import ServerPair, server_pair
from grove.webhook.certificates.material import CA, CHAIN, KEY
from grove.webhook.certificates.telling import Publisher, Tell
from grove.webhook.serving import ServingCertificate

LOOK_SECONDS: Final = 10.0

#: The link that a kubelet swaps; what it points to holds files of one version of the Secret only.
_VERSION: Final = "..data"


class CertificateFiles:
    """The certificate source of certProvisionMode manual."""

    def __init__(
        self,
        folder: Path,
        names: Sequence[str],
        *,
        clock: Clock,
    ) -> None:
        self._folder = folder
        self._name = names[0]
        self._clock = clock
        self._publisher = Publisher(clock)

    def subscribe(self, changed: Callable[[ServingCertificate], None]) -> None:
        """Call this with every new certificate, and at once with the present one, if there is one."""
        self._publisher.subscribe(changed)

    def report_to(self, tell: Tell) -> None:
        """Say what is wrong in this way too, not by the log alone."""
        self._publisher.tell(tell)

    def lacking(self) -> str | None:
        """The readiness check: why there is no usable certificate, as a sentence."""
        if self._publisher.certificate is None:
            return self._publisher.problem or f"the certificate in {self._folder} has not been read yet"
        expired = self._publisher.expired()
        return expired and (self._publisher.problem or expired)

    async def run(self) -> None:
        """Follow the files until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Read the files; use them, or say why not."""
        found = self._read()
        if isinstance(found, str):
            self._publisher.report(f"{self._folder}: {found}")
            return
        self._publisher.report(None)
        pair, ca = found
        self._publisher.publish(ServingCertificate(pair.chain, pair.key, ca, pair.not_after))

    def _read(self) -> tuple[ServerPair, bytes] | str:
        try:
            # Resolved once, so that certificate and key are of one version.
            version = (self._folder / _VERSION).resolve(strict=True)
        except OSError:
            version = self._folder
        texts: dict[str, bytes] = {}
        for name in (CHAIN, KEY, CA):
            try:
                texts[name] = (version / name).read_bytes()
            except FileNotFoundError:
                texts[name] = b""
            except OSError as error:
                return f"{name} cannot be read: {error.strerror}"
        pair = server_pair(texts[CHAIN], texts[KEY], name=self._name, now=self._clock.now())
        return pair if isinstance(pair, str) else (pair, texts[CA])
