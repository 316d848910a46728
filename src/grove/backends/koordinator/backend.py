"""Koordinator: one PodGroup per podgroup, joined to one gang by an annotation that lists them all.

Koordinator hands out gated pods as if they were not, so a gang whose gates open one by one would be bound in
part. Until all of them are open every PodGroup asks for more members than there are; then its true minimum is
written, which wakes the scheduler. A gang that was placed once keeps its minimum: Koordinator no longer asks.

Koordinator also rejects a whole gang because a pod above the minimum does not fit. Those are no members.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from grove.api import labels, names
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang, PodGroup
from grove.api.pod import Pod
from grove.backends.base import (
    Capability,
    Context,
    Edit,
    GangSnapshot,
    Lifecycle,
    ObservedResource,
    Precondition,
    Reading,
    Traits,
    Translation,
    object_name,
)
from grove.backends.koordinator import quota, reading, recall, topology
from grove.backends.koordinator.settings import CONFIG_KEYS, settings_of
from grove.backends.podspec import PREFERRED, REQUIRED, WEIGHT, add_affinity, add_metadata, made_for
from grove.backends.replica import replica_treatments, stay_with_replica
from grove.backends.shape import (
    groups_by_podgroup,
    named,
    owned_metadata,
    pod_index,
    podgroup_of,
    was_placed,
)
from grove.backends.treatments import account
from grove.errors import FieldError, Unsupported, Waiting
from grove.meta import Manifest, Resource

POD_GROUP_LABEL: Final = "pod-group.scheduling.sigs.k8s.io"
GANG_PREFIX: Final = "gang.scheduling.koordinator.sh"
GROUPS: Final = f"{GANG_PREFIX}/groups"
MODE: Final = f"{GANG_PREFIX}/mode"
MATCH_POLICY: Final = f"{GANG_PREFIX}/match-policy"
TOPOLOGY: Final = f"{GANG_PREFIX}/network-topology-spec"

#: A minimum that no gang can reach: nothing is scheduled while a PodGroup has it.
SENTINEL: Final = 1_000_000

_ABLE: Final = frozenset(
    {
        Capability.GANG,
        Capability.SUBGROUPS,
        Capability.REPLICA_TOPOLOGY,
        Capability.PRIORITY,
        Capability.QUEUE,
    }
)


class KoordinatorBackend:
    """The backend `koordinator`: pods for koord-scheduler."""

    name: ClassVar[str] = "koordinator"
    scheduler_name: ClassVar[str] = "koord-scheduler"
    scheduling_gate: ClassVar[str] = "scheduling.koordinator.sh/gang"

    def matches(self, scheduler_name: str) -> bool:
        return "koord" in scheduler_name

    def capabilities(self, context: Context) -> frozenset[Capability]:
        return _ABLE | topology.able(settings_of(context.config))

    def resources(self, context: Context) -> Sequence[Resource]:
        return (settings_of(context.config).podgroups,)

    def traits(self, context: Context) -> Traits:
        return Traits(
            observes=(
                ObservedResource(topology.TOPOLOGIES, name=topology.NAME),
                ObservedResource(quota.QUOTAS),
            ),
            editable=frozenset({Edit.MINIMUM}),
            config_keys=CONFIG_KEYS,
        )

    def preconditions(self, context: Context) -> Sequence[Precondition]:
        podgroups = settings_of(context.config).podgroups
        missing = "" if context.cluster.serves(podgroups) else _not_served(podgroups)
        return (Precondition(f"CustomResourceDefinition {podgroups}", missing=missing),)

    def validate(self, cliqueset: PodCliqueSet, context: Context) -> Sequence[FieldError]:
        return [
            *quota.quota_errors(cliqueset),
            *topology.topology_errors(cliqueset, settings_of(context.config)),
        ]

    def translate(self, gang: PodGang, context: Context) -> Translation:
        settings = settings_of(context.config)
        if not context.cluster.serves(settings.podgroups):
            raise Waiting(f"scheduler backend koordinator waits: {_not_served(settings.podgroups)}")
        _refuse_doubles(gang)
        asked = topology.asked_by(gang)
        exceptions = [*topology.treatments(gang, asked, context, settings), *replica_treatments(gang)]
        accounted = account(gang, self.capabilities(context), "Koordinator", exceptions)
        quota.await_quotas(gang, context, settings)
        packing = topology.gather(gang, asked, context, settings)
        members = [each for each in gang.spec.podgroups if each.min_replicas > 0]
        marks = _annotations(gang, members, packing, context)
        closed = not context.released and not was_placed(gang, context)
        manifests = [_podgroup(gang, each, context, marks, closed=closed) for each in members]
        return Translation(tuple(manifests), accounted)

    def prepare_pod(self, pod: Manifest, gang: PodGang, context: Context) -> Manifest:
        settings = settings_of(context.config)
        podgroup = podgroup_of(pod, gang)
        member = pod_index(pod) < podgroup.min_replicas
        prepared = made_for(self, pod, gang)
        charged = quota.quota_of(pod, gang, context, settings)
        marks = {POD_GROUP_LABEL: _podgroup_name(podgroup, gang, context)} if member else {}
        add_metadata(prepared, "labels", marks | ({quota.QUOTA: charged} if charged else {}))
        if settings.topology and (not member or was_placed(gang, context)):
            _stay_near(prepared, gang)
        stay_with_replica(prepared, gang)
        return prepared

    def lifecycle(self, snapshot: GangSnapshot) -> Lifecycle:
        # More than any gang can have: see `recall`.
        remade = {object_name(each): recall.recreated(each, SENTINEL) for each in snapshot.translated}
        return replace(recall.recall(snapshot.objects, snapshot.pods, POD_GROUP_LABEL), recreated=remade)

    def read(
        self, gang: PodGang, objects: Sequence[Manifest], pods: Sequence[Pod], context: Context
    ) -> Reading:
        return reading.read(gang, objects, pods)


def _not_served(podgroups: Resource) -> str:
    return f"the cluster does not serve {podgroups} in {podgroups.api_version}; install Koordinator"


def _refuse_doubles(gang: PodGang) -> None:
    """Refuse what would make two PodGroups one; also a podgroup that two groups claim."""
    if gang.spec.topology_constraint_group_configs:
        groups_by_podgroup(gang)
    known = {each.name for each in gang.spec.podgroups}
    if len(known) != len(gang.spec.podgroups):
        raise Unsupported(f"gang {gang.key}: two podgroups have one name; Koordinator needs one each")


def _podgroup_name(podgroup: PodGroup, gang: PodGang, context: Context) -> str:
    """The name becomes the value of a label, which may not be longer than this."""
    return named(podgroup.name, gang, context, names.LABEL_LIMIT)


def _annotations(
    gang: PodGang, members: Iterable[PodGroup], packing: str, context: Context
) -> dict[str, str]:
    """The same on every PodGroup: Koordinator believes whichever of them it meets first."""
    ids = sorted(f"{gang.namespace}/{_podgroup_name(each, gang, context)}" for each in members)
    marks = {GROUPS: json.dumps(ids), MODE: "Strict", MATCH_POLICY: "once-satisfied"}
    return {**marks, TOPOLOGY: packing} if packing else marks


def _podgroup(
    gang: PodGang, podgroup: PodGroup, context: Context, annotations: dict[str, str], *, closed: bool
) -> Manifest:
    resource = settings_of(context.config).podgroups
    metadata = owned_metadata(gang, _podgroup_name(podgroup, gang, context))
    metadata["annotations"] = annotations.copy()
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        "spec": {"minMember": SENTINEL if closed else podgroup.min_replicas},
    }


def _stay_near(pod: Manifest, gang: PodGang) -> None:
    """Keep a pod that comes after the gang in its domain: Koordinator packs the first placement only."""
    asked = topology.asked_by(gang)
    selector = {"matchLabels": {labels.POD_GANG: gang.name}}
    for key in asked.required:
        add_affinity(pod, REQUIRED, {"topologyKey": key, "labelSelector": selector})
    for key in asked.preferred:
        term = {"topologyKey": key, "labelSelector": selector}
        add_affinity(pod, PREFERRED, {"weight": WEIGHT, "podAffinityTerm": term})
