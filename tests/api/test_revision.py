"""The revision of a gang: which of its starts a pod and a scheduler object belong to."""

import re
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from grove.api import kinds, labels
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.api.revision import (
    ADOPTED,
    effective_revision,
    is_adopted,
    next_revision,
    restarts,
    revision_of,
)
from grove.meta import Manifest
from grove.testing import make

RACK, ZONE = "example.com/rack", "topology.kubernetes.io/zone"


def groups(
    worker: int = 3, *, required: str = "", preferred: str = "", references: Sequence[str] = ()
) -> list[Manifest]:
    made = [
        make.podgroup("train-0-leader", 1),
        make.podgroup("train-0-worker", worker, required=required, preferred=preferred),
    ]
    made[1]["podReferences"] = [{"namespace": "default", "name": name, "uid": name} for name in references]
    return made


def gang(name: str = "train-0", podgroups: Sequence[Manifest] = (), **fields: object) -> PodGang:
    return make.gang(name, podgroups or groups(), **{"uid": "uid-1", **fields})  # type: ignore[arg-type]


BASE = gang()
SHARED = make.group("pair", ["train-0-leader", "train-0-worker"], required=RACK)

OTHERS = {
    "made again under its name": gang(uid="uid-2"),
    "another minimum": gang(podgroups=groups(2)),
    "a role that sleeps": gang(podgroups=groups(0)),
    "one role more": gang(podgroups=[*groups(), make.podgroup("train-0-router", 1)]),
    "one role less": gang(podgroups=groups()[1:]),
    "another priority": gang(priority="high"),
    "a required level of the gang": gang(required=RACK),
    "another required level of the gang": gang(required=ZONE),
    "a preferred level of the gang": gang(preferred=RACK),
    "a required level of a role": gang(podgroups=groups(required=RACK)),
    "a preferred level of a role": gang(podgroups=groups(preferred=RACK)),
    "roles that share a level": gang(groups=[SHARED]),
    "fewer roles that share a level": gang(groups=[make.group("pair", ["train-0-leader"], required=RACK)]),
    "a level that its replica shares": gang(annotations={labels.REPLICA_REQUIRED: RACK}),
    "another level that its replica shares": gang(annotations={labels.REPLICA_REQUIRED: ZONE}),
    "a level that its replica should share": gang(annotations={labels.REPLICA_PREFERRED: RACK}),
    "another pod template": gang(annotations={labels.GENERATION_HASH: "another"}),
    "yet another pod template": gang(annotations={labels.GENERATION_HASH: "a third"}),
    "restarted": gang(annotations={labels.RESTARTS: "1"}),
    "restarted twice": gang(annotations={labels.RESTARTS: "2"}),
}


def test_every_start_of_a_gang_has_a_revision_of_its_own() -> None:
    revisions = {name: next_revision(each) for name, each in {"as it was": BASE, **OTHERS}.items()}
    assert len(set(revisions.values())) == len(revisions), revisions


SAME = {
    "nothing": gang(),
    "what the gang lists": gang(podgroups=groups(references=["a", "b", "c"])),
    "labels": gang(labels={"team": "a"}),
    "annotations of others": gang(annotations={"owner": "me"}),
    "its generation": gang(generation=7),
    "its namespace, which the UID implies": gang(namespace="team-a"),
    "a count of restarts that nobody can read": gang(annotations={labels.RESTARTS: "many"}),
    "a count of restarts that is no ASCII digit": gang(annotations={labels.RESTARTS: "²"}),
    "that it is placed": make.view(
        PodGang,
        {
            **make.gang_manifest("train-0", groups(), uid="uid-1"),
            "status": {"phase": "Running", "conditions": [{"type": "Scheduled", "status": "True"}]},
        },
    ),
}


@pytest.mark.parametrize("other", SAME.values(), ids=SAME)
def test_nothing_else_changes_it(other: PodGang) -> None:
    assert next_revision(other) == next_revision(BASE)


def test_it_fits_into_every_name_and_label() -> None:
    assert re.fullmatch(r"[bcdfghjklmnpqrstvwxz2456789]{10}", next_revision(BASE))


def test_it_is_the_same_in_every_release_and_process() -> None:
    """Pods outlive the operator that made them: one that computes otherwise would replace all that wait."""
    assert next_revision(BASE) == "chc9hcg4sj"


RESTARTS = {"": 0, "0": 0, "3": 3, "-1": 0, "²": 0, "three": 0}


