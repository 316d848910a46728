"""The composition root: configuration in, wired Manager out. The only place that knows everything."""

import logging
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from grove import __version__
from grove.api import kinds, labels
from grove.api.cliqueset import PodCliqueSet
from grove.api.config import UNTRACKED, OperatorConfiguration
from grove.api.pod import Pod
from grove.api.topology import ClusterTopologyBinding
from grove.controllers import events, wakeups
from grove.controllers.apply import Applier, WriteBarrier
from grove.controllers.clique import CliqueReconciler
from grove.controllers.cliqueset import BY_SET, CliqueSetReconciler
from grove.controllers.dependencies import Dependencies
from grove.controllers.devices import PODS_BY_CLAIM, Devices, claims_used
from grove.controllers.gang import GangReconciler
from grove.controllers.members import (
    CLIQUES_BY_OWNER,
    GANGS_BY_BASE,
    LIVING_PODS_BY_GANG,
    PODS_BY_CLIQUE,
    PODS_BY_GANG,
    PODS_BY_OWNER,
)
from grove.controllers.memory.census import Census
from grove.controllers.memory.contests import Contests
from grove.controllers.memory.disruptions import Disruptions
from grove.controllers.memory.holdings import Holdings
from grove.controllers.memory.liveness import Liveness
from grove.controllers.memory.milestones import Milestones
from grove.controllers.memory.pod_limit import PodLimit
from grove.controllers.memory.preemptions import Preemptions
from grove.controllers.memory.trials import Trials
from grove.controllers.memory.vanished import Vanished
from grove.controllers.pacing import PodTraffic, StatusThrottle, WriteLoad
from grove.controllers.removal import Removal
from grove.controllers.report import Reporter
from grove.controllers.scaling_group import ScalingGroupReconciler
from grove.controllers.schedulers.definitions import Definitions
from grove.controllers.schedulers.observation import Observation
from grove.controllers.schedulers.remarks import Remarks
from grove.controllers.schedulers.scheduling import Scheduling, owner_uids
from grove.controllers.standalone import StandalonePods
from grove.controllers.topology import TopologyReconciler
from grove.errors import GroveError
from grove.extensions import configs_for, external_in, installed, registry_for
from grove.kube.client import Client
from grove.meta import Key, Object, Resource
from grove.plan.children import registry
from grove.plan.startup import image_with_tag
from grove.runtime.cache import Cache
from grove.runtime.clock import Clock, SystemClock
from grove.runtime.controller import Controller
from grove.runtime.events import EventTarget, Recorder
from grove.runtime.informer import Informer
from grove.runtime.lease import LeaderElector, LeaseTimes
from grove.runtime.manager import Manager
from grove.runtime.metrics import Metrics
from grove.runtime.outcome import Outcome
from grove.runtime.request_metrics import RequestMetrics

if TYPE_CHECKING:
    from grove.webhook.server import WebhookServer
    from grove.webhook.serving import CertificateSource

log = logging.getLogger(__name__)


class MissingResources(GroveError):
    """The cluster does not serve kinds that the operator needs."""

    code = "ERR_MISSING_CRDS"


@dataclass(frozen=True, slots=True)
class Operator:
    """A wired operator: run `manager`; the rest is for whoever looks inside."""

    manager: Manager
    cache: Cache
    controllers: dict[str, Controller]
    #: By the name of their controller, for who only wants to know what they would do.
    reconcilers: Mapping[str, "Reconciler"]
    scheduling: Scheduling
    metrics: Metrics
    recorder: Recorder
    #: Tells about this process itself, whether it leads or not.
    own_events: Recorder
    #: What API servers ask, where webhooks are served.
    webhooks: "WebhookServer | None" = None

    async def reconfigure(self, configuration: OperatorConfiguration) -> None:
        """Enable other backends without a restart; raises InvalidConfiguration, and then nothing changes."""
        scheduler = configuration.scheduler
        registry = registry_for(scheduler)
        configs, external = configs_for(registry, scheduler), external_in(registry, scheduler)
        await self.scheduling.reconfigure(registry, configs, external)


