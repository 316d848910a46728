"""Collect from a cluster what a maintainer needs: objects, events, logs, metrics, versions, findings.

What may not be read, or is not there, is skipped with the reason. Every object passes `redaction`.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from grove.api import kinds, labels
from grove.api.config import load
from grove.api.event import EVENTS
from grove.cli.bundling.archive import Archive
from grove.cli.bundling.redaction import redacted, redacted_text
from grove.cli.doctoring import installation, webhooks
from grove.cli.doctoring.definitions import CRDS
from grove.cli.doctoring.examination import Asked, examine
from grove.cli.finding import NODES, scheduler_resources
from grove.cli.talk import Format, dumped
from grove.errors import ApiError, NotFound, Unreachable
from grove.extensions import external_in, registry_for
from grove.kube.client import Client
from grove.meta import Manifest, Resource
from grove.plan.children.registry import KINDS

#: Of one container; the end of a log is what matters.
_LOG_BYTES: Final = 2 << 20
#: By label: children of sets are what Grove made of such kinds.
_SETS_AND_CHILDREN: Final = (
    *((each, "") for each in kinds.OURS),
    *((each.resource, each.selector) for each in KINDS if each.resource not in kinds.OURS),
)
#: What others make, and sets depend on.
_AROUND_THEM: Final = (
    (kinds.RESOURCE_CLAIM_TEMPLATES, ""),
    (kinds.PODS, labels.POD_GANG),
    (EVENTS, ""),
    (NODES, ""),
)
#: Where metrics are if the pod does not say: of an installation, and by default.
_METRICS_PORTS: Final = (9445, 2752, 2751)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the bundle is about."""

    client: Client
    server: str
    #: The namespace of the sets; blank for every one.
    namespace: str
    #: How far back events and logs go.
    since: timedelta
    now: Callable[[], datetime]
    #: Told before each step.
    progress: Callable[[str], None]


async def collect(wanted: Wanted, archive: Archive) -> Manifest:
    """Put everything into the archive; the facts for its index. Raises Unreachable if nobody answers."""
    version = await wanted.client.version()
    archive.add(
        "versions.json", json.dumps({"kubernetes": version.git_version, "platform": version.platform})
    )
    await _findings(wanted, archive)
    installed = await installation.find(wanted.client, "")
    known = await installation.configuration_of(wanted.client, installed, None)
    for resource, selector in [*_SETS_AND_CHILDREN, *await _of_schedulers(wanted), *_AROUND_THEM]:
        found = await _objects(wanted, archive, resource, selector)
        if resource is kinds.CLIQUESETS and found == 0:
            where = f"namespace {wanted.namespace!r} has none" if wanted.namespace else "no namespace has any"
            archive.skip(str(resource), where)
    for resource, name in [*webhooks.REGISTERED, *((CRDS, str(each)) for each in kinds.OURS)]:
        file = f"{resource.plural}/{name}"
        await _objects(wanted, archive, resource, fields=f"metadata.name={name}", file=file)
    await _leases(wanted, archive, installed, known)
    await _operator(wanted, archive, installed, known)
    return {"kubernetes": version.git_version, "namespace": wanted.namespace or "(all)"}


async def _of_schedulers(wanted: Wanted) -> list[tuple[Resource, str]]:
    """What Grove makes for the schedulers that are there."""
    return [(each, labels.MANAGED_BY) for each in await scheduler_resources(wanted.client)]


async def _findings(wanted: Wanted, archive: Archive) -> None:
    wanted.progress("the findings of grove doctor")
    try:
        found = await examine(Asked(wanted.client, wanted.server, wanted.now, reads_secret=False))
    except Unreachable:
        raise
    except ApiError as error:
        archive.skip("doctor.json", str(error))
        return
    archive.add("doctor.json", json.dumps([each.as_manifest() for each in found], indent=2))


async def _objects(
    wanted: Wanted,
    archive: Archive,
    resource: Resource,
    selector: str = "",
    *,
    fields: str = "",
    file: str = "",
) -> int | None:
    """All objects of a kind, those of the namespace where it has one: how many, if that could be read."""
    wanted.progress(file or str(resource))
    namespace = wanted.namespace if resource.namespaced else ""
    try:
        found = await wanted.client.list_all(
            resource, type=dict, namespace=namespace, labels=selector, fields=fields
        )
    except Unreachable:
        raise
    except NotFound:
        archive.skip(file or str(resource), "the cluster does not serve it")
        return None
    except ApiError as error:
        archive.skip(file or str(resource), str(error))
        return None
    if resource is EVENTS:
        found = [each for each in found if _recent(each, wanted.now() - wanted.since)]
    if found:
        _keep(archive, f"objects/{file or resource}.yaml", found)
    return len(found)


