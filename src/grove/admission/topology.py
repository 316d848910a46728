"""Whether a set's topology constraints make sense together: one binding, levels that nest.

What the cluster lacks for them (no binding, no such level) is in `levels`.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from grove.api.cliqueset import PodCliqueSet
from grove.api.constraints import Placed, constraints
from grove.api.topology import ClusterTopologyBinding
from grove.errors import FieldError

_MIXED: Final = (
    "all topologyConstraint.topologyName values within a PodCliqueSet must match "
    "in the current implementation"
)
_UNNAMED: Final = "topologyName is required when topologyConstraint is set and cannot be inherited"
_NOT_NEW: Final = "packDomain is deprecated and cannot be used on new workloads; use pack.required"


def validate_topology(cliqueset: PodCliqueSet, *, new: bool = False) -> Iterator[FieldError]:
    """What is wrong with the constraints by themselves; packDomain is wrong in a `new` set only."""
    placed = constraints(cliqueset)
    yield from _shapes(placed)
    if new:
        yield from (
            FieldError(f"{each.field}.packDomain", _NOT_NEW) for each in placed if each.constraint.pack_domain
        )
    yield from (
        FieldError(f"{each.field}.topologyName", _UNNAMED) for each in placed if not each.topology_name
    )
    yield from (FieldError(f"{each.field}.topologyName", _MIXED) for each in _mixed(placed))


def validate_nesting(cliqueset: PodCliqueSet, binding: ClusterTopologyBinding | None) -> Iterator[FieldError]:
    """A level above must not be narrower than one below it; the error stands at the level above."""
    if binding is None:
        return
    depth = {level.domain: index for index, level in enumerate(binding.spec.levels)}
    seen: set[FieldError] = set()
    for each in constraints(cliqueset):
        above = each.above
        while above is not None:
            for suffix, upper, lower in (
                ("", above.constraint.required, each.constraint.required),
                (".pack.preferred", above.constraint.preferred, each.constraint.preferred),
            ):
                if depth.get(upper or "", -1) > depth.get(lower or "", len(depth)):
                    error = FieldError(
                        f"{above.field}{suffix}",
                        f"domain {upper!r} is narrower than {lower!r}, which is asked for below it, at "
                        f"{each.field}{suffix}",
                    )
                    if error not in seen:
                        seen.add(error)
                        yield error
            above = above.above


def topology_notices(cliqueset: PodCliqueSet, binding: ClusterTopologyBinding | None) -> Iterator[FieldError]:
    """Constraints that are allowed but pointless or deprecated."""
    levels = binding.spec.levels if binding else ()
    depth = {level.domain: index for index, level in enumerate(levels)}
    for placed in constraints(cliqueset):
        constraint = placed.constraint
        if constraint.pack_domain:
            yield FieldError(f"{placed.field}.packDomain", "is deprecated; use pack.required instead")
        required, preferred = depth.get(constraint.required or ""), depth.get(constraint.preferred or "")
        if required is not None and preferred is not None and preferred < required:
            yield FieldError(
                f"{placed.field}.pack.preferred",
                f"is coarser than {placed.field}.pack.required and is redundant",
            )


def _mixed(placed: Sequence[Placed]) -> Iterator[Placed]:
    """Constraints about another binding: those that contradict what is above them, else all that name one."""
    naming = [each for each in placed if each.constraint.topology_name]
    if len({each.constraint.topology_name for each in naming}) < 2:
        return
    contrary = [
        each for each in naming if each.above and each.above.topology_name not in ("", each.topology_name)
    ]
    yield from contrary or naming


def _shapes(placed: Sequence[Placed]) -> Iterator[FieldError]:
    for each in placed:
        constraint = each.constraint
        if constraint.pack is None and constraint.pack_domain is None:
            yield FieldError(
                f"{each.field}.pack", "topologyConstraint must specify pack or deprecated packDomain"
            )
        elif constraint.pack is not None and not (constraint.pack.required or constraint.pack.preferred):
            yield FieldError(f"{each.field}.pack", "pack must specify at least one of required or preferred")
        if constraint.pack is not None and constraint.pack.required and constraint.pack_domain:
            yield FieldError(
                f"{each.field}.pack.required", "must not set both pack.required and deprecated packDomain"
            )
