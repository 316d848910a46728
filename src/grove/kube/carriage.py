"""What a transport carries: a request as it goes out, an answer as it came, and how to say that none came."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from grove.errors import Unreachable


class Headers(Mapping[str, str]):
    """The header of an answer, whose names are equal in any case; of a repeated one the first counts."""

    __slots__ = ("_lower",)

    def __init__(self, lower: dict[str, str]) -> None:
        """The names are lower-case."""
        self._lower = lower

    def __getitem__(self, name: str) -> str:
        return self._lower[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._lower)

    def __len__(self) -> int:
        return len(self._lower)

    def __repr__(self) -> str:
        return f"Headers({self._lower!r})"


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Stream(Protocol):
    """An answer that is read as it comes."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body in pieces of any size; raises Unreachable if it breaks off before its end."""

    async def body(self) -> bytes:
        """The whole body, for answers that turn out to be errors."""


class OpenStream(Stream, Protocol):
    """A stream with whose connection somebody must do away."""

    def close(self) -> None:
        """Give up the connection: it was left in the middle of an answer."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request, ready to be sent."""

    method: str
    #: Scheme, host and port of the server, for sentences.
    origin: str
    #: Encoded, with the path at which the server is.
    path: str
    #: Encoded, with its question mark; blank if there is none.
    query: str
    headers: tuple[tuple[str, str], ...]
    body: bytes | None = None
    #: Called immediately before bytes go out; what it raises is raised, and the request is not completed.
    guard: Callable[[], None] | None = None

    @property
    def target(self) -> str:
        return f"{self.path}{self.query}"

    def unanswered(self, why: str, *, reason: str, via: str = "") -> Unreachable:
        """That no answer came; `reason` says whether the request may have been executed."""
        through = f" through the proxy {via}" if via else ""
        return Unreachable(f"{self.method} {self.origin}{self.path}{through} failed: {why}", reason=reason)
