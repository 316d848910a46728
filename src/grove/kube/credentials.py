"""How a request proves who it is: fixed tokens, token files that rotate, and certificates.

A `Credentials` answers at once from memory (`current`) or says that work is needed (`obtain`); after a 401
`rejected` says whether another attempt could fare better. Exec plugins are in `exec_plugin`.
"""

import base64
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from grove.errors import KubeconfigError
from grove.kube.tls import ClientCertificate

#: Seconds that a token read from a file is trusted; the kubelet rotates long before a token expires.
TOKEN_FILE_PERIOD: Final = 60.0


@dataclass(frozen=True, slots=True)
class Credential:
    """What one request presents; either part may be missing."""

    authorization: str = ""
    certificate: ClientCertificate | None = None
    #: Where the certificate came from, for error messages.
    source: str = ""

    def __repr__(self) -> str:
        return f"Credential(source={self.source!r})"  # secrets stay out of logs and tracebacks


class Credentials(Protocol):
    """A source of credentials that may change over time."""

    def current(self) -> Credential | None:
        """The credential to present now, or None when `obtain` must be awaited."""

    async def obtain(self) -> Credential:
        """The credential to present, fetched if need be."""

    async def rejected(self, credential: Credential) -> bool:
        """The server answered 401 to this credential: True when a new attempt would present another one."""


def bearer(token: str) -> str:
    """The Authorization header of a token."""
    return f"Bearer {token}"


def basic(username: str, password: str) -> str:
    """The Authorization header of a user name and a password."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode("ascii")


class StaticCredentials:
    """A credential that never changes."""

    def __init__(self, credential: Credential | None = None) -> None:
        self._credential = credential or Credential()

    def current(self) -> Credential | None:
        return self._credential

    async def obtain(self) -> Credential:
        return self._credential

    async def rejected(self, credential: Credential) -> bool:
        return False


class TokenFile:
    """A token that someone else rotates in a file: read again each minute, and at once after a 401."""

    def __init__(
        self,
        path: Path,
        *,
        field: str,
        certificate: Credential | None = None,
        clock: Callable[[], float] = time.monotonic,
        period: float = TOKEN_FILE_PERIOD,
    ) -> None:
        self._path = path
        self._field = field
        self._base = certificate or Credential()
        self._clock = clock
        self._period = period
        self._read_at = 0.0
        self._credential: Credential | None = None

    def current(self) -> Credential | None:
        now = self._clock()
        if self._credential is None or now - self._read_at >= self._period:
            self._credential = self._read()
            self._read_at = now
        return self._credential

    async def obtain(self) -> Credential:
        return self.current() or self._read()

    async def rejected(self, credential: Credential) -> bool:
        self._credential = self._read()
        self._read_at = self._clock()
        return self._credential != credential

    def _read(self) -> Credential:
        try:
            token = self._path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            if self._credential is not None:
                return self._credential  # caught in the middle of a rotation; the old token still serves
            why = getattr(error, "strerror", None) or str(error)
            raise KubeconfigError(f"{self._field} names {self._path}, which cannot be read: {why}") from error
        if not token:
            if self._credential is not None:
                return self._credential
            raise KubeconfigError(f"{self._field} names {self._path}, which is empty")
        return Credential(bearer(token), self._base.certificate, self._base.source)
