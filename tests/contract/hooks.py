"""A webhook on the loopback: answers every question by its path and remembers what it was asked."""

from __future__ import annotations

import json
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Manifest = dict[str, Any]
HOST = "127.0.0.1"
#: What a controller manager puts into each new namespace, at a moment of its own: no part of any check.
CREATED_BY_CONTROLLERS = ("kube-root-ca.crt",)


@dataclass(slots=True)
class Hook:
    """`answers` by path; a path without one allows everything. `raw` in an answer is sent as it is."""

    answers: dict[str, Manifest]
    authority: bytes
    url: str = ""
    asked: list[Manifest] = field(default_factory=list)

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        question = json.loads(await request.read())["request"]
        if question.get("name") not in CREATED_BY_CONTROLLERS:
            self.asked.append({"path": request.path, **question})
        answer = self.answers.get(request.path, {})
        if "raw" in answer:
            kind = answer.get("type", "application/json")
            return web.Response(body=answer["raw"], status=answer.get("http", 200), content_type=kind)
        response = {"uid": question["uid"], "allowed": True, **answer}
        review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}
        return web.json_response(review)

    def about(self, path: str) -> list[Manifest]:
        """What one path was asked."""
        return [question for question in self.asked if question["path"] == path]


@cache
def _certificate() -> tuple[bytes, bytes]:
    """A self-signed certificate for the loopback, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    start = datetime.now(UTC) - timedelta(hours=1)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address(HOST))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return made.public_bytes(serialization.Encoding.PEM), private


@asynccontextmanager
async def serving(answers: dict[str, Manifest]) -> AsyncIterator[Hook]:
    """A hook that listens for as long as the block runs."""
    public, private = _certificate()
    hook = Hook(answers, authority=public)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tls.pem"
        path.write_bytes(public + private)
        tls.load_cert_chain(path)
    runner = web.ServerRunner(web.Server(hook.respond), shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, HOST, 0, ssl_context=tls).start()
    hook.url = f"https://{HOST}:{runner.addresses[0][1]}"
    try:
        yield hook
    finally:
        await runner.cleanup()
