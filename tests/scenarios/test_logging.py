"""What the operator did can be read in its log at the level info, one line for each step."""

import logging

import pytest
from tests.scenarios.stories import pass_time, until_running

from grove.api import kinds
from grove.meta import Key
from grove.testing import make
from grove.testing.world import World, run_world

#: The loggers that tell what was done to gangs; the others tell how the process itself fares.
_ACTS = ("grove.controllers.cliqueset", "grove.controllers.clique", "grove.controllers.gang")
_FIELDS = ("set", "clique", "gang", "children", "pods", "placed", "restarts", "why")


def _lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, object]]]:
    """Each line at the level info or above with its own fields, in order."""
    return [
        (record.getMessage(), {name: vars(record)[name] for name in _FIELDS if name in vars(record)})
        for record in caplog.records
        if record.name.startswith(_ACTS) and record.levelno >= logging.INFO
    ]


def test_a_set_from_apply_to_running_leaves_one_line_for_each_step(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        with caplog.at_level(logging.INFO, "grove"):
            await world.apply(make.cliqueset_manifest("train", {"worker": 2}))
            await until_running(world, "train-0")
            await pass_time(90)

    run_world(story)
    assert _lines(caplog) == [
        (
            "children created",
            {
                "set": "default/train",
                "children": "1 PodGang, 1 PodClique, 1 Service and 1 ControllerRevision",
            },
        ),
        ("pods created", {"clique": "default/train-0-worker", "pods": 2}),
        ("gates opened", {"gang": "default/train-0", "pods": 2}),
        ("gang placed", {"gang": "default/train-0", "placed": "2 of 2 pods placed."}),
    ]


def test_a_gang_that_loses_all_pods_is_logged_as_restarted(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}))
        await until_running(world, "train-0")
        with caplog.at_level(logging.INFO, "grove"):
            for pod in await world.pods():
                await world.user.delete(kinds.PODS, Key("default", pod["metadata"]["name"]))
            await pass_time(90)
            await until_running(world, "train-0")

    run_world(story)
    lines = _lines(caplog)
    # Pods that replaced the first ones before the gang was restarted are replaced once more.
    restarted = {"gang": "default/train-0", "restarts": 1, "why": "all of its placed pods are gone"}
    assert [line for line in lines if line[0] == "gang restarted"] == [("gang restarted", restarted)]
    assert lines[-2:] == [
        ("gates opened", {"gang": "default/train-0", "pods": 2}),
        ("gang placed", {"gang": "default/train-0", "placed": "2 of 2 pods placed."}),
    ]
