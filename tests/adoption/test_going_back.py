"""What we make of a set is what the Go operator would make of it: it finds its objects again, and keeps them.

The Go operator deletes what it does not expect and replaces what it does not find. So both operators must have
the same objects under the same names, with the labels and owners by which they are found.
"""

from typing import Any, Final

import pytest
from tests.adoption.go_sets import SETS, is_ready
from tests.adoption.go_shapes import ACCOUNTS, SECRETS, GoObject, GoSet, objects_of
from tests.adoption.taking_over import by_name, take_over

from grove.api import kinds
from grove.meta import Key, Manifest, Resource
from grove.plan.changes import agrees
from grove.plan.hashing import canonical
from grove.testing.world import World

#: The sets whose objects say what their templates say now.
MADE: Final = [name for name, each in SETS.items() if not each.born]
#: What only the Go operator makes, whenever it is missing.
ITS_OWN: Final = (ACCOUNTS, SECRETS, kinds.ROLES, kinds.ROLE_BINDINGS)
#: What the Go operator writes anew with every look, on objects alone: no pod depends on it.
REWRITTEN: Final = {"grove.io/pod-template-hash", "grove.io/scheduler-name"}
#: Of these kinds the Go operator deletes what it does not expect, by the labels of the set.
COUNTED: Final = (
    kinds.CLIQUES,
    kinds.SCALING_GROUPS,
    kinds.GANGS,
    kinds.AUTOSCALERS,
    kinds.COMPUTE_DOMAINS,
    kinds.RESOURCE_CLAIMS,
)


async def run(world: World, taken: GoSet) -> None:
    """Let our operator make the set, scaled as it is with the Go operator."""
    await world.start_operator()
    await world.apply(taken.manifest)
    await world.settle()
    for name, replicas in taken.scaled.items():
        of = kinds.CLIQUES if await world.get(kinds.CLIQUES, name) else kinds.SCALING_GROUPS
        await world.scale(name, replicas, of)
    await world.settle()
    wanted = sum(each.resource == kinds.PODS for each in objects_of(taken))

    async def whole() -> bool:
        pods = await world.all(kinds.PODS)
        return len(pods) == wanted and all(map(is_ready, pods))

    await world.until(whole, "all pods are ready")


def owner_of(manifest: Manifest) -> tuple[str, str]:
    """The one owner that an object has."""
    (owner,) = manifest["metadata"]["ownerReferences"]
    assert owner["controller"]
    return owner["kind"], owner["name"]


def marks_of(manifest: Manifest) -> dict[str, str]:
    labels = manifest["metadata"].get("labels", {})
    return {key: value for key, value in labels.items() if key not in REWRITTEN}


@pytest.mark.parametrize("name", MADE)
def test_the_go_operator_finds_every_object_by_its_name_labels_and_owner(name: str) -> None:
    async def story(world: World) -> None:
        await run(world, SETS[name])
        expected = [each for each in objects_of(SETS[name]) if each.resource not in (*ITS_OWN, kinds.PODS)]
        found: dict[Resource, dict[str, Manifest]] = {
            resource: await by_name(world, resource) for resource in {each.resource for each in expected}
        }
        for each in expected:
            ours = found[each.resource].get(each.name)
            assert ours is not None, (each.resource.kind, each.name)
            assert marks_of(each.manifest).items() <= marks_of(ours).items(), each.name
            if each.owner is not None:
                assert owner_of(ours) == (each.owner[0].kind, each.owner[1])
            if each.resource in (kinds.CLIQUES, kinds.SCALING_GROUPS, kinds.SERVICES, kinds.AUTOSCALERS):
                assert agrees(_meaning(each), _meaning(each._replace(manifest=ours))), each.name
        for resource in COUNTED:
            names = {each.name for each in expected if each.resource == resource}
            assert set(found.get(resource, {})) == names

    take_over(story)


def _meaning(each: GoObject) -> Any:
    """The spec of an object, without what means the same as its absence."""
    spec = dict(each.manifest["spec"])
    if "podSpec" in spec:
        spec["podSpec"] = canonical(spec["podSpec"], ("spec",))
    return spec


@pytest.mark.parametrize("name", MADE)
def test_the_go_operator_finds_every_pod_by_its_hostname_and_counts_it(name: str) -> None:
    async def story(world: World) -> None:
        await run(world, SETS[name])
        expected = {
            each.manifest["spec"]["hostname"]: each
            for each in objects_of(SETS[name])
            if each.resource == kinds.PODS
        }
        pods = {pod["spec"]["hostname"]: pod for pod in await world.all(kinds.PODS)}
        assert set(pods) == set(expected)
        for hostname, each in expected.items():
            ours, theirs = pods[hostname], each.manifest
            assert marks_of(theirs).items() <= marks_of(ours).items()
            assert each.owner is not None
            assert owner_of(ours) == (each.owner[0].kind, each.owner[1])
            assert ours["spec"]["subdomain"] == theirs["spec"]["subdomain"]
            assert ours["spec"].get("resourceClaims", []) == theirs["spec"].get("resourceClaims", [])
            for one, other in zip(ours["spec"]["containers"], theirs["spec"]["containers"], strict=True):
                assert agrees(other["env"], one["env"])
            # It has one label for all pods of a clique, which is the clique's.
            clique = await world.user.get(kinds.CLIQUES, Key("default", each.owner[1]), type=dict)
            label = "grove.io/pod-template-hash"
            assert ours["metadata"]["labels"][label] == clique["metadata"]["labels"][label]

    take_over(story)
