"""Gangs that somebody else made: which backend they get, and what their pods get for it."""

from collections.abc import Sequence

import pytest
from tests.plan.gang.states import GATE, PLAIN, ROLE, PlainBackend

from grove.api import kinds, labels
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import Context
from grove.backends.podspec import PREFERRED, REQUIRED, add_affinity, copy_of
from grove.errors import FieldError, InvalidInput
from grove.meta import Manifest
from grove.plan.changes import Patch
from grove.plan.gang.standalone import (
    Adoption,
    PodPreparation,
    adoption_patch,
    asked_backend,
    may_be_adopted,
    prepare,
)
from grove.testing import make


def gang(*, ours: bool = False, backend: str = "", annotations: dict[str, str] | None = None) -> PodGang:
    manifest = make.gang_manifest("guest", {ROLE: 2}, annotations=annotations or {})
    marks = manifest["metadata"].setdefault("labels", {})
    marks.pop(labels.MANAGED_BY, None)
    if ours:
        marks[labels.MANAGED_BY] = labels.MANAGER
    if backend:
        marks[labels.SCHEDULER_BACKEND] = backend
    return make.view(PodGang, manifest)


ASKS = {labels.SCHEDULER_BACKEND: "kai"}
ADOPTED: dict[str, tuple[PodGang, bool]] = {
    "one without a backend": (gang(), True),
    "one that asks for one": (gang(annotations=ASKS), True),
    "one that has one": (gang(backend="kai"), False),
    "one of ours, whose set says it": (gang(ours=True), False),
    "one that asks for what no label can hold": (
        gang(annotations={labels.SCHEDULER_BACKEND: "no such/name"}),
        False,
    ),
}


@pytest.mark.parametrize(("about", "want"), ADOPTED.values(), ids=ADOPTED)
def test_which_gangs_get_a_backend(about: PodGang, want: bool) -> None:
    assert may_be_adopted(about) == want


def scheduled_by(name: str) -> Pod:
    manifest = make.pod_manifest(ROLE, 0)
    return make.view(Pod, {**manifest, "spec": {"schedulerName": name}})


ASKED: dict[str, tuple[PodGang, Sequence[Pod], str]] = {
    "nobody asks": (gang(), [], ""),
    "the annotation": (gang(annotations=ASKS), [scheduled_by("volcano")], "kai"),
    "the pods": (gang(), [scheduled_by("volcano")] * 2, "volcano"),
    "pods that differ ask for none": (gang(), [scheduled_by("volcano"), scheduled_by("kai-scheduler")], ""),
}


@pytest.mark.parametrize(("about", "pods", "want"), ASKED.values(), ids=ASKED)
def test_which_backend_a_gang_asks_for(about: PodGang, pods: Sequence[Pod], want: str) -> None:
    assert asked_backend(about, pods) == want


@pytest.mark.parametrize("external", [False, True])
def test_the_choice_is_written_down_with_who_serves_it(external: bool) -> None:
    about = gang()
    marks: Manifest = {"labels": {labels.SCHEDULER_BACKEND: "kai"}}
    if external:
        marks["annotations"] = {labels.EXTERNAL_BACKEND: "true"}
    want = Patch(
        kinds.GANGS, about.key, {"metadata": marks}, resource_version=about.metadata.resource_version
    )
    assert adoption_patch(about, Adoption("kai", external=external)) == want


def whole(*, gates: Sequence[str] = (GATE,), **marks: str) -> Manifest:
    return {
        "metadata": {"name": "p0", "namespace": "default", "resourceVersion": "9", "labels": marks},
        "spec": {"schedulingGates": [{"name": each} for each in gates]},
    }


GROUP = {"example.com/group": "guest"}


def patched(**added: str) -> Patch:
    key = gang().key._replace(name="p0")
    return Patch(kinds.PODS, key, {"metadata": {"labels": added}}, resource_version="9")


