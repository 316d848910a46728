"""Get credentials from an exec plugin of a kubeconfig (`client.authentication.k8s.io/v1` and `v1beta1`).

Promises one plugin process at a time and none while the credential is valid: it is kept until it expires or
is refused with a 401. A mistake in the kubeconfig raises KubeconfigError; a plugin that fails raises
Unauthorized, because its next run may succeed.
"""

import asyncio
import dataclasses
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from grove.errors import KubeconfigError, Unauthorized
from grove.kube.credentials import Credential, bearer
from grove.kube.tls import ClientCertificate
from grove.meta import Manifest

VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
INTERACTIVE_MODES: Final = ("Never", "IfAvailable", "Always")


@dataclass(frozen=True, slots=True)
class ExecSpec:
    """The `exec` stanza of a kubeconfig user, checked; `field` names it in error messages."""

    field: str
    api_version: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    install_hint: str = ""
    interactive_mode: str = "IfAvailable"
    directory: Path = Path()
    #: What `provideClusterInfo: true` hands to the plugin.
    cluster: Manifest | None = None


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    status: _Answer | None = None


class ExecPlugin:
    """Credentials that a program on this machine hands out."""

    def __init__(
        self,
        spec: ExecSpec,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        on_terminal: Callable[[], bool] = lambda: sys.stdin is not None and sys.stdin.isatty(),
        timeout: float = 60.0,
    ) -> None:
        self._spec = spec
        self._now = now
        self._on_terminal = on_terminal
        self._timeout = timeout
        self._credential: Credential | None = None
        self._expires: datetime | None = None
        self._lock = asyncio.Lock()

    def current(self) -> Credential | None:
        if self._expires is not None and self._now() >= self._expires:
            return None
        return self._credential

    async def obtain(self) -> Credential:
        async with self._lock:  # a hundred requests that find the token expired start one process
            current = self.current()
            return current if current is not None else await self._refresh()

    async def rejected(self, credential: Credential) -> bool:
        async with self._lock:
            if self._credential is not credential and self.current() is not None:
                return True  # another request has replaced it already
            return await self._refresh() != credential

    async def _refresh(self) -> Credential:
        self._credential = None
        answer = self._parse(await self._run())
        certificate = None
        if answer.client_certificate_data and answer.client_key_data:
            certificate = ClientCertificate(
                answer.client_certificate_data.encode(), answer.client_key_data.encode()
            )
        elif answer.client_certificate_data or answer.client_key_data:
            raise self._mistake("printed only one of status.clientCertificateData and status.clientKeyData")
        if not answer.token and certificate is None:
            raise self._mistake("printed neither status.token nor status.clientCertificateData")
        expires = answer.expiration_timestamp
        self._expires = expires.replace(tzinfo=UTC) if expires and expires.tzinfo is None else expires
        self._credential = Credential(
            bearer(answer.token) if answer.token else "", certificate, f"{self._spec.field}.command"
        )
        return self._credential

    async def _run(self) -> bytes:
        interactive = self._interactive()
        inherit_or_null = None if interactive else asyncio.subprocess.DEVNULL
        try:
            process = await asyncio.create_subprocess_exec(
                self._program(),
                *self._spec.args,
                stdin=inherit_or_null,
                stdout=asyncio.subprocess.PIPE,
                stderr=None if interactive else asyncio.subprocess.PIPE,
                env={**os.environ, **self._spec.env, "KUBERNETES_EXEC_INFO": self._exec_info(interactive)},
            )
        except OSError as error:
            raise self._mistake(f"cannot be started: {error.strerror}") from error
        try:
            # A person who types a password is given all the time in the world.
            async with asyncio.timeout(None if interactive else self._timeout):
                output, complaint = await process.communicate()
        except TimeoutError as error:
            raise Unauthorized(self._sentence(f"did not finish within {self._timeout:g} s")) from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            lines = (complaint or b"").decode("utf-8", "replace").strip().splitlines()
            said = f": {lines[-1].strip()}" if lines else ""
            raise Unauthorized(self._sentence(f"failed with exit code {process.returncode}{said}"))
        return output

    def _program(self) -> str:
        """Where the command is: a bare name on the PATH, a relative path beside the kubeconfig."""
        command = self._spec.command
        if os.sep in command:
            candidate = self._spec.directory / command  # an absolute command wins over the directory
            found = str(candidate) if os.access(candidate, os.X_OK) and candidate.is_file() else None
        else:
            found = shutil.which(command, path=self._spec.env.get("PATH"))
        if found is None:
            hint = " ".join(self._spec.install_hint.split())
            raise self._mistake("is not an executable on this machine" + (f"; {hint}" if hint else ""))
        return found

    def _interactive(self) -> bool:
        mode = self._spec.interactive_mode
        if mode == "Never":
            return False
        if self._on_terminal():
            return True
        if mode == "Always":
            raise self._mistake("needs a terminal (interactiveMode: Always) and there is none")
        return False

    def _exec_info(self, interactive: bool) -> str:
        spec: Manifest = {"interactive": interactive}
        if self._spec.cluster is not None:
            spec["cluster"] = self._spec.cluster
        info = {"apiVersion": self._spec.api_version, "kind": "ExecCredential", "spec": spec}
        return msgspec.json.encode(info).decode()

    def _parse(self, output: bytes) -> _Answer:
        try:
            credential = msgspec.json.decode(output, type=_ExecCredential)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._mistake(f"did not print an ExecCredential ({error})") from error
        if credential.kind != "ExecCredential" or credential.status is None:
            raise self._mistake("did not print an ExecCredential with a status")
        if credential.api_version != self._spec.api_version:
            raise self._mistake(
                f"printed apiVersion {credential.api_version!r} instead of {self._spec.api_version!r}"
            )
        return credential.status

    def _sentence(self, what: str) -> str:
        return f"{self._spec.field}.command: {self._spec.command!r} {what}"

    def _mistake(self, what: str) -> KubeconfigError:
        return KubeconfigError(self._sentence(what))
