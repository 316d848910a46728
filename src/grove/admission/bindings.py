"""Whether a ClusterTopologyBinding makes sense: every level, key and scheduler once."""

from collections import Counter
from collections.abc import Iterator

from grove.api.topology import ClusterTopologyBinding
from grove.errors import FieldError


def validate_topology_binding(binding: ClusterTopologyBinding) -> list[FieldError]:
    """Everything wrong with a topology binding, field by field."""
    errors: list[FieldError] = []
    for field in ("domain", "key"):
        seen: set[str] = set()
        for index, level in enumerate(binding.spec.levels):
            value = getattr(level, field)
            if value in seen:
                errors.append(
                    FieldError(f"spec.levels[{index}].{field}", f"must be unique; {value!r} is used twice")
                )
            seen.add(value)
    return [*errors, *_references(binding)]


def _references(binding: ClusterTopologyBinding) -> Iterator[FieldError]:
    bindings = binding.spec.scheduler_topology_bindings
    counts = Counter(each.scheduler_name for each in bindings)
    for index, each in enumerate(bindings):
        if counts[each.scheduler_name] > 1:
            # Clients match this path, although the field is called schedulerTopologyBindings.
            yield FieldError(
                f"spec.schedulerTopologyReferences[{index}].schedulerName",
                f"must be unique; {each.scheduler_name!r} is used more than once",
            )
