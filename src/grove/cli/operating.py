"""Run the operator against a cluster: configuration, permissions, start, orderly end.

Every way in which this can fail before it works becomes one sentence that names what to change.
"""

import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import msgspec

from grove.api import kinds
from grove.api.config import OperatorConfiguration
from grove.assembly import Identity, Operator, assemble
from grove.backends.base import TopologyAware
from grove.cli.configuration import configuration_from as configuration_from
from grove.cli.configuration import warnings_about as warnings_about
from grove.cli.connect import Reached, connected
from grove.cli.loop import Interrupted, stop_on_signals, unless_stopped
from grove.cli.permissions import Need, missing, needed, sentence
from grove.cli.talk import Failed
from grove.controllers.schedulers.scheduling import Scheduling
from grove.errors import ApiError, InvalidConfiguration, Unreachable
from grove.extensions import external_in, registry_for
from grove.kube.client import Client
from grove.kube.limiter import Limiter
from grove.meta import Key, Resource
from grove.runtime.events import EventTarget

log = logging.getLogger(__name__)

#: What makes the logs as a configuration says.
LogAs = Callable[[OperatorConfiguration], None]

#: How often missing permissions are asked for again.
_ASK_AGAIN_SECONDS: Final = 30.0
_ACCOUNT_VARIABLE: Final = "GROVE_OPERATOR_SERVICE_ACCOUNT_NAME"
_LOOPBACK: Final = "127.0.0.1"
#: Of both families: a pod may have an address of IPv6 alone.
_EVERY_ADDRESS: Final = ""
_CANNOT_LISTEN: Final = {
    errno.EADDRINUSE: "is already in use",
    errno.EACCES: "may not be used by this user",
    errno.EADDRNOTAVAIL: "is on an address that this machine does not have",
}


def alone(configuration: OperatorConfiguration, name: str, port: int | None) -> OperatorConfiguration:
    """The configuration of a process that acts for one backend; raises if the operator acts for it itself."""
    registry = registry_for(configuration.scheduler)
    backend = registry.get(name)
    if backend is None:
        enabled = ", ".join(each.name for each in registry.enabled)
        raise InvalidConfiguration(
            f"scheduler.profiles: {name!r} is not among the enabled backends: {enabled}"
        )
    if name not in external_in(registry, configuration.scheduler):
        found = [registry.find(profile.name) for profile in configuration.scheduler.profiles]
        raise InvalidConfiguration(
            f"scheduler.profiles[{found.index(backend)}].external: must be true for a process that acts for "
            f"{name} alone; as it is, the operator acts on the gangs of {name}"
        )
    if port is None:
        return configuration
    probes = msgspec.structs.replace(configuration.server.health_probes, port=port)
    # One machine may run several of them beside the operator: one port for both.
    page = msgspec.structs.replace(configuration.server.metrics, bind_address=probes.bind_address, port=port)
    server = msgspec.structs.replace(configuration.server, health_probes=probes, metrics=page)
    return msgspec.structs.replace(configuration, server=server)


def limiter_of(configuration: OperatorConfiguration) -> Limiter:
    """The rate limit that the configuration asks for."""
    limits = configuration.runtime_client_connection
    return Limiter(limits.qps, max(limits.burst, 1)) if limits.qps else Limiter.off()


def identity_of(namespace: str) -> Identity:
    """Who this process is among its replicas: the pod's name in a cluster, host and process elsewhere."""
    host, account = socket.gethostname(), os.environ.get(_ACCOUNT_VARIABLE, "").strip()
    user = f"system:serviceaccount:{namespace}:{account}" if account else ""
    if not _in_pod():
        return Identity(f"{host}-{os.getpid()}", namespace)
    return Identity(host, namespace, user, EventTarget(kinds.PODS, Key(namespace, host), ""))


def serves_webhooks(configuration: OperatorConfiguration) -> bool:
    """Whether the operator answers API servers: as configured, else where one can reach it, in a pod."""
    asked = configuration.server.webhooks.enabled
    return _in_pod() if asked is None else asked


def _in_pod() -> bool:
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST"))


async def serve(
    kubeconfig: str | None,
    context: str | None,
    configuration: OperatorConfiguration,
    namespace: str,
    *,
    path: str | None = None,
    only: str = "",
    log_as: LogAs | None = None,
) -> None:
    """Run the operator, or the process of one backend; what keeps it from working is raised with a sentence.

    `path` is the file that the configuration is from; it is followed while the operator runs, `log_as` with
    it.
    """
    limiter = limiter_of(configuration)
    with stop_on_signals() as stop:
        async with connected(kubeconfig, context, manager="grove-operator", limiter=limiter) as reached:
            try:
                operator = await unless_stopped(
                    operator_for(
                        reached,
                        configuration,
                        namespace=namespace,
                        path=path,
                        only=only,
                        log_as=log_as,
                        # The kubelet probes a pod at the pod's own address.
                        host=_EVERY_ADDRESS if _in_pod() else _LOOPBACK,
                    ),
                    stop,
                )
            except Interrupted:
                return
            except Unreachable as error:
                server, name = reached.connection.server, reached.connection.context
                raise Failed(f"cannot reach the API server {server} (context {name!r}): {error}") from None
            await work(operator, stop)


