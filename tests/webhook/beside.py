"""The real HTTPS server beside a world: the sockets have a loop and a thread of their own, since virtual time
has none, and the reviews that come through them are carried out in the world."""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from tests.webhook.serving import Served, made_certificate, served

from grove.webhook.review import Answer, Request

Review = Callable[[Request], Awaitable[Answer]]
#: How long a request may take before the test is told that nobody answers.
_SECONDS = 60.0


@dataclass(frozen=True)
class _Asked:
    path: str
    request: Request
    answer: "Future[Answer]"


class Beside:
    """A server that listens; `send` is for the thread of the world."""

    def __init__(self, paths: Iterable[str], folder: Path) -> None:
        self._asked: queue.Queue[_Asked | None] = queue.Queue()
        self._reviews = {path: self._passed_on(path) for path in paths}
        self._certificate = made_certificate(folder)
        self._loop = asyncio.new_event_loop()
        self._listening: Future[Served] = Future()
        self._over = asyncio.Event()

    async def send(self, path: str, body: bytes, review: Review) -> tuple[int, bytes]:
        """Status and body of what the server answers; what it asks for the answer is answered here."""
        sent = asyncio.run_coroutine_threadsafe(self._listening.result().send("POST", path, body), self._loop)
        sent.add_done_callback(lambda _: self._asked.put(None))
        while (asked := self._asked.get(timeout=_SECONDS)) is not None:
            assert asked.path == path
            try:
                asked.answer.set_result(await review(asked.request))
            except Exception as defect:
                # The server's to tell, as it would be in production.
                asked.answer.set_exception(defect)
        return sent.result()

    def count(self, path: str, answer: str) -> float:
        """How many requests the server says that it has answered so."""
        return self._listening.result().metrics.value(
            "grove_webhook_requests_total", path=path, answer=answer
        )

    @contextlib.contextmanager
    def running(self) -> Iterator["Beside"]:
        thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))
        thread.start()
        try:
            self._listening.result(timeout=_SECONDS)
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._over.set)
            thread.join()
            self._loop.close()

    async def _serve(self) -> None:
        try:
            async with served(self._reviews, self._certificate) as web:
                self._listening.set_result(web)
                await self._over.wait()
        except Exception as error:
            self._listening.set_exception(error)

    def _passed_on(self, path: str) -> Review:
        async def review(request: Request) -> Answer:
            asked = _Asked(path, request, Future())
            self._asked.put(asked)
            return await asyncio.wrap_future(asked.answer)

        return review
