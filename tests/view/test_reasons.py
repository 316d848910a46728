"""Which reason is shown first for sets, gangs, cliques and pods, and what is only a note."""

from dataclasses import dataclass, field
from datetime import datetime

import pytest

from grove.api import kinds
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.api.scaling_group import PodCliqueScalingGroup
from grove.meta import Manifest
from grove.testing import make
from grove.view.model import Reason
from grove.view.pods import ShownPod, phase_of, reasons_of_pod
from grove.view.reasons import (
    reasons_of_clique,
    reasons_of_cliqueset,
    reasons_of_gang,
    reasons_of_scaling_group,
)

NOW = datetime.fromisoformat("2030-01-01T00:48:00Z")


def said(type: str, status: str, message: str = "", reason: str = "Because") -> Manifest:
    return {"type": type, "status": status, "reason": reason, "message": message}


@dataclass(frozen=True)
class GangCase:
    phase: str
    said: list[Manifest]
    #: With a `~` before those that are only notes.
    want: list[str] = field(default_factory=list)


COMPLETE = said("Initialized", "True")
PLACED = said("Scheduled", "True")
NO_ROOM = said("Scheduled", "False", "0/4 nodes are available", "Unschedulable")
GUARANTEE = said("GangGuarantee", "False", "no gang API")
LOSS = said("TranslationLoss", "True", "rack approximated")

GANGS = {
    "a gang that runs has nothing to explain": GangCase("Running", [COMPLETE, PLACED, said("Ready", "True")]),
    "a gang that runs is not asked for its steps": GangCase(
        "Running", [said("Initialized", "False", "1 of 2")]
    ),
    "nobody has written a status": GangCase("", [], ["waits for its pods: no reason reported yet"]),
    "pods are missing": GangCase(
        "Pending",
        [said("Initialized", "False", "1 of 2 pods exist"), NO_ROOM],
        ["waits for its pods: 1 of 2 pods exist"],
    ),
    "the scheduler finds no place": GangCase(
        "Pending",
        [COMPLETE, NO_ROOM, said("Ready", "False", "0 of 2")],
        ["not placed: 0/4 nodes are available"],
    ),
    "a scaled gang waits for its base": GangCase(
        "Pending",
        [
            COMPLETE,
            said("Scheduled", "False", "its base gang a-0 must be placed first", "WaitingForBaseGang"),
            said("Ready", "False", "0 of 2"),
        ],
        ["not placed: its base gang a-0 must be placed first"],
    ),
    "containers start": GangCase(
        "Starting", [COMPLETE, PLACED, said("Ready", "False", "0 of 2")], ["not ready: 0 of 2"]
    ),
    "the scheduler was never told of the gang": GangCase(
        "Pending",
        [
            said("Initialized", "False", "2 of 2 pods exist; install KAI"),
            said("Scheduled", "False", "install KAI", "PreconditionMissing"),
        ],
        ["not submitted to its scheduler: install KAI"],
    ),
    "what keeps it from running comes before what happened to it": GangCase(
        "Pending",
        [said("Unhealthy", "True", "1 of 2 placed"), said("DisruptionTarget", "True"), COMPLETE, NO_ROOM],
        ["not placed: 0/4 nodes are available", "disrupted", "lost pods: 1 of 2 placed"],
    ),
    "notes come last": GangCase(
        "Pending",
        [LOSS, GUARANTEE, said("OwnershipConflict", "True", "spec.queue"), COMPLETE, NO_ROOM],
        [
            "not placed: 0/4 nodes are available",
            "another writer owns a field of its scheduler object: spec.queue",
            "~no gang guarantee: no gang API",
            "~not fully expressible for its scheduler: rack approximated",
        ],
    ),
    "a gang that runs says that its scheduler's objects cannot be kept up": GangCase(
        "Running",
        [said("Degraded", "True", "no permission"), GUARANTEE],
        ["~degraded: no permission", "~no gang guarantee: no gang API"],
    ),
    "what the dominant reason says already is not repeated": GangCase(
        "Pending",
        [
            said("Scheduled", "False", "0 of 2 pods placed; install KAI", "PreconditionMissing"),
            said("Degraded", "True", "install KAI", "PreconditionMissing"),
        ],
        ["not submitted to its scheduler: 0 of 2 pods placed; install KAI"],
    ),
    "a gang that runs says what waits and which pods are not its own": GangCase(
        "Running",
        [
            said("StrayPods", "True", "stray: owned by no PodClique", "NoOwner"),
            said("BackendChangePending", "True", "the set asks for kai", "PodsStillPlaced"),
        ],
        [
            "~move to another scheduler pending: the set asks for kai",
            "~stray pods: stray: owned by no PodClique",
        ],
    ),
    "a gang whose pods have all succeeded lacks nothing": GangCase(
        "Succeeded",
        [
            said("Initialized", "True"),
            said("Scheduled", "True"),
            said("Ready", "False", "3 of 3", "PodsSucceeded"),
        ],
        ["~completed: 3 of 3"],
    ),
    "a gang that runs has notes all the same": GangCase(
        "Running", [GUARANTEE], ["~no gang guarantee: no gang API"]
    ),
}


