"""How changes are carried out on an API server: what exists already, is gone, changed or is somebody else's."""

from collections.abc import Awaitable, Callable

import pytest

from grove.api import kinds, labels
from grove.controllers.apply import NO_BARRIER, Applied, Applier, NameTaken, failures_text
from grove.errors import Conflict, GroveError, Invalid, OwnershipConflict
from grove.meta import Key, Manifest, Resource, resource
from grove.plan.changes import Apply, Change, Create, Delete, JsonPatch, Patch
from grove.testing import make
from grove.testing.world import World, run_world

SERVICE = Key("default", "train-0")
CONFIG_MAPS = resource("", "v1", "ConfigMap")
CONFIG = Key("default", "settings")
#: Owns what is ours: what has no living owner is collected.
OWNER = Key("default", "owner")


def service(owner: Manifest, **marks: str) -> Manifest:
    manifest = make.object_manifest(kinds.SERVICES, SERVICE.name, {"clusterIP": "None"}, labels=marks)
    manifest["metadata"].pop("uid")
    manifest["metadata"]["ownerReferences"] = [owner]
    return manifest


def config(value: str, name: str = CONFIG.name, owner: Manifest | None = None) -> Manifest:
    metadata = {"name": name, "namespace": "default", "ownerReferences": [owner] if owner else []}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": value}}


async def reference(world: World, name: str = OWNER.name) -> Manifest:
    """A living object of this name, as the controlling owner of others."""
    made = await world.user.create(CONFIG_MAPS, config("", name), type=dict)
    uid = made["metadata"]["uid"]
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "controller": True}


async def apply(world: World, *changes: Change) -> Applied:
    return await Applier(world.user).apply(changes, barrier=NO_BARRIER, key=OWNER)


async def stored(world: World, what: Resource, key: Key) -> Manifest:
    return await world.user.get(what, key, type=dict)


def on_a_server(story: Callable[[World], Awaitable[None]]) -> None:
    run_world(story, operator=False)


def failure(applied: Applied) -> GroveError:
    ((_, found),) = applied.failures
    return found


def test_an_object_that_we_created_before_is_ours_and_gets_a_lost_label_back() -> None:
    async def story(world: World) -> None:
        owner = await reference(world)
        await apply(world, Create(kinds.SERVICES, service(owner)))
        applied = await apply(world, Create(kinds.SERVICES, service(owner, **{labels.PART_OF: "train"})))
        assert applied.failures == []
        there = await stored(world, kinds.SERVICES, SERVICE)
        assert there["metadata"]["labels"] == {labels.PART_OF: "train"}

    on_a_server(story)


def test_an_object_of_somebody_else_keeps_its_name_and_is_not_touched() -> None:
    async def story(world: World) -> None:
        theirs = await reference(world, "stranger")
        await world.user.create(kinds.SERVICES, service(theirs, theirs="yes"), type=dict)
        before = await stored(world, kinds.SERVICES, SERVICE)
        applied = await apply(world, Create(kinds.SERVICES, service(await reference(world), ours="yes")))
        assert isinstance(failure(applied), NameTaken)
        assert "already exists and belongs to ConfigMap stranger" in str(failure(applied))
        assert await stored(world, kinds.SERVICES, SERVICE) == before

    on_a_server(story)


def test_a_namesake_of_what_was_to_be_deleted_stays() -> None:
    async def story(world: World) -> None:
        await apply(world, Create(kinds.SERVICES, service(await reference(world))))
        applied = await apply(world, Delete(kinds.SERVICES, SERVICE, "uid-of-an-earlier-one"))
        assert applied.failures == []
        assert await stored(world, kinds.SERVICES, SERVICE)

    on_a_server(story)


