"""Another spelling of a pod template restarts nothing, another meaning does."""

import copy

import pytest
from tests.scenarios.stories import STAGES, gpu_role, pass_time, uid_of, until_running

from grove.api import kinds
from grove.meta import Key, Manifest
from grove.testing.world import World, run_world

STAGE = STAGES["1.36"]
GPU = "nvidia.com/gpu"
USUAL: Manifest = {
    "containers": [
        {
            "name": "main",
            "image": "registry.example/serve:1",
            "resources": {"limits": {GPU: "1", "cpu": "1", "memory": "1Gi"}},
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        }
    ],
    "volumes": [{"name": "v", "emptyDir": {}}],
}


def written(limits: Manifest | None = None, mount: Manifest | None = None, **pod: object) -> Manifest:
    spec = {**copy.deepcopy(USUAL), **pod}
    spec["containers"][0]["resources"]["limits"] |= limits or {}
    spec["containers"][0]["volumeMounts"][0] |= mount or {}
    return spec


SPELLINGS = {
    "a number": written({GPU: 1}),
    "thousandths": written({"cpu": "1000m"}),
    "smaller units": written({"memory": "1024Mi"}),
    "false in a mount": written(mount={"readOnly": False}),
    "false of the pod": written(hostNetwork=False, hostPID=False),
}


def made(pod: Manifest) -> Manifest:
    return STAGE.cliqueset(cliques=[gpu_role("worker", 2, 1, minAvailable=2, pod=pod)])


@pytest.mark.parametrize("pod", SPELLINGS.values(), ids=SPELLINGS)
def test_another_spelling_restarts_nothing(pod: Manifest) -> None:
    async def story(world: World) -> None:
        await world.apply(made(USUAL))
        await until_running(world, "train-0")
        await world.settle()
        before = {uid_of(each) for each in await world.pods()}
        for each in (pod, USUAL, pod):
            await world.apply(made(each))
            await pass_time(60)
        assert {uid_of(each) for each in await world.pods()} == before
        status = (await world.get(kinds.CLIQUESETS, "train") or {})["status"]
        assert "updateProgress" not in status
        assert status["updatedReplicas"] == 1

    run_world(story, STAGE.options)


def test_no_storage_class_and_the_default_one_are_two_templates() -> None:
    def of(**spec: object) -> Manifest:
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
        volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}]
        return made(written(volumes=volumes))

    def class_of(pod: Manifest) -> object:
        return pod["spec"]["volumes"][0]["ephemeral"]["volumeClaimTemplate"]["spec"].get("storageClassName")

    async def story(world: World) -> None:
        await world.apply(of(storageClassName=""))
        await until_running(world, "train-0")
        await world.settle()
        assert [class_of(each) for each in await world.pods()] == ["", ""]
        spec = {"template": {"cliques": of()["spec"]["template"]["cliques"]}}
        await world.user.merge_patch(kinds.CLIQUESETS, Key("default", "train"), {"spec": spec})
        await pass_time(60)
        await world.settle()
        assert [class_of(each) for each in await world.pods()] == [None, None]

    run_world(story, STAGE.options)
