"""The cluster that needs no cluster: store, API server, HTTPS and actors, put together.

`EmbeddedCluster` starts with sockets (kubectl works) or without (tests); stopping it ends everything that it
started. It is for tests, demos and simulations: inside a pod of a real cluster it refuses to start.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from grove.embedded.access.authentication import Authenticator, service_account_user
from grove.embedded.access.kubeconfig import kubeconfig, write_kubeconfig
from grove.embedded.access.rbac import Authorizer
from grove.embedded.access.tls import Certificates, make_certificates
from grove.embedded.actors.disruption import DisruptionController
from grove.embedded.actors.garbage import GarbageCollector
from grove.embedded.actors.kubelet import Kubelet, KubeletOptions
from grove.embedded.actors.mirror import Mirrors
from grove.embedded.actors.namespaces import NamespaceDeleter
from grove.embedded.actors.nodes import NodeKeeper, NodeOptions
from grove.embedded.actors.podgroup_protection import PodGroupProtection
from grove.embedded.actors.schedulers.simulator import Actor, Surroundings
from grove.embedded.actors.schedulers.simulators import SIMULATORS
from grove.embedded.actors.token_secrets import TokenSecrets
from grove.embedded.actors.waiting import account_in_use, in_process
from grove.embedded.clock import Clock, SystemClock, rfc3339
from grove.embedded.errors import Manifest, gone
from grove.embedded.faults import Faults
from grove.embedded.identity import MASTERS, User
from grove.embedded.kinds import crds
from grove.embedded.kinds.catalog import Catalog
from grove.embedded.local import ActorClient, LocalClient
from grove.embedded.machinery.ssa import Mode
from grove.embedded.nodes import NodeShape, node_objects
from grove.embedded.requests import RequestLog
from grove.embedded.server.app import App, version_info
from grove.embedded.server.http import HttpServer
from grove.embedded.storage.expiry import EventExpiry
from grove.embedded.storage.journal import Journal
from grove.embedded.storage.store import RING, Snapshot, Store
from grove.embedded.verbs.api import API
from grove.embedded.verbs.generator import Generator
from grove.embedded.verbs.webhooks.calling import Caller
from grove.embedded.verbs.webhooks.dispatch import Webhooks
from grove.embedded.verbs.webhooks.services import Address, Program, ServiceDirectory, Services

log = logging.getLogger(__name__)
IN_CLUSTER = "KUBERNETES_SERVICE_HOST"
NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
SCHEDULERS = tuple(SIMULATORS)


class RefusedToStart(Exception):
    """The embedded cluster will not start here; the message says why."""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    kubernetes: str = "1.36"
    nodes: int = 4
    gpus: int = 8
    zones: int = 1
    racks: int = 2
    cpus: int = 64
    memory: str = "512Gi"
    seed: int = 0
    clock: Clock | None = None
    listen: bool = True
    port: int = 0
    data_dir: Path | None = None
    """Keeps the objects here; what was acknowledged survives the end of the process, however it ends."""
    durable: bool = False
    """Waits for the disk at every write, so that the end of the machine loses nothing either."""
    actors: bool = True
    schedulers: tuple[str, ...] = SCHEDULERS
    kubelet: KubeletOptions = field(default_factory=KubeletOptions)
    features: frozenset[str] | None = None
    """The feature gates of the native gang API that are on; None for all, an empty set for none."""
    collected_per_second: float = 0.0
    """How many objects the garbage collector gets through in a second; 0 for as many as it can."""
    managed_fields: Mode = "full"
    faults: Faults | None = None
    ring: int = RING
    tune_gc: bool = False
    """Raises Python's collector thresholds; for a process that is nothing but this cluster."""
    services: Services = field(default_factory=dict)
    """Where the Services of webhooks really listen: (namespace, name) -> (host, port), or a function of this
    process that answers; others are found by their EndpointSlices."""
    force: bool = False
    """Starts even inside a pod of a real cluster."""

    @property
    def shape(self) -> NodeShape:
        return NodeShape(
            nodes=self.nodes,
            gpus=self.gpus,
            cpus=self.cpus,
            memory=self.memory,
            zones=self.zones,
            racks=self.racks,
        )


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """Everything that a cluster is at one moment."""

    store: Snapshot
    generator: tuple[object, int] = field(repr=False)


