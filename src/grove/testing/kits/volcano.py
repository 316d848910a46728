"""The rules for the backend `volcano`, on a release with subgroups and on an older one without."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from grove.api import labels
from grove.backends.base import Backend, Cluster, Context
from grove.backends.volcano import VolcanoBackend
from grove.backends.volcano.objects import GROUP_ANNOTATION, SUBGROUPS_FIELD, TIER_NAME_FIELD
from grove.backends.volcano.queue import QUEUE
from grove.backends.volcano.sight import CONFIG_MAPS, HYPERNODES, PLUGIN
from grove.meta import Manifest, Resource
from grove.testing.clusters import on
from grove.testing.conformance import RACK, ZONE, BackendConformance

_SERVED: Final = {
    "v1": frozenset({"configmaps"}),
    "scheduling.volcano.sh/v1beta1": frozenset({"podgroups", "queues"}),
    "topology.volcano.sh/v1alpha1": frozenset({"hypernodes"}),
}
VOLCANO_113: Final = Cluster(served=_SERVED)
VOLCANO_114: Final = Cluster(served=_SERVED, fields=frozenset({SUBGROUPS_FIELD, TIER_NAME_FIELD}))
_CONFIGURATION: Final[Manifest] = {"data": {"conf": f"tiers: [{{plugins: [{{name: {PLUGIN}}}]}}]"}}
_INSTALLED: Final[Mapping[Resource, tuple[Manifest, ...]]] = {
    HYPERNODES: (
        {"metadata": {"name": "r1"}, "spec": {"tier": 1, "tierName": RACK}},
        {"metadata": {"name": "z1"}, "spec": {"tier": 2, "tierName": ZONE}},
    ),
    CONFIG_MAPS: (_CONFIGURATION,),
}


class Conformance(BackendConformance):
    """Volcano with one PodGroup for each gang, and a policy or a task for each podgroup."""

    backend: ClassVar[Backend] = VolcanoBackend()
    queue_annotation: ClassVar[str] = QUEUE
    packs_closely: ClassVar[bool] = True

    def contexts(self) -> Sequence[Context]:
        new, old = on(VOLCANO_114, queue="research"), on(VOLCANO_113)
        return [replace(new, observed=_INSTALLED), replace(old, observed=_INSTALLED)]

    def minimum_of(self, manifests: Sequence[Manifest]) -> int | None:
        return sum(int(each["spec"]["minMember"]) for each in manifests)

    def minima_of(self, manifests: Sequence[Manifest]) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for each in manifests:
            for policy in each["spec"].get("subGroupPolicy", ()):
                # A policy of several podgroups has its minimum; theirs are those of the tasks.
                if labels.TOPOLOGY_GROUP not in policy["matchLabelKeys"]:
                    found[policy["name"]] = policy["subGroupSize"] * policy["minSubGroups"]
            found |= each["spec"].get("minTaskMember", {})
        return found

    def links_of(self, pod: Manifest) -> Iterable[str]:
        return [pod["metadata"]["annotations"][GROUP_ANNOTATION]]
