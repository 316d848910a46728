"""What the Go operator gave the pods of a set that wait for others: kept while they need it, then removed."""

from dataclasses import replace
from typing import Final

import pytest
from tests.adoption.go_sets import (
    IN_ORDER,
    SETS,
    cliqueset,
    install,
    is_ready,
    role,
    until_ready,
)
from tests.adoption.go_shapes import ACCOUNTS, SECRETS, GoSet
from tests.adoption.taking_over import OPTIONS, by_name, pod_deletions, take_over
from tests.deploy.test_rbac import ACCOUNT, refusals, start, with_domains
from tests.deploy.test_rbac import install as install_roles
from tests.scenarios.stories import pass_time

from grove.api import kinds
from grove.meta import Key, Manifest
from grove.testing.world import World

NOT_READY: Final = "embedded.grove.io/not-ready"


async def left(world: World, name: str) -> dict[str, list[str]]:
    """Of what the Go operator made for waiting pods, what is still there."""
    resources = (ACCOUNTS, SECRETS, kinds.ROLES, kinds.ROLE_BINDINGS)
    found = {}
    for resource in resources:
        names = [
            child
            for child, each in (await by_name(world, resource)).items()
            if each["metadata"].get("labels", {}).get("app.kubernetes.io/part-of") == name
        ]
        if names:
            found[resource.kind] = sorted(names)
    return found


async def subjects(world: World, name: str) -> list[str]:
    binding = await world.get(kinds.ROLE_BINDINGS, f"grove.io:pcs:{name}") or {}
    return sorted(each["name"] for each in binding.get("subjects", ()))


@pytest.mark.parametrize("name", sorted(set(SETS) - {"ordered", "explicit"}))
def test_a_set_without_order_loses_all_of_it(name: str) -> None:
    async def story(world: World) -> None:
        await install(world, SETS[name])
        assert set(await left(world, name)) == {"ServiceAccount", "Secret", "Role", "RoleBinding"}
        await world.start_operator()
        await world.settle()
        assert await left(world, name) == {}

    take_over(story)


@pytest.mark.parametrize("name", ["ordered", "explicit"])
def test_pods_that_wait_by_it_keep_it_until_the_last_of_them_is_gone(name: str) -> None:
    async def story(world: World) -> None:
        await install(world, SETS[name])
        before = await left(world, name)
        await world.start_operator()
        await world.settle()
        assert await left(world, name) == before
        assert await subjects(world, name) == ["default", name]
        waiting = [
            pod["metadata"]["name"]
            for pod in await world.all(kinds.PODS)
            if any(each["name"] == "grove-initc" for each in pod["spec"].get("initContainers", ()))
        ]
        for number, pod in enumerate(waiting, start=1):
            assert (await left(world, name)).get("ServiceAccount") == [name]
            await world.user.delete(kinds.PODS, Key("default", pod))
            await world.settle()
            assert len(waiting) - number == 0 or await subjects(world, name) == ["default", name]
        access = [f"grove.io:pcs:{name}"]
        assert await left(world, name) == {"Role": access, "RoleBinding": access}
        assert await subjects(world, name) == ["default"]
        await until_ready(world)
        writes = world.writes()
        await pass_time(600)
        assert world.writes() == writes

    take_over(story)


def two_in_order() -> GoSet:
    """A set whose second role waits for the first, which is not ready for now."""
    first = role("first", annotations={NOT_READY: "true"})
    return GoSet(cliqueset("pair", [first, role("second", 2)], cliqueStartupType=IN_ORDER))


def test_pods_that_wait_for_others_while_the_operator_changes_start_when_those_are_ready() -> None:
    async def story(world: World) -> None:
        await install(world, two_in_order(), ready=False)
        await pass_time(20)
        await world.start_operator()
        await pass_time(60)
        pods = {pod["spec"]["hostname"]: pod for pod in await world.all(kinds.PODS)}
        assert not is_ready(pods["pair-0-second-0"])
        first = Key("default", pods["pair-0-first-0"]["metadata"]["name"])
        await world.user.merge_patch(kinds.PODS, first, {"metadata": {"annotations": {NOT_READY: None}}})
        await until_ready(world)
        assert pod_deletions(world) == []

    take_over(story)


def test_an_account_that_an_author_gave_to_the_pods_stays() -> None:
    async def story(world: World) -> None:
        pods: Manifest = {"serviceAccountName": "named"}
        await install(world, GoSet(cliqueset("named", [role("w", pods=pods)])))
        await world.start_operator()
        await world.settle()
        assert (await left(world, "named")).get("ServiceAccount") == ["named"]

    take_over(story)


def test_an_account_that_nobody_owns_stays() -> None:
    async def story(world: World) -> None:
        await install(world, SETS["plain"])
        marks = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "plain"}
        metadata = {"name": "mine", "namespace": "default", "labels": marks}
        mine = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
        await world.user.create(ACCOUNTS, mine)
        before = await world.get(ACCOUNTS, "mine")
        await world.start_operator()
        await world.settle()
        assert await left(world, "plain") == {"ServiceAccount": ["mine"]}
        assert await world.get(ACCOUNTS, "mine") == before

    take_over(story)


def test_the_operator_may_do_all_of_it_with_the_roles_that_are_shipped() -> None:
    async def story(world: World) -> None:
        await install_roles(world, with_domains())
        await install(world, *SETS.values())
        await start(world)
        await world.settle()
        for pod in await by_name(world, kinds.PODS):
            await world.user.delete(kinds.PODS, Key("default", pod))
        await world.settle()
        assert refusals(world) == []
        found = {each for each in await by_name(world, ACCOUNTS) if each not in ("default", "grove-operator")}
        assert found == set()

    take_over(story, replace(OPTIONS, operator_user=ACCOUNT))
