"""A gang's pack constraints as Volcano's network topology: of the PodGroup, and of its subgroups.

Volcano has two levels, the PodGroup and its subgroups, and every pod is in one subgroup. Podgroups that share
a constraint therefore become one subgroup together. A hard search begins in the smallest domains, so whoever
requires a domain has what he prefers inside it tried first.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from grove.api.gang import GangTopologyConstraint, PodGang, PodGroup, TopologyConstraintGroup
from grove.api.topology import ClusterTopologyBinding
from grove.backends.base import Context
from grove.backends.shape import groups_by_podgroup
from grove.backends.volcano.sight import ENABLED, HYPERNODES, Settings, Sight, plugin_problem
from grove.errors import Unsupported
from grove.meta import Manifest

_HOSTNAME: Final = "kubernetes.io/hostname"
_SOFT: Final[Manifest] = {"mode": "soft"}


@dataclass(slots=True)
class Packing:
    """Where the network topologies go; `lost` tells which preferences go nowhere, and why."""

    whole: Manifest | None = None
    groups: dict[str, Manifest] = field(default_factory=dict)
    podgroups: dict[str, Manifest] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)


def merged_groups(gang: PodGang) -> Mapping[str, TopologyConstraintGroup]:
    """The podgroups that form one subgroup with others, by name; by the gang alone: pods are marked so."""
    if not gang.spec.topology_constraint_group_configs:
        return {}
    return {
        name: group
        for name, group in groups_by_podgroup(gang).items()
        if _asks(group.topology_constraint) and not _covers(group, gang)
    }


def packing(gang: PodGang, context: Context, chosen: Settings, sight: Sight) -> Packing:
    """The network topologies of a gang; raises Unsupported for more levels than there are."""
    found = Packing()
    if not any(_asks(each) for each in constraints(gang)):
        return found
    tiers = sight.tiers or {}
    # A preference is not held back for what has not been seen yet: to say it costs nothing.
    blind = unknown(context, chosen, sight)
    asked = [] if blind else preferences(gang)
    problems = {key: problem(key, context, chosen, sight) for key in asked}
    within = [] if blind else preferences(gang, within=True)
    found.lost += filter(None, dict.fromkeys(problem(key, context, chosen, sight) for key in within))
    outer = _narrowest([gang.spec.topology_constraint, *_lifted(gang)], tiers)
    found.whole = _network(outer, problems, found.lost, None)
    required = outer.required if outer else None
    merged = merged_groups(gang)
    for group in gang.spec.topology_constraint_group_configs:
        if group.name in {each.name for each in merged.values()}:
            inner = _inside(group.topology_constraint, required, tiers)
            if network := _network(inner, problems, found.lost, tiers):
                found.groups[group.name] = network
    for podgroup in gang.spec.podgroups:
        if (shared := merged.get(podgroup.name)) is not None:
            _refuse_third_level(gang, podgroup, shared, tiers)
            if podgroup.topology_constraint and podgroup.topology_constraint.preferred:
                found.lost.append(f"podgroup {podgroup.name!r} is packed with its group {shared.name!r} only")
        else:
            inner = _inside(podgroup.topology_constraint, required, tiers)
            if network := _network(inner, problems, found.lost, tiers):
                found.podgroups[podgroup.name] = network
    return found


def needs_numbers(gang: PodGang) -> bool:
    """Whether a part of the gang must share a domain: only the number of its tier says that to Volcano."""
    groups = [each.topology_constraint for each in gang.spec.topology_constraint_group_configs]
    inner = groups + [each.topology_constraint for each in gang.spec.podgroups]
    return any(each.required for each in inner if each is not None)


def required_keys(gang: PodGang) -> list[str]:
    """The node labels whose values some pods must share, each once, broadest level of the gang first."""
    return list(dict.fromkeys(each.required for each in constraints(gang) if each and each.required))


def problem(key: str, context: Context, chosen: Settings, sight: Sight) -> str:
    """Why Volcano would ignore a constraint of this node label; empty when it will not."""
    if trouble := plugin_problem(chosen, sight):
        return trouble
    if not context.cluster.serves(HYPERNODES):
        return (
            f"the cluster does not serve {HYPERNODES} in {HYPERNODES.api_version}, by which Volcano knows "
            "its topology; install Volcano with all of its CustomResourceDefinitions"
        )
    if sight.tangled:
        return sight.tangled
    if sight.tiers is None:
        if chosen.topology == ENABLED:
            return ""
        return f"Grove has not seen the HyperNodes, so it does not know whether one has the tierName {key!r}"
    if key not in sight.tiers:
        there = ", ".join(sorted(sight.tiers)) or "none"
        return (
            f"no HyperNode has the tierName {key!r} (there are: {there}), and Volcano ignores a tier that it "
            "does not know; let Volcano discover HyperNodes by this node label (networkTopologyDiscovery, "
            "source label), or create them"
        )
    return ""


def unknown(context: Context, chosen: Settings, sight: Sight) -> bool:
    """Whether what a topology needs has not been seen, as opposed to seen missing."""
    unseen = sight.tiers is None and context.cluster.serves(HYPERNODES)
    return unseen or (sight.configured is None and bool(plugin_problem(chosen, sight)))


def discovered(binding: ClusterTopologyBinding) -> tuple[Manifest, ...]:
    """HyperNodes as Volcano's discovery makes them of a binding's levels, where there is no cluster."""
    keys = [level.key for level in reversed(binding.spec.levels) if level.key != _HOSTNAME]
    return tuple(
        {"metadata": {"name": key}, "spec": {"tier": tier, "tierName": key}}
        for tier, key in enumerate(keys, start=1)
    )


def constraints(gang: PodGang) -> Iterator[GangTopologyConstraint | None]:
    """Every constraint of a gang: of the whole, of groups of podgroups, of podgroups."""
    yield gang.spec.topology_constraint
    for group in gang.spec.topology_constraint_group_configs:
        yield group.topology_constraint
    for podgroup in gang.spec.podgroups:
        yield podgroup.topology_constraint


def _asks(constraint: GangTopologyConstraint | None) -> bool:
    return constraint is not None and bool(constraint.required or constraint.preferred)


def _covers(group: TopologyConstraintGroup, gang: PodGang) -> bool:
    """Whether the group is the whole gang: its constraint is then one of the gang."""
    return len(set(group.pod_group_names)) == len(gang.spec.podgroups)


def _lifted(gang: PodGang) -> list[GangTopologyConstraint | None]:
    return [
        group.topology_constraint
        for group in gang.spec.topology_constraint_group_configs
        if _covers(group, gang)
    ]


def preferences(gang: PodGang, *, within: bool = False) -> list[str]:
    """What is only preferred, or else within something required, which implies it if its tier is known."""
    found = [each for each in constraints(gang) if each is not None and bool(each.required) is within]
    return list(dict.fromkeys(each.preferred for each in found if each.preferred))


def overshot(gang: PodGang, sight: Sight) -> list[str]:
    """What is only preferred and not of the smallest domains: Volcano begins in those, whatever is named."""
    tiers = sight.tiers or {}
    smallest = min(tiers.values(), default=0)
    return [key for key in preferences(gang) if tiers.get(key, smallest) > smallest]


def _narrowest(
    levels: list[GangTopologyConstraint | None], tiers: Mapping[str, int]
) -> GangTopologyConstraint | None:
    """The smallest domain that must be shared, else what is preferred; levels come from the outside in."""
    asked = [each for each in levels if each is not None and _asks(each)]
    must = [each for each in asked if each.required]
    if not must:
        return asked[-1] if asked else None
    best = must[0]
    for each in must[1:]:
        if not _no_narrower(each.required, best.required, tiers):
            best = each
    return best


def _inside(
    inner: GangTopologyConstraint | None, outer: str | None, tiers: Mapping[str, int]
) -> GangTopologyConstraint | None:
    """The constraint of a subgroup, unless the whole gang's already implies it."""
    if inner is not None and outer and inner.required and _no_narrower(inner.required, outer, tiers):
        return None
    return inner


