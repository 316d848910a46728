"""The rules for the backend `default`, on every generation of the native gang API."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from grove.backends.base import Backend, Context
from grove.backends.default import DefaultBackend
from grove.meta import Manifest
from grove.testing import clusters
from grove.testing.clusters import on
from grove.testing.conformance import BackendConformance


class Conformance(BackendConformance):
    """kube-scheduler, from no gang API at all to composite ones."""

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
