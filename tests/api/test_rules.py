"""What the API server refuses with nothing but the schema: no webhook is needed for these."""

import copy
from collections.abc import Callable
from typing import NamedTuple

import pytest

from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.crd import schema_of
from grove.embedded.machinery.schema import custom_schema
from grove.meta import Manifest

SCHEMA = custom_schema(schema_of(PodCliqueSet))
Edit = Callable[[Manifest], None]


def clique(name: str, **spec: object) -> Manifest:
    return {"name": name, "spec": {"podSpec": {"containers": [{"name": "main", "image": "app"}]}, **spec}}


def cliqueset() -> Manifest:
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "llm"},
        "spec": {
            "replicas": 1,
            "template": {
                "cliqueStartupType": "CliqueStartupTypeExplicit",
                "cliques": [
                    clique("front", roleName="front", minAvailable=1),
                    clique("lead", startsAfter=["front"]),
                    clique("work", replicas=4, minAvailable=2, startsAfter=["lead"]),
                ],
                "podCliqueScalingGroups": [{"name": "decode", "cliqueNames": ["lead", "work"]}],
            },
        },
    }


def template(manifest: Manifest) -> Manifest:
    found: Manifest = manifest["spec"]["template"]
    return found


def stored(edit: Edit | None = None) -> Manifest:
    manifest = cliqueset()
    if edit:
        edit(manifest)
    SCHEMA.default(manifest)
    return manifest


def errors(edit: Edit, old: Manifest | None = None) -> list[tuple[str, str]]:
    manifest = copy.deepcopy(old) if old else cliqueset()
    edit(manifest)
    SCHEMA.default(manifest)
    return [(cause.field, cause.message) for cause in SCHEMA.validate(manifest, old)]


def put(path: str, value: object) -> Edit:
    """Set a field; digits in the path are list indices, None removes."""

    def edit(manifest: Manifest) -> None:
        *parents, last = path.split(".")
        at: object = manifest
        for part in parents:
            at = at[int(part)] if isinstance(at, list) else at[part]  # type: ignore[index]
        if value is None:
            del at[last]  # type: ignore[attr-defined]
        else:
            at[int(last) if isinstance(at, list) else last] = value  # type: ignore[index]

    return edit


class Case(NamedTuple):
    edit: Edit
    field: str
    says: str


CLIQUES, GROUPS = "spec.template.cliques", "spec.template.podCliqueScalingGroups"

