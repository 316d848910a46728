"""Each rule of the conformance kit is broken on purpose once, so that a green run means something."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
from tests.backends import clusters
from tests.backends.clusters import on

from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import (
    Backend,
    Capability,
    Context,
    Fidelity,
    Loss,
    Reading,
    Translation,
    Verdict,
)
from grove.backends.kai import POD_GROUP_ANNOTATION, KaiBackend
from grove.errors import FieldError, Unsupported
from grove.meta import Manifest, Resource
from grove.testing.conformance import BackendConformance


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


class Unwatched(Broken):
    def resources(self, context: Context) -> Sequence[Resource]:
        return ()


class Twins(Broken):
    def translate(self, gang: PodGang, context: Context) -> Translation:
        translation = super().translate(gang, context)
        return replace(translation, manifests=translation.manifests * 2)


class EditsAccount(Broken):
    """Says something else about the properties of a gang than is true."""

    def edit(self, loss: Loss) -> Loss:
        raise NotImplementedError

    def translate(self, gang: PodGang, context: Context) -> Translation:
        translation = super().translate(gang, context)
        return replace(translation, losses=tuple(map(self.edit, translation.losses)))


class Boaster(EditsAccount):
    """Declares what it loses."""

    def capabilities(self, context: Context) -> frozenset[Capability]:
        return super().capabilities(context) | {Capability.PRIORITY}

    def edit(self, loss: Loss) -> Loss:
        lost = loss.property == Capability.PRIORITY
        return replace(loss, fidelity=Fidelity.NOT_EXPRESSIBLE, reason="no") if lost else loss


class Unreasoned(EditsAccount):
    """Loses something and does not say why."""

    def edit(self, loss: Loss) -> Loss:
        return replace(loss, reason="")


class Silent(Broken):
    """Loses what it does not declare and says nothing."""

    def translate(self, gang: PodGang, context: Context) -> Translation:
        return replace(super().translate(gang, context), losses=())


class IgnoresRequired(Broken):
    """Reports a required constraint as a loss where it must refuse."""

    def capabilities(self, context: Context) -> frozenset[Capability]:
        return super().capabilities(context) - {Capability.TOPOLOGY_REQUIRED}

    def translate(self, gang: PodGang, context: Context) -> Translation:
        translation = KaiBackend.translate(KaiBackend(), gang, context)
        must = Capability.TOPOLOGY_REQUIRED
        lost = Loss(must, Fidelity.NOT_EXPRESSIBLE, "no", required=True)
        losses = tuple(lost if each.property == must else each for each in translation.losses)
        return replace(translation, losses=losses)


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


class Kit(BackendConformance):
    """The kit for the backend under test; a class of its own so that pytest does not collect it."""

    __test__ = False
    backend: ClassVar[Backend] = KaiBackend()

    def contexts(self) -> Sequence[Context]:
        return [on(clusters.KAI_012)]

    def minimum_of(self, manifests: Sequence[Manifest]) -> int | None:
        leaves = [leaf for each in manifests for leaf in each["spec"]["subGroups"]]
        return sum(int(leaf.get("minMember", 0)) for leaf in leaves)

    def links_of(self, pod: Manifest) -> Sequence[str]:
        return [pod["metadata"]["annotations"][POD_GROUP_ANNOTATION]]


@dataclass(frozen=True)
class Case:
    backend: Callable[[], Backend]
    rule: Callable[[BackendConformance], None]


K = BackendConformance
CASES = {
    "translation differs each time": Case(NeverTheSame, K.test_the_same_gang_gives_the_same_objects),
    "objects without an owner": Case(Ownerless, K.test_objects_belong_to_the_gang_and_live_beside_it),
    "objects in another namespace": Case(Elsewhere, K.test_objects_belong_to_the_gang_and_live_beside_it),
    "objects without labels": Case(
        Unlabelled, K.test_objects_carry_the_labels_by_which_they_are_found_and_cleaned_up
    ),
    "too small a minimum": Case(BelowMinimum, K.test_objects_demand_what_the_gang_demands),
    "too big a minimum": Case(AboveMinimum, K.test_objects_demand_what_the_gang_demands),
    "names beyond the limit": Case(
        LongNames, K.test_objects_are_of_the_kinds_that_are_watched_and_have_names_of_their_own
    ),
    "kinds that are not watched": Case(
        Unwatched, K.test_objects_are_of_the_kinds_that_are_watched_and_have_names_of_their_own
    ),
    "two objects of one name": Case(
        Twins, K.test_objects_are_of_the_kinds_that_are_watched_and_have_names_of_their_own
    ),
    "a capability that is lost": Case(Boaster, K.test_what_is_declared_is_kept_without_loss),
    "a loss in silence": Case(Silent, K.test_what_is_not_declared_is_refused_or_reported),
    "a property forgotten": Case(Silent, K.test_every_property_of_a_gang_is_accounted_for),
    "a loss without a reason": Case(Unreasoned, K.test_whatever_is_not_enforced_has_a_reason_and_is_no_must),
    "a must accepted as a loss": Case(
        IgnoresRequired, K.test_whatever_is_not_enforced_has_a_reason_and_is_no_must
    ),
    "a required constraint accepted": Case(AcceptsSets, K.test_what_is_not_declared_is_refused_or_reported),
    "the plain gang refused": Case(RefusesAll, K.test_the_same_gang_gives_the_same_objects),
    "no gate": Case(Ungated, K.test_a_pod_gets_the_gate_and_the_scheduler_and_keeps_foreign_gates),
    "foreign gates removed": Case(
        TakesGates, K.test_a_pod_gets_the_gate_and_the_scheduler_and_keeps_foreign_gates
    ),
    "the wrong scheduler": Case(
        ForgetsScheduler, K.test_a_pod_gets_the_gate_and_the_scheduler_and_keeps_foreign_gates
    ),
    "preparing twice adds twice": Case(Accumulates, K.test_preparing_a_pod_twice_is_preparing_it_once),
    "the argument changed": Case(
        Mutates, K.test_preparing_a_pod_leaves_its_argument_and_its_containers_alone
    ),
    "a container added": Case(
        AddsContainer, K.test_preparing_a_pod_leaves_its_argument_and_its_containers_alone
    ),
    "labels dropped": Case(DropsLabels, K.test_preparing_a_pod_leaves_its_argument_and_its_containers_alone),
    "a link to nothing": Case(Dangling, K.test_a_pod_points_only_to_objects_that_exist),
    "a status that breaks the reader": Case(Fragile, K.test_reading_survives_any_status),
    "scheduled without pods": Case(Hallucinates, K.test_reading_survives_any_status),
    "scheduled below the minimum": Case(Optimist, K.test_a_gang_below_its_minimum_is_never_called_scheduled),
    "never scheduled": Case(Pessimist, K.test_a_gang_whose_minimum_is_bound_is_scheduled),
}


def kit_for(backend: Backend) -> BackendConformance:
    return type("KitForOne", (Kit,), {"backend": backend})()  # type: ignore[no-any-return]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_broken_backend_is_caught(case: Case) -> None:
    with pytest.raises((AssertionError, TypeError, KeyError)):
        case.rule(kit_for(case.backend()))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_same_rule_passes_for_the_backend_unbroken(case: Case) -> None:
    assert case.rule(kit_for(KaiBackend())) is None  # type: ignore[func-returns-value]


def test_every_rule_of_the_kit_is_broken_here() -> None:
    rules = {name for name in vars(BackendConformance) if name.startswith("test_")}
    assert rules == {case.rule.__name__ for case in CASES.values()}


def test_objects_whose_minimum_the_kit_cannot_see_do_not_pass() -> None:
    class Blind(Kit):
        def minimum_of(self, manifests: Sequence[Manifest]) -> int | None:
            return None

    with pytest.raises(AssertionError, match="objects say None"):
        Blind().test_objects_demand_what_the_gang_demands()
