"""What backends see of objects that others make, and which of their changes they are told of."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from tests.controllers.steps import Steps, run_steps

from grove.backends.base import ObservedResource
from grove.controllers.schedulers.observation import GATHER_SECONDS, Observation
from grove.kube.client import Client
from grove.kube.limiter import Limiter
from grove.meta import Key, Manifest, Resource, resource
from grove.testing.virtual_time import virtual_clock

CONFIGMAPS = resource("", "v1", "ConfigMap")
NODES = resource("", "v1", "Node", namespaced=False)
#: Long enough for a watch to show a change, and too short for it to be told.
SEEN = GATHER_SECONDS / 5
#: Long enough for it to be told.
TOLD = GATHER_SECONDS * 2
ALL = ObservedResource(CONFIGMAPS, namespace="default")
SETTINGS = ObservedResource(CONFIGMAPS, namespace="kube-system", name="settings")


class Observed:
    """An observation, and who was told."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.user = steps.world.user
        client = Client(steps.transport, limiter=Limiter.off())
        self.observation = Observation(client, virtual_clock(), random.Random(0))
        self.observation.changed.append(lambda name: self._told.append(name))
        self._told: list[str] = []

    async def told(self) -> list[str]:
        """Which backends were told since this was last asked."""
        await asyncio.sleep(TOLD)
        told, self._told = self._told, []
        return told

    def names(self, backend: str) -> dict[Resource, list[str]]:
        """The names of the objects that a backend sees, in the order in which it sees them."""
        return {
            each: [item["metadata"]["name"] for item in found]
            for each, found in self.observation.of(backend).items()
        }

    async def add(self, name: str, namespace: str = "default", **fields: object) -> None:
        metadata = {"name": name, "namespace": namespace}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **fields}
        await self.user.create(CONFIGMAPS, body, type=dict)

    async def patch(self, name: str, patch: Manifest) -> None:
        await self.user.merge_patch(CONFIGMAPS, Key("default", name), patch)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.observation.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})


def play(story: Callable[[Observed], Awaitable[None]]) -> None:
    async def main(steps: Steps) -> None:
        observed = Observed(steps)
        async with observed.running():
            await story(observed)

    run_steps(main)


# What is seen -------------------------------------------------------------------------------------------


def test_a_backend_that_wants_nothing_sees_nothing() -> None:
    async def story(observed: Observed) -> None:
        observed.observation.want({"a": [ALL], "b": []})
        assert await observed.told() == ["a"]
        assert (observed.names("b"), observed.names("unheard of")) == ({}, {})

    play(story)


def test_a_kind_is_unknown_until_it_was_listed_and_that_there_is_none_is_known_and_told() -> None:
    async def story(observed: Observed) -> None:
        observed.observation.want({"a": [ALL]})
        assert observed.names("a") == {}
        assert await observed.told() == ["a"]
        assert observed.names("a") == {CONFIGMAPS: []}

    play(story)


def test_one_that_may_not_be_read_stays_unknown_beside_the_others() -> None:
    async def story(observed: Observed) -> None:
        observed.steps.forbid("GET", "/nodes")
        await observed.add("x")
        observed.observation.want({"a": [ObservedResource(NODES), ALL], "b": [ObservedResource(NODES)]})
        assert await observed.told() == ["a"], "to the other nothing became known"
        assert (observed.names("a"), observed.names("b")) == ({CONFIGMAPS: ["x"]}, {})

    play(story)


def test_objects_are_seen_whole_and_in_the_order_of_their_names() -> None:
    async def story(observed: Observed) -> None:
        for name in ("c", "a", "b"):
            await observed.add(name, data={"is": name})
        observed.observation.want({"a": [ALL]})
        await observed.told()
        found = observed.observation.of("a")[CONFIGMAPS]
        assert [each["data"]["is"] for each in found] == ["a", "b", "c"]

    play(story)


def test_only_the_namespace_and_the_name_that_were_asked_for_are_seen() -> None:
    async def story(observed: Observed) -> None:
        for name in ("settings", "others"):
            for namespace in ("default", "kube-system"):
                await observed.add(name, namespace)
        observed.observation.want({"one": [SETTINGS], "all": [ALL], "both": [ALL, SETTINGS]})
        await observed.told()
        assert observed.names("one") == {CONFIGMAPS: ["settings"]}
        (found,) = observed.observation.of("one")[CONFIGMAPS]
        assert found["metadata"]["namespace"] == "kube-system"
        assert observed.names("all") == {CONFIGMAPS: ["others", "settings"]}
        assert observed.names("both") == {CONFIGMAPS: ["others", "settings", "settings"]}

    play(story)


def test_a_change_is_seen_at_once_and_told_a_moment_later() -> None:
    async def story(observed: Observed) -> None:
        observed.observation.want({"a": [ALL]})
        await observed.told()
        assert observed.names("a") == {CONFIGMAPS: []}
        await observed.add("x")
        await asyncio.sleep(SEEN)
        assert observed.names("a") == {CONFIGMAPS: ["x"]}
        assert observed._told == []
        assert await observed.told() == ["a"]

    play(story)


def test_while_nothing_changes_the_same_value_is_answered() -> None:
    async def story(observed: Observed) -> None:
        observed.observation.want({"a": [ALL]})
        await observed.told()
        assert observed.observation.of("a") is observed.observation.of("a")

    play(story)


