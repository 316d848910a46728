"""Which pods a gang lists, and when all of them exist. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from grove.api import conditions, kinds, labels
from grove.api.gang import PodGang, PodGroup
from grove.api.pod import Pod
from grove.api.revision import revision_of
from grove.meta import Condition, Manifest
from grove.plan.changes import Patch
from grove.plan.gang.gates import is_initialized
from grove.plan.gang.state import GangState


@dataclass(frozen=True, slots=True)
class Listing:
    """All pods of a gang exist: the gang as it is once it lists them and is Initialized."""

    gang: PodGang
    #: The change by which it lists them; None where it does.
    change: Patch | None = None
    #: Whether it is yet to say that it is Initialized.
    initializes: bool = False


def plan_listing(state: GangState) -> Listing | None:
    """List the gang's pods once all of them exist; None while they do not."""
    gang = state.gang
    if labels.EDIT_PENDING in gang.annotations and not state.running:
        # The set writes into the gang what was edited, now that nothing of it is placed any more.
        return None
    found = references(gang, state.members, state.context.revision)
    if not complete(gang, found, state.wanted):
        return None
    groups = referencing_podgroups(gang, found)
    change = None
    if groups is not None:
        version = gang.metadata.resource_version
        patch = {"spec": {"podgroups": groups}}
        change = Patch(kinds.GANGS, gang.key, patch, resource_version=version, may_clear_managers=True)
    initializes = not is_initialized(gang)
    return Listing(_initialized(as_patched(gang, change)), change, initializes)


def as_patched(gang: PodGang, change: Patch | None) -> PodGang:
    """The gang with the podgroups that a change writes."""
    if change is None:
        return gang
    podgroups = msgspec.convert(change.patch["spec"]["podgroups"], tuple[PodGroup, ...])
    return replace(gang, spec=replace(gang.spec, podgroups=podgroups))


def as_written(gang: PodGang, change: Patch | None, *, version: str, generation: int) -> PodGang:
    """The gang as it is since a change was written; what is said afterwards is about that one."""
    metadata = replace(gang.metadata, resource_version=version, generation=generation)
    return replace(as_patched(gang, change), metadata=metadata)


def _initialized(gang: PodGang) -> PodGang:
    if is_initialized(gang):
        return gang
    told = Condition(type=conditions.INITIALIZED, status="True")
    others = tuple(each for each in gang.status.conditions if each.type != conditions.INITIALIZED)
    return replace(gang, status=replace(gang.status, conditions=(*others, told)))


References = Mapping[str, Sequence[Pod]]


def references(gang: PodGang, pods: Iterable[Pod], revision: str = "") -> dict[str, list[Pod]]:
    """The pods of each podgroup that take part in the present start of the gang, by name, in order.

    A failed pod is about to be replaced and is left out; so is one that waits in an earlier start.
    """
    found: dict[str, list[Pod]] = {group.name: [] for group in gang.spec.podgroups}
    for pod in pods:
        clique = pod.labels.get(labels.POD_CLIQUE, "")
        if clique not in found or pod.terminating or pod.status.phase == "Failed":
            continue
        if pod.bound or not revision or revision_of(pod) == revision:
            found[clique].append(pod)
    return {clique: sorted(members, key=attrgetter("name")) for clique, members in found.items()}


def complete(gang: PodGang, found: References, replicas: Mapping[str, int]) -> bool:
    """Whether every clique of the gang is there with all of its pods."""
    return all(
        group.name in replicas and len(found[group.name]) >= replicas[group.name]
        for group in gang.spec.podgroups
    )


def referencing_podgroups(gang: PodGang, found: References) -> list[Manifest] | None:
    """The gang's podgroups with the found pods referenced, or None when they already are."""
    groups = gang.spec.podgroups
    if all(
        [(ref.name, ref.uid) for ref in group.pod_references]
        == [(pod.name, pod.uid) for pod in found[group.name]]
        for group in groups
    ):
        return None
    return [podgroup_manifest(group, found[group.name]) for group in groups]


def podgroup_manifest(group: PodGroup, pods: Iterable[Pod]) -> Manifest:
    """A podgroup as it is written, with these pods referenced."""
    manifest: Manifest = {
        "name": group.name,
        "podReferences": [{"namespace": pod.namespace, "name": pod.name, "uid": pod.uid} for pod in pods],
        "minReplicas": group.min_replicas,
    }
    constraint = group.topology_constraint
    if constraint is not None:
        pack = {"required": constraint.required, "preferred": constraint.preferred}
        manifest["topologyConstraint"] = {"packConstraint": {k: v for k, v in pack.items() if v is not None}}
    return manifest
