"""What Koordinator reads in a PodGroup and in a topology, and the words it finds for a failure. Pure.

A value that cannot be read is replaced by its default without a word, as the real scheduler does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grove.embedded.actors.objects import Key, Resource, annotations_of, key_of, labels_of, node_of, phase_of
from grove.embedded.actors.schedulers.gangs import Keys, Shortage
from grove.embedded.errors import Manifest

PODGROUPS = Resource("scheduling.sigs.k8s.io", "v1alpha1", "podgroups", kind="PodGroup")
TOPOLOGIES = Resource(
    "scheduling.koordinator.sh",
    "v1alpha1",
    "clusternetworktopologies",
    namespaced=False,
    kind="ClusterNetworkTopology",
)
TOPOLOGY_NAME = "default"
NODE_LAYER = "NodeTopologyLayer"
CLUSTER_LAYER = "ClusterTopologyLayer"
HOSTNAME = "kubernetes.io/hostname"

GROUP_LABEL = "pod-group.scheduling.sigs.k8s.io"
_PREFIX = "gang.scheduling.koordinator.sh"
ONCE_SATISFIED = "once-satisfied"
_POLICIES = (ONCE_SATISFIED, "waiting-and-running", "only-waiting")

NO_TOPOLOGY = "no cluster network topology"


@dataclass(frozen=True, slots=True)
class GangSpec:
    """One PodGroup as the scheduler understands it."""

    minimum: int
    group: tuple[Key, ...]
    """The gang group: all PodGroups that start together, itself included, in order."""
    policy: str = ONCE_SATISFIED
    gather: tuple[tuple[str, str], ...] | None = None
    """(layer, strategy) of the network topology annotation; None without one."""

    @property
    def once(self) -> bool:
        return self.policy == ONCE_SATISFIED


def gang_of(pod: Manifest) -> Key | None:
    """The PodGroup that a pod says it belongs to."""
    name = labels_of(pod).get(GROUP_LABEL)
    return (key_of(pod)[0], name) if name else None


def gang_spec(podgroup: Manifest) -> GangSpec:
    notes = annotations_of(podgroup)
    policy = notes.get(f"{_PREFIX}/match-policy") or ONCE_SATISFIED
    return GangSpec(
        int((podgroup.get("spec") or {}).get("minMember") or 0),
        _group(notes.get(f"{_PREFIX}/groups"), key_of(podgroup)),
        policy if policy in _POLICIES else ONCE_SATISFIED,
        _gather(notes.get(f"{_PREFIX}/network-topology-spec")),
    )


def _group(text: str | None, own: Key) -> tuple[Key, ...]:
    listed = _json(text)
    ids = sorted(str(each) for each in listed) if isinstance(listed, list) else []
    return tuple((space, name) for space, _, name in (each.partition("/") for each in ids)) or (own,)


def _gather(text: str | None) -> tuple[tuple[str, str], ...] | None:
    found = _json(text)
    if not isinstance(found, dict):
        return None
    rules = found.get("gatherStrategy") or ()
    return tuple((str(rule.get("layer")), str(rule.get("strategy"))) for rule in rules)


def _json(text: str | None) -> object:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return None


def chain(topology: Manifest | None) -> tuple[tuple[str, str], ...] | None:
    """(layer, node label) from the broadest layer to the nodes; None when no tree can be built."""
    entries = ((topology or {}).get("spec") or {}).get("networkTopologySpec") or ()
    layers = {str(each["topologyLayer"]): each for each in entries}
    found: list[tuple[str, str]] = [(NODE_LAYER, HOSTNAME)]
    seen = {NODE_LAYER}
    layer = str((layers.get(NODE_LAYER) or {}).get("parentTopologyLayer") or "")
    while layer and layer != CLUSTER_LAYER:
        entry = layers.get(layer)
        if entry is None or layer in seen or not entry.get("labelKey"):
            return None
        seen.add(layer)
        found.append((layer, str(entry["labelKey"][0])))
        layer = str(entry.get("parentTopologyLayer") or "")
    if not layers or seen != layers.keys():
        return None
    return tuple(reversed(found))


def layers_to_try(
    gather: Sequence[tuple[str, str]], tree: Sequence[tuple[str, str]]
) -> tuple[Sequence[tuple[str, Keys]], bool]:
    """The layers in which to look for one domain, the narrowest first; whether the last of them is a must.

    The layer is given with the node labels of all layers down to it. A must of an unknown layer leaves none.
    """
    names = [layer for layer, _ in tree]
    musts = [layer for layer, strategy in gather if strategy == "MustGather"]
    if any(layer not in names for layer in musts):
        return (), True
    depth = max((names.index(layer) for layer in musts), default=-1)
    labels = [label for _, label in tree]
    tried = [(names[at], tuple(labels[: at + 1])) for at in range(len(names) - 1, max(depth, 0) - 1, -1)]
    return tried, bool(musts)


def rejection(group: Sequence[Key], trigger: Key, why: str, waiting: int) -> str:
    """What the other pods of a gang group say when one member fits nowhere."""
    ids = ",".join("/".join(each) for each in group)
    return (
        f'0/1 nodes are available: 1 GangGroup "{ids}" gets rejected due to member Pod "{"/".join(trigger)}" '
        f"is unschedulable with reason {json.dumps(why)}, alreadyWaitForBound: {waiting}."
    )


def no_domain(wanted: int, layer: str, shortage: Shortage | None, nodes: str) -> str:
    """Why no domain of a layer takes the whole gang."""
    tally = shortage.tally if shortage is not None else ()
    rooms = sorted(f"topology topologyNode {layer}/{domain[-1]}: {room}" for domain, room, _ in tally)
    return (
        f"no candidate topology nodes can accommodate job, desiredOfferSlot: {wanted}, "
        f"{';'.join(rooms)}, {nodes}"
    )


def next_status(podgroup: Manifest, pods: Sequence[Manifest]) -> Manifest:
    """What the controller inside koord-scheduler writes into a PodGroup, all its steps at once."""
    status: Manifest = dict(podgroup.get("status") or {})
    minimum = int((podgroup.get("spec") or {}).get("minMember") or 0)
    phase = str(status.get("phase") or "Pending")
    if phase == "Pending":
        if not 0 < minimum <= len(pods):
            return {**status, "phase": phase}
        status["occupiedBy"] = _owners(pods[0])
    elif not pods:
        return {**status, "phase": "Pending"}
    return {**status, **_counted(pods, minimum)}


def _counted(pods: Sequence[Manifest], minimum: int) -> Manifest:
    phases = [phase_of(pod) for pod in pods]
    running, done, failed = (phases.count(each) for each in ("Running", "Succeeded", "Failed"))
    bound = sum(1 for pod in pods if node_of(pod))
    phase = "Scheduling" if bound < minimum else "Scheduled"
    if phase == "Scheduled" and running + done >= minimum:
        phase = "Running"
    if failed and failed + running + done >= minimum:
        phase = "Failed"
    if done >= minimum:
        phase = "Finished"
    return {"phase": phase, "scheduled": bound, "running": running, "succeeded": done, "failed": failed}


def _owners(pod: Manifest) -> str:
    namespace = key_of(pod)[0]
    owners: Sequence[Mapping[str, str]] = pod["metadata"].get("ownerReferences") or ()
    return ",".join(sorted(f"{namespace}/{each['name']}" for each in owners))
