"""Workload, PodGroup and CompositePodGroup as each Kubernetes minor understands them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from grove.embedded.errors import ApiError
from grove.embedded.identity import ADMIN
from grove.embedded.kinds import strategy_for
from grove.embedded.kinds.context import Context
from grove.embedded.kinds.registry import Registry
from grove.embedded.kinds.scheduling import FINALIZER

Manifest = dict[str, Any]
VERSIONS = {"1.35": "v1alpha1", "1.36": "v1alpha2", "1.37": "v1beta1"}
GANG = {"gang": {"minCount": 2}}


def context(
    minor: str,
    kind: str,
    *,
    version: str = "",
    objects: tuple[Manifest, ...] = (),
    gates: frozenset[str] | None = None,
) -> Context:
    resource = Registry(minor).by_kind(f"scheduling.k8s.io/{version or VERSIONS[minor]}", kind)
    assert resource is not None
    by_name = {found["metadata"]["name"]: found for found in objects}
    return Context(
        resource=resource,
        now="2026-01-01T00:00:00Z",
        user=ADMIN,
        minor=minor,
        find=lambda group, plural, namespace, name: by_name.get(name),
        all_of=lambda group, plural, namespace: [],
        new_cluster_ip=lambda: "",
        features=gates,
    )


def created(spec: Manifest, ctx: Context) -> tuple[Manifest, list[str]]:
    obj = {"metadata": {"name": "g", "namespace": "d"}, "spec": copy.deepcopy(spec)}
    strategy = strategy_for(ctx.resource)
    strategy.prepare_create(obj, ctx)
    strategy.default(obj, ctx)
    return obj, [f"{cause.field}: {cause.message}" for cause in strategy.validate_create(obj, ctx)]


def updated(old: Manifest, change: Manifest, ctx: Context, *, revision: str = "7") -> list[str]:
    new = copy.deepcopy(old)
    new["spec"].update(copy.deepcopy(change))
    if revision:
        new["metadata"]["resourceVersion"] = revision
    strategy = strategy_for(ctx.resource)
    strategy.prepare_update(new, old, ctx)
    strategy.default(new, ctx)
    return [cause.field for cause in strategy.validate_update(new, old, ctx)]


def group_135(name: str = "a", **policy: Any) -> Manifest:
    return {"name": name, "policy": policy or GANG}


def template(name: str = "a", **more: Any) -> Manifest:
    return {"name": name, "schedulingPolicy": GANG, **more}


def nested(depth: int) -> Manifest:
    """A tree of composite templates with `depth` composite levels above one leaf."""
    if depth == 0:
        return {"podGroupTemplates": [template("leaf")]}
    inner = nested(depth - 1)
    return {
        "compositePodGroupTemplates": [
            {"name": f"level-{depth}", "schedulingPolicy": {"gang": {"minGroupCount": 1}}, **inner}
        ]
    }


BOTH = "must specify exactly one of: `compositePodGroupTemplates`, `podGroupTemplates`"
WORKLOADS: dict[str, tuple[str, Manifest, list[str]]] = {
    "1.35: one gang": ("1.35", {"podGroups": [group_135()]}, []),
    "1.35: at least one group": ("1.35", {}, ["spec.podGroups: Required value: must have at least one item"]),
    "1.35: at most eight groups": (
        "1.35",
        {"podGroups": [group_135(f"g{n}") for n in range(9)]},
        ["spec.podGroups: Too many: 9: must have at most 8 items"],
    ),
    "1.35: names are unique": (
        "1.35",
        {"podGroups": [group_135(), group_135()]},
        ['spec.podGroups[1]: Duplicate value: {"name":"a"}'],
    ),
    "1.35: one policy": (
        "1.35",
        {"podGroups": [group_135(basic={}, gang={"minCount": 1})]},
        [
            'spec.podGroups[0].policy: Invalid value: "{basic, gang}": must specify exactly one of: `basic`, `gang`'
        ],
    ),
    "1.36: some policy": (
        "1.36",
        {"podGroupTemplates": [{"name": "a"}]},
        [
            'spec.podGroupTemplates[0].schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`'
        ],
    ),
    "1.36: a positive minimum": (
        "1.36",
        {"podGroupTemplates": [{"name": "a", "schedulingPolicy": {"gang": {"minCount": 0}}}]},
        [
            "spec.podGroupTemplates[0].schedulingPolicy.gang.minCount: Invalid value: 0: must be greater than or equal to 1"
        ],
    ),
    "1.36: one topology key": (
        "1.36",
        {"podGroupTemplates": [template(schedulingConstraints={"topology": [{"key": "a"}, {"key": "b"}]})]},
        ["spec.podGroupTemplates[0].schedulingConstraints.topology: Too many: 2: must have at most 1 items"],
    ),
    "1.36: a known disruption mode": (
        "1.36",
        {"podGroupTemplates": [template(disruptionMode="Some")]},
        [
            'spec.podGroupTemplates[0].disruptionMode: Unsupported value: "Some": supported values: "Pod", "PodGroup"'
        ],
    ),
    "1.37: flat or composite": ("1.37", {}, [f'spec: Invalid value: "": {BOTH}']),
    "1.37: three composite levels": ("1.37", nested(3), []),
    "1.37: no fourth composite level": (
        "1.37",
        nested(4),
        [
            "spec"
            + ".compositePodGroupTemplates[0]" * 4
            + ": Forbidden: the tree of templates may be at most 4 levels deep",
        ],
    ),
    "1.37: one priority for all": (
        "1.37",
        {"podGroupTemplates": [template("a", priority=1), template("b")]},
        [
            'spec.podGroupTemplates[1]: Invalid value: "b": all templates must have the same priorityClassName and priority'
        ],
    ),
}


@pytest.mark.parametrize(("minor", "spec", "want"), WORKLOADS.values(), ids=WORKLOADS)
def test_workloads(minor: str, spec: Manifest, want: list[str]) -> None:
    assert created(spec, context(minor, "Workload"))[1] == want


WORKLOAD_UPDATES: dict[str, tuple[str, Manifest, Manifest, list[str]]] = {
    "1.35: groups are fixed": (
        "1.35",
        {"podGroups": [group_135()]},
        {"podGroups": [group_135(gang={"minCount": 3})]},
        ["spec.podGroups"],
    ),
    "1.35: a controller may be added": (
        "1.35",
        {"podGroups": [group_135()]},
        {"controllerRef": {"kind": "Job", "name": "j"}},
        [],
    ),
    "1.36: a controller may not be added": (
        "1.36",
        {"podGroupTemplates": [template()]},
        {"controllerRef": {"kind": "Job", "name": "j"}},
        ["spec.controllerRef"],
    ),
    "1.36: the minimum is fixed": (
        "1.36",
        {"podGroupTemplates": [template()]},
        {"podGroupTemplates": [{"name": "a", "schedulingPolicy": {"gang": {"minCount": 3}}}]},
        ["spec.podGroupTemplates"],
    ),
    "1.37: the minimum may change": (
        "1.37",
        {"podGroupTemplates": [template()]},
        {"podGroupTemplates": [{"name": "a", "schedulingPolicy": {"gang": {"minCount": 3}}}]},
        [],
    ),
    "1.37: the policy may not": (
        "1.37",
        {"podGroupTemplates": [template()]},
        {"podGroupTemplates": [{"name": "a", "schedulingPolicy": {"basic": {}}}]},
        ["spec.podGroupTemplates"],
    ),
}


@pytest.mark.parametrize(("minor", "spec", "change", "want"), WORKLOAD_UPDATES.values(), ids=WORKLOAD_UPDATES)
def test_workload_updates(minor: str, spec: Manifest, change: Manifest, want: list[str]) -> None:
    ctx = context(minor, "Workload")
    old, problems = created(spec, ctx)
    assert problems == []
    assert updated(old, change, ctx) == want


@pytest.mark.parametrize(("minor", "mode"), [("1.36", "Pod"), ("1.37", {"single": {}})])
def test_a_pod_group_is_protected_and_gets_its_disruption_mode_and_priority(minor: str, mode: Any) -> None:
    obj, problems = created({"schedulingPolicy": GANG}, context(minor, "PodGroup"))
    assert problems == []
    assert obj["metadata"]["finalizers"] == [FINALIZER]
    assert (obj["spec"]["disruptionMode"], obj["spec"]["priority"]) == (mode, 0)


REFERENCE = {"podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "a"}}}
WORKLOAD = {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": [template("a")]}}
DANGLING: dict[str, tuple[Manifest, ...]] = {
    'podgroups.scheduling.k8s.io "g" is forbidden: workload "w" does not exist': (),
    'podgroups.scheduling.k8s.io "g" is forbidden: workload "w" is being deleted': (
        {**WORKLOAD, "metadata": {"name": "w", "deletionTimestamp": "x"}},
    ),
    'podgroups.scheduling.k8s.io "g" is forbidden: workload "w" has no pod group template "a"': (
        {"metadata": {"name": "w"}, "spec": {}},
    ),
}


@pytest.mark.parametrize("want", DANGLING)
def test_on_1_36_a_reference_to_a_workload_must_hold(want: str) -> None:
    with pytest.raises(ApiError) as refused:
        created({"schedulingPolicy": GANG, **REFERENCE}, context("1.36", "PodGroup", objects=DANGLING[want]))
    assert (refused.value.status, refused.value.message) == (403, want)


def test_on_1_36_a_reference_that_holds_is_accepted() -> None:
    assert (
        created({"schedulingPolicy": GANG, **REFERENCE}, context("1.36", "PodGroup", objects=(WORKLOAD,)))[1]
        == []
    )


def test_on_1_37_nobody_checks_the_reference() -> None:
    spec = {"schedulingPolicy": GANG, "workloadRef": {"workloadName": "gone", "templateName": "t"}}
    assert created(spec, context("1.37", "PodGroup"))[1] == []


@pytest.mark.parametrize(("minor", "want"), [("1.36", ["spec.schedulingPolicy"]), ("1.37", [])])
def test_the_minimum_of_a_pod_group_may_change_since_1_37(minor: str, want: list[str]) -> None:
    ctx = context(minor, "PodGroup")
    old, _ = created({"schedulingPolicy": GANG}, ctx)
    assert updated(old, {"schedulingPolicy": {"gang": {"minCount": 3}}}, ctx) == want
    assert updated(old, {"schedulingPolicy": {"basic": {}}}, ctx) == ["spec.schedulingPolicy"]


@pytest.mark.parametrize(("minor", "want"), [("1.36", []), ("1.37", ["metadata.resourceVersion"])])
def test_a_replace_without_a_revision_is_refused_since_1_37(minor: str, want: list[str]) -> None:
    ctx = context(minor, "PodGroup")
    old, _ = created({"schedulingPolicy": GANG}, ctx)
    assert updated(old, {}, ctx, revision="") == want


def test_a_class_that_does_not_exist_is_forbidden() -> None:
    with pytest.raises(ApiError) as refused:
        created({"schedulingPolicy": GANG, "priorityClassName": "nope"}, context("1.37", "PodGroup"))
    assert (refused.value.status, "no PriorityClass with name nope was found" in refused.value.message) == (
        403,
        True,
    )


def test_a_parent_needs_a_workload() -> None:
    spec = {"schedulingPolicy": GANG, "parentCompositePodGroupName": "p"}
    assert created(spec, context("1.37", "PodGroup"))[1] == [
        "spec.workloadRef: Required value: must be set when parentCompositePodGroupName is set"
    ]


def test_a_composite_group_needs_a_workload_has_no_finalizer_and_never_changes() -> None:
    ctx = context("1.37", "CompositePodGroup", version="v1alpha3")
    policy = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}}
    assert created(policy, ctx)[1] == ["spec.workloadRef: Required value"]
    old, problems = created({**policy, "workloadRef": {"workloadName": "w", "templateName": "t"}}, ctx)
    assert (problems, "finalizers" in old["metadata"]) == ([], False)
    assert updated(old, {"schedulingPolicy": {"gang": {"minGroupCount": 3}}}, ctx) == [
        "spec.schedulingPolicy"
    ]


def test_a_field_whose_gate_is_off_is_dropped_without_a_word() -> None:
    ctx = context("1.36", "PodGroup", gates=frozenset({"GenericWorkload"}))
    spec = {
        "schedulingPolicy": GANG,
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
        "disruptionMode": "PodGroup",
    }
    obj, problems = created(spec, ctx)
    assert (obj["spec"], problems) == ({"schedulingPolicy": GANG, "disruptionMode": "Pod"}, [])
