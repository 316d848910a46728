"""Pods: gated, sent to the right scheduler, linked to what exists; everything else is the user's."""

import copy
from typing import Final

from grove.testing.rules.subject import OTHERS_GATE, Subject

#: The fields of a pod's spec that a scheduler's backend is there to change.
_OURS: Final = ("schedulerName", "schedulingGates")


class PodRules(Subject):
    """What must hold for the pods that `prepare_pod` returns."""

    def test_a_pod_gets_the_gate_and_the_scheduler_and_keeps_the_gates_of_others(self) -> None:
        for context, gang, pod in self.pods():
            spec = self.backend.prepare_pod(pod, gang, context)["spec"]
            gates = [gate["name"] for gate in spec["schedulingGates"]]
            assert gates.count(self.backend.scheduling_gate) == 1, "the backend's gate is missing or doubled"
            assert OTHERS_GATE in gates, "a gate of another owner was removed"
            assert spec["schedulerName"] == self.backend.scheduler_name

    def test_preparing_a_pod_twice_is_preparing_it_once(self) -> None:
        for context, gang, pod in self.pods():
            once = self.backend.prepare_pod(pod, gang, context)
            assert self.backend.prepare_pod(once, gang, context) == once

    def test_preparing_a_pod_leaves_its_argument_and_its_containers_alone(self) -> None:
        for context, gang, pod in self.pods():
            before = copy.deepcopy(pod)
            prepared = self.backend.prepare_pod(pod, gang, context)
            assert pod == before, "prepare_pod changed its argument"
            assert prepared["spec"]["containers"] == before["spec"]["containers"], "containers are the user's"
            assert before["metadata"]["labels"].items() <= prepared["metadata"]["labels"].items()

    def test_a_pod_points_only_to_objects_that_exist(self) -> None:
        for context, gang, pod in self.pods():
            made = {each["metadata"]["name"] for each in self.backend.translate(gang, context).manifests}
            links = set(self.links_of(self.backend.prepare_pod(pod, gang, context)))
            assert links <= made, f"pod points to {sorted(links - made)}"

    def test_what_the_user_wrote_into_a_pod_stays(self) -> None:
        for context, gang, pod in self.pods():
            prepared = self.backend.prepare_pod(pod, gang, context)
            notes = prepared["metadata"].get("annotations") or {}
            assert pod["metadata"]["annotations"].items() <= notes.items(), "annotations of the user are gone"
            for field, value in pod["spec"].items():
                if field not in _OURS:
                    assert prepared["spec"].get(field) == value, f"spec.{field} is the user's"
