"""The operator in the cluster: its Deployment, its configuration, its pods and the Lease of who leads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from grove.api import kinds, labels
from grove.api.config import OperatorConfiguration, load
from grove.cli.doctoring.findings import Finding, failed, fine, unseen, warning
from grove.errors import Forbidden, InvalidConfiguration, NotFound
from grove.extensions import registry_for
from grove.kube.client import Client
from grove.meta import Key, Manifest, resource
from grove.words import duration_in_words

DEPLOYMENTS: Final = resource("apps", "v1", "Deployment")
CONFIG_MAPS: Final = resource("", "v1", "ConfigMap")
LEASES: Final = resource("coordination.k8s.io", "v1", "Lease")
_VOLUME: Final = "operator-config"
_KEY: Final = "config.yaml"
_LINK: Final = "docs/guides/troubleshooting.md#what-grove-doctor-says"
_TOLERATED: Final = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Installation:
    """Where the operator is installed; without a deployment it may still run outside of the cluster."""

    namespace: str = ""
    deployment: Manifest | None = None
    #: Why nobody can say, where one may not look.
    hidden: str = ""
    #: Whether the cluster is an embedded one: `grove up` runs the operator there.
    embedded: bool = False

    @property
    def account(self) -> str:
        """The user that the operator is."""
        spec = ((self.deployment or {}).get("spec") or {}).get("template", {}).get("spec", {})
        return f"system:serviceaccount:{self.namespace}:{spec.get('serviceAccountName') or 'default'}"


@dataclass(frozen=True, slots=True)
class Known:
    """The operator's configuration, where it is from, and what there is to say about it."""

    configuration: OperatorConfiguration | None
    findings: tuple[Finding, ...] = ()


async def find(client: Client, namespace: str) -> Installation:
    """The Deployment of the operator, wherever it is."""
    try:
        found = await client.list_all(
            DEPLOYMENTS, type=dict, namespace=namespace, fields=f"metadata.name={labels.MANAGER}"
        )
    except Forbidden:
        where = f"in namespace {namespace}" if namespace else "everywhere; -n names the operator's namespace"
        return Installation(namespace, hidden=f"you may not list deployments {where}")
    if not found:
        return Installation(namespace)
    return Installation(found[0]["metadata"]["namespace"], found[0])


async def configuration_of(
    client: Client, installed: Installation, given: OperatorConfiguration | None
) -> Known:
    """The configuration that was given, or the one that the installation has."""
    if given is not None:
        return Known(given)
    name = _config_map(installed.deployment or {})
    if not name:
        return Known(None)
    try:
        stored = await client.get(CONFIG_MAPS, Key(installed.namespace, name), type=dict)
    except (Forbidden, NotFound) as error:
        said = f"ConfigMap {installed.namespace}/{name} cannot be read: {error}"
        return Known(None, (unseen("configuration", said, fix="give --config", link=_LINK),))
    try:
        configuration = load((stored.get("data") or {}).get(_KEY, ""))
        registry_for(configuration.scheduler)
    except InvalidConfiguration as error:
        said = f"ConfigMap {installed.namespace}/{name}: {error}"
        fix = "correct it; `grove config check` names every mistake"
        return Known(None, (failed("configuration", said, fix=fix, link="docs/guides/configuration.md"),))
    return Known(configuration, (fine("configuration", f"ConfigMap {installed.namespace}/{name} is valid"),))


def _config_map(deployment: Manifest) -> str:
    spec = (deployment.get("spec") or {}).get("template", {}).get("spec", {})
    for volume in spec.get("volumes") or ():
        if volume.get("name") == _VOLUME:
            return str((volume.get("configMap") or {}).get("name") or "")
    return ""


async def alive(
    client: Client, installed: Installation, known: Known, now: Callable[[], datetime]
) -> Sequence[Finding]:
    """Whether the operator runs and somebody leads."""
    found = [*_deployment(installed), *await _pods(client, installed)]
    return [*found, *await _leader(client, installed, known, now)]


