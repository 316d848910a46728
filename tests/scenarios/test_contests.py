"""Others write to objects of ours: what is theirs stays, what is ours is put back, ever less often."""

import asyncio

from tests.scenarios.stories import EVENTS

from grove.api import kinds, labels
from grove.errors import GroveError
from grove.meta import Key, Manifest, Resource
from grove.testing import make
from grove.testing.world import World, run_world


class Intruder:
    """Insists on a value, as another controller does: it looks twenty times a second."""

    def __init__(self, world: World, resource: Resource, name: str, patch: Manifest) -> None:
        self.world = world
        self.resource = resource
        self.key = Key("default", name)
        self.patch = patch
        self.rounds = 0

    async def insist(self, seconds: float) -> None:
        for _ in range(int(seconds / 0.05)):
            before = await self.world.get(self.resource, self.key.name)
            assert before is not None
            if not _says(before, self.patch):
                self.rounds += 1
                manifest = {
                    "apiVersion": self.resource.api_version,
                    "kind": self.resource.kind,
                    **self.patch,
                    "metadata": {
                        **self.patch.get("metadata", {}),
                        "name": self.key.name,
                        "namespace": "default",
                    },
                }
                try:
                    await self.world.user.apply(self.resource, manifest, field_manager="intruder", force=True)
                except GroveError as failure:
                    raise AssertionError(failure) from failure
            await asyncio.sleep(0.05)


def _says(manifest: Manifest, patch: Manifest) -> bool:
    return all(
        _says(manifest.get(name) or {}, value) if isinstance(value, dict) else manifest.get(name) == value
        for name, value in patch.items()
    )


def repairs(world: World, plural: str) -> int:
    """How often the operator changed objects of a kind, statuses aside."""
    return sum(
        entry.verb == "patch" and entry.resource == plural and entry.user == world.options.operator_user.name
        for entry in world.cluster.requests
    )


async def accepted(world: World) -> str:
    found = await world.get(kinds.CLIQUESETS, "train") or {}
    return next(str(each["message"]) for each in found["status"]["conditions"] if each["type"] == "Accepted")


def test_a_writer_with_a_label_of_its_own_meets_nobody() -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"w": 1}))
        await world.settle()
        before = world.writes()
        for resource, name in (
            (kinds.GANGS, "train-0"),
            (kinds.CLIQUES, "train-0-w"),
            (kinds.SERVICES, "train-0"),
        ):
            intruder = Intruder(world, resource, name, {"metadata": {"labels": {"team": "ml"}}})
            await intruder.insist(10)
            assert intruder.rounds == 1
        assert world.writes() == before

    run_world(story)


def test_a_writer_who_insists_on_a_label_of_ours_meets_longer_and_longer_pauses_and_is_named() -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"w": 1}))
        await world.settle()
        before = repairs(world, "podgangs.scheduler.grove.io")
        patch = {"metadata": {"labels": {labels.COMPONENT: "mine"}}}
        intruder = Intruder(world, kinds.GANGS, "train-0", patch)
        await intruder.insist(60)
        assert 5 <= repairs(world, "podgangs.scheduler.grove.io") - before <= 12
        sentence = f'metadata.labels[{labels.COMPONENT}] is repeatedly overwritten by "intruder"'
        assert sentence in await accepted(world)
        events = await world.all(EVENTS)
        told = [each for each in events if each["reason"] == "FieldContested"]
        assert [sentence in each["message"] for each in told] == [True]
        await asyncio.sleep(300)
        gang = await world.gang("train-0") or {}
        assert gang["metadata"]["labels"][labels.COMPONENT] == labels.COMPONENT_GANG
        assert "intruder" not in await accepted(world), "when it is over, nothing is left to say"

    run_world(story)


def test_a_writer_who_insists_on_a_field_of_a_service_is_named() -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"w": 1}))
        await world.settle()
        patch = {"spec": {"publishNotReadyAddresses": False}}
        intruder = Intruder(world, kinds.SERVICES, "train-0", patch)
        await intruder.insist(60)
        assert intruder.rounds <= 12
        assert 'Service train-0: spec.publishNotReadyAddresses is repeatedly overwritten by "intruder"' in (
            await accepted(world)
        )

    run_world(story)


def test_what_was_contested_of_a_replica_that_is_scaled_in_is_told_no_more() -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"w": 1}, replicas=2))
        await world.settle()
        patch = {"spec": {"publishNotReadyAddresses": False}}
        await Intruder(world, kinds.SERVICES, "train-1", patch).insist(60)
        assert "Service train-1: spec.publishNotReadyAddresses" in await accepted(world)
        await world.scale("train", 1)
        await world.settle(quiet=10)
        assert await world.get(kinds.SERVICES, "train-1") is None
        assert "train-1" not in await accepted(world)

    run_world(story)


def test_a_single_edit_is_put_back_at_once_and_not_called_contested() -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"w": 1}))
        await world.settle()
        patch = {"metadata": {"labels": {labels.COMPONENT: "mine"}}}
        await world.user.merge_patch(kinds.GANGS, Key("default", "train-0"), patch)

        async def mended() -> bool:
            gang = await world.gang("train-0") or {}
            return bool(gang["metadata"]["labels"][labels.COMPONENT] == labels.COMPONENT_GANG)

        await world.until(mended, "the label is put back", seconds=0.5)
        assert "repeatedly overwritten" not in await accepted(world)

    run_world(story)
