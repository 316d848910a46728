"""RS1 of the Go operator's end-to-end suite: claims of all three levels, counted while everything is scaled."""

from collections.abc import Callable
from typing import Final

import pytest
from tests.scenarios.stories import NAMESPACES, device

from grove.api import kinds
from grove.errors import Invalid
from grove.meta import Key, Manifest
from grove.testing import make
from grove.testing.portrait import Guard
from grove.testing.world import World, run_world

OWN: Final = ("one", "two", "three")


def shared(name: str, scope: str, **more: object) -> Manifest:
    return {"name": name, "scope": scope, **more}


def workload() -> Manifest:
    """Two claims of the whole set, two of each replica, three and two for each group replica, three of a clique."""
    alone = make.template("alone", 1) | {
        "resourceSharing": [
            shared("one", "AllReplicas"),
            shared("two", "AllReplicas"),
            shared("three", "PerReplica"),
        ]
    }
    member = make.template("member", 1) | {"resourceSharing": [shared("one", "AllReplicas")]}
    group = make.scaling_group("group", ["member"], replicas=2) | {
        "resourceSharing": [
            shared("two", "AllReplicas", filter={"childCliqueNames": ["member"]}),
            shared("three", "PerReplica"),
        ]
    }
    return make.cliqueset_manifest(
        "rs",
        [alone, member],
        groups=[group],
        template={
            "resourceClaimTemplates": [
                {"name": each, "templateSpec": {"spec": device(each)}} for each in OWN
            ],
            "resourceSharing": [
                shared("one", "AllReplicas"),
                shared(
                    "outside", "AllReplicas", namespace="other", filter={"childScalingGroupNames": ["group"]}
                ),
                shared("two", "PerReplica", filter={"childCliqueNames": ["alone"]}),
                shared("three", "PerReplica"),
            ],
        },
    )


OUTSIDE: Final = make.object_manifest(
    kinds.RESOURCE_CLAIM_TEMPLATES, "outside", {"spec": device("outside")}, namespace="other"
)


async def counted(world: World) -> int:
    await world.settle()
    found = await world.all(kinds.RESOURCE_CLAIMS, labels="app.kubernetes.io/part-of=rs")
    owners = {
        each["metadata"]["uid"]
        for kind in (kinds.CLIQUESETS, kinds.SCALING_GROUPS, kinds.CLIQUES)
        for each in await world.all(kind)
    }
    for claim in found:
        (owner,) = claim["metadata"]["ownerReferences"]
        assert owner["controller"], claim["metadata"]["name"]
        assert owner["uid"] in owners, claim["metadata"]["name"]
    return len(found)


async def used(world: World) -> dict[str, list[str]]:
    """By hostname, the claims that a pod and each of its containers use."""
    found = {}
    for pod in await world.pods():
        claims = pod["spec"]["resourceClaims"]
        assert [each["name"] for each in claims] == [each["resourceClaimName"] for each in claims]
        for container in pod["spec"]["containers"]:
            assert container["resources"]["claims"] == [{"name": each["name"]} for each in claims]
        found[pod["spec"]["hostname"]] = [each["resourceClaimName"] for each in claims]
    return found


def test_rs1_claims_of_sets_groups_and_cliques_are_counted_exactly_while_everything_is_scaled() -> None:
    async def story(world: World) -> None:
        guard = Guard(world.cluster)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
        await world.user.create(NAMESPACES, namespace)
        await world.apply(OUTSIDE, workload())
        assert await counted(world) == 12
        assert await used(world) == {
            "rs-0-alone-0": [
                "rs-all-one",
                "rs-0-two",
                "rs-0-three",
                "rs-0-alone-all-one",
                "rs-0-alone-all-two",
                "rs-0-alone-0-three",
            ],
            **{
                f"rs-0-group-{number}-member-0": [
                    "rs-all-one",
                    "rs-all-outside",
                    "rs-0-three",
                    "rs-0-group-all-two",
                    f"rs-0-group-{number}-three",
                    f"rs-0-group-{number}-member-all-one",
                ]
                for number in range(2)
            },
        }
        await world.scale("rs-0-group", 1, kinds.SCALING_GROUPS)
        assert await counted(world) == 10
        await world.scale("rs-0-group", 3, kinds.SCALING_GROUPS)
        assert await counted(world) == 14
        await world.scale("rs-0-alone", 2, kinds.CLIQUES)
        assert await counted(world) == 15
        assert (await used(world))["rs-0-alone-1"][-1] == "rs-0-alone-1-three"
        await world.scale("rs-0-alone", 1, kinds.CLIQUES)
        assert await counted(world) == 14
        await world.scale("rs", 2)
        assert await counted(world) == 24
        await world.scale("rs", 1)
        assert await counted(world) == 14
        await world.user.delete(kinds.CLIQUESETS, Key("default", "rs"))
        assert await counted(world) == 0
        assert guard.broken == []

    run_world(story)


Edit = Callable[[Manifest], None]


def rescoped(shared: list[Manifest]) -> None:
    shared[0]["scope"] = {"AllReplicas": "PerReplica", "PerReplica": "AllReplicas"}[shared[0]["scope"]]


EDITS: Final[dict[str, tuple[Edit, str]]] = {
    "of a set": (lambda template: rescoped(template["resourceSharing"]), "spec.template.resourceSharing"),
    "of a group": (
        lambda template: rescoped(template["podCliqueScalingGroups"][0]["resourceSharing"]),
        "spec.template.podCliqueScalingGroups[0].resourceSharing",
    ),
    "of a role": (
        lambda template: rescoped(template["cliques"][0]["resourceSharing"]),
        "spec.template.cliques[0].resourceSharing",
    ),
    "what a template says": (
        lambda template: template["resourceClaimTemplates"][0]["templateSpec"].update(spec=device("other")),
        "spec.template.resourceClaimTemplates",
    ),
}


@pytest.mark.parametrize(("edit", "field"), EDITS.values(), ids=EDITS)
def test_rs1_what_is_shared_by_whom_cannot_be_edited(edit: Edit, field: str) -> None:
    async def story(world: World) -> None:
        await world.apply(workload())
        edited = workload()
        edit(edited["spec"]["template"])
        with pytest.raises(Invalid, match="field is immutable") as refused:
            await world.apply(edited)
        assert f"{field}: Forbidden" in str(refused.value)

    run_world(story, operator=False)
