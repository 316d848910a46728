"""One request as the verbs see it: limited, retried where that is safe, answered or raised as a typed error.

Sleeps only through `asyncio.sleep`. Knows no kinds and decodes no objects.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, NamedTuple, Protocol

from grove.errors import ApiError, Deposed
from grove.kube.failure import error_from_answer, header_of
from grove.kube.fence import Fence
from grove.kube.limiter import Limiter
from grove.kube.retry import RetryPolicy
from grove.kube.transport import Response, Stream, Transport

log = logging.getLogger(__name__)

JSON: Final = "application/json"
_REMEMBERED_WARNINGS: Final = 256
_READS: Final = frozenset({"GET", "HEAD"})
#: Reviews are asked with POST and change nothing.
_REVIEWS: Final = "/apis/authorization.k8s.io/"


class Call(NamedTuple):
    """What is asked of the server."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    content_type: str = ""
    accept: str = JSON
    #: Whether doing it twice is as good as doing it once.
    idempotent: bool = True

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def writes(self) -> bool:
        """Whether it changes something: not if it only reads, tries or asks."""
        if self.method in _READS or self.path.startswith(_REVIEWS):
            return False
        return "dryRun" not in dict(self.query)


class RequestObserver(Protocol):
    """Whoever is told of each attempt of a request."""

    def answered(self, call: Call, code: str, seconds: float) -> None:
        """An attempt ended: with a status code, `unreachable` or `deposed`."""

    def throttled(self, seconds: float) -> None:
        """A request waited for the client's own rate limit."""


class Exchange:
    """The way from verbs to a transport."""

    def __init__(
        self,
        transport: Transport,
        *,
        limiter: Limiter,
        retries: RetryPolicy,
        user_agent: str,
        fence: Fence | None = None,
        observer: RequestObserver | None = None,
    ) -> None:
        self._transport = transport
        self._fence = fence
        self._observer = observer
        self._limiter = limiter
        self._retries = retries
        self._user_agent = user_agent
        self._headers: dict[tuple[str, str], Mapping[str, str]] = {}
        self._warned: set[str] = set()

    def fenced(self, fence: Fence) -> "Exchange":
        """The same way, on which each attempt of a write must pass the fence."""
        return Exchange(
            self._transport,
            limiter=self._limiter,
            retries=self._retries,
            user_agent=self._user_agent,
            fence=fence,
            observer=self._observer,
        )

    def observed(self, observer: RequestObserver) -> "Exchange":
        """The same way, of which each attempt is told to somebody."""
        return Exchange(
            self._transport,
            limiter=self._limiter,
            retries=self._retries,
            user_agent=self._user_agent,
            fence=self._fence,
            observer=observer,
        )

    async def answer(self, call: Call, *, timeout: float | None = None) -> Response:
        """The server's answer below 300; all else is raised, after the retries that the policy allows.

        A write that may not pass the fence is not sent, or given up, and raises Deposed.
        """
        headers = self._headers_of(call)
        attempt, spent = 1, 0.0
        while True:
            await self._permitted()
            started = _now()
            try:
                response = await self._attempt(call, headers, timeout)
                self._tell(call, str(response.status), started)
                return response
            except Deposed:
                self._tell(call, "deposed", started)
                raise
            except ApiError as failure:
                self._tell(call, _code_of(failure), started)
                wait = self._retries.wait(attempt, failure, idempotent=call.idempotent, spent=spent)
                if wait is None:
                    raise
                log.debug(
                    "request is tried again",
                    extra={"request": str(call), "attempt": attempt, "wait": wait, "failure": str(failure)},
                )
            attempt += 1
            spent += wait
            await asyncio.sleep(wait)

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[Stream]:
        """An answer below 300 that is read as it comes; one attempt."""
        await self._permitted()
        opened = self._transport.stream(call.path, query=call.query, headers=self._headers_of(call))
        started = _now()
        async with AsyncExitStack() as stack:
            try:
                stream = await stack.enter_async_context(opened)
            except ApiError as failure:
                self._tell(call, _code_of(failure), started)
                raise
            self._tell(call, str(stream.status), started)
            if stream.status >= 300:
                raise error_from_answer(str(call), stream.status, stream.headers, await stream.body())
            yield stream

    async def close(self) -> None:
        """Close the transport."""
        await self._transport.close()

    async def _permitted(self) -> None:
        """Wait for the rate limit."""
        waited = await self._limiter.acquire()
        if self._observer is not None and waited:
            self._observer.throttled(waited)

    def _tell(self, call: Call, code: str, started: float) -> None:
        if self._observer is not None:
            self._observer.answered(call, code, _now() - started)

    async def _attempt(self, call: Call, headers: Mapping[str, str], timeout: float | None) -> Response:
        fence = self._fence
        if fence is None or not call.writes:
            response = await self._transport.send(
                call.method, call.path, query=call.query, headers=headers, body=call.body, timeout=timeout
            )
        else:
            async with fence.passing(call):
                response = await self._transport.send(
                    call.method,
                    call.path,
                    query=call.query,
                    headers=headers,
                    body=call.body,
                    timeout=timeout,
                    guard=lambda: fence.check(call),
                )
        if response.status >= 300:
            raise error_from_answer(str(call), response.status, response.headers, response.body)
        if warning := header_of(response.headers, "Warning"):
            self._warn(call, warning)
        return response

    def _headers_of(self, call: Call) -> Mapping[str, str]:
        key = (call.content_type, call.accept)
        known = self._headers.get(key)
        if known is None:
            known = {"Accept": call.accept, "User-Agent": self._user_agent, "Accept-Encoding": "identity"}
            if call.content_type:
                known = {**known, "Content-Type": call.content_type}
            self._headers[key] = known
        return known

    def _warn(self, call: Call, warning: str) -> None:
        """The server warns about deprecated or unknown fields with each write; say each thing once."""
        if warning not in self._warned and len(self._warned) < _REMEMBERED_WARNINGS:
            self._warned.add(warning)
            log.warning("the API server warns", extra={"request": str(call), "warning": warning})


def _now() -> float:
    return asyncio.get_running_loop().time()


def _code_of(failure: ApiError) -> str:
    """The status that an error stands for; a word where there was no answer."""
    return str(failure.status) if failure.status else "unreachable"
