"""What a pod asks of a node, added up as YuniKorn adds it up: a placeholder must be exactly as large.

Containers and sidecars together, or the largest init step; pod-level amounts replace the sum; overhead comes
on top. Exact arithmetic in billionths, because a placeholder that is too small by one byte is thrown
away.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from grove.api.quantities import BINARY, ONE, quantity
from grove.meta import Manifest

Amounts = dict[str, int]


def effective_requests(spec: Manifest) -> dict[str, str]:
    """The request of a pod spec by resource, as quantities; raises ValueError for one that is none."""
    total = _sum(_of_container(each) for each in spec.get("containers") or ())
    if spec.get("initContainers"):
        for name, amount in _initial(spec).items():
            total[name] = max(total.get(name, 0), amount)
    pod_level = _amounts((spec.get("resources") or {}).get("requests") or {})
    total |= {name: amount for name, amount in pod_level.items() if name in ("cpu", "memory")}
    total = _sum((total, _amounts(spec.get("overhead") or {})))
    return {name: _written(name, amount) for name, amount in sorted(total.items()) if amount}


def _initial(spec: Manifest) -> Amounts:
    """The most that is needed while init containers run, and what sidecars need beside the containers."""
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _of_container(container)
        if container.get("restartPolicy") == "Always":
            sidecars = _sum((sidecars, own))
            own = {}
        for name, amount in _sum((sidecars, own)).items():
            peak[name] = max(peak.get(name, 0), amount)
    running = _sum((sidecars, *(_of_container(each) for each in spec.get("containers") or ())))
    return {name: max(peak.get(name, 0), running.get(name, 0)) for name in peak}


def _of_container(container: Manifest) -> Amounts:
    resources = container.get("resources") or {}
    # The API server fills in requests from limits.
    return _amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _amounts(quantities: Mapping[str, object]) -> Amounts:
    return {name: quantity(str(value)) for name, value in quantities.items()}


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total


@lru_cache(maxsize=4096)
def _written(name: str, amount: int) -> str:
    """A quantity as people write it; fractions are rounded up, to millicores for cpu."""
    if name == "cpu":
        milli = -(-amount * 1000 // ONE)
        return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"
    whole = -(-amount // ONE)
    for suffix, power in BINARY.items():
        if whole and whole % (1 << power) == 0 and power >= 20:
            return f"{whole >> power}{suffix}"
    return str(whole)
