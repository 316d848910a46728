"""The leader is stopped at every single write, another one takes over, and the first goes on.

What it still wanted to write does not change what the other one made of the world.
"""

import functools
from dataclasses import replace

import msgspec
import pytest
from tests.scenarios.replicas import Moment, Replica
from tests.scenarios.shapes import BACKENDS, stage_of

from grove.api.config import LeaderElection
from grove.api.labels import SCHEDULER_BACKEND
from grove.meta import Manifest
from grove.runtime.lease import LeadershipLost
from grove.testing import make
from grove.testing.portrait import Guard, portrait
from grove.testing.world import World, WorldOptions, run_world

#: More than the first leader ever needs for its part of the story.
MOST_WRITES = 100


def train(backend: str, version: int, replicas: int) -> Manifest:
    image = [{"name": "main", "image": f"registry.example/serve:{version}"}]
    roles = [
        make.template("leader", 1, pod={"containers": image}),
        make.template("worker", 2, pod={"containers": image}),
    ]
    return make.cliqueset_manifest(
        "train", roles, replicas=replicas, annotations={SCHEDULER_BACKEND: backend}
    )


#: What may arrive late and cannot be refused: news, and what is created for a gang or a clique that is gone, or
#: for an earlier start of a gang. A pod has its gate and belongs to nobody then, and is collected; an object
#: has a name that nothing points to, and its gang removes it.
HARMLESS: tuple[list[str], ...] = (
    [],
    ["create events"],
    ["create pods"],
    ["apply podgroups.scheduling.k8s.io"],
)

#: What the user asks for while the first leader works, as version of the image and replicas; and in the end.
STEPS = ((1, 2), (2, 2), (2, 1))
LAST = (3, 2)


def options(backend: str) -> WorldOptions:
    chosen = stage_of(backend).options
    election = LeaderElection(enabled=True, resource_namespace="default")
    configuration = msgspec.structs.replace(chosen.configuration, leader_election=election)
    return replace(chosen, configuration=configuration)


async def play(world: World, backend: str, *replicas: Replica) -> None:
    """The story up to its last step: whoever leads carries it out, also if the leader changes meanwhile."""
    for number, each in enumerate(replicas):
        await each.start()
        if not number:
            await each.leads()
    for step in STEPS:
        await world.apply(train(backend, *step))
        await world.settle()
        if replicas[0].stopped.is_set():
            await replicas[-1].leads()
            await world.settle()


async def finish(world: World, backend: str) -> None:
    await world.apply(train(backend, *LAST))
    await world.settle()


@functools.cache
def undisturbed(backend: str) -> tuple[Manifest, list[str]]:
    """How the world looks when nobody is stopped, and what was written in the steps before the last one."""
    seen: list[tuple[Manifest, list[str]]] = []

    async def run(world: World) -> None:
        only = Replica(world, "first")
        await play(world, backend, only)
        writes = [each.resource for each in only.late()]
        await finish(world, backend)
        seen.append((await portrait(world, stage_of(backend).objects), writes))
        await only.kill()

    run_world(run, options(backend), operator=False)
    return seen[0]


def stopped_at(backend: str, number: int, moment: Moment) -> list[str]:
    """What the first leader still wrote when it went on, after another one had taken over and worked."""
    want, _ = undisturbed(backend)
    objects = stage_of(backend).objects
    late: list[str] = []

    async def run(world: World) -> None:
        guard = Guard(world.cluster)
        first, second = Replica(world, "first"), Replica(world, "second")
        first.stop_at(number, moment)
        await play(world, backend, first, second)
        assert first.stopped.is_set()
        await finish(world, backend)
        assert await portrait(world, objects) == want
        first.go_on()
        assert isinstance(await first.end(), LeadershipLost)
        await world.settle()
        assert await portrait(world, objects) == want
        late.extend(f"{each.verb} {each.resource}" for each in first.late())
        assert [
            each for each in guard.broken if "create pods" not in late or "both live at" not in each
        ] == []
        await second.kill()

    run_world(run, options(backend), operator=False)
    return late


def test_the_story_is_short_enough_that_the_leader_is_stopped_at_every_write() -> None:
    _, writes = undisturbed("default")
    assert 40 < len(writes) <= MOST_WRITES


@pytest.mark.parametrize("number", range(1, MOST_WRITES + 1))
def test_a_leader_that_was_stopped_writes_nothing_when_it_goes_on(number: int) -> None:
    if number <= len(undisturbed("default")[1]):
        assert stopped_at("default", number, Moment.BEFORE_IT_IS_SENT) == []


@pytest.mark.parametrize("number", range(1, MOST_WRITES + 1))
def test_a_write_that_arrives_after_the_next_leader_worked_changes_nothing(number: int) -> None:
    if number <= len(undisturbed("default")[1]):
        assert stopped_at("default", number, Moment.ON_ITS_WAY) in HARMLESS


@pytest.mark.parametrize("backend", [name for name in BACKENDS if name != "default"])
def test_nor_does_it_with_other_schedulers(backend: str) -> None:
    """Only what is different for them: their objects and their gates."""
    objects = tuple(str(each) for each in stage_of(backend).objects)
    numbers = [
        number
        for number, each in enumerate(undisturbed(backend)[1], 1)
        if each.startswith(("pods", *objects))
    ]
    assert len(numbers) > 10
    for number in numbers:
        assert stopped_at(backend, number, Moment.ON_ITS_WAY) in (
            *HARMLESS,
            *([f"apply {each}"] for each in objects),
        )
