"""Volcano: one PodGroup per gang, a subGroupPolicy per podgroup, network topology by the names of tiers.

What Volcano enforces only if it is said, is said: a policy without `matchLabelKeys` claims no pod, and one
without `minSubGroups` demands nothing. Releases before 1.14 know no subgroups; `minTaskMember` stands in.
Neither `status` is ever mentioned nor the default queue, which an admission webhook of Volcano may replace.
Profile config: `queue`, `networkTopology`, `schedulerConfigMap`.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from grove.api import conditions, labels
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import (
    Capability,
    Context,
    Edit,
    Fidelity,
    Precondition,
    Probe,
    Reading,
    Traits,
    Translation,
    Treatment,
)
from grove.backends.podspec import add_metadata, made_for
from grove.backends.probing import probe_fields
from grove.backends.replica import replica_treatments, stay_with_replica
from grove.backends.shape import podgroup_of
from grove.backends.treatments import account
from grove.backends.volcano import reading
from grove.backends.volcano.admission import requestless, resources_of, topology_errors
from grove.backends.volcano.objects import (
    GROUP_ANNOTATION,
    OTHER_GROUP_ANNOTATION,
    PODGROUPS,
    SUBGROUPS_PATH,
    TASK_ANNOTATION,
    TIER_NAME_PATH,
    knows_subgroups,
    knows_tiers,
    mark,
    podgroup_manifest,
    podgroup_name,
)
from grove.backends.volcano.queue import queue_errors, queue_of
from grove.backends.volcano.sight import (
    CONFIG_KEYS,
    DISABLED,
    QUEUES,
    Settings,
    Sight,
    limit_of,
    look,
    observes,
    queue_problem,
    settings,
)
from grove.backends.volcano.topology import (
    Packing,
    merged_groups,
    needs_numbers,
    overshot,
    packing,
    preferences,
    problem,
    required_keys,
    unknown,
)
from grove.errors import FieldError, Waiting
from grove.meta import Manifest, Resource, is_true

_TOPOLOGY: Final = frozenset(
    {Capability.TOPOLOGY_REQUIRED, Capability.TOPOLOGY_PREFERRED, Capability.HIERARCHY}
)


class VolcanoBackend:
    """The backend `volcano`: pods for Volcano's scheduler."""

    name: ClassVar[str] = "volcano"
    scheduler_name: ClassVar[str] = "volcano"
    scheduling_gate: ClassVar[str] = "scheduling.volcano.sh/podgroup"

    def __init__(self) -> None:
        self._looked: tuple[object, Sight] = (None, Sight())

    def matches(self, scheduler_name: str) -> bool:
        return scheduler_name == self.scheduler_name

    def capabilities(self, context: Context) -> frozenset[Capability]:
        able = {Capability.GANG, Capability.PRIORITY, Capability.QUEUE, Capability.REPLICA_TOPOLOGY}
        if knows_subgroups(context):
            able.add(Capability.SUBGROUPS)
            if knows_tiers(context) and settings(context.config).topology != DISABLED:
                able |= _TOPOLOGY
        return frozenset(able)

    def resources(self, context: Context) -> Sequence[Resource]:
        return (PODGROUPS,)

    def preconditions(self, context: Context) -> Sequence[Precondition]:
        settings(context.config)
        kinds = [
            Precondition(
                f"CustomResourceDefinition {each}",
                missing=""
                if context.cluster.serves(each)
                else f"the cluster does not serve {each} in {each.api_version}; install Volcano",
            )
            for each in (PODGROUPS, QUEUES)
        ]
        return (*kinds, *self._sight(context).facts)

    def traits(self, context: Context) -> Traits:
        return Traits(
            probes=_probes() if context.cluster.serves(PODGROUPS) else (),
            observes=observes(context),
            editable=frozenset({Edit.MINIMUM, Edit.PRIORITY}),
            config_keys=CONFIG_KEYS,
        )

    def validate(self, cliqueset: PodCliqueSet, context: Context) -> Sequence[FieldError]:
        return [*queue_errors(cliqueset), *topology_errors(cliqueset, self._unable(context))]

    def translate(self, gang: PodGang, context: Context) -> Translation:
        if not context.cluster.serves(PODGROUPS):
            raise Waiting(
                f"scheduler backend volcano waits for {PODGROUPS} in {PODGROUPS.api_version}; install Volcano"
            )
        able, chosen, sight = self.capabilities(context), settings(context.config), self._sight(context)
        if able >= _TOPOLOGY and sight.tiers is None and needs_numbers(gang):
            raise Waiting(
                f"gang {gang.key}: Grove has not seen the HyperNodes, whose tiers the PodGroup must name"
            )
        plan = packing(gang, context, chosen, sight) if able >= _TOPOLOGY else Packing()
        treatments = account(gang, able, "Volcano", self._exceptions(gang, context, plan))
        queue = queue_of(gang, context)
        if not _is_placed(gang):
            _wait_for_queue(queue, sight)
            _wait_for_topology(gang, context, chosen, sight)
        if not gang.spec.podgroups:
            return Translation(treatments=treatments)
        return Translation((podgroup_manifest(gang, queue, plan, context),), treatments)

    def prepare_pod(self, pod: Manifest, gang: PodGang, context: Context) -> Manifest:
        podgroup = podgroup_of(pod, gang)
        prepared = made_for(self, pod, gang)
        group = podgroup_name(gang, context)
        link = {GROUP_ANNOTATION: group, OTHER_GROUP_ANNOTATION: group}
        shared = merged_groups(gang).get(podgroup.name) if knows_subgroups(context) else None
        if shared is not None:
            add_metadata(prepared, "labels", {labels.TOPOLOGY_GROUP: mark(shared.name)})
        if shared is not None or not knows_subgroups(context):
            # Not elsewhere: Volcano takes pods of one task for alike and stops at the first that fails.
            link[TASK_ANNOTATION] = podgroup.name
        add_metadata(prepared, "annotations", link)
        stay_with_replica(prepared, gang)
        return prepared

    def read(
        self, gang: PodGang, objects: Sequence[Manifest], pods: Sequence[Pod], context: Context
    ) -> Reading:
        queue, asked = queue_of(gang, context), resources_of(context.cliqueset)
        limit = limit_of(queue, asked, self._sight(context))
        return reading.read(gang, objects, pods, queue, asked, limit)

    def _sight(self, context: Context) -> Sight:
        """What is seen of the installation; looked at once, and again when something else is observed."""
        observed, sight = self._looked
        if observed is not context.observed:
            sight = look(context.observed)
            self._looked = (context.observed, sight)
        return sight

    def _unable(self, context: Context) -> str:
        """Why no required topology can be honoured; empty where it can, or where Volcano is still to come."""
        if not context.cluster.serves(PODGROUPS) or Capability.TOPOLOGY_REQUIRED in self.capabilities(
            context
        ):
            return ""
        if settings(context.config).topology == DISABLED:
            return "the configuration of scheduler profile volcano says networkTopology: Disabled"
        return "this release of Volcano cannot name tiers (1.14 can)"

    def _exceptions(self, gang: PodGang, context: Context, plan: Packing) -> Iterator[Treatment]:
        told = []
        if not knows_subgroups(context) and len(gang.spec.podgroups) > 1:
            told.append(
                "this release of Volcano has no subgroups (1.14 has); minTaskMember holds each podgroup "
                "to its minimum when the gang starts"
            )
        if alone := requestless(gang, context.cliqueset):
            told.append(
                f"{', '.join(alone)}: pods that request no resources count as placed before they are, "
                "and Volcano binds them one by one"
            )
        if told:
            yield Treatment(Capability.SUBGROUPS, Fidelity.APPROXIMATED, "; ".join(told))
        if strict := _strict(gang, plan):
            reason = (
                f"{', '.join(strict)}: Volcano wants a domain with room for all pods, not for the minimum"
            )
            yield Treatment(Capability.TOPOLOGY_REQUIRED, Fidelity.APPROXIMATED, reason, required=True)
        unable = self._unable(context)
        lost = [unable] if unable and preferences(gang) else plan.lost
        if lost:
            yield Treatment(Capability.TOPOLOGY_PREFERRED, Fidelity.NOT_EXPRESSIBLE, "; ".join(lost))
        elif broad := overshot(gang, self._sight(context)):
            reason = (
                f"{', '.join(broad)}: Volcano prefers the smallest domain that has room, whichever is named"
            )
            yield Treatment(Capability.TOPOLOGY_PREFERRED, Fidelity.APPROXIMATED, reason)
        yield from replica_treatments(gang)


