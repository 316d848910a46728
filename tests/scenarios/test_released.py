"""What an operator remembers of an object is released when the object is gone."""

import asyncio
import functools
import types
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from typing import Final

import pytest

from grove.api import kinds, labels
from grove.assembly import Operator
from grove.meta import Key
from grove.runtime.events import Recorder
from grove.testing import make
from grove.testing.memory import MemoryTransport
from grove.testing.world import World, WorldOptions, run_world

#: In the name of everything that comes and goes here, and of nothing else.
MARK: Final = "fleeting"
#: Bounded by construction: the last few thousand pieces of news, so that the same news is not told twice.
#: And behind the transport is the cluster itself.
NOT_ENTERED: Final = (Recorder, MemoryTransport)


def remembered(root: object, uids: Collection[str]) -> Iterator[str]:
    """Where a name with the mark or one of the UIDs is found, as paths of attributes from the root."""
    seen: set[int] = set()
    todo: deque[tuple[str, object]] = deque([("operator", root)])
    while todo:
        path, item = todo.popleft()
        if isinstance(item, str):
            if MARK in item or item in uids:
                yield f"{path} = {item!r}"
            continue
        if id(item) in seen or isinstance(item, NOT_ENTERED):
            continue
        seen.add(id(item))
        todo.extend((f"{path}{step}", inner) for step, inner in _inside(item))


def _inside(item: object) -> Iterator[tuple[str, object]]:
    if isinstance(item, Mapping):
        for key, value in list(item.items()):
            yield "[key]", key
            yield f"[{str(key)[:60]}]", value
    elif isinstance(item, (list, tuple, set, frozenset, deque)):
        yield from (("[]", inner) for inner in list(item))
    elif isinstance(item, types.MethodType):
        yield "", item.__self__
    elif isinstance(item, functools.partial):
        yield "", item.func
        yield "", item.args
    elif isinstance(item, types.FunctionType):
        for cell in item.__closure__ or ():
            yield "", cell.cell_contents
    elif type(item).__module__.startswith("grove."):
        names = [name for kind in type(item).__mro__ for name in getattr(kind, "__slots__", ())]
        for name in (*names, *getattr(item, "__dict__", {})):
            if hasattr(item, name):
                yield f".{name}", getattr(item, name)


async def uids_of(world: World) -> set[str]:
    """Of everything that is there now, and the walk finds it."""
    resources = (kinds.CLIQUESETS, kinds.CLIQUES, kinds.GANGS, kinds.PODS)
    uids = {each["metadata"]["uid"] for resource in resources for each in await world.all(resource)}
    assert list(remembered(world.operator, uids))
    return uids


def assert_released(operator: Operator | None, uids: Collection[str]) -> None:
    assert operator is not None
    found = sorted(set(remembered(operator, uids)))
    assert found == [], "\n".join(found[:40])


@pytest.mark.parametrize("backend", ["default", "kai"])
def test_nothing_is_remembered_of_twenty_sets_that_came_and_went(backend: str) -> None:
    async def story(world: World) -> None:
        marks = {labels.SCHEDULER_BACKEND: backend}
        for number in range(20):
            await world.apply(
                make.cliqueset_manifest(
                    f"{MARK}-{number}", {"a": 1, "b": 1}, replicas=2, annotations=marks if number else {}
                )
            )
        await world.settle()
        uids = await uids_of(world)
        for number in range(20):
            await world.user.delete(kinds.CLIQUESETS, Key("default", f"{MARK}-{number}"))
        await world.settle()
        assert await world.pods() == []
        assert_released(world.operator, uids)

    run_world(story, WorldOptions(schedulers=("kai",) if backend == "kai" else (), nodes=20))


def test_nothing_is_remembered_of_sets_that_are_deleted_while_they_come_up() -> None:
    async def story(world: World) -> None:
        for number in range(20):
            await world.apply(make.cliqueset_manifest(f"{MARK}-{number}", {"w": 3}, replicas=2))
        await asyncio.sleep(0.05)
        uids = await uids_of(world)
        for number in range(20):
            await world.user.delete(kinds.CLIQUESETS, Key("default", f"{MARK}-{number}"))
        await world.settle(quiet=40)
        assert_released(world.operator, uids)

    run_world(story)


def test_nothing_is_remembered_of_gangs_and_pods_of_somebody_else() -> None:
    async def story(world: World) -> None:
        for number in range(3):
            name = f"{MARK}-{number}"
            await world.apply(make.gang_manifest(name, {f"{name}-w": 1}))
            pod = make.pod_manifest(f"{name}-w", 0, name=f"{name}-p")
            pod["metadata"]["labels"] = {labels.POD_GANG: name, labels.POD_CLIQUE: f"{name}-w"}
            pod.pop("status", None)
            await world.user.create(kinds.PODS, pod)
        await world.settle()
        uids = await uids_of(world)
        for number in range(3):
            await world.user.delete(kinds.GANGS, Key("default", f"{MARK}-{number}"))
            await world.user.delete(kinds.PODS, Key("default", f"{MARK}-{number}-p"))
        await world.settle()
        assert_released(world.operator, uids)

    run_world(story)
