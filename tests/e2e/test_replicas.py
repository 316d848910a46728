"""Two replicas of the operator on a real control plane, and the one that leads is killed under load.

They are processes of `grove run`. An API server on this machine knows no Service, so that a balancer of the
test stands before their webhooks: it passes connections on to a replica that accepts them.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
import yaml
from tests.e2e.conftest import Plane
from tests.e2e.plane import LEASES, OPERATOR, OPERATOR_GROUPS, SYSTEM, Act
from tests.e2e.scene import role, train

from grove.api import kinds
from grove.cli.manifests.values import values_from
from grove.errors import ApiError, Invalid, NotFound
from grove.meta import Key, Manifest, resource
from grove.webhook.certificates.plan import Situation, plan_material
from grove.webhook.registrations import ServedAt, desired_webhook_configurations

pytestmark = pytest.mark.real

NAMES: Final = ("first", "second")
LAUNCH: Final = "import sys; from grove.cli.main import main; sys.exit(main())"
#: As in an installation: of a leader that is killed nobody hears for its times, and within ten seconds the other works.
ELECTION: Final = {**values_from().document["leaderElection"], "resourceNamespace": SYSTEM}
LEASE: Final = Key(SYSTEM, ELECTION["resourceName"])
GOES_ON_SECONDS: Final = 10.0
#: The name that the operator expects of a certificate, and the address at which the API server asks.
SERVED_AS: Final = ("grove-operator.default.svc", "127.0.0.1")


@dataclass
class Replica:
    """One process, known in the audit log by a group of its own."""

    name: str
    port: int
    process: asyncio.subprocess.Process
    #: Requests that it was sent and has not answered, by connection.
    pending: set[int] = field(default_factory=set)
    #: Connections that the balancer passed on to it.
    connections: set[int] = field(default_factory=set)

    @property
    def alive(self) -> bool:
        return self.process.returncode is None


@dataclass
class Balancer:
    """Passes each connection on to one of the replicas, in turn, that accepts it."""

    replicas: list[Replica]
    turn: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.turn += 1
        ordered = [
            self.replicas[(self.turn + each) % len(self.replicas)] for each in range(len(self.replicas))
        ]
        for replica in ordered:
            try:
                there = await asyncio.open_connection("127.0.0.1", replica.port)
            except OSError:
                continue
            await _joined(replica, self.turn, (reader, writer), there)
            break
        writer.close()


Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _joined(replica: Replica, number: int, here: Stream, there: Stream) -> None:
    """Until either side ends."""
    replica.connections.add(number)
    up = asyncio.create_task(_pass(here[0], there[1], lambda: replica.pending.add(number)))
    down = asyncio.create_task(_pass(there[0], here[1], lambda: replica.pending.discard(number)))
    try:
        await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        replica.pending.discard(number)
        up.cancel()
        down.cancel()
        there[1].close()
        here[1].close()
        replica.connections.discard(number)


async def _pass(source: asyncio.StreamReader, target: asyncio.StreamWriter, note: Callable[[], None]) -> None:
    with suppress(ConnectionError):
        while data := await source.read(65536):
            note()
            target.write(data)
            await target.drain()


@dataclass
class Load:
    """Sets that are written all the time, as dry runs: good ones, and ones that must be refused."""

    act: Act
    #: Held while something is asked, so that somebody else can hold it while nothing is.
    between: asyncio.Lock = field(default_factory=asyncio.Lock)
    admitted: int = 0
    refused: int = 0
    failed: list[str] = field(default_factory=list)

    async def run(self) -> None:
        while True:
            async with self.between:
                await self._good()
                await self._bad()
            await asyncio.sleep(0.05)

    async def _good(self) -> None:
        try:
            await self._create(train(role("worker", 1), name="good"))
            self.admitted += 1
        except ApiError as error:
            self.failed.append(str(error))

    async def _bad(self) -> None:
        try:
            await self._create(train(role("worker", 1), name="bad", terminationDelay="soon"))
            self.failed.append("a bad set was admitted")
        except Invalid:
            self.refused += 1
        except ApiError as error:
            self.failed.append(str(error))

    async def _create(self, manifest: Manifest) -> None:
        meta = {**manifest["metadata"], "namespace": self.act.scene.namespace}
        await self.act.world.admin.create(kinds.CLIQUESETS, {**manifest, "metadata": meta}, dry_run=True)


async def _start(act: Act, folder: Path, name: str, port: int) -> Replica:
    kubeconfig = act.world.control.kubeconfig_for(OPERATOR, (*OPERATOR_GROUPS, f"replica-{name}"))
    document = yaml.safe_load(act.world.judge.configuration)
    loopback = {"bindAddress": "127.0.0.1", "port": 0}
    manual = {"enabled": True, "certProvisionMode": "manual", "serverCertDir": str(folder)}
    document["server"] = {
        "healthProbes": loopback,
        "metrics": loopback,
        "webhooks": {"bindAddress": "127.0.0.1", "port": port, **manual},
    }
    document["leaderElection"] = ELECTION
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(document))
    with (folder / f"{name}.log").open("w") as said:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", LAUNCH, "run", "--kubeconfig", str(kubeconfig), "--config", str(file)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
    return Replica(name, port, process)


def _free_ports(count: int) -> list[int]:
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(each.getsockname()[1]) for each in taken]
    for each in taken:
        each.close()
    return ports


@asynccontextmanager
async def replicas_behind_a_balancer(act: Act, folder: Path) -> AsyncIterator[list[Replica]]:
    certificate = plan_material(Situation(datetime.now(UTC), SERVED_AS, None)).material
    (folder / "tls.crt").write_bytes(certificate.chain)
    (folder / "tls.key").write_bytes(certificate.key)
    (folder / "ca.crt").write_bytes(certificate.ca)
    ports = _free_ports(2)
    found = [await _start(act, folder, name, port) for name, port in zip(NAMES, ports, strict=True)]
    balancer = await asyncio.start_server(Balancer(found).serve, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{balancer.sockets[0].getsockname()[1]}"
    served = desired_webhook_configurations(
        ServedAt(SYSTEM, url=url, ca_bundle=certificate.ca), operator=OPERATOR, authorizer=False
    )
    try:
        for replica in found:
            await _until_it_answers(replica, folder)
        for each in served:
            await act.world.create(each)
        yield found
    finally:
        for each in served:
            of = resource("admissionregistration.k8s.io", "v1", each["kind"], namespaced=False)
            with suppress(NotFound):
                await act.world.admin.delete(of, Key("", each["metadata"]["name"]))
        for replica in found:
            if replica.alive:
                replica.process.terminate()
            await replica.process.wait()
        balancer.close()


async def _until_it_answers(replica: Replica, folder: Path) -> None:
    """Until it accepts connections: it listens once its caches are filled and it has a certificate."""
    async with asyncio.timeout(60):
        while True:
            assert replica.alive, (folder / f"{replica.name}.log").read_text()
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", replica.port)
            except OSError:
                await asyncio.sleep(0.1)
                continue
            writer.close()
            return


async def _leader(act: Act, replicas: list[Replica]) -> Replica | None:
    try:
        lease = await act.world.admin.get(LEASES, LEASE, type=dict)
    except NotFound:
        return None
    holder = str((lease.get("spec") or {}).get("holderIdentity") or "")
    return next((each for each in replicas if holder.endswith(f"-{each.process.pid}")), None)


async def _until_one_leads(act: Act, replicas: list[Replica]) -> Replica:
    async with asyncio.timeout(30):
        while True:
            found = await _leader(act, replicas)
            if found is not None:
                return found
            await asyncio.sleep(0.1)


async def _until(holds: Callable[[], bool], what: str, seconds: float = 30) -> None:
    """About what other tasks of the test do, of which no watch tells."""
    try:
        async with asyncio.timeout(seconds):
            while not holds():  # noqa: ASYNC110 - it is a number that they count
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"not within {seconds:g} s: {what}") from None


def _writers(act: Act) -> list[str]:
    """Which replica wrote to the namespace, by the audit log, in order."""
    found: list[str] = []
    for entry in act.world.audit.entries(act.scene.namespace):
        groups = [each for each in entry["user"].get("groups", ()) if each.startswith("replica-")]
        # Dry runs of a webhook write nothing: every replica answers.
        if groups and "dryRun=All" not in entry["requestURI"]:
            assert entry["responseStatus"]["code"] != 403, entry["requestURI"]
            found.append(groups[0].removeprefix("replica-"))
    return found


def test_admission_never_fails_and_work_goes_on_when_the_leader_is_killed(
    plane: Plane, tmp_path: Path
) -> None:
    async def story(act: Act) -> None:
        scene = act.scene
        await scene.nodes(4)
        async with replicas_behind_a_balancer(act, tmp_path) as replicas:
            killed = await _until_one_leads(act, replicas)
            other = next(each for each in replicas if each is not killed)
            load = Load(act)
            first = asyncio.create_task(load.run())
            await _until(lambda: load.refused > 3, "the API server asks")
            # A bad set was admitted for as long as the API server had not read of the webhooks.
            load.failed.clear()
            await scene.apply(train(role("worker", 2)))
            await scene.until_running("train-0", 2)
            assert set(_writers(act)) == {killed.name}
            # What it was answering would be lost with it, behind any Service: nothing else may be. The kernel of
            # a node says at once that its connections have ended; the balancer has to notice.
            async with load.between:
                await _until(lambda: not killed.pending, "it is not answering")
                killed.process.kill()
                before, at = load.admitted, time.monotonic()
                await killed.process.wait()
                await _until(lambda: not killed.connections, "its connections have ended")
            await scene.scale(kinds.CLIQUESETS, "train", 2)
            await scene.until(
                lambda: scene.running("train-1", 2), "the other one works", seconds=GOES_ON_SECONDS + 10
            )
            took = time.monotonic() - at
            await _until(lambda: load.admitted > before + 20, "admission goes on")
            first.cancel()
            await asyncio.wait({first})
            assert load.failed == []
            assert took <= GOES_ON_SECONDS
            assert (await _leader(act, replicas)) is other
            writers = _writers(act)
            assert writers == sorted(writers, key=[killed.name, other.name].index), "one after the other"
            await scene.delete(kinds.CLIQUESETS, "train")
            await scene.until(lambda: not scene.pods(), "the pods are gone")

    plane.play("replicas", story, operator=False)
