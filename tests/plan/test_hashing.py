"""A template's hash follows its meaning, not its spelling."""

import pytest

from grove.api.cliqueset import PodCliqueTemplate
from grove.meta import Manifest
from grove.plan.hashing import generation_hash, template_hash
from grove.testing import make

BASE: Manifest = {
    "containers": [{"name": "a", "image": "x:1", "args": ["one", "two"]}, {"name": "b", "image": "y:1"}],
    "nodeSelector": {"gpu": "h100", "zone": "a"},
}


def template(pod: Manifest, **fields: dict[str, str]) -> PodCliqueTemplate:
    cliqueset = make.cliqueset("s", [{**make.template("worker", pod=pod), **fields}])
    return cliqueset.template.cliques[0]


SAME: dict[str, Manifest] = {
    "map order": {
        "nodeSelector": {"zone": "a", "gpu": "h100"},
        "containers": [{"image": "x:1", "args": ["one", "two"], "name": "a"}, {"image": "y:1", "name": "b"}],
    },
    "values that a webhook fills in": {
        **BASE,
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "schedulerName": "default-scheduler",
    },
    "empty instead of absent": {**BASE, "tolerations": [], "affinity": {}, "hostname": ""},
}
OTHER: dict[str, Manifest] = {
    "the order of containers": {**BASE, "containers": list(reversed(BASE["containers"]))},
    "the order of arguments": {
        **BASE,
        "containers": [{"name": "a", "image": "x:1", "args": ["two", "one"]}, {"name": "b", "image": "y:1"}],
    },
    "an image": {**BASE, "containers": [{**BASE["containers"][0], "image": "x:2"}, BASE["containers"][1]]},
    "a field that this release does not know": {**BASE, "fieldOfTomorrow": 1},
    "another restart policy": {**BASE, "restartPolicy": "Never"},
}


@pytest.mark.parametrize("pod", SAME.values(), ids=SAME)
def test_the_hash_is_unaffected_by(pod: Manifest) -> None:
    assert template_hash(template(pod)) == template_hash(template(BASE))


@pytest.mark.parametrize("pod", OTHER.values(), ids=OTHER)
def test_the_hash_changes_with(pod: Manifest) -> None:
    assert template_hash(template(pod)) != template_hash(template(BASE))


def test_labels_annotations_and_priority_belong_to_the_identity() -> None:
    hashes = {
        template_hash(template(BASE)),
        template_hash(template(BASE, labels={"a": "b"})),
        template_hash(template(BASE, annotations={"a": "b"})),
        template_hash(template(BASE), priority_class="high"),
    }
    assert len(hashes) == 4


def test_the_hash_is_the_same_in_every_release() -> None:
    assert template_hash(template(BASE)) == "78flsvmhkz", "changing this restarts every pod on upgrade"


def test_reordering_cliques_does_not_change_the_set() -> None:
    one = make.cliqueset("s", {"a": 1, "b": 1}).template.cliques
    other = make.cliqueset("s", {"b": 1, "a": 1}).template.cliques
    assert generation_hash(one) == generation_hash(other)
