"""Which autoscalers a set has, and what of a living one is put right."""

import dataclasses

import msgspec
import pytest
from tests.plan.looks import bare, grown, plan_children, written

from grove.api import kinds, labels
from grove.api.autoscaler import HorizontalPodAutoscaler
from grove.meta import Manifest
from grove.plan.changes import Create, Patch
from grove.plan.children import Settled
from grove.plan.children.autoscalers import Autoscalers
from grove.plan.children.state import CliqueSetState
from grove.testing import make

CPU: Manifest = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}
QUEUE: Manifest = {
    "type": "Pods",
    "pods": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "0.5"}},
}


def role(name: str, replicas: int = 2, config: Manifest | None = None, **spec: object) -> Manifest:
    found = make.template(name, replicas)
    found["spec"].update(spec)
    if config is not None:
        found["spec"]["autoScalingConfig"] = config
    return found


def autoscalers(state: CliqueSetState) -> dict[str, Manifest]:
    """What would be created, by name."""
    created = [
        change.manifest
        for change in plan_children(state, Settled()).changes
        if isinstance(change, Create) and change.resource == kinds.AUTOSCALERS
    ]
    return {manifest["metadata"]["name"]: manifest for manifest in created}


def test_a_role_that_is_scaled_by_load_gets_an_autoscaler_of_its_cliques_name_in_every_replica() -> None:
    cliqueset = make.cliqueset("t", [role("w", config={"maxReplicas": 6}), role("l", 1)], replicas=2)
    found = autoscalers(bare(cliqueset))
    assert set(found) == {"t-0-w", "t-1-w"}
    made = found["t-1-w"]
    assert (made["apiVersion"], made["kind"]) == ("autoscaling/v2", "HorizontalPodAutoscaler")
    assert made["metadata"]["labels"] == {
        labels.MANAGED_BY: "grove-operator",
        labels.PART_OF: "t",
        labels.NAME: "t-1-w",
        labels.COMPONENT: "pcs-hpa",
    }
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("PodCliqueSet", cliqueset.uid, True)
    assert made["spec"] == {
        "scaleTargetRef": {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": "t-1-w"},
        "minReplicas": 2,
        "maxReplicas": 6,
        "metrics": [CPU],
    }


def test_a_scaling_group_that_is_scaled_by_load_is_the_target_and_its_members_are_not() -> None:
    group = make.scaling_group(
        "decode", ["lead", "work"], replicas=3, scaleConfig={"maxReplicas": 5, "metrics": [QUEUE]}
    )
    cliqueset = make.cliqueset("t", {"front": 1, "lead": 1, "work": 4}, groups=[group])
    (made,) = autoscalers(bare(cliqueset)).values()
    assert made["spec"] == {
        "scaleTargetRef": {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueScalingGroup",
            "name": "t-0-decode",
        },
        "minReplicas": 3,
        "maxReplicas": 5,
        "metrics": [QUEUE],
    }


LOWEST: dict[str, tuple[Manifest, int]] = {
    "as configured": (role("w", 4, {"minReplicas": 3, "maxReplicas": 9}, minAvailable=2), 3),
    "the replicas when it is left out": (role("w", 4, {"maxReplicas": 9}, minAvailable=2), 4),
    "the minimum of a role that is scaled to zero": (role("w", 0, {"maxReplicas": 9}, minAvailable=2), 2),
    "one where nothing else is said": (role("w", 0, {"maxReplicas": 9}), 1),
}


@pytest.mark.parametrize(("template", "want"), LOWEST.values(), ids=LOWEST)
def test_the_lower_bound_is(template: Manifest, want: int) -> None:
    (made,) = autoscalers(bare(make.cliqueset("t", [template]))).values()
    assert made["spec"]["minReplicas"] == want


def test_an_autoscaler_comes_after_its_clique_and_goes_before_it() -> None:
    template = [role("w", config={"maxReplicas": 6})]
    created = written(plan_children(bare(make.cliqueset("t", template)), Settled()))
    assert created[-2:] == ["create PodClique t-0-w", "create HorizontalPodAutoscaler t-0-w"]
    seen = grown(make.cliqueset("t", template, replicas=2))
    removed = written(plan_children(edited(seen, template, replicas=1), Settled()))
    assert removed.index("delete HorizontalPodAutoscaler t-1-w") < removed.index("delete PodClique t-1-w")


def edited(seen: CliqueSetState, template: list[Manifest], *, replicas: int = 1) -> CliqueSetState:
    return dataclasses.replace(seen, cliqueset=make.cliqueset("t", template, replicas=replicas, generation=2))


def test_a_role_that_is_no_longer_scaled_by_load_loses_its_autoscaler_and_keeps_its_replicas() -> None:
    seen = grown(make.cliqueset("t", [role("w", config={"maxReplicas": 6})]))
    clique = seen.cliques["t-0-w"]
    scaled = msgspec.structs.replace(clique, spec=msgspec.structs.replace(clique.spec, replicas=5))
    seen = dataclasses.replace(seen, children={**seen.children, kinds.CLIQUES: {"t-0-w": scaled}})
    batch = plan_children(edited(seen, [role("w")]), Settled())
    assert "delete HorizontalPodAutoscaler t-0-w" in written(batch)
    (patch,) = (change.patch for change in batch.changes if isinstance(change, Patch))
    assert patch == {"spec": {"autoScalingConfig": None}}


REPLICAS: dict[str, tuple[Manifest | None, Manifest | None, int | None]] = {
    "of a role that is scaled by load are not applied": ({"maxReplicas": 6}, {"maxReplicas": 6}, None),
    "are not applied with the edit that has it scaled by load": (None, {"maxReplicas": 6}, None),
    "are applied with the edit that ends it": ({"maxReplicas": 6}, None, 3),
    "of other roles are applied": (None, None, 3),
}


@pytest.mark.parametrize(("before", "after", "want"), REPLICAS.values(), ids=REPLICAS)
def test_edited_replicas(before: Manifest | None, after: Manifest | None, want: int | None) -> None:
    seen = grown(make.cliqueset("t", [role("w", 2, before, minAvailable=2)]))
    batch = plan_children(edited(seen, [role("w", 3, after, minAvailable=2)]), Settled())
    (patch,) = (
        change.patch
        for change in batch.changes
        if isinstance(change, Patch) and change.resource == kinds.CLIQUES
    )
    assert patch.get("spec", {}).get("replicas") == want


def with_autoscaler(seen: CliqueSetState, **spec: object) -> CliqueSetState:
    """As if somebody, or the API server, had changed the autoscaler."""
    (living,) = seen.children[kinds.AUTOSCALERS].values()
    manifest = msgspec.to_builtins(living)
    manifest["spec"].update(spec)
    changed = make.view(HorizontalPodAutoscaler, manifest)
    return dataclasses.replace(seen, children={**seen.children, kinds.AUTOSCALERS: {living.name: changed}})


def spelt(amount: object) -> Manifest:
    return {
        **QUEUE,
        "pods": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": amount}},
    }


LEFT_ALONE: dict[str, Manifest] = {
    "as it was created": {},
    "behavior of somebody's": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 30}}},
    "a quantity in the API server's spelling": {"metrics": [spelt("500m")]},
    "a quantity as a number": {"metrics": [spelt(0.5)]},
}