@pytest.mark.parametrize(("text", "want"), RESTARTS.items())
def test_restarts_are_counted_on_the_gang(text: str, want: int) -> None:
    assert restarts(gang(annotations={labels.RESTARTS: text} if text else {})) == want


# The revision while pods are on nodes -------------------------------------------------------------

OLD, OLDER = "nprstvwxyz", "bcdfghjklm"


def pod(index: int, revision: str, **fields: object) -> Pod:
    marks = {labels.GANG_REVISION: revision} if revision else {}
    return make.pod("train-0-worker", index, annotations=marks, **fields)  # type: ignore[arg-type]


NEXT = next_revision(BASE)
EFFECTIVE: dict[str, tuple[list[Pod], str]] = {
    "a gang without pods has its own": ([], NEXT),
    "pods that wait do not keep it back": ([pod(0, OLD), pod(1, OLD, gates=["g"])], NEXT),
    "one pod on a node keeps that of its start": ([pod(0, OLD, node="n1"), pod(1, NEXT)], OLD),
    "a pod on a node that is going does not": ([pod(0, OLD, node="n1", deleted=True)], NEXT),
    "a pod on a node that failed does not": ([pod(0, OLD, node="n1", phase="Failed")], NEXT),
    "a pod on a node that succeeded does not": ([pod(0, OLD, node="n1", phase="Succeeded")], NEXT),
    "a pod on a node that somebody else made has none to keep": ([pod(0, "", node="n1")], NEXT),
    "of two starts on nodes the one with more pods counts": (
        [pod(0, OLD, node="n1"), pod(1, OLD, node="n1"), pod(2, OLDER, node="n1")],
        OLD,
    ),
    "of two starts with as many pods everybody chooses the same": (
        [pod(0, OLD, node="n1"), pod(1, OLDER, node="n1")],
        OLDER,
    ),
}


CLIQUE = make.clique("train-0-worker")


def of_go(index: int, **fields: object) -> Pod:
    """A pod as the Go operator makes it: the API server chose its name, and a clique owns it."""
    made = make.pod("train-0-worker", index, owner=(CLIQUE, kinds.CLIQUES), **fields)  # type: ignore[arg-type]
    return replace(made, metadata=replace(made.metadata, generate_name="train-0-worker-"))


EFFECTIVE |= {
    "a pod of the Go operator on a node keeps the names that it used": ([of_go(0, node="n1")], ADOPTED),
    "what replaced one of them belongs to the same": ([pod(0, ADOPTED, node="n1"), pod(1, "")], ADOPTED),
    "its pods that wait may open as they are": ([of_go(0, gates=["g"]), pod(1, OLD)], ADOPTED),
    "beside more pods of ours it counts as any other": (
        [of_go(0, node="n1"), pod(1, OLD, node="n1"), pod(2, OLD, node="n1")],
        OLD,
    ),
    "its pods that are going do not count": ([of_go(0, node="n1", deleted=True)], NEXT),
}


def test_after_a_restart_pods_of_the_go_operator_that_wait_are_left_behind() -> None:
    restarted = gang(annotations={labels.RESTARTS: "1"})
    assert effective_revision(restarted, [of_go(0)]) == next_revision(restarted)


def test_only_pods_of_cliques_whose_name_the_api_server_chose_are_the_go_operators() -> None:
    ours, chosen = of_go(0), make.pod("train-0-worker", 1, owner=(CLIQUE, kinds.CLIQUES))
    assert is_adopted(ours)
    assert not is_adopted(chosen)
    marked = {labels.GANG_REVISION: ADOPTED}
    assert not is_adopted(replace(ours, metadata=replace(ours.metadata, annotations=marked)))
    assert not is_adopted(replace(ours, metadata=replace(ours.metadata, owner_references=())))


@pytest.mark.parametrize(("pods", "want"), EFFECTIVE.values(), ids=EFFECTIVE)
def test_new_pods_belong_to_the_start_of_those_on_nodes(pods: list[Pod], want: str) -> None:
    assert effective_revision(BASE, pods) == want
    assert effective_revision(BASE, pods[::-1]) == want


def test_an_edit_of_a_gang_with_pods_on_nodes_does_not_change_its_revision() -> None:
    pods = [pod(0, NEXT, node="n1")]
    assert {effective_revision(each, pods) for each in (BASE, *OTHERS.values())} == {NEXT}


def test_a_pod_says_what_it_was_made_for() -> None:
    assert revision_of(pod(0, OLD)) == OLD
    assert revision_of(pod(0, "")) == ""
