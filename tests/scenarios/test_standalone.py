"""Gangs that somebody else made, with pods of somebody else: served like ours, or told why not."""

import json
import re
from collections.abc import Mapping

import pytest
from tests.scenarios.stories import STAGES, Stage, reasons_about, until_running

from grove.api import kinds, labels
from grove.cli.finding import find
from grove.cli.treeview import Node, nodes
from grove.meta import Key, Manifest
from grove.testing import make
from grove.testing.virtual_time import EPOCH
from grove.testing.world import World, run_world
from grove.view.forest import forest

#: Where a pod is tied to its gang by metadata alone, which can be added to a pod that exists.
BY_METADATA = ("kai", "koordinator", "volcano", "yunikorn")
ROLES = {"guest-leader": 1, "guest-worker": 2}


def gang(backend: str = "") -> Manifest:
    """A gang as another controller would make it: two roles, nothing of Grove's sets."""
    return {
        "apiVersion": kinds.GANGS.api_version,
        "kind": kinds.GANGS.kind,
        "metadata": {
            "name": "guest",
            "namespace": "default",
            "labels": {labels.SCHEDULER_BACKEND: backend} if backend else {},
        },
        "spec": {
            "podgroups": [
                {"name": name, "podReferences": [], "minReplicas": number} for name, number in ROLES.items()
            ]
        },
    }


def pod(role: str, index: int, stage: Stage, *, gpus: int = 1, **spec: object) -> Manifest:
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{role}-{index}",
            "namespace": "default",
            "labels": {labels.POD_GANG: "guest", labels.POD_CLIQUE: role},
        },
        "spec": {
            "schedulerName": stage.scheduler_name,
            "schedulingGates": [{"name": stage.gate}],
            "containers": [{"name": "main", "image": "example.com/main", "resources": resources}],
            **spec,
        },
    }


def pods(stage: Stage, *, gpus: int = 1, **spec: object) -> list[Manifest]:
    return [
        pod(role, index, stage, gpus=gpus, **spec)
        for role, number in ROLES.items()
        for index in range(number)
    ]


async def runs(world: World) -> bool:
    return await world.phase("guest") == "Running"


@pytest.mark.parametrize("name", BY_METADATA)
def test_a_standalone_gang_runs_when_its_pods_are_there(name: str) -> None:
    stage = STAGES[name]

    async def story(world: World) -> None:
        await world.apply(gang(stage.backend))
        first, *others = pods(stage)
        await world.apply(first)
        await world.settle()
        [alone] = await world.pods()
        assert alone["spec"]["schedulingGates"] == [{"name": stage.gate}]
        initialized = await world.condition("guest", "Initialized")
        assert (initialized["status"], initialized["message"]) == ("False", "1 of 3 pods exist")
        await world.apply(*others)
        await world.until(lambda: runs(world), "the standalone gang runs")
        found = await world.gang("guest")
        assert found is not None
        listed = {group["name"]: len(group["podReferences"]) for group in found["spec"]["podgroups"]}
        assert listed == ROLES

    run_world(story, stage.options)


@pytest.mark.parametrize("name", BY_METADATA)
def test_a_standalone_gang_that_does_not_fit_says_why_and_nothing_is_bound(name: str) -> None:
    stage = STAGES[name]

    async def story(world: World) -> None:
        await world.apply(gang(stage.backend), *pods(stage, gpus=9))
        await world.settle()
        scheduled = await world.condition("guest", "Scheduled")
        assert scheduled["status"] == "False"
        assert scheduled["message"]
        assert not [each for each in await world.pods() if each["spec"].get("nodeName")]
        assert "PodsNotPrepared" not in await reasons_about(world, "PodGang", "guest")
        initialized = await world.condition("guest", "Initialized")
        assert (initialized["status"], initialized["message"]) == ("True", "every pod exists and is listed")

    run_world(story, stage.options)


def test_a_gang_that_names_no_backend_gets_the_one_its_pods_ask_for() -> None:
    stage = STAGES["kai"]

    async def story(world: World) -> None:
        await world.apply(*pods(stage), gang())
        await world.until(lambda: runs(world), "the standalone gang runs")
        found = await world.gang("guest")
        assert found is not None
        assert found["metadata"]["labels"][labels.SCHEDULER_BACKEND] == "kai"

    run_world(story, stage.options)


