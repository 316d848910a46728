"""Clusters of each generation, as discovery and probes describe them."""

from grove.backends.base import Cluster, Context
from grove.backends.default.generation import DISRUPTION_FIELD, TOPOLOGY_FIELD
from grove.backends.sample import serving as serving

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


def on(cluster: Cluster, **config: object) -> Context:
    """The context of a cluster with this profile configuration."""
    return Context(cluster=cluster, config=config)
