"""What the rules are applied to: a backend, the clusters it is made for, and gangs that ask for one thing."""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final

from grove.api import labels
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.backends.base import Backend, Capability, Context, Translation
from grove.errors import Unsupported
from grove.meta import Manifest
from grove.testing import make
from grove.testing.rules.twins import RACK

OTHERS_GATE: Final = "example.com/quota"
_NAMED: Final = {labels.TOPOLOGY_NAME: "cluster"}

#: For each capability a gang that asks for nothing but that.
SAMPLES: Final[dict[Capability, PodGang]] = {
    Capability.GANG: make.gang("one", {"one-worker": 3}),
    Capability.SUBGROUPS: make.gang("two", {"two-leader": 1, "two-worker": 3}, cliqueset="two"),
    Capability.PRIORITY: make.gang("prio", {"prio-worker": 2}, priority="high"),
    Capability.TOPOLOGY_REQUIRED: make.gang("rack", {"rack-worker": 2}, required=RACK, annotations=_NAMED),
    Capability.TOPOLOGY_PREFERRED: make.gang("near", {"near-worker": 2}, preferred=RACK, annotations=_NAMED),
    Capability.REPLICA_TOPOLOGY: make.gang(
        "more-0-group-0",
        {"more-0-group-1-worker": 2},
        cliqueset="more",
        labels={labels.BASE_POD_GANG: "more-0", labels.SET_REPLICA_INDEX: "0"},
        annotations={labels.REPLICA_REQUIRED: RACK},
    ),
    Capability.REUSE: make.gang("again", {"again-worker": 2}, reuse="before"),
    Capability.HIERARCHY: make.gang(
        "tree",
        {"tree-a": 1, "tree-b": 2, "tree-c": 1},
        groups=[make.group("pair", ["tree-a", "tree-b"], required=RACK)],
        annotations=_NAMED,
    ),
}

#: What a user asks for as a must: a scheduler that cannot do it has to say no.
MUSTS: Final = (Capability.TOPOLOGY_REQUIRED, Capability.HIERARCHY, Capability.REPLICA_TOPOLOGY)

#: Sets that ask for the musts, for backends that refuse at admission.
SETS: Final[dict[Capability, PodCliqueSet]] = {
    Capability.TOPOLOGY_REQUIRED: make.cliqueset(
        template={"topologyConstraint": {"topologyName": "cluster", "pack": {"required": "rack"}}}
    ),
    Capability.HIERARCHY: make.cliqueset(
        cliques={"a": 1, "b": 2, "c": 1},
        groups=[
            make.scaling_group(
                "pair",
                ["a", "b"],
                topologyConstraint={"topologyName": "cluster", "pack": {"required": "rack"}},
            )
        ],
    ),
}

#: What a user or Grove wrote into a pod and no backend may change; a claim that is lost is a device lost.
_WRITTEN: Final[Manifest] = {
    "nodeSelector": {"example.com/pool": "gpu"},
    "tolerations": [{"key": "example.com/gpu", "operator": "Exists"}],
    "restartPolicy": "Always",
    "resourceClaims": [{"name": "shared", "resourceClaimName": "shared-all-gpu"}],
}


class Subject:
    """A backend under test; a third party sets `backend` and overrides what its scheduler needs."""

    backend: ClassVar[Backend]
    #: The annotation by which a gang names its queue, where the scheduler has queues.
    queue_annotation: ClassVar[str] = ""
    #: Whether the scheduler, within a domain that is required, takes the smallest that has room anyway.
    packs_closely: ClassVar[bool] = False

    def contexts(self) -> Sequence[Context]:
        """The clusters and configurations that the backend is made for.

        Where topology is honoured they know the node labels `example.com/rack` and `example.com/zone`.
        """
        return [Context()]

    def minimum_of(self, manifests: Sequence[Manifest]) -> int | None:
        """How many pods the objects demand together; None only if the objects cannot say it."""
        return None

    def minima_of(self, manifests: Sequence[Manifest]) -> Mapping[str, int] | None:
        """How many pods the objects demand of each podgroup, by its name; None if nobody can tell."""
        return None

    def links_of(self, pod: Manifest) -> Iterable[str]:
        """The names of the objects that a prepared pod points to, if it points to any."""
        return ()

    def scored(self, manifests: Sequence[Manifest], score: float) -> Sequence[Manifest] | None:
        """The objects after the scheduler gave the placement this score; None if it gives none."""
        return None

    def translated(self) -> Iterator[tuple[Context, PodGang, Translation]]:
        """Every sample that the backend accepts in every context; it has to accept the plain one."""
        for context in self.contexts():
            for capability, gang in SAMPLES.items():
                try:
                    translation = self.backend.translate(gang, context)
                except Unsupported:
                    assert capability is not Capability.GANG, "the plainest gang is refused"
                    continue
                yield context, gang, translation

    def pods(self) -> Iterator[tuple[Context, PodGang, Manifest]]:
        """The pods of every gang, one above the minimum, as users write them."""
        for context, gang, _ in self.translated():
            for podgroup in gang.spec.podgroups:
                for index in range(podgroup.min_replicas + 1):
                    yield context, gang, _pod(podgroup.name, index, gang)


def _pod(clique: str, index: int, gang: PodGang) -> Manifest:
    notes = {"example.com/note": "kept"}
    return make.pod_manifest(
        clique, index, gang=gang, gates=[OTHERS_GATE], annotations=notes, spec=copy.deepcopy(_WRITTEN)
    )


def needed(gang: PodGang) -> Iterator[tuple[str, int]]:
    """Clique and index of each pod that the gang cannot do without."""
    return ((each.name, index) for each in gang.spec.podgroups for index in range(each.min_replicas))