class Reconciler(Protocol):
    """What the loop runs; it tells the loop's barrier what it wrote."""

    barrier: WriteBarrier

    async def reconcile(self, key: Key) -> Outcome: ...


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this operator process is among its replicas."""

    name: str = labels.MANAGER
    namespace: str = "default"
    #: The user as whom it writes, where that is known.
    user: str = ""
    #: What events about itself are about; None outside of a cluster.
    pod: EventTarget | None = None


async def assemble(
    client: Client,
    configuration: OperatorConfiguration,
    *,
    clock: Clock | None = None,
    rng: random.Random | None = None,
    identity: Identity = Identity(),  # noqa: B008 - frozen
    election_client: Client | None = None,
    health: bool = True,
    host: str = "127.0.0.1",
    only: str = "",
    webhooks: bool = False,
    certificates: "CertificateSource | None" = None,
) -> Operator:
    """Wire an operator against the cluster behind `client`; asks it what it serves, writes nothing.

    With `only` it is the process of that backend and acts on the gangs that the operator leaves to it alone.
    What a leader writes besides its lease and events about itself passes the elector's fence. `host` is where
    probes and webhooks are served unless the configuration says. `webhooks` are served leading or not.
    """
    metrics = Metrics()
    client = client.observed(RequestMetrics(metrics))
    process = _Process(
        client, configuration, identity, clock or SystemClock(), rng or random.Random(), metrics, only
    )
    elector = _elector(process, election_client)
    own_events = process.recorder()
    if elector is not None:
        process = replace(process, client=client.fenced(elector.fence))
    deps = _dependencies(process)
    await _discover(process, deps)
    standalone = StandalonePods(process.client, deps.cache)
    controllers, reconcilers = _controllers(process, deps, standalone)
    _connect(deps, controllers, standalone)
    manager = _manager(process, deps, controllers, elector, host if health else None)
    manager.add_service("own events", own_events.run)
    unfenced = replace(process, client=client)
    server = await _webhooks(unfenced, deps, manager, own_events, certificates, host) if webhooks else None
    told = (process.metrics, deps.recorder, own_events)
    return Operator(manager, deps.cache, controllers, reconcilers, deps.scheduling, *told, server)


@dataclass(frozen=True, slots=True)
class _Process:
    """What every part of one operator process is wired with."""

    client: Client
    configuration: OperatorConfiguration
    identity: Identity
    clock: Clock
    rng: random.Random
    metrics: Metrics
    #: The backend that this is the process of; blank for the operator.
    only: str

    def recorder(self) -> Recorder:
        return Recorder(
            self.client, self.clock, labels.MANAGER, instance=self.identity.name, metrics=self.metrics
        )

    def randomness(self) -> random.Random:
        """A source of its own for one part: what the others draw does not change what it draws."""
        return random.Random(self.rng.getrandbits(64))


def _dependencies(process: _Process) -> Dependencies:
    """What the reconcilers share; nothing of it runs yet."""
    client, clock = process.client, process.clock
    traffic, load, preemptions = PodTraffic(clock), WriteLoad(), Preemptions(clock)
    disruptions = Disruptions()
    cache, pods = _cache(process)
    vanished = Vanished(client, cache)
    devices = Devices(client, cache, clock, process.randomness())
    observation = Observation(client, clock, process.randomness())
    remarks = Remarks(client, cache, clock, process.randomness())
    for saw in (traffic.saw, preemptions.saw, disruptions.saw, vanished.saw, remarks.saw):
        pods.subscribe(saw)
    if not process.only:
        cache.listen(kinds.CLIQUESETS, devices.saw)
    # Pods, which are made of what a user wrote, are created strictly all the same.
    tracks = process.configuration.field_ownership != UNTRACKED
    applier = Applier(client.trusted(), load, tracks_managers=tracks)
    return Dependencies(
        cache,
        applier,
        Reporter(applier, _throttle(process, traffic, load)),
        Liveness(client),
        _scheduling(process, cache, observation, remarks),
        process.recorder(),
        Milestones(process.metrics, cache),
        preemptions,
        disruptions,
        vanished,
        devices,
        Removal(client, cache, applier, clock),
        clock,
    )


def _throttle(process: _Process, traffic: PodTraffic, load: WriteLoad) -> StatusThrottle:
    lag = process.metrics.histogram("grove_status_lag_seconds")
    throttle = StatusThrottle(
        process.clock, traffic, load, lagged=lambda about, seconds: lag.labels(str(about)).observe(seconds)
    )
    process.metrics.gauge("grove_status_oldest_unwritten_seconds").set_function(lambda: throttle.oldest)
    return throttle


def _count_gangs(process: _Process, deps: Dependencies, manager: Manager) -> None:
    """Tell how gangs and sets stand; the process of one backend leaves that to the operator."""
    if process.only:
        return
    metrics, clock, scheduling = process.metrics, process.clock, deps.scheduling
    census = Census(
        metrics,
        clock,
        enabled=lambda name: scheduling.registry.get(name) is not None,
        answers=manager.working.is_set,
    )
    holdings = Holdings(metrics, clock, answers=manager.working.is_set)
    deps.cache.listen(kinds.GANGS, census.saw_gang)
    deps.cache.listen(kinds.CLIQUESETS, census.saw_set)
    deps.cache.listen(kinds.GANGS, holdings.saw_gang)
    deps.cache.listen(kinds.CLIQUES, holdings.saw_clique)
    deps.cache.listen(kinds.PODS, holdings.saw_pod)


def _manager(
    process: _Process,
    deps: Dependencies,
    controllers: dict[str, Controller],
    elector: LeaderElector | None,
    host: str | None,
) -> Manager:
    """What starts and stops everything; without a `host` it serves no probes and tunes no collector."""
    server = process.configuration.server
    probes, page = server.health_probes, server.metrics
    manager = Manager(
        deps.cache,
        list(controllers.values()),
        metrics=process.metrics,
        recorder=deps.recorder,
        elector=elector,
        health_address=(probes.bind_address or host, probes.port) if host is not None else None,
        metrics_address=(page.bind_address or host, page.port) if host is not None else None,
        tune_gc=host is not None,
    )
    scheduling = deps.scheduling
    definitions = Definitions(process.client, deps.clock, process.randomness(), changed=scheduling.stir)
    manager.add_service("discovery", scheduling.run)
    manager.add_service("observation", scheduling.observation.run)
    manager.add_service("remarks", scheduling.remarks.run)
    manager.add_service("claim templates", deps.devices.run)
    manager.add_service("definitions", definitions.run)
    _count_gangs(process, deps, manager)
    return manager


async def _webhooks(
    process: _Process,
    deps: Dependencies,
    manager: Manager,
    recorder: Recorder,
    certificates: "CertificateSource | None",
    host: str,
) -> "WebhookServer":
    """The webhooks of this process; its client is not fenced, because a standby answers as well."""
    # Only here: whoever serves no webhooks needs no such server, which is ten megabytes.
    from grove.webhook.authorizer import own_user
    from grove.webhook.reviews import reviews_by_path
    from grove.webhook.server import WebhookServer
    from grove.webhook.surroundings import Surroundings

    configuration, client = process.configuration, process.client
    server = configuration.server.webhooks
    user = process.identity.user
    if configuration.authorizer.enabled and not user:
        user = await own_user(client)
    known = Surroundings(deps.cache, deps.scheduling, configuration)
    served = WebhookServer(
        reviews_by_path(known, client, user),
        certificates or _own_certificates(process, recorder),
        process.metrics,
        synced=deps.cache.wait_synced,
        host=server.bind_address or host,
        port=server.port,
    )
    manager.add_service("webhooks", served.run)
    manager.readiness.add("webhooks", served.lacking)
    return served


def _own_certificates(process: _Process, recorder: Recorder) -> "CertificateSource":
    """The certificates that the configuration asks for; what is wrong with them becomes an event."""
    # Only here: whoever serves no webhooks needs no cryptography.
    from grove.webhook.certificates.provision import certificate_source

    def tell(why: str) -> None:
        if process.identity.pod is not None:
            recorder.send(events.certificate_problem(process.identity.pod, why))

    return certificate_source(
        process.configuration.server.webhooks,
        process.client,
        namespace=process.identity.namespace,
        clock=process.clock,
        rng=process.randomness(),
        metrics=process.metrics,
        tell=tell,
    )


async def _discover(process: _Process, deps: Dependencies) -> None:
    """Ask what the cluster serves, and read what not every cluster does."""
    await _require_crds(process.client)
    await deps.scheduling.discover()
    _watch_optional_kinds(process, deps)


async def _require_crds(client: Client) -> None:
    """Refuse to start without our kinds, with the sentence that helps."""
    discovery = await client.discover()
    missing = [
        str(each) for each in kinds.OURS if each.plural not in discovery.served.get(each.api_version, ())
    ]
    if missing:
        raise MissingResources(
            f"the cluster does not serve {', '.join(missing)}; "
            "install Grove's CRDs first: grove crds | kubectl apply --server-side -f -"
        )


def _cache(process: _Process) -> tuple[Cache, Informer[Pod]]:
    """One informer for each kind that we read, and that of pods: only of gangs, also of standalone ones."""
    cache = Cache(process.client, process.clock, rng=process.rng)
    cache.add(kinds.CLIQUESETS, PodCliqueSet)
    for kind in registry.KINDS:
        if kind.resource in registry.OPTIONAL:
            continue
        if process.only and kind.resource not in registry.MEMBERSHIP:
            # Whoever makes no children of sets need not be allowed to read all of their kinds.
            continue
        indexes = {BY_SET: set_of, **_INDEXES.get(kind.resource, {})}
        cache.add(kind.resource, kind.view, labels=kind.selector, indexes=indexes)
    pods = cache.add(
        kinds.PODS,
        Pod,
        # Also pods that Grove did not create: those of standalone gangs.
        labels=labels.POD_GANG,
        indexes={
            PODS_BY_OWNER: owner_uids,
            PODS_BY_GANG: gang_of,
            LIVING_PODS_BY_GANG: gang_of_living,
            PODS_BY_CLIQUE: clique_of,
            BY_SET: set_of,
            PODS_BY_CLAIM: claims_used,
        },
    )
    cache.add(kinds.TOPOLOGY_BINDINGS, ClusterTopologyBinding)
    return cache, pods


def _watch_optional_kinds(process: _Process, deps: Dependencies) -> None:
    """Read those kinds of children that not every cluster serves, now and whenever that changes."""
    if process.only:
        return
    watch = partial(_watch_served, deps.cache, deps.scheduling, process.configuration)
    watch()
    deps.scheduling.changed.append(watch)


def _watch_served(cache: Cache, scheduling: Scheduling, configuration: OperatorConfiguration) -> None:
    """Read those of the optional kinds that are served now."""
    unused = () if configuration.network.auto_mnnvl_enabled else (kinds.COMPUTE_DOMAINS,)
    for kind in registry.KINDS:
        if kind.resource not in registry.OPTIONAL:
            continue
        if scheduling.cluster.serves(kind.resource) and kind.resource not in unused:
            cache.add(kind.resource, kind.view, labels=kind.selector, indexes={BY_SET: set_of})
        elif cache.informer(kind.resource) is not None:
            cache.remove(kind.resource)


def _scheduling(process: _Process, cache: Cache, observation: Observation, remarks: Remarks) -> Scheduling:
    scheduler = process.configuration.scheduler
    offered = installed()
    registry = registry_for(scheduler, offered)
    for each in offered:
        if each.problem:
            log.warning("a scheduler backend cannot be used and is left out", extra={"error": each.problem})
    return Scheduling(
        registry,
        process.client,
        cache,
        process.metrics,
        observation,
        remarks,
        configs=configs_for(registry, scheduler),
        external=external_in(registry, scheduler),
        only=process.only,
    )


def _reconcilers(
    process: _Process, deps: Dependencies, standalone: StandalonePods
) -> dict[str, tuple[Reconciler, int]]:
    """The reconcilers of this process by the name of their controller, each with how much it does at once."""
    configuration, client = process.configuration, process.client
    syncs, most = configuration.controllers, configuration.limits.pods_per_set
    gangs = (GangReconciler(deps, standalone), syncs.pod_gang.concurrent_syncs)
    if process.only:
        return {wakeups.GANG: gangs}
    return {
        wakeups.CLIQUESET: (
            CliqueSetReconciler(
                deps,
                Contests(client, deps.clock),
                Trials(client, deps.clock, deps.applier.slots),
                topology_aware=configuration.topology_aware_scheduling.enabled,
                pods_per_set=most,
                nvlink_domains=configuration.network.auto_mnnvl_enabled,
            ),
            syncs.pod_clique_set.concurrent_syncs,
        ),
        wakeups.CLIQUE: (
            CliqueReconciler(
                deps,
                PodLimit(deps.cache, most),
                wait_image=image_with_tag(configuration.startup_order.image, __version__),
            ),
            syncs.pod_clique.concurrent_syncs,
        ),
        wakeups.SCALING_GROUP: (
            ScalingGroupReconciler(deps),
            syncs.pod_clique_scaling_group.concurrent_syncs,
        ),
        wakeups.GANG: gangs,
        wakeups.TOPOLOGY: (TopologyReconciler(deps), 1),
    }


def _controllers(
    process: _Process, deps: Dependencies, standalone: StandalonePods
) -> tuple[dict[str, Controller], dict[str, Reconciler]]:
    """The controllers of this process, and what each of them runs."""
    controllers, reconcilers = {}, {}
    for name, (reconciler, workers) in _reconcilers(process, deps, standalone).items():
        controller = Controller(
            name,
            reconciler.reconcile,
            clock=deps.clock,
            cache=deps.cache,
            workers=workers,
            metrics=process.metrics,
            rng=process.randomness(),
        )
        reconciler.barrier = controller.barrier
        controllers[name], reconcilers[name] = controller, reconciler
    return controllers, reconcilers


def _connect(deps: Dependencies, controllers: dict[str, Controller], standalone: StandalonePods) -> None:
    """Let changes wake whoever depends on them, and be forgotten by whoever remembers."""
    _forget_the_gone(deps, standalone)
    wakeups.connect(deps.cache, deps.scheduling, deps.devices, dict(controllers), deps.applier.own_writes)


def _forget_the_gone(deps: Dependencies, standalone: StandalonePods) -> None:
    """What is remembered by an object's UID goes when the object does, whoever looks at it then."""
    forgets: tuple[tuple[Resource, Callable[[str], None]], ...] = (
        (kinds.CLIQUESETS, deps.scheduling.forget),
        (kinds.GANGS, deps.milestones.forget),
        (kinds.PODS, standalone.forget),
        (kinds.PODS, deps.removal.forget),
    )
    for resource, forget in forgets:
        informer = deps.cache.informer(resource)
        assert informer is not None
        informer.subscribe(partial(_gone, forget))


