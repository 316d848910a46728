"""KAI: one PodGroup per gang, a subGroup per podgroup, and parents for podgroups that share a constraint.

KAI's own podgrouper is told to stay away from our pods. Fields that KAI or its administrators own
(`markUnschedulable`, `schedulingBackoff`, timestamps) are never mentioned. Profile config: `queue`,
`stalenessGracePeriod`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from grove.api import labels, names
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import GangTopologyConstraint, PodGang, PodGroup
from grove.api.pod import Pod
from grove.api.topology import ClusterTopologyBinding
from grove.backends.base import (
    Capability,
    Context,
    Edit,
    ObservedResource,
    Precondition,
    Probe,
    Reading,
    Traits,
    Translation,
)
from grove.backends.kai import reading, topology
from grove.backends.kai.queue import QUEUE, QUEUES, missing_queue, queue_conflicts, queue_of
from grove.backends.kai.staleness import (
    LACKING,
    NEVER_STALE,
    STALENESS_PATH,
    grace_period,
    is_told,
    not_stale,
    staleness_treatments,
)
from grove.backends.podspec import add_metadata, made_for
from grove.backends.probing import probe_fields
from grove.backends.replica import replica_treatments, stay_with_replica
from grove.backends.shape import (
    groups_by_podgroup,
    main_name,
    named,
    owned_metadata,
    podgroup_of,
)
from grove.backends.treatments import account
from grove.errors import FieldError, Unsupported, Waiting
from grove.meta import Manifest, Resource, resource

GROUP: Final = "scheduling.run.ai"
PODGROUPS: Final = resource(GROUP, "v2alpha2", "PodGroup")
BIND_REQUESTS: Final = resource(GROUP, "v1alpha2", "BindRequest")

#: A field fact, in the form of `Cluster.fields`; older releases of KAI lack it.
MIN_SUBGROUP_PATH: Final = "spec.subGroups.minSubGroup"
MIN_SUBGROUP_FIELD: Final = f"podgroups.{GROUP}:{MIN_SUBGROUP_PATH}"

POD_GROUP_ANNOTATION: Final = "pod-group-name"
SKIP_PODGROUPER: Final = "kai.scheduler/skip-podgrouper"
SUBGROUP_LABEL: Final = "kai.scheduler/subgroup-name"

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


class KaiBackend:
    """The backend `kai`: pods for kai-scheduler."""

    name: ClassVar[str] = "kai"
    scheduler_name: ClassVar[str] = "kai-scheduler"
    scheduling_gate: ClassVar[str] = "grove.io/podgang"
    topology_resource: ClassVar[Resource] = topology.TOPOLOGIES

    def matches(self, scheduler_name: str) -> bool:
        return scheduler_name in (self.scheduler_name, "grove-scheduler")

    def capabilities(self, context: Context) -> frozenset[Capability]:
        return frozenset(Capability) - {Capability.REUSE, Capability.PLACEMENT_SCORE}

    def resources(self, context: Context) -> Sequence[Resource]:
        return (PODGROUPS,)

    def preconditions(self, context: Context) -> Sequence[Precondition]:
        return tuple(
            Precondition(
                f"CustomResourceDefinition {each}",
                missing=""
                if context.cluster.serves(each)
                else f"the cluster does not serve {each} in {each.api_version}; install KAI Scheduler",
            )
            for each in (PODGROUPS, QUEUES, BIND_REQUESTS, topology.TOPOLOGIES)
        )

    def traits(self, context: Context) -> Traits:
        return Traits(
            probes=_probes() if context.cluster.serves(PODGROUPS) else (),
            observes=(ObservedResource(QUEUES), ObservedResource(topology.TOPOLOGIES)),
            editable=frozenset({Edit.MINIMUM, Edit.PRIORITY}),
            config_keys=frozenset({"queue", "stalenessGracePeriod"}),
            shortcomings=() if is_told(context) or not context.cluster.serves(PODGROUPS) else (LACKING,),
        )

    def validate(self, cliqueset: PodCliqueSet, context: Context) -> Sequence[FieldError]:
        return [
            *_name_errors(cliqueset),
            *queue_conflicts(cliqueset),
        ]

    def translate(self, gang: PodGang, context: Context) -> Translation:
        if not context.cluster.serves(PODGROUPS):
            raise Waiting(
                f"scheduler backend kai waits for {PODGROUPS} in {PODGROUPS.api_version}; install KAI"
            )
        gang = not_stale(gang, context)
        needed = [each for each in gang.spec.podgroups if each.min_replicas > 0]
        manifests = [_podgroup(gang, needed, context)] if needed else []
        manifests += [
            _optional_podgroup(gang, each, context) for each in gang.spec.podgroups if each.min_replicas <= 0
        ]
        exceptions = [*replica_treatments(gang), *staleness_treatments(context)]
        treatments = account(gang, self.capabilities(context), "KAI", exceptions)
        return Translation(tuple(manifests), treatments)

    def prepare_pod(self, pod: Manifest, gang: PodGang, context: Context) -> Manifest:
        podgroup = podgroup_of(pod, gang)
        prepared = made_for(self, pod, gang)
        marks = {QUEUE: queue_of(gang, context)}
        if podgroup.min_replicas > 0:
            marks[SUBGROUP_LABEL] = podgroup.name
        add_metadata(prepared, "labels", marks)
        link = {POD_GROUP_ANNOTATION: _podgroup_name(gang, context, podgroup), SKIP_PODGROUPER: "true"}
        add_metadata(prepared, "annotations", link)
        stay_with_replica(prepared, gang)
        return prepared

    def read(
        self, gang: PodGang, objects: Sequence[Manifest], pods: Sequence[Pod], context: Context
    ) -> Reading:
        return reading.read(
            gang, objects, pods, missing_queue(gang, context), topology.obstacle(gang, context)
        )

    def desired_topology(self, binding: ClusterTopologyBinding) -> Manifest:
        return topology.desired_topology(binding)

    def levels_of(self, manifest: Manifest) -> tuple[str, ...]:
        return topology.levels_of(manifest)


_PROBE_LEAF: Final[Manifest] = {"name": "b", "parent": "a", "minMember": 1}


def _probes() -> tuple[Probe, ...]:
    # One field each: the strict validation that keeps a known field refuses the whole of an unknown one.
    return (
        _probe(MIN_SUBGROUP_PATH, subGroups=[{"name": "a", "minSubGroup": 1}, _PROBE_LEAF]),
        _probe(STALENESS_PATH, stalenessGracePeriod=NEVER_STALE),
    )


def _probe(path: str, **spec: object) -> Probe:
    return probe_fields(PODGROUPS, {"minMember": 1, **spec}, path)


def _podgroup_name(gang: PodGang, context: Context, podgroup: PodGroup | None = None) -> str:
    """KAI finds PodGroups by name across all namespaces; the revision tells those of one name apart."""
    name = f"pg-{gang.name}"
    if podgroup is not None and podgroup.min_replicas <= 0:
        return named(f"{name}-{podgroup.name}", gang, context)
    return main_name(name, gang, context)


def _podgroup(gang: PodGang, needed: Sequence[PodGroup], context: Context) -> Manifest:
    spec = _spec(gang, gang.minimum, context) | _constraint(gang, gang.spec.topology_constraint)
    spec["subGroups"] = list(_subgroups(gang, needed, context))
    _refuse_bad_names(gang, spec["subGroups"])
    return _object(gang, _podgroup_name(gang, context), spec)


def _optional_podgroup(gang: PodGang, podgroup: PodGroup, context: Context) -> Manifest:
    """Pods that the gang can do without: KAI takes no subGroup of minimum 0, so they stand alone."""
    group = groups_by_podgroup(gang).get(podgroup.name)
    shared = [gang.spec.topology_constraint, group.topology_constraint if group else None]
    if any(each.required for each in shared if each) and len(gang.spec.podgroups) > 1:
        raise Unsupported(
            f"gang {gang.key}: podgroup {podgroup.name!r} has minReplicas 0, so KAI cannot hold it to "
            "the topology domain of the others; give it minReplicas 1 or remove the constraint"
        )
    own = podgroup.topology_constraint or shared[1] or shared[0]
    return _object(
        gang, _podgroup_name(gang, context, podgroup), _spec(gang, 1, context) | _constraint(gang, own)
    )


def _object(gang: PodGang, name: str, spec: Manifest) -> Manifest:
    return {
        "apiVersion": PODGROUPS.api_version,
        "kind": PODGROUPS.kind,
        "metadata": owned_metadata(gang, name),
        "spec": spec,
    }


def _spec(gang: PodGang, minimum: int, context: Context) -> Manifest:
    spec: Manifest = {"minMember": minimum, "queue": queue_of(gang, context)}
    if gang.spec.priority_class_name:
        spec["priorityClassName"] = gang.spec.priority_class_name
    if is_told(context):
        spec["stalenessGracePeriod"] = grace_period(context)
    return spec


def _subgroups(gang: PodGang, needed: Sequence[PodGroup], context: Context) -> Iterator[Manifest]:
    membership = groups_by_podgroup(gang)
    known = MIN_SUBGROUP_FIELD in context.cluster.fields
    groups = {each.name: membership[each.name].name for each in needed if each.name in membership}
    for group in gang.spec.topology_constraint_group_configs:
        children = sum(1 for parent in groups.values() if parent == group.name)
        if children:
            counted = {"minSubGroup": children} if known else {}
            yield {"name": group.name, **counted, **_constraint(gang, group.topology_constraint)}
    if groups and len(groups) < len(needed) and not known:
        # A release without `minSubGroup` forgets a leaf that stands beside a parent, and places the others.
        others = _others(gang)
        yield {"name": others}
        groups = {each.name: groups.get(each.name, others) for each in needed}
    for podgroup in needed:
        yield {
            "name": podgroup.name,
            "minMember": podgroup.min_replicas,
            **({"parent": groups[podgroup.name]} if podgroup.name in groups else {}),
            **_constraint(gang, podgroup.topology_constraint),
        }


def _others(gang: PodGang) -> str:
    """A name that nothing else in the gang has."""
    taken = {each.name for each in gang.spec.podgroups}
    taken |= {each.name for each in gang.spec.topology_constraint_group_configs}
    return next(name for number in range(len(taken) + 1) if (name := f"others-{number}") not in taken)


def _constraint(gang: PodGang, constraint: GangTopologyConstraint | None) -> Manifest:
    if constraint is None or not (constraint.required or constraint.preferred):
        return {}
    named = topology.name_of(gang)
    if not named:
        raise Unsupported(
            f"gang {gang.key} has a topology constraint but no annotation {labels.TOPOLOGY_NAME} that names "
            "the KAI Topology; KAI would ignore the constraint"
        )
    levels = {"requiredTopologyLevel": constraint.required, "preferredTopologyLevel": constraint.preferred}
    return {"topologyConstraint": {"topology": named, **{key: each for key, each in levels.items() if each}}}


def _refuse_bad_names(gang: PodGang, subgroups: Sequence[Mapping[str, Any]]) -> None:
    seen: set[str] = set()
    for name in (str(each["name"]) for each in subgroups):
        if not _is_label(name):
            raise Unsupported(
                f"gang {gang.key}: {name!r} is not a DNS label, which KAI requires for the name of a subGroup"
            )
        if name in seen:
            raise Unsupported(
                f"gang {gang.key}: two podgroups or groups are named {name!r}; KAI needs one name each"
            )
        seen.add(name)


def _is_label(name: str) -> bool:
    return len(name) <= names.LABEL_LIMIT and _DNS_LABEL.fullmatch(name) is not None


def _name_errors(cliqueset: PodCliqueSet) -> Iterator[FieldError]:
    """Roles whose podgroups KAI could not name, tried with the longest name that the set now gives them."""
    template = cliqueset.template
    last = max(0, cliqueset.spec.replicas - 1)
    group_of = {name: group for group in template.pod_clique_scaling_groups for name in group.clique_names}
    for index, clique in enumerate(template.cliques):
        group = group_of.get(clique.name)
        if group is None:
            name = names.clique(cliqueset.name, last, clique.name)
        else:
            whole = names.scaling_group(cliqueset.name, last, group.name)
            name = names.group_clique(whole, max(0, (group.replicas or 1) - 1), clique.name)
        if not _is_label(name):
            yield FieldError(
                f"spec.template.cliques[{index}].name",
                f"gives the podgroup {name!r}, which must be a DNS label of at most {names.LABEL_LIMIT} "
                "characters to be a subGroup of KAI",
            )
