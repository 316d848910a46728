"""The HorizontalPodAutoscalers of a set: one for each clique and scaling group that asks for one. Pure.

Target, bounds and metrics are ours. `behavior` is not: who adds one to an autoscaler keeps it.
"""

from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

from grove.api import kinds, labels, names
from grove.api.autoscaler import HorizontalPodAutoscaler
from grove.api.clique import DEFAULT_METRICS, AutoScalingConfig
from grove.api.cliqueset import PodCliqueSet
from grove.api.quantities import quantity
from grove.meta import Manifest, Object, Resource
from grove.plan.changes import replacing
from grove.plan.children.rows import ChildRow
from grove.plan.children.state import CliqueSetState

#: Where a metric has quantities, which the API server spells in its own way.
_QUANTITIES: Final = frozenset({"value", "averageValue"})


class Scaled(NamedTuple):
    """A role or a scaling group of a set that is scaled by load."""

    name: str
    target: Resource
    config: AutoScalingConfig
    lowest: int


class Autoscalers:
    """Created after what they scale and removed before it, so that none looks for a target in vain."""

    resource: Final = kinds.AUTOSCALERS
    view: Final = HorizontalPodAutoscaler
    removal: Final = 0
    #: A cluster has many autoscalers.
    selector: Final = labels.OURS

    def __init__(self, seen: CliqueSetState) -> None:
        self._seen = seen
        # How something is scaled is no part of its pods: an edit reaches every replica at once.
        self._scaled = {each.name: each for each in scaled_by_load(seen.cliqueset)}

    def depends_on(self) -> object:
        return None

    def child_depends_on(self, child: Object) -> object:
        return None

    def rows(self, replica: int) -> Iterator[ChildRow]:
        for scaled in self._scaled.values():
            yield self.row(replica, scaled)

    def find(self, name: str) -> ChildRow | None:
        replica = self._seen.replica_in(name)
        if replica is None:
            return None
        prefix = names.clique(self._seen.cliqueset.name, replica, "")
        scaled = self._scaled.get(name.removeprefix(prefix))
        return self.row(replica, scaled) if scaled is not None and name.startswith(prefix) else None

    def row(self, replica: int, scaled: Scaled) -> ChildRow:
        """The autoscaler of one role or group in one replica; it has the name of its target."""
        name = names.autoscaler(self._seen.cliqueset.name, replica, scaled.name)
        return self._seen.row(self.resource, name, replica, partial(self._build, scaled), _mend)

    def _build(self, scaled: Scaled, row: ChildRow) -> Manifest:
        return desired_autoscaler(self._seen.cliqueset, row.name, scaled)


def scaled_by_load(cliqueset: PodCliqueSet) -> Iterator[Scaled]:
    """The standalone roles and the scaling groups that ask for an autoscaler."""
    for role in cliqueset.standalone_cliques:
        if (config := role.spec.auto_scaling_config) is not None:
            lowest = config.lowest(role.spec.replicas, role.spec.min_available)
            yield Scaled(role.name, kinds.CLIQUES, config, lowest)
    for group in cliqueset.template.pod_clique_scaling_groups:
        if (config := group.scale_config) is not None:
            lowest = config.lowest(group.initial_replicas, group.minimum)
            yield Scaled(group.name, kinds.SCALING_GROUPS, config, lowest)


def desired_autoscaler(cliqueset: PodCliqueSet, name: str, scaled: Scaled) -> Manifest:
    """The autoscaler of one clique or scaling group."""
    return {
        "apiVersion": kinds.AUTOSCALERS.api_version,
        "kind": kinds.AUTOSCALERS.kind,
        "metadata": {
            "name": name,
            "namespace": cliqueset.namespace,
            "labels": {
                **labels.owned_by(cliqueset.name),
                labels.NAME: name,
                labels.COMPONENT: labels.COMPONENT_AUTOSCALER,
            },
        },
        "spec": {
            "scaleTargetRef": {
                "apiVersion": scaled.target.api_version,
                "kind": scaled.target.kind,
                "name": name,
            },
            "minReplicas": scaled.lowest,
            "maxReplicas": scaled.config.max_replicas,
            "metrics": list(scaled.config.metrics or DEFAULT_METRICS),
        },
    }


def _mend(desired: Manifest, living: Object) -> Manifest:
    """Metrics are compared as a whole, and quantities by what they are worth."""
    assert isinstance(living, HorizontalPodAutoscaler)
    spec = desired["spec"]
    there = list(living.spec.metrics)
    spec["metrics"] = replacing(_as_spelt(spec["metrics"], there), there)
    return desired


def _as_spelt(desired: object, living: object) -> object:
    """The desired metrics, with each quantity spelt as it is there if it is worth the same."""
    if isinstance(desired, list) and isinstance(living, list) and len(desired) == len(living):
        return [_as_spelt(want, have) for want, have in zip(desired, living, strict=True)]
    if isinstance(desired, dict) and isinstance(living, dict):
        return {
            key: living[key] if _same_quantity(key, want, living) else _as_spelt(want, living.get(key))
            for key, want in desired.items()
        }
    return desired


def _same_quantity(key: str, want: object, living: Manifest) -> bool:
    if key not in _QUANTITIES or living.get(key) is None:
        return False
    try:
        return quantity(str(want)) == quantity(str(living[key]))
    except ValueError:
        return False
