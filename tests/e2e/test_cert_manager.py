"""cert-manager's own programs make the certificate and write the caBundle, as the guide on certificates tells.

What the guide shows is applied as it stands. Only two things are played: the kubelet, which brings the Secret
to the operator's files, and the cluster's network, by a Service that leads to this machine.
"""

from __future__ import annotations

import asyncio
import base64
import random
import re
import shutil
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
import pytest
import yaml
from tests.e2e.conftest import Plane
from tests.e2e.plane import (
    CRDS,
    OPERATOR,
    OPERATOR_GROUPS,
    SYSTEM,
    Act,
    RealWorld,
    Running,
    loaded,
    wait_for,
    wait_gone,
    working,
)
from tests.e2e.scene import role, train

from grove.api import kinds
from grove.assembly import Identity, assemble
from grove.cli.manifests.installation import desired_installation
from grove.cli.manifests.values import values_from
from grove.errors import ApiError, NotFound
from grove.kube import config
from grove.kube.client import Client
from grove.kube.limiter import Limiter
from grove.kube.transport import HttpTransport
from grove.meta import Key, Manifest, Resource, resource
from grove.real import Locator
from grove.real.component import Component
from grove.real.versions import cainjector, cert_manager

PROGRAMS: Final = {tool.name: Locator().find(tool) for tool in (cert_manager(), cainjector())}
MISSING: Final = (
    f"cert-manager {cert_manager().version} is not installed; `make cert-manager` builds it from the Go "
    "module registry"
)
pytestmark = [pytest.mark.real, pytest.mark.skipif(None in PROGRAMS.values(), reason=MISSING)]

GUIDE: Final = Path(__file__).resolve().parents[2] / "docs" / "guides" / "certificates.md"
GROUP: Final = "cert-manager.io"
CERTIFICATES: Final = resource(GROUP, "v1", "Certificate")
SECRETS: Final = resource("", "v1", "Secret")
SERVICES: Final = resource("", "v1", "Service")
CERTIFICATE: Final = Key(SYSTEM, "grove-webhook")
SECRET: Final = Key(SYSTEM, "grove-webhook-server-cert")
SERVER: Final = f"grove-operator.{SYSTEM}.svc"
#: The certificates of a guide's authority are kept here.
AUTHORITY: Final = Key(SYSTEM, "grove-authority")
SECONDS: Final = 60.0


def of_the_guide(section: str) -> list[Manifest]:
    """The objects that the guide shows after these words."""
    text = GUIDE.read_text().partition(section)[2]
    shown = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert shown is not None, f"the guide shows nothing after {section!r}"
    return list(yaml.safe_load_all(shown[1]))


def values_of_the_guide(port: int) -> Manifest:
    """The values of the chart that the guide shows, with a port of this machine."""
    (found,) = of_the_guide("In the values of the chart:")
    found["config"]["server"]["webhooks"]["port"] = port
    return found


SELF_SIGNED: Final = "An issuer, a certificate for the Service"
BY_AN_AUTHORITY: Final = "let an authority of cert-manager's sign"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@asynccontextmanager
async def cert_manager_at_work(world: RealWorld, folder: Path) -> AsyncIterator[None]:
    """cert-manager's kinds and programs, as the administrator; gone afterwards."""
    found = [yaml.safe_load(file.read_text()) for file in Locator().cache.beside(cert_manager())]
    named = [Key("", each["metadata"]["name"]) for each in found]
    surroundings = {"KUBECONFIG": str(world.control.kubeconfig())}
    running = [
        Component(name, [str(program.path)], folder / f"{name}.log", surroundings)
        for name, program in PROGRAMS.items()
        if program is not None
    ]
    try:
        for each in found:
            await world.admin.create(CRDS, each)
        for key in named:
            await wait_for(world.admin, CRDS, key, _established)
        for program in running:
            await program.start()
        yield
        assert [program.name for program in running if not program.running] == []
    finally:
        for program in running:
            await program.stop(grace=10)
        for key in named:
            with suppress(NotFound):
                await world.admin.delete(CRDS, key)
        for key in named:
            await wait_gone(world.admin, CRDS, key)


def _established(kind: Manifest) -> bool:
    told = kind.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in told)


def ready(item: Manifest) -> bool:
    told = {each["type"]: each["status"] for each in item.get("status", {}).get("conditions") or ()}
    return told.get("Ready") == "True" and told.get("Issuing") != "True"


@dataclass
class Kubelet:
    """Brings the Secret into a folder as a kubelet does: a folder for each version, and a link to the present."""

    admin: Client
    folder: Path
    #: How much later than the Secret the files change.
    late: float = 0.0
    _count: int = 0
    _present: str = ""

    async def run(self) -> None:
        while True:
            with suppress(NotFound):
                secret = await self.admin.get(SECRETS, SECRET, type=dict)
                version = secret["metadata"]["resourceVersion"]
                if version != self._present and "tls.crt" in secret.get("data", {}):
                    await asyncio.sleep(self.late if self._present else 0.0)
                    self._bring(secret["data"])
                    self._present = version
            await asyncio.sleep(0.2)

    def _bring(self, data: Manifest) -> None:
        self._count += 1
        version = self.folder / f"..{self._count}"
        version.mkdir(parents=True)
        for name, text in data.items():
            (version / name).write_bytes(base64.b64decode(text))
        link = self.folder / "..data_tmp"
        link.symlink_to(version.name)
        link.rename(self.folder / "..data")
        if self._count > 1:
            shutil.rmtree(self.folder / f"..{self._count - 1}")


