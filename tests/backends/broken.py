"""Backends that break one rule of the contract each."""

from collections.abc import Sequence
from dataclasses import replace

from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import (
    Capability,
    Context,
    EventSource,
    Fidelity,
    GangSnapshot,
    Lifecycle,
    Precondition,
    Reading,
    Traits,
    Translation,
    Treatment,
    Verdict,
)
from grove.backends.kai.backend import POD_GROUP_ANNOTATION, KaiBackend
from grove.errors import FieldError, Unsupported
from grove.meta import Manifest, Resource


class Broken(KaiBackend):
    """A backend that works, to be broken in one place."""


class EditsObjects(Broken):
    def edit(self, manifest: Manifest) -> None:
        raise NotImplementedError

    def translate(self, gang: PodGang, context: Context) -> Translation:
        translation = super().translate(gang, context)
        for manifest in translation.manifests:
            self.edit(manifest)
        return translation


class NeverTheSame(EditsObjects):
    def __init__(self) -> None:
        self.calls = 0

    def edit(self, manifest: Manifest) -> None:
        self.calls += 1
        manifest["spec"]["call"] = self.calls


class Ownerless(EditsObjects):
    def edit(self, manifest: Manifest) -> None:
        del manifest["metadata"]["ownerReferences"]


class Elsewhere(EditsObjects):
    def edit(self, manifest: Manifest) -> None:
        manifest["metadata"]["namespace"] = "kube-system"


class Unlabelled(EditsObjects):
    def edit(self, manifest: Manifest) -> None:
        del manifest["metadata"]["labels"]["app.kubernetes.io/managed-by"]


class BelowMinimum(EditsObjects):
    def edit(self, manifest: Manifest) -> None:
        manifest["spec"]["subGroups"][-1]["minMember"] -= 1


class AboveMinimum(EditsObjects):
    def edit(self, manifest: Manifest) -> None:
        manifest["spec"]["subGroups"][-1]["minMember"] += 1


class LongNames(EditsObjects):
    def edit(self, manifest: Manifest) -> None:
        manifest["metadata"]["name"] += "x" * 253


class ByVersion(Broken):
    """Marks its objects with what every status write changes."""

    def translate(self, gang: PodGang, context: Context) -> Translation:
        translation = super().translate(gang, context)
        for manifest in translation.manifests:
            manifest["metadata"]["annotations"] = {"seen": gang.metadata.resource_version}
        return translation


class Scribbles(Broken):
    """Notes on the gang what it has done."""

    def translate(self, gang: PodGang, context: Context) -> Translation:
        gang.annotations["translated"] = str(len(gang.annotations))
        return super().translate(gang, context)


class Recycles(Broken):
    """Hands out the object that it handed out before, and edits it."""

    def __init__(self) -> None:
        self.calls = 0
        self.shared: Manifest = {}

    def translate(self, gang: PodGang, context: Context) -> Translation:
        self.calls += 1
        translation = super().translate(gang, context)
        self.shared.update(translation.manifests[0])
        self.shared["spec"]["call"] = self.calls
        return replace(translation, manifests=(self.shared, *translation.manifests[1:]))


class WrongMix(EditsObjects):
    """Demands the right number of pods of the wrong podgroups."""

    def edit(self, manifest: Manifest) -> None:
        leaves = [each for each in manifest["spec"]["subGroups"] if "minMember" in each]
        for leaf, number in zip(leaves, [each["minMember"] for each in reversed(leaves)], strict=True):
            leaf["minMember"] = number


class OnlyTheSum(EditsObjects):
    """Declares subgroups and demands a number of pods, whoever they are."""

    def edit(self, manifest: Manifest) -> None:
        manifest["spec"]["subGroups"] = [{"name": "all", "minMember": manifest["spec"]["minMember"]}]

    def prepare_pod(self, pod: Manifest, gang: PodGang, context: Context) -> Manifest:
        prepared = super().prepare_pod(pod, gang, context)
        prepared["metadata"]["labels"]["kai.scheduler/subgroup-name"] = "all"
        return prepared


class Finalized(EditsObjects):
    def edit(self, manifest: Manifest) -> None:
        manifest["metadata"]["finalizers"] = ["example.com/keep"]


class OneForAll(EditsObjects):
    def edit(self, manifest: Manifest) -> None:
        manifest["metadata"]["name"] = "gangs"


class Remembers(Broken):
    """Lists podgroups that the gang had once."""

    def __init__(self) -> None:
        self.known: dict[str, None] = {}

    def translate(self, gang: PodGang, context: Context) -> Translation:
        self.known.update(dict.fromkeys(each.name for each in gang.spec.podgroups))
        translation = super().translate(gang, context)
        for manifest in translation.manifests:
            manifest["spec"]["known"] = list(self.known)
        return translation