def test_a_pod_without_what_it_must_be_born_with_holds_the_gang_back_and_is_named() -> None:
    stage = STAGES["1.36"]

    async def story(world: World) -> None:
        await world.apply(gang(stage.backend), *pods(stage))
        await world.settle()
        initialized = await world.condition("guest", "Initialized")
        assert initialized["status"] == "False"
        assert (
            'pod guest-leader-0: spec.schedulingGroup is not set but must be {"podGroupName": "'
            in initialized["message"]
        )
        assert "PodsNotPrepared" in await reasons_about(world, "PodGang", "guest")
        assert all(each["spec"]["schedulingGates"] for each in await world.pods())

    run_world(story, stage.options)


def test_a_gang_whose_pods_must_be_created_again_says_so_as_its_reason() -> None:
    stage = STAGES["1.36"]

    async def story(world: World) -> None:
        await world.apply(gang(stage.backend), *pods(stage))
        await world.settle()
        found = await world.gang("guest")
        assert found is not None
        assert found["status"]["message"] == (
            "0 of 3 pods placed; pod guest-leader-0: spec.schedulingGroup is not set but must be "
            '{"podGroupName": "guest"}; create the pod again; and 2 problems more'
        )

    run_world(story, stage.options)


LINKS: Mapping[tuple[str, int], Manifest] = {
    ("1.35", 1): {"workloadRef": {"name": "guest", "podGroup": "guest-leader"}},
    ("1.35", 2): {"workloadRef": {"name": "guest", "podGroup": "gang"}},
    ("1.36", 1): {"schedulingGroup": {"podGroupName": "guest-guest-leader"}},
    ("1.36", 2): {"schedulingGroup": {"podGroupName": "guest"}},
    ("1.37", 1): {"schedulingGroup": {"podGroupName": "guest-guest-leader"}},
    ("1.37", 2): {"schedulingGroup": {"podGroupName": "guest-guest-leader"}},
}


@pytest.mark.parametrize(("version", "podgroups"), LINKS)
def test_the_link_that_a_pod_needs_has_the_names_that_the_guide_says(version: str, podgroups: int) -> None:
    stage, link = STAGES[version], LINKS[version, podgroups]

    async def story(world: World) -> None:
        manifest = gang(stage.backend)
        manifest["spec"]["podgroups"] = manifest["spec"]["podgroups"][:podgroups]
        await world.apply(manifest, pod("guest-leader", 0, stage))
        await world.settle()
        ((field, value),) = link.items()
        told = (await world.condition("guest", "Initialized"))["message"]
        assert f"pod guest-leader-0: spec.{field} is not set but must be {json.dumps(value)}" in told

    run_world(story, stage.options)


def test_a_standalone_gang_of_the_native_scheduler_runs_when_its_pods_are_tied_to_it() -> None:
    stage = STAGES["1.36"]

    async def story(world: World) -> None:
        await world.apply(gang(stage.backend))
        await world.settle()
        [group] = await world.all(stage.objects[0])
        await world.apply(*pods(stage, schedulingGroup={"podGroupName": group["metadata"]["name"]}))
        await world.until(lambda: runs(world), "the standalone gang runs")
        found = await world.pods()
        assert len(found) == 3
        assert all(each["spec"]["nodeName"] and not each["spec"].get("schedulingGates") for each in found)
        assert (await world.condition("guest", "Scheduled"))["message"] == "3 of 3 pods placed."

    run_world(story, stage.options)


@pytest.mark.parametrize("name", ["1.35", "1.36", "1.37"])
def test_a_gang_of_the_native_scheduler_whose_open_pods_wait_for_nodes_is_not_told_of_its_gates(
    name: str,
) -> None:
    stage = STAGES[name]

    async def story(world: World) -> None:
        await world.apply(gang(stage.backend), *pods(stage, gpus=9))
        await world.settle()
        told = (await world.condition("guest", "Initialized"))["message"]
        links = {
            pod: {field: json.loads(value)}
            for pod, field, value in re.findall(
                r"pod (\S+): spec\.(\w+) is not set but must be (.+?); create the pod again", told
            )
        }
        assert len(links) == 3
        for each in await world.pods():
            await world.user.delete(kinds.PODS, Key("default", each["metadata"]["name"]))
        await world.settle()
        first = len(await reasons_about(world, "PodGang", "guest"))
        linked = [
            {**each, "spec": {**each["spec"], **links[each["metadata"]["name"]]}}
            for each in pods(stage, gpus=9)
        ]
        await world.apply(*linked)
        await world.settle()
        assert all(not each["spec"].get("schedulingGates") for each in await world.pods())
        assert "PodsNotPrepared" not in (await reasons_about(world, "PodGang", "guest"))[first:]
        initialized = await world.condition("guest", "Initialized")
        assert (initialized["status"], initialized["message"]) == ("True", "every pod exists and is listed")

    run_world(story, stage.options)


