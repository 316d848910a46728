"""Roles that are scaled by load: an autoscaler for each, and replicas that nobody but the scaler changes.

Nothing acts on an autoscaler in the embedded cluster; the tests do what Kubernetes' own does: they write the
scale subresource of what it names. With the real one: `tests/e2e/test_autoscaling.py`.
"""

from collections.abc import Awaitable, Callable

import pytest
from tests.scenarios.crashing import REACHED, Story
from tests.scenarios.stories import pass_time, set_condition, until_reason, until_running
from tests.scenarios.test_silence import told

from grove.api import kinds, labels
from grove.meta import Key, Manifest
from grove.testing import make
from grove.testing.world import World, run_world

QUEUE: Manifest = {
    "type": "Pods",
    "pods": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "0.5"}},
}
PER_REPLICA: Manifest = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "0.5"}},
}
TARGET = Key("default", "train-0-worker")


def train(
    config: Manifest | None = None, *, replicas: int = 1, pods: int = 2, image: str = "app", minimum: int = 2
) -> Manifest:
    """A leader, and workers that are scaled by the length of their queue."""
    worker = make.template("worker", pods, pod=make.pod_spec(containers=[{"name": "main", "image": image}]))
    worker["spec"]["minAvailable"] = minimum
    worker["spec"]["autoScalingConfig"] = config
    if config is None:
        del worker["spec"]["autoScalingConfig"]
    return make.cliqueset_manifest("train", [make.template("leader"), worker], replicas=replicas)


def scaled(**config: object) -> Manifest:
    return {"maxReplicas": 6, "metrics": [QUEUE], **config}


async def autoscaler(world: World, name: str = "train-0-worker") -> Manifest:
    found = await world.get(kinds.AUTOSCALERS, name)
    assert found is not None
    return found


async def play(world: World, replicas: int, name: str = "train-0-worker") -> None:
    """What the horizontal pod autoscaler does: read what the object names, and write its scale."""
    target = (await autoscaler(world, name))["spec"]["scaleTargetRef"]
    assert (target["apiVersion"], target["kind"]) == ("grove.io/v1alpha1", "PodClique")
    scale: Manifest = await world.user.get(
        kinds.CLIQUES, Key("default", target["name"]), type=dict, subresource="scale"
    )
    pods = await world.all(kinds.PODS, scale["status"]["selector"])
    assert {each["metadata"]["labels"][labels.POD_CLIQUE] for each in pods} <= {target["name"]}
    assert len(pods) == scale["status"]["replicas"]
    await world.scale(target["name"], replicas, of=kinds.CLIQUES)


async def workers(world: World) -> int:
    """How many workers run; fails where others exist besides."""
    found = [each for each in await world.pods() if each["spec"]["hostname"].startswith("train-0-worker-")]
    assert [each["status"]["phase"] for each in found] == ["Running"] * len(found)
    clique = await world.get(kinds.CLIQUES, "train-0-worker")
    assert clique is not None
    assert clique["spec"]["replicas"] == len(found)
    return len(found)


def test_an_autoscaler_scales_a_role_up_and_down_within_its_gang() -> None:
    async def story(world: World) -> None:
        await world.apply(train(scaled()))
        await until_running(world, "train-0")
        gang = await world.gang("train-0") or {}
        for count in (6, 3, 2):
            await play(world, count)
            await world.settle()
            assert await workers(world) == count
            assert len(await world.pods()) == count + 1
        now = await world.gang("train-0") or {}
        assert now["metadata"]["uid"] == gang["metadata"]["uid"]
        assert [group["minReplicas"] for group in now["spec"]["podgroups"]] == [1, 2]
        assert (await world.condition("train-0", "Ready"))["status"] == "True"

    run_world(story)


async def by_a_reconcile(world: World) -> None:
    mark = {"metadata": {"annotations": {labels.RECONCILE_TRIGGER: "now"}}}
    await world.user.merge_patch(kinds.CLIQUESETS, Key("default", "train"), mark)


