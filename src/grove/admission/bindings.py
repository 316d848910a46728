"""Whether a ClusterTopologyBinding makes sense: each level, key and scheduler once, all of use.

The texts are those of the Go operator, whose clients match them.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from grove.api.topology import ClusterTopologyBinding
from grove.errors import FieldError

#: Clients match this path, although the field is called schedulerTopologyBindings.
_REFERENCES: Final = "spec.schedulerTopologyReferences"


def validate_topology_binding(binding: ClusterTopologyBinding) -> list[FieldError]:
    """Where a binding contradicts itself; nobody acts on such a one."""
    levels, references = binding.spec.levels, binding.spec.scheduler_topology_bindings
    return [
        *_twice("spec.levels[{}].domain", [level.domain for level in levels]),
        *_twice("spec.levels[{}].key", [level.key for level in levels]),
        *_twice(f"{_REFERENCES}[{{}}].schedulerName", [each.scheduler_name for each in references]),
    ]


def unusable_references(
    binding: ClusterTopologyBinding, reads_topology: Mapping[str, bool]
) -> Iterator[FieldError]:
    """References that nobody follows; `reads_topology` has the schedulers that are enabled, by every name.

    The levels of such a binding hold for the other schedulers.
    """
    for index, each in enumerate(binding.spec.scheduler_topology_bindings):
        known = reads_topology.get(each.scheduler_name)
        if not known:
            why = (
                "is not enabled in Grove" if known is None else "does not implement topology-aware scheduling"
            )
            yield FieldError(
                f"{_REFERENCES}[{index}].schedulerName",
                f'Invalid value: "{each.scheduler_name}": scheduler backend {why}',
            )


def _twice(field: str, values: list[str]) -> Iterator[FieldError]:
    for index, value in enumerate(values):
        if value in values[:index]:
            yield FieldError(field.format(index), f'Duplicate value: "{value}"')
