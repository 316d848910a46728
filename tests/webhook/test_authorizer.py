"""Nobody but the operator and named accounts edits what belongs to a set."""

import copy
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from tests.scenarios.stories import until_running
from tests.webhook.asking import Told, Webhooks, review

from grove.api import kinds, labels
from grove.api.config import Authorizer, load
from grove.meta import Key, Manifest, Resource
from grove.testing import make
from grove.testing.world import CONFIGURATION, OPERATOR, World, WorldOptions, run_world
from grove.webhook.registrations import ALWAYS_ALLOWED, AUTHORIZE

FRIEND = "system:serviceaccount:tools:friend"
PROTECTED = WorldOptions(
    configuration=msgspec.structs.replace(
        load(CONFIGURATION), authorizer=Authorizer(enabled=True, exempt_service_account_user_names=(FRIEND,))
    )
)
Ask = Callable[..., Awaitable[Told]]


def play(story: Callable[[World, Ask], Awaitable[None]]) -> None:
    """A running set, and a way to ask about its children."""

    async def whole(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"worker": 1}))
        await until_running(world, "train-0")
        webhooks = Webhooks(world)

        async def ask(
            resource: Resource, new: Manifest | None, old: Manifest | None, user: str = "alice"
        ) -> Told:
            return await webhooks.ask(AUTHORIZE, review(resource, new, old, user=user))

        await story(world, ask)

    run_world(whole, PROTECTED)


async def found(world: World, resource: Resource) -> Manifest:
    (item,) = await world.all(resource, labels.OURS)
    return item


@pytest.mark.parametrize("resource", [kinds.GANGS, kinds.CLIQUES, kinds.SERVICES], ids=str)
def test_children_of_a_set_belong_to_the_operator(resource: Resource) -> None:
    async def story(world: World, ask: Ask) -> None:
        item = await found(world, resource)
        said = await ask(resource, {**item, "spec": {}}, item)
        assert (said.allowed, said.code) == (False, 403)
        name = item["metadata"]["name"]
        assert said.message.startswith(
            f"admission denied, updation of resource: default/{name} is not allowed"
        )
        deleted = await ask(resource, None, item)
        assert deleted.message.startswith(f"admission denied, deletion of resource: default/{name}")
        for user in (OPERATOR.name, FRIEND, *ALWAYS_ALLOWED):
            assert (await ask(resource, {**item, "spec": {}}, item, user)).allowed

    play(story)


def edited(pod: Manifest, edit: Callable[[Manifest], object]) -> Manifest:
    changed = copy.deepcopy(pod)
    edit(changed)
    return changed


def test_of_pods_only_what_grove_depends_on_is_protected() -> None:
    async def story(world: World, ask: Ask) -> None:
        pod = await found(world, kinds.PODS)
        theirs = edited(pod, lambda each: each["metadata"]["labels"].update(team="a"))
        assert (await ask(kinds.PODS, theirs, pod)).allowed
        assert (await ask(kinds.PODS, None, pod)).allowed
        ours = edited(pod, lambda each: each["metadata"]["labels"].update({labels.POD_GANG: "other"}))
        assert not (await ask(kinds.PODS, ours, pod)).allowed
        orphan = edited(pod, lambda each: each["metadata"].update(ownerReferences=[]))
        assert not (await ask(kinds.PODS, orphan, pod)).allowed
        gated = edited(pod, lambda each: each["spec"].update(schedulingGates=[{"name": "grove.io/gang"}]))
        assert not (await ask(kinds.PODS, pod, gated)).allowed

    play(story)


def test_labels_that_are_taken_off_do_not_help() -> None:
    async def story(world: World, ask: Ask) -> None:
        gang = await found(world, kinds.GANGS)
        bare = edited(gang, lambda each: each["metadata"].update(labels={}))
        assert not (await ask(kinds.GANGS, bare, gang)).allowed

    play(story)


def test_a_set_may_give_its_children_free() -> None:
    async def story(world: World, ask: Ask) -> None:
        gang = await found(world, kinds.GANGS)
        patch = {"metadata": {"annotations": {labels.DISABLE_PROTECTION: "true"}}}
        await world.user.merge_patch(kinds.CLIQUESETS, Key("default", "train"), patch)
        await world.settle()
        assert (await ask(kinds.GANGS, {**gang, "spec": {}}, gang)).allowed

    play(story)


def test_what_goes_may_go_and_what_belongs_to_nobody_is_not_protected() -> None:
    async def story(world: World, ask: Ask) -> None:
        gang = await found(world, kinds.GANGS)
        going = edited(gang, lambda each: each["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"))
        assert (await ask(kinds.GANGS, {**going, "spec": {}}, going)).allowed
        stray = edited(gang, lambda each: each["metadata"]["labels"].update({labels.PART_OF: "gone"}))
        said = await ask(kinds.GANGS, {**stray, "spec": {}}, stray)
        assert said.allowed
        assert said.warnings == (
            "podgangs train-0 is of PodCliqueSet 'gone', which does not exist: not protected",
        )

    play(story)
