"""The rules of the backend contract as tests: what any scheduler's backend must pass.

    class TestMine(BackendConformance):
        backend = MyBackend()

        def contexts(self):  # each cluster and configuration that the backend is made for
            return [Context(cluster=Cluster(served={...}))]

        def minimum_of(self, manifests):  # how many pods the objects demand before any may run
            return sum(...)

pytest collects the inherited test methods. Nothing here needs a cluster, a clock or an event loop.
"""

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Final

from grove.api import labels
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.kinds import GANGS
from grove.backends.base import Backend, Capability, Context, Fidelity, Loss, Translation, Verdict
from grove.backends.losses import properties_of
from grove.errors import Unsupported
from grove.meta import Manifest
from grove.testing import make

_RACK: Final = "example.com/rack"
_NAMED: Final = {labels.TOPOLOGY_NAME: "cluster"}
_FOREIGN_GATE: Final = "example.com/quota"

#: For each capability a gang that asks for nothing but that.
SAMPLES: Final[dict[Capability, PodGang]] = {
    Capability.GANG: make.gang("one", {"one-worker": 3}),
    Capability.SUBGROUPS: make.gang("two", {"two-leader": 1, "two-worker": 3}, cliqueset="two"),
    Capability.PRIORITY: make.gang("prio", {"prio-worker": 2}, priority="high"),
    Capability.TOPOLOGY_REQUIRED: make.gang("rack", {"rack-worker": 2}, required=_RACK, annotations=_NAMED),
    Capability.TOPOLOGY_PREFERRED: make.gang("near", {"near-worker": 2}, preferred=_RACK, annotations=_NAMED),
    Capability.REUSE: make.gang("again", {"again-worker": 2}, reuse="before"),
    Capability.HIERARCHY: make.gang(
        "tree",
        {"tree-a": 1, "tree-b": 2, "tree-c": 1},
        groups=[make.group("pair", ["tree-a", "tree-b"], required=_RACK)],
        annotations=_NAMED,
    ),
}

#: What a user asks for as a must: a scheduler that cannot do it has to say no.
_MUSTS: Final = (Capability.TOPOLOGY_REQUIRED, Capability.HIERARCHY)

#: Sets that ask for the musts, for backends that refuse at admission.
_SETS: Final[dict[Capability, PodCliqueSet]] = {
    Capability.TOPOLOGY_REQUIRED: make.cliqueset(
        template={"topologyConstraint": {"topologyName": "cluster", "pack": {"required": "rack"}}}
    ),
    Capability.HIERARCHY: make.cliqueset(
        cliques={"a": 1, "b": 2, "c": 1},
        groups=[
            make.scaling_group(
                "pair",
                ["a", "b"],
                topologyConstraint={"topologyName": "cluster", "pack": {"required": "rack"}},
            )
        ],
    ),
}

#: What a status may look like before, and long after, its scheduler was well.
_GARBAGE: Final[tuple[object, ...]] = (
    None,
    {},
    [],
    "?",
    {"conditions": None, "schedulingConditions": None},
    {"conditions": [None, 3, {}, {"type": None, "status": False, "message": 7}]},
    {"schedulingConditions": [None, "x", {"type": "UnschedulableOnNodePool", "reasons": [None, 1]}]},
    {"phase": 5, "conditions": {"type": "Scheduled"}},
)

#: A status that claims success in the words of several schedulers at once.
_SUCCESS: Final[Manifest] = {
    "phase": "Running",
    "conditions": [
        {"type": type_, "status": "True", "reason": "Scheduled", "message": ""}
        for type_ in ("Scheduled", "PodGroupScheduled", "PodGroupInitiallyScheduled")
    ],
}


