"""Kubernetes' own scheduler: native gang scheduling in whatever generation the cluster serves.

Where the cluster serves none, pods run without a gang guarantee and the translation says so; the profile's
`gangScheduling: Required` refuses instead. `mode: Flat | Merged` overrides the choice of the mode.
"""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from grove.api import labels
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import (
    Capability,
    Context,
    Fidelity,
    FixedFields,
    GangSnapshot,
    Lifecycle,
    Precondition,
    Reading,
    Traits,
    Translation,
    Treatment,
    object_name,
)
from grove.backends.default import generation as generations
from grove.backends.default import reading
from grove.backends.default.generation import (
    ABSENT,
    COMPOSITES,
    MISCONFIGURED,
    Generation,
    detect,
    misconfigured,
)
from grove.backends.default.hierarchy import needed
from grove.backends.default.linking import join_gang, link_pod, prefer_domains, preferences
from grove.backends.default.modes import (
    Mode,
    choose,
    configured_mode,
    refusal,
    shape_of,
    shapes_of_set,
    unhonoured,
)
from grove.backends.default.objects import Dialect
from grove.backends.default.outgrown import may_lack_members, waiting_in_vain
from grove.backends.default.sharing import inseparable_claims
from grove.backends.podspec import made_for
from grove.backends.replica import replica_treatments, stay_with_replica
from grove.backends.shape import is_adopted, is_ours, podgroup_of, revision
from grove.backends.treatments import account
from grove.errors import FieldError, InvalidConfiguration, Unsupported, Waiting
from grove.meta import Manifest, Resource


