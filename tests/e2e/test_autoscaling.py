"""Kubernetes' own autoscaler scales cliques and scaling groups, and nothing of ours gets in its way."""

from __future__ import annotations

from typing import Final

import pytest
from tests.e2e.conftest import Plane
from tests.e2e.metrics_api import MetricsApi, metrics_api
from tests.e2e.plane import OPERATOR, Act
from tests.e2e.scene import Scene, condition_of, role, train

from grove.api import kinds
from grove.meta import Manifest
from grove.testing import make

pytestmark = pytest.mark.real

#: The autoscaler looks every second and waits a few before it scales down.
PATIENCE: Final = 60.0
TARGET: Final = "train-0-worker"
GROUP: Final = "train-0-decode"
CPU: Final[Manifest] = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}
QUEUE: Final[Manifest] = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10000m"}},
}


def busy(name: str, replicas: int, *, image: str = "serve:1", **spec: object) -> Manifest:
    """A role whose pods request a tenth of a CPU each."""
    container = {
        "name": "main",
        "image": f"registry.example/{image}",
        "resources": {"requests": {"cpu": "100m"}},
    }
    made = role(name, replicas, pod={"containers": [container]})
    made["spec"].update(spec)
    return made


def scaled_by_cpu(image: str = "serve:1", **config: object) -> Manifest:
    """A leader, and two to six workers."""
    autoscaling = {"minReplicas": 2, "maxReplicas": 6, "metrics": [CPU], **config}
    worker = busy("worker", 2, image=image, minAvailable=2, autoScalingConfig=autoscaling)
    return train(busy("leader", 1), worker)


def scaled_by_queue(image: str = "serve:1") -> Manifest:
    """One to three replicas of a group of three pods."""
    config = {"minReplicas": 1, "maxReplicas": 3, "metrics": [QUEUE]}
    group = make.scaling_group("decode", ["lead", "work"], replicas=1, minAvailable=1, scaleConfig=config)
    roles = [busy("router", 1), busy("lead", 1), busy("work", 2, image=image)]
    return train(*roles, podCliqueScalingGroups=[group])


def autoscaler(scene: Scene, name: str = TARGET) -> Manifest:
    return scene.ledger.get(kinds.AUTOSCALERS, name) or {}


def running(scene: Scene, clique: str = TARGET) -> int:
    pods = [pod for pod in scene.pods() if pod["spec"]["hostname"].startswith(f"{clique}-")]
    return sum((pod.get("status") or {}).get("phase") == "Running" for pod in pods)


def images(scene: Scene, clique: str = TARGET) -> set[str]:
    """What the pods of a clique run, without the registry."""
    pods = [pod for pod in scene.pods() if pod["spec"]["hostname"].startswith(f"{clique}-")]
    return {pod["spec"]["containers"][0]["image"].rpartition("/")[2] for pod in pods}


def uids(scene: Scene) -> set[str]:
    return {pod["metadata"]["uid"] for pod in scene.pods()}


async def workers(scene: Scene, count: int) -> None:
    """So many workers run, wanted by the autoscaler, and it says that it can scale."""

    def reached() -> bool:
        clique = scene.ledger.get(kinds.CLIQUES, TARGET) or {}
        status = autoscaler(scene).get("status") or {}
        return (
            running(scene) == count
            and len(scene.pods()) == count + 1
            and clique.get("spec", {}).get("replicas") == count
            and (status.get("currentReplicas"), status.get("desiredReplicas")) == (count, count)
            and condition_of(autoscaler(scene), "ScalingActive").get("status") == "True"
        )

    await scene.until(reached, f"{count} workers run", seconds=PATIENCE)


async def replicas(scene: Scene, count: int) -> None:
    """The group has so many replicas, of three running pods each."""

    def reached() -> bool:
        group = scene.ledger.get(kinds.SCALING_GROUPS, GROUP) or {}
        status = group.get("status") or {}
        return (
            group.get("spec", {}).get("replicas") == count
            and status.get("availableReplicas") == count
            and running(scene, GROUP) == 3 * count
            and len(scene.pods()) == 3 * count + 1
        )

    await scene.until(reached, f"{count} replicas of the group run", seconds=PATIENCE)


async def kept(scene: Scene, count: int, *, seconds: float = 4.0) -> None:
    """For some looks of the autoscaler the number of workers does not change, not even for a moment."""
    await scene.ledger.holds(
        lambda: (scene.ledger.get(kinds.CLIQUES, TARGET) or {})["spec"]["replicas"] == count,
        seconds,
        scene.describe,
    )
    await workers(scene, count)


