"""What each scheduler is told, and when."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.scenarios.stories import (
    OBJECT_STAGES,
    QUOTAS,
    RACK,
    STAGES,
    VOLCANO_PODGROUPS,
    History,
    Seen,
    Stage,
    gates_of,
    gpu_role,
    pass_time,
    rack_binding,
    refusal,
    revision_of,
    scheduler_objects,
    uid_of,
    until_running,
)

from grove.api import kinds, labels
from grove.backends.kai.backend import PODGROUPS as KAI_PODGROUPS
from grove.embedded.actors.schedulers import volcano_install
from grove.embedded.faults import Fault
from grove.meta import Key, Manifest, Resource
from grove.testing import make
from grove.testing.kits.default import Conformance as Native
from grove.testing.kits.kai import Conformance as Kai
from grove.testing.kits.koordinator import Conformance as Koordinator
from grove.testing.kits.volcano import Conformance as Volcano
from grove.testing.world import CRDS, NODES, OPERATOR, World, run_world

MINORS = ("1.35", "1.36", "1.37")
KITS = {"default": Native(), "kai": Kai(), "koordinator": Koordinator(), "volcano": Volcano()}


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_the_topology_of_a_set_holds_for_all_of_its_gangs(stage: Stage) -> None:
    """grove#648: the topology of a set holds for all of its gangs, or the set is refused."""

    async def story(world: World) -> None:
        for index in range(8):
            await world.add_node(f"racked-{index}", labels={RACK: f"r{index % 2}"})
        group = make.scaling_group("sg", ["worker"], replicas=3, minAvailable=1)
        constraint = {"topologyName": "cluster", "pack": {"required": "rack"}}
        manifest = stage.cliqueset(
            cliques=[gpu_role("leader", 1), gpu_role("worker", 1)],
            groups=[group],
            template={"topologyConstraint": constraint},
        )
        await world.apply(rack_binding(), manifest)
        accepted = await refusal(world, "train")
        await pass_time(120)
        placed = [pod["spec"]["nodeName"] for pod in await world.pods() if pod["spec"].get("nodeName")]
        if accepted["status"] == "False":
            assert "topologyConstraint" in accepted["message"]
            assert await world.pods() == []
            return
        racks = {
            each["metadata"]["name"]: each["metadata"]["labels"].get(RACK) for each in await world.all(NODES)
        }
        # Koordinator waits until it knows of racks; nothing is placed without them meanwhile.
        assert len({racks[name] for name in placed}) == (1 if placed else 0)
        assert len(placed) == (0 if stage.backend == "koordinator" else 4)

    run_world(story, replace(stage.options, nodes=0))


@pytest.mark.parametrize("stage", OBJECT_STAGES.values(), ids=OBJECT_STAGES)
def test_the_objects_follow_when_something_is_scaled(stage: Stage) -> None:
    """kuberay#5205: the scheduler's objects follow when something is scaled."""

    async def story(world: World) -> None:
        group = make.scaling_group("sg", ["worker"], replicas=2, minAvailable=2)
        await world.apply(stage.cliqueset(cliques={"leader": 2, "worker": 3}, groups=[group]))
        await until_running(world, "train-0")
        minimum_of = KITS[stage.backend].minimum_of
        assert minimum_of(await scheduler_objects(world, stage)) == 8
        # Two gangs more, of three pods each.
        await world.scale("train-0-sg", 4, of=kinds.SCALING_GROUPS)
        await until_running(world, "train-0-sg-0", "train-0-sg-1")
        assert minimum_of(await scheduler_objects(world, stage)) == 14
        await world.scale("train-0-sg", 2, of=kinds.SCALING_GROUPS)
        await world.settle()
        assert minimum_of(await scheduler_objects(world, stage)) == 8

    run_world(story, stage.options)


