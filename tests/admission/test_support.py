"""What this release does not act on is refused or told, field by field."""

import pytest

from grove.admission.support import annotation_errors, notices, unsupported, unsupported_domains
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
def test_a_group_of_multi_node_nvlink_for_pods_without_gpus_is_accepted_with_a_word(on: str) -> None:
    manifest = annotated(on, grove__mnnvl_group="workers")
    manifest["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"] = [{"name": "main"}]
    cliqueset = make.view(PodCliqueSet, manifest)
    assert list(annotation_errors(cliqueset)) == []
    (notice,) = notices(cliqueset)
    assert notice.field == f"{WHERE[on]}.annotations[{labels.MNNVL_GROUP}]"
    assert "none of its pods asks for nvidia.com/gpu" in notice.message


@pytest.mark.parametrize("on", WHERE)
def test_a_group_of_multi_node_nvlink_is_refused_where_it_is_disabled_or_not_served(on: str) -> None:
    cliqueset = make.view(PodCliqueSet, annotated(on, grove__mnnvl_group="workers"))
    field = f"{WHERE[on]}.annotations[{labels.MNNVL_GROUP}]"
    served = serving(kinds.COMPUTE_DOMAINS)
    (disabled,) = unsupported_domains(cliqueset, served, enabled=False)
    (missing,) = unsupported_domains(cliqueset, Cluster(), enabled=True)
    assert (disabled.field, missing.field) == (field, field)
    assert "network.autoMNNVLEnabled" in disabled.message
    assert "does not serve computedomains.resource.nvidia.com" in missing.message
    assert unsupported_domains(cliqueset, served, enabled=True) == []
    out = make.view(PodCliqueSet, annotated(on, grove__mnnvl_group="none"))
    assert unsupported_domains(out, Cluster(), enabled=False) == []


SILENT = {
    "opting out of NVLink domains": {"grove__mnnvl_group": "none"},
    "a backend": {"grove__scheduler_backend": "kai"},
    "a reconcile that is asked for": {"grove__reconcile_trigger": "1"},
    "leave to edit its children": {"grove__disable_managed_resource_protection": "true"},
    "somebody else's": {"example__anything": "x"},
}


@pytest.mark.parametrize("marks", SILENT.values(), ids=SILENT)
def test_nothing_is_said_of_an_annotation_that_does_what_it_says(marks: dict[str, str]) -> None:
    assert notices(make.view(PodCliqueSet, annotated("set", **marks))) == []


WITHOUT_EFFECT = {
    ("set", "grove__auto_mnnvl"): "remove it, or correct its name",
    ("set", "grove__typo"): "remove it, or correct its name",
    ("set", "grove__topology_name"): "topologyConstraint.topologyName names the ClusterTopologyBinding",
    ("set", "grove__restarted_at"): "it belongs in the annotations of a role",
    ("role", "grove__scheduler_backend"): "it belongs in metadata.annotations of the set",
    ("role", "grove__reconcile_trigger"): "it belongs in metadata.annotations of the set",
}


@pytest.mark.parametrize(("on", "key"), WITHOUT_EFFECT)
def test_an_annotation_of_ours_without_effect_is_told_with_what_to_do_instead(on: str, key: str) -> None:
    (notice,) = notices(make.view(PodCliqueSet, annotated(on, **{key: "true"})))
    assert notice.message.startswith(f"has no effect here: {WITHOUT_EFFECT[on, key]}")


@pytest.mark.parametrize("on", WHERE)
@pytest.mark.parametrize(
    ("key", "place"),
    [("grove__scheduler_backend", "set"), ("grove__update_paused", "set"), ("grove__restarted_at", "role")],
)
def test_an_annotation_of_one_place_has_an_effect_there_only(key: str, place: str, on: str) -> None:
    found = notices(make.view(PodCliqueSet, annotated(on, **{key: "true"})))
    assert bool(found) is (on != place)


def sharing(level: str, scope: str, *, replicas: int, pods: int, group: int = 1) -> PodCliqueSet:
    shared = [{"name": "t", "scope": scope}]
    role = {**make.template("a", pods), **({"resourceSharing": shared} if level == "role" else {})}
    of_group = make.scaling_group("g", ["a"], replicas=group)
    if level == "group":
        of_group["resourceSharing"] = shared
    template = {"resourceSharing": shared} if level == "set" else {}
    return make.cliqueset("t", [role], replicas=replicas, groups=[of_group], template=template)


CROWDED = {
    "a set of all replicas": (sharing("set", "AllReplicas", replicas=2, group=3, pods=43), 258),
    "a set of one replica": (sharing("set", "PerReplica", replicas=9, group=3, pods=86), 258),
    "a group of all replicas": (sharing("group", "AllReplicas", replicas=9, group=3, pods=86), 258),
    "a group of one replica": (sharing("group", "PerReplica", replicas=9, group=9, pods=257), 257),
    "a role": (sharing("role", "AllReplicas", replicas=9, group=9, pods=257), 257),
    "a role with one for each pod": (sharing("role", "PerReplica", replicas=9, group=9, pods=300), None),
    "just as many": (sharing("set", "AllReplicas", replicas=2, group=2, pods=64), None),
}


@pytest.mark.parametrize(("cliqueset", "pods"), CROWDED.values(), ids=CROWDED)
def test_a_claim_that_more_pods_would_share_than_may_use_it_is_told(
    cliqueset: PodCliqueSet, pods: int | None
) -> None:
    told = [notice.message for notice in notices(cliqueset)]
    assert [message.partition(" pods share a claim of 't'")[0] for message in told] == (
        [str(pods)] if pods is not None else []
    )
