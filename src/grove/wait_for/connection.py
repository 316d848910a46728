"""Runs the program against an API server over HTTPS: blocking sockets, and only the standard library."""

import contextlib
import http.client
import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlencode, urlsplit

from grove import __version__
from grove.wait_for.program import Ask, Pause, Program
from grove.wait_for.tally import Manifest

CONNECT_SECONDS: Final = 10.0
REQUEST_SECONDS: Final = 30.0
#: A watch that is silent for longer is taken for dead; bookmarks come about once a minute.
SILENCE_SECONDS: Final = 150.0
#: What a read of the network or of a file can fail with; none of it ends the program.
_LOST: Final = (OSError, http.client.HTTPException, ValueError)


class Refused(Exception):
    """The server answered with an error."""

    def __init__(self, status: int, message: str, after: float) -> None:
        super().__init__(message)
        self.status = status
        self.after = after


@dataclass(frozen=True, slots=True)
class Server:
    """Where the API server is, and the files by which one is somebody there."""

    url: str
    token: Path
    authority: Path
    silence: float = SILENCE_SECONDS


def run(
    program: Program,
    server: Server,
    *,
    tell: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Returns when there is nothing left to wait for; tells what is waited for whenever that changes."""
    while (step := program.next_step()) is not None:
        if isinstance(step, Pause):
            tell(program.sentence)
            sleep(step.seconds)
            continue
        try:
            _do(step, program, server, tell)
        except Refused as refusal:
            program.refused(refusal.status, str(refusal), after=refusal.after)
        except _LOST as error:
            program.unreachable(_why(error))
        tell(program.sentence)


def _do(step: Ask, program: Program, server: Server, tell: Callable[[str], None]) -> None:
    with _answer(step, server) as answer:
        if not step.watch:
            program.listed(_object(answer.read()))
            return
        told = False
        while line := answer.readline():
            told = True
            program.saw(_object(line))
            tell(program.sentence)
            if program.finished:
                return
        program.ended(told=told)


@contextlib.contextmanager
def _answer(step: Ask, server: Server) -> Iterator[http.client.HTTPResponse]:
    """The answer to a request, on a connection of its own; raises Refused.

    Token and authority are read again each time: a kubelet replaces both while the program runs.
    """
    token = server.token.read_text(encoding="ascii").strip()
    connection = _connection(server)
    try:
        connection.connect()
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.sock.settimeout(server.silence if step.watch else REQUEST_SECONDS)
        headers = {
            "Accept": "application/json",
            "Authorization": f"Bearer {token}",
            "User-Agent": f"grove-wait-for/{__version__}",
        }
        connection.request("GET", f"{step.path}?{urlencode(step.query)}", headers=headers)
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise _refused(answer)
        yield answer
    finally:
        connection.close()


def _connection(server: Server) -> http.client.HTTPConnection:
    parts = urlsplit(server.url)
    host, port = parts.hostname or "", parts.port or 443
    tls = ssl.create_default_context(cafile=str(server.authority))
    # As the operator's client: authorities of many clusters lack an extension that Python >= 3.13 insists on,
    # and a bundle may hold an intermediate only.
    tls.verify_flags = (tls.verify_flags & ~ssl.VERIFY_X509_STRICT) | ssl.VERIFY_X509_PARTIAL_CHAIN
    return http.client.HTTPSConnection(host, port, timeout=CONNECT_SECONDS, context=tls)


def _refused(answer: http.client.HTTPResponse) -> Refused:
    content = answer.read()
    try:
        message = str(_object(content).get("message") or answer.reason)
    except ValueError:
        message = content.decode(errors="replace").strip() or answer.reason
    after = answer.getheader("Retry-After") or ""
    return Refused(answer.status, message, float(after) if after.isascii() and after.isdigit() else 0.0)


def _object(content: bytes) -> Manifest:
    found = json.loads(content)
    if not isinstance(found, dict):
        raise ValueError("the answer is not a JSON object")
    return found


def _why(error: Exception) -> str:
    """An error in words; some of them have none of their own."""
    if isinstance(error, TimeoutError):
        return "it was silent for too long"
    if isinstance(error, http.client.IncompleteRead):
        return "the connection broke off"
    return str(error) or type(error).__name__