LACKS = f"pod p0: spec.schedulingGates lacks '{GATE}'; create the pod again with it"
PREPARED: dict[str, tuple[Manifest, str | None, PodPreparation]] = {
    "what its scheduler must find is added": (whole(), None, PodPreparation(patched(**GROUP))),
    "an index, too": (whole(), "3", PodPreparation(patched(**{labels.POD_INDEX: "3"}, **GROUP))),
    "a pod that has it all is left alone": (whole(**GROUP), None, PodPreparation()),
    "a gate cannot be added": (whole(gates=(), **GROUP), None, PodPreparation(problems=(LACKS,))),
    "what can be added is, whatever else is wrong": (
        whole(gates=()),
        None,
        PodPreparation(patched(**GROUP), (LACKS,)),
    ),
}


@pytest.mark.parametrize(("pod", "index", "want"), PREPARED.values(), ids=PREPARED)
def test_what_a_pod_gets(pod: Manifest, index: str | None, want: PodPreparation) -> None:
    found = prepare(gang(), pod, index, PLAIN, Context())
    if isinstance(found.change, Patch) and index is not None:
        assert found.change.patch["metadata"]["labels"] == {labels.POD_INDEX: index, **GROUP}
    assert found == want


def test_a_pod_that_the_gang_lists_had_its_gate_and_another_pod_of_its_name_has_none() -> None:
    opened = whole(gates=(), **GROUP)
    for uid, want in (("one", PodPreparation()), ("another", PodPreparation(problems=(LACKS,)))):
        opened["metadata"]["uid"] = uid
        assert prepare(listing("one"), opened, None, PLAIN, Context()) == want


def test_a_listed_pod_that_lost_its_labels_gets_them_back() -> None:
    opened = whole(gates=())
    opened["metadata"]["uid"] = "one"
    assert prepare(listing("one"), opened, None, PLAIN, Context()) == PodPreparation(patched(**GROUP))


def listing(uid: str) -> PodGang:
    manifest = make.gang_manifest("guest", {ROLE: 1})
    listed = {"namespace": "default", "name": "p0", "uid": uid}
    manifest["spec"]["podgroups"][0]["podReferences"] = [listed]
    return make.view(PodGang, manifest)


RACK = {"topologyKey": "example.com/rack", "labelSelector": {}}
OF_NODES: Manifest = {"nodeAffinity": {"x": []}}
AFFINITIES: dict[str, tuple[str, Manifest, int]] = {
    "a preference": (PREFERRED, {}, 0),
    "a preference, beside what the pod has": (PREFERRED, OF_NODES, 0),
    "what is required": (REQUIRED, OF_NODES, 1),
    "what is required and there": (REQUIRED, {"podAffinity": {REQUIRED: [RACK]}}, 0),
}


@pytest.mark.parametrize(("rule", "there", "problems"), AFFINITIES.values(), ids=AFFINITIES)
def test_only_the_affinity_that_a_gang_requires_must_be_there(
    rule: str, there: Manifest, problems: int
) -> None:
    class Attracting(PlainBackend):
        def prepare_pod(self, pod: Manifest, gang: PodGang, context: Context) -> Manifest:
            prepared = copy_of(super().prepare_pod(pod, gang, context))
            add_affinity(prepared, rule, RACK)
            return prepared

    pod = whole(**GROUP)
    pod["spec"] |= {"affinity": there} if there else {}
    found = prepare(gang(), pod, None, Attracting(), Context())
    assert len(found.problems) == problems, found.problems


def test_what_a_backend_refuses_is_said_with_the_name_of_the_pod() -> None:
    class Refusing(PlainBackend):
        def prepare_pod(self, pod: Manifest, gang: PodGang, context: Context) -> Manifest:
            raise InvalidInput([FieldError("spec.x", "is wrong"), FieldError("spec.y", "is missing")])

    found = prepare(gang(), whole(), None, Refusing(), Context())
    assert found == PodPreparation(problems=("pod p0: spec.x: is wrong", "pod p0: spec.y: is missing"))
