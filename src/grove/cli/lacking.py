"""Say what a cluster that is not ours lacks for the operator, or who is at work there already. Reads only."""

from datetime import UTC, datetime, timedelta
from typing import Final

from grove.api import kinds
from grove.api.config import LeaderElection, OperatorConfiguration
from grove.backends.base import Cluster, Context
from grove.errors import Forbidden
from grove.extensions import configs_for, registry_for
from grove.kube.client import Client
from grove.meta import Manifest, resource

_LEASES: Final = resource("coordination.k8s.io", "v1", "Lease")


async def lacking(client: Client, configuration: OperatorConfiguration) -> list[str]:
    """A sentence for each thing that is missing, what to do about it included."""
    served = (await client.discover()).served
    absent = [str(each) for each in kinds.OURS if each.plural not in served.get(each.api_version, ())]
    found = []
    if absent:
        found.append(
            f"the cluster does not serve {', '.join(absent)}; --install-crds installs Grove's CRDs "
            "(or: grove crds | kubectl apply --server-side -f -)"
        )
    scheduler = configuration.scheduler
    registry = registry_for(scheduler)
    configs = configs_for(registry, scheduler)
    for backend in registry.enabled:
        context = Context(Cluster(served), configs.get(backend.name, {}))
        found += [
            f"scheduler {backend.name}: {each.missing}"
            for each in backend.preconditions(context)
            if each.missing
        ]
    return found


async def at_work(client: Client, *, now: datetime | None = None) -> str:
    """Which operator leads in the cluster, as a sentence; blank if none does or we may not know."""
    name = LeaderElection().resource_name
    try:
        leases = await client.list_all(_LEASES, type=dict, fields=f"metadata.name={name}")
    except Forbidden:
        return ""
    moment = now or datetime.now(UTC)
    for lease in leases:
        if _held(lease, moment):
            meta, holder = lease["metadata"], lease["spec"]["holderIdentity"]
            return f"the operator {holder!r} is running in this cluster (Lease {meta['namespace']}/{name})"
    return ""


def _held(lease: Manifest, now: datetime) -> bool:
    spec = lease.get("spec") or {}
    if not spec.get("holderIdentity") or not spec.get("renewTime"):
        return False
    renewed = datetime.fromisoformat(spec["renewTime"])
    return now - renewed < timedelta(seconds=int(spec.get("leaseDurationSeconds") or 0))