def with_metrics(plane: Plane, name: str, story: object) -> None:
    """A story with a metrics API."""

    async def played() -> None:
        also = (kinds.AUTOSCALERS, kinds.SCALING_GROUPS, kinds.SERVICES)
        async with metrics_api(plane.world) as api, plane.world.act(name, also=also) as act:
            await story(act, api)  # type: ignore[operator]
            assert api.asked_by == {"system:kube-controller-manager"}

    plane.run(played())


def test_load_scales_a_role_from_two_to_six_and_back_whatever_else_happens(plane: Plane) -> None:
    async def story(act: Act, api: MetricsApi) -> None:
        scene = act.scene
        await scene.nodes(2)
        # Half of what two workers request: at the target.
        api.cpu[scene.namespace] = 100
        await scene.apply(scaled_by_cpu())
        await workers(scene, 2)
        gang = scene.ledger.get(kinds.GANGS, "train-0") or {}

        api.cpu[scene.namespace] = 300
        await workers(scene, 6)
        first = uids(scene)

        # The operator goes, a template is edited while it is away, and it comes back: the workers are
        # updated one by one, the leader is left alone, and there are six all the time.
        await act.kill_operator()
        await scene.apply(scaled_by_cpu("serve:2"))
        await act.start_operator()
        await kept(scene, 6)
        await scene.until(lambda: images(scene) == {"serve:2"}, "every worker is updated", seconds=PATIENCE)
        await workers(scene, 6)
        before = uids(scene)
        assert len(first & before) == 1, "the leader is left alone"
        # Bounds are edited, the autoscaler is edited by hand and deleted.
        await scene.apply(scaled_by_cpu("serve:2", maxReplicas=8))
        await scene.until(lambda: autoscaler(scene)["spec"]["maxReplicas"] == 8, "the bound is edited")
        await scene.edit(kinds.AUTOSCALERS, TARGET, {"spec": {"maxReplicas": 3}})
        await scene.until(lambda: autoscaler(scene)["spec"]["maxReplicas"] == 8, "the bound is put back")
        old = autoscaler(scene)["metadata"]["uid"]
        await scene.delete(kinds.AUTOSCALERS, TARGET)
        await scene.until(
            lambda: autoscaler(scene).get("metadata", {}).get("uid", old) != old,
            "there is another autoscaler",
        )
        await kept(scene, 6)
        assert uids(scene) == before, "no pod was replaced"

        api.cpu[scene.namespace] = 60
        await workers(scene, 2)
        now = scene.ledger.get(kinds.GANGS, "train-0") or {}
        assert now["metadata"]["uid"] == gang["metadata"]["uid"]
        assert uids(scene) <= before

        # No longer scaled by load: the number stays.
        await scene.scale(kinds.CLIQUES, TARGET, 4)
        await scene.apply(train(busy("leader", 1), busy("worker", 2, image="serve:2", minAvailable=2)))
        await scene.until(lambda: not autoscaler(scene), "the autoscaler is gone")
        await scene.until(lambda: running(scene) == 4, "four workers run")

    with_metrics(plane, "by-cpu", story)


def test_load_scales_a_group_from_one_to_three_and_back_whatever_else_happens(plane: Plane) -> None:
    async def story(act: Act, api: MetricsApi) -> None:
        scene = act.scene
        await scene.nodes(3)
        api.queue[scene.namespace] = 10
        await scene.apply(scaled_by_queue())
        await replicas(scene, 1)
        api.queue[scene.namespace] = 25
        await replicas(scene, 3)
        gangs = {gang["metadata"]["name"] for gang in scene.ledger.all(kinds.GANGS)}
        assert gangs == {"train-0", f"{GROUP}-0", f"{GROUP}-1"}

        await act.kill_operator()
        await scene.apply(scaled_by_queue("serve:2"))
        await act.start_operator()
        await scene.delete(kinds.AUTOSCALERS, GROUP)
        await scene.until(lambda: bool(autoscaler(scene, GROUP)), "there is another autoscaler")
        await scene.ledger.holds(
            lambda: (scene.ledger.get(kinds.SCALING_GROUPS, GROUP) or {})["spec"]["replicas"] == 3,
            4.0,
            scene.describe,
        )
        await replicas(scene, 3)

        api.queue[scene.namespace] = 4
        await replicas(scene, 1)
        await scene.until(lambda: len(scene.ledger.all(kinds.GANGS)) == 1, "the base gang is left")

    with_metrics(plane, "by-queue", story)