class Unwatched(Broken):
    def resources(self, context: Context) -> Sequence[Resource]:
        return ()


class Twins(Broken):
    def translate(self, gang: PodGang, context: Context) -> Translation:
        translation = super().translate(gang, context)
        return replace(translation, manifests=translation.manifests * 2)


class EditsAccount(Broken):
    """Says something else about the properties of a gang than is true."""

    def edit(self, treatment: Treatment) -> Treatment:
        raise NotImplementedError

    def translate(self, gang: PodGang, context: Context) -> Translation:
        translation = super().translate(gang, context)
        return replace(translation, treatments=tuple(map(self.edit, translation.treatments)))


class Boaster(EditsAccount):
    """Declares what it loses."""

    def capabilities(self, context: Context) -> frozenset[Capability]:
        return super().capabilities(context) | {Capability.PRIORITY}

    def edit(self, treatment: Treatment) -> Treatment:
        lost = treatment.property == Capability.PRIORITY
        return replace(treatment, fidelity=Fidelity.NOT_EXPRESSIBLE, reason="no") if lost else treatment


class Unreasoned(EditsAccount):
    """Loses something and does not say why."""

    def edit(self, treatment: Treatment) -> Treatment:
        return replace(treatment, reason="")


class Silent(Broken):
    """Loses what it does not declare and says nothing."""

    def translate(self, gang: PodGang, context: Context) -> Translation:
        return replace(super().translate(gang, context), treatments=())


class IgnoresRequired(Broken):
    """Reports a required constraint as a loss where it must refuse."""

    def capabilities(self, context: Context) -> frozenset[Capability]:
        return super().capabilities(context) - {Capability.TOPOLOGY_REQUIRED}

    def translate(self, gang: PodGang, context: Context) -> Translation:
        translation = KaiBackend.translate(KaiBackend(), gang, context)
        must = Capability.TOPOLOGY_REQUIRED
        lost = Treatment(must, Fidelity.NOT_EXPRESSIBLE, "no", required=True)
        treatments = tuple(lost if each.property == must else each for each in translation.treatments)
        return replace(translation, treatments=treatments)


class RefusesAll(Broken):
    def translate(self, gang: PodGang, context: Context) -> Translation:
        raise Unsupported("no")


class EditsPods(Broken):
    def edit(self, pod: Manifest, prepared: Manifest) -> None:
        raise NotImplementedError

    def prepare_pod(self, pod: Manifest, gang: PodGang, context: Context) -> Manifest:
        prepared = super().prepare_pod(pod, gang, context)
        self.edit(pod, prepared)
        return prepared


class Ungated(EditsPods):
    def edit(self, pod: Manifest, prepared: Manifest) -> None:
        prepared["spec"]["schedulingGates"] = pod["spec"]["schedulingGates"]


class TakesGates(EditsPods):
    def edit(self, pod: Manifest, prepared: Manifest) -> None:
        prepared["spec"]["schedulingGates"] = [{"name": self.scheduling_gate}]


class ForgetsScheduler(EditsPods):
    def edit(self, pod: Manifest, prepared: Manifest) -> None:
        prepared["spec"]["schedulerName"] = "default-scheduler"


class Accumulates(EditsPods):
    def edit(self, pod: Manifest, prepared: Manifest) -> None:
        prepared["spec"]["tolerations"] = [*pod["spec"].get("tolerations", ()), {"operator": "Exists"}]


class Mutates(EditsPods):
    def edit(self, pod: Manifest, prepared: Manifest) -> None:
        pod["metadata"]["labels"]["seen"] = "true"


class AddsContainer(EditsPods):
    def edit(self, pod: Manifest, prepared: Manifest) -> None:
        if len(prepared["spec"]["containers"]) == 1:
            prepared["spec"]["containers"].append({"name": "sidecar", "image": "registry.example/x:1"})


class DropsLabels(EditsPods):
    def edit(self, pod: Manifest, prepared: Manifest) -> None:
        prepared["metadata"]["labels"] = {}


class Dangling(EditsPods):
    def edit(self, pod: Manifest, prepared: Manifest) -> None:
        prepared["metadata"]["annotations"][POD_GROUP_ANNOTATION] = "nowhere"


class DropsNotes(EditsPods):
    def edit(self, pod: Manifest, prepared: Manifest) -> None:
        del prepared["metadata"]["annotations"]["example.com/note"]