class Guarded:
    """An operator whose webhooks have a certificate of cert-manager, and the API server that asks it."""

    def __init__(self, act: Act, folder: Path) -> None:
        self.admin = act.world.admin
        self.act = act
        self.files = folder / "mounted"
        self.port = free_port()
        #: What an API server would have met, connecting at that moment, and could not.
        self.unverified: list[str] = []
        self.verified = 0

    async def start(self) -> None:
        """The operator, then the webhooks as the chart makes them, with nobody's caBundle."""
        values = values_from(values_of_the_guide(self.port))
        webhooks = values.configuration.server.webhooks
        assert webhooks.cert_provision_mode == "manual"
        webhooks = msgspec.structs.replace(
            webhooks, server_cert_dir=str(self.files), bind_address="127.0.0.1", enabled=True
        )
        chosen = loaded(self.act.world.judge.configuration)
        chosen = msgspec.structs.replace(
            chosen, server=msgspec.structs.replace(chosen.server, webhooks=webhooks)
        )
        control = self.act.world.control
        transport = HttpTransport(config.load(str(control.kubeconfig_for(OPERATOR, OPERATOR_GROUPS))))
        operator = await assemble(
            Client(transport, limiter=Limiter.off()),
            chosen,
            rng=random.Random(1),
            identity=Identity("guard", SYSTEM),
            health=False,
            webhooks=True,
        )
        running = Running.of(operator, transport)
        self.act.operators.append(running)
        await working(running)
        assert operator.webhooks is not None
        await asyncio.wait_for(operator.webhooks.listening.wait(), SECONDS)
        assert operator.manager.readiness.missing() == []
        for each in self.configurations():
            assert "caBundle" not in each["webhooks"][0]["clientConfig"]
            await self.act.world.create(each)

    def configurations(self) -> list[Manifest]:
        made = desired_installation(values_from(values_of_the_guide(self.port)), SYSTEM)
        return [each for each in made if each["kind"].endswith("WebhookConfiguration")]

    async def stop(self) -> None:
        for each in self.configurations():
            with suppress(NotFound):
                await self.admin.delete(_resource_of(each), Key("", each["metadata"]["name"]))

    async def bundles(self) -> set[str]:
        """Every caBundle that is written at this moment; an empty text stands for none."""
        found = set()
        for each in self.configurations():
            stored = await self.admin.get(_resource_of(each), Key("", each["metadata"]["name"]), type=dict)
            for webhook in stored["webhooks"]:
                found.add(base64.b64decode(webhook["clientConfig"].get("caBundle", "")).decode())
        return found

    async def served(self, bundle: str) -> bytes:
        """The certificate that is served now, to whoever trusts this caBundle."""
        trusted = ssl.create_default_context(cadata=bundle)
        # As in Go, whatever is in a bundle is trusted; otherwise one of two without a subject would not be found.
        trusted.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return await self._shown(trusted)

    async def served_anyhow(self) -> bytes:
        """The certificate that is served now, whoever may trust it."""
        trusted = ssl.create_default_context()
        trusted.check_hostname, trusted.verify_mode = False, ssl.CERT_NONE
        return await self._shown(trusted)

    async def _shown(self, trusted: ssl.SSLContext) -> bytes:
        _, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=trusted, server_hostname=SERVER)
        shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return shown

    async def watch(self) -> None:
        """Connect all the time as an API server does that has just read the caBundle, and ask that server, too."""
        while True:
            for bundle in await self.bundles():
                try:
                    await self.served(bundle)
                    self.verified += 1
                except ssl.SSLError as error:
                    self.unverified.append(f"{datetime.now(UTC)}: {error.reason}")
            said = await self.asked()
            if "is not a duration" not in said:
                self.unverified.append(f"{datetime.now(UTC)}: {said}")
            await asyncio.sleep(0.05)

    async def asked(self) -> str:
        """What the API server answers to a set that the operator refuses."""
        wrong = train(role("worker", 1, minAvailable=1), terminationDelay="soon", name="probe")
        wrong["metadata"]["namespace"] = self.act.scene.namespace
        try:
            await self.admin.create(kinds.CLIQUESETS, wrong, dry_run=True)
        except ApiError as error:
            return str(error)
        return ""

    async def until_trusted(self, authority: str) -> None:
        """Until cainjector has written every caBundle, and the API server has noticed and asks the operator."""

        async def written() -> bool:
            return await self.bundles() == {authority}

        async def noticed() -> bool:
            return "is not a duration" in await self.asked()

        await until(written, "cainjector has written the caBundle")
        await until(noticed, "the API server asks the operator")