class DefaultBackend:
    """The backend `default`: pods for default-scheduler."""

    name: ClassVar[str] = "default"
    scheduler_name: ClassVar[str] = "default-scheduler"
    scheduling_gate: ClassVar[str] = "scheduling.k8s.io/workload"

    def matches(self, scheduler_name: str) -> bool:
        return scheduler_name in ("", self.scheduler_name)

    def capabilities(self, context: Context) -> frozenset[Capability]:
        generation = detect(context.cluster)
        # Without any native object the gang's priority class and affinity still reach every pod.
        found = {Capability.PRIORITY, Capability.REPLICA_TOPOLOGY}
        if generation is not None:
            found |= {Capability.GANG, Capability.SUBGROUPS}
            if generation.topology:
                found.add(Capability.TOPOLOGY_REQUIRED)
            if generation.composite and configured_mode(context.config) is None:
                found.add(Capability.HIERARCHY)
        return frozenset(found)

    def resources(self, context: Context) -> Sequence[Resource]:
        generation = detect(context.cluster)
        if generation is None:
            return ()
        if not generation.has_podgroups:
            return (generation.workloads,)
        if generation.composite and configured_mode(context.config) is None:
            return (generation.workloads, COMPOSITES, generation.podgroups)
        return (generation.podgroups,)

    def preconditions(self, context: Context) -> Sequence[Precondition]:
        name, required = "native gang scheduling", gang_required(context)
        if misconfigured(context.cluster):
            return (Precondition(name, missing=MISCONFIGURED),)
        if required and detect(context.cluster) is None:
            return (Precondition(name, missing=ABSENT),)
        return (Precondition(name),)

    def traits(self, context: Context) -> Traits:
        return Traits(
            probes=generations.probes(context.cluster), config_keys=frozenset({"gangScheduling", "mode"})
        )

    def lifecycle(self, snapshot: GangSnapshot) -> Lifecycle:
        there = {object_name(each): each for each in snapshot.objects}
        held = _reserved(snapshot)
        return Lifecycle(
            replace=_waiting_in_vain(snapshot),
            reserved=held,
            sought=max(snapshot.gang.minimum - held, 0) if held is not None else 0,
            fixed={
                object_name(each): _fixed(each, there.get(object_name(each))) for each in snapshot.translated
            },
        )

    def validate(self, cliqueset: PodCliqueSet, context: Context) -> Sequence[FieldError]:
        generation = detect(context.cluster)
        errors: list[FieldError] = []
        if generation is None and gang_required(context):
            field = f"metadata.annotations[{labels.SCHEDULER_BACKEND}]"
            errors.append(
                FieldError(
                    field, f"scheduler backend default cannot guarantee gang scheduling here: {ABSENT}"
                )
            )
        for shape in shapes_of_set(cliqueset):
            mode = choose(shape, generation, context.config) if generation else Mode.FLAT
            errors += [
                FieldError(each.field, refusal(each, generation))
                for each in unhonoured(shape, generation, mode)
            ]
        if generation is not None:
            errors += inseparable_claims(cliqueset, generation, context.config)
        if generation is not None and generation.version == "v1beta1":
            errors += _priority_conflicts(cliqueset)
        return list(dict.fromkeys(errors))

    def translate(self, gang: PodGang, context: Context) -> Translation:
        _refuse_other_namespaces(gang)
        generation = self._generation(context)
        shape = shape_of(gang)
        mode = choose(shape, generation, context.config) if generation else Mode.FLAT
        refused = unhonoured(shape, generation, mode)
        if refused:
            reasons = "; ".join(f"{each.field}: {refusal(each, generation)}" for each in refused)
            raise Unsupported(f"gang {gang.key}: {reasons}")
        treatments = account(
            gang, self.capabilities(context), "kube-scheduler", _exceptions(gang, generation, mode, context)
        )
        if generation is None or not gang.spec.podgroups or is_adopted(context):
            return Translation(treatments=treatments)
        return Translation(Dialect(gang, generation, mode, _revision(gang, context)).manifests(), treatments)

    def prepare_pod(self, pod: Manifest, gang: PodGang, context: Context) -> Manifest:
        generation = self._generation(context)
        podgroup = podgroup_of(pod, gang)
        prepared = made_for(self, pod, gang)
        prefer_domains(prepared, podgroup, gang)
        stay_with_replica(prepared, gang)
        if generation is not None:
            mode = choose(shape_of(gang), generation, context.config)
            dialect = Dialect(gang, generation, mode, _revision(gang, context))
            if is_adopted(context) or may_lack_members(gang, podgroup.name, context, generation, mode):
                join_gang(prepared, podgroup, dialect)
            else:
                link_pod(prepared, podgroup, dialect)
        return prepared

    def read(
        self, gang: PodGang, objects: Sequence[Manifest], pods: Sequence[Pod], context: Context
    ) -> Reading:
        generation = detect(context.cluster)
        if generation is None or is_adopted(context):
            return reading.read(gang, (), pods, {})
        mode = choose(shape_of(gang), generation, context.config)
        dialect = Dialect(gang, generation, mode, _revision(gang, context))
        return reading.read(gang, objects, pods, dialect.podgroup_members())

    def _generation(self, context: Context) -> Generation | None:
        """The generation to speak; raises Waiting while the cluster is not as it must be."""
        for precondition in self.preconditions(context):
            if precondition.missing:
                raise Waiting(
                    f"scheduler backend default waits for {precondition.name}: {precondition.missing}"
                )
        return detect(context.cluster)


def _revision(gang: PodGang, context: Context) -> str:
    """Who creates the pods of a standalone gang must know its PodGroup's name before: no revision."""
    return revision(gang, context) if context.revision or is_ours(gang) else ""


def _reserved(snapshot: GangSnapshot) -> int | None:
    """How many nodes are kept for pods of the gang that wait for the others.

    1.35 places pod after pod and keeps the node of each until the gang is complete, for up to five minutes;
    later versions decide on the gang as a whole and keep none.
    """
    generation = detect(snapshot.context.cluster)
    if generation is None or generation.has_podgroups:
        return None
    return sum(1 for pod in snapshot.pods if pod.active and not pod.bound and pod.status.nominated_node_name)


def _waiting_in_vain(snapshot: GangSnapshot) -> tuple[Pod, ...]:
    generation = detect(snapshot.context.cluster)
    if generation is None or not is_ours(snapshot.gang):
        return ()
    mode = choose(shape_of(snapshot.gang), generation, snapshot.context.config)
    return tuple(waiting_in_vain(snapshot, generation, mode))


