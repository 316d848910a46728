"""Clusters of each generation, as discovery and probes describe them."""

from grove.backends.base import Cluster, Context
from grove.backends.default.generation import DISRUPTION_FIELD, TOPOLOGY_FIELD
from grove.backends.kai.backend import MIN_SUBGROUP_FIELD, STALENESS_FIELD
from grove.meta import Resource

GROUP = "scheduling.k8s.io"
_PAIR = frozenset({"workloads", "podgroups"})

BARE = Cluster(served={f"{GROUP}/v1": frozenset({"priorityclasses"})}, version="1.34")
V135 = Cluster(served={**BARE.served, f"{GROUP}/v1alpha1": frozenset({"workloads"})}, version="1.35")
V136_PLAIN = Cluster(served={**BARE.served, f"{GROUP}/v1alpha2": _PAIR}, version="1.36")
V136 = Cluster(served=V136_PLAIN.served, fields=frozenset({TOPOLOGY_FIELD, DISRUPTION_FIELD}), version="1.36")
V137_PLAIN = Cluster(served={**BARE.served, f"{GROUP}/v1beta1": _PAIR}, version="1.37")
V137_TOPOLOGY = Cluster(served=V137_PLAIN.served, fields=frozenset({TOPOLOGY_FIELD}), version="1.37")
V137 = Cluster(
    served={**V137_PLAIN.served, f"{GROUP}/v1alpha3": _PAIR | {"compositepodgroups"}}, version="1.37"
)
V137_ALPHA_ONLY = Cluster(
    served={**BARE.served, f"{GROUP}/v1alpha3": _PAIR | {"compositepodgroups"}}, version="1.37"
)
NATIVE = {
    "bare": BARE,
    "1.35": V135,
    "1.36 plain": V136_PLAIN,
    "1.36": V136,
    "1.37 plain": V137_PLAIN,
    "1.37 topology": V137_TOPOLOGY,
    "1.37 composite": V137,
}

_KAI_SERVED = {
    "scheduling.run.ai/v2alpha2": frozenset({"podgroups"}),
    "scheduling.run.ai/v2": frozenset({"queues"}),
    "scheduling.run.ai/v1alpha2": frozenset({"bindrequests"}),
    "kai.scheduler/v1alpha1": frozenset({"topologies"}),
}
KAI_012 = Cluster(served=_KAI_SERVED)
KAI_017 = Cluster(served=_KAI_SERVED, fields=frozenset({MIN_SUBGROUP_FIELD, STALENESS_FIELD}))


def on(cluster: Cluster, **config: object) -> Context:
    """The context of a cluster with this profile configuration."""
    return Context(cluster=cluster, config=config)


def serving(*kinds: Resource, version: str = "") -> Cluster:
    """A cluster that serves these kinds and no others."""
    served: dict[str, frozenset[str]] = {}
    for each in kinds:
        served[each.api_version] = served.get(each.api_version, frozenset()) | {each.plural}
    return Cluster(served, version=version)
