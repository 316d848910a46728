"""What each Kubernetes minor serves for gangs when its feature gates are on; `none` has none of it."""

from collections.abc import Mapping
from typing import Final

from grove.backends.base import Cluster
from grove.backends.default.generation import DISRUPTION_FIELD, GROUP, TOPOLOGY_FIELD
from grove.backends.sample import Sample

_PAIR: Final = frozenset({"workloads", "podgroups"})
_MINORS: Final[Mapping[str, Cluster]] = {
    "1.35": Cluster({f"{GROUP}/v1alpha1": frozenset({"workloads"})}, version="1.35"),
    "1.36": Cluster(
        {f"{GROUP}/v1alpha2": _PAIR}, frozenset({TOPOLOGY_FIELD, DISRUPTION_FIELD}), version="1.36"
    ),
    "1.37": Cluster(
        {f"{GROUP}/v1beta1": _PAIR, f"{GROUP}/v1alpha3": _PAIR | {"compositepodgroups"}},
        frozenset({TOPOLOGY_FIELD}),
        version="1.37",
    ),
    "none": Cluster(),
}

SAMPLE: Final = Sample("Kubernetes' own scheduler", lambda minor: _MINORS[minor])