async def by_another_image(world: World) -> None:
    await world.apply(train(scaled(), image="app:2"))


async def by_other_bounds(world: World) -> None:
    await world.apply(train(scaled(maxReplicas=9, minReplicas=2)))


async def by_other_replicas_in_the_template(world: World) -> None:
    await world.apply(train(scaled(), pods=3))


async def by_a_restart(world: World) -> None:
    await world.kill_operator()
    await world.start_operator()


async def by_edits_while_nobody_looks(world: World) -> None:
    await world.kill_operator()
    await world.apply(train(scaled(maxReplicas=7), pods=4, image="app:3"))
    await world.start_operator()


async def by_the_loss_of_the_autoscaler(world: World) -> None:
    await world.user.delete(kinds.AUTOSCALERS, TARGET)


async def by_the_end_of_autoscaling(world: World) -> None:
    await world.apply(train())


async def by_another_replica_of_the_set(world: World) -> None:
    await world.scale("train", 2)


async def by_a_clique_that_lost_its_labels(world: World) -> None:
    gone = {"metadata": {"labels": {labels.NAME: None, labels.COMPONENT: None}}}
    await world.user.merge_patch(kinds.CLIQUES, TARGET, gone)


EVENTS: list[Callable[[World], Awaitable[None]]] = [
    by_a_reconcile,
    by_another_image,
    by_other_bounds,
    by_other_replicas_in_the_template,
    by_a_restart,
    by_edits_while_nobody_looks,
    by_the_loss_of_the_autoscaler,
    by_the_end_of_autoscaling,
    by_another_replica_of_the_set,
    by_a_clique_that_lost_its_labels,
]


@pytest.mark.parametrize("happens", EVENTS, ids=lambda each: each.__name__)
def test_replicas_that_an_autoscaler_wrote_are_not_changed(
    happens: Callable[[World], Awaitable[None]],
) -> None:
    async def story(world: World) -> None:
        await world.apply(train(scaled()))
        await until_running(world, "train-0")
        await play(world, 5)
        await world.settle()
        before = {each["metadata"]["uid"] for each in await world.pods()}
        await happens(world)
        await world.settle()
        assert await workers(world) == 5
        now = {each["metadata"]["uid"] for each in await world.pods()}
        if happens in (by_another_image, by_edits_while_nobody_looks):
            assert len(before & now) == 1, "the leader, whose image is the same"
        else:
            assert before <= now
        after = await world.get(kinds.AUTOSCALERS, "train-0-worker")
        assert (after is None) is (happens is by_the_end_of_autoscaling)

    run_world(story)


def decode(image: str = "app", replicas: int = 1, **config: object) -> Manifest:
    """A router, and one to three replicas of a leader with two workers."""
    scale = {"minReplicas": 1, "maxReplicas": 3, "metrics": [PER_REPLICA], **config}
    group = make.scaling_group("dec", ["lead", "work"], replicas=replicas, minAvailable=1, scaleConfig=scale)
    worker = make.template("work", 2, pod=make.pod_spec(containers=[{"name": "main", "image": image}]))
    roles = [make.template("router"), make.template("lead"), worker]
    return make.cliqueset_manifest("train", roles, groups=[group])


async def group_by_another_image(world: World) -> None:
    await world.apply(decode("app:2"))


async def group_by_other_replicas_and_bounds(world: World) -> None:
    await world.apply(decode(replicas=2, maxReplicas=4))


async def group_by_edits_while_nobody_looks(world: World) -> None:
    await world.kill_operator()
    await world.apply(decode("app:3", replicas=2))
    await world.start_operator()


async def group_by_the_loss_of_the_autoscaler(world: World) -> None:
    await world.user.delete(kinds.AUTOSCALERS, Key("default", "train-0-dec"))


