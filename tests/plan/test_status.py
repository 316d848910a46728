"""What gangs, cliques and sets say about themselves."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from tests.plan.at_once import at_once

from grove.api import conditions, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.errors import FieldError
from grove.meta import Condition, Manifest
from grove.plan.clique_status import desired_clique_status, replaces_another
from grove.plan.cliqueset_status import SetFacts, cliqueset_status, outdated
from grove.plan.gang.status import GangFacts, desired_gang_status
from grove.testing import make

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
CLIQUE = "train-0-worker"


def pods(placed: int = 0, ready: int = 0, gated: int = 0) -> list[Pod]:
    made = [make.pod(CLIQUE, index, node="n1", ready=index < ready) for index in range(placed)]
    return made + [make.pod(CLIQUE, placed + index, gates=["g"]) for index in range(gated)]


DONE = [make.pod(CLIQUE, index, node="n1", phase="Succeeded") for index in range(2)]
READY_POD = pods(placed=1, ready=1)


#: On every kind; `test_standing` is about them.
STANDING = {"Available", "Progressing", "Stalled"}


def told(status: Manifest) -> dict[str, str]:
    return {
        condition["type"]: condition["status"]
        for condition in status["conditions"]
        if condition["type"] not in STANDING
    }


def gang_with(status: Manifest, *, listed: int = 2) -> PodGang:
    group = make.podgroup(CLIQUE, 2)
    names = [f"p{number}" for number in range(listed)]
    group["podReferences"] = [{"namespace": "default", "name": name, "uid": name} for name in names]
    return make.view(PodGang, {**make.gang_manifest("train-0", [group]), "status": status})


@dataclass(frozen=True)
class GangCase:
    facts: GangFacts
    phase: str
    want: dict[str, str] = field(default_factory=dict)


GANGS = {
    "a gang whose pods are missing is Pending and not Initialized": GangCase(
        GangFacts(pods(gated=1), {CLIQUE: 2}, initialized=False),
        "Pending",
        {"Initialized": "False", "Scheduled": "False", "Ready": "False"},
    ),
    "a complete gang that is not placed is Pending": GangCase(
        GangFacts(pods(gated=2), {CLIQUE: 2}, initialized=True),
        "Pending",
        {"Initialized": "True", "Scheduled": "False", "Ready": "False"},
    ),
    "a placed gang whose pods start is Starting": GangCase(
        GangFacts(pods(placed=2, ready=1), {CLIQUE: 2}, initialized=True, scheduled=True),
        "Starting",
        {"Initialized": "True", "Scheduled": "True", "Ready": "False"},
    ),
    "a placed gang whose pods are ready is Running": GangCase(
        GangFacts(pods(placed=2, ready=2), {CLIQUE: 2}, initialized=True, scheduled=True),
        "Running",
        {"Initialized": "True", "Scheduled": "True", "Ready": "True"},
    ),
    "a gang of which a pod succeeded while the other one is ready is Running": GangCase(
        GangFacts([*DONE[:1], *READY_POD], {CLIQUE: 2}, initialized=True, scheduled=True),
        "Running",
        {"Initialized": "True", "Scheduled": "True", "Ready": "True"},
    ),
    "a gang whose pods succeeded is Succeeded": GangCase(
        GangFacts(DONE, {CLIQUE: 2}, initialized=True, scheduled=True),
        "Succeeded",
        {"Initialized": "True", "Scheduled": "True", "Ready": "False"},
    ),
}


@pytest.mark.parametrize("case", GANGS.values(), ids=GANGS)
def test_gang_status(case: GangCase) -> None:
    status = desired_gang_status(make.gang("train-0", {CLIQUE: 2}), case.facts, now=NOW)
    assert (status["phase"], told(status)) == (case.phase, case.want)


def message_of(status: Manifest, type: str) -> str:
    return next(str(each["message"]) for each in status["conditions"] if each["type"] == type)


SUCCEEDED = {
    "all of them": (DONE, conditions.PODS_SUCCEEDED, "2 of 2 pods succeeded"),
    "one, and the other one is ready": (
        [*DONE[:1], *READY_POD],
        conditions.ALL_PODS_READY,
        "1 pod is ready, 1 succeeded",
    ),
    "one, and the other one starts": (
        [*DONE[:1], *pods(placed=1)],
        conditions.PODS_NOT_READY,
        f"{CLIQUE}: 0 of 2 pods are ready, 1 succeeded",
    ),
}


def test_a_gang_says_which_cliques_wait_for_which() -> None:
    names = [f"train-0-{letter}" for letter in "abcdef"]
    gang = make.gang(podgroups=dict.fromkeys(names, 1))
    ready = make.pod(names[0], gang=gang, node="n", ready=True)
    after = {names[1]: names[:1], names[2]: names[:2], names[5]: names[:5]}
    facts = GangFacts([ready], dict.fromkeys(names, 1), True, scheduled=True, starts_after=after)
    status = desired_gang_status(gang, facts, now=NOW)
    message = next(each["message"] for each in status["conditions"] if each["type"] == conditions.READY)
    assert message.split("; ") == [
        "train-0-b: 0 of 1 pods are ready",
        "train-0-c: 0 of 1 pods are ready (they start after train-0-b)",
        "train-0-d: 0 of 1 pods are ready",
        "train-0-e: 0 of 1 pods are ready",
        "train-0-f: 0 of 1 pods are ready (they start after train-0-b, train-0-c, train-0-d and 1 more)",
    ]


@pytest.mark.parametrize(("there", "reason", "message"), SUCCEEDED.values(), ids=SUCCEEDED)
def test_a_gang_counts_the_pods_that_succeeded(there: list[Pod], reason: str, message: str) -> None:
    facts = GangFacts(there, {CLIQUE: 2}, initialized=True, scheduled=True)
    status = desired_gang_status(gang_with({}), facts, now=NOW)
    ready = next(each for each in status["conditions"] if each["type"] == conditions.READY)
    assert (ready["reason"], ready["message"]) == (reason, message)


def test_a_gang_that_is_not_complete_counts_what_is_missing_and_says_what_keeps_it() -> None:
    facts = GangFacts(pods(gated=1), {CLIQUE: 2}, initialized=False, troubles=["exceeded quota: gpus"])
    status = desired_gang_status(make.gang("train-0", {CLIQUE: 2}), facts, now=NOW)
    assert message_of(status, "Initialized") == "1 of 2 pods exist; exceeded quota: gpus"


def test_the_schedulers_words_are_in_the_condition() -> None:
    facts = GangFacts(
        pods(gated=2), {CLIQUE: 2}, initialized=True, reason="Unschedulable", message="0/2 nodes: no GPUs"
    )
    status = desired_gang_status(make.gang("train-0", {CLIQUE: 2}), facts, now=NOW)
    assert message_of(status, "Scheduled") == "0/2 nodes: no GPUs"


def test_a_gang_that_lost_its_pods_is_unhealthy_until_it_is_placed_again() -> None:
    before = {
        "conditions": [{"type": "Scheduled", "status": "True"}, {"type": "Initialized", "status": "True"}]
    }
    lost = desired_gang_status(
        gang_with(before), GangFacts(pods(placed=1, ready=1), {CLIQUE: 2}, initialized=False), now=NOW
    )
    assert told(lost)["Unhealthy"] == "True"
    still = desired_gang_status(
        gang_with(lost), GangFacts(pods(gated=2), {CLIQUE: 2}, initialized=False), now=LATER
    )
    assert told(still)["Unhealthy"] == "True"
    back = desired_gang_status(
        gang_with(still), GangFacts(pods(placed=2), {CLIQUE: 2}, initialized=True, scheduled=True), now=LATER
    )
    assert "Unhealthy" not in told(back)


def test_a_gang_remembers_that_it_was_placed_while_one_of_its_cliques_does_not_exist() -> None:
    before = {
        "conditions": [{"type": "Scheduled", "status": "True"}, {"type": "Initialized", "status": "True"}]
    }
    deleted = desired_gang_status(gang_with(before), GangFacts([], {}, initialized=False), now=NOW)
    assert told(deleted)["Unhealthy"] == "True"
    scaled = desired_gang_status(gang_with(before), GangFacts([], {CLIQUE: 1}, initialized=False), now=NOW)
    assert "Unhealthy" not in told(scaled)


@pytest.mark.parametrize(
    ("created", "complete", "replaces"),
    [
        ("2026-01-01T12:00:01Z", "True", True),
        ("2026-01-01T12:00:00Z", "True", False),
        ("2026-01-01T11:59:59Z", "True", False),
        ("2026-01-01T12:00:01Z", "False", False),
        ("", "True", False),
    ],
)
def test_a_clique_that_is_younger_than_the_pods_of_its_gang_replaces_another(
    created: str, complete: str, replaces: bool
) -> None:
    manifest = make.clique_manifest(CLIQUE, 1)
    manifest["metadata"]["creationTimestamp"] = created
    said = {"type": "Initialized", "status": complete, "lastTransitionTime": "2026-01-01T12:00:00Z"}
    gang = gang_with({"conditions": [said]})
    assert replaces_another(make.view(PodClique, manifest), gang) is replaces


RAN = {
    "conditions": [
        {"type": "Scheduled", "status": "True"},
        {"type": "Initialized", "status": "True"},
        {"type": "Unhealthy", "status": "True"},
    ]
}


def test_initialized_stays_while_the_gang_lists_pods_although_some_are_lost() -> None:
    status = desired_gang_status(gang_with(RAN), GangFacts([], {CLIQUE: 2}, initialized=False), now=NOW)
    assert told(status)["Initialized"] == "True"


def test_a_gang_that_is_restarted_is_not_initialized_nor_unhealthy_any_more() -> None:
    """Its list was emptied in the same look: what is seen still names the pods of the start before."""
    facts = GangFacts([], {CLIQUE: 2}, initialized=False, restarted=True)
    status = desired_gang_status(gang_with(RAN), facts, now=NOW)
    assert told(status) == {"Initialized": "False", "Scheduled": "False", "Ready": "False"}
    assert message_of(status, "Initialized") == "0 of 2 pods exist"


@pytest.mark.parametrize(
    ("there", "wanted", "message"),
    [
        (1, {CLIQUE: 2}, "every pod existed and was listed when the gates opened; not every pod exists now"),
        (2, {}, "every pod existed and was listed when the gates opened; not every pod exists now"),
        (2, {CLIQUE: 2}, "every pod exists and is listed"),
    ],
    ids=["a pod is lost", "a clique is gone", "they are all there"],
)
def test_a_gang_that_stays_initialized_says_whether_every_pod_exists(
    there: int, wanted: dict[str, int], message: str
) -> None:
    facts = GangFacts(pods(placed=there), wanted, initialized=False)
    assert message_of(desired_gang_status(gang_with(RAN), facts, now=NOW), "Initialized") == message


def test_a_gang_that_lists_nothing_has_lost_nothing_and_is_not_initialized() -> None:
    facts = GangFacts(pods(gated=1), {CLIQUE: 2}, initialized=False)
    status = desired_gang_status(gang_with(RAN, listed=0), facts, now=NOW)
    assert told(status) == {"Initialized": "False", "Scheduled": "False", "Ready": "False"}


def test_a_gang_whose_new_pods_are_listed_is_initialized_again() -> None:
    facts = GangFacts(pods(gated=2), {CLIQUE: 2}, initialized=True)
    assert told(desired_gang_status(gang_with({}, listed=0), facts, now=NOW))["Initialized"] == "True"


def test_a_transition_time_moves_only_when_the_status_does() -> None:
    facts = GangFacts(pods(gated=2), {CLIQUE: 2}, initialized=True, message="one")
    first = desired_gang_status(make.gang("train-0", {CLIQUE: 2}), facts, now=NOW)
    again = GangFacts(pods(gated=2), {CLIQUE: 2}, initialized=True, message="another")
    second = desired_gang_status(gang_with(first), again, now=LATER)
    times = {each["type"]: each["lastTransitionTime"] for each in second["conditions"]}
    assert set(times.values()) == {"2026-01-01T12:00:00Z"}
    assert message_of(second, "Scheduled") == "another"


def test_a_transition_time_that_lies_ahead_becomes_now() -> None:
    facts = GangFacts(pods(gated=2), {CLIQUE: 2}, initialized=True)
    ahead = desired_gang_status(make.gang("train-0", {CLIQUE: 2}), facts, now=LATER)
    status = desired_gang_status(gang_with(ahead), facts, now=NOW)
    assert {each["lastTransitionTime"] for each in status["conditions"]} == {"2026-01-01T12:00:00Z"}


@pytest.mark.parametrize(
    "written", ["0000-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-01-01t11:00:00z", "2026-01-01T11:00:00"]
)
def test_a_transition_time_that_nobody_can_reckon_with_becomes_now(written: str) -> None:
    facts = GangFacts(pods(gated=2), {CLIQUE: 2}, initialized=True)
    status = desired_gang_status(make.gang("train-0", {CLIQUE: 2}), facts, now=NOW)
    forged = {"conditions": [{**each, "lastTransitionTime": written} for each in status["conditions"]]}
    mended = desired_gang_status(gang_with(forged), facts, now=NOW)
    assert {each["lastTransitionTime"] for each in mended["conditions"]} == {"2026-01-01T12:00:00Z"}


def test_conditions_of_other_writers_stay() -> None:
    before = {"conditions": [{"type": "SomebodyElses", "status": "True"}]}
    status = desired_gang_status(gang_with(before), GangFacts([], {}, initialized=False), now=NOW)
    assert told(status)["SomebodyElses"] == "True"


@dataclass(frozen=True)
class CliqueCase:
    pods: list[Pod]
    want: dict[str, int]
    breached: str
    reason: str


CLIQUES = {
    "gated pods are counted and break the minimum": CliqueCase(
        pods(gated=2),
        {"replicas": 2, "scheduledReplicas": 0, "readyReplicas": 0, "scheduleGatedReplicas": 2},
        "True",
        conditions.SCHEDULED_BELOW_MIN_AVAILABLE,
    ),
    "pods that start for the first time do not": CliqueCase(
        pods(placed=2),
        {"replicas": 2, "scheduledReplicas": 2, "readyReplicas": 0, "scheduleGatedReplicas": 0},
        "False",
        conditions.SUFFICIENT_READY_PODS,
    ),
    "pods that succeeded do not": CliqueCase(
        DONE,
        {"replicas": 2, "scheduledReplicas": 2, "readyReplicas": 0, "scheduleGatedReplicas": 0},
        "False",
        conditions.SUFFICIENT_READY_PODS,
    ),
    "ready pods do not": CliqueCase(
        pods(placed=2, ready=2),
        {"replicas": 2, "scheduledReplicas": 2, "readyReplicas": 2, "scheduleGatedReplicas": 0},
        "False",
        conditions.SUFFICIENT_READY_PODS,
    ),
}


def unready(reason: str = "", *, containers: str = "True", phase: str = "Running") -> list[Pod]:
    """A pod that is ready, and one that is not and of which this is said."""
    told = {"type": "Ready", "status": "False", **({"reason": reason} if reason else {})}
    pod = make.pod_manifest(CLIQUE, 1, node="n2", phase=phase)
    pod["status"]["conditions"] = [told, {"type": "ContainersReady", "status": containers}]
    return [*READY_POD, make.view(Pod, pod)]


@pytest.mark.parametrize(
    ("there", "breached"),
    {
        "a node does not answer": (unready(), "True"),
        "so does that of a pod that starts": (unready("ContainersNotReady", containers="False"), "False"),
        "a readiness gate is closed": (unready("ReadinessGatesNotReady"), "False"),
        "the pod has succeeded": (unready(phase="Succeeded"), "False"),
    }.values(),
)
def test_a_pod_that_was_ready_on_a_node_that_does_not_answer_is_missing(
    there: list[Pod], breached: str
) -> None:
    status = desired_clique_status(make.clique(CLIQUE, 2), there, now=NOW)
    breach = next(each for each in status["conditions"] if each["type"] == conditions.MIN_AVAILABLE_BREACHED)
    assert breach["status"] == breached
    if breached == "True":
        assert breach["message"] == "1 of 2 placed pods ready or starting, at least 2 are needed"


@pytest.mark.parametrize("case", CLIQUES.values(), ids=CLIQUES)
def test_clique_status(case: CliqueCase) -> None:
    status = desired_clique_status(make.clique(CLIQUE, 2), case.pods, now=NOW)
    breach = next(each for each in status["conditions"] if each["type"] == conditions.MIN_AVAILABLE_BREACHED)
    assert {name: status[name] for name in case.want} == case.want
    assert (breach["status"], breach["reason"]) == (case.breached, case.reason)


def test_a_pod_that_crashed_does_not_count_as_working() -> None:
    crashed = make.pod_manifest(CLIQUE, 0, node="n1")
    crashed["status"]["containerStatuses"] = [
        {"ready": False, "lastState": {"terminated": {"exitCode": 1}}},
    ]
    status = desired_clique_status(
        make.clique(CLIQUE, 2), [make.view(Pod, crashed), make.pod(CLIQUE, 1, node="n1", ready=True)], now=NOW
    )
    breach = next(each for each in status["conditions"] if each["type"] == conditions.MIN_AVAILABLE_BREACHED)
    assert (breach["status"], breach["reason"]) == ("True", conditions.INSUFFICIENT_READY_PODS)


@pytest.mark.parametrize("message", ["", "3x pods", "² pods", "some pods"])
def test_a_clique_says_again_that_it_had_its_minimum_when_somebody_rewrote_it(message: str) -> None:
    reached = {"type": conditions.MIN_AVAILABLE_REACHED, "status": "True", "message": message}
    known = make.clique_manifest(CLIQUE, 1) | {"status": {"conditions": [reached]}}
    working = [make.pod(CLIQUE, 0, node="n1", ready=True)]
    status = desired_clique_status(make.view(PodClique, known), working, now=NOW)
    assert message_of(status, conditions.MIN_AVAILABLE_REACHED) == "1 pod was placed and working"


@pytest.mark.parametrize(
    ("said", "revision", "told"),
    [
        ("2 pods of revision first were placed and working", "first", True),
        ("2 pods of revision first were placed and working", "second", False),
        ("1 pod of revision first was placed and working", "first", False),
        # From before revisions were told; and while the gang is not known.
        ("2 pods were placed and working", "first", True),
        ("2 pods of revision first were placed and working", "", True),
    ],
)
def test_a_clique_remembers_that_it_had_its_minimum_until_its_gang_is_started_again(
    said: str, revision: str, told: bool
) -> None:
    reached = {"type": conditions.MIN_AVAILABLE_REACHED, "status": "True", "message": said}
    known = make.view(PodClique, make.clique_manifest(CLIQUE, 2) | {"status": {"conditions": [reached]}})
    status = desired_clique_status(known, pods(placed=1), revision=revision, now=NOW)
    assert any(each["type"] == conditions.MIN_AVAILABLE_REACHED for each in status["conditions"]) is told


def test_a_clique_says_in_which_start_of_its_gang_it_had_its_minimum() -> None:
    status = desired_clique_status(make.clique(CLIQUE, 2), pods(placed=2), revision="abc", now=NOW)
    said = message_of(status, conditions.MIN_AVAILABLE_REACHED)
    assert said == "2 pods of revision abc were placed and working"


def test_the_scale_selector_finds_exactly_the_cliques_pods() -> None:
    clique = make.clique(CLIQUE, 2, labels=labels.owned_by("train"))
    assert desired_clique_status(clique, [], now=NOW)["hpaPodSelector"] == (
        "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=train,"
        "grove.io/podclique=train-0-worker"
    )


def clique_ready(name: str, ready: int) -> PodClique:
    manifest = make.clique_manifest(name, 1)
    manifest["status"] = {"readyReplicas": ready, "updatedReplicas": ready}
    return make.view(PodClique, manifest)


def test_a_set_counts_the_replicas_whose_every_clique_is_ready() -> None:
    cliqueset = make.cliqueset("t", {"a": 1, "b": 1}, replicas=2)
    cliques = {
        name: clique_ready(name, ready)
        for name, ready in {"t-0-a": 1, "t-0-b": 1, "t-1-a": 1, "t-1-b": 0}.items()
    }
    status = at_once(cliqueset_status(cliqueset, SetFacts(cliques, {}), now=NOW))
    assert (status["replicas"], status["availableReplicas"], status["updatedReplicas"]) == (2, 1, 1)


def test_the_sentence_about_an_update_names_the_number_of_its_field() -> None:
    """A replica that is updated and not available counts in the sentence, and its field leaves it out."""
    cliqueset = make.cliqueset("t", {"a": 1}, replicas=3)
    cliques = {
        f"t-{number}-a": clique_ready(f"t-{number}-a", ready) for number, ready in enumerate((1, 0, 1))
    }
    going = Condition(
        type=conditions.UPDATE_IN_PROGRESS, status="True", reason="RollingRecreate", message="it goes on"
    )
    facts = SetFacts(cliques, {}, update=going, behind={2})
    status = at_once(cliqueset_status(cliqueset, facts, now=NOW))
    assert status["updatedReplicas"] == 1
    assert message_of(status, conditions.UPDATE_IN_PROGRESS) == (
        "2 of 3 replicas updated, 1 of them available; it goes on"
    )


def test_a_set_says_why_its_first_pending_replica_is_pending() -> None:
    cliqueset = make.cliqueset("t", {"a": 1}, replicas=2)
    gang = make.view(
        PodGang,
        {
            **make.gang_manifest("t-1", {"t-1-a": 1}),
            "status": {
                "conditions": [
                    {"type": "Initialized", "status": "True"},
                    {"type": "Scheduled", "status": "False", "message": "0/4 nodes are available"},
                ]
            },
        },
    )
    facts = SetFacts({"t-0-a": clique_ready("t-0-a", 1)}, {"t-1": gang})
    status = at_once(cliqueset_status(cliqueset, facts, now=NOW))
    assert message_of(status, conditions.AVAILABLE) == (
        "1 of 2 replicas are available; gang t-1: 0/4 nodes are available"
    )


def test_a_refused_set_names_the_field() -> None:
    error = FieldError("spec.template.cliques[0].name", "too long")
    status = at_once(cliqueset_status(make.cliqueset("t"), SetFacts({}, {}, refused=[error]), now=NOW))
    assert told(status)[conditions.ACCEPTED] == "False"
    assert message_of(status, conditions.ACCEPTED) == "spec.template.cliques[0].name: too long"


def test_a_set_says_what_was_edited_and_waits_until_it_does_not() -> None:
    waiting = Condition(
        type=conditions.EDIT_PENDING, status="True", reason="PodsStillPlaced", message="priority waits"
    )
    status = at_once(cliqueset_status(make.cliqueset("t"), SetFacts({}, {}, pending=waiting), now=NOW))
    assert message_of(status, conditions.EDIT_PENDING) == "priority waits"
    told_before = make.view(PodCliqueSet, {**make.cliqueset_manifest("t"), "status": status})
    after = at_once(cliqueset_status(told_before, SetFacts({}, {}), now=LATER))
    assert conditions.EDIT_PENDING not in told(after)


def test_a_reason_that_is_no_name_does_not_cost_the_status() -> None:
    gang = make.gang("train-0", {"train-0-worker": 1})
    facts = GangFacts(
        pods=(), wanted={}, initialized=False, reason="Not enough resources", message="0 of 1 pods placed"
    )
    [told] = [
        each
        for each in desired_gang_status(gang, facts, now=datetime(2026, 1, 1, tzinfo=UTC))["conditions"]
        if each["type"] == "Scheduled"
    ]
    assert told["reason"] == "SchedulerError"
    assert told["message"] == "Not enough resources: 0 of 1 pods placed"


def test_pods_of_an_older_template_are_counted() -> None:
    manifest = {**make.clique_manifest("t-0-a", 3), "status": {"replicas": 3, "updatedReplicas": 1}}
    cliques = [make.view(PodClique, manifest)]
    told = outdated(make.cliqueset("t", {"a": 3}, strategy={"type": "OnDelete"}), cliques)
    assert [each.message.split(";")[0] for each in told] == ["2 pods run an older template"]
    assert outdated(make.cliqueset("t", {"a": 3}), cliques) == [], "an update replaces them"