REFUSED = {
    "a negative number of sets": Case(
        put("spec.replicas", -1), "spec.replicas", "greater than or equal to 0"
    ),
    "a negative number of pods": Case(
        put(f"{CLIQUES}.0.spec.replicas", -1), f"{CLIQUES}[0].spec.replicas", "greater than or equal to 0"
    ),
    "no clique at all": Case(
        lambda manifest: template(manifest).update(cliques=[], podCliqueScalingGroups=[]),
        CLIQUES,
        "at least one PodClique must be defined",
    ),
    "the same clique twice": Case(put(f"{CLIQUES}.1.name", "front"), f"{CLIQUES}[1]", "Duplicate value"),
    "a clique name with a dot": Case(put(f"{CLIQUES}.0.name", "a.b"), f"{CLIQUES}[0].name", "should match"),
    "a set name that no service can have": Case(
        put("metadata.name", "1llm"), "<nil>", "metadata.name must start with a letter"
    ),
    "a clique name over the budget": Case(
        put("metadata.name", "x" * 41),
        CLIQUES,
        "the set's name and a clique's name may have 45 characters together, so that pod names fit; with front "
        "they are 46",
    ),
    "a group name over the budget": Case(
        put(f"{GROUPS}.0.name", "g" * 40), GROUPS, "may have 45 characters together"
    ),
    "minAvailable over replicas": Case(
        put(f"{CLIQUES}.2.spec.minAvailable", 5),
        f"{CLIQUES}[2].spec.minAvailable",
        "minAvailable must not be greater than replicas; got 5 with 4 replicas",
    ),
    "minAvailable zero": Case(
        put(f"{CLIQUES}.2.spec.minAvailable", 0),
        f"{CLIQUES}[2].spec.minAvailable",
        "greater than or equal to 1",
    ),
    "a group's minAvailable over replicas": Case(
        put(f"{GROUPS}.0.minAvailable", 2),
        f"{GROUPS}[0].minAvailable",
        "minAvailable must not be greater than replicas; got 2 with 1 replica",
    ),
    "a group of unknown cliques": Case(
        put(f"{GROUPS}.0.cliqueNames", ["ghost"]),
        GROUPS,
        "unidentified PodClique names found: cliqueNames may only name cliques of the set; got ghost",
    ),
    "an empty group": Case(
        put(f"{GROUPS}.0.cliqueNames", []), f"{GROUPS}[0].cliqueNames", "at least one clique"
    ),
    "a clique in two groups": Case(
        lambda manifest: template(manifest)["podCliqueScalingGroups"].append(
            {"name": "other", "cliqueNames": ["work"]}
        ),
        GROUPS,
        "a clique may belong to one scaling group at most; work belongs to several",
    ),
    "an autoscaled member of a group": Case(
        put(f"{CLIQUES}.1.spec.autoScalingConfig", {"maxReplicas": 3}), CLIQUES, "use scaleConfig"
    ),
    "autoscaling downwards": Case(
        put(f"{CLIQUES}.0.spec.autoScalingConfig", {"minReplicas": 4, "maxReplicas": 3}),
        f"{CLIQUES}[0].spec.autoScalingConfig.maxReplicas",
        "maxReplicas must not be less than minReplicas; got 3 with 4",
    ),
    "autoscaling below the minimum": Case(
        put(
            f"{CLIQUES}.0.spec",
            {
                "replicas": 3,
                "minAvailable": 2,
                "podSpec": {"containers": [{"name": "m"}]},
                "autoScalingConfig": {"minReplicas": 1, "maxReplicas": 3},
            },
        ),
        f"{CLIQUES}[0].spec.autoScalingConfig.minReplicas",
        "minReplicas must not be less than minAvailable; got 1 with 2",
    ),
    "autoscaling below the replicas": Case(
        put(
            f"{CLIQUES}.0.spec",
            {
                "replicas": 3,
                "podSpec": {"containers": [{"name": "m"}]},
                "autoScalingConfig": {"maxReplicas": 2},
            },
        ),
        f"{CLIQUES}[0].spec.autoScalingConfig.maxReplicas",
        "maxReplicas must not be less than replicas; got 2 with 3",
    ),
    "a group's autoscaling below the minimum": Case(
        put(f"{GROUPS}.0.scaleConfig", {"minReplicas": 0, "maxReplicas": 3}),
        f"{GROUPS}[0].scaleConfig.minReplicas",
        "minReplicas must not be less than minAvailable; got 0 with 1",
    ),
    "a group's autoscaling below the replicas": Case(
        put(
            f"{GROUPS}.0",
            {
                "name": "decode",
                "cliqueNames": ["lead", "work"],
                "replicas": 3,
                "scaleConfig": {"maxReplicas": 2},
            },
        ),
        f"{GROUPS}[0].scaleConfig.maxReplicas",
        "maxReplicas must not be less than replicas; got 2 with 3",
    ),
    "starting after a stranger": Case(
        put(f"{CLIQUES}.1.spec.startsAfter", ["ghost"]),
        CLIQUES,
        "startsAfter may only name other cliques of the set; got ghost",
    ),
    "starting after itself": Case(
        put(f"{CLIQUES}.1.spec.startsAfter", ["lead"]), CLIQUES, "may only name other cliques"
    ),
    "a pod without containers": Case(
        put(f"{CLIQUES}.0.spec.podSpec", {}), f"{CLIQUES}[0].spec.podSpec.containers", "Required value"
    ),
    "a constraint that says nothing": Case(
        put("spec.template.topologyConstraint", {"topologyName": "t"}),
        "spec.template.topologyConstraint.pack",
        "must specify pack or deprecated packDomain",
    ),
    "a pack that says nothing": Case(
        put("spec.template.topologyConstraint", {"pack": {}}),
        "spec.template.topologyConstraint.pack",
        "at least one of required or preferred",
    ),
    "packDomain on a new set": Case(
        put("spec.template.topologyConstraint", {"packDomain": "rack"}),
        "spec.template.topologyConstraint.packDomain",
        "packDomain is deprecated and cannot be used on new workloads",
    ),
    "packDomain on a new clique": Case(
        put(f"{CLIQUES}.0.topologyConstraint", {"packDomain": "rack"}), CLIQUES, "packDomain is deprecated"
    ),
    "packDomain beside pack.required": Case(
        put("spec.template.topologyConstraint", {"packDomain": "rack", "pack": {"required": "rack"}}),
        "spec.template.topologyConstraint.pack.required",
        "must not set both",
    ),
    "a domain in capitals": Case(
        put("spec.template.topologyConstraint", {"pack": {"required": "Rack"}}),
        "spec.template.topologyConstraint.pack.required",
        "should match",
    ),
    "an unknown startup type": Case(
        put("spec.template.cliqueStartupType", "Random"),
        "spec.template.cliqueStartupType",
        "Unsupported value",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refused_on_creation_with_the_field_and_the_reason(case: Case) -> None:
    found = errors(case.edit)
    assert any(field == case.field and case.says in message for field, message in found), found


ALLOWED = {
    "what it says now": put("spec.replicas", 1),
    "no roleName, replicas or minAvailable": put(f"{CLIQUES}.0", clique("front")),
    "a role that sleeps": put(f"{CLIQUES}.2.spec.replicas", 0),
    "a group that sleeps": put(f"{GROUPS}.0.replicas", 0),
    "no set at all": put("spec.replicas", 0),
    "a preferred pack": put(
        "spec.template.topologyConstraint", {"topologyName": "t", "pack": {"preferred": "rack"}}
    ),
    "names that use the budget up": put("metadata.name", "x" * (45 - len("decode") - len("lead"))),
    "fields of tomorrow's pods": put(f"{CLIQUES}.0.spec.podSpec.fieldOfTheFuture", {"a": [1]}),
}


@pytest.mark.parametrize("edit", ALLOWED.values(), ids=ALLOWED)
def test_allowed_on_creation(edit: Edit) -> None:
    assert errors(edit) == []


FROZEN = {
    "roleName": Case(
        put(f"{CLIQUES}.0.spec.roleName", "other"), f"{CLIQUES}[0].spec.roleName", "field is immutable"
    ),
    "startsAfter": Case(
        put(f"{CLIQUES}.2.spec.startsAfter", ["front"]),
        f"{CLIQUES}[2].spec.startsAfter",
        "field is immutable",
    ),
    "schedulerName": Case(
        put(f"{CLIQUES}.0.spec.podSpec.schedulerName", "kai-scheduler"),
        f"{CLIQUES}[0].spec.podSpec.schedulerName",
        "field is immutable",
    ),
    "cliqueStartupType": Case(
        put("spec.template.cliqueStartupType", "CliqueStartupTypeAnyOrder"),
        "spec.template.cliqueStartupType",
        "field is immutable",
    ),
    "one clique more": Case(
        lambda manifest: template(manifest)["cliques"].append(clique("new")),
        CLIQUES,
        "not allowed to change clique composition; delete the set and create it again",
    ),
    "another clique": Case(
        put(f"{CLIQUES}.0.name", "gate"),
        CLIQUES,
        "not allowed to change clique composition; delete the set and create it again",
    ),
    "the order of cliques": Case(
        lambda manifest: template(manifest)["cliques"].reverse(),
        CLIQUES,
        "the order of cliques cannot change",
    ),
    "a group's cliques": Case(
        put(f"{GROUPS}.0.cliqueNames", ["work"]), f"{GROUPS}[0].cliqueNames", "field is immutable"
    ),
    "the groups": Case(
        put(GROUPS, None), GROUPS, "not allowed to add or remove PodCliqueScalingGroupConfigs"
    ),
}


@pytest.mark.parametrize("case", FROZEN.values(), ids=FROZEN)
def test_refused_once_stored(case: Case) -> None:
    found = errors(case.edit, stored())
    assert any(field == case.field and case.says in message for field, message in found), found


MUTABLE = {
    "replicas": put("spec.replicas", 3),
    "a role's replicas": put(f"{CLIQUES}.2.spec.replicas", 9),
    "a role put to sleep": put(f"{CLIQUES}.2.spec.replicas", 0),
    "a group put to sleep": put(f"{GROUPS}.0.replicas", 0),
    "the image": put(f"{CLIQUES}.0.spec.podSpec.containers", [{"name": "main", "image": "newer"}]),
    "the update strategy": put("spec.updateStrategy", {"type": "OnDelete"}),
    "the termination delay": put("spec.template.terminationDelay", "1m"),
    "another minimum": put(f"{CLIQUES}.2.spec.minAvailable", 3),
    "a minimum that is left to the default again": put(f"{CLIQUES}.2.spec.minAvailable", None),
    "a minimum where there was none": put(f"{CLIQUES}.1.spec.minAvailable", 1),
}


@pytest.mark.parametrize("edit", MUTABLE.values(), ids=MUTABLE)
def test_allowed_once_stored(edit: Edit) -> None:
    assert errors(edit, stored()) == []


def test_a_stored_set_that_uses_pack_domain_may_go_on_changing() -> None:
    old = stored(put("spec.template.topologyConstraint", {"topologyName": "t", "packDomain": "rack"}))
    assert errors(put("spec.replicas", 3), old) == []


def test_omitted_replicas_become_one_and_never_a_minimum_of_zero() -> None:
    spec = template(stored())["cliques"][1]["spec"]
    assert spec["replicas"] == 1
    assert "minAvailable" not in spec


def test_a_clique_may_be_scaled_to_nothing_whatever_its_minimum() -> None:
    schema = custom_schema(schema_of(PodClique))
    old: Manifest = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodClique",
        "metadata": {"name": "llm-0-work"},
        "spec": {"podSpec": {"containers": [{"name": "main"}]}, "replicas": 4, "minAvailable": 2},
    }
    new = copy.deepcopy(old)
    new["spec"]["replicas"] = 0
    assert schema.validate(new, old) == []
