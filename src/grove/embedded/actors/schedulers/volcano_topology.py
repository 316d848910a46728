"""HyperNodes: which node is in which of them, as labels that the placement of gangs understands. Pure.

A node carries, for each tier, the name of the HyperNode of that tier that it is in, directly or through
smaller ones. Constraints are then about one such label, as those of others are about labels of nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import yaml

from grove.embedded.actors.schedulers.placement import Ledger
from grove.embedded.actors.schedulers.shapes import NodeFacts
from grove.embedded.errors import Manifest
from grove.embedded.machinery.patterns import compile_pattern
from grove.embedded.machinery.selectors import matches_label_selector

PLUGIN = "network-topology-aware"
#: On HyperNodes that discovery made, and that it may change and remove.
SOURCE = "volcano.sh/network-topology-source"
_TIER = "volcano.sh/hypernode-of-tier-"


def tier_label(tier: int) -> str:
    """The label that tells the HyperNode of this tier."""
    return f"{_TIER}{tier}"


class Map:
    """All HyperNodes at one moment."""

    def __init__(self, hypernodes: Iterable[Manifest] = ()) -> None:
        self._specs = {each["metadata"]["name"]: each.get("spec") or {} for each in hypernodes}
        self._parents: dict[str, str] = {}
        self._tangled = False
        self._leaves: list[tuple[str, Callable[[NodeFacts], bool]]] = []
        for name, spec in self._specs.items():
            for member in spec.get("members") or ():
                self._add(name, member)

    @property
    def tangled(self) -> bool:
        """Whether some HyperNode has two parents: nothing that asks for a domain is placed then."""
        return self._tangled

    @property
    def tiers(self) -> list[int]:
        """The tiers that exist, the smallest domains first."""
        return sorted({int(spec.get("tier") or 0) for spec in self._specs.values()})

    def tier_named(self, name: str) -> int | None:
        found = [int(spec.get("tier") or 0) for spec in self._specs.values() if spec.get("tierName") == name]
        return max(found, default=None)

    def labels_of(self, node: NodeFacts) -> dict[str, str]:
        """Tier by tier the HyperNode that a node is in."""
        found: dict[str, str] = {}
        for name, holds in self._leaves:
            if holds(node):
                here: str | None = name
                seen: set[str] = set()
                while here is not None and here in self._specs and here not in seen:
                    seen.add(here)
                    found[tier_label(int(self._specs[here].get("tier") or 0))] = here
                    here = self._parents.get(here)
        return found

    def _add(self, name: str, member: Manifest) -> None:
        selector = member.get("selector") or {}
        exact = (selector.get("exactMatch") or {}).get("name")
        if member.get("type") == "HyperNode":
            # Smaller HyperNodes are named, never matched: Volcano reads nothing else here.
            if exact:
                self._tangled |= self._parents.setdefault(exact, name) != name
        elif exact:
            self._leaves.append((name, lambda node: node.name == exact))
        elif "regexMatch" in selector:
            pattern = compile_pattern(selector["regexMatch"]["pattern"])
            self._leaves.append((name, lambda node: pattern.search(node.name) is not None))
        elif "labelMatch" in selector:
            wanted = selector["labelMatch"]
            self._leaves.append((name, lambda node: matches_label_selector(wanted, dict(node.labels))))


class MappedLedger(Ledger):
    """A ledger whose nodes carry the labels of the current map."""

    def __init__(self) -> None:
        super().__init__()
        self.map = Map()

    def put_node(self, facts: NodeFacts) -> bool:
        return super().put_node(replace(facts, labels={**facts.labels, **self.map.labels_of(facts)}))

    def remap(self, new: Map) -> None:
        """Look at every node again under a new map."""
        self.map = new
        for node in list(self.nodes.values()):
            plain = {key: value for key, value in node.labels.items() if not key.startswith(_TIER)}
            self.put_node(replace(node, labels=plain))


def highest_tier(constraint: Manifest | None, world: Map, *, plugin: bool) -> tuple[str, int | None]:
    """Mode and highest tier of a constraint; an empty mode for one that Volcano does not act on.

    That is so without the plugin, without HyperNodes, for a hard one without a tier, and for a tier name that
    no HyperNode carries: nobody is told.
    """
    if not constraint or not plugin or not world.tiers:
        return "", None
    if constraint.get("mode") == "soft":
        return "soft", None
    if name := constraint.get("highestTierName"):
        tier = world.tier_named(name)
    else:
        tier = constraint.get("highestTierAllowed")
    return ("hard", tier) if tier is not None else ("", None)


def has_plugin(config_map: Manifest | None) -> bool:
    """Whether the scheduler's configuration lists the plugin."""
    for text in ((config_map or {}).get("data") or {}).values():
        conf = _parsed(text)
        for tier in conf.get("tiers") or ():
            if any(plugin.get("name") == PLUGIN for plugin in tier.get("plugins") or ()):
                return True
    return False


def discovered(config_map: Manifest | None, nodes: Iterable[NodeFacts]) -> dict[str, Manifest]:
    """The HyperNodes that Volcano's discovery by labels makes, by name; tiers count from the smallest."""
    found: dict[str, Manifest] = {}
    known = list(nodes)
    for text in ((config_map or {}).get("data") or {}).values():
        for source in _parsed(text).get("networkTopologyDiscovery") or ():
            if source.get("source") == "label" and source.get("enabled"):
                kinds = (source.get("config") or {}).get("networkTopologyTypes") or {}
                for kind, levels in kinds.items():
                    found |= _levels(str(kind), [str(each["nodeLabel"]) for each in levels], known)
    return found


def _levels(kind: str, keys: list[str], nodes: list[NodeFacts]) -> dict[str, Manifest]:
    # The last level is the node itself: no HyperNode is made for it.
    made: dict[str, Manifest] = {}
    smallest_first = list(reversed(keys[:-1]))
    for tier, key in enumerate(smallest_first, start=1):
        inner = smallest_first[tier - 2] if tier > 1 else ""
        for value in sorted({node.labels[key] for node in nodes if node.labels.get(key)}):
            inside = [node for node in nodes if node.labels.get(key) == value]
            if inner:
                children = sorted(
                    {_name(kind, tier - 1, node.labels[inner]) for node in inside if node.labels.get(inner)}
                )
                members = [
                    {"type": "HyperNode", "selector": {"exactMatch": {"name": child}}} for child in children
                ]
            else:
                members = [{"type": "Node", "selector": {"labelMatch": {"matchLabels": {key: value}}}}]
            name = _name(kind, tier, value)
            made[name] = {
                "apiVersion": "topology.volcano.sh/v1alpha1",
                "kind": "HyperNode",
                "metadata": {"name": name, "labels": {SOURCE: "label"}},
                "spec": {"tier": tier, "tierName": key, "members": members},
            }
    return made


def _name(kind: str, tier: int, value: str) -> str:
    return f"hypernode-{kind}-tier{tier}-{value}".lower()


def _parsed(text: object) -> Manifest:
    try:
        found = yaml.safe_load(str(text))
    except yaml.YAMLError:
        return {}
    return found if isinstance(found, dict) else {}