@pytest.mark.parametrize(
    "happens",
    [
        by_a_reconcile,
        by_a_restart,
        group_by_another_image,
        group_by_other_replicas_and_bounds,
        group_by_edits_while_nobody_looks,
        group_by_the_loss_of_the_autoscaler,
    ],
    ids=lambda each: each.__name__,
)
def test_a_group_goes_from_one_to_three_and_back_and_stays_meanwhile(
    happens: Callable[[World], Awaitable[None]],
) -> None:
    async def story(world: World) -> None:
        await world.apply(decode())
        await until_running(world, "train-0")
        await world.settle()
        assert len(await world.pods()) == 4
        spec = (await autoscaler(world, "train-0-dec"))["spec"]
        assert (spec["scaleTargetRef"]["kind"], spec["scaleTargetRef"]["name"]) == (
            "PodCliqueScalingGroup",
            "train-0-dec",
        )
        assert [each["metadata"]["name"] for each in await world.all(kinds.AUTOSCALERS)] == ["train-0-dec"]
        await world.scale("train-0-dec", 3, of=kinds.SCALING_GROUPS)
        await world.settle()
        gangs = {"train-0", "train-0-dec-0", "train-0-dec-1"}
        for _ in range(2):
            assert {each["metadata"]["name"] for each in await world.all(kinds.GANGS)} == gangs
            assert [each["status"]["phase"] for each in await world.pods()] == ["Running"] * 10
            await happens(world)
            await world.settle()
        scale: Manifest = await world.user.get(
            kinds.SCALING_GROUPS, Key("default", "train-0-dec"), type=dict, subresource="scale"
        )
        assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (3, 3)
        assert len(await world.all(kinds.PODS, scale["status"]["selector"])) == 9
        assert await world.get(kinds.AUTOSCALERS, "train-0-dec") is not None
        await world.scale("train-0-dec", 1, of=kinds.SCALING_GROUPS)
        await world.settle()
        assert len(await world.pods()) == 4
        # A clique of a group has no selector: the group is what is scaled.
        clique = await world.get(kinds.CLIQUES, "train-0-dec-0-work") or {}
        assert "hpaPodSelector" not in clique["status"]

    run_world(story)


def test_a_group_that_is_scaled_by_a_metric_that_counts_pods_is_told() -> None:
    async def story(world: World) -> None:
        await world.apply(decode(metrics=[QUEUE]))
        await until_running(world, "train-0")
        accepted = await set_condition(world, "train", "Accepted")
        assert accepted["status"] == "True"
        assert "by counting pods, and a replica of this group has 3" in accepted["message"]

    run_world(story)


def test_what_the_set_says_reaches_the_autoscaler_of_every_replica() -> None:
    async def story(world: World) -> None:
        await world.apply(train(scaled(), replicas=2))
        await until_running(world, "train-0", "train-1")
        await world.apply(train({"minReplicas": 3, "maxReplicas": 8}, replicas=2, pods=3))
        await world.settle()
        found = {each["metadata"]["name"]: each["spec"] for each in await world.all(kinds.AUTOSCALERS)}
        assert set(found) == {"train-0-worker", "train-1-worker"}
        for spec in found.values():
            assert (spec["minReplicas"], spec["maxReplicas"]) == (3, 8)
            assert [each["resource"]["name"] for each in spec["metrics"]] == ["cpu"]

    run_world(story)


def test_autoscalers_come_and_go_with_the_replicas_of_the_set_and_with_the_set() -> None:
    async def names(world: World) -> list[str]:
        return sorted(each["metadata"]["name"] for each in await world.all(kinds.AUTOSCALERS))

    async def story(world: World) -> None:
        await world.apply(train(scaled(), replicas=0))
        await world.settle()
        assert await names(world) == []
        for replicas in (2, 0, 1, 3, 1):
            await world.scale("train", replicas)
            await world.settle()
            assert await names(world) == [f"train-{index}-worker" for index in range(replicas)]
        await world.user.delete(kinds.CLIQUESETS, Key("default", "train"))
        await world.settle()
        for resource in (kinds.AUTOSCALERS, kinds.CLIQUES, kinds.GANGS, kinds.PODS, kinds.SERVICES):
            assert await world.all(resource, f"{labels.PART_OF}=train") == []

    run_world(story)