def test_kai_gets_no_subgroup_of_minimum_zero() -> None:
    """KAI#1639: no subGroup has a minimum of zero."""

    async def story(world: World) -> None:
        await world.apply(STAGES["kai"].cliqueset(cliques={"leader": 1, "worker": 2}))
        async with History(world, KAI_PODGROUPS) as history:
            await until_running(world, "train-0")
            await world.scale("train-0-worker", 0, of=kinds.CLIQUES)
            await world.settle()
            (podgroup,) = [each for each in await world.all(KAI_PODGROUPS) if each["spec"].get("subGroups")]
            assert [each["name"] for each in podgroup["spec"]["subGroups"]] == ["train-0-leader"]
            await world.scale("train-0-worker", 2, of=kinds.CLIQUES)
            await until_running(world, "train-0")
            await world.settle()
        written = [
            leaf for each in history.of("PodGroup") for leaf in each.object["spec"].get("subGroups", ())
        ]
        assert written
        assert min(leaf.get("minMember", 1) for leaf in written) == 1

    run_world(story, STAGES["kai"].options)


def test_a_podgroup_of_kai_has_one_writer() -> None:
    """KAI PR#2117, dynamo PR#14553: a PodGroup of KAI has one writer, and KAI does not end gangs on its own."""

    async def story(world: World) -> None:
        async with History(world, KAI_PODGROUPS) as history:
            await world.apply(STAGES["kai"].cliqueset(cliques={"leader": 1, "worker": 2}))
            await until_running(world, "train-0")
            await world.settle()
        for pod in await world.pods():
            assert pod["metadata"]["annotations"]["kai.scheduler/skip-podgrouper"] == "true"
        (podgroup,) = await world.all(KAI_PODGROUPS)
        assert len({json.dumps(each.object["spec"], sort_keys=True) for each in history.of("PodGroup")}) == 1
        # Grove's own delay decides when a gang that lost pods is ended.
        assert podgroup["spec"]["stalenessGracePeriod"] == "-1s"

    run_world(story, STAGES["kai"].options)


def test_volcano_knows_a_higher_minimum_before_gates_open() -> None:
    """volcano#6010: a higher minimum is in the PodGroup before the gates of new pods open."""
    stage = STAGES["volcano"]

    async def story(world: World) -> None:
        await world.apply(stage.cliqueset(cliques={"leader": 1, "worker": 3}))
        await until_running(world, "train-0")
        await world.scale("train-0-worker", 0, of=kinds.CLIQUES)
        await world.settle()
        (podgroup,) = await world.all(VOLCANO_PODGROUPS)
        assert podgroup["spec"]["minMember"] == 1
        async with History(world, VOLCANO_PODGROUPS, kinds.PODS) as history:
            refused = world.cluster.faults.add(refuse_writes(VOLCANO_PODGROUPS))
            await world.scale("train-0-worker", 3, of=kinds.CLIQUES)
            await pass_time(60)
            (podgroup,) = await world.all(VOLCANO_PODGROUPS)
            assert (refused.happened > 0, podgroup["spec"]["minMember"]) == (True, 1)
            gates = [gates_of(pod) for pod in await world.pods()]
            assert sorted(gates) == [[], *[[stage.gate]] * 3]
            world.cluster.faults.clear()

            async def all_run() -> bool:
                return [pod["status"].get("phase") for pod in await world.pods()] == ["Running"] * 4

            await world.until(all_run, "the role runs again")
        raised = history.first("PodGroup", lambda each: each["spec"]["minMember"] == 4)
        opened = openings(history)
        assert len(opened) == 3
        assert raised.version < opened[0].version

    run_world(story, stage.options)


@pytest.mark.parametrize("subgroups", [True, False], ids=["since 1.14", "before 1.14"])
def test_volcano_can_count_every_pod_to_its_role(*, subgroups: bool) -> None:
    """aibrix#2631: every pod of Volcano says by what its PodGroup counts it, be it a task or a label."""
    stage = STAGES["volcano"]

    async def story(world: World) -> None:
        if not subgroups:
            for crd in volcano_install.definitions():
                await world.user.delete(CRDS, Key("", crd["metadata"]["name"]))
            await volcano_install.install(world.cluster.client(), subgroups=False)
            await world.settle()
        await world.start_operator()
        await world.apply(stage.cliqueset(cliques={"leader": 1, "worker": 2}))
        await until_running(world, "train-0")
        (podgroup,) = await world.all(VOLCANO_PODGROUPS)
        counted: dict[str, int] = {}
        for pod in await world.pods():
            found = set(roles_counted(podgroup["spec"], pod["metadata"]))
            assert found == {pod["metadata"]["labels"][labels.POD_CLIQUE]}
            counted.update({name: counted.get(name, 0) + 1 for name in found})
        assert counted == {"train-0-leader": 1, "train-0-worker": 2}

    run_world(story, stage.options, operator=False)


