"""Informers that come and go with what is wanted, and that nobody waits for."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from tests.controllers.steps import Steps, run_steps

from grove.controllers.schedulers.watches import Watches
from grove.kube.client import Client
from grove.kube.limiter import Limiter
from grove.meta import Key, Object, resource
from grove.runtime.informer import Informer

CONFIGMAPS = resource("", "v1", "ConfigMap")
SOON = 0.5


class Wanted:
    """Watches of the config maps of single namespaces, and for which an informer was made."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.made: list[str] = []
        self.watches: Watches[str, Object] = Watches("testing", self._make)
        self._client = Client(steps.transport, limiter=Limiter.off())

    def _make(self, namespace: str) -> Informer[Object]:
        self.made.append(namespace)
        return Informer(self._client, CONFIGMAPS, Object, namespace=namespace)

    def known(self, namespace: str) -> list[str]:
        return names(self.watches[namespace])

    async def add(self, name: str, namespace: str) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}}
        await self.steps.world.user.create(CONFIGMAPS, body, type=dict)
        await asyncio.sleep(SOON)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.watches.run())
        await asyncio.sleep(SOON)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})


def names(informer: Informer[Object]) -> list[str]:
    return sorted(each.name for each in informer.store)


def play(story: Callable[[Wanted], Awaitable[None]]) -> None:
    async def main(steps: Steps) -> None:
        await story(Wanted(steps))

    run_steps(main)


def test_what_was_wanted_before_is_watched_once_it_runs_and_not_earlier() -> None:
    async def story(wanted: Wanted) -> None:
        wanted.watches.want({"default"})
        await wanted.add("a", "default")
        assert not wanted.watches["default"].synced.is_set()
        async with wanted.running():
            assert wanted.known("default") == ["a"]
            await wanted.add("b", "default")
            assert wanted.known("default") == ["a", "b"]

    play(story)


def test_what_is_wanted_meanwhile_is_watched_at_once() -> None:
    async def story(wanted: Wanted) -> None:
        async with wanted.running():
            wanted.watches.want({"default"})
            await wanted.add("a", "default")
            assert wanted.known("default") == ["a"]

    play(story)


def test_one_that_is_still_wanted_is_kept_with_what_it_knows() -> None:
    async def story(wanted: Wanted) -> None:
        wanted.watches.want({"default"})
        async with wanted.running():
            before = wanted.watches["default"]
            wanted.watches.want({"kube-system", "default"})
            assert wanted.watches["default"] is before
            await wanted.add("a", "default")
            assert names(before) == ["a"]
        assert wanted.made == ["default", "kube-system"]

    play(story)


def test_informers_are_made_in_the_same_order_every_time() -> None:
    async def story(wanted: Wanted) -> None:
        wanted.watches.want(["default", "kube-system", "a", "c", "b"])
        assert wanted.made == ["a", "b", "c", "default", "kube-system"]

    play(story)


def test_one_that_is_not_wanted_any_more_is_gone_and_learns_nothing_more() -> None:
    async def story(wanted: Wanted) -> None:
        wanted.watches.want({"default", "kube-system"})
        async with wanted.running():
            dropped = wanted.watches["kube-system"]
            wanted.watches.want({"default"})
            await asyncio.sleep(SOON)
            await wanted.add("a", "kube-system")
            await wanted.add("a", "default")
            assert (names(dropped), wanted.known("default")) == ([], ["a"])
            with pytest.raises(KeyError):
                wanted.watches["kube-system"]

    play(story)


def test_one_that_is_wanted_again_is_listed_anew() -> None:
    async def story(wanted: Wanted) -> None:
        await wanted.add("a", "default")
        wanted.watches.want({"default"})
        async with wanted.running():
            wanted.watches.want(())
            await asyncio.sleep(SOON)
            await wanted.steps.world.user.delete(CONFIGMAPS, Key("default", "a"))
            wanted.watches.want({"default"})
            await wanted.add("b", "default")
            assert wanted.known("default") == ["b"]

    play(story)


def test_one_that_may_not_be_read_holds_up_no_other() -> None:
    async def story(wanted: Wanted) -> None:
        wanted.steps.forbid("GET", "/kube-system/configmaps")
        wanted.watches.want({"default", "kube-system"})
        async with wanted.running():
            await wanted.add("a", "default")
            assert wanted.known("default") == ["a"]
            assert not wanted.watches["kube-system"].synced.is_set()

    play(story)


def test_nothing_is_watched_any_more_once_it_stopped_until_it_runs_again() -> None:
    async def story(wanted: Wanted) -> None:
        wanted.watches.want({"default"})
        async with wanted.running():
            pass
        await wanted.add("a", "default")
        assert wanted.known("default") == []
        wanted.watches.want({"default", "kube-system"})
        await wanted.add("a", "kube-system")
        assert not wanted.watches["kube-system"].synced.is_set()
        async with wanted.running():
            assert (wanted.known("default"), wanted.known("kube-system")) == (["a"], ["a"])

    play(story)


def test_every_watch_says_in_the_list_of_tasks_what_it_is() -> None:
    async def story(wanted: Wanted) -> None:
        wanted.watches.want({"default"})
        async with wanted.running():
            assert "testing configmaps" in {task.get_name() for task in asyncio.all_tasks()}

    play(story)
