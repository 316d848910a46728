"""The scaling groups of a set: one per replica and group of the template. Pure."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from grove.api import kinds, labels, names
from grove.api.cliqueset import PodCliqueSet, ScalingGroupConfig
from grove.api.scaling_group import PodCliqueScalingGroup
from grove.meta import Manifest, Object
from grove.plan.children.rows import ChildRow
from grove.plan.children.scaling import keep_scaled
from grove.plan.children.state import CliqueSetState
from grove.plan.mirroring import record


class ScalingGroups:
    """The scaling groups of the template in each replica; their replicas belong to whoever scales them."""

    resource: Final = kinds.SCALING_GROUPS
    view: Final = PodCliqueScalingGroup
    #: After its cliques, which go by themselves and not through the garbage collector.
    removal: Final = 2
    selector: Final = ""

    def __init__(self, seen: CliqueSetState) -> None:
        self._seen = seen

    def depends_on(self) -> object:
        return None

    def child_depends_on(self, child: Object) -> object:
        return self._seen.followed_by(child)

    def rows(self, replica: int) -> Iterator[ChildRow]:
        for name, config in self._seen.layout(replica).groups(replica):
            yield self._row(name, replica, config)

    def find(self, name: str) -> ChildRow | None:
        replica = self._seen.replica_in(name)
        if replica is None:
            return None
        config = dict(self._seen.layout(replica).groups(replica)).get(name)
        return self._row(name, replica, config) if config is not None else None

    def _row(self, name: str, replica: int, config: ScalingGroupConfig) -> ChildRow:
        build = partial(self._build, config)
        return self._seen.row(self.resource, name, replica, build, partial(_mend, config))

    def _build(self, config: ScalingGroupConfig, row: ChildRow) -> Manifest:
        return desired_group(self._seen.cliqueset, row.replica, config, follows=row.revision.hash)


def _mend(config: ScalingGroupConfig, desired: Manifest, living: Object) -> Manifest:
    """Replicas are left to whoever scales the group."""
    assert isinstance(living, PodCliqueScalingGroup)
    return keep_scaled(desired, living, autoscaled=config.scale_config is not None)


def desired_group(
    cliqueset: PodCliqueSet, replica: int, config: ScalingGroupConfig, *, follows: str = ""
) -> Manifest:
    """The scaling group of one replica; `spec.replicas` belongs to whoever scales it."""
    name = names.scaling_group(cliqueset.name, replica, config.name)
    annotations = dict(config.annotations)
    if labels.MNNVL_GROUP in cliqueset.annotations:
        annotations.setdefault(labels.MNNVL_GROUP, cliqueset.annotations[labels.MNNVL_GROUP])
    return {
        "apiVersion": kinds.SCALING_GROUPS.api_version,
        "kind": kinds.SCALING_GROUPS.kind,
        "metadata": {
            "name": name,
            "namespace": cliqueset.namespace,
            "labels": {
                **labels.owned_by(cliqueset.name),
                labels.NAME: name,
                labels.COMPONENT: labels.COMPONENT_SCALING_GROUP,
                labels.SET_REPLICA_INDEX: str(replica),
            },
            "annotations": {
                **annotations,
                **record((), annotations),
                labels.TEMPLATE_REPLICAS: str(config.initial_replicas),
                labels.TEMPLATE_REVISION: follows or None,
            },
        },
        "spec": {
            "replicas": config.initial_replicas,
            "minAvailable": config.minimum,
            "cliqueNames": list(config.clique_names),
        },
    }
