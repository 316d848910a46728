"""Which claims a set has at each level, which of them a pod uses, and how its containers get them."""

from typing import Final

from grove.api import names
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.meta import Key, Manifest
from grove.plan.layout import Layout
from grove.plan.sharing import (
    claims_of,
    external_templates,
    missing_templates,
    planned_claims,
    with_claims,
)
from grove.testing import make


def all_of(name: str, **more: object) -> Manifest:
    return {"name": name, "scope": "AllReplicas", **more}


def each_of(name: str, **more: object) -> Manifest:
    return {"name": name, "scope": "PerReplica", **more}


def template(name: str) -> Manifest:
    request = {"name": "gpu", "exactly": {"deviceClassName": f"{name}.example.com"}}
    return {"name": name, "templateSpec": {"spec": {"devices": {"requests": [request]}}}}


def role(name: str, replicas: int, *shared: Manifest) -> Manifest:
    return {**make.template(name, replicas), "resourceSharing": list(shared)}


#: Every level and scope; `decode` is a scaling group of two replicas with the role `work`.
SET: Final = make.cliqueset(
    "llm",
    [role("front", 1, all_of("t")), role("work", 2, all_of("t"), each_of("u"))],
    replicas=2,
    groups=[
        make.scaling_group("decode", ["work"], replicas=2) | {"resourceSharing": [each_of("u"), all_of("t")]}
    ],
    template={
        "resourceClaimTemplates": [template("t"), template("u")],
        "resourceSharing": [
            each_of("u"),
            all_of("t"),
            each_of("out", namespace="other", filter={"childScalingGroupNames": ["decode"]}),
            all_of("front-only", filter={"childCliqueNames": ["front"]}),
        ],
    },
)


def layout(**scaled_to: int) -> Layout:
    return Layout(
        SET.name, SET.template, {name.replace("_", "-"): count for name, count in scaled_to.items()}
    )


def planned(replica: int, found: Layout | None = None, pods: int | None = None) -> dict[str, dict[str, str]]:
    claims = planned_claims(
        found or layout(), replica, lambda clique: clique.role.spec.replicas if pods is None else pods
    )
    return {claim.name: claim.labels for claim in claims}


def test_the_claims_of_all_levels_with_their_labels() -> None:
    in_set, group, clique = (
        "grove.io/podcliqueset-replica-index",
        "grove.io/podcliquescalinggroup",
        "grove.io/podclique",
    )
    assert planned(0) == {
        "llm-0-u": {in_set: "0"},
        "llm-all-t": {},
        "llm-0-out": {in_set: "0"},
        "llm-all-front-only": {},
        "llm-0-decode-0-u": {group: "llm-0-decode", f"{group}-replica-index": "0"},
        "llm-0-decode-1-u": {group: "llm-0-decode", f"{group}-replica-index": "1"},
        "llm-0-decode-all-t": {group: "llm-0-decode"},
        "llm-0-front-all-t": {clique: "llm-0-front"},
        **{
            name: value
            for number in range(2)
            for of in [f"llm-0-decode-{number}-work"]
            for name, value in {
                f"{of}-all-t": {clique: of},
                f"{of}-0-u": {clique: of, f"{clique}-pod-index": "0"},
                f"{of}-1-u": {clique: of, f"{clique}-pod-index": "1"},
            }.items()
        },
    }


def test_what_the_whole_set_shares_is_made_once_with_its_first_replica() -> None:
    assert {"llm-all-t", "llm-all-front-only"}.isdisjoint(planned(1))
    assert {"llm-1-u", "llm-1-out"} <= planned(1).keys()


def test_a_group_or_clique_without_replicas_needs_no_claims() -> None:
    assert not [name for name in planned(0, layout(llm_0_decode=0)) if name.startswith("llm-0-decode")]
    assert not [
        name for name in planned(0, pods=0) if name.startswith(("llm-0-front", "llm-0-decode-0-work"))
    ]


def clique(name: str, **labels: str) -> PodClique:
    return make.view(PodClique, {"metadata": {"name": name, "namespace": "default", "labels": labels}})


