"""How Koordinator packs gangs: layers of the one ClusterNetworkTopology, and one constraint per gang.

Koordinator reads a constraint of the gang as a whole and nothing below it, so what holds for all podgroups is
said and the rest is refused or reported. Layers come from the ClusterNetworkTopology `default`, which the
cluster's administrator keeps. The annotation must never be written where koord-scheduler runs without the
feature: the gang would be stuck for ever.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import GangTopologyConstraint, PodGang
from grove.api.topology import TopologyConstraint
from grove.backends.base import Capability, Context, Fidelity, Treatment
from grove.backends.koordinator.settings import Settings
from grove.errors import FieldError, Waiting
from grove.meta import Manifest, resource

TOPOLOGIES: Final = resource(
    "scheduling.koordinator.sh",
    "v1alpha1",
    "ClusterNetworkTopology",
    "clusternetworktopologies",
    namespaced=False,
)
#: The only one that koord-scheduler reads.
NAME: Final = "default"
NODE_LAYER: Final = "NodeTopologyLayer"
HOSTNAME: Final = "kubernetes.io/hostname"

_ABLE: Final = frozenset({Capability.TOPOLOGY_REQUIRED, Capability.TOPOLOGY_PREFERRED})
_OFF: Final = (
    "the profile does not say that koord-scheduler runs with its network topology on: "
    "set networkTopologyEnabled, use pack.preferred, or remove the constraint"
)
_NARROW: Final = "Koordinator packs a gang as a whole only, and this constraint is for a part of it"
_UNLIKE: Final = (
    "the roles ask for different resources, and Koordinator plans as if all pods were alike: it may find no "
    "place although there is one"
)


@dataclass(frozen=True, slots=True)
class Asked:
    """The node labels by which a gang wants to be packed: as a whole, and in parts."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    narrow_required: tuple[str, ...] = ()
    narrow_preferred: tuple[str, ...] = ()


_NOTHING: Final = Asked()


def asked_by(gang: PodGang) -> Asked:
    """What a gang asks for; a constraint of a part that is the whole gang is one of the gang."""
    spec = gang.spec
    needed = {each.name for each in spec.podgroups if each.min_replicas > 0}
    scopes: list[tuple[GangTopologyConstraint | None, bool]] = [(spec.topology_constraint, True)]
    scopes += [
        (each.topology_constraint, needed <= set(each.pod_group_names))
        for each in spec.topology_constraint_group_configs
    ]
    scopes += [(each.topology_constraint, needed <= {each.name}) for each in spec.podgroups]
    found = [(each, whole) for each, whole in scopes if each is not None]
    if not found:
        return _NOTHING
    return Asked(
        tuple(dict.fromkeys(each.required for each, whole in found if whole and each.required)),
        tuple(dict.fromkeys(each.preferred for each, whole in found if whole and each.preferred)),
        tuple(dict.fromkeys(each.required for each, whole in found if not whole and each.required)),
        tuple(dict.fromkeys(each.preferred for each, whole in found if not whole and each.preferred)),
    )


def layers(context: Context) -> Mapping[str, str] | None:
    """The layer of each node label in the ClusterNetworkTopology; None while nobody knows it."""
    seen = context.observed.get(TOPOLOGIES)
    if seen is None:
        return None
    for each in seen:
        if (each.get("metadata") or {}).get("name") == NAME:
            return _layers(each)
    return {}


def _layers(topology: Manifest) -> dict[str, str]:
    found = {HOSTNAME: NODE_LAYER}
    spec = topology.get("spec")
    listed = spec.get("networkTopologySpec") if isinstance(spec, dict) else None
    for entry in listed if isinstance(listed, list) else ():
        keys = entry.get("labelKey") if isinstance(entry, dict) else None
        for key in keys if isinstance(keys, list) else ():
            found.setdefault(str(key), str(entry.get("topologyLayer") or ""))
    return found


def able(settings: Settings) -> frozenset[Capability]:
    """What of topology can be honoured here; a topology object that is missing can still come."""
    return _ABLE if settings.topology else frozenset()


def gather(gang: PodGang, asked: Asked, context: Context, settings: Settings) -> str:
    """The value of the annotation on every PodGroup of the gang; empty when there is nothing to say.

    Raises Waiting for a required label that the administrator can still give a layer.
    """
    if not settings.topology or not (asked.required or asked.preferred):
        return ""
    known = layers(context)
    if known is None or any(key not in known for key in asked.required):
        if asked.required:
            raise Waiting(_missing(gang, asked.required, known))
        return ""
    rules = {known[key]: "PreferGather" for key in asked.preferred if key in known}
    rules |= {known[key]: "MustGather" for key in asked.required}
    strategy = [{"layer": layer, "strategy": rules[layer]} for layer in sorted(rules)]
    return json.dumps({"gatherStrategy": strategy}, separators=(",", ":")) if strategy else ""