def gang_required(context: Context) -> bool:
    """Whether the profile refuses to run pods without a gang guarantee."""
    value: Any = context.config.get("gangScheduling")
    if value not in (None, "", "BestEffort", "Required"):
        raise InvalidConfiguration(
            f"scheduler profile default: config.gangScheduling is {value!r}; "
            "it must be Required or BestEffort"
        )
    return bool(value == "Required")


def _refuse_other_namespaces(gang: PodGang) -> None:
    for podgroup in gang.spec.podgroups:
        for reference in podgroup.pod_references:
            if reference.namespace and reference.namespace != gang.namespace:
                raise Unsupported(
                    f"gang {gang.key}: podgroup {podgroup.name!r} lists pod "
                    f"{reference.namespace}/{reference.name}; "
                    "a native gang and its pods share a namespace"
                )


def _exceptions(
    gang: PodGang, generation: Generation | None, mode: Mode, context: Context
) -> Iterator[Treatment]:
    if generation is None:
        yield Treatment(
            Capability.GANG, Fidelity.NOT_EXPRESSIBLE, f"pods run without a gang guarantee: {ABSENT}"
        )
    elif is_adopted(context):
        yield from _adopted_treatments(gang)
    elif mode is Mode.FLAT and needed(gang.spec.podgroups) > 1:
        reason = "each podgroup is placed as a gang of its own; nothing makes them wait for one another"
        yield Treatment(Capability.HIERARCHY, Fidelity.APPROXIMATED, reason)
    keys = sorted({key for key, _ in preferences(gang)})
    if keys:
        used = f"pod affinity to {', '.join(keys)} is used instead"
        reason = f"kube-scheduler has no preferred packing of gangs; {used}"
        yield Treatment(Capability.TOPOLOGY_PREFERRED, Fidelity.APPROXIMATED, reason)
    yield from replica_treatments(gang)


def _adopted_treatments(gang: PodGang) -> Iterator[Treatment]:
    """What becomes of a gang that no native object speaks for, because its pods can belong to none."""
    yield Treatment(
        Capability.GANG,
        Fidelity.APPROXIMATED,
        "the Go operator made pods of the gang, which belong to no native gang and cannot join one; a pod "
        "that is lost is placed by itself, and the gang as a whole once all of its pods are new: "
        f"kubectl delete pods -n {gang.namespace} -l {labels.POD_GANG}={gang.name} does that at once",
    )
    if shape_of(gang).requirements:
        reason = "pods that replace others are held to their domains by pod affinity"
        yield Treatment(Capability.TOPOLOGY_REQUIRED, Fidelity.APPROXIMATED, reason, required=True)


def _priority_conflicts(cliqueset: PodCliqueSet) -> Iterator[FieldError]:
    """From 1.37 on the scheduler leaves a group alone whose pods have another priority than the group."""
    wanted = cliqueset.template.priority_class_name
    for index, clique in enumerate(cliqueset.template.cliques):
        own = clique.spec.pod_spec.get("priorityClassName") or ""
        if own and own != wanted:
            yield FieldError(
                f"spec.template.cliques[{index}].spec.podSpec.priorityClassName",
                f"is {own!r} but the gang's is {wanted!r}; kube-scheduler places a gang only if all its "
                "pods have the gang's priority: set spec.template.priorityClassName instead",
            )


def _fixed(manifest: Manifest, there: Manifest | None) -> FixedFields:
    """What of one of the objects cannot be changed; `there` is the one that exists."""
    # Nothing waits for the deletion of the others; a PodGroup would wait for the pods that point to it.
    replaceable = manifest.get("kind") in ("Workload", COMPOSITES.kind)
    if manifest.get("kind") == "PodGroup" and manifest.get("apiVersion") != f"{generations.GROUP}/v1alpha2":
        # There the minimum, and only that, can be changed.
        paths = [f"spec.{each}" for each in generations.FIXED_FIELDS]
        if there is not None and _policy_kind(there) != _policy_kind(manifest):
            # One that was made while its role had no pods has no minimum, and can get none.
            paths.append("spec.schedulingPolicy")
        return FixedFields(tuple(paths), replaceable)
    return FixedFields(("spec",), replaceable)


def _policy_kind(podgroup: Manifest) -> set[str]:
    """`gang` or `basic`."""
    return set(podgroup["spec"].get("schedulingPolicy") or ())
