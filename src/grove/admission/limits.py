"""Whether a set asks for more than the operator's configuration allows one set. Pure."""

from collections.abc import Iterator

from grove.api.cliqueset import PodCliqueSet
from grove.errors import FieldError
from grove.plan.layout import pods_of_a_replica
from grove.plan.update.budget import FIELD, budget_of
from grove.words import counted

_WAY_OUT = "lower it, split the set, or raise limits.podsPerSet in the operator's configuration"


def validate_limits(cliqueset: PodCliqueSet, *, pods_per_set: int) -> Iterator[FieldError]:
    """The field by which a set exceeds the limit, with the numbers and the way out."""
    replicas = cliqueset.spec.replicas
    each = pods_of_a_replica(cliqueset.template)
    # A replica whose roles are all scaled to zero has no pods, but objects all the same.
    asked = replicas * max(1, each)
    if asked <= pods_per_set:
        yield from _surplus(cliqueset, asked, max(1, each), pods_per_set)
        return
    wanted = counted(replicas, "replica")
    if each > 1:
        wanted = f"{asked} pods ({wanted} of {each} pods{' each' if replicas > 1 else ''})"
    field = "spec.replicas" if replicas > 1 else "spec.template.cliques"
    yield FieldError(
        field, f"asks for {wanted}; this operator allows {pods_per_set} pods in one set; {_WAY_OUT}"
    )


def _surplus(cliqueset: PodCliqueSet, asked: int, each: int, pods_per_set: int) -> Iterator[FieldError]:
    """What an update would add beyond the limit."""
    surge = budget_of(cliqueset).surge
    if cliqueset.on_delete or asked + surge * each <= pods_per_set:
        return
    yield FieldError(
        f"{FIELD}.maxSurge",
        f"an update would add {counted(surge, 'replica')} of {counted(each, 'pod')} each to "
        f"{counted(asked, 'pod')}; this operator allows {pods_per_set} pods in one set; {_WAY_OUT}",
    )