def _missing(gang: PodGang, required: Sequence[str], known: Mapping[str, str] | None) -> str:
    wants = f"gang {gang.key} requires the node label {', '.join(required)}"
    if known is None:
        return (
            f"{wants}, and the ClusterNetworkTopology {NAME!r} has not been read yet; "
            "Grove needs to list and watch it"
        )
    if not known:
        return f"{wants}, but there is no ClusterNetworkTopology {NAME!r}; create it with a layer for it"
    lacking = ", ".join(key for key in required if key not in known)
    return f"{wants}, but no layer of the ClusterNetworkTopology {NAME!r} has {lacking}; add a layer for it"


def treatments(gang: PodGang, asked: Asked, context: Context, settings: Settings) -> Iterator[Treatment]:
    """What becomes of the gang's constraints, where it is not simply kept."""
    required, preferred = Capability.TOPOLOGY_REQUIRED, Capability.TOPOLOGY_PREFERRED
    no = Fidelity.NOT_EXPRESSIBLE
    if gang.spec.topology_constraint_group_configs and not (asked.narrow_required or asked.narrow_preferred):
        yield Treatment(Capability.HIERARCHY, Fidelity.ENFORCED)
    if asked.narrow_required:
        reason = f"{', '.join(asked.narrow_required)}: {_NARROW}"
        yield Treatment(required, no, f"{reason}; require it for the whole set", required=True)
    elif asked.required and not settings.topology:
        yield Treatment(required, no, f"{', '.join(asked.required)}: {_OFF}", required=True)
    elif asked.required and _unlike(context.cliqueset):
        yield Treatment(required, Fidelity.APPROXIMATED, _UNLIKE, required=True)
    if dropped := [*asked.narrow_preferred, *_unknown(asked.preferred, context, settings)]:
        why = _NARROW if asked.narrow_preferred else "no layer of the ClusterNetworkTopology has it"
        why = why if settings.topology else "koord-scheduler's network topology is not in use here"
        yield Treatment(preferred, no, f"{', '.join(dict.fromkeys(dropped))}: {why}")


def _unknown(keys: Sequence[str], context: Context, settings: Settings) -> Sequence[str]:
    if not settings.topology:
        return keys
    known = layers(context) or {}
    return [key for key in keys if key not in known]


def _unlike(cliqueset: PodCliqueSet | None) -> bool:
    """Whether the roles of a set ask for different resources."""
    if cliqueset is None:
        return False
    wants = [_requests(clique.spec.pod_spec) for clique in cliqueset.template.cliques]
    return any(each != wants[0] for each in wants[1:])


def _requests(pod_spec: Mapping[str, Any]) -> list[Any]:
    containers = [*(pod_spec.get("initContainers") or ()), *(pod_spec.get("containers") or ())]
    return [each.get("resources") or {} for each in containers]


def topology_errors(cliqueset: PodCliqueSet, settings: Settings) -> Iterator[FieldError]:
    """Required constraints of a set that Koordinator would not enforce."""
    template = cliqueset.template
    parts = [
        (f"spec.template.podCliqueScalingGroups[{index}]", group.topology_constraint)
        for index, group in enumerate(template.pod_clique_scaling_groups)
    ]
    parts += [
        (f"spec.template.cliques[{index}]", clique.topology_constraint)
        for index, clique in enumerate(template.cliques)
    ]
    if not settings.topology:
        for path, constraint in [("spec.template", template.topology_constraint), *parts]:
            yield from _refused(path, constraint, _OFF)
    elif len(template.cliques) > 1 or template.pod_clique_scaling_groups:
        for path, constraint in parts:
            yield from _refused(path, constraint, f"{_NARROW}; move it to spec.template")


def _refused(path: str, constraint: TopologyConstraint | None, why: str) -> Iterator[FieldError]:
    if constraint is not None and constraint.required:
        field = "pack.required" if constraint.pack and constraint.pack.required else "packDomain"
        yield FieldError(
            f"{path}.topologyConstraint.{field}",
            f"{constraint.required!r} is required but cannot be enforced: {why}",
        )