def _keep(archive: Archive, path: str, found: Sequence[Manifest]) -> None:
    archive.add(path, "---\n".join(dumped(redacted(each), Format.YAML) for each in found))


def _recent(event: Manifest, since: datetime) -> bool:
    said = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp")
    return not said or datetime.fromisoformat(said) >= since


async def _leases(
    wanted: Wanted, archive: Archive, installed: installation.Installation, known: installation.Known
) -> None:
    """Who leads, and since when: the Leases of the operator and of the processes of single backends."""
    file, configuration = "operator/leases.yaml", known.configuration or load("")
    wanted.progress(file)
    election, scheduler = configuration.leader_election, configuration.scheduler
    backends = sorted(external_in(registry_for(scheduler), scheduler))
    found: list[Manifest] = []
    for name in map(election.lease_name, ("", *backends)):
        try:
            found += await wanted.client.list_all(
                installation.LEASES,
                type=dict,
                namespace=election.resource_namespace or installed.namespace,
                fields=f"metadata.name={name}",
            )
        except Unreachable:
            raise
        except ApiError as error:
            archive.skip(f"{installation.LEASES} {name}", str(error))
    if found:
        _keep(archive, file, found)


async def _operator(
    wanted: Wanted, archive: Archive, installed: installation.Installation, known: installation.Known
) -> None:
    """The operator's Deployment, pods, logs and metrics."""
    if installed.deployment is None:
        archive.skip("operator", installed.hidden or "there is no Deployment of it in the cluster")
        return
    _keep(archive, "operator/deployment.yaml", [installed.deployment])
    archive.add("operator/configuration.json", json.dumps([each.as_manifest() for each in known.findings]))
    selector = (installed.deployment.get("spec") or {}).get("selector", {}).get("matchLabels") or {}
    try:
        pods = await wanted.client.list_all(
            kinds.PODS, type=dict, namespace=installed.namespace, labels=labels.selector(selector)
        )
    except ApiError as error:
        archive.skip("operator/pods", str(error))
        return
    _keep(archive, "operator/pods.yaml", pods)
    for pod in pods:
        for container in pod["spec"].get("containers") or ():
            for previous in (False, True):
                await _log(wanted, archive, pod, container["name"], previous=previous)
        await _metrics(wanted, archive, pod)


async def _log(wanted: Wanted, archive: Archive, pod: Manifest, container: str, *, previous: bool) -> None:
    meta = pod["metadata"]
    file = f"operator/logs/{meta['name']}-{container}{'-previous' if previous else ''}.log"
    wanted.progress(file)
    query = [("container", container), ("sinceSeconds", str(max(int(wanted.since.total_seconds()), 1)))]
    query += [("previous", "true")] if previous else []
    try:
        text = await wanted.client.text(kinds.PODS.path(meta["namespace"], meta["name"], "log"), query)
    except ApiError as error:
        if not previous:
            archive.skip(file, str(error))
        return
    # Only a whole text says what is a secret in it: the end of one may be all that is left of its line.
    archive.add(file, redacted_text(text)[-_LOG_BYTES:])


def _named_metrics(pod: Manifest) -> list[int]:
    """The ports that a pod says serve metrics."""
    ports = [
        each for container in pod["spec"].get("containers") or () for each in container.get("ports") or ()
    ]
    return [each["containerPort"] for each in ports if each.get("name") == "metrics"]


async def _metrics(wanted: Wanted, archive: Archive, pod: Manifest) -> None:
    meta, file = pod["metadata"], f"operator/metrics/{pod['metadata']['name']}.txt"
    wanted.progress(file)
    said = ""
    for port in dict.fromkeys((*_named_metrics(pod), *_METRICS_PORTS)):
        path = kinds.PODS.path(meta["namespace"], f"{meta['name']}:{port}", "proxy/metrics")
        try:
            archive.add(file, redacted_text(await wanted.client.text(path, [])))
        except ApiError as error:
            said = said or str(error)
            continue
        return
    archive.skip(file, said)