def _no_narrower(inner: str | None, outer: str | None, tiers: Mapping[str, int]) -> bool:
    """Whether who shares the outer domain shares the inner one; of unknown tiers the inner is the smaller."""
    if inner == outer:
        return True
    small, large = tiers.get(inner or ""), tiers.get(outer or "")
    return small is not None and large is not None and small >= large


def _network(
    constraint: GangTopologyConstraint | None,
    problems: Mapping[str, str],
    lost: list[str],
    tiers: Mapping[str, int] | None,
) -> Manifest | None:
    """The topology of a PodGroup, or with `tiers` that of a subgroup: there Volcano ignores a tier's name."""
    if constraint is None or not _asks(constraint):
        return None
    if constraint.required and tiers is None:
        return {"mode": "hard", "highestTierName": constraint.required}
    if constraint.required and tiers is not None:
        return {"mode": "hard", "highestTierAllowed": tiers.get(constraint.required, 0)}
    if why := problems.get(constraint.preferred or "", ""):
        if why not in lost:
            lost.append(why)
        return None
    return dict(_SOFT)


def _refuse_third_level(
    gang: PodGang, podgroup: PodGroup, shared: TopologyConstraintGroup, tiers: Mapping[str, int]
) -> None:
    own, theirs = podgroup.topology_constraint, shared.topology_constraint
    if own is None or not own.required or (theirs and _no_narrower(own.required, theirs.required, tiers)):
        return
    raise Unsupported(
        f"gang {gang.key}: podgroup {podgroup.name!r} requires {own.required!r} inside the group "
        f"{shared.name!r}; Volcano packs a gang and its subgroups, and has no third level: "
        "remove one of the two constraints"
    )
