"""Reading: the pods are the truth, any status is survived, and every unscheduled reading has a message."""

import copy
import re
from typing import Final

from grove.backends.base import Verdict
from grove.meta import Manifest
from grove.testing import make
from grove.testing.rules.subject import Subject, needed

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

#: A status that complains in the words of several schedulers at once.
_COMPLAINT: Final[Manifest] = {
    "phase": "Inqueue",
    "conditions": [
        {
            "type": type_,
            "status": status,
            "reason": "NotEnoughResources",
            "message": "0/4 nodes are available",
        }
        for type_, status in (
            ("Unschedulable", "True"),
            ("Scheduled", "False"),
            ("PodGroupScheduled", "False"),
        )
    ],
    "schedulingConditions": [
        {"type": "UnschedulableOnNodePool", "status": "True", "reason": "Unschedulable", "message": "full"}
    ],
}
_CAMEL: Final = re.compile(r"[A-Z][A-Za-z0-9]*")


class ReadingRules(Subject):
    """What must hold for the verdicts that `read` returns."""

    def test_reading_survives_any_status(self) -> None:
        for context, gang, translation in self.translated():
            for status in _GARBAGE:
                objects = [{**each, "status": status} for each in translation.manifests]
                reading = self.backend.read(gang, objects, (), context)
                assert reading.verdict is not Verdict.SCHEDULED, "scheduled without a pod"
            assert self.backend.read(gang, (), (), context).verdict is not Verdict.SCHEDULED

    def test_a_gang_below_its_minimum_is_never_called_scheduled(self) -> None:
        for context, gang, translation in self.translated():
            objects = [{**each, "status": _SUCCESS} for each in translation.manifests]
            pods = [make.pod(clique, index, gang=gang, node="n1") for clique, index in needed(gang)]
            for missing in range(len(pods)):
                fewer = pods[:missing] + pods[missing + 1 :]
                verdict = self.backend.read(gang, objects, fewer, context).verdict
                assert verdict is not Verdict.SCHEDULED, f"{gang.name} is called scheduled with a pod missing"

    def test_a_gang_whose_minimum_is_bound_is_scheduled(self) -> None:
        for context, gang, translation in self.translated():
            pods = [make.pod(clique, index, gang=gang, node="n1") for clique, index in needed(gang)]
            assert self.backend.read(gang, translation.manifests, pods, context).verdict is Verdict.SCHEDULED

    def test_an_old_complaint_never_contradicts_pods_that_are_placed(self) -> None:
        for context, gang, translation in self.translated():
            objects = [{**each, "status": _COMPLAINT} for each in translation.manifests]
            pods = [make.pod(clique, index, gang=gang, node="n1") for clique, index in needed(gang)]
            verdict = self.backend.read(gang, objects, pods, context).verdict
            assert verdict is Verdict.SCHEDULED, f"{gang.name} is placed and still called {verdict}"

    def test_every_unscheduled_reading_has_a_message(self) -> None:
        for context, gang, translation in self.translated():
            waiting = [make.pod(clique, index, gang=gang) for clique, index in needed(gang)]
            refused = [
                make.pod(clique, index, gang=gang, unschedulable="0/4 nodes are available")
                for clique, index in needed(gang)
            ]
            for pods in ((), waiting, refused):
                reading = self.backend.read(gang, translation.manifests, pods, context)
                assert _CAMEL.fullmatch(reading.reason), (
                    f"{gang.name} waits for the reason {reading.reason!r}"
                )
                assert reading.message.strip(), f"{gang.name} waits and no sentence says why"

    def test_reading_changes_nothing_and_says_the_same_again(self) -> None:
        for context, gang, translation in self.translated():
            objects = [{**copy.deepcopy(each), "status": _COMPLAINT} for each in translation.manifests]
            before = copy.deepcopy(objects)
            pods = [make.pod(clique, index, gang=gang) for clique, index in needed(gang)]
            first = self.backend.read(gang, objects, pods, context)
            assert objects == before, "read changed the scheduler's objects"
            assert self.backend.read(gang, objects, pods, context) == first, "read has a memory"
