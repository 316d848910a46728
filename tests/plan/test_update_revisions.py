"""Which pod templates count as the same, whoever wrote them."""

import pytest

from grove.api import labels
from grove.api.clique import PodClique
from grove.meta import Manifest
from grove.plan.update.revisions import means_the_same
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
