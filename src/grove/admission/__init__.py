"""Whether a set is accepted: defaults, validation and the final judgement. Pure.

`default` fills in a manifest; `validate` returns what is wrong, field by field, `validate_limits` what
exceeds the configured limits; `judge` says whether a set can be carried out and by which backend.
`validate_topology_binding` does the same for ClusterTopologyBindings. What may not be changed of a stored set
is refused by the API server (`api.rules`). Nothing here reads a cluster.
"""

from grove.admission.bindings import validate_topology_binding
from grove.admission.defaults import default
from grove.admission.judgement import Here, Judgement, Understood, judge, understand
from grove.admission.limits import validate_limits
from grove.admission.validation import validate

__all__ = [
    "Here",
    "Judgement",
    "Understood",
    "default",
    "judge",
    "understand",
    "validate",
    "validate_limits",
    "validate_topology_binding",
]