def test_what_is_scaled_to_zero_stays_there_and_less_than_the_minimum_is_raised(plane: Plane) -> None:
    async def story(act: Act, api: MetricsApi) -> None:
        scene = act.scene
        await scene.nodes(2)
        api.cpu[scene.namespace] = 100
        await scene.apply(scaled_by_cpu())
        await workers(scene, 2)
        await scene.scale(kinds.CLIQUES, TARGET, 0)
        await scene.until(
            lambda: condition_of(autoscaler(scene), "ScalingActive").get("reason") == "ScalingDisabled",
            "the autoscaler is switched off",
            seconds=PATIENCE,
        )
        await scene.until(lambda: scene.running("train-0", 1), "the leader runs alone")
        await scene.ledger.holds(lambda: len(scene.pods()) == 1, 3.0, scene.describe)

        # One is less than the gang needs; the autoscaler's lower bound is not.
        await scene.scale(kinds.CLIQUES, TARGET, 1)
        await workers(scene, 2)

    with_metrics(plane, "by-hand", story)


def test_autoscalers_of_users_meet_what_the_guide_says(plane: Plane) -> None:
    """A clique of a group cannot be scaled by load, and one clique not by two autoscalers."""

    async def story(act: Act, api: MetricsApi) -> None:
        scene = act.scene
        await scene.nodes(3)
        api.cpu[scene.namespace], api.queue[scene.namespace] = 100, 10
        both = scaled_by_queue()
        both["spec"]["template"]["cliques"] += scaled_by_cpu()["spec"]["template"]["cliques"][1:]
        await scene.apply(both)
        await scene.until(lambda: scene.running("train-0", 6), "all pods run", seconds=PATIENCE)
        for name, target in (("member", f"{GROUP}-0-work"), ("rival", TARGET)):
            reference = {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": target}
            spec = {"scaleTargetRef": reference, "maxReplicas": 4, "metrics": [CPU]}
            await scene.apply(make.object_manifest(kinds.AUTOSCALERS, name, spec))
        for name, reason in (
            ("member", "InvalidSelector"),
            ("rival", "AmbiguousSelector"),
            (TARGET, "AmbiguousSelector"),
        ):
            await scene.until(
                lambda name=name, reason=reason: (  # type: ignore[misc]
                    condition_of(autoscaler(scene, name), "ScalingActive").get("reason") == reason
                ),
                f"{name} says {reason}: {condition_of(autoscaler(scene, name), 'ScalingActive')}",
                seconds=PATIENCE,
            )
        assert condition_of(autoscaler(scene, GROUP), "ScalingActive")["status"] == "True"

    with_metrics(plane, "of-users", story)


def test_a_settled_set_with_autoscalers_is_not_written_to(plane: Plane) -> None:
    async def story(act: Act, api: MetricsApi) -> None:
        scene = act.scene
        await scene.nodes(3)
        api.cpu[scene.namespace], api.queue[scene.namespace] = 100, 10
        both = scaled_by_queue()
        worker = busy("worker", 2, minAvailable=2)
        worker["spec"]["autoScalingConfig"] = {"maxReplicas": 6}
        both["spec"]["template"]["cliques"].append(worker)
        await scene.apply(both)
        await scene.until(lambda: scene.running("train-0", 6), "all pods run", seconds=PATIENCE)
        looked = condition_of(autoscaler(scene, GROUP), "ScalingActive")
        await scene.until(
            lambda: condition_of(autoscaler(scene, GROUP), "ScalingActive").get("status") == "True",
            f"the autoscaler looks: {looked}",
        )
        # The API server spells 10000m otherwise, and fills in what is left out.
        (metric,) = autoscaler(scene, GROUP)["spec"]["metrics"]
        assert metric["external"]["target"]["averageValue"] == "10"
        await scene.ledger.quiet(3.0)
        before = act.world.audit.asked(scene.namespace, OPERATOR)
        assert f"create horizontalpodautoscalers/ {GROUP}" in before
        mark = {"metadata": {"annotations": {"grove.io/reconcile-trigger": "now"}}}
        await scene.edit(kinds.CLIQUESETS, "train", mark)
        await act.kill_operator()
        await act.start_operator()
        await scene.ledger.quiet(3.0)
        assert act.world.audit.asked(scene.namespace, OPERATOR) == before

    with_metrics(plane, "silence", story)
