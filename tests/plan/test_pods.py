"""Which pods a clique creates and deletes, and what they look like."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from grove.api import labels, names
from grove.api.clique import PodClique
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.meta import Manifest
from grove.plan.places import STUCK_SECONDS, leaving
from grove.plan.pods import NewPod, desired_pod, mislabelled, outdated, plan_pods
from grove.testing import make

MARKS = {
    **labels.owned_by("train"),
    labels.SET_REPLICA_INDEX: "0",
    labels.POD_GANG: "train-0",
}
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
PRESENT, EARLIER = "bcdfghjklm", "nprstvwxyz"


def clique(replicas: int = 3, **pod: object) -> PodClique:
    return make.clique("train-0-worker", replicas, spec={"podSpec": make.pod_spec(**pod)}, labels=MARKS)


def gang(*referenced: str) -> PodGang:
    group = make.podgroup("train-0-worker", 1)
    group["podReferences"] = [{"namespace": "default", "name": name} for name in referenced]
    return make.gang("train-0", [group])


def name_of(index: int, attempt: int = 0) -> str:
    return names.pod("train-0-worker", f"{clique().uid}/{PRESENT}", index, attempt=attempt)


def pod(index: int, attempt: int = 0, **fields: object) -> Pod:
    return make.pod("train-0-worker", index, name=name_of(index, attempt), **fields)  # type: ignore[arg-type]


def going(index: int, *, ended_before: float = 0.0, phase: str = "Running") -> Pod:
    """A pod on a node whose grace period ended so many seconds ago."""
    each = pod(index, node="n1", phase=phase, deleted=True)
    ends = NOW - timedelta(seconds=ended_before)
    return replace(each, metadata=replace(each.metadata, deletion_timestamp=ends.isoformat()))


@dataclass(frozen=True)
class Case:
    replicas: int
    pods: list[Pod]
    create: list[tuple[int, str]] = field(default_factory=list)
    delete: list[str] = field(default_factory=list)
    referenced: tuple[str, ...] = ()
    predecessors: list[Pod] = field(default_factory=list)


CASES = {
    "an empty clique gets its pods from index 0 up": Case(2, [], create=[(0, name_of(0)), (1, name_of(1))]),
    "a full clique gets nothing": Case(2, [pod(0), pod(1)]),
    "a hole is filled with its own index": Case(3, [pod(0), pod(2)], create=[(1, name_of(1))]),
    "a pod that is terminating on its node keeps its place until it is gone": Case(2, [pod(0), going(1)]),
    "one that is terminating and was never on a node has no hostname that could be taken": Case(
        2, [pod(0), pod(1, deleted=True)], create=[(1, name_of(1, 1))]
    ),
    "one that has ended and is kept by a finalizer has left its place": Case(
        2, [pod(0), going(1, phase="Failed")], create=[(1, name_of(1, 1))]
    ),
    "one that is stuck is replaced under a new name": Case(
        2, [pod(0), going(1, ended_before=STUCK_SECONDS)], create=[(1, name_of(1, 1))]
    ),
    "nobody gets a higher index because a lower one is not free yet": Case(
        4, [pod(0), going(1), going(2)], create=[(3, name_of(3))]
    ),
    "who takes the place of one that is not needed any more waits for nobody": Case(
        2, [pod(0), going(2)], create=[(1, name_of(1))]
    ),
    "a pod of an earlier clique of the same name keeps its place while it lives": Case(
        2, [], create=[(1, name_of(1))], predecessors=[pod(0, node="n1")]
    ),
    "so it does while it is terminating": Case(2, [], create=[(1, name_of(1))], predecessors=[going(0)]),
    "one that is not seen on a node may be there by now, and has its place until it goes": Case(
        2, [], create=[(1, name_of(1))], predecessors=[pod(0)]
    ),
    "one that goes and was never on a node has no place any more": Case(
        2, [], create=[(0, name_of(0)), (1, name_of(1))], predecessors=[pod(0, deleted=True)]
    ),
    "neither has one that has ended": Case(
        2, [], create=[(0, name_of(0)), (1, name_of(1))], predecessors=[pod(0, node="n1", phase="Failed")]
    ),
    "a pod that vanished is replaced under a new name while its gang remembers it": Case(
        2, [pod(0)], referenced=(name_of(0), name_of(1)), create=[(1, name_of(1, 1))]
    ),
    "a failed pod is deleted and replaced": Case(
        1, [pod(0, phase="Failed")], create=[(0, name_of(0, 1))], delete=[name_of(0)]
    ),
    "a pod that succeeded keeps its place": Case(1, [pod(0, phase="Succeeded")]),
    "scale-in takes the unplaced before the placed": Case(
        1, [pod(0, node=""), pod(1, node="n1", phase="Running", ready=True)], delete=[name_of(0)]
    ),
    "scale-in takes the unready before the ready": Case(
        1,
        [pod(0, node="n1", phase="Running"), pod(1, node="n1", phase="Running", ready=True)],
        delete=[name_of(0)],
    ),
    "among equals scale-in takes the highest index": Case(1, [pod(0), pod(1)], delete=[name_of(1)]),
    "scaling to zero takes all": Case(0, [pod(0), pod(1)], delete=[name_of(1), name_of(0)]),
    "a terminating pod is not counted as surplus": Case(1, [pod(0), pod(1, deleted=True)]),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_plan_pods(case: Case) -> None:
    own = clique(case.replicas)
    places = leaving(own, case.pods, case.predecessors, NOW)
    plan = plan_pods(own, case.pods, gang=gang(*case.referenced), revision=PRESENT, leaving=places)
    assert [(new.index, new.name) for new in plan.create] == case.create
    assert [each.name for each in plan.delete] == case.delete


def test_the_same_plan_is_made_again_after_a_crash() -> None:
    first = plan_pods(clique(5), [pod(1)], gang=gang(), revision=PRESENT)
    assert plan_pods(clique(5), [pod(1)], gang=gang(), revision=PRESENT) == first


def test_a_recreated_clique_has_other_pods() -> None:
    again = make.clique("train-0-worker", 1, labels=MARKS, uid="another")
    assert plan_pods(again, [], gang=gang(), revision=PRESENT).create[0].name != name_of(0)


def test_a_gang_that_is_restarted_has_other_pods() -> None:
    """A name that comes back would be taken for the pod that had it, by schedulers and by the gang's list."""
    earlier = {new.name for new in plan_pods(clique(5), [], gang=gang(), revision=EARLIER).create}
    present = {new.name for new in plan_pods(clique(5), [], gang=gang(), revision=PRESENT).create}
    assert len(earlier) == len(present) == 5
    assert not earlier & present