def test_what_is_wanted_otherwise_from_now_on_is_seen_otherwise() -> None:
    async def story(observed: Observed) -> None:
        await observed.add("x")
        await observed.add("settings", "kube-system")
        observed.observation.want({"a": [ALL], "b": [ALL]})
        await observed.told()
        assert observed.names("a") == observed.names("b") == {CONFIGMAPS: ["x"]}
        observed.observation.want({"a": [SETTINGS], "b": [ALL]})
        assert (observed.names("a"), observed.names("b")) == ({}, {CONFIGMAPS: ["x"]})
        assert await observed.told() == ["a"]
        assert observed.names("a") == {CONFIGMAPS: ["settings"]}
        observed.observation.want({"b": [ALL]})
        await observed.user.delete(CONFIGMAPS, Key("kube-system", "settings"))
        assert await observed.told() == []
        assert observed.names("a") == {}

    play(story)


# Who is told --------------------------------------------------------------------------------------------


def test_only_backends_that_want_the_kind_are_told() -> None:
    async def story(observed: Observed) -> None:
        observed.observation.want({"a": [ALL], "b": [SETTINGS], "c": [SETTINGS, ALL]})
        assert sorted(await observed.told()) == ["a", "b", "c"]
        await observed.add("x")
        assert sorted(await observed.told()) == ["a", "c"]

    play(story)


def test_everybody_who_listens_is_told() -> None:
    async def story(observed: Observed) -> None:
        others: list[str] = []
        observed.observation.changed.append(others.append)
        observed.observation.want({"a": [ALL]})
        assert await observed.told() == others == ["a"]

    play(story)


def test_changes_of_one_moment_are_told_once_and_those_of_the_next_again() -> None:
    async def story(observed: Observed) -> None:
        observed.observation.want({"a": [ALL]})
        await observed.told()
        for name in ("x", "y", "z"):
            await observed.add(name)
            await asyncio.sleep(SEEN)
        assert await observed.told() == ["a"]
        await observed.user.delete(CONFIGMAPS, Key("default", "x"))
        assert await observed.told() == ["a"]

    play(story)


def test_what_is_taken_back_within_a_moment_is_not_told() -> None:
    async def story(observed: Observed) -> None:
        await observed.add("x", data={"is": "one"})
        observed.observation.want({"a": [ALL]})
        await observed.told()
        await observed.patch("x", {"data": {"is": "two"}})
        await asyncio.sleep(SEEN)
        await observed.patch("x", {"data": {"is": "one"}})
        assert await observed.told() == []

    play(story)


def test_labels_and_annotations_are_told_and_other_metadata_is_not() -> None:
    async def story(observed: Observed) -> None:
        await observed.add("x")
        observed.observation.want({"a": [ALL]})
        await observed.told()
        await observed.patch("x", {"metadata": {"labels": {"tier": "one"}}})
        assert await observed.told() == ["a"]
        await observed.patch("x", {"metadata": {"annotations": {"note": "one"}}})
        assert await observed.told() == ["a"]
        await observed.patch("x", {"metadata": {"finalizers": ["example.com/keep"]}})
        assert await observed.told() == []

    play(story)


def test_one_that_takes_the_place_of_another_is_told_also_if_it_is_alike() -> None:
    async def story(observed: Observed) -> None:
        await observed.add("x")
        observed.observation.want({"a": [ALL]})
        await observed.told()
        await observed.user.delete(CONFIGMAPS, Key("default", "x"))
        await observed.add("y")
        assert await observed.told() == ["a"]

    play(story)


async def allocate(observed: Observed, pods: str) -> None:
    """Write the status of a node, as its kubelet does."""
    status = {"status": {"capacity": {"pods": pods}}}
    await observed.user.merge_patch(NODES, Key("", "extra"), status, subresource="status")


def test_a_status_is_told_only_where_the_backend_concludes_something_else_from_it() -> None:
    async def story(observed: Observed) -> None:
        def large(backend: str) -> bool:
            (node,) = observed.observation.of(backend)[NODES]
            return int((node.get("status") or {}).get("capacity", {}).get("pods", "0")) > 100

        observed.observation.concluding(large)
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "extra"}}
        await observed.user.create(NODES, body, type=dict)
        observed.observation.want({"a": [ObservedResource(NODES, name="extra")]})
        await observed.told()
        await allocate(observed, "50")
        assert await observed.told() == []
        await allocate(observed, "500")
        assert await observed.told() == ["a"]
        await allocate(observed, "600")
        assert await observed.told() == []

    play(story)


def test_nobody_is_told_once_it_stopped() -> None:
    async def main(steps: Steps) -> None:
        observed = Observed(steps)
        async with observed.running():
            observed.observation.want({"a": [ALL]})
            await asyncio.sleep(SEEN)
            await observed.add("x")
            await asyncio.sleep(SEEN)
            assert observed.names("a") == {CONFIGMAPS: ["x"]}
        assert await observed.told() == []

    run_steps(main)


def test_what_happened_meanwhile_is_told_when_it_runs_again() -> None:
    async def main(steps: Steps) -> None:
        observed = Observed(steps)
        observed.observation.want({"a": [ALL]})
        async with observed.running():
            await asyncio.sleep(SEEN)
        await observed.add("x")
        async with observed.running():
            assert await observed.told() == ["a"]
            assert observed.names("a") == {CONFIGMAPS: ["x"]}

    run_steps(main)
