"""The native objects of the floor's gangs, and the pods' links to them, as the backend makes them. Pure."""

from grove.api import labels
from grove.api.gang import PodGang
from grove.backends.base import Context
from grove.backends.default import DefaultBackend
from grove.meta import Manifest, Resource, resource
from grove.testing import make
from grove.testing.clusters import NATIVE

_BACKEND = DefaultBackend()


class Gangs:
    """Gangs of one size on one Kubernetes minor, numbered from 0."""

    def __init__(self, minor: str, size: int) -> None:
        self._context = Context(cluster=NATIVE["1.37 composite" if minor == "1.37" else minor])
        self._size = size

    def objects(self, number: int) -> list[tuple[Resource, Manifest]]:
        """What must exist for one gang; it belongs to nobody, so nobody collects it."""
        found = []
        for manifest in _BACKEND.translate(self._gang(number), self._context).manifests:
            group, _, version = str(manifest["apiVersion"]).rpartition("/")
            del manifest["metadata"]["ownerReferences"]
            found.append((resource(group, version, str(manifest["kind"])), manifest))
        return found

    def linked(self, pod: Manifest, index: int) -> Manifest:
        """A pod of the floor as a member of its gang; its gate stays the driver's."""
        number, place = divmod(index, self._size)
        marks = {labels.POD_CLIQUE: self._role(number), labels.POD_INDEX: str(place)}
        metadata = {**pod["metadata"], "labels": {**pod["metadata"]["labels"], **marks}}
        linked = _BACKEND.prepare_pod({**pod, "metadata": metadata}, self._gang(number), self._context)
        return {**linked, "spec": {**linked["spec"], "schedulingGates": pod["spec"]["schedulingGates"]}}

    def _gang(self, number: int) -> PodGang:
        return make.gang(f"floor-{number}", {self._role(number): self._size})

    def _role(self, number: int) -> str:
        return f"floor-{number}-worker"
