"""The operator with one more kind of children: one row in a table, and no other code."""

import pytest
from tests.plan.test_rows import CONFIG_MAPS, ConfigMaps

from grove.meta import Key, Manifest
from grove.plan.children import registry
from grove.testing import make
from grove.testing.world import World, run_world


@pytest.fixture
def further_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more kind in the table; informers and wake-ups follow from it."""
    monkeypatch.setattr(registry, "KINDS", (*registry.KINDS, ConfigMaps))


async def stored(world: World) -> dict[str, Manifest]:
    found = {item["metadata"]["name"]: item for item in await world.all(CONFIG_MAPS)}
    return {name: item for name, item in found.items() if name.startswith("train-")}


@pytest.mark.usefixtures("further_kind")
def test_the_operator_creates_repairs_and_removes_children_of_a_kind_that_it_has_never_heard_of() -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"w": 2}, replicas=2))
        await world.settle()
        first = await stored(world)
        assert {name: item["data"] for name, item in first.items()} == {
            "train-0-roles": {"w": "2"},
            "train-1-roles": {"w": "2"},
        }
        gang = await world.gang("train-0") or {}
        (owner,) = first["train-0-roles"]["metadata"]["ownerReferences"]
        assert owner["uid"] == gang["metadata"]["uid"]

        theirs = {"data": {"w": "9", "others": "stay"}}
        await world.user.merge_patch(CONFIG_MAPS, Key("default", "train-0-roles"), theirs)
        await world.user.delete(CONFIG_MAPS, Key("default", "train-1-roles"))
        await world.settle()
        second = await stored(world)
        assert second["train-0-roles"]["data"] == {"w": "2", "others": "stay"}
        assert second["train-1-roles"]["metadata"]["uid"] != first["train-1-roles"]["metadata"]["uid"]

        await world.scale("train", 1)
        await world.settle()
        assert set(await stored(world)) == {"train-0-roles"}

    run_world(story)
