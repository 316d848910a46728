"""Replicas that keep one certificate for years of virtual time, and an API server that verifies by what it read before.

The embedded cluster is no place for years: its nodes and watches are busy every few seconds. So this server knows
the four verbs that are used, with resourceVersions, and answers after a while. It believes what a caBundle held
at any moment of the last minute; at every change all of that must verify everything that is served.
"""

import asyncio
import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any, Final

import msgspec
from tests.webhook.certificates.handshakes import refusal

from grove.errors import AlreadyExists, Conflict, Invalid, NotFound
from grove.meta import Key, Manifest, Resource
from grove.testing.virtual_time import virtual_clock, virtual_loop
from grove.webhook.certificates.configurations import CONFIGURATIONS
from grove.webhook.certificates.material import SECRETS
from grove.webhook.certificates.own import OwnAuthority
from grove.webhook.certificates.periods import Periods
from grove.webhook.certificates.provision import server_names
from grove.webhook.registrations import ServedAt, desired_webhook_configurations
from grove.webhook.serving import ServingCertificate

SECRET: Final = Key("grove-system", "grove-webhook-server-cert")
NAMES: Final = server_names(SECRET.namespace)
#: How old a configuration may be that an API server acts by.
LAG: Final = timedelta(minutes=1)


class ApiServer:
    """Objects under resourceVersions, and the caBundles of the last minute."""

    def __init__(self, rng: Random) -> None:
        self.objects: dict[tuple[str, Key], bytes] = {}
        self.writes = 0
        self._rng = rng
        self._version = 0
        self.clock = virtual_clock()
        #: By webhook, since when it has which caBundle.
        self._bundles: dict[str, list[tuple[Any, bytes]]] = {}
        for each in desired_webhook_configurations(ServedAt(SECRET.namespace), authorizer=True):
            self.put(CONFIGURATIONS[each["kind"]], Key("", each["metadata"]["name"]), each)

    async def get(self, resource: Resource, key: Key, *, type: type[Any]) -> Any:
        await self._wait()
        found = self.objects.get((resource.plural, key))
        if found is None:
            raise NotFound(f"{resource} {key} not found", status=404)
        return msgspec.json.decode(found)

    async def create(self, resource: Resource, manifest: Manifest) -> object:
        await self._wait()
        key = Key(manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"])
        if (resource.plural, key) in self.objects:
            raise AlreadyExists(f"{key} exists", status=409)
        self.put(resource, key, manifest)
        await self._wait()
        return None

    async def replace(self, resource: Resource, manifest: Manifest) -> object:
        await self._wait()
        key = Key(manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"])
        found = self.objects.get((resource.plural, key))
        if found is None:
            raise NotFound(f"{key} not found", status=404)
        if (
            msgspec.json.decode(found)["metadata"]["resourceVersion"]
            != manifest["metadata"]["resourceVersion"]
        ):
            raise Conflict(f"{key} was changed", status=409)
        self.put(resource, key, manifest)
        await self._wait()
        return None

    async def json_patch(self, resource: Resource, key: Key, operations: Sequence[Manifest]) -> object:
        await self._wait()
        found = self.read(resource, key)
        for operation in operations:
            *path, last = (int(part) if part.isdigit() else part for part in operation["path"][1:].split("/"))
            at: Any = found
            for part in path:
                at = at[part]
            if operation["op"] == "test" and at[last] != operation["value"]:
                raise Invalid(f"{key}: test failed", status=422)
            at[last] = operation["value"]
        self.put(resource, key, found)
        await self._wait()
        return None

    def read(self, resource: Resource, key: Key) -> Manifest:
        """The object as it is now."""
        found: Manifest = msgspec.json.decode(self.objects[resource.plural, key])
        return found

    def put(self, resource: Resource, key: Key, manifest: Manifest) -> None:
        """Store the object, whatever was there."""
        self._version += 1
        self.writes += 1
        stored = {**manifest, "metadata": {**manifest["metadata"], "resourceVersion": str(self._version)}}
        self.objects[resource.plural, key] = msgspec.json.encode(stored)
        for webhook in stored.get("webhooks", ()):
            bundle = base64.b64decode(webhook["clientConfig"].get("caBundle", ""))
            history = self._bundles.setdefault(webhook["name"], [])
            if not history or history[-1][1] != bundle:
                history.append((self.clock.now(), bundle))

    def believed(self) -> set[bytes]:
        """Every caBundle by which some API server may verify at this moment."""
        oldest = self.clock.now() - LAG
        found = set()
        for history in self._bundles.values():
            while len(history) > 1 and history[1][0] <= oldest:
                history.pop(0)
            found |= {bundle for _, bundle in history}
        return found

    async def _wait(self) -> None:
        await asyncio.sleep(self._rng.uniform(0.001, 2.0))


@dataclass
class Replica:
    """An operator, as far as its webhooks' certificate goes."""

    server: ApiServer
    rng: Random
    periods: Periods = field(default_factory=Periods)
    look_seconds: float = 16 * 3600.0

    def __post_init__(self) -> None:
        self.served: ServingCertificate | None = None
        self.seen: list[ServingCertificate] = []
        self.failed: list[str] = []
        self.start()

    def start(self) -> None:
        """A new process, without any memory."""
        self.served = None
        self.source = OwnAuthority(
            self.server,
            SECRET,
            NAMES,
            clock=self.server.clock,
            rng=self.rng,
            periods=self.periods,
            look_seconds=self.look_seconds,
        )
        self.source.subscribe(self._changed)
        self._task = asyncio.create_task(self.source.run(), name="replica")

    async def kill(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})
        self.served = None

    def _changed(self, certificate: ServingCertificate) -> None:
        self.served = certificate
        self.seen.append(certificate)
        if self.source.lacking() is None:
            self.failed += self.refusals()

    async def is_ready(self) -> None:
        while self.source.lacking() is not None:  # noqa: ASYNC110 - a minute of virtual time takes no time
            await asyncio.sleep(1)

    def refusals(self) -> list[str]:
        """Why API servers do not get through to this replica; one that serves nothing is not asked."""
        if self.served is None:
            return []
        now = self.server.clock.now()
        answers = (refusal(self.served, bundle, now) for bundle in self.server.believed())
        return [f"{now}: {answer}" for answer in answers if answer is not None]


def prepare_for_years() -> None:
    """A number of seconds has no room for billionths after half a year, and the loop would wait for them."""
    loop: Any = virtual_loop()
    loop._clock_resolution = 1e-6


async def ready(*replicas: Replica) -> None:
    """Until all are, and every API server knows it."""
    for each in replicas:
        await each.is_ready()
    await asyncio.sleep(LAG.total_seconds() + 1)


def secret_of(server: ApiServer) -> Manifest:
    return server.read(SECRETS, SECRET)


def bundle_of(server: ApiServer, name: str = "podcliqueset-validating-webhook") -> bytes:
    found = server.read(CONFIGURATIONS["ValidatingWebhookConfiguration"], Key("", name))
    return base64.b64decode(found["webhooks"][0]["clientConfig"]["caBundle"])
