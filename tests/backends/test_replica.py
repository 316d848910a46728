"""Scaled gangs stay in the domain that their set asks of the whole replica."""

import pytest

from grove.api import labels
from grove.backends.base import Capability, Fidelity, Treatment
from grove.backends.replica import replica_treatments, stay_with_replica
from grove.backends.treatments import account
from grove.errors import Unsupported
from grove.testing import make

RACK, ZONE = "example.com/rack", "example.com/zone"
SELECTOR = {"matchLabels": {labels.PART_OF: "llm", labels.SET_REPLICA_INDEX: "3"}}
REQUIRED = {"labelSelector": SELECTOR, "topologyKey": RACK}
PREFERRED = {"weight": 100, "podAffinityTerm": {"labelSelector": SELECTOR, "topologyKey": ZONE}}
THEIRS = {"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": "kubernetes.io/hostname"}
_MUST = "requiredDuringSchedulingIgnoredDuringExecution"
_WISH = "preferredDuringSchedulingIgnoredDuringExecution"


def scaled(**notes: str):  # type: ignore[no-untyped-def]
    names = {"required": labels.REPLICA_REQUIRED, "preferred": labels.REPLICA_PREFERRED}
    return make.gang(
        "llm-3-dec-0",
        {"llm-3-dec-1-work": 2},
        cliqueset="llm",
        labels={labels.BASE_POD_GANG: "llm-3", labels.SET_REPLICA_INDEX: "3"},
        annotations={names[word]: key for word, key in notes.items()},
    )


CASES = {
    "nothing": ({}, {}),
    "required": ({"required": RACK}, {_MUST: [REQUIRED]}),
    "preferred": ({"preferred": ZONE}, {_WISH: [PREFERRED]}),
    "both": ({"required": RACK, "preferred": ZONE}, {_MUST: [REQUIRED], _WISH: [PREFERRED]}),
}


@pytest.mark.parametrize(("notes", "want"), CASES.values(), ids=CASES)
def test_what_the_replica_shares_is_affinity_to_its_pods(notes: dict[str, str], want: object) -> None:
    pod = make.pod_manifest("llm-3-dec-1-work")
    stay_with_replica(pod, scaled(**notes))
    assert (pod["spec"].get("affinity") or {}).get("podAffinity", {}) == want


def test_affinity_of_the_user_stays() -> None:
    pod = make.pod_manifest("llm-3-dec-1-work", spec={"affinity": {"podAffinity": {_MUST: [THEIRS]}}})
    for _ in range(2):
        stay_with_replica(pod, scaled(required=RACK))
    assert pod["spec"]["affinity"]["podAffinity"] == {_MUST: [THEIRS, REQUIRED]}


def test_a_must_is_refused_by_a_scheduler_that_does_not_keep_it_and_a_wish_is_a_loss() -> None:
    with pytest.raises(Unsupported, match="cannot hold a scaled gang to the topology domain of its replica"):
        account(scaled(required=RACK, preferred=ZONE), frozenset({Capability.GANG}), "acme")
    lost = account(scaled(preferred=ZONE), frozenset({Capability.GANG}), "acme")[-1]
    assert (lost.property, lost.fidelity) == ("replica-topology", Fidelity.NOT_EXPRESSIBLE)


def test_a_must_is_enforced_and_a_wish_approximated_where_pod_affinity_holds() -> None:
    able = frozenset(Capability)
    must = scaled(required=RACK)
    assert account(must, able, "acme", replica_treatments(must))[-1] == Treatment(
        Capability.REPLICA_TOPOLOGY, Fidelity.ENFORCED, required=True
    )
    wish = scaled(preferred=ZONE)
    told = account(wish, able, "acme", replica_treatments(wish))[-1]
    assert told.fidelity is Fidelity.APPROXIMATED
    assert ZONE in told.reason