def test_an_edited_autoscaler_is_put_right_and_behavior_is_its_editors() -> None:
    async def story(world: World) -> None:
        await world.apply(train(scaled()))
        await until_running(world, "train-0")
        behavior = {"scaleDown": {"stabilizationWindowSeconds": 30}}
        edits = {"spec": {"minReplicas": 1, "maxReplicas": 60, "behavior": behavior}}
        await world.user.merge_patch(kinds.AUTOSCALERS, TARGET, edits)
        await world.settle()
        spec = (await autoscaler(world))["spec"]
        assert (spec["minReplicas"], spec["maxReplicas"]) == (2, 6)
        assert spec["behavior"]["scaleDown"]["stabilizationWindowSeconds"] == 30
        assert [each["type"] for each in spec["behavior"]["scaleUp"]["policies"]] == ["Pods", "Percent"]
        before = told(world)
        await pass_time(600)
        assert told(world) == before

    run_world(story)


def test_an_autoscaler_of_somebody_elses_is_left_alone_and_told() -> None:
    async def story(world: World) -> None:
        theirs = {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "train-0-worker", "namespace": "default"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "maxReplicas": 3,
            },
        }
        await world.user.create(kinds.AUTOSCALERS, theirs)
        await world.apply(train(scaled()))
        await until_running(world, "train-0")
        degraded = await set_condition(world, "train", "Degraded")
        assert degraded["reason"] == "NameTaken"
        assert "HorizontalPodAutoscaler default/train-0-worker already exists" in degraded["message"]
        assert (await autoscaler(world))["spec"]["scaleTargetRef"]["name"] == "web"

        await world.user.delete(kinds.AUTOSCALERS, TARGET)
        await pass_time(600)
        assert (await autoscaler(world))["spec"]["scaleTargetRef"]["name"] == "train-0-worker"
        assert await set_condition(world, "train", "Degraded") == {}

    run_world(story)


def test_a_settled_set_is_silent_however_the_server_spells_and_whatever_the_autoscaler_reports() -> None:
    async def story(world: World) -> None:
        await world.apply(train(scaled(), replicas=2))
        await until_running(world, "train-0", "train-1")
        await world.settle()
        before = told(world)
        # A real API server spells quantities in its own way; the embedded one keeps them as they are.
        metric = {
            **QUEUE,
            "pods": {**QUEUE["pods"], "target": {"type": "AverageValue", "averageValue": "500m"}},
        }
        await world.user.merge_patch(kinds.AUTOSCALERS, TARGET, {"spec": {"metrics": [metric]}})
        for count in range(5):
            status = {"status": {"currentReplicas": 2, "desiredReplicas": 2 + count}}
            await world.user.merge_patch(kinds.AUTOSCALERS, TARGET, status, subresource="status")
            await pass_time(15)
        await by_a_reconcile(world)
        await pass_time(60)
        assert (await autoscaler(world))["spec"]["metrics"] == [metric]
        assert told(world) == before
        await by_a_restart(world)
        await pass_time(60)
        assert told(world) == before

    run_world(story)


def test_a_role_is_scaled_to_zero_by_hand_and_back() -> None:
    async def story(world: World) -> None:
        await world.apply(train(scaled()))
        await until_running(world, "train-0")
        await world.scale("train-0-worker", 0, of=kinds.CLIQUES)
        await world.settle()
        assert await workers(world) == 0
        assert len(await world.pods()) == 1
        # Kubernetes' autoscaler leaves alone what is scaled to zero; ours to keep is that it is still there.
        assert (await autoscaler(world))["spec"]["minReplicas"] == 2
        assert (await world.condition("train-0", "Scheduled"))["status"] == "True"
        await by_a_restart(world)
        await world.settle()
        assert await workers(world) == 0
        await world.scale("train-0-worker", 4, of=kinds.CLIQUES)
        await world.settle()
        assert await workers(world) == 4

    run_world(story)