def test_a_pod_of_an_earlier_start_is_deleted_and_one_that_says_why_it_ended_is_kept() -> None:
    """The place is filled when the deletion has succeeded: it fails for a pod that is placed in this moment."""
    pods = [pod(0, phase="Failed"), pod(1)]
    plan = plan_pods(clique(2), pods, gang=gang(), revision=PRESENT, kept={name_of(0)}, outlived={name_of(1)})
    assert plan.create == ()
    assert [each.name for each in plan.delete] == [name_of(1)]


TEMPLATE, OTHER_TEMPLATE = "template-2", "template-1"


def made(revision: str, template: str = TEMPLATE, **fields: object) -> Pod:
    """A pod that waits unless `fields` say otherwise, of this start of its gang and from this template."""
    annotations = {labels.GANG_REVISION: revision} if revision else {}
    marks = {labels.POD_TEMPLATE_HASH: template} if template else {}
    given: dict[str, object] = {"annotations": annotations, "labels": marks, **fields}
    return pod(0, 0, **given)


OUTDATED = {
    "a pod that waits in the present start is not": (made(PRESENT), False),
    "a pod that waits in an earlier start is": (made(EARLIER), True),
    "a pod that waits behind its gate in an earlier start is": (
        made(EARLIER, gates=["grove.io/podgang"]),
        True,
    ),
    "a waiting pod from which somebody took the revision is": (made(""), True),
    "a pod that waits with an earlier template is": (made(PRESENT, OTHER_TEMPLATE), True),
    "a waiting pod from which somebody took the hash of its template is": (made(PRESENT, ""), True),
    "a pod on a node stays, whatever it was made for": (made(EARLIER, node="n1"), False),
    "a pod on a node stays, whatever it was made from": (made(PRESENT, OTHER_TEMPLATE, node="n1"), False),
    "a pod that is going is gone soon anyway": (made(EARLIER, deleted=True), False),
    "a pod that ended is somebody else's question": (made(EARLIER, phase="Failed"), False),
}


@pytest.mark.parametrize(("each", "want"), OUTDATED.values(), ids=OUTDATED)
def test_outdated(each: Pod, want: bool) -> None:
    own = make.clique("train-0-worker", labels={**MARKS, labels.POD_TEMPLATE_HASH: TEMPLATE})
    assert outdated(own, [each], PRESENT) == ({each.name} if want else set())


WHOLE = {**MARKS, labels.POD_CLIQUE: "train-0-worker", labels.POD_INDEX: "1"}


def labelled(marks: dict[str, str], *, hostname: str = "train-0-worker-1", deleted: bool = False) -> Pod:
    """The pod at index 1 with these labels and no others."""
    manifest = make.pod_manifest("train-0-worker", 1, deleted=deleted)
    manifest["metadata"]["labels"] = marks
    manifest["spec"]["hostname"] = hostname
    return make.view(Pod, manifest)


def without(key: str) -> dict[str, str]:
    return {each: value for each, value in WHOLE.items() if each != key}