def test_a_preference_of_a_standalone_gang_does_not_hold_it_back() -> None:
    stage = STAGES["1.36"]

    async def story(world: World) -> None:
        guest = gang(stage.backend)
        guest["spec"] |= make.pack(preferred="topology.kubernetes.io/rack")
        await world.apply(guest)
        await world.settle()
        [group] = await world.all(stage.objects[0])
        await world.apply(*pods(stage, schedulingGroup={"podGroupName": group["metadata"]["name"]}))
        await world.until(lambda: runs(world), "the standalone gang runs")
        assert "PodsNotPrepared" not in await reasons_about(world, "PodGang", "guest")

    run_world(story, stage.options)


def test_a_pod_that_names_no_podgroup_is_named_and_stays_behind_its_gate() -> None:
    stage = STAGES["kai"]

    async def story(world: World) -> None:
        stray = pod("guest-worker", 9, stage)
        stray["metadata"]["labels"][labels.POD_CLIQUE] = "nobody"
        await world.apply(gang(stage.backend), *pods(stage), stray)
        await world.settle()
        initialized = await world.condition("guest", "Initialized")
        said = f"pod guest-worker-9: label {labels.POD_CLIQUE} is 'nobody'; it must name a podgroup"
        assert said in initialized["message"]

    run_world(story, stage.options)


def test_when_a_standalone_gang_goes_its_objects_go_and_its_pods_stay() -> None:
    stage = STAGES["kai"]

    async def story(world: World) -> None:
        await world.apply(gang(stage.backend), *pods(stage))
        await world.until(lambda: runs(world), "the standalone gang runs")
        await world.user.delete(kinds.GANGS, Key("default", "guest"))
        await world.settle()
        assert await world.all(stage.objects[0]) == []
        assert len(await world.pods()) == 3

    run_world(story, stage.options)


async def trees_of(world: World, name: str = "") -> list[Node]:
    return nodes(forest(await find(world.user, "default", name), now=EPOCH))


def test_grove_tree_finds_a_gang_without_a_set_beside_the_sets() -> None:
    async def story(world: World) -> None:
        await world.apply(
            make.gang_manifest("solo", {"solo-a": 1}), make.cliqueset_manifest("train", {"a": 1})
        )
        await until_running(world, "train-0")
        trees = await trees_of(world)
        assert [(tree.kind, tree.name) for tree in trees] == [
            ("PodCliqueSet", "default/train"),
            ("PodGang", "default/solo"),
        ]
        (only,) = await trees_of(world, "train")
        assert only.name == "default/train"

    run_world(story)


@pytest.mark.parametrize("name", [*BY_METADATA, "1.36"])
def test_a_gang_with_the_name_of_a_sets_gang_takes_none_of_the_sets_pods(name: str) -> None:
    stage = STAGES[name]

    async def story(world: World) -> None:
        guest = gang(stage.backend)
        guest["metadata"]["name"] = "train-0"
        guest["spec"]["podgroups"] = [{"name": "train-0-a", "podReferences": [], "minReplicas": 2}]
        await world.apply(guest)
        await world.settle()
        backend = {labels.SCHEDULER_BACKEND: stage.backend}
        await world.apply(make.cliqueset_manifest("train", {"a": 2}, annotations=backend))
        await world.settle()
        pods = await world.pods()
        assert len(pods) == 2
        assert all(each["spec"]["schedulingGates"] and "nodeName" not in each["spec"] for each in pods)
        found = await world.gang("train-0")
        assert found is not None
        assert found["spec"]["podgroups"][0]["podReferences"] == []
        initialized = await world.condition("train-0", "Initialized")
        assert (initialized["status"], initialized["message"]) == ("False", "0 of 2 pods exist")
        assert "PodsNotPrepared" not in await reasons_about(world, "PodGang", "train-0")
        [cliqueset] = await world.all(kinds.CLIQUESETS)
        told = {each["type"]: each["reason"] for each in cliqueset["status"]["conditions"]}
        assert told["Degraded"] == "NameTaken"

    run_world(story, stage.options)
