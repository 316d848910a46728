"""Our own backends keep the rules that third parties must keep."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from tests.backends import clusters
from tests.backends.clusters import on

from grove.backends.base import Backend, Context
from grove.backends.default import DefaultBackend
from grove.backends.kai import POD_GROUP_ANNOTATION, KaiBackend
from grove.meta import Manifest
from grove.testing.conformance import BackendConformance


class TestDefault(BackendConformance):
    backend: ClassVar[Backend] = DefaultBackend()

    def contexts(self) -> Sequence[Context]:
        plain = [on(cluster) for cluster in clusters.NATIVE.values()]
        return [*plain, *(on(clusters.V137, mode=mode) for mode in ("Flat", "Merged"))]

    def minimum_of(self, manifests: Sequence[Manifest]) -> int | None:
        entries = [(each["spec"], "schedulingPolicy") for each in manifests if each["kind"] == "PodGroup"]
        for each in manifests:
            entries += [(entry, "policy") for entry in each["spec"].get("podGroups", ())]
        return sum(int(entry[field].get("gang", {}).get("minCount", 0)) for entry, field in entries)

    def links_of(self, pod: Manifest) -> Iterable[str]:
        spec = pod["spec"]
        if "workloadRef" in spec:
            yield spec["workloadRef"]["name"]
        if "schedulingGroup" in spec:
            yield spec["schedulingGroup"]["podGroupName"]


class TestKai(BackendConformance):
    backend: ClassVar[Backend] = KaiBackend()

    def contexts(self) -> Sequence[Context]:
        return [on(clusters.KAI_012), on(clusters.KAI_017, queue="research")]

    def minimum_of(self, manifests: Sequence[Manifest]) -> int | None:
        leaves = [leaf for each in manifests for leaf in each["spec"]["subGroups"]]
        return sum(int(leaf.get("minMember", 0)) for leaf in leaves)

    def links_of(self, pod: Manifest) -> Iterable[str]:
        return [pod["metadata"]["annotations"][POD_GROUP_ANNOTATION]]
