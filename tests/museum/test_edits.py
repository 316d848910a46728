"""Edits that mean nothing, another operator, a set that is made again: who is restarted, and who is not."""

import copy
import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import pytest
from tests.scenarios.stories import (
    PODGROUPS_136,
    STAGES,
    events_about,
    gpu_role,
    pass_time,
    revision_of,
    scheduler_objects,
    set_condition,
    uid_of,
    until_gone,
    until_running,
)
from tests.scenarios.workloads import in_order

import grove.assembly
from grove.api import kinds, labels
from grove.api.cliqueset import PodCliqueTemplate
from grove.api.config import load
from grove.meta import Key, Manifest
from grove.plan.hashing import template_hash
from grove.testing import make
from grove.testing.world import World, WorldOptions, configuration_for, run_world

CONTAINERS: list[Manifest] = [
    {
        "name": "main",
        "image": "registry.example/serve:1",
        "env": [{"name": "A", "value": "1"}, {"name": "B"}],
    },
    {"name": "side", "image": "registry.example/side:1"},
]


def serving(**pod: object) -> Manifest:
    spec = {"containers": CONTAINERS, "nodeSelector": {}, **pod}
    return make.cliqueset_manifest("train", [make.template("worker", 2, pod=spec)])


def template_of(manifest: Manifest) -> PodCliqueTemplate:
    roles = manifest["spec"]["template"]["cliques"]
    return make.cliqueset("train", copy.deepcopy(roles)).template.cliques[0]


def reordered(value: object) -> object:
    """The same value, whose maps are written in another order."""
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    return [reordered(each) for each in value] if isinstance(value, list) else value


def with_defaults(manifest: Manifest) -> Manifest:
    changed = copy.deepcopy(manifest)
    pod = changed["spec"]["template"]["cliques"][0]["spec"]["podSpec"]
    pod |= {"restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst"}
    return changed


def map_order(manifest: Manifest) -> Manifest:
    changed = copy.deepcopy(manifest)
    roles = changed["spec"]["template"]["cliques"]
    changed["spec"]["template"]["cliques"] = reordered(roles)
    return changed


def more_replicas(manifest: Manifest) -> Manifest:
    changed = copy.deepcopy(manifest)
    changed["spec"]["template"]["cliques"][0]["spec"]["replicas"] = 3
    return changed


@pytest.mark.parametrize("edited", [map_order, with_defaults, more_replicas])
def test_edits_without_meaning_restart_nothing(edited: Callable[[Manifest], Manifest]) -> None:
    """grove#565, grove#661, grove#662: edits that change no meaning restart nothing, edits of replicas neither."""
    manifest = serving()
    same, other = edited(manifest), serving(containers=CONTAINERS[::-1])
    assert template_hash(template_of(same)) == template_hash(template_of(manifest))
    assert template_hash(template_of(other)) != template_hash(template_of(manifest))

    async def story(world: World) -> None:
        await world.apply(manifest)
        await until_running(world, "train-0")
        before = {uid_of(pod) for pod in await world.pods()}
        # Back and forth, as quickly as a client can write.
        for each in (same, manifest, same):
            await world.apply(each)
        await world.settle()
        # A change that is taken back before anybody looked is none.
        await world.kill_operator()
        for each in (other, same):
            await world.apply(each)
        await world.start_operator()
        await world.settle()
        assert before <= {uid_of(pod) for pod in await world.pods()}
        status = (await world.get(kinds.CLIQUESETS, "train") or {})["status"]
        assert status["updatedReplicas"] == status["replicas"] == 1

    run_world(story)


ORDERS = {
    "containers": lambda containers: containers,
    "arguments": lambda containers: containers[0]["args"],
    "environment": lambda containers: containers[0]["env"],
}


@pytest.mark.parametrize("of", ORDERS.values(), ids=ORDERS)
def test_another_order_of_a_list_is_an_edit_with_a_meaning(of: Callable[[list[Manifest]], list[Any]]) -> None:
    """grove#565, grove#661, grove#662: edits that change no meaning restart nothing, edits of replicas neither."""
    containers = [{**CONTAINERS[0], "args": ["--load", "--serve"]}, *CONTAINERS[1:]]
    other = copy.deepcopy(containers)
    of(other).reverse()

    def order(listed: list[Any]) -> list[str]:
        """The names in a list, without those that Grove adds."""
        found = [each if isinstance(each, str) else str(each["name"]) for each in listed]
        return [name for name in found if not name.startswith("GROVE_")]

    async def story(world: World) -> None:
        await world.apply(serving(containers=containers))
        await until_running(world, "train-0")
        before = {uid_of(pod) for pod in await world.pods()}
        await world.apply(serving(containers=other))
        await world.settle()
        pods = await world.pods()
        assert [pod["status"]["phase"] for pod in pods] == ["Running"] * 2
        assert not before & {uid_of(pod) for pod in pods}
        wanted = order(of(containers))[::-1]
        assert [order(of(pod["spec"]["containers"])) for pod in pods] == [wanted] * 2

    run_world(story)


