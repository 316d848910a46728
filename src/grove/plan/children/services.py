"""The headless service that each replica of a set has. Pure."""

from collections.abc import Iterator
from typing import Final

from grove.api import kinds, labels, names
from grove.api.cliqueset import PodCliqueSet, PodCliqueSetTemplate
from grove.api.service import Service
from grove.meta import Manifest, Object
from grove.plan.changes import replacing
from grove.plan.children.rows import ChildRow
from grove.plan.children.state import CliqueSetState


class Services:
    """A service for each replica, of which everything is ours."""

    resource: Final = kinds.SERVICES
    view: Final = Service
    removal: Final = 2
    #: A cluster has many services.
    selector: Final = labels.OURS

    def __init__(self, seen: CliqueSetState) -> None:
        self._seen = seen

    def depends_on(self) -> object:
        return None

    def child_depends_on(self, child: Object) -> object:
        return None

    def rows(self, replica: int) -> Iterator[ChildRow]:
        yield self.row(replica)

    def find(self, name: str) -> ChildRow | None:
        replica = self._seen.replica_in(name)
        if replica is None or name != names.service(self._seen.cliqueset.name, replica):
            return None
        return self.row(replica)

    def row(self, replica: int) -> ChildRow:
        """The service of one replica."""
        name = names.service(self._seen.cliqueset.name, replica)
        return self._seen.row(self.resource, name, replica, self._build, _mend)

    def _build(self, row: ChildRow) -> Manifest:
        return desired_service(self._seen.cliqueset, row.replica, row.revision.template)


def _mend(desired: Manifest, living: Object) -> Manifest:
    """A selector that has more than it should finds no pod."""
    assert isinstance(living, Service)
    desired["spec"]["selector"] = replacing(desired["spec"]["selector"], living.spec.selector)
    return desired


def desired_service(cliqueset: PodCliqueSet, replica: int, template: PodCliqueSetTemplate) -> Manifest:
    """The headless service through which the pods of one replica find each other."""
    name = names.service(cliqueset.name, replica)
    selector = {**labels.owned_by(cliqueset.name), labels.SET_REPLICA_INDEX: str(replica)}
    config = template.headless_service_config
    return {
        "apiVersion": kinds.SERVICES.api_version,
        "kind": kinds.SERVICES.kind,
        "metadata": {
            "name": name,
            "namespace": cliqueset.namespace,
            "labels": {**selector, labels.NAME: name, labels.COMPONENT: labels.COMPONENT_SERVICE},
        },
        "spec": {
            "clusterIP": "None",
            "selector": selector,
            # Roles look each other up before they are ready: unready addresses are published unless refused.
            "publishNotReadyAddresses": config is None or config.publish_not_ready_addresses,
        },
    }