def roles_counted(spec: Manifest, pod: Manifest) -> Iterator[str]:
    """The roles of a PodGroup, each of which has a minimum, that Volcano takes a pod for."""
    task = pod["annotations"].get("volcano.sh/task-spec")
    if task in spec.get("minTaskMember", {}):
        yield task
    for policy in spec.get("subGroupPolicy", ()):
        chosen = policy["labelSelector"]["matchLabels"]
        if all(pod["labels"].get(key) == value for key, value in chosen.items()):
            assert all(key in pod["labels"] for key in policy["matchLabelKeys"])
            yield policy["name"]


def test_placeholders_of_yunikorn_are_as_large_as_the_pods() -> None:
    """kuberay#3895: YuniKorn's style is Hard, and placeholders are as large as pods with sidecars and overhead."""
    stage = STAGES["yunikorn"]

    def asks(cpu: str, **fields: str) -> Manifest:
        requests = {"cpu": cpu, "memory": "1Gi"}
        return {"image": "registry.example/serve:1", "resources": {"requests": requests}, **fields}

    async def story(world: World) -> None:
        pod = {
            "containers": [asks("2", name="main"), asks("500m", name="side")],
            "initContainers": [asks("1", name="proxy", restartPolicy="Always"), asks("3", name="load")],
            "overhead": {"cpu": "250m", "memory": "1Gi"},
        }
        await world.apply(stage.cliqueset(cliques=[make.template("worker", 2, pod=pod)]))
        await world.settle()
        made = await world.pods()
        assert len(made) == 2
        for each in made:
            marks = each["metadata"]["annotations"]
            policy = marks["yunikorn.apache.org/schedulingPolicyParameters"].split()
            assert "gangSchedulingStyle=Hard" in policy
            (group,) = json.loads(marks["yunikorn.apache.org/task-groups"])
            # 2 + 0.5 + 1 of the sidecar is less than 1 + 3 while it loads; the overhead comes on top.
            assert group["minResource"] == {"cpu": "4250m", "memory": "4Gi"}

    run_world(story, stage.options)


def test_the_match_policy_of_koordinator_is_written_out() -> None:
    """koordinator, read in its code: the match policy of a gang is written out."""
    stage = STAGES["koordinator"]

    async def story(world: World) -> None:
        group = make.scaling_group("sg", ["worker"], replicas=2, minAvailable=1)
        await world.apply(stage.cliqueset(cliques={"leader": 1, "worker": 2}, groups=[group]))
        await until_running(world, "train-0", "train-0-sg-0")
        podgroups = await scheduler_objects(world, stage)
        assert len(podgroups) == 3
        for each in podgroups:
            marks = each["metadata"]["annotations"]
            assert marks["gang.scheduling.koordinator.sh/match-policy"] == "once-satisfied"
            assert marks["gang.scheduling.koordinator.sh/mode"] == "Strict"

    run_world(story, stage.options)


def refuse_writes(of: Resource) -> Fault:
    """The API server takes no object of a kind from the operator."""
    return Fault("error", verb="write", resource=f"{of.plural}.{of.gvk.group}", user=OPERATOR.name)


def openings(history: History) -> list[Seen]:
    """The first state of each pod without its gates, oldest first; pods that had none before are left out."""
    pods = [seen for seen in history.of("Pod") if seen.type != "DELETED"]
    gated = {uid_of(seen.object) for seen in pods if gates_of(seen.object)}
    opened: dict[str, Seen] = {}
    for seen in pods:
        if uid_of(seen.object) in gated and not gates_of(seen.object):
            opened.setdefault(uid_of(seen.object), seen)
    return list(opened.values())