def _is_placed(gang: PodGang) -> bool:
    """What the scheduler lacks concerns only gangs that still need it."""
    return is_true(gang.status.conditions, conditions.SCHEDULED)


def _wait_for_queue(queue: str, sight: Sight) -> None:
    if trouble := queue_problem(queue, sight):
        raise Waiting(trouble)


def _wait_for_topology(gang: PodGang, context: Context, chosen: Settings, sight: Sight) -> None:
    """A required constraint that Volcano would ignore holds the gang back."""
    if is_true(gang.status.conditions, conditions.INITIALIZED) and unknown(context, chosen, sight):
        # It was looked at when the gang was made; after a restart of ours nothing is known for a moment.
        return
    for key in required_keys(gang):
        if trouble := problem(key, context, chosen, sight):
            raise Waiting(f"gang {gang.key} requires one {key}: {trouble}")


def _strict(gang: PodGang, plan: Packing) -> list[str]:
    """The podgroups with a hard constraint of their own and more pods than they cannot do without."""
    merged = merged_groups(gang) if plan.groups else {}
    found = []
    for each in gang.spec.podgroups:
        group = merged.get(each.name)
        own = plan.groups.get(group.name) if group else plan.podgroups.get(each.name)
        if own and own["mode"] == "hard" and len(each.pod_references) > each.min_replicas:
            found.append(each.name)
    return found


def _probes() -> tuple[Probe, ...]:
    # One field each: the strict validation that keeps a known field refuses the whole of an unknown one.
    return (
        _probe(SUBGROUPS_PATH, subGroupPolicy=[{"name": "a", "matchLabelKeys": ["a"], "minSubGroups": 1}]),
        _probe(TIER_NAME_PATH, networkTopology={"mode": "hard", "highestTierName": "a"}),
    )


def _probe(path: str, **spec: object) -> Probe:
    return probe_fields(PODGROUPS, {"minMember": 1, **spec}, path)