class EmbeddedCluster:
    def __init__(self, options: ClusterOptions | None = None) -> None:
        self.options = options or ClusterOptions()
        self.clock = self.options.clock or SystemClock()
        self.store = Store(ring=self.options.ring)
        self.catalog = Catalog(self.options.kubernetes, self.options.features)
        self.generator = Generator(self._seed())
        self.faults = self.options.faults or Faults(seed=self.options.seed)
        self.requests = RequestLog()
        self.api = API(
            self.store,
            self.catalog,
            clock=self.clock,
            generator=self.generator,
            managed_fields=self.options.managed_fields,
        )
        self.services: dict[tuple[str, str], Address | Program] = dict(self.options.services)
        """Where the Services of webhooks listen now; may be changed while the cluster runs."""
        self.webhooks = self._webhooks()
        self.api.dynamic.webhooks = self.webhooks
        self._expiry = EventExpiry(self.store)
        self._journal = self._open_journal()
        self.token = self._secret("token")
        self.authenticator = Authenticator(
            self.api, admin_token=self.token, key=self._secret("service-account-key").encode()
        )
        self.app = App(
            self.api,
            authenticator=self.authenticator,
            authorizer=Authorizer(find=self.api.find, all_of=self.api.all_of),
            faults=self.faults,
            requests=self.requests,
        )
        self._certificates: Certificates | None = None
        self._server: HttpServer | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._mirrors: Mirrors | None = None
        self._loaded: Snapshot | None = None

    def _webhooks(self) -> Webhooks:
        directory = ServiceDirectory(self.services, find=self.api.find, all_of=self.api.all_of)
        return Webhooks(
            any_of=lambda key: bool(self.store.table(key).entries),
            all_of=self.api.all_of,
            find=self.api.find,
            equivalents=self.catalog.registry.versions,
            caller=Caller(directory),
            new_uid=self.generator.uid,
        )

    # --- life

    async def start(self) -> EmbeddedCluster:
        """Starts everything; when it returns, requests are answered."""
        try:
            self._require_no_cluster()
            if self.options.tune_gc:
                gc.set_threshold(50_000, 25, 50)
            await self._start()
        except BaseException:
            await self.stop()
            raise
        return self

    def _require_no_cluster(self) -> None:
        if os.environ.get(IN_CLUSTER) and not self.options.force:
            raise RefusedToStart(
                f"{IN_CLUSTER} is set: this looks like a pod of a real cluster, where an embedded cluster "
                "would only confuse; set force to start anyway"
            )

    async def _start(self) -> None:
        if self._journal is not None:
            await self._resume(self._journal)
        elif self._loaded is None:
            await self._furnish()
        self._expiry.start()
        if self.options.listen:
            self._certificates = await asyncio.to_thread(make_certificates)
            self._server = HttpServer(self.app, self._certificates, port=self.options.port)
            await self._server.start()
        if self.options.actors:
            self._start_actors()

    async def _resume(self, journal: Journal) -> None:
        """Goes on with what the data directory holds; a cluster that was never complete starts over."""
        complete = journal.fact("furnished") is not None
        if not complete:
            # Nobody was served yet, so that nothing in it was acknowledged.
            journal.empty()
        journal.load(self.store)
        self.store.keep = journal.keep
        for crd in self.api.all_of(crds.GROUP, crds.PLURAL):
            self.api.custom.after_store(crd)
        services = self.api.all_of("", "services")
        self.generator.resume_addresses(each["spec"].get("clusterIP") or "" for each in services)
        await self.app.deletions.resume()
        if not complete:
            await self._furnish()
            journal.remember("furnished", "yes")

    async def stop(self) -> None:
        """Ends actors, watches, the listener and the journal, in that order."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        if self._mirrors is not None:
            await self._mirrors.close()
            self._mirrors = None
        self._expiry.stop()
        self.store.end_watches()
        if self._server is not None:
            await self._server.stop()
            self._server = None
        await self.webhooks.close()
        if self._journal is not None:
            self._journal.close(self.store.revision)
            self._journal = None

    async def __aenter__(self) -> EmbeddedCluster:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _seed(self) -> int | str:
        """What made-up names depend on: chance, where objects are kept, for no uid may come twice."""
        return self.options.seed if self.options.data_dir is None else secrets.token_hex(16)

    def _open_journal(self) -> Journal | None:
        if self.options.data_dir is None:
            return None
        return Journal(self.options.data_dir, durable=self.options.durable)

    def _secret(self, name: str) -> str:
        """A secret of this cluster; kept with the data so that kubeconfigs and tokens survive a restart."""
        known = self._journal.fact(name) if self._journal else None
        secret = known or secrets.token_urlsafe(32)
        if self._journal is not None and known is None:
            self._journal.remember(name, secret)
        return secret

    # --- contents

    async def _furnish(self) -> None:
        """What a fresh cluster has before anybody asks for anything."""
        client = self.client(agent="kube-apiserver")
        for name in NAMESPACES:
            await client.create("/api/v1/namespaces", {"metadata": {"name": name}})
        for name, value in PRIORITIES.items():
            level = {
                "metadata": {"name": name},
                "value": value,
                "description": "Used for system critical pods.",
            }
            await client.create("/apis/scheduling.k8s.io/v1/priorityclasses", level)
        role: Manifest = {"metadata": {"name": "cluster-admin"}, "rules": _EVERYTHING}
        await client.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
        version = version_info(self.options.kubernetes)["gitVersion"]
        for name in SCHEDULERS:
            if self.options.actors and name in self.options.schedulers:
                await SIMULATORS[name].install(client)
        for node in node_objects(self.options.shape, version=version, now=rfc3339(self.clock.now())):
            await client.create("/api/v1/nodes", node)
        # What happened before the cluster was ready is nobody's history.
        self.store.compact()

    def number_of_nodes(self) -> int:
        """How many nodes there are: those of its options only where nothing was stored before."""
        return len(list(self.api.all_of("", "nodes")))

    def _serve_stored_crds(self) -> None:
        for crd in self.api.all_of(crds.GROUP, crds.PLURAL):
            if crds.is_established(crd):
                self.catalog.serve(crd)

    def _start_actors(self) -> None:
        self._mirrors = Mirrors(self.client(_actor("mirrors"), agent="embedded-mirrors"))
        for name, actor in self._actors(self._mirrors).items():
            self._start_actor(name, actor)

    def _start_actor(self, name: str, actor: Actor) -> None:
        task = asyncio.create_task(actor.run(), name=f"embedded {name}")
        task.add_done_callback(_report)
        self._tasks.append(task)

    def _actors(self, mirrors: Mirrors) -> dict[str, Actor]:
        """Who acts in this cluster; all of them share what they have seen."""
        minor = self.options.kubernetes
        actors: dict[str, Actor] = {
            "garbage-collector": GarbageCollector(
                self._own("garbage-collector"),
                self.clock,
                mirrors=mirrors,
                per_second=self.options.collected_per_second,
            ),
            "namespaces": NamespaceDeleter(self._own("namespaces"), self.clock, mirrors=mirrors),
            "nodes": NodeKeeper(
                self._own("nodes"), self.clock, mirrors=mirrors, options=self._node_options()
            ),
            "kubelet": self._kubelet(mirrors),
            "disruption": DisruptionController(self._own("disruption"), self.clock, mirrors=mirrors),
            "token secrets": TokenSecrets(self._own("token-secrets"), mirrors=mirrors),
        }
        if minor != "1.35":
            protection = PodGroupProtection(self._own("podgroups"), self.clock, minor=minor, mirrors=mirrors)
            actors["podgroups"] = protection
        around = Surroundings(self._own, self.clock, mirrors, minor)
        for name in self.options.schedulers:
            if name not in SIMULATORS:
                raise ValueError(f"unknown scheduler {name!r}; choose from {', '.join(SCHEDULERS)}")
            actors |= SIMULATORS[name].actors(around)
        return actors

    def _kubelet(self, mirrors: Mirrors) -> Kubelet:
        kubelet = Kubelet(
            self._own("kubelet"),
            self.clock,
            mirrors=mirrors,
            options=self.options.kubelet,
            wait=in_process(self._account),
        )
        self.app.log_lines = kubelet.log_lines
        return kubelet

    @asynccontextmanager
    async def _account(self, pod: Manifest) -> AsyncIterator[ActorClient]:
        """A client of a program in a pod: it may do what the pod's service account may."""
        namespace = pod["metadata"]["namespace"]
        account = await account_in_use(pod, self.client())
        yield self.client(service_account_user(namespace, account), agent="grove-wait-for")

    def _node_options(self) -> NodeOptions:
        return NodeOptions(version=version_info(self.options.kubernetes)["gitVersion"])

    def _own(self, name: str) -> LocalClient:
        return self.client(_actor(name), agent=f"embedded-{name}")

    # --- ways in

    @property
    def url(self) -> str:
        if self._server is None:
            raise RuntimeError("this embedded cluster does not listen; start it with listen=True")
        return self._server.url

    def client(self, user: User | None = None, *, agent: str = "embedded") -> LocalClient:
        """A client inside the process; the administrator unless another user is named."""
        return LocalClient(self.app, user, agent=agent) if user else LocalClient(self.app, agent=agent)

    def kubeconfig(self, path: Path | None = None) -> Manifest:
        """The kubeconfig of this cluster's administrator; also written to a file when one is named."""
        if self._certificates is None:
            raise RuntimeError("this embedded cluster does not listen; start it with listen=True")
        content = kubeconfig(self.url, authority=self._certificates.authority, token=self.token)
        if path is not None:
            write_kubeconfig(path, content)
        return content

    # --- tricks that only an embedded cluster can do

    def compact(self) -> None:
        """Forgets the past: every open watch ends with 410, and so does every attempt to resume."""
        self.store.compact()
        self.store.end_watches(error=gone("The resourceVersion for the provided watch is too old."))

    async def stop_actor(self, name: str) -> None:
        """Ends one actor where it stands, as SIGKILL ends a process; what it has not written is lost."""
        stopped = [task for task in self._tasks if task.get_name() == f"embedded {name}"]
        for task in stopped:
            task.cancel()
        await asyncio.gather(*stopped, return_exceptions=True)
        self._tasks = [task for task in self._tasks if task not in stopped]

    def start_actor(self, name: str) -> None:
        """Starts an actor that was stopped; it knows nothing but what the API tells it."""
        if self._mirrors is None:
            raise RuntimeError("this embedded cluster has no actors; start it with actors=True")
        self._start_actor(name, self._actors(self._mirrors)[name])

    def drop_watches(self) -> None:
        """Ends every open watch without a word; clients may resume."""
        self.store.end_watches()

    def snapshot(self) -> ClusterSnapshot:
        return ClusterSnapshot(self.store.snapshot(), self.generator.getstate())

    def restore(self, snapshot: ClusterSnapshot) -> None:
        """Goes back to a snapshot; open watches end with 410."""
        if self._journal is not None:
            raise RuntimeError("a cluster with a data directory cannot be restored; fork it instead")
        for crd in self.api.all_of(crds.GROUP, crds.PLURAL):
            self.catalog.withdraw(crd["metadata"]["name"])
        self.store.restore(snapshot.store)
        self.generator.setstate(snapshot.generator)
        self._serve_stored_crds()
        self._expiry.look_again()

    async def fork(self, **changes: object) -> EmbeddedCluster:
        """A second, running cluster that starts from this one's state; it listens only when told to."""
        defaults: dict[str, object] = {
            "listen": False,
            "data_dir": None,
            "faults": None,
            "services": dict(self.services),
        }
        options = replace(self.options, **{**defaults, **changes})  # type: ignore[arg-type]
        twin = EmbeddedCluster(options)
        snapshot = self.snapshot()
        twin.restore(snapshot)
        twin._loaded = snapshot.store
        return await twin.start()


_EVERYTHING = [
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
]


def _actor(name: str) -> User:
    return User(f"system:embedded:{name}", (MASTERS, "system:authenticated"))


def _report(task: asyncio.Task[None]) -> None:
    """An actor that ends by itself is a defect; say so instead of standing still."""
    if task.cancelled():
        return
    error = task.exception()
    if error is not None:
        log.error("%s stopped: %s", task.get_name(), error, exc_info=error)


__all__ = ["ClusterOptions", "ClusterSnapshot", "EmbeddedCluster", "RefusedToStart"]
