"""Say what a cluster that is not ours lacks for the operator. Reads only."""

from grove.api import kinds
from grove.api.config import OperatorConfiguration
from grove.backends.base import Cluster, Context
from grove.backends.registry import Registry
from grove.kube.client import Client


async def lacking(client: Client, configuration: OperatorConfiguration) -> list[str]:
    """A sentence for each thing that is missing, what to do about it included."""
    served = (await client.discover()).served
    absent = [str(each) for each in kinds.OURS if each.plural not in served.get(each.api_version, ())]
    found = []
    if absent:
        found.append(
            f"the cluster does not serve {', '.join(absent)}; --install-crds installs Grove's CRDs "
            "(or: grove crds | kubectl apply -f -)"
        )
    scheduler = configuration.scheduler
    configs = {profile.backend: profile.config for profile in scheduler.profiles}
    for backend in Registry.of(scheduler.enabled_backends, scheduler.default_backend).enabled:
        context = Context(Cluster(served), configs.get(backend.name, {}))
        found += [
            f"scheduler {backend.name}: {each.missing}"
            for each in backend.preconditions(context)
            if each.missing
        ]
    return found
