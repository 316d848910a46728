"""Objects: decided by the gang alone, owned by it, found by their labels, gone with it, no weaker than it."""

import copy
import json
from collections.abc import Mapping
from typing import Final

import msgspec

from grove.api import labels
from grove.api.gang import PodGang
from grove.api.kinds import GANGS
from grove.backends.base import Capability, Context
from grove.errors import Unsupported
from grove.meta import Manifest
from grove.testing import make
from grove.testing.rules.subject import Subject

#: What a gang's status may be when it is translated once more.
_LATER: Final[Mapping[str, object]] = {
    "phase": "Running",
    "placementScore": 0.5,
    "conditions": [{"type": "Scheduled", "status": "True", "reason": "Scheduled", "message": "placed"}],
}


class ObjectRules(Subject):
    """What must hold for the objects that `translate` returns."""

    def test_the_same_gang_gives_the_same_objects(self) -> None:
        for context, gang, translation in self.translated():
            assert self.backend.translate(gang, context) == translation

    def test_objects_belong_to_the_gang_and_live_beside_it(self) -> None:
        for _, gang, translation in self.translated():
            for manifest in translation.manifests:
                metadata = manifest["metadata"]
                assert metadata.get("namespace") == gang.namespace, (
                    f"{metadata['name']} is in another namespace"
                )
                owners = [each for each in metadata.get("ownerReferences", ()) if each.get("controller")]
                want = (GANGS.api_version, GANGS.kind, gang.name, gang.uid)
                assert [_identity(each) for each in owners] == [want], f"{metadata['name']} has another owner"

    def test_objects_carry_the_labels_by_which_they_are_found_and_cleaned_up(self) -> None:
        for _, gang, translation in self.translated():
            want = {labels.MANAGED_BY: labels.MANAGER, labels.POD_GANG: gang.name}
            if labels.PART_OF in gang.labels:
                want[labels.PART_OF] = gang.labels[labels.PART_OF]
            for manifest in translation.manifests:
                found = manifest["metadata"].get("labels", {})
                assert want.items() <= found.items(), f"{manifest['metadata']['name']} lacks labels"

    def test_objects_are_of_the_kinds_that_are_watched_and_have_names_of_their_own(self) -> None:
        for context, _, translation in self.translated():
            watched = {(each.api_version, each.kind) for each in self.backend.resources(context)}
            keys = [
                (each["apiVersion"], each["kind"], each["metadata"]["name"]) for each in translation.manifests
            ]
            assert {key[:2] for key in keys} <= watched, "an object nobody watches is never repaired"
            assert len(set(keys)) == len(keys), "two objects have one name"
            assert all(0 < len(name) <= 253 for _, _, name in keys), "a name is too long"

    def test_objects_demand_what_the_gang_demands(self) -> None:
        for _, gang, translation in self.translated():
            if translation.manifests:
                minimum = self.minimum_of(translation.manifests)
                assert minimum == gang.minimum, (
                    f"gang {gang.name} needs {gang.minimum} pods, objects say {minimum}"
                )

    # Determinism and idempotence --------------------------------------------------------------------

    def test_nothing_but_its_spec_and_metadata_decides_what_a_gang_becomes(self) -> None:
        for context, gang, translation in self.translated():
            written = msgspec.to_builtins(gang)
            written["metadata"]["resourceVersion"] = "4711"
            written["status"] = _LATER
            later = make.view(PodGang, written)
            again = self.backend.translate(later, context)
            assert again == translation, f"gang {gang.name}: a new status or version gives other objects"

    def test_translating_changes_neither_the_gang_nor_the_context(self) -> None:
        for context, gang, _ in self.translated():
            before = (msgspec.to_builtins(gang), copy.deepcopy(context.config))
            first = copy.deepcopy(self.backend.translate(gang, context))
            assert (msgspec.to_builtins(gang), context.config) == before, "translate changed its arguments"
            assert self.backend.translate(gang, context) == first, "translate changed what it returned before"

    # Minima per podgroup ----------------------------------------------------------------------------

    def test_each_podgroup_is_held_to_its_own_minimum_where_that_is_declared(self) -> None:
        for context in self.contexts():
            if Capability.SUBGROUPS not in self.backend.capabilities(context):
                continue
            one = make.gang("two", {"two-leader": 1, "two-worker": 3})
            other = make.gang("two", {"two-leader": 3, "two-worker": 1})
            # The sum is the same, so only something that knows the podgroups apart can differ.
            assert self._demands(one, context) != self._demands(other, context), (
                "subgroups are declared, but it makes no difference which podgroup needs how many pods"
            )
            for gang in (one, other):
                told = self.minima_of(self.backend.translate(gang, context).manifests)
                want = {each.name: each.min_replicas for each in gang.spec.podgroups}
                assert told is None or dict(told) == want, f"the objects demand {told}, the gang {want}"

    def _demands(self, gang: PodGang, context: Context) -> object:
        """Everything that reaches the scheduler: the objects, and what is written on the pods."""
        pods = [
            self.backend.prepare_pod(make.pod_manifest(each.name, index, gang=gang), gang, context)
            for each in gang.spec.podgroups
            for index in range(3)
        ]
        return self.backend.translate(gang, context).manifests, pods

    # Cleanup ----------------------------------------------------------------------------------------

    def test_nothing_holds_an_object_back_when_its_gang_goes(self) -> None:
        for _, gang, translation in self.translated():
            for manifest in translation.manifests:
                finalizers = manifest["metadata"].get("finalizers")
                assert not finalizers, (
                    f"gang {gang.name}: {manifest['metadata']['name']} has finalizers {finalizers}"
                )

    def test_two_gangs_share_no_object(self) -> None:
        for context in self.contexts():
            owners: dict[object, str] = {}
            for name in ("train-1", "train-10", "train-1-0"):
                gang = make.gang(name, {f"{name}-worker": 2})
                for each in self.backend.translate(gang, context).manifests:
                    key = (each["apiVersion"], each["kind"], each["metadata"]["name"])
                    assert key not in owners, f"the gangs {owners[key]} and {name} share {key}"
                    owners[key] = name

    def test_a_podgroup_that_goes_takes_its_traces_along(self) -> None:
        for context in self.contexts():
            both = make.gang("two", {"two-leader": 1, "two-worker": 3})
            self.backend.translate(both, context)
            left = make.gang("two", {"two-worker": 3})
            try:
                text = json.dumps(self.backend.translate(left, context).manifests)
            except Unsupported:
                continue
            assert "two-leader" not in text, "a podgroup that the gang no longer has is still spoken of"


def _identity(owner: Manifest) -> tuple[object, ...]:
    return (
        owner.get("apiVersion"),
        owner.get("kind"),
        owner.get("name"),
        owner.get("uid"),
    )