def test_pods_of_a_gang_with_a_role_below_its_minimum_wait_behind_their_gates() -> None:
    async def story(world: World) -> None:
        await world.apply(train(scaled(minReplicas=3), pods=4, minimum=3))
        await until_running(world, "train-0")
        await world.scale("train-0-worker", 1, of=kinds.CLIQUES)
        await until_reason(world, "train-0", "Scheduled", "ScaledBelowMinimum")
        for pod in await world.pods():
            await world.user.delete(kinds.PODS, Key("default", pod["metadata"]["name"]))
        await pass_time(120)
        pods = await world.pods()
        assert pods
        assert all(pod["spec"].get("schedulingGates") for pod in pods)
        await world.scale("train-0-worker", 3, of=kinds.CLIQUES)
        await until_running(world, "train-0")

    run_world(story)


def test_a_role_below_its_minimum_is_told_and_left_to_whoever_scales_it() -> None:
    async def story(world: World) -> None:
        await world.apply(train(scaled(minReplicas=3), pods=4, minimum=3))
        await until_running(world, "train-0")
        await world.scale("train-0-worker", 1, of=kinds.CLIQUES)
        said = await until_reason(world, "train-0", "Scheduled", "ScaledBelowMinimum")
        assert said["message"] == "clique train-0-worker is scaled to 1, the gang needs 3"
        await pass_time(120)
        clique = await world.get(kinds.CLIQUES, "train-0-worker") or {}
        assert clique["spec"]["replicas"] == 1
        assert (
            "is scaled to 1, the gang needs 3"
            in (await set_condition(world, "train", "Available"))["message"]
        )
        # The autoscaler's lower bound is above the minimum: the next time that it looks, it ends this.
        await world.scale("train-0-worker", 3, of=kinds.CLIQUES)
        await until_running(world, "train-0")
        await world.settle()
        assert await workers(world) == 3

    run_world(story)


def test_a_set_whose_autoscaler_could_not_be_created_is_refused_before_anything_of_it_exists() -> None:
    async def story(world: World) -> None:
        await world.apply(
            train({"maxReplicas": 6, "metrics": [{**QUEUE, "pods": {"metric": {"name": "q"}}}]})
        )
        await world.settle()
        accepted = await set_condition(world, "train", "Accepted")
        assert (accepted["status"], accepted["reason"]) == ("False", "Invalid")
        where = "spec.template.cliques[1].spec.autoScalingConfig.metrics[0].pods.target"
        assert f"{where}: is required" in accepted["message"]
        assert await world.all(kinds.PODS) == []
        await world.apply(train(scaled()))
        await until_running(world, "train-0")

    run_world(story)


# Dying at every write -----------------------------------------------------------------------------

#: More than the operator ever needs for the story below; `test_the_story_is_short_enough` checks it.
MOST_WRITES = 70


async def life(world: World, settle: Callable[[], Awaitable[None]]) -> None:
    """Created, scaled up by its autoscaler, edited, scaled down, no longer autoscaled."""
    await world.apply(train(scaled()))
    await settle()
    await play(world, 4)
    await settle()
    await world.apply(train(scaled(maxReplicas=8), pods=3, image="app:2"))
    await settle()
    await play(world, 3)
    await settle()
    await world.apply(train(pods=3, image="app:2"))
    await settle()


STORY = Story(life)


def test_the_story_is_short_enough_that_every_write_of_it_is_crashed() -> None:
    end, writes = STORY.undisturbed
    assert 15 < writes <= MOST_WRITES
    assert [pod["phase"] for pod in end["pods"]] == ["Running"] * 4
    assert end[str(kinds.AUTOSCALERS)] == []


@REACHED
@pytest.mark.parametrize("number", range(1, MOST_WRITES + 1))
def test_dying_at_a_write_loses_no_replicas(number: int, reached: bool) -> None:
    STORY.dies_at(number, reached=reached)
