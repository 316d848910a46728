"""Which role joins which NVLink domain, and which containers of it."""

import pytest
from tests.scenarios.nvlink import GROUP, cliqueset, role

from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.meta import Manifest
from grove.plan.domains import asks_for_gpus, domain_groups, moved_domains, with_domain
from grove.testing import make


def a_set(*roles: Manifest, group: str = "") -> PodCliqueSet:
    return make.view(PodCliqueSet, cliqueset(list(roles), group=group))


def test_each_group_that_a_role_with_gpus_belongs_to_is_a_domain_in_the_order_of_the_roles() -> None:
    found = a_set(
        role("a", group="x"), role("b"), role("c", gpus=0, group="y"), role("d", group="none"), group="z"
    )
    assert domain_groups(found) == ["x", "z"]


def test_without_a_group_there_is_no_domain() -> None:
    assert domain_groups(a_set(role("a"))) == []
    assert domain_groups(a_set(role("a"), group="none")) == []


ASKING = {
    "a limit": ({"limits": {"nvidia.com/gpu": "1"}}, True),
    "a request": ({"requests": {"nvidia.com/gpu": 8}}, True),
    "none of it": ({"limits": {"nvidia.com/gpu": "0"}}, False),
    "other devices": ({"limits": {"example.com/gpu": "1"}}, False),
    "nothing": ({}, False),
}


@pytest.mark.parametrize("field", ["containers", "initContainers"])
@pytest.mark.parametrize(("resources", "want"), ASKING.values(), ids=ASKING)
def test_who_asks_for_gpus(field: str, resources: Manifest, want: bool) -> None:
    assert asks_for_gpus({field: [{"name": "idle"}, {"name": "main", "resources": resources}]}) is want


def test_only_containers_with_gpus_join_and_a_claim_of_that_name_is_left_alone() -> None:
    spec: Manifest = {
        "containers": [
            {"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}, "claims": [{"name": "own"}]}},
            {"name": "side"},
        ],
        "initContainers": [{"name": "test", "resources": {"limits": {"nvidia.com/gpu": 1}}}],
        "resourceClaims": [{"name": "own", "resourceClaimName": "x"}],
    }
    made = with_domain(spec, "job-0-a")
    assert made["resourceClaims"] == [
        {"name": "own", "resourceClaimName": "x"},
        {"name": "mnnvl-claim", "resourceClaimTemplateName": "job-0-a"},
    ]
    assert [each.get("resources", {}).get("claims") for each in made["containers"]] == [
        [{"name": "own"}, {"name": "mnnvl-claim"}],
        None,
    ]
    assert made["initContainers"][0]["resources"]["claims"] == [{"name": "mnnvl-claim"}]
    assert with_domain(made, "job-0-b") == made


def clique(domain: str | None, *, gpus: int = 1) -> PodClique:
    spec: Manifest = role("a", gpus=gpus)["spec"]["podSpec"]
    if domain:
        spec = with_domain(spec, domain)
    labels = {"grove.io/podcliqueset-replica-index": "0"}
    manifest = {"metadata": {"name": "job-0-a", "labels": labels}, "spec": {"podSpec": spec}}
    return make.view(PodClique, manifest)


MOVED = {
    "nothing changed": (a_set(role("a"), group="x"), clique("job-0-x"), False),
    "another group": (a_set(role("a"), group="y"), clique("job-0-x"), True),
    "no group any more": (a_set(role("a")), clique("job-0-x"), True),
    "a group where there was none": (a_set(role("a"), group="x"), clique(None), True),
    "GPUs where there were none": (a_set(role("a"), group="x"), clique(None, gpus=0), False),
    "no GPUs any more": (a_set(role("a", gpus=0), group="x"), clique("job-0-x"), False),
}


@pytest.mark.parametrize(("found", "living", "want"), MOVED.values(), ids=MOVED)
def test_pods_cannot_move_between_domains(found: PodCliqueSet, living: PodClique, want: bool) -> None:
    errors = moved_domains(found, [living])
    assert [error.field for error in errors] == ([f"metadata.annotations[{GROUP}]"] if want else [])