@pytest.mark.parametrize("spec", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_an_autoscaler_is_left_alone_with(spec: Manifest) -> None:
    seen = grown(make.cliqueset("t", [role("w", config={"maxReplicas": 6, "metrics": [QUEUE]})]))
    assert written(plan_children(with_autoscaler(seen, **spec), Settled())) == []


MENDED: dict[str, tuple[Manifest, Manifest]] = {
    "a bound": ({"minReplicas": 1}, {"minReplicas": 2}),
    "the other bound": ({"maxReplicas": 60}, {"maxReplicas": 6}),
    "the target": (
        {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "t-0-w"}},
        {"scaleTargetRef": {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique"}},
    ),
    "a metric's value": ({"metrics": [spelt("501m")]}, {"metrics": [QUEUE]}),
    "a metric's selector": (
        {
            "metrics": [
                {
                    **QUEUE,
                    "pods": {
                        **QUEUE["pods"],
                        "metric": {"name": "queue", "selector": {"matchLabels": {"a": "b"}}},
                    },
                }
            ]
        },
        {"metrics": [QUEUE]},
    ),
    "the metrics": ({"metrics": [CPU]}, {"metrics": [QUEUE]}),
    "one metric too many": ({"metrics": [QUEUE, CPU]}, {"metrics": [QUEUE]}),
}


@pytest.mark.parametrize(("spec", "want"), MENDED.values(), ids=MENDED)
def test_what_somebody_changed_is_put_back(spec: Manifest, want: Manifest) -> None:
    seen = grown(make.cliqueset("t", [role("w", config={"maxReplicas": 6, "metrics": [QUEUE]})]))
    batch = plan_children(with_autoscaler(seen, **spec), Settled())
    (patch,) = batch.changes
    assert isinstance(patch, Patch)
    assert (patch.resource, patch.patch) == (kinds.AUTOSCALERS, {"spec": want})


def test_metrics_that_the_set_no_longer_names_become_the_default() -> None:
    seen = grown(make.cliqueset("t", [role("w", config={"maxReplicas": 6, "metrics": [QUEUE]})]))
    batch = plan_children(edited(seen, [role("w", config={"maxReplicas": 6})]), Settled())
    (patch,) = (
        change.patch
        for change in batch.changes
        if isinstance(change, Patch) and change.resource == kinds.AUTOSCALERS
    )
    assert patch == {"spec": {"metrics": [CPU]}}


def test_an_autoscaler_of_a_name_that_is_not_quite_ours_is_not_ours() -> None:
    source = Autoscalers(
        bare(make.cliqueset("t", [role("w", config={"maxReplicas": 6}), role("x")], replicas=2))
    )
    assert source.find("t-1-w") is not None
    for name in ("t-2-w", "t-1-x", "t-01-w", "t-1-w-0", "w", "t-1", "u-1-w"):
        assert source.find(name) is None
