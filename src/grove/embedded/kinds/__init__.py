"""Which kinds the server serves, built in or defined by a CRD, and what each means beyond its schema.

`registry.py` and `catalog.py` find a kind; `strategy_for` finds the rules of a built-in one: defaults,
validation, what a write may change. Kinds without special rules get `Strategy` itself. Pure: other objects
are read through `Context`. May import `machinery` and `data`, not `storage`.
"""

from __future__ import annotations

from grove.embedded.kinds import (
    autoscaling,
    core,
    devices,
    pod,
    scheduling,
    webhook_configurations,
    workloads,
)
from grove.embedded.kinds.base import Strategy
from grove.embedded.resource_type import ResourceType

__all__ = ["Strategy", "strategy_for"]

_STRATEGIES: dict[tuple[str, str], Strategy] = {
    **pod.STRATEGIES,
    **core.STRATEGIES,
    **workloads.STRATEGIES,
    **autoscaling.STRATEGIES,
    **scheduling.STRATEGIES,
    **devices.STRATEGIES,
    **webhook_configurations.STRATEGIES,
}
_PLAIN = Strategy()


def strategy_for(resource: ResourceType) -> Strategy:
    """The rules of one kind; custom kinds have none besides their schema."""
    return _PLAIN if resource.custom else _STRATEGIES.get((resource.group, resource.kind), _PLAIN)