async def operator_for(
    reached: Reached,
    configuration: OperatorConfiguration,
    *,
    namespace: str = "",
    health: bool = True,
    path: str | None = None,
    only: str = "",
    host: str = _LOOPBACK,
    log_as: LogAs | None = None,
) -> Operator:
    """A wired operator that has told which permissions it lacks; raises if it cannot work at all.

    `host` is where it serves its probes unless the configuration names an address.
    """
    where = namespace or reached.connection.namespace
    identity = identity_of(where)
    served = serves_webhooks(configuration) and not only
    operator = await assemble(
        reached.client, configuration, identity=identity, health=health, only=only, host=host, webhooks=served
    )

    def needs(of: OperatorConfiguration) -> list[Need]:
        return needs_of(operator, of, namespace=where, only=only)

    permissions = Permissions(reached.client, needs(configuration))
    await permissions.ask()
    operator.manager.readiness.add("permissions", permissions.lacking)
    operator.manager.add_service("permissions", permissions.run)
    if path is not None:

        async def ask_again(of: OperatorConfiguration) -> None:
            await permissions.ask_for(needs(of))

        tune = _tuner(reached.limiter, log_as)
        follow(path, operator, configuration, about=identity.pod, applied=ask_again, tune=tune)
    return operator


def _tuner(limiter: Limiter, log_as: LogAs | None) -> LogAs:
    """What brings the limits of the client and the logs in line with a configuration."""

    def tune(of: OperatorConfiguration) -> None:
        limits = of.runtime_client_connection
        limiter.change(limits.qps, max(limits.burst, 1))
        if log_as is not None:
            log_as(of)

    return tune


def needs_of(
    operator: Operator, configuration: OperatorConfiguration, *, namespace: str, only: str = ""
) -> list[Need]:
    """What an operator must be allowed to do in its cluster."""
    scheduling = operator.scheduling
    webhooks = msgspec.structs.replace(configuration.server.webhooks, enabled=operator.webhooks is not None)
    server = msgspec.structs.replace(configuration.server, webhooks=webhooks)
    return needed(
        msgspec.structs.replace(configuration, server=server),
        written(scheduling),
        namespace=namespace,
        observed=observed(scheduling),
        reads_events=bool(scheduling.event_sources()),
        serves=lambda each: operator.cache.informer(each) is not None,
        only=only,
    )


def follow(
    path: str,
    operator: Operator,
    configuration: OperatorConfiguration,
    *,
    about: EventTarget | None = None,
    applied: Callable[[OperatorConfiguration], Awaitable[None]] | None = None,
    tune: LogAs | None = None,
) -> None:
    """Let the operator follow its configuration file while it runs."""
    from grove.cli.reloading import ConfigurationFile

    file = ConfigurationFile(path, operator, configuration, about=about, applied=applied, tune=tune)
    operator.manager.add_service("configuration", file.run)


def written(scheduling: Scheduling) -> list[Resource]:
    """The kinds that the enabled backends write in this cluster."""
    found: list[Resource] = []
    for backend in scheduling.registry.enabled:
        found += backend.resources(scheduling.context(backend))
        if isinstance(backend, TopologyAware):
            found.append(backend.topology_resource)
    return [each for each in dict.fromkeys(found) if scheduling.cluster.serves(each)]


def observed(scheduling: Scheduling) -> list[Resource]:
    """The kinds that others write and the enabled backends look at in this cluster."""
    found: list[Resource] = []
    for backend in scheduling.registry.enabled:
        # A single object is looked at only if that is allowed: the backend does without it.
        looks = scheduling.observed_by(backend)
        found += [each.resource for each in looks if not (each.namespace and each.name)]
    return list(dict.fromkeys(found))


async def work(operator: Operator, stop: asyncio.Event) -> None:
    """Run the operator until asked to stop; a port that cannot be listened on is named with its field."""
    try:
        await operator.manager.run(stop)
    except OSError as error:
        health = operator.manager.health
        if health is None or error.errno not in _CANNOT_LISTEN:
            raise
        raise Failed(
            f"port {health.port} {_CANNOT_LISTEN[error.errno]}; "
            "choose another with server.healthProbes.port in the operator's configuration"
        ) from None


@contextlib.asynccontextmanager
async def working(operator: Operator) -> AsyncIterator["asyncio.Task[None]"]:
    """The operator at work in the background, ended in order when the block is left; await the task to see
    why it ended by itself."""
    stop = asyncio.Event()
    task = asyncio.create_task(work(operator, stop), name="operator")
    try:
        yield task
    finally:
        stop.set()
        await asyncio.wait({task})


class Permissions:
    """What the operator may not do; asked at the start and, while something is missing, from time to time."""

    def __init__(self, client: Client, needs: list[Need]) -> None:
        self._client = client
        self._needs = needs
        self._denied: list[Need] = []

    async def ask_for(self, needs: list[Need]) -> None:
        """From now on this is needed."""
        self._needs, self._denied = needs, []
        await self.ask()

    async def ask(self) -> None:
        """Ask the API server, and log when the answer is another one."""
        denied = await missing(self._client, self._denied or self._needs)
        if denied and denied != self._denied:
            log.error(
                "permissions are missing; the operator cannot do its work",
                extra={"missing": sentence(denied)},
            )
        elif self._denied and not denied:
            log.info("all permissions have been granted")
        self._denied = denied

    def lacking(self) -> str | None:
        """The readiness check."""
        return f"not allowed: {sentence(self._denied)}" if self._denied else None

    async def run(self) -> None:
        """Ask again while something is missing."""
        while True:
            await asyncio.sleep(_ASK_AGAIN_SECONDS)
            if self._denied:
                with contextlib.suppress(ApiError):
                    await self.ask()