def test_what_changed_since_it_was_observed_is_neither_patched_nor_deleted() -> None:
    async def story(world: World) -> None:
        await apply(world, Create(kinds.SERVICES, service(await reference(world))))
        metadata = (await stored(world, kinds.SERVICES, SERVICE))["metadata"]
        await world.user.merge_patch(kinds.SERVICES, SERVICE, {"metadata": {"labels": {"touched": "yes"}}})
        version = metadata["resourceVersion"]
        patch = {"metadata": {"labels": {"ours": "yes"}}}
        for change in (
            Patch(kinds.SERVICES, SERVICE, patch, resource_version=version),
            Delete(kinds.SERVICES, SERVICE, metadata["uid"], resource_version=version),
            JsonPatch(
                kinds.SERVICES,
                SERVICE,
                ({"op": "test", "path": "/metadata/labels", "value": {}},),
                uid=metadata["uid"],
            ),
        ):
            applied = await apply(world, change)
            assert isinstance(failure(applied), Conflict)
            assert applied.refusals == [], "a race is simply tried again"
        assert (await stored(world, kinds.SERVICES, SERVICE))["metadata"]["labels"] == {"touched": "yes"}

    on_a_server(story)


def test_a_patch_of_what_is_gone_is_no_failure_and_writes_nothing() -> None:
    async def story(world: World) -> None:
        applied = await apply(world, Patch(kinds.SERVICES, SERVICE, {"metadata": {"labels": {"a": "b"}}}))
        assert (applied.failures, applied.versions) == ([], {})

    on_a_server(story)


@pytest.mark.parametrize(("manager", "mended"), [("kubectl-edit", True), ("another-controller", False)])
def test_a_field_that_a_person_took_is_taken_back_and_one_of_a_controller_is_not(
    manager: str, mended: bool
) -> None:
    async def story(world: World) -> None:
        ours = config("ours", owner=await reference(world))
        await apply(world, Apply(CONFIG_MAPS, ours))
        await world.user.apply(CONFIG_MAPS, config("theirs"), field_manager=manager, force=True)
        there = (await stored(world, CONFIG_MAPS, CONFIG))["metadata"]
        change = Apply(
            CONFIG_MAPS, config("ours"), uid=there["uid"], resource_version=there["resourceVersion"]
        )
        applied = await apply(world, change)
        assert [type(found) for _, found in applied.failures] == ([] if mended else [OwnershipConflict])
        assert (await stored(world, CONFIG_MAPS, CONFIG))["data"]["key"] == ("ours" if mended else "theirs")

    on_a_server(story)


def test_the_first_failure_stops_what_has_not_begun() -> None:
    async def story(world: World) -> None:
        bad = {**service(await reference(world)), "spec": {"clusterIP": "None", "ports": [{"port": -1}]}}
        many = [Create(CONFIG_MAPS, config("x", f"c{number}")) for number in range(500)]
        applied = await apply(world, Create(kinds.SERVICES, bad), *many)
        assert isinstance(failure(applied), Invalid)
        assert len(applied.done) < len(many)
        assert applied.count(Create, CONFIG_MAPS) == len(await world.all(CONFIG_MAPS)) - 1

    on_a_server(story)


def test_changes_that_do_not_depend_on_one_another_are_all_tried() -> None:
    async def story(world: World) -> None:
        for number in range(100):
            await world.user.create(CONFIG_MAPS, config("x", f"c{number}"))
        missed = Delete(CONFIG_MAPS, Key("default", "c0"), "", resource_version="1")
        others = [Delete(CONFIG_MAPS, Key("default", f"c{number}"), "") for number in range(1, 100)]
        applier = Applier(world.user)
        applied = await applier.apply([missed, *others], barrier=NO_BARRIER, key=CONFIG, to_the_end=True)
        assert isinstance(failure(applied), Conflict)
        assert len(applied.done) == len(others)
        assert await world.get(CONFIG_MAPS, "c0") is not None
        assert await world.get(CONFIG_MAPS, "c99") is None

    on_a_server(story)


def test_refusals_that_differ_in_the_name_alone_are_told_once() -> None:
    refused = [
        (Delete(kinds.PODS, Key("default", name), ""), Invalid(f'Pod "{name}" is invalid: no image'))
        for name in ("train-2", "train-1", "train-3")
    ]
    assert failures_text(refused) == 'Pod "train-1" is invalid: no image (2 more Pods alike)'