class BackendConformance:
    """Inherit, set `backend`, and run pytest."""

    backend: ClassVar[Backend]

    def contexts(self) -> Sequence[Context]:
        """The clusters and configurations that the backend is made for."""
        return [Context()]

    def minimum_of(self, manifests: Sequence[Manifest]) -> int | None:
        """How many pods the objects demand together; None only if the objects cannot say it."""
        return None

    def links_of(self, pod: Manifest) -> Iterable[str]:
        """The names of the objects that a prepared pod points to, if it points to any."""
        return ()

    # Translation -----------------------------------------------------------------------------------

    def test_the_same_gang_gives_the_same_objects(self) -> None:
        for context, gang, translation in self._translated():
            assert self.backend.translate(gang, context) == translation

    def test_objects_belong_to_the_gang_and_live_beside_it(self) -> None:
        for _, gang, translation in self._translated():
            for manifest in translation.manifests:
                metadata = manifest["metadata"]
                assert metadata.get("namespace") == gang.namespace, (
                    f"{metadata['name']} is in another namespace"
                )
                owners = [each for each in metadata.get("ownerReferences", ()) if each.get("controller")]
                want = (GANGS.api_version, GANGS.kind, gang.name, gang.uid, True)
                assert [_identity(each) for each in owners] == [want], f"{metadata['name']} has another owner"

    def test_objects_carry_the_labels_by_which_they_are_found_and_cleaned_up(self) -> None:
        for _, gang, translation in self._translated():
            want = {labels.MANAGED_BY: labels.MANAGER, labels.POD_GANG: gang.name}
            if labels.PART_OF in gang.labels:
                want[labels.PART_OF] = gang.labels[labels.PART_OF]
            for manifest in translation.manifests:
                found = manifest["metadata"].get("labels", {})
                assert want.items() <= found.items(), f"{manifest['metadata']['name']} lacks labels"

    def test_objects_are_of_the_kinds_that_are_watched_and_have_names_of_their_own(self) -> None:
        for context, _, translation in self._translated():
            watched = {(each.api_version, each.kind) for each in self.backend.resources(context)}
            keys = [
                (each["apiVersion"], each["kind"], each["metadata"]["name"]) for each in translation.manifests
            ]
            assert {key[:2] for key in keys} <= watched, "an object nobody watches is never repaired"
            assert len(set(keys)) == len(keys), "two objects have one name"
            assert all(0 < len(name) <= 253 for _, _, name in keys), "a name is too long"

    def test_objects_demand_what_the_gang_demands(self) -> None:
        for _, gang, translation in self._translated():
            if translation.manifests:
                minimum = self.minimum_of(translation.manifests)
                assert minimum == gang.minimum, (
                    f"gang {gang.name} needs {gang.minimum} pods, objects say {minimum}"
                )

    # Honesty ---------------------------------------------------------------------------------------

    def test_what_is_declared_is_kept_without_loss(self) -> None:
        for context in self.contexts():
            for capability in self.backend.capabilities(context) & SAMPLES.keys():
                losses = self.backend.translate(SAMPLES[capability], context).losses
                assert capability not in _lost(losses), f"{capability} is declared and lost"

    def test_every_property_of_a_gang_is_accounted_for(self) -> None:
        for _, gang, translation in self._translated():
            told = {loss.property for loss in translation.losses}
            forgotten = [asked for asked in properties_of(gang) if asked not in told]
            assert not forgotten, f"gang {gang.name}: nothing is said about {', '.join(forgotten)}"

    def test_whatever_is_not_enforced_has_a_reason_and_is_no_must(self) -> None:
        for _, gang, translation in self._translated():
            for loss in translation.losses:
                enforced = loss.fidelity is Fidelity.ENFORCED
                assert enforced or loss.reason, f"gang {gang.name}: {loss.property} is lost without a reason"
                refusable = loss.required and loss.fidelity is Fidelity.NOT_EXPRESSIBLE
                assert not refusable, f"gang {gang.name}: {loss.property} is a must and was not refused"

    def test_what_is_not_declared_is_refused_or_reported(self) -> None:
        for context in self.contexts():
            for capability in SAMPLES.keys() - self.backend.capabilities(context):
                assert self._admits_inability(capability, context), f"{capability} vanishes in silence"

    def _admits_inability(self, capability: Capability, context: Context) -> bool:
        if capability in _SETS and self.backend.validate(_SETS[capability], context):
            return True
        try:
            lost = _lost(self.backend.translate(SAMPLES[capability], context).losses)
        except Unsupported:
            return True
        # Whoever has no gangs at all has no minima per podgroup either.
        return capability not in _MUSTS and bool(lost & {capability, Capability.GANG})

    # Pods ------------------------------------------------------------------------------------------

    def test_a_pod_gets_the_gate_and_the_scheduler_and_keeps_foreign_gates(self) -> None:
        for context, gang, pod in self._pods():
            spec = self.backend.prepare_pod(pod, gang, context)["spec"]
            gates = [gate["name"] for gate in spec["schedulingGates"]]
            assert gates.count(self.backend.scheduling_gate) == 1, "the backend's gate is missing or doubled"
            assert _FOREIGN_GATE in gates, "a gate of another owner was removed"
            assert spec["schedulerName"] == self.backend.scheduler_name

    def test_preparing_a_pod_twice_is_preparing_it_once(self) -> None:
        for context, gang, pod in self._pods():
            once = self.backend.prepare_pod(pod, gang, context)
            assert self.backend.prepare_pod(once, gang, context) == once

    def test_preparing_a_pod_leaves_its_argument_and_its_containers_alone(self) -> None:
        for context, gang, pod in self._pods():
            before = copy.deepcopy(pod)
            prepared = self.backend.prepare_pod(pod, gang, context)
            assert pod == before, "prepare_pod changed its argument"
            assert prepared["spec"]["containers"] == before["spec"]["containers"], "containers are the user's"
            assert before["metadata"]["labels"].items() <= prepared["metadata"]["labels"].items()

    def test_a_pod_points_only_to_objects_that_exist(self) -> None:
        for context, gang, pod in self._pods():
            made = {each["metadata"]["name"] for each in self.backend.translate(gang, context).manifests}
            links = set(self.links_of(self.backend.prepare_pod(pod, gang, context)))
            assert links <= made, f"pod points to {sorted(links - made)}"

    # Reading ---------------------------------------------------------------------------------------

    def test_reading_survives_any_status(self) -> None:
        for context, gang, translation in self._translated():
            for status in _GARBAGE:
                objects = [{**each, "status": status} for each in translation.manifests]
                reading = self.backend.read(gang, objects, (), context)
                assert reading.verdict is not Verdict.SCHEDULED, "scheduled without a pod"
            assert self.backend.read(gang, (), (), context).verdict is not Verdict.SCHEDULED

    def test_a_gang_below_its_minimum_is_never_called_scheduled(self) -> None:
        for context, gang, translation in self._translated():
            objects = [{**each, "status": _SUCCESS} for each in translation.manifests]
            pods = [make.pod(clique, index, gang=gang, node="n1") for clique, index in _needed(gang)]
            for missing in range(len(pods)):
                fewer = pods[:missing] + pods[missing + 1 :]
                verdict = self.backend.read(gang, objects, fewer, context).verdict
                assert verdict is not Verdict.SCHEDULED, f"{gang.name} is called scheduled with a pod missing"

    def test_a_gang_whose_minimum_is_bound_is_scheduled(self) -> None:
        for context, gang, translation in self._translated():
            pods = [make.pod(clique, index, gang=gang, node="n1") for clique, index in _needed(gang)]
            assert self.backend.read(gang, translation.manifests, pods, context).verdict is Verdict.SCHEDULED

    # What the rules are applied to -----------------------------------------------------------------

    def _translated(self) -> Iterator[tuple[Context, PodGang, Translation]]:
        """Every sample that the backend accepts in every context; it has to accept the plain one."""
        for context in self.contexts():
            for capability, gang in SAMPLES.items():
                try:
                    translation = self.backend.translate(gang, context)
                except Unsupported:
                    assert capability is not Capability.GANG, "the plainest gang is refused"
                    continue
                yield context, gang, translation

    def _pods(self) -> Iterator[tuple[Context, PodGang, Manifest]]:
        for context, gang, _ in self._translated():
            for podgroup in gang.spec.podgroups:
                for index in range(podgroup.min_replicas + 1):
                    yield (
                        context,
                        gang,
                        make.pod_manifest(podgroup.name, index, gang=gang, gates=[_FOREIGN_GATE]),
                    )


def _lost(losses: Iterable[Loss]) -> set[str]:
    return {loss.property for loss in losses if loss.fidelity is not Fidelity.ENFORCED}


def _identity(owner: Manifest) -> tuple[object, ...]:
    return (
        owner.get("apiVersion"),
        owner.get("kind"),
        owner.get("name"),
        owner.get("uid"),
        owner.get("blockOwnerDeletion"),
    )


def _needed(gang: PodGang) -> Iterator[tuple[str, int]]:
    return ((each.name, index) for each in gang.spec.podgroups for index in range(each.min_replicas))