MISLABELLED: dict[str, tuple[Pod, dict[str, str]]] = {
    "a pod with all of its labels needs nothing": (labelled(WHOLE), {}),
    "labels of others are not looked at": (labelled({**WHOLE, "team": "a"}), {}),
    "a pod without any label gets all of them": (labelled({}), WHOLE),
    "a pod that was labelled into another gang comes back": (
        labelled({**WHOLE, labels.POD_GANG: "other-0"}),
        {labels.POD_GANG: "train-0"},
    ),
    "a pod that was labelled into another clique comes back": (
        labelled({**WHOLE, labels.POD_CLIQUE: "train-0-leader"}),
        {labels.POD_CLIQUE: "train-0-worker"},
    ),
    "the index follows from the hostname, which nobody can change": (
        labelled({**WHOLE, labels.POD_INDEX: "7"}),
        {labels.POD_INDEX: "1"},
    ),
    "where the hostname tells nothing the index stays": (
        labelled({**WHOLE, labels.POD_INDEX: "7"}, hostname="theirs"),
        {},
    ),
    "a pod that is going is left alone": (labelled({}, deleted=True), {}),
    **{f"a pod without {key} gets it back": (labelled(without(key)), {key: WHOLE[key]}) for key in WHOLE},
}


@pytest.mark.parametrize(("each", "lost"), MISLABELLED.values(), ids=MISLABELLED)
def test_mislabelled(each: Pod, lost: dict[str, str]) -> None:
    assert list(mislabelled(clique(), [each])) == ([(each, lost)] if lost else [])


def spec_of(**fields: object) -> Manifest:
    manifest: Manifest = desired_pod(clique(**fields), NewPod(2, "train-0-worker-abcde"), PRESENT)  # type: ignore[arg-type]
    spec: Manifest = manifest["spec"]
    return spec


def test_the_pod_spec_travels_verbatim() -> None:
    sent = {"fieldOfTomorrow": {"deep": [1, {"x": None}]}, "tolerations": [{"operator": "Exists"}]}
    spec = spec_of(**sent)
    assert {key: spec[key] for key in sent} == sent


def test_the_hostname_is_the_stable_identity() -> None:
    spec = spec_of()
    assert (spec["hostname"], spec["subdomain"]) == ("train-0-worker-2", "train-0")


def test_our_environment_comes_first_and_replaces_a_namesake() -> None:
    theirs = [{"name": "GROVE_PCS_NAME", "value": "mine"}, {"name": "PEER", "value": "$(GROVE_PCLQ_NAME)"}]
    spec = spec_of(containers=[{"name": "main", "image": "x", "env": theirs}])
    environment = spec["containers"][0]["env"]
    assert [variable["name"] for variable in environment] == [
        "GROVE_PCS_NAME",
        "GROVE_PCS_INDEX",
        "GROVE_PCLQ_NAME",
        "GROVE_HEADLESS_SERVICE",
        "GROVE_PCLQ_POD_INDEX",
        "PEER",
    ]
    assert environment[0]["value"] == "train"


def test_init_containers_learn_their_place_too_and_keep_their_order() -> None:
    spec = spec_of(initContainers=[{"name": "b", "image": "x"}, {"name": "a", "image": "x"}])
    assert [container["name"] for container in spec["initContainers"]] == ["b", "a"]
    assert spec["initContainers"][0]["env"][0]["name"] == "GROVE_PCS_NAME"


def test_a_pod_points_back_to_clique_and_gang() -> None:
    manifest = desired_pod(clique(), NewPod(2, "train-0-worker-abcde"), PRESENT)
    metadata = manifest["metadata"]
    assert metadata["labels"][labels.POD_CLIQUE] == "train-0-worker"
    assert metadata["labels"][labels.POD_GANG] == "train-0"
    assert metadata["labels"][labels.POD_INDEX] == "2"
    assert metadata["ownerReferences"][0]["uid"] == clique().uid


def test_a_pod_says_which_start_of_its_gang_it_was_made_for() -> None:
    manifest = desired_pod(clique(), NewPod(0, "train-0-worker-abcde"), PRESENT)
    assert manifest["metadata"]["annotations"][labels.GANG_REVISION] == PRESENT


def test_annotations_of_the_clique_reach_its_pods_but_for_what_only_the_clique_means() -> None:
    marks = {"team": "a", labels.TEMPLATE_REPLICAS: "3", labels.DECIDED_MINIMUM: "3"}
    annotated = make.clique("train-0-worker", 3, labels=MARKS, annotations=marks)
    manifest = desired_pod(annotated, NewPod(0, "train-0-worker-abcde"), PRESENT)
    assert manifest["metadata"]["annotations"] == {"team": "a", labels.GANG_REVISION: PRESENT}


def test_a_pod_has_what_its_clique_has_from_the_set_and_nothing_that_others_put_on_the_clique() -> None:
    record = '{"annotations":["note"],"labels":["tier"]}'
    marked = make.clique(
        "train-0-worker",
        labels={**labels.owned_by("train"), "tier": "gpu", "theirs": "x"},
        annotations={"note": "ours", "example.com/note": "theirs", labels.MIRRORED: record},
    )
    pod = desired_pod(marked, NewPod(0, "p"), PRESENT)
    assert pod["metadata"]["labels"] == {
        **labels.owned_by("train"),
        "tier": "gpu",
        labels.POD_CLIQUE: "train-0-worker",
        labels.POD_INDEX: "0",
    }
    assert pod["metadata"]["annotations"] == {"note": "ours", labels.GANG_REVISION: PRESENT}
