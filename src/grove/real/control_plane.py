"""A real control plane on this machine: etcd, kube-apiserver, kube-controller-manager and a scheduler.

The scheduler is kube-scheduler, or one of others (see `third_party`) with its kinds and queues; more of
these can run beside it.

Starts in seconds, listens on the loopback only, ends completely: by `stop`, when a start fails, and (on
Linux) when the process that started it goes away for whatever reason. There are no kubelets: a node is what
somebody creates, and a bound pod stays as it is until somebody writes its status.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from grove.meta import Manifest
from grove.real import kubeconfig
from grove.real.certificates import LOOPBACK, Authority, write_private
from grove.real.commands import Commands, Files, Ports
from grove.real.component import Component, first_unexpected_end
from grove.real.failure import ComponentFailed, RealFailure
from grove.real.furnishing import definitions_in, furnish
from grove.real.keys import ADMIN, ADMIN_GROUP, write_keys
from grove.real.options import Options
from grove.real.place import Place
from grove.real.schedulers import PORTS, Launch, Probe, Site, launch
from grove.real.third_party import third_party
from grove.real.versions import APISERVER, CONTROLLER_MANAGER, ETCD, SCHEDULER, release
from grove.real.wire import Wire, client_context, compact, free_ports, require_free

#: An API server with open watches would drain for a minute; everything it serves is going away anyway.
GRACE_SECONDS = 2.0
START_ATTEMPTS = 3


class RealControlPlane:
    """One control plane; also an async context manager."""

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options()
        self.release = release(self.options.minor)
        self.third_party = third_party(self.options.third_party) if self.options.third_party else None
        own = [self.third_party] if self.third_party is not None else []
        self._others = [*own, *map(third_party, self.options.beside)]
        for other in self._others:
            other.check_minor(self.release.minor)
        self._say = self.options.say
        self._components: dict[str, Component] = {}
        self._probes: dict[str, tuple[str, Probe]] = {}
        self._launches: list[Launch] = []
        self._place: Place | None = None
        self._ports: Ports | None = None
        self._authority: Authority | None = None
        self._wires: dict[str, Wire] = {}

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        """Where the API server answers."""
        return self._running_ports.url

    @property
    def directory(self) -> Path:
        return self._files.root

    @property
    def logs(self) -> Path:
        """Where each component's log is, as `<name>.log`."""
        return self.options.logs or self._files.root / "log"

    @property
    def authority(self) -> bytes:
        """The certificate that the API server's certificate is checked against, as PEM."""
        return self._running_authority.certificate

    @property
    def pids(self) -> dict[str, int]:
        """The processes that run at this moment."""
        return {name: each.pid for name, each in self._components.items() if each.pid is not None}

    async def start(self) -> None:
        """Returns when every component is ready; leaves nothing behind when one does not become so."""
        if self._place is not None:
            raise RealFailure("this control plane is started already")
        programs = self._programs()
        for attempt in range(1, START_ATTEMPTS + 1):
            try:
                await self._start_once(programs)
            except ComponentFailed as failure:
                await asyncio.shield(self.stop())
                if not failure.port_taken or attempt == START_ATTEMPTS:
                    raise
            except BaseException:
                await asyncio.shield(self.stop())
                raise
            else:
                return

    async def stop(self) -> None:
        """Ends every component and removes the files; the logs stay when a component gave trouble."""
        trouble = any(each.gave_trouble for each in self._components.values())
        await asyncio.gather(*(self._end(name) for name in self._components if name not in (ETCD, APISERVER)))
        await self._end(APISERVER)
        await self._end(ETCD)
        for wire in self._wires.values():
            await wire.close()
        self._wires, self._components = {}, {}
        if self._place is None:
            return
        place, self._place = self._place, None
        if self.options.keep:
            place.release()
        else:
            # Logs that were asked for elsewhere are not in the folder and stay in any case.
            place.clear(keep=place.root / "log" if trouble and self.options.logs is None else None)

    async def wait(self) -> None:
        """Returns never; raises what happened when a component ends although nobody asked it to."""
        raise await first_unexpected_end(self._components.values())

    async def kill(self, name: str) -> None:
        """Ends one component as a power failure would; `restart` brings it back."""
        await self._component(name).kill()

    async def restart(self, name: str) -> None:
        """Ends one component in an orderly way, if it runs, and starts it again on the same port."""
        component = self._component(name)
        await component.stop(grace=GRACE_SECONDS)
        await component.start()
        await self._ready(name)

    async def compact(self) -> int:
        """Makes etcd forget every past revision, and answers which one it kept.

        The API server goes on serving what its watch cache remembers: `restart` it to have old versions
        answered with 410.
        """
        return await compact(self._wires["etcd"], self._running_ports.etcd_url)

    def kubeconfig(self, path: Path | None = None) -> Path:
        """Writes a kubeconfig of the administrator, who may do everything; its path is the answer."""
        return self.kubeconfig_for(ADMIN, (ADMIN_GROUP,), path=path)

    def kubeconfig_for(self, user: str, groups: Sequence[str] = (), *, path: Path | None = None) -> Path:
        """Writes a kubeconfig of any user; what that user may do is up to RBAC."""
        pair = self._running_authority.client(user, groups)
        target = path or self._files.users / f"{_file_name(user, *groups)}.kubeconfig"
        return kubeconfig.write(target, kubeconfig.content(self.url, authority=self.authority, user=pair))

    def context(self) -> ssl.SSLContext:
        """What an HTTP client needs to be the administrator."""
        key = self._files.key
        return client_context(key("ca.crt"), key("admin.crt"), key("admin.key"))

    def _programs(self) -> dict[str, Path]:
        """Every program that is needed; raises with what is missing."""
        wanted = {
            SCHEDULER: self._runs_kube_scheduler,
            CONTROLLER_MANAGER: self.options.controller_manager,
        }
        without = frozenset(name for name, needed in wanted.items() if not needed)
        found = self.options.locator.all_of(self.release.minor, without=without)
        for other in self._others:
            found |= self.options.locator.third_party(other)
        return found

    @property
    def _runs_kube_scheduler(self) -> bool:
        return self.options.scheduler and self.third_party is None

    async def _start_once(self, programs: dict[str, Path]) -> None:
        begin = time.monotonic()
        self._place = Place(self.options.directory)
        self._ports = Ports(*free_ports(5))
        if self.options.port:
            require_free(self.options.port)
            self._ports = replace(self._ports, apiserver=self.options.port)
        commands = Commands(self.release, self.options, self._files, self._ports, programs)
        self._write_files(commands)
        self._say(f"Starting Kubernetes {self.release.version}; logs are in {self.logs} ...")
        self._prepare(commands)
        for name in (ETCD, APISERVER):
            await self._components[name].start()
            await self._ready(name)
            self._say(f"  {name}: ready after {time.monotonic() - begin:.1f} s")
        await self._furnish()
        others = [name for name in self._components if name not in (ETCD, APISERVER)]
        for name in others:
            await self._components[name].start()
        for name in others:
            await self._ready(name)
            self._say(f"  {name}: ready after {time.monotonic() - begin:.1f} s")

    async def _furnish(self) -> None:
        """Before the controller manager starts: its garbage collector is slow to notice new kinds."""
        kinds, objects = list(self.options.kinds), list[Manifest]()
        for other, launched in zip(self._others, self._launches, strict=True):
            kinds += [*definitions_in(self.options.locator.definitions(other)), *launched.kinds]
            objects += launched.objects
        await furnish(self._wires["admin"], self.url, kinds, objects)

    def _prepare(self, commands: Commands) -> None:
        """Puts down the components, how to ask each whether it is ready, and with whose certificate."""
        ports, url, key = commands.ports, commands.ports.url, commands.files.key
        lines = {ETCD: commands.etcd(), APISERVER: commands.apiserver()}
        self._probes = {
            ETCD: ("etcd", Probe(f"{ports.etcd_url}/health")),
            APISERVER: ("admin", Probe(f"{url}/readyz")),
        }
        if self.options.controller_manager:
            lines[CONTROLLER_MANAGER] = commands.controller_manager()
            # Pods can be created once its first work is done: the default service account.
            account = f"{url}/api/v1/namespaces/default/serviceaccounts/default"
            self._probes[CONTROLLER_MANAGER] = ("admin", Probe(account))
        if self._runs_kube_scheduler:
            lines[SCHEDULER] = commands.scheduler()
            self._probes[SCHEDULER] = ("admin", Probe(f"https://{LOOPBACK}:{ports.scheduler}/readyz"))
        self._components = {
            name: Component(name, line, self.logs / f"{name}.log") for name, line in lines.items()
        }
        ports_of_others = free_ports(PORTS * len(self._others))
        self._launches = [
            self._prepare_third_party(other.name, commands, ports_of_others[PORTS * index :][:PORTS])
            for index, other in enumerate(self._others)
        ]
        self._wires = {
            "admin": Wire(self.context()),
            "etcd": Wire(client_context(key("etcd-ca.crt"), key("etcd-client.crt"), key("etcd-client.key"))),
        }

    def _prepare_third_party(self, name: str, commands: Commands, ports: Sequence[int]) -> Launch:
        """Puts down the programs of another scheduler, who may do everything as its installation may."""
        files = commands.files
        files.third_party.mkdir(mode=0o700, exist_ok=True)
        user = f"system:{name}-scheduler"
        site = Site(
            commands.programs,
            self.kubeconfig_for(user, (ADMIN_GROUP,), path=files.kubeconfig(name)),
            files.third_party,
            self.url,
            ports,
            commands.serving(),
            self.options.pod_max_backoff_seconds,
        )
        launched = launch(name, site)
        for path, content in launched.files.items():
            write_private(path, content.encode())
        for part in launched.parts:
            line = [*part.command, *self.options.arguments.get(part.name, ())]
            log = self.logs / f"{part.name}.log"
            self._components[part.name] = Component(part.name, line, log, part.environment)
            self._probes[part.name] = ("admin", part.probe)
        return launched

    async def _ready(self, name: str) -> None:
        wire, probe = self._probes[name]
        asks = self._wires[wire]
        question = asks.tells(probe.url, probe.holds) if probe.holds else asks.answers(probe.url)
        await self._component(name).ready(question, within=self.options.ready_seconds)

    async def _end(self, name: str) -> None:
        component = self._components.get(name)
        if component is not None:
            await component.stop(grace=GRACE_SECONDS)

    def _write_files(self, commands: Commands) -> None:
        self.logs.mkdir(parents=True, exist_ok=True)
        self._authority = write_keys(commands.files)
        self._write_users(commands)

    def _write_users(self, commands: Commands) -> None:
        files = commands.files
        self.kubeconfig_for("system:kube-scheduler", path=files.kubeconfig(SCHEDULER))
        # All its controllers share this identity, and together they may do almost everything.
        self.kubeconfig_for(
            "system:kube-controller-manager", (ADMIN_GROUP,), path=files.kubeconfig(CONTROLLER_MANAGER)
        )
        write_private(files.scheduler_config, json.dumps(commands.scheduler_config(), indent=2).encode())

    def _component(self, name: str) -> Component:
        try:
            return self._components[name]
        except KeyError:
            known = ", ".join(self._components) or "none: it is not started"
            raise RealFailure(f"this control plane has no component {name!r}; it has {known}") from None

    @property
    def _files(self) -> Files:
        if self._place is None:
            raise RealFailure("this control plane is not started")
        return Files(self._place.root)

    @property
    def _running_ports(self) -> Ports:
        if self._ports is None or self._place is None:
            raise RealFailure("this control plane is not started")
        return self._ports

    @property
    def _running_authority(self) -> Authority:
        if self._authority is None or self._place is None:
            raise RealFailure("this control plane is not started")
        return self._authority


def _file_name(*parts: str) -> str:
    return "".join(char if char.isalnum() or char in "-._" else "-" for char in "_".join(parts))
