"""Carry out every check against one cluster; what may not be seen is said and stops no other check."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

from grove.api.config import OperatorConfiguration
from grove.cli.doctoring import control_plane, definitions, installation, rights, schedulers, webhooks
from grove.cli.doctoring.findings import Finding, State, unseen
from grove.cli.preconditions import native_gangs
from grove.errors import ApiError, Forbidden, Unreachable
from grove.kube.client import Client
from grove.kube.discovery import VersionInfo


@dataclass(frozen=True, slots=True)
class Asked:
    """What is examined: a cluster, and what is known about the operator in it."""

    client: Client
    #: Where the cluster is, for people.
    server: str
    #: This machine's clock.
    now: Callable[[], datetime]
    #: The operator's namespace; blank to look for it.
    namespace: str = ""
    #: The configuration of a file; otherwise that of the installation is looked for.
    configuration: OperatorConfiguration | None = None
    #: Whether the Secret of the webhooks' certificate may be looked at.
    reads_secret: bool = True


#: A check and its name.
_Check: TypeAlias = tuple[str, Callable[[], Awaitable[Sequence[Finding]]]]


async def examine(asked: Asked) -> list[Finding]:
    """Every finding, in the order in which one would look; raises Unreachable when nobody answers at all."""
    client = asked.client
    version = await client.version()
    native = await native_gangs(client)
    found = await _installed(asked, version)
    known = await installation.configuration_of(client, found, asked.configuration)
    checks: Sequence[_Check] = [
        ("api server", lambda: control_plane.api_server(version, asked.server)),
        ("clock", lambda: control_plane.clock(client, asked.now)),
        ("gang scheduling", lambda: control_plane.gang_scheduling(native)),
        ("kube-scheduler", lambda: control_plane.backoff_queue(client, native, version)),
        ("definitions", lambda: definitions.definitions_served(client)),
        ("operator", lambda: installation.alive(client, found, known, asked.now)),
        ("permissions", lambda: rights.permissions(client, found, known)),
        ("webhooks", lambda: _webhooks(asked, found, known)),
        ("schedulers", lambda: schedulers.preconditions(client, known)),
        ("schedulers", lambda: schedulers.alive(client, version, known, asked.now)),
    ]
    return [*known.findings, *await _carried_out(checks)]


@dataclass(frozen=True, slots=True)
class Footing:
    """What an upgrade stands on: the findings, and the configuration that the operator has."""

    findings: Sequence[Finding]
    #: None where there is no installation, or nobody can say.
    configuration: OperatorConfiguration | None


async def before_upgrade(asked: Asked) -> Footing:
    """What an upgrade to this version stands on, as `examine` finds it.

    What the manifests of this version mend is no more than a warning here: they come with the upgrade.
    """
    client = asked.client
    found = await _installed(asked, await client.version())
    known = await installation.configuration_of(client, found, asked.configuration)
    checks: Sequence[_Check] = [
        ("definitions", lambda: definitions.definitions_served(client)),
        ("permissions", lambda: rights.permissions(client, found, known)),
        ("webhooks", lambda: _webhooks(asked, found, known)),
    ]
    judged = [*known.findings, *await _carried_out(checks)]
    findings = [
        replace(each, state=State.WARNING) if each.comes_with_upgrade and each.state is State.FAILED else each
        for each in judged
    ]
    return Footing(findings, known.configuration)


async def _installed(asked: Asked, version: VersionInfo) -> installation.Installation:
    found = await installation.find(asked.client, asked.namespace)
    return replace(found, embedded=control_plane.simulated(version))


async def _webhooks(
    asked: Asked, found: installation.Installation, known: installation.Known
) -> Sequence[Finding]:
    embedded = found.embedded and found.deployment is None
    return await webhooks.webhooks(
        asked.client, known, asked.now, reads_secret=asked.reads_secret, embedded=embedded
    )


async def _carried_out(checks: Sequence[_Check]) -> list[Finding]:
    results = await asyncio.gather(*(_seen(name, check) for name, check in checks))
    return [finding for result in results for finding in result]


async def _seen(name: str, check: Callable[[], Awaitable[Sequence[Finding]]]) -> Sequence[Finding]:
    try:
        return await check()
    except Unreachable:
        raise
    except Forbidden as error:
        return [
            unseen(
                name,
                f"you may not look: {' '.join(str(error).split())}",
                fix="ask again as somebody who may",
                link="docs/guides/troubleshooting.md#what-grove-doctor-says",
            )
        ]
    except ApiError as error:
        return [unseen(name, f"the API server did not answer: {' '.join(str(error).split())}")]