def _gone(forget: Callable[[str], None], old: Object | None, new: Object | None) -> None:
    if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
        forget(old.metadata.uid)


def _elector(process: _Process, client: Client | None) -> LeaderElector | None:
    """Who waits for the lease, with a client of its own if there is one."""
    election, identity = process.configuration.leader_election, process.identity
    if not election.enabled:
        return None
    return LeaderElector(
        process.client if client is None else client.observed(RequestMetrics(process.metrics)),
        Key(election.resource_namespace or identity.namespace, election.lease_name(process.only)),
        identity.name,
        clock=process.clock,
        rng=process.rng,
        times=LeaseTimes(election.lease_seconds, election.renew_seconds, election.retry_seconds),
        metrics=process.metrics,
    )


def set_of(item: Object) -> Iterable[str]:
    """The index by set: the label that everything belonging to one carries."""
    return _labelled(item, labels.PART_OF)


def gang_of(item: Object) -> Iterable[str]:
    """The index by gang."""
    return _labelled(item, labels.POD_GANG)


def gang_of_living(item: Object) -> Iterable[str]:
    """The index by gang of what is not terminating."""
    return () if item.terminating else _labelled(item, labels.POD_GANG)


def base_of(item: Object) -> Iterable[str]:
    """The index of scaled gangs by their base gang."""
    return _labelled(item, labels.BASE_POD_GANG)


def clique_of(item: Object) -> Iterable[str]:
    """The index by clique."""
    return _labelled(item, labels.POD_CLIQUE)


def _labelled(item: Object, label: str) -> Iterable[str]:
    """Where an index files what names something in its own namespace by a label."""
    metadata = item.metadata
    name = metadata.labels.get(label)
    # The text of a Key, without the Key: every change of a pod is filed in six indexes.
    return (f"{metadata.namespace}/{name}",) if name else ()


#: What children are found by besides their set.
_INDEXES: Mapping[Resource, Mapping[str, Callable[[Object], Iterable[str]]]] = {
    kinds.GANGS: {GANGS_BY_BASE: base_of},
    kinds.CLIQUES: {CLIQUES_BY_OWNER: owner_uids},
}