def _resource_of(manifest: Manifest) -> Resource:
    group, _, version = str(manifest["apiVersion"]).rpartition("/")
    return resource(group, version, manifest["kind"], namespaced="namespace" in manifest["metadata"])


async def renew(admin: Client) -> None:
    """Ask for another certificate now, as `cmctl renew` does."""
    found = await admin.get(CERTIFICATES, CERTIFICATE, type=dict)
    asked = {
        "type": "Issuing",
        "status": "True",
        "reason": "ManuallyTriggered",
        "message": "Certificate re-issuance manually triggered",
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    told = [each for each in found["status"]["conditions"] if each["type"] != "Issuing"]
    await admin.merge_patch(
        CERTIFICATES, CERTIFICATE, {"status": {"conditions": [*told, asked]}}, subresource="status"
    )


async def until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    try:
        async with asyncio.timeout(SECONDS):
            while not await holds():  # noqa: ASYNC110 - about what other programs do
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"not within {SECONDS} s: {what}") from None


async def authority(admin: Client) -> str:
    secret = await admin.get(SECRETS, SECRET, type=dict)
    return base64.b64decode(secret["data"]["ca.crt"]).decode()


def certified(plane: Plane, tmp_path: Path, shown: str, story: Callable[[Guarded], Awaitable[None]]) -> None:
    """A story in which the guide was followed; nothing of it is left afterwards."""

    async def played(act: Act) -> None:
        admin, guarded = act.world.admin, Guarded(act, tmp_path)
        async with AsyncExitStack() as stack:
            # Once nobody issues certificates any more.
            stack.push_async_callback(_forget, admin)
            await stack.enter_async_context(cert_manager_at_work(act.world, tmp_path))
            for each in (service(), *of_the_guide(shown)):
                await act.world.create(each)
            await wait_for(admin, CERTIFICATES, CERTIFICATE, ready, seconds=SECONDS)
            kubelet = asyncio.create_task(Kubelet(admin, guarded.files, late=2.0).run())
            stack.callback(kubelet.cancel)
            await until(lambda: asyncio.to_thread((guarded.files / "..data").exists), "the files are there")
            stack.push_async_callback(guarded.stop)
            await guarded.start()
            await story(guarded)

    plane.play("cert-manager", played, operator=False)


def service() -> Manifest:
    """Where API servers find the operator: what a cluster's network would do is a name of this machine."""
    metadata = {"name": "grove-operator", "namespace": SYSTEM}
    spec = {"type": "ExternalName", "externalName": "localhost"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


async def _forget(admin: Client) -> None:
    for of, key in ((SERVICES, Key(SYSTEM, "grove-operator")), (SECRETS, SECRET), (SECRETS, AUTHORITY)):
        with suppress(NotFound):
            await admin.delete(of, key)


async def renewed_under_load(guarded: Guarded, before: bytes) -> None:
    """Another certificate is served; until then and afterwards every connection and every question succeeded."""
    watching = asyncio.create_task(guarded.watch())
    await renew(guarded.admin)

    async def another_is_served() -> bool:
        return await guarded.served_anyhow() != before

    await until(another_is_served, "the new certificate is served")
    verified = guarded.verified

    async def went_on() -> bool:
        return guarded.verified > verified + 20 or watching.done() or bool(guarded.unverified)

    await until(went_on, "connections are made")
    watching.cancel()
    await asyncio.wait({watching})
    assert watching.cancelled()
    assert guarded.unverified == []


def test_a_self_signed_certificate_of_cert_manager_is_trusted_and_renewed_without_a_restart(
    plane: Plane, tmp_path: Path
) -> None:
    async def story(guarded: Guarded) -> None:
        first = await authority(guarded.admin)
        await guarded.until_trusted(first)
        await renewed_under_load(guarded, await guarded.served(first))
        second = await authority(guarded.admin)
        assert second != first
        # cainjector adds to what is trusted: the two exchange without an order between them.
        (bundle,) = await guarded.bundles()
        assert pieces(bundle) == {*pieces(first), *pieces(second)}

    certified(plane, tmp_path, SELF_SIGNED, story)


def test_an_authority_of_cert_manager_stays_trusted_while_its_certificates_are_renewed(
    plane: Plane, tmp_path: Path
) -> None:
    async def story(guarded: Guarded) -> None:
        trusted = await authority(guarded.admin)
        await guarded.until_trusted(trusted)
        await renewed_under_load(guarded, await guarded.served(trusted))
        assert await authority(guarded.admin) == trusted
        assert await guarded.bundles() == {trusted}

    certified(plane, tmp_path, BY_AN_AUTHORITY, story)


def pieces(bundle: str) -> set[str]:
    """The certificates of a caBundle."""
    return {each.strip() for each in bundle.split("-----BEGIN CERTIFICATE-----") if each.strip()}
