"""When it is told that the cluster is about to serve something else."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from tests.controllers.steps import Steps, run_steps

from grove.api.crd import definitions
from grove.controllers.schedulers.definitions import Definitions
from grove.controllers.schedulers.scheduling import CRDS
from grove.kube.client import Client
from grove.kube.limiter import Limiter
from grove.meta import Key, Manifest
from grove.testing.virtual_time import virtual_clock

SOON = 1.0
NAME = "queues.example.com"


def definition() -> Manifest:
    """Of a kind that the cluster does not serve yet."""
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "queues", "singular": "queue", "kind": "Queue", "listKind": "QueueList"},
        "versions": [version],
    }
    metadata = {"name": NAME}
    return {"apiVersion": CRDS.api_version, "kind": CRDS.kind, "metadata": metadata, "spec": spec}


class Listener:
    """The watch, and how often it told."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.user = steps.world.user
        self._times = 0
        client = Client(steps.transport, limiter=Limiter.off())
        self.definitions = Definitions(client, virtual_clock(), random.Random(0), changed=self._told)

    def _told(self) -> None:
        self._times += 1

    async def told(self) -> int:
        """How often, since this was last asked."""
        await asyncio.sleep(SOON)
        times, self._times = self._times, 0
        return times

    async def patch(self, patch: Manifest, **more: Any) -> None:
        await self.user.merge_patch(CRDS, Key("", NAME), patch, **more)


def play(story: Callable[[Listener], Awaitable[None]]) -> None:
    async def main(steps: Steps) -> None:
        listener = Listener(steps)
        task = asyncio.create_task(listener.definitions.run())
        try:
            await story(listener)
        finally:
            task.cancel()
            await asyncio.wait({task})

    run_steps(main)


def test_what_is_there_at_the_start_is_no_news() -> None:
    async def story(listener: Listener) -> None:
        assert len(definitions()) > 1
        assert await listener.told() == 0

    play(story)


def test_a_definition_that_is_installed_is_told() -> None:
    async def story(listener: Listener) -> None:
        await listener.told()
        await listener.user.create(CRDS, definition())
        assert await listener.told() == 1

    play(story)


def test_one_that_is_removed_is_told_when_it_begins_to_go_and_when_it_is_gone() -> None:
    async def story(listener: Listener) -> None:
        await listener.user.create(CRDS, definition())
        await listener.patch({"metadata": {"finalizers": ["example.com/keep"]}})
        await listener.told()
        await listener.user.delete(CRDS, Key("", NAME))
        assert await listener.told() == 1
        await listener.patch({"metadata": {"finalizers": None}})
        assert await listener.told() == 1

    play(story)


def test_one_that_changes_is_told() -> None:
    async def story(listener: Listener) -> None:
        await listener.user.create(CRDS, definition())
        await listener.told()
        await listener.patch({"spec": {"names": {"shortNames": ["q"]}}})
        assert await listener.told() == 1

    play(story)


def test_metadata_and_status_alone_are_not_told() -> None:
    async def story(listener: Listener) -> None:
        await listener.user.create(CRDS, definition())
        await listener.told()
        await listener.patch({"metadata": {"annotations": {"example.com/by": "somebody"}}})
        condition = {"type": "Example", "status": "True", "reason": "", "message": ""}
        condition["lastTransitionTime"] = "2030-01-01T00:00:00Z"
        await listener.patch({"status": {"conditions": [condition]}}, subresource="status")
        assert await listener.told() == 0

    play(story)


def test_where_they_may_not_be_read_nobody_is_told_and_it_is_tried_again() -> None:
    async def story(listener: Listener) -> None:
        listener.steps.forbid("GET", "/customresourcedefinitions")
        await asyncio.sleep(120)
        assert await listener.told() == 0
        listener.steps.transport.forbidden.clear()
        await asyncio.sleep(60)
        assert await listener.told() == 0, "the first list is the start, however late it comes"
        await listener.user.create(CRDS, definition())
        assert await listener.told() == 1

    play(story)
