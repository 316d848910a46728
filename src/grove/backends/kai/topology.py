"""KAI's picture of the cluster's topology: one Topology object per ClusterTopologyBinding.

The levels of a Topology can never change; whoever finds drift in one of ours deletes and creates it again.
"""

from typing import Final

from grove.api.kinds import TOPOLOGY_BINDINGS
from grove.api.labels import MANAGED_BY, MANAGER
from grove.api.topology import ClusterTopologyBinding
from grove.meta import Manifest, owner_reference, resource

TOPOLOGIES: Final = resource("kai.scheduler", "v1alpha1", "Topology", "topologies", namespaced=False)


def desired_topology(binding: ClusterTopologyBinding) -> Manifest:
    """The Topology that says the binding's levels: same name, owned by the binding."""
    return {
        "apiVersion": TOPOLOGIES.api_version,
        "kind": TOPOLOGIES.kind,
        "metadata": {
            "name": binding.name,
            "labels": {MANAGED_BY: MANAGER},
            "ownerReferences": [owner_reference(binding, TOPOLOGY_BINDINGS.gvk)],
        },
        "spec": {"levels": [{"nodeLabel": level.key} for level in binding.spec.levels]},
    }


def levels_of(manifest: Manifest) -> tuple[str, ...]:
    """The node labels of a Topology, broadest first."""
    spec = manifest.get("spec")
    levels = spec.get("levels") if isinstance(spec, dict) else None
    return tuple(str(level.get("nodeLabel", "")) for level in levels or () if isinstance(level, dict))
