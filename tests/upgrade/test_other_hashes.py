"""A release that computes other hashes than the one before finds the same templates: nothing restarts."""

import copy
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.adoption.taking_over import identities, pod_deletions
from tests.scenarios.stories import pass_time
from tests.scenarios.updating import REVISIONS

from grove.api import kinds, labels
from grove.meta import Manifest
from grove.plan import hashing
from grove.testing import make
from grove.testing.portrait import Guard
from grove.testing.world import World, run_world

_DEFAULTS = {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "protocol": "TCP"}


def as_written(value: Any, path: tuple[str, ...]) -> Any:
    """Release 0.1.0 compared quantities by their texts."""
    return value


def says_nothing(value: object, path: tuple[str, ...]) -> bool:
    """What said nothing to release 0.1.0, as far as the sets of this module have it."""
    if value is None or value in ([], ""):
        return True
    if value == {}:
        return path[-1] in ("labels", "annotations", "nodeSelector", "resources", "securityContext")
    return _DEFAULTS.get(path[-1]) == value


def spelt(gpus: object, image: str = "registry.example/serve:1", **pod: object) -> Manifest:
    """A set of two replicas, each a role alone and a scaling group, in a spelling of somebody's own."""
    container = {
        "name": "main",
        "image": image,
        "resources": {"limits": {"nvidia.com/gpu": gpus}},
        "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": False}],
    }
    spec = {"containers": [container], "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1024Mi"}}], **pod}
    # An update that takes no time cannot be met in its middle.
    marks = {"embedded.grove.io/startup": "2s"}
    roles = [
        make.template(name, number, pod=copy.deepcopy(spec), annotations=marks)
        for name, number in (("a", 3), ("b", 2))
    ]
    group = make.scaling_group("g", ["b"], replicas=2)
    return make.cliqueset_manifest("train", roles, groups=[group], replicas=2)


def upgraded(story: Callable[[World], Awaitable[None]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a set live with the hashes of before, and a story go on with those of today."""

    async def both(world: World) -> None:
        with monkeypatch.context() as before:
            before.setattr(hashing, "usual_value", as_written)
            before.setattr(hashing, "says_nothing", says_nothing)
            await world.apply(spelt(1, hostNetwork=False))
            await world.settle()
            await world.kill_operator()
        await world.start_operator()
        await story(world)

    run_world(both)


async def template_labels(world: World) -> dict[str, str]:
    found = await world.all(kinds.CLIQUES)
    return {each["metadata"]["name"]: each["metadata"]["labels"][labels.POD_TEMPLATE_HASH] for each in found}


async def records(world: World) -> list[str]:
    return sorted(each["metadata"]["name"] for each in await world.all(REVISIONS))


def test_an_upgrade_to_other_hashes_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: World) -> None:
        pods, told, recorded = await identities(world), await template_labels(world), await records(world)
        assert len(pods) == 14
        writes = world.writes()
        await pass_time(1800)
        assert world.writes() == writes
        assert pod_deletions(world) == []
        assert await identities(world) == pods
        assert await template_labels(world) == told
        assert await records(world) == recorded
        assert len(recorded) == 1
        status = (await world.get(kinds.CLIQUESETS, "train") or {})["status"]
        assert "updateProgress" not in status
        assert status["updatedReplicas"] == 2

    upgraded(story, monkeypatch)


def test_another_spelling_restarts_nothing_after_the_upgrade(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: World) -> None:
        pods, recorded = await identities(world), await records(world)
        for gpus in ("1", 1, "1000m"):
            await world.apply(spelt(gpus))
            await world.settle()
        await world.scale("train-0-a", 4, kinds.CLIQUES)
        await world.scale("train", 3)
        await world.settle()
        assert pod_deletions(world) == []
        assert set(pods.items()) <= set((await identities(world)).items())
        assert await records(world) == recorded
        status = (await world.get(kinds.CLIQUESETS, "train") or {})["status"]
        assert "updateProgress" not in status
        assert status["updatedReplicas"] == 3

    upgraded(story, monkeypatch)


def test_an_edit_that_is_taken_back_after_the_upgrade_leaves_what_it_had_not_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(world: World) -> None:
        guard = Guard(world.cluster)
        before, recorded = set((await identities(world)).values()), await records(world)
        await world.apply(spelt("1", "registry.example/serve:2"))

        async def begun() -> bool:
            return bool(before - set((await identities(world)).values()))

        await world.until(begun, "a pod was replaced")
        await world.apply(spelt("1"))
        await world.settle()
        await pass_time(600)
        left = [name for name, pod in (await identities(world)).items() if pod in before]
        assert len([name for name in left if name.startswith("train-1-")]) == 7
        assert [name for name in left if name.startswith("train-0-a-")]
        assert [each for each in recorded if each in await records(world)] == recorded
        status = (await world.get(kinds.CLIQUESETS, "train") or {})["status"]
        assert f"train-{status['currentGenerationHash']}" == recorded[0]
        assert guard.broken == []

    upgraded(story, monkeypatch)
