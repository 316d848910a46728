"""What may be stored: defaults and validation as functions on values. Pure.

`default` fills in a manifest; `validate` and `validate_update` return what is wrong, field by field;
`validate_limits` what exceeds the configured limits; `warnings` what deserves a word.
`validate_topology_binding` does the same for ClusterTopologyBindings. Nothing here reads a cluster.
"""

from grove.admission.defaults import default
from grove.admission.limits import validate_limits
from grove.admission.schedulers import Schedulers, validate_topology_binding
from grove.admission.topology import Topology, topology_name
from grove.admission.updates import validate_update
from grove.admission.validation import validate, warnings

__all__ = [
    "Schedulers",
    "Topology",
    "default",
    "topology_name",
    "validate",
    "validate_limits",
    "validate_topology_binding",
    "validate_update",
    "warnings",
]
