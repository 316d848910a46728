"""Who decides where pods go in a scenario: kube-scheduler of each minor, or a scheduler of others on its own.

A judge says what the backend writes for it and which promises hold with it. A real one is the scheduler's own
programs; the embedded cluster plays the same judge and must come to the same outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from grove.api import kinds
from grove.backends.registry import BUILT_INS
from grove.meta import Manifest, Resource, resource
from grove.real.schedulers import KOORDINATOR_TOPOLOGY
from grove.real.third_party import THIRD_PARTIES, third_party

OURS: Final = (kinds.CLIQUESETS, kinds.CLIQUES, kinds.GANGS, kinds.PODS)


@dataclass(frozen=True, slots=True)
class Judge:
    """One scheduler on one minor."""

    #: A minor, or the name of a scheduler of others.
    name: str
    minor: str
    #: The namespaced kinds that the backend writes for it.
    objects: tuple[Resource, ...]
    #: How many levels of required topology it honours at once: of the gang, and of roles within it.
    packs: int = 0
    #: Whether it says which resource is short when the whole cluster has too little of it.
    names_resources: bool = True
    #: Whether its objects name the priority class.
    prioritizes: bool = True
    #: The object that tells it the topology; a new story must not meet that of the one before.
    topologies: Resource | None = None
    backend: str = "default"
    #: The profile's own settings, for what the operator cannot see.
    settings: str = ""
    #: What the administrator of such a cluster has put into it.
    furniture: tuple[Manifest, ...] = ()

    @property
    def third_party(self) -> str:
        return "" if self.backend == "default" else self.backend

    @property
    def title(self) -> str:
        if not self.third_party:
            return f"kube-scheduler {self.minor}"
        return f"{third_party(self.third_party).label} on Kubernetes {self.minor}"

    @property
    def resources(self) -> tuple[Resource, ...]:
        """Every namespaced kind that a set leads to."""
        return (*OURS, *self.objects)

    @property
    def configuration(self) -> str:
        """How the operator is configured."""
        profile = "default-scheduler" if not self.third_party else self.backend
        chosen = (
            f"{{name: {profile}, config: {{{self.settings}}}}}" if self.settings else f"{{name: {profile}}}"
        )
        return f"""
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
topologyAwareScheduling: {{enabled: true}}
scheduler: {{profiles: [{chosen}], defaultProfileName: {profile}}}
"""


def _other(name: str, *objects: Resource, **promises: object) -> Judge:
    return Judge(name, third_party(name).minor, objects, backend=name, **promises)  # type: ignore[arg-type]


_NATIVE: Final = "scheduling.k8s.io"
_ALL: Final = (
    Judge("1.35", "1.35", (resource(_NATIVE, "v1alpha1", "Workload"),), prioritizes=False),
    Judge("1.36", "1.36", (resource(_NATIVE, "v1alpha2", "PodGroup"),), packs=1),
    Judge(
        "1.37",
        "1.37",
        (
            resource(_NATIVE, "v1beta1", "Workload"),
            resource(_NATIVE, "v1alpha3", "CompositePodGroup"),
            resource(_NATIVE, "v1beta1", "PodGroup"),
        ),
        packs=2,
    ),
    _other(
        "kai",
        resource("scheduling.run.ai", "v2alpha2", "PodGroup"),
        packs=2,
        topologies=resource("kai.scheduler", "v1alpha1", "Topology", "topologies", namespaced=False),
    ),
    _other(
        "volcano", resource("scheduling.volcano.sh", "v1beta1", "PodGroup"), packs=2, names_resources=False
    ),
    _other(
        "koordinator",
        resource("scheduling.sigs.k8s.io", "v1alpha1", "PodGroup"),
        packs=1,
        prioritizes=False,
        settings="networkTopologyEnabled: true",
        furniture=(KOORDINATOR_TOPOLOGY,),
    ),
    _other("yunikorn", prioritizes=False),
)

#: By name; a scheduler whose backend is not built in is not judged by.
JUDGES: Final = {
    judge.name: judge for judge in _ALL if not judge.third_party or judge.third_party in BUILT_INS
}
MINORS: Final = tuple(name for name in JUDGES if name not in THIRD_PARTIES)
OTHERS: Final = tuple(name for name in JUDGES if name in THIRD_PARTIES)
