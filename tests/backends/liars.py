"""Backends that declare everything, account for everything as enforced, and do not tell it to the scheduler.

`Honest` tells it all, `Liar` understands a gang as something less than it is, and `on_pods` makes of either a
backend without objects, which writes on each pod what its objects would say.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import msgspec.structs

from grove.api import labels
from grove.api.gang import GangPack, GangTopologyConstraint, PodGang, PodGroup, TopologyConstraintGroup
from grove.api.pod import Pod
from grove.backends.base import Capability, Context, Fidelity, Reading, Translation, Verdict
from grove.backends.kai import KaiBackend
from grove.backends.kai.queue import QUEUE
from grove.backends.treatments import account
from grove.meta import Manifest, Resource

Constraint = GangTopologyConstraint | None


class Honest(KaiBackend):
    """KAI's backend, with everything declared that a gang's spec can ask for, and written."""

    def capabilities(self, context: Context) -> frozenset[Capability]:
        return frozenset(Capability) - {Capability.PLACEMENT_SCORE}

    def translate(self, gang: PodGang, context: Context) -> Translation:
        translation = super().translate(gang, context)
        for manifest in translation.manifests:
            if gang.spec.reuse_reservation_ref is not None:
                manifest["spec"]["reuse"] = gang.spec.reuse_reservation_ref.name
        return translation


@dataclass
class Liar(Honest):
    """Takes each gang for another one, and says of the real one that everything is enforced."""

    understood: Callable[[PodGang], PodGang] = lambda gang: gang
    written: Callable[[Manifest], None] = lambda manifest: None

    def translate(self, gang: PodGang, context: Context) -> Translation:
        translation = super().translate(self.understood(gang), context)
        for manifest in translation.manifests:
            self.written(manifest)
        return Translation(translation.manifests, account(gang, self.capabilities(context), "it"))

    def prepare_pod(self, pod: Manifest, gang: PodGang, context: Context) -> Manifest:
        return super().prepare_pod(pod, self.understood(gang), context)


@dataclass
class OnPods(Liar):
    """The same without objects."""

    def resources(self, context: Context) -> Sequence[Resource]:
        return ()

    def translate(self, gang: PodGang, context: Context) -> Translation:
        return replace(super().translate(gang, context), manifests=())

    def prepare_pod(self, pod: Manifest, gang: PodGang, context: Context) -> Manifest:
        prepared = super().prepare_pod(pod, gang, context)
        said = [each["spec"] for each in super().translate(gang, context).manifests]
        del prepared["metadata"]["annotations"]["pod-group-name"]
        prepared["metadata"]["annotations"]["example.com/gang"] = json.dumps(said)
        return prepared


# What a liar understands -----------------------------------------------------------------------------


def with_spec(gang: PodGang, **fields: object) -> PodGang:
    return msgspec.structs.replace(gang, spec=msgspec.structs.replace(gang.spec, **fields))


def packing(
    gang: Callable[[Constraint], Constraint] = lambda each: each,
    group: Callable[[Constraint], Constraint] = lambda each: each,
    podgroup: Callable[[Constraint], Constraint] = lambda each: each,
) -> Callable[[PodGang], PodGang]:
    """Another constraint at each level."""

    def of(one: PodGang) -> PodGang:
        spec = one.spec
        return with_spec(
            one,
            topology_constraint=gang(spec.topology_constraint),
            topology_constraint_group_configs=tuple(
                changed(each, group) for each in spec.topology_constraint_group_configs
            ),
            podgroups=tuple(changed(each, podgroup) for each in spec.podgroups),
        )

    return of


def changed(
    part: PodGroup | TopologyConstraintGroup, to: Callable[[Constraint], Constraint]
) -> PodGroup | TopologyConstraintGroup:
    return msgspec.structs.replace(part, topology_constraint=to(part.topology_constraint))


def nothing(constraint: Constraint) -> Constraint:
    return None


def pack(required: str | None, preferred: str | None) -> Constraint:
    return (
        GangTopologyConstraint(pack_constraint=GangPack(required=required, preferred=preferred))
        if required or preferred
        else None
    )


def not_required(constraint: Constraint) -> Constraint:
    return pack(None, constraint.preferred) if constraint else None


def no_preference(constraint: Constraint) -> Constraint:
    return pack(constraint.required, None) if constraint else None


def no_lone_preference(constraint: Constraint) -> Constraint:
    return constraint if constraint and constraint.required else None


def required_or_else_preferred(constraint: Constraint) -> Constraint:
    return no_preference(constraint) if constraint and constraint.required else constraint


def lone_preference_required(constraint: Constraint) -> Constraint:
    return constraint if constraint and constraint.required else swapped(constraint)


def lone_requirement_preferred(constraint: Constraint) -> Constraint:
    return constraint if constraint and constraint.preferred else swapped(constraint)


def swapped(constraint: Constraint) -> Constraint:
    return pack(constraint.preferred, constraint.required) if constraint else None


def any_rack(constraint: Constraint) -> Constraint:
    return (
        pack("example.com/rack" if constraint.required else None, constraint.preferred)
        if constraint
        else None
    )


def first_podgroup_only(gang: PodGang) -> PodGang:
    first, *rest = gang.spec.podgroups
    return with_spec(gang, podgroups=(first, *(changed(each, nothing) for each in rest)))


def moved_to_the_gang(gang: PodGang) -> PodGang:
    """What one podgroup requires is required of all."""
    found = [each.topology_constraint for each in gang.spec.podgroups]
    constraint = next((each for each in found if each and each.required), None)
    if constraint is None:
        return gang
    return with_spec(packing(podgroup=nothing)(gang), topology_constraint=constraint)


def first_two_preferred(gang: PodGang) -> PodGang:
    """A group that prefers a domain is always the first two podgroups."""
    two = tuple(each.name for each in gang.spec.podgroups[:2])
    groups = tuple(
        msgspec.structs.replace(each, pod_group_names=two)
        if each.topology_constraint and each.topology_constraint.preferred
        else each
        for each in gang.spec.topology_constraint_group_configs
    )
    return with_spec(gang, topology_constraint_group_configs=groups)


def no_group_at_all(gang: PodGang) -> PodGang:
    return with_spec(gang, topology_constraint_group_configs=())


def no_priority(gang: PodGang) -> PodGang:
    return with_spec(gang, priority_class_name="")


def one_priority(gang: PodGang) -> PodGang:
    return with_spec(gang, priority_class_name="urgent") if gang.spec.priority_class_name else gang


def no_queue(gang: PodGang) -> PodGang:
    return without_notes(gang, QUEUE)


def without_notes(gang: PodGang, *names: str) -> PodGang:
    notes = {key: value for key, value in gang.annotations.items() if key not in names}
    return msgspec.structs.replace(gang, metadata=msgspec.structs.replace(gang.metadata, annotations=notes))


def no_replica(gang: PodGang) -> PodGang:
    """Places a scaled gang wherever there is room."""
    return without_notes(gang, labels.REPLICA_REQUIRED, labels.REPLICA_PREFERRED)


def nothing_required_of_the_replica(gang: PodGang) -> PodGang:
    return without_notes(gang, labels.REPLICA_REQUIRED)


def nothing_preferred_of_the_replica(gang: PodGang) -> PodGang:
    return without_notes(gang, labels.REPLICA_PREFERRED)


def no_reservation(gang: PodGang) -> PodGang:
    return with_spec(gang, reuse_reservation_ref=None)


def one_size_when_alone(gang: PodGang) -> PodGang:
    if len(gang.spec.podgroups) > 1:
        return gang
    (only,) = gang.spec.podgroups
    return with_spec(gang, podgroups=(msgspec.structs.replace(only, min_replicas=2),))


# What a liar writes ----------------------------------------------------------------------------------


def last_minimum_is_one(manifest: Manifest) -> None:
    """The sum is right, and the last podgroup may come with any number of pods."""
    leaves = [each for each in manifest["spec"]["subGroups"] if "minMember" in each]
    leaves[-1]["minMember"] = 1


# Others ----------------------------------------------------------------------------------------------


class Modest(Honest):
    """Tells the scheduler the priority and does not declare it."""

    def capabilities(self, context: Context) -> frozenset[Capability]:
        return super().capabilities(context) - {Capability.PRIORITY}


class SilentlySure(Liar):
    """Drops the priority, does not declare it, and calls it enforced."""

    def __init__(self) -> None:
        super().__init__(no_priority)

    def capabilities(self, context: Context) -> frozenset[Capability]:
        return super().capabilities(context) - {Capability.PRIORITY}

    def translate(self, gang: PodGang, context: Context) -> Translation:
        translation = super().translate(gang, context)
        treatments = (
            replace(each, fidelity=Fidelity.ENFORCED, reason="")
            if each.property == Capability.PRIORITY
            else each
            for each in translation.treatments
        )
        return replace(translation, treatments=tuple(treatments))


class Scoring(Honest):
    """Reads the score of a placement off its object."""

    def capabilities(self, context: Context) -> frozenset[Capability]:
        return frozenset(Capability)

    def read(
        self, gang: PodGang, objects: Sequence[Manifest], pods: Sequence[Pod], context: Context
    ) -> Reading:
        reading = super().read(gang, objects, pods, context)
        statuses = [each.get("status") for each in objects]
        found = [each["score"] for each in statuses if isinstance(each, dict) and "score" in each]
        placed = reading.verdict is Verdict.SCHEDULED
        return replace(reading, placement_score=found[0]) if placed and found else reading


class FullMarks(Scoring):
    """Calls every placement the best."""

    def read(
        self, gang: PodGang, objects: Sequence[Manifest], pods: Sequence[Pod], context: Context
    ) -> Reading:
        return replace(super().read(gang, objects, pods, context), placement_score=1.0)
