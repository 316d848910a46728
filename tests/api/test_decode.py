"""Manifests become views; a wrong field is named."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grove.api.cliqueset import PodCliqueSet
from grove.api.decode import decode, unknown_fields
from grove.api.topology import ClusterTopologyBinding
from grove.errors import InvalidInput
from grove.meta import Manifest

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=8), children, max_size=3)
    ),
    max_leaves=12,
)


def cliqueset(**clique_spec: object) -> Manifest:
    spec = {"podSpec": {"containers": [{"name": "main", "image": "app"}]}, **clique_spec}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "llm"},
        "spec": {"replicas": 1, "template": {"cliques": [{"name": "worker", "spec": spec}]}},
    }


@given(st.dictionaries(st.text(max_size=8), JSON, max_size=4))
def test_a_pod_spec_survives_whatever_it_contains(pod_spec: Manifest) -> None:
    manifest = cliqueset(podSpec=pod_spec)
    assert decode(manifest, PodCliqueSet).template.cliques[0].spec.pod_spec == pod_spec
    from_wire = msgspec.json.decode(json.dumps(manifest).encode(), type=PodCliqueSet)
    assert from_wire.template.cliques[0].spec.pod_spec == pod_spec


def test_a_wrong_type_is_named_by_its_path() -> None:
    manifest = cliqueset()
    manifest["spec"]["replicas"] = "three"
    with pytest.raises(InvalidInput) as refusal:
        decode(manifest, PodCliqueSet)
    assert str(refusal.value) == "spec.replicas: must be a whole number, not the text 'three'"


def test_everything_of_the_wrong_type_is_told_at_once_and_beside_what_is_unknown() -> None:
    manifest = cliqueset(replicas=[], minAvailable=True, roleName={}, startsAfter="front", repliacs=1)
    manifest["metadata"] = {"name": "llm", "labels": {"day": 1}, "annotations": ["a"]}
    manifest["spec"]["replicas"] = "three"
    with pytest.raises(InvalidInput) as refusal:
        decode(manifest, PodCliqueSet, strict=True)
    at = "spec.template.cliques[0].spec"
    assert {str(error) for error in refusal.value.errors} == {
        f"{at}.repliacs: unknown field; did you mean replicas?",
        "metadata.labels[day]: must be text, not the number 1",
        "metadata.annotations: must be an object, not a list",
        "spec.replicas: must be a whole number, not the text 'three'",
        f"{at}.replicas: must be a whole number, not a list",
        f"{at}.minAvailable: must be a whole number, not true",
        f"{at}.roleName: must be text, not an object",
        f"{at}.startsAfter: must be a list, not the text 'front'",
    }


def test_a_missing_field_is_named() -> None:
    manifest = {"metadata": {"name": "t"}, "spec": {"levels": [{"domain": "rack"}]}}
    with pytest.raises(InvalidInput) as refusal:
        decode(manifest, ClusterTopologyBinding)
    assert str(refusal.value) == "spec.levels[0].key: is required"


def test_nulls_count_as_absent_as_they_do_for_the_api_server() -> None:
    view = decode(cliqueset(minAvailable=None, startsAfter=None, replicas=None), PodCliqueSet)
    spec = view.template.cliques[0].spec
    assert (spec.min_available, spec.starts_after, spec.replicas) == (None, (), 1)


def test_unknown_fields_are_refused_only_when_asked_and_named_with_their_path() -> None:
    manifest = cliqueset(minavailable=2, podSpec={"containers": [{"name": "main"}], "futureField": 1})
    manifest["spec"] |= {"tempate": {}, "wholly": 1}
    assert decode(manifest, PodCliqueSet).spec.replicas == 1
    with pytest.raises(InvalidInput) as refusal:
        decode(manifest, PodCliqueSet, strict=True)
    assert [str(error) for error in refusal.value.errors] == [
        "spec.template.cliques[0].spec.minavailable: unknown field; did you mean minAvailable?",
        "spec.tempate: unknown field; did you mean template?",
        "spec.wholly: unknown field",
    ]


def test_a_filter_that_a_clique_cannot_have_is_an_unknown_field() -> None:
    manifest = cliqueset()
    manifest["spec"]["template"]["cliques"][0]["resourceSharing"] = [
        {"name": "gpu", "scope": "PerReplica", "filter": {}}
    ]
    manifest["spec"]["template"]["resourceSharing"] = [{"name": "gpu", "scope": "PerReplica", "filter": {}}]
    assert [error.field for error in unknown_fields(manifest, PodCliqueSet)] == [
        "spec.template.cliques[0].resourceSharing[0].filter"
    ]


def test_a_view_is_decoded_even_from_values_that_todays_schema_would_refuse() -> None:
    view = decode(cliqueset(replicas=-3, roleName="x" * 500), PodCliqueSet)
    assert view.template.cliques[0].spec.replicas == -3