def groups_for(history: History, of: Resource, opened: Seen) -> set[str]:
    """The objects of a kind for the start of a gang that were there to stay when the gates of a pod opened."""
    latest = {each.name: each for each in history.of(of.kind) if each.version < opened.version}
    return {
        name
        for name, each in latest.items()
        if each.type != "DELETED"
        and "deletionTimestamp" not in each.object["metadata"]
        and name.endswith(revision_of(opened.object))
    }


def assert_groups_before_gates(history: History, stage: Stage, pods: int) -> None:
    """kube-scheduler drops a pod whose group it does not know."""
    opened = openings(history)
    assert len(opened) == pods
    for each in opened:
        there = {of: groups_for(history, of, each) for of in stage.objects}
        assert all(there.values()), f"{each.name} was released without {there}"
        spec = each.object["spec"]
        named = spec.get("schedulingGroup", {}).get("podGroupName") or spec["workloadRef"]["name"]
        assert named in there[stage.objects[-1]]


NATIVE = {f"{minor}, {of.kind}": (STAGES[minor], of) for minor in MINORS for of in STAGES[minor].objects}


@pytest.mark.parametrize(("stage", "late"), NATIVE.values(), ids=NATIVE)
def test_the_group_is_there_before_gates_open(stage: Stage, late: Resource) -> None:
    """kubernetes, read in its code: the scheduler's group is there before gates open, and nine roles are no obstacle."""

    async def story(world: World) -> None:
        # A Workload takes eight templates. A group of roles makes a CompositePodGroup, where there are such.
        roles = [gpu_role(f"role{index}", 1, 4) for index in range(9)]
        group = make.scaling_group("sg", ["role7", "role8"])
        async with History(world, kinds.PODS, *stage.objects) as history:
            refused = world.cluster.faults.add(refuse_writes(late))
            await world.apply(stage.cliqueset(cliques=roles, groups=[group]))
            await pass_time(60)
            assert refused.happened
            assert await world.all(late) == []
            assert [gates_of(pod) for pod in await world.pods()] == [[stage.gate]] * 9
            world.cluster.faults.clear()
            await pass_time(60)
            # Nine pods of four GPUs do not fit on four nodes of eight, and none of them starts.
            assert not any(pod["spec"].get("nodeName") for pod in await world.pods())
            await world.add_node("more")
            await until_running(world, "train-0")
        assert_groups_before_gates(history, stage, 9)
        assert (await world.condition("train-0", "Scheduled"))["status"] == "True"

    run_world(story, stage.options)


@pytest.mark.parametrize(("stage", "going"), NATIVE.values(), ids=NATIVE)
def test_a_group_that_is_being_deleted_is_made_again_before_gates_open(stage: Stage, going: Resource) -> None:
    """kubernetes, read in its code: the scheduler's group is there before gates open, and nine roles are no obstacle."""

    async def story(world: World) -> None:
        quota: Manifest = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}}
        await world.apply({**quota, "spec": {"hard": {"pods": "4"}}})
        group = make.scaling_group("sg", ["worker"])
        async with History(world, kinds.PODS, *stage.objects) as history:
            await world.apply(stage.cliqueset(cliques={"leader": 2, "worker": 3}, groups=[group]))
            await pass_time(60)
            assert [gates_of(pod) for pod in await world.pods()] == [[stage.gate]] * 4
            # While the gang waits for its last pod somebody deletes its group, and somebody else keeps that.
            named = [each["metadata"]["name"] for each in await world.all(going)]
            assert named
            for name in named:
                kept: Manifest = {"metadata": {"finalizers": ["example.com/kept"]}}
                await world.user.merge_patch(going, Key("default", name), kept)
                await world.user.delete(going, Key("default", name))
            await world.user.delete(QUOTAS, Key("default", "few"))
            await until_running(world, "train-0")
        assert_groups_before_gates(history, stage, 5)

    run_world(story, stage.options)
