"""What this release does not act on is refused or told, field by field."""

import pytest

from grove.admission.support import annotation_errors, notices, unsupported
from grove.api import kinds, labels
from grove.api.cliqueset import PodCliqueSet
from grove.backends.base import Cluster
from grove.backends.sample import serving
from grove.meta import Manifest
from grove.testing import make

SHARING = [{"name": "gpus", "scope": "AllReplicas"}]


@pytest.mark.parametrize("level", ["set", "role"])
def test_shared_devices_are_refused_with_the_field_where_the_cluster_serves_no_claims(level: str) -> None:
    role = {**make.template("a"), **({"resourceSharing": SHARING} if level == "role" else {})}
    template = {"resourceSharing": SHARING} if level == "set" else {}
    cliqueset = make.cliqueset("t", [role], template=template)
    field = {"set": "spec.template", "role": "spec.template.cliques[0]"}[level]
    (error,) = unsupported(cliqueset, Cluster())
    assert error.field == f"{field}.resourceSharing"
    assert "does not serve resourceclaims.resource.k8s.io in version v1" in error.message
    assert unsupported(cliqueset, serving(kinds.RESOURCE_CLAIMS)) == []


def annotated(on: str, **annotations: str) -> Manifest:
    """A set with annotations on itself or on its role; `__` stands for the slash, `_` for a hyphen."""
    marks = {key.replace("__", ".io/").replace("_", "-"): value for key, value in annotations.items()}
    role = make.template("a")
    if on == "role":
        role["annotations"] = marks
    return make.cliqueset_manifest("t", [role], annotations=marks if on == "set" else {})


WHERE = {"set": "metadata", "role": "spec.template.cliques[0]"}


@pytest.mark.parametrize("on", WHERE)
@pytest.mark.parametrize("value", ["", "Not A Label", "a_b", "-a", "x" * 64])
def test_a_group_of_multi_node_nvlink_that_is_no_dns_label_is_refused(on: str, value: str) -> None:
    cliqueset = make.view(PodCliqueSet, annotated(on, grove__mnnvl_group=value))
    (error,) = annotation_errors(cliqueset)
    assert error.field == f"{WHERE[on]}.annotations[{labels.MNNVL_GROUP}]"
    assert "DNS label" in error.message


@pytest.mark.parametrize("on", WHERE)
def test_a_group_of_multi_node_nvlink_is_accepted_with_the_word_that_it_has_no_effect(on: str) -> None:
    cliqueset = make.view(PodCliqueSet, annotated(on, grove__mnnvl_group="workers"))
    assert list(annotation_errors(cliqueset)) == []
    (notice,) = notices(cliqueset)
    assert notice.field == f"{WHERE[on]}.annotations[{labels.MNNVL_GROUP}]"
    assert "no ComputeDomain is created by this release" in notice.message


SILENT = {
    "opting out of NVLink domains": {"grove__mnnvl_group": "none"},
    "a backend": {"grove__scheduler_backend": "kai"},
    "a reconcile that is asked for": {"grove__reconcile_trigger": "1"},
    "somebody else's": {"example__anything": "x"},
}


@pytest.mark.parametrize("marks", SILENT.values(), ids=SILENT)
def test_nothing_is_said_of_an_annotation_that_does_what_it_says(marks: dict[str, str]) -> None:
    assert notices(make.view(PodCliqueSet, annotated("set", **marks))) == []


@pytest.mark.parametrize(
    "key", ["grove__disable_managed_resource_protection", "grove__auto_mnnvl", "grove__typo"]
)
def test_an_annotation_of_ours_without_effect_is_told(key: str) -> None:
    (notice,) = notices(make.view(PodCliqueSet, annotated("set", **{key: "true"})))
    assert "has no effect in this release" in notice.message
