"""What the built-in kinds mean beyond their schema: defaults, validation, what a write may change.

`strategy_for` finds the rules of a kind; kinds without special rules get `Strategy` itself.
"""

from __future__ import annotations

from grove.embedded.kinds import core, pod, scheduling, workloads
from grove.embedded.kinds.base import Strategy
from grove.embedded.resource_type import ResourceType

__all__ = ["Strategy", "strategy_for"]

_STRATEGIES: dict[tuple[str, str], Strategy] = {
    **pod.STRATEGIES,
    **core.STRATEGIES,
    **workloads.STRATEGIES,
    **scheduling.STRATEGIES,
}
_PLAIN = Strategy()


def strategy_for(resource: ResourceType) -> Strategy:
    """The rules of one kind; custom kinds have none besides their schema."""
    return _PLAIN if resource.custom else _STRATEGIES.get((resource.group, resource.kind), _PLAIN)
