"""Which scheduler a set goes to, who decides, and what happens when it cannot."""

import pytest
from tests.scenarios.stories import (
    events_about,
    pass_time,
    reasons_about,
    refusal,
    set_condition,
    until_running,
)

from grove.api import kinds, labels
from grove.api.config import load
from grove.meta import Key, Manifest
from grove.testing import make
from grove.testing.world import World, WorldOptions, run_world

KAI = WorldOptions(schedulers=("kai",))
ONLY_DEFAULT = WorldOptions(
    configuration=load("""
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
scheduler:
  profiles: [{name: default-scheduler}]
""")
)
KAI_BY_DEFAULT = WorldOptions(
    schedulers=("kai",),
    configuration=load("""
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
scheduler:
  defaultProfileName: kai-scheduler
  profiles: [{name: default-scheduler}, {name: kai-scheduler}]
"""),
)


def asking(scheduler_names: list[str], annotation: str = "") -> Manifest:
    """A set whose roles ask for these schedulers, by name, and which may ask by annotation too."""
    roles = [
        make.template(f"role{index}", 1, pod={"schedulerName": name} if name else {})
        for index, name in enumerate(scheduler_names)
    ]
    marks = {labels.SCHEDULER_BACKEND: annotation} if annotation else {}
    return make.cliqueset_manifest("train", roles, annotations=marks)


async def backend(world: World) -> str:
    gang = await world.gang("train-0")
    assert gang is not None
    return str(gang["metadata"]["labels"][labels.SCHEDULER_BACKEND])


CHOICES = {
    "the annotation beats the schedulerName": (asking(["default-scheduler"], "kai"), KAI, "kai"),
    "the schedulerName beats the default": (asking(["kai-scheduler"]), KAI, "kai"),
    "grove-scheduler means kai": (asking(["grove-scheduler"]), KAI, "kai"),
    "nobody says anything": (asking([""]), KAI, "default"),
    "the configured default is another one": (asking([""]), KAI_BY_DEFAULT, "kai"),
    "default-scheduler is asked for by name": (asking(["default-scheduler"]), KAI_BY_DEFAULT, "default"),
    "an empty annotation says nothing": (asking(["kai-scheduler"], ""), KAI, "kai"),
}


@pytest.mark.parametrize(("manifest", "options", "want"), CHOICES.values(), ids=CHOICES)
def test_the_first_answer_wins(manifest: Manifest, options: WorldOptions, want: str) -> None:
    async def story(world: World) -> None:
        await world.apply(manifest)
        await until_running(world, "train-0")
        assert await backend(world) == want
        wanted_name = {"kai": "kai-scheduler", "default": "default-scheduler"}[want]
        assert {pod["spec"]["schedulerName"] for pod in await world.pods()} == {wanted_name}

    run_world(story, options)


ANNOTATED = f"metadata.annotations[{labels.SCHEDULER_BACKEND}]"
NAMED = "spec.template.cliques[{}].spec.podSpec.schedulerName"
REFUSALS = {
    "an unknown annotation": (asking([""], "slurm"), KAI, ANNOTATED, "'slurm'"),
    "an unknown schedulerName": (asking(["slurm"]), KAI, NAMED.format(0), "'slurm'"),
    "a backend that is not enabled": (asking([""], "kai"), ONLY_DEFAULT, ANNOTATED, "'kai'"),
    "a schedulerName that is not enabled": (
        asking(["kai-scheduler"]),
        ONLY_DEFAULT,
        NAMED.format(0),
        "'kai-scheduler'",
    ),
    "roles that do not agree": (
        asking(["default-scheduler", "kai-scheduler"]),
        KAI,
        NAMED.format(1),
        "one scheduler",
    ),
}