def test_another_version_of_the_operator_deletes_no_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """grove#709, grove#808: another version of the operator deletes no pod of a set that nobody edited."""

    async def story(world: World) -> None:
        group = make.scaling_group("sg", ["worker"], replicas=2, minAvailable=1)
        roles = [make.template("leader"), make.template("worker", 2)]
        await world.apply(in_order(make.cliqueset_manifest("train", roles, groups=[group])))
        await world.settle()
        before = {uid_of(pod): pod["metadata"]["resourceVersion"] for pod in await world.pods()}
        assert len(before) == 5
        await world.kill_operator()
        # Its version is the tag of the image that waits, which is in the pods.
        monkeypatch.setattr(grove.assembly, "__version__", "9.9.9")
        await world.start_operator()
        await pass_time(600)
        await world.settle()
        assert {uid_of(pod): pod["metadata"]["resourceVersion"] for pod in await world.pods()} == before
        # Pods that come later have it.
        lost = next(pod for pod in await world.pods() if "worker" in pod["spec"]["hostname"])
        await world.user.delete(kinds.PODS, Key("default", lost["metadata"]["name"]))
        await world.settle()
        (new,) = [pod for pod in await world.pods() if uid_of(pod) not in before]
        images = [each["image"] for each in new["spec"].get("initContainers", ())]
        assert [image.rpartition(":")[2] for image in images] == ["9.9.9"]

    run_world(story)


SCHEDULERS = ("default", "kai", "volcano", "koordinator", "yunikorn")
#: From each of them to each other one that is next to it in a circle, both ways.
MOVES = [*pairwise((*SCHEDULERS, "default")), *pairwise(("default", *reversed(SCHEDULERS)))]


@pytest.mark.parametrize(("first", "second"), MOVES, ids=["-".join(each) for each in MOVES])
def test_another_scheduler_finds_nothing_of_the_first(first: str, second: str) -> None:
    """grove#837: a set that changes its scheduler leaves no object and no mark of the first one."""
    installed = tuple(name for name in (first, second) if name != "default")
    enabled = load(configuration_for(*installed))
    # Nothing of it fits, so that it moves at once.
    full = WorldOptions(schedulers=installed, nodes=1, gpus=4, configuration=enabled)
    marked = dict[str, Mapping[str, object]]()

    async def born(world: World) -> None:
        await world.apply(for_scheduler(second))
        await pass_time(60)
        marked["born"] = await marks(world)

    async def story(world: World) -> None:
        await world.apply(for_scheduler(first))
        await pass_time(20)
        before = await marks(world)
        await world.apply(for_scheduler(second))
        await pass_time(60)
        marked["moved"] = await marks(world)
        assert marked["moved"] != before
        assert await scheduler_objects(world, STAGES["1.36" if first == "default" else first]) == []
        await world.add_node("more", gpus=32)
        await until_running(world, "train-0", "train-0-sg-0")

    run_world(born, full)
    run_world(story, full)
    assert len(marked["born"]) > 9
    # All is as if the set had been the second one's from the beginning.
    assert marked["moved"] == marked["born"]


def for_scheduler(name: str) -> Manifest:
    group = make.scaling_group("sg", ["worker"], replicas=2, minAvailable=1)
    marks = {labels.SCHEDULER_BACKEND: name}
    return make.cliqueset_manifest("train", [gpu_role("worker", 2)], groups=[group], annotations=marks)


#: How often a gang was started, and for which object a pod was told to its scheduler again.
OF_A_MOVE = (labels.RESTARTS, labels.RESYNCED_FOR)


async def marks(world: World) -> Mapping[str, object]:
    """Every label and annotation of all that a set leads to, and what pods tell their scheduler."""
    found: dict[str, object] = {}
    for of in (kinds.GANGS, kinds.CLIQUES, kinds.SCALING_GROUPS, kinds.SERVICES):
        for each in await world.all(of):
            found[f"{of.kind} {each['metadata']['name']}"] = marks_of(each)
    for pod in await world.pods():
        told = json.dumps([marks_of(pod), pod["spec"]]).replace(revision_of(pod), "revision")
        found[f"Pod {pod['spec']['hostname']}"] = json.loads(told)
    return found


def marks_of(each: Manifest) -> Manifest:
    found = {kind: each["metadata"].get(kind, {}) for kind in ("labels", "annotations", "finalizers")}
    marked = found["annotations"].items()
    return {**found, "annotations": {key: value for key, value in marked if key not in OF_A_MOVE}}


def lasting(of_role: Manifest | None = None, **fields: Any) -> Manifest:
    """A set of one role with an error that lasts until somebody edits it."""
    role = make.template("worker")
    role["spec"] |= of_role or {}
    return make.cliqueset_manifest("train", [role], **fields)


def starting(name: str, after: str) -> Manifest:
    role = make.template(name)
    role["spec"]["startsAfter"] = [after]
    return role