GROUPED: Final = clique(
    "llm-1-decode-7-work",
    **{"grove.io/podcliquescalinggroup": "llm-1-decode", "grove.io/podcliquescalinggroup-replica-index": "7"},
)


def test_a_pod_uses_the_claims_of_its_set_of_its_group_and_of_its_clique_in_this_order() -> None:
    assert claims_of(SET, GROUPED, [3]) == {
        3: [
            "llm-all-t",
            "llm-1-u",
            "llm-1-out",
            "llm-1-decode-all-t",
            "llm-1-decode-7-u",
            "llm-1-decode-7-work-all-t",
            "llm-1-decode-7-work-3-u",
        ]
    }


def test_a_filter_keeps_other_cliques_from_a_claim() -> None:
    assert claims_of(SET, clique("llm-0-front"), [0]) == {
        0: ["llm-all-t", "llm-all-front-only", "llm-0-u", "llm-0-front-all-t"]
    }


def test_a_pod_of_a_set_that_shares_nothing_has_no_claims() -> None:
    plain = make.cliqueset("llm", {"front": 2})
    assert claims_of(plain, clique("llm-0-front"), [0, 1]) == {0: [], 1: []}


def test_templates_in_the_cluster_are_those_that_the_set_does_not_have_itself() -> None:
    assert external_templates(SET) == [Key("default", "front-only"), Key("other", "out")]


def test_a_namespace_means_the_cluster_even_if_the_set_has_a_template_of_that_name() -> None:
    shared = {"resourceClaimTemplates": [template("t")], "resourceSharing": [all_of("t", namespace="other")]}
    cliqueset = make.cliqueset("llm", {"front": 1}, template=shared)
    assert external_templates(cliqueset) == [Key("other", "t")]


def test_a_template_that_is_missing_is_named_and_one_that_is_not_read_yet_is_not() -> None:
    (sentence,) = missing_templates({Key("other", "out"): None, Key("default", "t"): {}})
    assert sentence.startswith("ResourceClaimTemplate other/out does not exist")
    assert missing_templates({}) == []


def test_every_container_uses_the_claims_after_the_users_own() -> None:
    spec = {
        "resourceClaims": [{"name": "own", "resourceClaimTemplateName": "x"}],
        "containers": [
            {"name": "main", "resources": {"claims": [{"name": "own"}], "limits": {"cpu": "1"}}},
            {"name": "side"},
        ],
        "initContainers": [{"name": "load"}],
    }
    before = repr(spec)
    made = with_claims(spec, ["llm-all-t", "llm-0-u"])
    uses = [{"name": "llm-all-t"}, {"name": "llm-0-u"}]
    assert made == {
        "resourceClaims": [
            {"name": "own", "resourceClaimTemplateName": "x"},
            {"name": "llm-all-t", "resourceClaimName": "llm-all-t"},
            {"name": "llm-0-u", "resourceClaimName": "llm-0-u"},
        ],
        "containers": [
            {"name": "main", "resources": {"claims": [{"name": "own"}, *uses], "limits": {"cpu": "1"}}},
            {"name": "side", "resources": {"claims": uses}},
        ],
        "initContainers": [{"name": "load", "resources": {"claims": uses}}],
    }
    assert repr(spec) == before
    assert with_claims(spec, []) is spec


def test_a_claim_is_called_by_its_own_name_where_a_pod_may_call_it_so_and_otherwise_by_a_label() -> None:
    assert names.claim_reference("llm-all-t") == "llm-all-t"
    dotted, dashed = (
        names.claim_reference("llm-all-gpu.example"),
        names.claim_reference("llm-all-gpu-example"),
    )
    assert dotted != dashed == "llm-all-gpu-example"
    long = names.claim_reference("x" * 70)
    assert len(long) == 63
    assert "." not in dotted
    made = with_claims({"containers": [{"name": "main"}]}, ["llm-all-gpu.example"])
    assert made["resourceClaims"] == [{"name": dotted, "resourceClaimName": "llm-all-gpu.example"}]
    assert made["containers"][0]["resources"]["claims"] == [{"name": dotted}]


def test_the_sample_is_decoded_as_it_is_written() -> None:
    assert isinstance(SET, PodCliqueSet)
    assert SET.template.resource_sharing[2].filter is not None
