"""What of a stored set cannot be changed any more."""

import copy
from collections.abc import Callable

import pytest

from grove.admission import default, validate_update
from grove.api.cliqueset import PodCliqueSet
from grove.api.decode import decode
from grove.meta import Manifest

CLIQUES, GROUPS = "spec.template.cliques", "spec.template.podCliqueScalingGroups"
Edit = Callable[[Manifest], object]


def clique(name: str, **spec: object) -> Manifest:
    return {"name": name, "spec": {"roleName": name, "podSpec": {"containers": [{"name": "main"}]}, **spec}}


STORED = default(
    {
        "metadata": {"name": "llm"},
        "spec": {
            "template": {
                "cliqueStartupType": "CliqueStartupTypeExplicit",
                "cliques": [
                    clique("front"),
                    clique("lead", startsAfter=["front"]),
                    clique("work", replicas=4, minAvailable=2),
                ],
                "podCliqueScalingGroups": [{"name": "decode", "cliqueNames": ["lead", "work"]}],
            }
        },
    }
)


def changed(edit: Edit) -> list[tuple[str, str]]:
    after = copy.deepcopy(STORED)
    edit(after["spec"]["template"])
    found = validate_update(decode(after, PodCliqueSet), decode(STORED, PodCliqueSet))
    return [(error.field, error.message) for error in found]


def at_clique(index: int, **fields: object) -> Edit:
    return lambda template: template["cliques"][index]["spec"].update(fields)


FROZEN: dict[str, tuple[Edit, str, str]] = {
    "roleName": (at_clique(0, roleName="x"), f"{CLIQUES}.spec.roleName", "field is immutable"),
    "minAvailable": (at_clique(2, minAvailable=3), f"{CLIQUES}.spec.minAvailable", "field is immutable"),
    "startsAfter": (at_clique(1, startsAfter=[]), f"{CLIQUES}.spec.startsAfter", "field is immutable"),
    "schedulerName": (
        lambda template: template["cliques"][0]["spec"]["podSpec"].update(schedulerName="kai-scheduler"),
        f"{CLIQUES}.spec.podSpec.schedulerName",
        "field is immutable",
    ),
    "a clique's sharing": (
        lambda template: template["cliques"][0].update(
            resourceSharing=[{"name": "gpu", "scope": "PerReplica"}]
        ),
        f"{CLIQUES}[0].resourceSharing",
        "field is immutable",
    ),
    "startup type": (
        lambda template: template.update(cliqueStartupType="CliqueStartupTypeInOrder"),
        "spec.template.cliqueStartupType",
        "field is immutable",
    ),
    "a clique more": (
        lambda template: template["cliques"].append(clique("new")),
        CLIQUES,
        "not allowed to change clique composition",
    ),
    "a clique renamed": (
        lambda template: template["cliques"][0].update(name="gate"),
        f"{CLIQUES}.name",
        "gate was not there before",
    ),
    "the order": (lambda template: template["cliques"].reverse(), CLIQUES, "order of cliques cannot change"),
    "a group less": (
        lambda template: template.update(podCliqueScalingGroups=[]),
        GROUPS,
        "not allowed to add or remove PodCliqueScalingGroupConfigs",
    ),
    "a group renamed": (
        lambda template: template["podCliqueScalingGroups"][0].update(name="x"),
        f"{GROUPS}.name",
        "field is immutable",
    ),
    "a group's cliques": (
        lambda template: template["podCliqueScalingGroups"][0].update(cliqueNames=["work"]),
        f"{GROUPS}[0].cliqueNames",
        "field is immutable",
    ),
    "a group's minimum": (
        lambda template: template["podCliqueScalingGroups"][0].update(minAvailable=2),
        f"{GROUPS}[0].minAvailable",
        "field is immutable",
    ),
    "claim templates": (
        lambda template: template.update(resourceClaimTemplates=[{"name": "gpu", "templateSpec": {}}]),
        "spec.template.resourceClaimTemplates",
        "field is immutable",
    ),
    "the set's sharing": (
        lambda template: template.update(resourceSharing=[{"name": "gpu", "scope": "PerReplica"}]),
        "spec.template.resourceSharing",
        "field is immutable",
    ),
}


@pytest.mark.parametrize(("edit", "field", "says"), FROZEN.values(), ids=FROZEN)
def test_a_change_that_is_not_allowed_is_named(edit: Edit, field: str, says: str) -> None:
    found = changed(edit)
    assert any(where == field and says in message for where, message in found), found


FREE: dict[str, Edit] = {
    "nothing": lambda _: None,
    "replicas": at_clique(2, replicas=9),
    "a role put to sleep": at_clique(2, replicas=0),
    "pods": lambda template: template["cliques"][0]["spec"]["podSpec"].update(nodeName="n1"),
    "labels": lambda template: template["cliques"][0].update(labels={"a": "b"}),
    "autoscaling": at_clique(0, autoScalingConfig={"maxReplicas": 4}),
    "empty where absent": lambda template: template.update(resourceSharing=[], resourceClaimTemplates=[]),
    "the delay": lambda template: template.update(terminationDelay="1m"),
    "the priority": lambda template: template.update(priorityClassName="high"),
}


@pytest.mark.parametrize("edit", FREE.values(), ids=FREE)
def test_everything_else_may_change(edit: Edit) -> None:
    assert changed(edit) == []


def test_cliques_that_start_in_any_order_may_be_reordered() -> None:
    stored = copy.deepcopy(STORED)
    stored["spec"]["template"]["cliqueStartupType"] = "CliqueStartupTypeAnyOrder"
    after = copy.deepcopy(stored)
    after["spec"]["template"]["cliques"].reverse()
    assert validate_update(decode(after, PodCliqueSet), decode(stored, PodCliqueSet)) == []


def test_a_role_that_slept_when_it_was_created_may_get_its_minimum() -> None:
    stored = default(
        {"metadata": {"name": "llm"}, "spec": {"template": {"cliques": [clique("work", replicas=0)]}}}
    )
    after = copy.deepcopy(stored)
    after["spec"]["template"]["cliques"][0]["spec"]["replicas"] = 3
    woken = decode(default(after), PodCliqueSet)
    assert woken.template.cliques[0].spec.min_available == 3
    assert validate_update(woken, decode(stored, PodCliqueSet)) == []


def test_a_set_that_is_being_deleted_can_always_lose_its_finalizer() -> None:
    after = copy.deepcopy(STORED)
    after["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    after["spec"]["template"]["cliques"].append(clique("new"))
    assert validate_update(decode(after, PodCliqueSet), decode(STORED, PodCliqueSet)) == []