@pytest.mark.parametrize("case", GANGS.values(), ids=GANGS)
def test_why_a_gang_does_not_run(case: GangCase) -> None:
    manifest = make.gang_manifest("train-0", {"train-0-worker": 2})
    manifest["status"] = {"phase": case.phase, "conditions": case.said}
    found = reasons_of_gang(make.view(PodGang, manifest))
    assert [f"{'' if each.blocking else '~'}{each}" for each in found] == case.want


def test_a_reason_keeps_the_words_of_its_source_and_is_one_line_as_text() -> None:
    manifest = make.gang_manifest("train-0", {"train-0-worker": 2})
    manifest["status"] = {
        "phase": "Pending",
        "conditions": [COMPLETE, said("Scheduled", "False", "no\n  room", "Unschedulable")],
    }
    (found,) = reasons_of_gang(make.view(PodGang, manifest))
    assert found == Reason("not placed", "no\n  room", "Scheduled", "Unschedulable")
    assert str(found) == "not placed: no room"


@dataclass(frozen=True)
class SetCase:
    said: list[Manifest]
    observed: int | None = 1
    want: list[str] = field(default_factory=list)


SETS = {
    "a set that is carried out": SetCase([said("Accepted", "True", "every field is understood")]),
    "a set that is refused": SetCase([said("Accepted", "False", "no rack")], want=["refused: no rack"]),
    "that it is refused comes before why": SetCase(
        [said("TopologyLevelsUnavailable", "True", "rack"), said("Accepted", "False", "no rack")],
        want=["refused: no rack", "topology: rack"],
    ),
    "a set whose children cannot be written": SetCase(
        [
            said("Accepted", "True"),
            said("Degraded", "True", "Service train-0: belongs to nobody", "NameTaken"),
        ],
        want=["degraded: Service train-0: belongs to nobody"],
    ),
    "a set that is recycled unless it recovers": SetCase(
        [
            said("Accepted", "True"),
            said(
                "GangTerminationPending",
                "True",
                "replica 0 is recycled at 2030-01-01T04:00:00Z unless 1 more pod of a-0-decode is ready",
            ),
        ],
        want=[
            "below its minimum: replica 0 is recycled in 3 h 12 m unless 1 more pod of a-0-decode is ready"
        ],
    ),
    "a set of which an edit waits": SetCase(
        [
            said("Accepted", "True"),
            said("EditPending", "True", "priorityClassName: edited", "PodsStillPlaced"),
        ],
        want=["edit pending: priorityClassName: edited"],
    ),
    "a set that is updated": SetCase(
        [
            said("Accepted", "True"),
            said(
                "UpdateInProgress",
                "True",
                "1 of 2 replicas updated, 1 of them available; replica 0 is being updated",
            ),
        ],
        want=["update in progress: 1 of 2 replicas updated, 1 of them available; replica 0 is being updated"],
    ),
    "a set without an operator": SetCase([], None, ["no operator has reconciled it yet"]),
}


@pytest.mark.parametrize("case", SETS.values(), ids=SETS)
def test_why_a_set_is_not_carried_out(case: SetCase) -> None:
    manifest = make.cliqueset_manifest("train")
    manifest["status"] = {"observedGeneration": case.observed, "conditions": case.said}
    assert [str(each) for each in reasons_of_cliqueset(make.view(PodCliqueSet, manifest), NOW)] == case.want


def test_a_clique_says_what_kept_its_pods_from_being_written() -> None:
    manifest = make.clique_manifest("train-0-worker", 2)
    manifest["status"] = {"lastErrors": [{"code": "ERR_FORBIDDEN", "description": "exceeded\nquota"}]}
    (found,) = reasons_of_clique(make.view(PodClique, manifest))
    assert str(found) == "ERR_FORBIDDEN: exceeded quota"


UNPLACED = said("PodScheduled", "False", "no GPUs", "Unschedulable")
PULLING: Manifest = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}


