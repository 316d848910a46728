"""The configuration file changes while the operator runs: backends come and go, gangs stay."""

import logging
from pathlib import Path

import pytest
from tests.scenarios.stories import pass_time, reasons_about, refusal, set_condition, until_running

from grove.api import kinds, labels
from grove.api.config import OperatorConfiguration, load
from grove.backends.kai.backend import PODGROUPS as KAI_PODGROUPS
from grove.cli.reloading import ConfigurationFile
from grove.meta import Key, Manifest
from grove.runtime.events import EventTarget
from grove.testing import make
from grove.testing.world import World, WorldOptions, run_world

TEXT = """
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
logLevel: %s
scheduler:
  profiles: [%s]
"""
DEFAULT = TEXT % ("info", "{name: default-scheduler}")
WITH_KAI = TEXT % ("info", "{name: default-scheduler}, {name: kai-scheduler}")
POD = EventTarget(kinds.PODS, Key("default", "operator"), "")


def training(name: str = "train") -> Manifest:
    return make.cliqueset_manifest(name, {"worker": 2}, annotations={labels.SCHEDULER_BACKEND: "kai"})


def following(world: World, file: Path) -> ConfigurationFile:
    """The operator's configuration file, as `grove run --config` follows it."""
    assert world.operator is not None
    return ConfigurationFile(str(file), world.operator, world.options.configuration, about=POD)


def started_with(text: str, file: Path) -> WorldOptions:
    file.write_text(text)
    return WorldOptions(schedulers=("kai",), configuration=load(text))


