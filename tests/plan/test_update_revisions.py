"""Which pod templates count as the same, whoever wrote them."""

import pytest

from grove.api import labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.controller_revision import ControllerRevision
from grove.meta import Manifest
from grove.plan.hashing import generation_hash
from grove.plan.update.revisions import TemplateRevision, desired_revision, means_the_same, present_revision
from grove.testing import make


def clique(annotations: dict[str, str], mirrored: str = "") -> Manifest:
    marks = {**annotations, **({labels.MIRRORED: mirrored} if mirrored else {})}
    return make.clique_manifest("train-0-worker", 2, labels={"team": "a"}, annotations=marks)


SAME = {
    "the same": (clique({"note": "x"}), clique({"note": "x"}), True),
    "another value": (clique({"note": "x"}), clique({"note": "y"}), False),
    "one that others gave it": (clique({}), clique({"note": "y"}), True),
    "one that it had from its set": (clique({}), clique({"note": "y"}, '{"annotations":["note"]}'), False),
    "what the operator writes": (
        clique({labels.TEMPLATE_REVISION: "a"}),
        clique({labels.TEMPLATE_REVISION: "b"}),
        True,
    ),
    "a restart": (clique({labels.RESTARTED_AT: "2"}), clique({labels.RESTARTED_AT: "1"}), False),
    "a first restart": (clique({labels.RESTARTED_AT: "1"}), clique({}), False),
    "a restart that was taken back": (
        clique({}),
        clique({labels.RESTARTED_AT: "1"}, f'{{"annotations":["{labels.RESTARTED_AT}"]}}'),
        False,
    ),
}


@pytest.mark.parametrize(("desired", "living", "want"), SAME.values(), ids=SAME)
def test_which_labels_and_annotations_make_another_pod_template(
    desired: Manifest, living: Manifest, want: bool
) -> None:
    assert means_the_same(desired, make.view(PodClique, living)) is want


def asking(gpus: object, told: str = "") -> PodCliqueSet:
    container = {"name": "a", "image": "x:1", "resources": {"limits": {"gpu": gpus}}}
    manifest = make.cliqueset_manifest("t", [make.template("w", pod={"containers": [container]})])
    manifest["status"] = {"currentGenerationHash": told} if told else {}
    return make.view(PodCliqueSet, manifest)


def recorded(cliqueset: PodCliqueSet, hash_: str) -> dict[str, ControllerRevision]:
    record = desired_revision(cliqueset, TemplateRevision(cliqueset.template, hash_), 1)
    return {f"t-{hash_}": make.view(ControllerRevision, record)}


def test_a_template_that_another_release_recorded_keeps_its_hash() -> None:
    records = recorded(asking(1), "before")
    assert present_revision(asking(1, "before"), records).hash == "before"
    assert present_revision(asking("1", "before"), records).hash == "before"
    # Taken back from another template.
    assert present_revision(asking("1", "other"), records).hash == "before"
    ours = generation_hash(asking(2).template.cliques)
    assert present_revision(asking(2, "before"), records).hash == ours
    assert present_revision(asking(1, "before"), {}).hash == generation_hash(asking(1).template.cliques)


def test_of_several_records_of_one_template_the_set_goes_on_with_the_one_it_tells_of() -> None:
    ours = generation_hash(asking(1).template.cliques)
    records = recorded(asking(1), "before") | recorded(asking(1), ours)
    assert present_revision(asking(1, "before"), records).hash == "before"
    assert present_revision(asking(1, ours), records).hash == ours
    assert present_revision(asking(1, "other"), records).hash == ours
