"""The server answers every review over HTTPS, and says what is wrong with anything else."""

import asyncio
import socket
import ssl
from pathlib import Path

import aiohttp
import pytest
from tests.webhook.asking import review, told
from tests.webhook.serving import GivenCertificates, made_certificate, served, synced

from grove.api import kinds
from grove.errors import FieldError
from grove.runtime.metrics import Metrics
from grove.testing import make
from grove.webhook.review import ALLOWED, Answer, Request
from grove.webhook.server import CannotServe, WebhookServer

PATH = "/webhooks/validate-podcliqueset"
REVIEW = review(kinds.CLIQUESETS, make.cliqueset_manifest())


async def agrees(request: Request) -> Answer:
    return ALLOWED


async def refuses(request: Request) -> Answer:
    return Answer((FieldError("spec.replicas", "must not be negative; got -1"),), ("look\nhere",))


async def fails(request: Request) -> Answer:
    raise KeyError("spec")


REVIEWS = {PATH: agrees, "/refuses": refuses, "/fails": fails}


def test_reviews_are_answered_and_counted(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(REVIEWS, made_certificate(tmp_path)) as web:
            status, body = await web.send("POST", PATH, REVIEW)
            assert (status, told(body).allowed) == (200, True)
            status, body = await web.send("POST", "/refuses", REVIEW)
            said = told(body)
            assert (status, said.allowed, said.code) == (200, False, 422)
            assert said.message == "spec.replicas: must not be negative; got -1"
            assert said.warnings == ("look here",)
            count = web.metrics.value
            assert count("grove_webhook_requests_total", path=PATH, answer="allowed") == 1
            assert count("grove_webhook_requests_total", path="/refuses", answer="refused") == 1
            assert count("grove_webhook_duration_seconds_count", path=PATH) == 1

    asyncio.run(story())


WRONG = {
    "another method": ("GET", PATH, b"", "application/json", 405, "is posted here, not sent by GET"),
    "another path": ("POST", "/nowhere", REVIEW, "application/json", 404, PATH),
    "no JSON": ("POST", PATH, REVIEW, "application/yaml", 415, "must be application/json"),
    "no review at all": ("POST", PATH, b"{}", "application/json", 400, "must be an AdmissionReview of"),
    "half a review": ("POST", PATH, REVIEW[:100], "application/json", 400, "the body is no AdmissionReview"),
    "a review of nothing": (
        "POST",
        PATH,
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}',
        "application/json",
        400,
        "request: is required",
    ),
    "an old version": (
        "POST",
        PATH,
        REVIEW.replace(b"k8s.io/v1", b"k8s.io/v1beta1"),
        "application/json",
        400,
        "it is AdmissionReview of admission.k8s.io/v1beta1",
    ),
    "too much": ("POST", PATH, b" " * (17 * 1024 * 1024), "application/json", 413, "exceeded"),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_whatever_is_no_review_gets_a_sentence(
    case: tuple[str, str, bytes, str, int, str], tmp_path: Path
) -> None:
    method, path, body, kind, status, sentence = case

    async def story() -> None:
        async with served(REVIEWS, made_certificate(tmp_path)) as web:
            answered, said = await web.send(method, path, body, **{"Content-Type": kind})
            assert answered == status
            assert sentence in said.decode()

    asyncio.run(story())


def test_a_defect_refuses_and_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(REVIEWS, made_certificate(tmp_path)) as web:
            status, body = await web.send("POST", "/fails", REVIEW)
            said = told(body)
            assert (status, said.allowed) == (200, False)
            assert said.message == "could not be looked at, by a defect of Grove (KeyError); see its log"
            assert web.metrics.value("grove_webhook_requests_total", path="/fails", answer="defect") == 1

    asyncio.run(story())


def test_a_new_certificate_is_used_without_a_gap(tmp_path: Path) -> None:
    async def story() -> None:
        first, second = made_certificate(tmp_path / "a"), made_certificate(tmp_path / "b")
        async with served(REVIEWS, first) as web:
            port = web.server.port
            assert (await web.send("POST", PATH, REVIEW))[0] == 200
            web.certificates.give(second)
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await web.send("POST", PATH, REVIEW)
            web.trust(second)
            assert (await web.send("POST", PATH, REVIEW))[0] == 200
            assert web.server.port == port

    asyncio.run(story())


def test_old_tls_is_not_spoken(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(REVIEWS, made_certificate(tmp_path)) as web:
            web.trusted.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
            web.trusted.maximum_version = ssl.TLSVersion.TLSv1_1
            with pytest.raises(aiohttp.ClientError):
                await web.send("POST", PATH, REVIEW)

    asyncio.run(story())


def test_it_is_ready_once_there_is_a_certificate_and_the_caches_are_filled(tmp_path: Path) -> None:
    async def story() -> None:
        source, filled = GivenCertificates(), asyncio.Event()

        async def caches() -> None:
            await filled.wait()

        server = WebhookServer(REVIEWS, source, Metrics(), synced=caches, host="127.0.0.1")
        running = asyncio.create_task(server.run())
        await asyncio.sleep(0)
        assert server.lacking() == "there is no certificate yet"
        source.give(made_certificate(tmp_path))
        await asyncio.sleep(0)
        assert server.lacking() == "the webhooks are not served yet"
        filled.set()
        await asyncio.wait_for(server.listening.wait(), 10)
        assert server.lacking() is None
        running.cancel()
        await asyncio.wait({running})

    asyncio.run(story())


def test_a_port_that_is_taken_is_named_with_its_field(tmp_path: Path) -> None:
    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            source = GivenCertificates(made_certificate(tmp_path))
            server = WebhookServer(REVIEWS, source, Metrics(), synced=synced, host="127.0.0.1", port=port)
            with pytest.raises(
                CannotServe, match=rf"port {port} for webhooks is already in use.*webhooks\.port"
            ):
                await server.run()

    asyncio.run(story())
