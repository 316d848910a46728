"""How many replicas of a set an update may take down and add. Pure."""

from typing import NamedTuple

from grove.api import labels
from grove.api.cliqueset import PodCliqueSet
from grove.errors import FieldError


class Budget(NamedTuple):
    """What an update may do at the same time."""

    unavailable: int = 1
    surge: int = 0


FIELD = "spec.updateStrategy.rollingRecreate"


def budget_of(cliqueset: PodCliqueSet) -> Budget:
    """The limits of a set's update in replicas; by default one may be down, and none is added."""
    strategy = cliqueset.spec.update_strategy
    limits = strategy.rolling_recreate if strategy is not None else None
    if limits is None:
        return Budget()
    replicas = cliqueset.spec.replicas
    # Each surplus replica stands in for one of the others: more than those are of no use.
    surge = min(replicas, _resolved(limits.max_surge, replicas, up=True, default=0))
    unavailable = _resolved(limits.max_unavailable, replicas, up=False, default=1)
    # A share of few replicas may be less than one: then one at a time, or nothing would ever happen.
    return Budget(unavailable if unavailable or surge else 1, surge)


def validate_budget(cliqueset: PodCliqueSet) -> list[FieldError]:
    """What is wrong with the limits of a set's update, or with what pauses it."""
    errors = []
    paused = cliqueset.annotations.get(labels.UPDATE_PAUSED, "false")
    if paused not in ("true", "false"):
        message = f"must be 'true' or 'false'; got {paused!r}"
        errors.append(FieldError(f"metadata.annotations[{labels.UPDATE_PAUSED}]", message))
    strategy = cliqueset.spec.update_strategy
    limits = strategy.rolling_recreate if strategy is not None else None
    if limits is None:
        return errors
    for name, value in (("maxUnavailable", limits.max_unavailable), ("maxSurge", limits.max_surge)):
        if value is not None and _share(value) is None:
            message = f"must be a number of replicas, or a percentage such as 25%; got {value!r}"
            errors.append(FieldError(f"{FIELD}.{name}", message))
    if _is_nothing(limits.max_unavailable) and (limits.max_surge is None or _is_nothing(limits.max_surge)):
        message = "must not be 0 unless maxSurge is set: nothing could be updated"
        errors.append(FieldError(f"{FIELD}.maxUnavailable", message))
    return errors


def _resolved(value: int | str | None, replicas: int, *, up: bool, default: int) -> int:
    found = _share(value) if value is not None else (default, False)
    if found is None:
        return default
    number, percent = found
    if not percent:
        return number
    return -(-number * replicas // 100) if up else number * replicas // 100


def _is_nothing(value: int | str | None) -> bool:
    found = _share(value) if value is not None else None
    return found is not None and not found[0]


def _share(value: int | str) -> tuple[int, bool] | None:
    """A number, and whether it is a percentage; None for anything else."""
    text = str(value)
    digits = text.removesuffix("%")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 6:
        return None
    return int(digits), digits != text