def test_a_backend_that_is_enabled_takes_the_sets_that_waited_for_it(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"

    async def story(world: World) -> None:
        followed = following(world, file)
        await world.apply(training())
        assert (await refusal(world, "train"))["reason"] == "BackendNotEnabled"
        file.write_text(WITH_KAI)
        await followed.look()
        await until_running(world, "train-0")
        assert (await set_condition(world, "train", "Accepted"))["status"] == "True"
        assert "ConfigurationApplied" in await reasons_about(world, "Pod", "operator")

    run_world(story, started_with(DEFAULT, file))


def test_a_backend_that_is_disabled_leaves_its_gangs_running_and_they_say_so(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"

    async def story(world: World) -> None:
        followed = following(world, file)
        await world.apply(training())
        await until_running(world, "train-0")
        before = {pod["metadata"]["uid"] for pod in await world.pods()}
        file.write_text(DEFAULT)
        await followed.look()
        await world.settle()
        assert {pod["metadata"]["uid"] for pod in await world.pods()} == before
        assert len(await world.all(KAI_PODGROUPS)) == 1
        told = await world.condition("train-0", "Scheduled")
        assert (told["status"], told["reason"]) == ("True", "BackendNotEnabled")
        assert "2 of 2 pods placed; 'kai': scheduler backend is not enabled in Grove" in told["message"]
        assert await world.phase("train-0") == "Running"
        assert await world.condition("train-0", "Unhealthy") == {}
        file.write_text(WITH_KAI)
        await followed.look()
        await world.settle()
        assert (await world.condition("train-0", "Scheduled"))["reason"] == "Scheduled"
        assert {pod["metadata"]["uid"] for pod in await world.pods()} == before
        assert "Repaired" not in await reasons_about(world, "PodGang", "train-0")

    run_world(story, started_with(WITH_KAI, file))


def test_a_set_that_leaves_a_disabled_backend_takes_its_objects_along(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"

    async def story(world: World) -> None:
        followed = following(world, file)
        await world.apply(training())
        await until_running(world, "train-0")
        file.write_text(DEFAULT)
        await followed.look()
        moved: Manifest = {"metadata": {"annotations": {labels.SCHEDULER_BACKEND: "default"}}}
        await world.user.merge_patch(kinds.CLIQUESETS, Key("default", "train"), moved)
        await world.user.delete_collection(
            kinds.PODS, namespace="default", labels=f"{labels.POD_GANG}=train-0"
        )
        await world.settle()
        await until_running(world, "train-0")
        assert {pod["spec"]["schedulerName"] for pod in await world.pods()} == {"default-scheduler"}
        assert await world.all(KAI_PODGROUPS) == []

    run_world(story, started_with(WITH_KAI, file))


BROKEN = {
    "not YAML": ("scheduler: [", ":1:13: is not valid YAML: "),
    "a wrong value": (TEXT % ("loud", "{name: default-scheduler}"), "logLevel: must be one of"),
    "an unknown backend": (TEXT % ("info", "{name: slurm}"), "scheduler.profiles[0].name: 'slurm'"),
    "gone": (None, "cannot be read: No such file or directory"),
}


@pytest.mark.parametrize(("text", "why"), BROKEN.values(), ids=BROKEN)
def test_a_broken_configuration_is_refused_in_one_sentence_and_the_old_one_stays(
    tmp_path: Path, text: str | None, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "config.yaml"

    async def story(world: World) -> None:
        operator = world.operator
        assert operator is not None
        followed = following(world, file)
        await world.apply(training())
        await until_running(world, "train-0")
        file.unlink() if text is None else file.write_text(text)
        await followed.look()
        await followed.look()
        await world.settle()
        assert [each.name for each in operator.scheduling.registry.enabled] == ["default", "kai"]
        assert (await world.condition("train-0", "Scheduled"))["reason"] == "Scheduled"
        assert await reasons_about(world, "Pod", "operator") == ["ConfigurationRefused"]
        assert operator.metrics.value("grove_configuration_changes_total", outcome="refused") == 1
        file.write_text(DEFAULT)
        await followed.look()
        assert [each.name for each in operator.scheduling.registry.enabled] == ["default"]

    with caplog.at_level(logging.ERROR):
        run_world(story, started_with(WITH_KAI, file))
    refused = [vars(each)["error"] for each in caplog.records if "the old one stays in force" in each.message]
    assert len(refused) == 1
    assert why in refused[0]
    assert str(file) in refused[0]


REFUSED_BY_A_BACKEND = {
    "volcano": ("{name: volcano, config: {networkTopology: Foo}}", "networkTopology"),
    "default": ("{name: default-scheduler, config: {gangScheduling: Foo}}", "gangScheduling"),
}


@pytest.mark.parametrize(("profile", "why"), REFUSED_BY_A_BACKEND.values(), ids=REFUSED_BY_A_BACKEND)
def test_a_value_that_a_backend_refuses_leaves_the_old_configuration_in_force(
    tmp_path: Path, profile: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "config.yaml"

    async def story(world: World) -> None:
        operator = world.operator
        assert operator is not None
        followed = following(world, file)
        before = operator.scheduling.registry
        file.write_text(TEXT % ("info", f"{profile}, {{name: kai-scheduler}}"))
        await followed.look()
        assert operator.scheduling.registry is before
        await world.apply(training())
        await until_running(world, "train-0")

    with caplog.at_level(logging.ERROR):
        run_world(story, started_with(WITH_KAI, file))
    (refused,) = [
        vars(each)["error"] for each in caplog.records if "the old one stays in force" in each.message
    ]
    assert why in refused


def test_a_key_that_nobody_reads_is_logged_and_the_configuration_comes_into_force(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "config.yaml"

    async def story(world: World) -> None:
        assert world.operator is not None
        followed = following(world, file)
        file.write_text(TEXT % ("info", "{name: kai-scheduler, config: {queu: research}}"))
        await followed.look()
        await followed.look()
        assert [each.name for each in world.operator.scheduling.registry.enabled] == ["default", "kai"]

    with caplog.at_level(logging.WARNING):
        run_world(story, started_with(DEFAULT, file))
    assert [vars(each)["key"] for each in caplog.records if "a key without effect" in each.message] == [
        f"{file}: scheduler.profiles[0].config.queu: ignored, unknown field; did you mean queue?"
    ]


def test_the_file_is_looked_at_from_time_to_time(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"

    async def story(world: World) -> None:
        import asyncio

        operator = world.operator
        assert operator is not None
        task = asyncio.create_task(following(world, file).run())
        file.write_text(WITH_KAI)
        await pass_time(10)
        task.cancel()
        assert [each.name for each in operator.scheduling.registry.enabled] == ["default", "kai"]

    run_world(story, started_with(DEFAULT, file))


def test_profiles_of_the_go_operator_are_told_as_without_effect_and_not_as_waiting_for_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "config.yaml"

    async def story(world: World) -> None:
        followed = following(world, file)
        file.write_text(DEFAULT + "debugging: {enableProfiling: true}\n")
        await followed.look()

    with caplog.at_level(logging.WARNING):
        run_world(story, started_with(DEFAULT, file))
    assert [each.message for each in caplog.records] == ["the new configuration has a key without effect"]
    (told,) = caplog.records
    assert vars(told)["key"].startswith(f"{file}: debugging.enableProfiling: ignored, nothing is served")


def test_what_needs_a_restart_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "config.yaml"

    async def story(world: World) -> None:
        followed = following(world, file)
        file.write_text(DEFAULT + "limits: {podsPerSet: 7}\n")
        await followed.look()

    with caplog.at_level(logging.WARNING):
        run_world(story, started_with(DEFAULT, file))
    (told,) = [each for each in caplog.records if each.message == "takes effect after a restart"]
    assert vars(told)["fields"] == ["limits"]


def test_logs_and_limits_of_the_client_take_effect_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "config.yaml"
    tuned: list[tuple[str, float]] = []

    def tune(of: OperatorConfiguration) -> None:
        tuned.append((of.log_level, of.runtime_client_connection.qps))

    async def story(world: World) -> None:
        assert world.operator is not None
        followed = ConfigurationFile(str(file), world.operator, world.options.configuration, tune=tune)
        file.write_text(DEFAULT + "runtimeClientConnection: {qps: 7}\n")
        await followed.look()
        file.write_text(TEXT % ("debug", "{name: default-scheduler}"))
        await followed.look()
        file.write_text((TEXT % ("debug", "{name: default-scheduler}")) + "limits: {podsPerSet: 7}\n")
        await followed.look()

    with caplog.at_level(logging.WARNING):
        run_world(story, started_with(DEFAULT, file))
    assert tuned == [("info", 7.0), ("debug", 5000.0)]