class Tolerant(EditsPods):
    def edit(self, pod: Manifest, prepared: Manifest) -> None:
        prepared["spec"]["tolerations"] = [{"operator": "Exists"}]


class DropsClaims(EditsPods):
    def edit(self, pod: Manifest, prepared: Manifest) -> None:
        del prepared["spec"]["resourceClaims"]


class Grudge(Broken):
    """Believes an old complaint more than the pods."""

    def read(
        self, gang: PodGang, objects: Sequence[Manifest], pods: Sequence[Pod], context: Context
    ) -> Reading:
        if any("schedulingConditions" in (each.get("status") or {}) for each in objects):
            return Reading(Verdict.UNSCHEDULABLE, "Unschedulable", "full")
        return super().read(gang, objects, pods, context)


class Mute(Broken):
    def read(
        self, gang: PodGang, objects: Sequence[Manifest], pods: Sequence[Pod], context: Context
    ) -> Reading:
        return replace(super().read(gang, objects, pods, context), message="")


class Babbles(Broken):
    """Gives a sentence where a word is asked for."""

    def read(
        self, gang: PodGang, objects: Sequence[Manifest], pods: Sequence[Pod], context: Context
    ) -> Reading:
        return replace(super().read(gang, objects, pods, context), reason="not yet, sorry")


class EditsStatus(Broken):
    def read(
        self, gang: PodGang, objects: Sequence[Manifest], pods: Sequence[Pod], context: Context
    ) -> Reading:
        for manifest in objects:
            manifest["status"] = {"seen": True}
        return super().read(gang, objects, pods, context)


class Impatient(Broken):
    """Says something else each time it is asked."""

    def __init__(self) -> None:
        self.calls = 0

    def read(
        self, gang: PodGang, objects: Sequence[Manifest], pods: Sequence[Pod], context: Context
    ) -> Reading:
        self.calls += 1
        return replace(super().read(gang, objects, pods, context), message=f"asked {self.calls} times")


class Stranger(Broken):
    def matches(self, scheduler_name: str) -> bool:
        return scheduler_name == "somebody-else"


class Demanding(Broken):
    def preconditions(self, context: Context) -> Sequence[Precondition]:
        return (Precondition("licence", missing="there is no licence; buy one"),)


class Curt(Broken):
    def preconditions(self, context: Context) -> Sequence[Precondition]:
        return tuple(
            replace(each, missing=each.missing and "CRDs") for each in super().preconditions(context)
        )


class Secretive(Broken):
    """Cannot work on an empty cluster and does not say why."""

    def preconditions(self, context: Context) -> Sequence[Precondition]:
        return ()


class Fragile(Broken):
    def read(
        self, gang: PodGang, objects: Sequence[Manifest], pods: Sequence[Pod], context: Context
    ) -> Reading:
        for manifest in objects:
            manifest["status"]["conditions"]
        return super().read(gang, objects, pods, context)


class Optimist(Broken):
    def read(
        self, gang: PodGang, objects: Sequence[Manifest], pods: Sequence[Pod], context: Context
    ) -> Reading:
        return Reading(Verdict.SCHEDULED if pods else Verdict.WAITING)


class Pessimist(Broken):
    def read(
        self, gang: PodGang, objects: Sequence[Manifest], pods: Sequence[Pod], context: Context
    ) -> Reading:
        return Reading(Verdict.WAITING)


class Hallucinates(Broken):
    def read(
        self, gang: PodGang, objects: Sequence[Manifest], pods: Sequence[Pod], context: Context
    ) -> Reading:
        return Reading(Verdict.SCHEDULED)


class AcceptsSets(IgnoresRequired):
    def validate(self, cliqueset: PodCliqueSet, context: Context) -> Sequence[FieldError]:
        return ()


class OneClusterOnly(Broken):
    def traits(self, context: Context) -> Traits:
        assert context.cluster.served["scheduling.run.ai/v2alpha2"]
        return super().traits(context)


class ReadsAllEvents(Broken):
    def traits(self, context: Context) -> Traits:
        return replace(super().traits(context), events=EventSource(""))


class ReadsAnotherKey(Broken):
    def preconditions(self, context: Context) -> Sequence[Precondition]:
        return super().preconditions(context) if context.config.get("enabled", True) else ()


class ForgetsLevels(Broken):
    def levels_of(self, manifest: Manifest) -> tuple[str, ...]:
        return super().levels_of(manifest)[:1]


class ReplacesPods(Broken):
    def lifecycle(self, snapshot: GangSnapshot) -> Lifecycle:
        return Lifecycle(replace=tuple(snapshot.pods))
