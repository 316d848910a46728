"""What sets and gangs without any pods say: that nothing is missing, and why there is nothing."""

from datetime import UTC, datetime

import pytest
from tests.plan.at_once import at_once

from grove.api.clique import PodClique
from grove.meta import Manifest
from grove.plan.cliqueset_status import SetFacts, cliqueset_status
from grove.plan.gang.status import GangFacts, desired_gang_status
from grove.testing import make

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def told(status: Manifest, type: str) -> tuple[str, str]:
    found = next(each for each in status["conditions"] if each["type"] == type)
    return found["status"], found["message"]


def clique(name: str, replicas: int) -> PodClique:
    manifest = make.clique_manifest(name, replicas)
    manifest["status"] = {"readyReplicas": replicas, "updatedReplicas": replicas}
    return make.view(PodClique, manifest)


IDLE = "every role is scaled to zero, so that there are no pods"
SETS = {
    "all roles are at zero": (1, {"t-0-a": 0, "t-0-b": 0}, "1 of 1 replicas are available", IDLE),
    "one role is not": (1, {"t-0-a": 0, "t-0-b": 1}, "1 of 1 replicas are available", ""),
    "the set itself is": (0, {}, "0 of 0 replicas are available", "the set is scaled to zero"),
}


@pytest.mark.parametrize(("replicas", "cliques", "available", "why"), SETS.values(), ids=SETS)
def test_a_set_without_pods_is_ready_and_says_why_there_are_none(
    replicas: int, cliques: dict[str, int], available: str, why: str
) -> None:
    facts = SetFacts({name: clique(name, number) for name, number in cliques.items()}, {})
    cliqueset = make.cliqueset("t", {"a": 1, "b": 1}, replicas=replicas)
    status = at_once(cliqueset_status(cliqueset, facts, now=NOW))
    assert told(status, "Ready") == ("True", why or "every gang is ready")
    assert told(status, "Available") == ("True", f"{available}; {why}" if why else available)


def test_a_set_whose_cliques_do_not_exist_yet_is_not_said_to_be_at_zero() -> None:
    status = at_once(cliqueset_status(make.cliqueset("t", {"a": 1}), SetFacts({}, {}), now=NOW))
    assert told(status, "Ready") == ("False", "gang t-0 does not exist yet")


@pytest.mark.parametrize(
    ("wanted", "created", "ready"),
    [
        (
            0,
            "every role of the gang is scaled to zero, so that it needs no pods",
            "every role of the gang is scaled to zero, so that it needs no pods",
        ),
        (1, "every pod exists and is listed", "1 pod is ready"),
    ],
)
def test_a_gang_without_pods_says_why_there_are_none(wanted: int, created: str, ready: str) -> None:
    pods = [make.pod("t-0-a", index, node="n1", ready=True) for index in range(wanted)]
    facts = GangFacts(pods, {"t-0-a": wanted}, initialized=True)
    status = desired_gang_status(make.gang("t-0", {"t-0-a": wanted}), facts, now=NOW)
    assert told(status, "Initialized") == ("True", created)
    assert told(status, "Ready") == ("True", ready)
