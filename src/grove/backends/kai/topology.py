"""KAI's picture of the cluster's topology: one Topology object per ClusterTopologyBinding.

The levels of a Topology can never change; whoever finds drift in one of ours deletes and creates it again.
A gang names the Topology that it is about: that of its binding, or the one that the binding references.
"""

from typing import Final

from grove.api.gang import PodGang
from grove.api.kinds import TOPOLOGY_BINDINGS
from grove.api.labels import MANAGED_BY, MANAGER, SCHEDULER_TOPOLOGY, TOPOLOGY_NAME
from grove.api.topology import ClusterTopologyBinding
from grove.backends.base import Context
from grove.backends.shape import gang_constraints
from grove.meta import Manifest, owner_reference, resource

TOPOLOGIES: Final = resource("kai.scheduler", "v1alpha1", "Topology", "topologies", namespaced=False)
#: What somebody else's gang may say in place of Grove's annotation.
TOPOLOGY_ANNOTATION: Final = "kai.scheduler/topology"


def name_of(gang: PodGang) -> str:
    """The Topology that a gang's constraints are about; empty when it names none."""
    named = (gang.annotations.get(each) for each in (SCHEDULER_TOPOLOGY, TOPOLOGY_NAME, TOPOLOGY_ANNOTATION))
    return next(filter(None, named), "")


def obstacle(gang: PodGang, context: Context) -> str:
    """What KAI lacks for the gang's constraints, if that is known; KAI itself only says that it is unable."""
    asked = {key for each in gang_constraints(gang) for key in (each.required, each.preferred) if key}
    known, name = context.observed.get(TOPOLOGIES), name_of(gang)
    if not asked or known is None:
        return ""
    there = next((each for each in known if (each.get("metadata") or {}).get("name") == name), None)
    if there is None:
        return f"KAI has no Topology {name!r}"
    missing = sorted(asked.difference(levels_of(there)))
    return f"KAI's Topology {name!r} has no level {', '.join(missing)}" if missing else ""


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
