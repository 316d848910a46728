"""Slots for requests: bounded in all, shared between namespaces."""

import asyncio

from grove.runtime.slots import Slots
from grove.testing.virtual_time import run_virtual, virtual_loop


class Scene:
    """Requests that take a second each; remembers in which order they began, and when they ended."""

    def __init__(self, size: int = 8, least: int = 2) -> None:
        self.slots = Slots(size, least=least)
        self.began: list[str] = []
        self.ended: dict[str, list[float]] = {}
        self.under_way: dict[str, int] = {}
        self.tasks: list[asyncio.Task[None]] = []

    def ask(self, namespace: str, times: int = 1) -> None:
        self.tasks += [asyncio.create_task(self._request(namespace)) for _ in range(times)]

    async def _request(self, namespace: str) -> None:
        async with self.slots.of(namespace):
            self.began.append(namespace)
            self.under_way[namespace] = self.under_way.get(namespace, 0) + 1
            await asyncio.sleep(1)
            self.under_way[namespace] -= 1
        self.ended.setdefault(namespace, []).append(round(virtual_loop().time(), 3))


def test_a_namespace_that_is_alone_has_all_slots() -> None:
    async def main() -> None:
        scene = Scene()
        scene.ask("a", 20)
        await asyncio.sleep(0.5)
        assert scene.under_way == {"a": 8}
        await asyncio.gather(*scene.tasks)
        assert max(scene.ended["a"]) == 3.0

    run_virtual(main)


def test_a_single_write_does_not_wait_for_three_hundred_of_another_namespace() -> None:
    async def main() -> None:
        scene = Scene()
        scene.ask("large", 300)
        await asyncio.sleep(0.5)
        scene.ask("small")
        await asyncio.gather(*scene.tasks)
        assert scene.ended["small"] == [2.0], "the first slot that became free was its own"
        assert max(scene.ended["large"]) > 35

    run_virtual(main)


def test_slots_are_shared_equally_while_several_namespaces_write() -> None:
    async def main() -> None:
        scene = Scene()
        for namespace in ("a", "b", "c", "d"):
            scene.ask(namespace, 50)
        await asyncio.sleep(1.5)
        assert scene.under_way == {"a": 2, "b": 2, "c": 2, "d": 2}

    run_virtual(main)


def test_a_namespace_keeps_its_share_free_for_a_moment_after_its_last_write() -> None:
    async def main() -> None:
        scene = Scene()
        scene.ask("small")
        await asyncio.sleep(1.1)
        scene.ask("large", 40)
        await asyncio.sleep(0.2)
        assert scene.under_way["large"] == 8, "nobody else wrote lately"
        scene.ask("small")
        await asyncio.sleep(1.2)
        assert scene.under_way["large"] == 2
        await asyncio.sleep(3.5)
        assert scene.under_way["large"] == 8

    run_virtual(main)


def test_whoever_is_cancelled_leaves_no_slot_behind() -> None:
    async def main() -> None:
        scene = Scene(size=2)
        scene.ask("a", 6)
        await asyncio.sleep(0.5)
        for task in scene.tasks:
            task.cancel()
        await asyncio.gather(*scene.tasks, return_exceptions=True)
        scene.tasks.clear()
        scene.ask("b", 2)
        await asyncio.gather(*scene.tasks)
        assert scene.ended["b"] == [1.5, 1.5]

    run_virtual(main)