@pytest.mark.parametrize(("manifest", "options", "field", "word"), REFUSALS.values(), ids=REFUSALS)
def test_what_cannot_be_selected_is_refused_by_field_and_nothing_is_created(
    manifest: Manifest, options: WorldOptions, field: str, word: str
) -> None:
    async def story(world: World) -> None:
        await world.apply(manifest)
        accepted = await refusal(world, "train")
        assert accepted["status"] == "False"
        assert field in accepted["message"]
        assert word in accepted["message"]
        await world.settle()
        operator = world.operator
        assert operator is not None
        for _ in range(3):
            operator.controllers["cliqueset"].enqueue(Key("default", "train"))
            await pass_time(5)
        for resource in (kinds.GANGS, kinds.CLIQUES, kinds.SERVICES, kinds.PODS):
            assert await world.all(resource) == []
        (told,) = await events_about(world, "PodCliqueSet", "train")
        assert (told["type"], told["reason"], told["count"]) == ("Warning", "Refused", 1)
        assert field in told["message"]

    run_world(story, options)


def test_a_refusal_names_the_backends_that_are_enabled() -> None:
    async def story(world: World) -> None:
        await world.apply(asking([""], "kai"))
        accepted = await refusal(world, "train")
        assert accepted["reason"] == "BackendNotEnabled"
        assert (
            "scheduler backend is not enabled in Grove; enabled: default (default-scheduler)"
            in (accepted["message"])
        )

    run_world(story, ONLY_DEFAULT)


def test_a_refused_set_that_is_corrected_runs() -> None:
    async def story(world: World) -> None:
        await world.apply(asking([""], "slurm"))
        await refusal(world, "train")
        corrected: Manifest = {"metadata": {"annotations": {labels.SCHEDULER_BACKEND: "default"}}}
        await world.user.merge_patch(kinds.CLIQUESETS, Key("default", "train"), corrected)
        await until_running(world, "train-0")
        assert (await set_condition(world, "train", "Accepted"))["status"] == "True"

    run_world(story)


def test_a_running_set_that_becomes_unselectable_goes_on_running() -> None:
    async def story(world: World) -> None:
        await world.apply(asking([""]))
        await until_running(world, "train-0")
        before = {pod["metadata"]["uid"] for pod in await world.pods()}
        spoiled: Manifest = {"metadata": {"annotations": {labels.SCHEDULER_BACKEND: "slurm"}}}
        await world.user.merge_patch(kinds.CLIQUESETS, Key("default", "train"), spoiled)
        await world.settle()
        assert (await set_condition(world, "train", "Accepted"))["status"] == "False"
        assert {pod["metadata"]["uid"] for pod in await world.pods()} == before
        assert await world.phase("train-0") == "Running"

    run_world(story)


def test_a_selection_is_counted_once_however_often_the_set_is_looked_at() -> None:
    async def story(world: World) -> None:
        operator = world.operator
        assert operator is not None
        await world.apply(asking(["kai-scheduler"]))
        await until_running(world, "train-0")
        await world.settle()
        for _ in range(5):
            operator.controllers["cliqueset"].enqueue(Key("default", "train"))
            await pass_time(1)
        counted = operator.metrics.value(
            "grove_backend_selections_total", backend="kai", source="schedulerName"
        )
        assert counted == 1

    run_world(story, KAI)


def test_a_gang_that_names_no_backend_and_has_no_pods_gets_the_default_one() -> None:
    async def story(world: World) -> None:
        await world.apply(make.gang_manifest("lone", {"lone-worker": 2}))
        await world.settle()
        found = await world.gang("lone")
        assert found is not None
        assert found["metadata"]["labels"][labels.SCHEDULER_BACKEND] == "kai"
        waiting = await world.condition("lone", "Initialized")
        assert (waiting["status"], waiting["message"]) == ("False", "0 of 2 pods exist")

    run_world(story, KAI_BY_DEFAULT)


def test_a_gang_with_the_label_of_a_backend_that_is_not_enabled_stays_and_says_so() -> None:
    async def story(world: World) -> None:
        orphan = make.gang_manifest(
            "orphan", {"orphan-worker": 2}, labels={labels.SCHEDULER_BACKEND: "volcano"}
        )
        await world.apply(orphan)
        await pass_time(10)
        told = await world.condition("orphan", "Scheduled")
        assert (told["status"], told["reason"]) == ("False", "BackendNotEnabled")
        assert "'volcano': scheduler backend is not enabled in Grove; enabled:" in told["message"]
        assert "BackendNotEnabled" in await reasons_about(world, "PodGang", "orphan")

    run_world(story)
