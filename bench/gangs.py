"""The very pods and scheduler objects that the operator would make for a case, for nobody to own. Pure."""

from typing import TypeVar

from bench.cases import FLOOR_LABEL, GATE, Case, cliqueset
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.revision import next_revision
from grove.backends.base import Context
from grove.backends.default import DefaultBackend
from grove.meta import Manifest, Object, Resource, resource
from grove.plan.changes import present
from grove.plan.children import CliqueSetState
from grove.plan.children.cliques import Cliques
from grove.plan.children.gangs import Gangs as GangRows
from grove.plan.children.services import Services
from grove.plan.pods import desired_pod, plan_pods
from grove.testing.clusters import NATIVE
from grove.testing.make import view

T = TypeVar("T", bound=Object)

_BACKEND = DefaultBackend()


class Gangs:
    """The gangs of one case on one Kubernetes minor, numbered from 0."""

    def __init__(self, minor: str, case: Case) -> None:
        self._context = Context(cluster=NATIVE["1.37 composite" if minor == "1.37" else minor])
        self._seen = CliqueSetState(_stored(PodCliqueSet, cliqueset(case)), backend=_BACKEND.name)

    def objects(self, number: int) -> list[tuple[Resource, Manifest]]:
        """What must exist for one gang before its pods."""
        found = []
        for manifest in _BACKEND.translate(self._gang(number), self._context).manifests:
            group, _, version = str(manifest["apiVersion"]).rpartition("/")
            found.append((resource(group, version, str(manifest["kind"])), _ownerless(manifest)))
        return found

    def service(self, number: int) -> Manifest:
        """The headless service of one gang."""
        return _ownerless(Services(self._seen).row(number).manifest())

    def pods(self, number: int) -> list[Manifest]:
        """The pods of one gang behind the driver's gate, which nobody else opens."""
        gang, clique = self._gang(number), self._clique(number)
        revision = next_revision(gang)
        prepared = (
            _BACKEND.prepare_pod(desired_pod(clique, new, revision), gang, self._context)
            for new in plan_pods(clique, (), gang=gang, revision=revision).create
        )
        return [_gated(_ownerless(pod)) for pod in prepared]

    def _gang(self, number: int) -> PodGang:
        return _stored(PodGang, next(GangRows(self._seen).rows(number)).manifest())

    def _clique(self, number: int) -> PodClique:
        (row,) = Cliques(self._seen).rows(number)
        return _stored(PodClique, row.manifest())


def _stored(type_: type[T], manifest: Manifest) -> T:
    stored = present(manifest)
    stored["metadata"]["uid"] = f"uid-of-{stored['metadata']['name']}"
    return view(type_, stored)


def _ownerless(manifest: Manifest) -> Manifest:
    """Without an owner that does not exist: the garbage collector would take it at once."""
    metadata = {name: value for name, value in manifest["metadata"].items() if name != "ownerReferences"}
    return {**manifest, "metadata": metadata}


def _gated(pod: Manifest) -> Manifest:
    marks = {**pod["metadata"]["labels"], FLOOR_LABEL: "true"}
    spec = {**pod["spec"], "schedulingGates": [{"name": GATE}]}
    return {**pod, "metadata": {**pod["metadata"], "labels": marks}, "spec": spec}
