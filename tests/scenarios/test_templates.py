"""A pod template is tried once, before its pods fail: what is wrong with it refuses the set by field."""

import pytest
from tests.scenarios.stories import STAGES, Stage, pass_time, refusal, set_condition, until_running

from grove.api import kinds
from grove.embedded.faults import Fault
from grove.meta import Manifest
from grove.testing import make
from grove.testing.world import World, run_world

PODS = "spec.template.cliques[0].spec.podSpec"
MAIN = {"name": "main", "image": "busybox"}


def made_of(container: Manifest, **template: object) -> Manifest:
    return make.cliqueset_manifest(
        "train", [make.template("worker", 2, pod={"containers": [container]})], template=template
    )


def dry_runs(world: World) -> int:
    return sum(1 for entry in world.cluster.requests if entry.dry_run and entry.resource == "pods")


WRONG = {
    "a misspelt image": (
        made_of({"name": "main", "imgae": "x"}),
        f"{PODS}.containers[0].imgae: unknown field",
    ),
    "no image": (made_of({"name": "main"}), f"{PODS}.containers[0].image: Required value"),
    "a name that is no label": (made_of({**MAIN, "name": "Not_A_Label"}), f"{PODS}.containers[0].name: "),
    "a priority class that does not exist": (
        made_of(MAIN, priorityClassName="urgent"),
        "spec.template.priorityClassName: no PriorityClass with name urgent was found",
    ),
}


@pytest.mark.parametrize(("manifest", "told"), WRONG.values(), ids=WRONG)
def test_a_wrong_template_is_refused_by_field_and_nothing_is_created(manifest: Manifest, told: str) -> None:
    async def story(world: World) -> None:
        await world.apply(manifest)
        accepted = await refusal(world, "train")
        assert (accepted["status"], accepted["reason"]) == ("False", "Invalid")
        assert told in accepted["message"]
        await pass_time(3)
        assert dry_runs(world) == 1
        for resource in (kinds.GANGS, kinds.CLIQUES, kinds.SERVICES, kinds.PODS):
            assert await world.all(resource) == []

    run_world(story)


def test_all_roles_are_told_at_once() -> None:
    async def story(world: World) -> None:
        broken = {"containers": [{"name": "main"}]}
        roles = [make.template("a", 1, pod=broken), make.template("b"), make.template("c", 1, pod=broken)]
        await world.apply(make.cliqueset_manifest("train", roles))
        accepted = await refusal(world, "train")
        for index in (0, 2):
            assert f"cliques[{index}].spec.podSpec.containers[0].image" in accepted["message"]
        assert "cliques[1]" not in accepted["message"]

    run_world(story)


def test_a_corrected_template_runs() -> None:
    async def story(world: World) -> None:
        await world.apply(made_of({"name": "main"}))
        await refusal(world, "train")
        await world.apply(made_of(MAIN))
        await until_running(world, "train-0")
        assert (await set_condition(world, "train", "Accepted"))["status"] == "True"
        assert dry_runs(world) == 2

    run_world(story)


def test_a_priority_class_that_appears_later_lets_the_set_run() -> None:
    urgent: Manifest = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 1000,
    }

    async def story(world: World) -> None:
        await world.apply(made_of(MAIN, priorityClassName="urgent"))
        await refusal(world, "train")
        await world.apply(urgent)
        await until_running(world, "train-0", seconds=15)

    run_world(story)


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_an_accepted_template_is_tried_once_for_each_role(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(stage.cliqueset(cliques={"a": 2, "b": 1}))
        await until_running(world, "train-0")
        await world.scale("train", 2)
        await until_running(world, "train-1")
        await world.settle()
        assert dry_runs(world) == 2
        await world.kill_operator()
        await world.start_operator()
        await world.scale("train", 3)
        await until_running(world, "train-2")
        assert dry_runs(world) == 2

    run_world(story, stage.options)


def test_a_running_set_whose_new_template_is_wrong_goes_on_running() -> None:
    async def story(world: World) -> None:
        await world.apply(made_of(MAIN))
        await until_running(world, "train-0")
        before = {pod["metadata"]["uid"] for pod in await world.pods()}
        await world.apply(made_of({"name": "main"}))
        await world.settle()
        accepted = await set_condition(world, "train", "Accepted")
        assert (accepted["status"], accepted["reason"]) == ("False", "Invalid")
        assert {pod["metadata"]["uid"] for pod in await world.pods()} == before
        clique = await world.get(kinds.CLIQUES, "train-0-worker")
        assert clique is not None
        assert clique["spec"]["podSpec"]["containers"][0]["image"] == "busybox"

    run_world(story)


def test_a_quota_refuses_pods_and_not_the_set() -> None:
    quota: Manifest = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none"},
        "spec": {"hard": {"pods": "0"}},
    }

    async def story(world: World) -> None:
        await world.apply(quota, made_of(MAIN))
        await pass_time(10)
        assert (await set_condition(world, "train", "Accepted"))["status"] == "True"
        assert "exceeded quota" in (await set_condition(world, "train", "Degraded"))["message"]

    run_world(story)


@pytest.mark.parametrize("action", ["error", "throttle", "lose"])
def test_an_outage_during_the_trial_is_no_refusal(action: str) -> None:
    async def story(world: World) -> None:
        world.cluster.faults.add(Fault(action, verb="create", resource="pods", times=3, seconds=1))
        await world.apply(made_of(MAIN))
        await until_running(world, "train-0", seconds=60)
        assert (await set_condition(world, "train", "Accepted"))["status"] == "True"

    run_world(story)
