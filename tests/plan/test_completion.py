"""What sets and scaling groups say once pods have run to their end."""

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from tests.plan.at_once import at_once

from grove.api import conditions, kinds, labels
from grove.api.clique import PodClique
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.api.scaling_group import PodCliqueScalingGroup
from grove.meta import Condition, Manifest
from grove.plan.clique_status import desired_clique_status
from grove.plan.cliqueset_status import SetFacts, cliqueset_status
from grove.plan.gang.status import GangFacts, desired_gang_status
from grove.plan.scaling_group_status import desired_group_status
from grove.testing import make

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DONE, READY, STARTS, GATED = "done", "ready", "starts", "gated"


def pod(clique: str, index: int, how: str) -> Pod:
    if how == GATED:
        return make.pod(clique, index, gates=["g"])
    return make.pod(
        clique, index, node="n1", ready=how == READY, phase="Succeeded" if how == DONE else "Running"
    )


def clique(name: str, pods: list[Pod], edited: int = 0) -> PodClique:
    """A clique that wants all of these pods, as its status tells; edited so often since."""
    manifest = make.clique_manifest(name, len(pods))
    status = desired_clique_status(make.view(PodClique, manifest), pods, now=NOW)
    seen = manifest["metadata"].get("generation", 1)
    metadata = {**manifest["metadata"], "generation": seen + edited}
    return make.view(
        PodClique, {**manifest, "metadata": metadata, "status": {**status, "observedGeneration": seen}}
    )


def gang(name: str, pods: dict[str, list[Pod]]) -> PodGang:
    sizes = {each: len(there) for each, there in pods.items()}
    all_pods = [pod for there in pods.values() for pod in there]
    placed = all(each.bound for each in all_pods)
    words = f"{sum(each.bound for each in all_pods)} of {len(all_pods)} pods placed"
    facts = GangFacts(all_pods, sizes, initialized=True, scheduled=placed, reason="Said", message=words)
    status = desired_gang_status(make.gang(name, sizes), facts, now=NOW)
    return make.view(PodGang, {**make.gang_manifest(name, sizes), "status": status})


@dataclass(frozen=True)
class Case:
    #: For each replica of the set, how the pods of its roles are.
    replicas: list[dict[str, list[str]]]
    #: `Ready`, its reason, `Progressing`, and the message.
    want: tuple[str, str, str, str]
    edited: int = 0
    update: bool = False


CASES = {
    "every pod has succeeded": Case(
        [{"a": [DONE], "b": [DONE, DONE]}],
        ("False", "PodsSucceeded", "False", "gang t-0: 3 of 3 pods succeeded"),
    ),
    "a role has, and the other one runs": Case(
        [{"a": [DONE], "b": [READY]}],
        ("False", "PodsSucceeded", "False", "gang t-0: t-0-a: 0 of 1 pods are ready, 1 succeeded"),
    ),
    "one of two pods has": Case(
        [{"a": [DONE, READY], "b": [READY]}],
        ("False", "PodsSucceeded", "False", "gang t-0: t-0-a: 1 of 2 pods are ready, 1 succeeded"),
    ),
    "a role has, and the other one starts": Case(
        [{"a": [DONE], "b": [STARTS]}],
        ("False", "GangsNotReady", "True", "gang t-0: t-0-b: 0 of 1 pods are ready"),
    ),
    "one replica has, and the other one runs": Case(
        [{"a": [DONE]}, {"a": [READY]}],
        ("False", "PodsSucceeded", "False", "gang t-0: 1 of 1 pod succeeded"),
    ),
    "one replica has, and another one that waits is told": Case(
        [{"a": [DONE]}, {"a": [GATED]}],
        ("False", "GangsNotReady", "True", "gang t-1: 0 of 1 pods placed"),
    ),
    "a clique that was edited since may yet want more": Case(
        [{"a": [DONE]}], ("False", "GangsNotReady", "True", "gang t-0: 1 of 1 pod succeeded"), edited=1
    ),
    "an update is yet to come": Case(
        [{"a": [DONE]}], ("False", "GangsNotReady", "True", "gang t-0: 1 of 1 pod succeeded"), update=True
    ),
    "everything runs": Case([{"a": [READY]}], ("True", "AllGangsReady", "False", "every gang is ready")),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_set_whose_missing_pods_have_succeeded_waits_for_nothing(case: Case) -> None:
    cliques: dict[str, PodClique] = {}
    gangs: dict[str, PodGang] = {}
    for index, roles in enumerate(case.replicas):
        pods = {
            f"t-{index}-{role}": [pod(f"t-{index}-{role}", number, how) for number, how in enumerate(states)]
            for role, states in roles.items()
        }
        cliques |= {name: clique(name, there, case.edited) for name, there in pods.items()}
        gangs[f"t-{index}"] = gang(f"t-{index}", pods)
    sizes = {role: len(states) for role, states in case.replicas[0].items()}
    update = Condition(type=conditions.UPDATE_IN_PROGRESS, status="True", reason="RollingRecreate")
    facts = SetFacts(cliques, gangs, update=update if case.update else None)
    cliqueset = make.cliqueset("t", sizes, replicas=len(case.replicas))
    assert standing(at_once(cliqueset_status(cliqueset, facts, now=NOW))) == case.want


def standing(status: Manifest) -> tuple[str, str, str, str]:
    told = {each["type"]: each for each in status["conditions"]}
    ready, progressing = told["Ready"], told["Progressing"]
    return ready["status"], ready["reason"], progressing["status"], ready["message"]


GROUPS = {
    "every pod has succeeded": (
        [DONE, DONE],
        ("False", "0 of 2 replicas are available; replica 0 (gang t-0) has completed"),
    ),
    "one replica still runs": (
        [READY, DONE],
        ("False", "1 of 2 replicas are available; replica 1 (gang t-0-g-0) has completed"),
    ),
    "one still waits": (
        [DONE, GATED],
        ("True", "0 of 2 replicas are available; replica 1 (gang t-0-g-0) is not placed"),
    ),
    "one does not exist yet": (
        [DONE],
        ("True", "0 of 2 replicas are available; replica 1 (gang t-0-g-0) is not placed"),
    ),
}


@pytest.mark.parametrize(("states", "want"), GROUPS.values(), ids=GROUPS)
def test_a_group_whose_missing_pods_have_succeeded_waits_for_nothing(
    states: list[str], want: tuple[str, str]
) -> None:
    names = [f"t-0-g-{index}-a" for index in range(len(states))]
    cliques = {name: clique(name, [pod(name, 0, how)]) for name, how in zip(names, states, strict=True)}
    spec: Manifest = {"replicas": 2, "minAvailable": 1, "cliqueNames": ["a"]}
    marks = {**labels.owned_by("t"), labels.SET_REPLICA_INDEX: "0"}
    manifest = make.object_manifest(kinds.SCALING_GROUPS, "t-0-g", spec, labels=marks)
    status = desired_group_status(make.view(PodCliqueScalingGroup, manifest), cliques, now=NOW)
    _, _, progressing, message = standing(status)
    assert (progressing, message) == want