#: Sets, and the conditions by which they tell what is wrong.
ERRORS = {
    "a scheduler that is unknown": (
        lasting(annotations={labels.SCHEDULER_BACKEND: "nonesuch"}),
        {"Accepted": "BackendNotEnabled"},
    ),
    "a pod that is bound by its author": (
        lasting({"podSpec": {**make.pod_spec(), "nodeName": "node-0"}}),
        {"Accepted": "Invalid"},
    ),
    "roles that wait for one another": (
        make.cliqueset_manifest(
            "train",
            [starting("leader", "worker"), starting("worker", "leader")],
            template={"cliqueStartupType": "CliqueStartupTypeExplicit"},
        ),
        {"Accepted": "Invalid"},
    ),
    "a topology that does not exist": (
        lasting(template={"topologyConstraint": {"topologyName": "nowhere", "pack": {"required": "rack"}}}),
        {"Accepted": "TopologyLevelsUnavailable", "TopologyLevelsUnavailable": "ClusterTopologyNotFound"},
    ),
    "devices that are shared by nothing": (
        lasting(template={"resourceSharing": [{"name": "nowhere", "scope": "AllReplicas"}]}),
        {"Degraded": "ResourceClaimTemplateNotFound"},
    ),
}


@pytest.mark.parametrize(("manifest", "reasons"), ERRORS.values(), ids=ERRORS)
def test_an_error_that_stays_is_one_event_and_one_condition(
    manifest: Manifest, reasons: Mapping[str, str]
) -> None:
    """grove#286, grove#226: an error that stays is one event and one condition, however often it is met."""

    async def story(world: World) -> None:
        await world.apply(manifest)
        await world.settle()
        first = {type_: await set_condition(world, "train", type_) for type_ in reasons}
        for number in range(20):
            patch = {"metadata": {"annotations": {"looked-at": str(number)}}}
            await world.user.merge_patch(kinds.CLIQUESETS, Key("default", "train"), patch)
            await pass_time(5)
        await world.kill_operator()
        await world.start_operator()
        await world.settle()
        told = {type_: await set_condition(world, "train", type_) for type_ in reasons}
        assert {type_: each["reason"] for type_, each in told.items()} == reasons
        assert all(told[each]["lastTransitionTime"] == first[each]["lastTransitionTime"] for each in told)
        events = await events_about(world, "PodCliqueSet", "train")
        warnings = [(each["message"], each["count"]) for each in events if each["type"] == "Warning"]
        assert sorted(warnings) == sorted((each["message"], 1) for each in told.values())

    run_world(story)


def test_optional_fields_are_compared_by_meaning() -> None:
    """grove PR#760: optional fields are compared by what they mean, not by whether they are written."""

    async def story(world: World) -> None:
        group = make.scaling_group("sg", ["worker"])
        manifest = make.cliqueset_manifest("train", {"leader": 2, "worker": 1}, groups=[group])
        await world.apply(manifest)
        await until_running(world, "train-0")
        await world.settle()
        kinds_made = (kinds.GANGS, kinds.CLIQUES, kinds.SCALING_GROUPS, kinds.PODS, PODGROUPS_136)
        before = {uid_of(each): each["spec"] for of in kinds_made for each in await world.all(of)}
        # All of this is what was meant by leaving it out.
        template = manifest["spec"]["template"]
        template |= {"terminationDelay": "4h", "cliqueStartupType": "CliqueStartupTypeAnyOrder"}
        template["cliques"][0]["spec"]["minAvailable"] = 2
        template["cliques"][1]["spec"]["minAvailable"] = 1
        template["podCliqueScalingGroups"][0] |= {"replicas": 1, "minAvailable": 1}
        await world.apply(manifest)
        await world.settle()
        template["terminationDelay"] = "4h0m0s"
        await world.apply(manifest)
        await world.settle()
        after = {uid_of(each): each["spec"] for of in kinds_made for each in await world.all(of)}
        assert set(after) == set(before)
        assert {key for key in after if after[key] != before[key]} == set()

    run_world(story)


@pytest.mark.parametrize("waits", [True, False], ids=["when it is gone", "at once"])
def test_a_set_that_is_made_again_starts_from_nothing(*, waits: bool) -> None:
    """grove#782: a set that is deleted and made again under its name starts from nothing."""

    async def story(world: World) -> None:
        for number in range(3):
            manifest = serving(priorityClassName="")
            await world.apply(manifest)
            await until_running(world, "train-0")
            first = {uid_of(pod) for pod in await world.pods()}
            # An update is under way when it goes.
            edited = serving(containers=[{**CONTAINERS[0], "image": f"registry.example/serve:{number + 2}"}])
            await world.apply(edited)
            await world.user.delete(kinds.CLIQUESETS, Key("default", "train"))
            if waits:
                await until_gone(world, kinds.CLIQUESETS, "train")
                await world.settle()
            await world.apply(manifest)

            async def fresh(old: set[str] = first) -> bool:
                pods = await world.pods()
                states = [(pod["status"].get("phase"), uid_of(pod) in old) for pod in pods]
                return states == [("Running", False)] * 2

            await world.until(fresh, "the new set runs with pods of its own", seconds=60)
            assert [len(pod["spec"]["containers"]) for pod in await world.pods()] == [2, 2]

    run_world(story)