@dataclass(frozen=True)
class PodCase:
    spec: Manifest
    status: Manifest
    phase: str
    want: list[str] = field(default_factory=list)
    deleted: bool = False


PODS = {
    "a pod that runs": PodCase(
        {"nodeName": "n1"}, {"phase": "Running", "conditions": [said("Ready", "True")]}, "Running"
    ),
    "a pod that is not ready": PodCase({"nodeName": "n1"}, {"phase": "Running"}, "NotReady"),
    "a pod that starts": PodCase({"nodeName": "n1"}, {"phase": "Pending"}, "Starting"),
    "a pod without a status": PodCase({}, {}, "Pending"),
    "a pod behind a gate has not reached the scheduler": PodCase(
        {"schedulingGates": [{"name": "g"}]},
        {"phase": "Pending", "conditions": [said("PodScheduled", "False", "gated", "SchedulingGated")]},
        "Gated",
    ),
    "a pod that finds no node": PodCase(
        {}, {"phase": "Pending", "conditions": [UNPLACED]}, "Pending", ["not placed: no GPUs"]
    ),
    "a container that cannot run": PodCase(
        {"nodeName": "n1"},
        {"phase": "Pending", "containerStatuses": [{"name": "main", "state": PULLING}]},
        "Starting",
        ["container main: no such image"],
    ),
    "an init container comes before the others": PodCase(
        {"nodeName": "n1"},
        {
            "phase": "Pending",
            "containerStatuses": [{"name": "main", "state": PULLING}],
            "initContainerStatuses": [{"name": "first", "state": PULLING}],
        },
        "Starting",
        ["container first: no such image"],
    ),
    "a pod that goes away needs no reason": PodCase(
        {"nodeName": "n1"},
        {"phase": "Running", "containerStatuses": [{"name": "main", "state": PULLING}]},
        "Terminating",
        deleted=True,
    ),
}


@pytest.mark.parametrize("case", PODS.values(), ids=PODS)
def test_where_a_pod_is_and_why_it_does_not_go_on(case: PodCase) -> None:
    manifest = make.object_manifest(kinds.PODS, "a", case.spec, deleted=case.deleted)
    manifest["status"] = case.status
    pod = make.view(ShownPod, manifest)
    assert (phase_of(pod), [str(each) for each in reasons_of_pod(pod)]) == (case.phase, case.want)


def test_a_pod_of_which_the_containers_were_not_read_has_no_reason_of_theirs() -> None:
    manifest = make.object_manifest(kinds.PODS, "a", {"nodeName": "n1"})
    manifest["status"] = {"containerStatuses": [{"name": "main", "state": PULLING}]}
    assert reasons_of_pod(make.view(Pod, manifest)) == ()


REFUSED: Manifest = {
    "code": "ERR_SYNC_PODCLIQUE",
    "description": "quota",
    "observedAt": "2026-01-01T00:00:00Z",
}

GROUPS: dict[str, tuple[int, list[Manifest], list[str]]] = {
    "a group that has what it needs has nothing to explain": (2, [], []),
    "a group above its minimum has nothing to explain": (5, [], []),
    "a group below its minimum": (
        1,
        [],
        ["~scaled below its minimum: 1 of at least 2 replicas are asked for"],
    ),
    "a group of nothing": (0, [], ["~scaled to zero"]),
    "what went wrong comes first": (0, [REFUSED], ["ERR_SYNC_PODCLIQUE: quota", "~scaled to zero"]),
}


@pytest.mark.parametrize(("replicas", "errors", "want"), GROUPS.values(), ids=GROUPS)
def test_why_a_scaling_group_is_not_as_it_should_be(
    replicas: int, errors: list[Manifest], want: list[str]
) -> None:
    spec: Manifest = {"replicas": replicas, "minAvailable": 2, "cliqueNames": ["x"]}
    manifest = make.object_manifest(kinds.SCALING_GROUPS, "train-0-x", spec)
    group = make.view(PodCliqueScalingGroup, {**manifest, "status": {"lastErrors": errors}})
    found = reasons_of_scaling_group(group)
    assert [f"{'' if each.blocking else '~'}{each}" for each in found] == want


@pytest.mark.parametrize(("replicas", "want"), [(2, []), (0, ["~scaled to zero"])])
def test_a_clique_that_somebody_scaled_to_zero_says_so(replicas: int, want: list[str]) -> None:
    manifest = make.object_manifest(kinds.CLIQUES, "train-0-x", {"replicas": replicas})
    found = reasons_of_clique(make.view(PodClique, manifest))
    assert [f"{'' if each.blocking else '~'}{each}" for each in found] == want