def _deployment(installed: Installation) -> list[Finding]:
    name, deployment = "operator", installed.deployment
    if installed.hidden:
        return [unseen(name, installed.hidden, link=_LINK)]
    if deployment is None and installed.embedded:
        return [fine(name, "not a Deployment: grove up runs it in an embedded cluster")]
    if deployment is None:
        said = f"there is no Deployment {labels.MANAGER}; it may run outside of the cluster (grove run)"
        return [warning(name, said, fix="install it", link="docs/guides/installation.md")]
    where = f"Deployment {installed.namespace}/{labels.MANAGER}"
    wanted = (deployment.get("spec") or {}).get("replicas", 1)
    ready = (deployment.get("status") or {}).get("readyReplicas") or 0
    if ready:
        return [fine(name, f"{where}: {ready} of {wanted} ready")]
    fix = f"kubectl -n {installed.namespace} describe pods -l app.kubernetes.io/name={labels.MANAGER}"
    return [failed(name, f"{where}: none of {wanted} ready", fix=fix, link=_LINK)]


async def _pods(client: Client, installed: Installation) -> list[Finding]:
    """What keeps containers of the operator from running."""
    if installed.deployment is None:
        return []
    selector = (installed.deployment.get("spec") or {}).get("selector", {}).get("matchLabels") or {}
    pods = await client.list_all(
        kinds.PODS, type=dict, namespace=installed.namespace, labels=labels.selector(selector)
    )
    found = []
    for pod in pods:
        for status in (pod.get("status") or {}).get("containerStatuses") or ():
            waiting = (status.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") in (None, "", "ContainerCreating", "PodInitializing"):
                continue
            said = f"pod {pod['metadata']['name']} waits: {waiting['reason']}: {waiting.get('message', '')}"
            fix = f"kubectl -n {installed.namespace} logs {pod['metadata']['name']} --previous"
            found.append(failed("operator", said, fix=fix, link=_LINK))
    return found


async def _leader(
    client: Client, installed: Installation, known: Known, now: Callable[[], datetime]
) -> list[Finding]:
    """Who holds the Lease that the configuration names; without one, the Lease of the default."""
    name, election = "leader", (known.configuration or OperatorConfiguration()).leader_election
    if known.configuration is not None and not election.enabled:
        return [fine(name, "leaderElection.enabled is false: one replica works without a Lease")]
    lease_name, where = election.resource_name, election.resource_namespace or installed.namespace
    leases = await client.list_all(LEASES, type=dict, namespace=where, fields=f"metadata.name={lease_name}")
    held = [each for each in leases if (each.get("spec") or {}).get("holderIdentity")]
    if not held:
        if installed.deployment is None:
            return []
        fix = "see the operator's log: it says why no replica takes it"
        return [warning(name, f"nobody holds the Lease {lease_name}", fix=fix, link=_LINK)]
    moment = await client.server_time() or now()
    spec, where = held[0]["spec"], f"Lease {held[0]['metadata']['namespace']}/{lease_name}"
    if not spec.get("renewTime"):
        return [unseen(name, f"{where} is held by {spec['holderIdentity']}, which does not say since when")]
    ago = moment - datetime.fromisoformat(spec["renewTime"])
    if ago > timedelta(seconds=int(spec.get("leaseDurationSeconds") or 0)) + _TOLERATED:
        said = f"{where} was renewed {duration_in_words(ago.total_seconds())} ago by {spec['holderIdentity']}"
        return [failed(name, said, fix="see why no operator takes it: its log", link=_LINK)]
    if ago < -_TOLERATED:
        ahead = duration_in_words(-ago.total_seconds())
        said = f"{spec['holderIdentity']} renewed {where} {ahead} in the future"
        return [warning(name, said, fix="synchronise the clock of its node (NTP)", link=_LINK)]
    return [fine(name, f"{spec['holderIdentity']} leads ({where})")]
