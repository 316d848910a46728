"""RS1 of the Go operator's end-to-end suite: claims of all three levels, counted while everything is scaled."""

from typing import Final

import pytest
from tests.scenarios.rs1 import (
    EDITS,
    FIRST,
    NAME,
    PART_OF,
    STEPS,
    Edit,
    assert_owned,
    used,
    wanted_claims,
    workload,
)
from tests.scenarios.stories import NAMESPACES, device

from grove.api import kinds
from grove.errors import Invalid
from grove.meta import Key
from grove.testing import make
from grove.testing.portrait import Guard
from grove.testing.world import World, run_world

OUTSIDE: Final = make.object_manifest(
    kinds.RESOURCE_CLAIM_TEMPLATES, "outside", {"spec": device("outside")}, namespace="other"
)
SCALED: Final = {each.kind: each for each in (kinds.CLIQUESETS, kinds.SCALING_GROUPS, kinds.CLIQUES)}


async def counted(world: World) -> int:
    await world.settle()
    found = await world.all(kinds.RESOURCE_CLAIMS, labels=f"{PART_OF}={NAME}")
    assert_owned(found, [each for kind in SCALED.values() for each in await world.all(kind)])
    return len(found)


def test_rs1_claims_of_sets_groups_and_cliques_are_counted_exactly_while_everything_is_scaled() -> None:
    async def story(world: World) -> None:
        guard = Guard(world.cluster)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
        await world.user.create(NAMESPACES, namespace)
        await world.apply(OUTSIDE, workload())
        assert await counted(world) == FIRST
        assert used(await world.pods()) == wanted_claims()
        for (kind, name), replicas, claims in STEPS:
            await world.scale(name, replicas, SCALED[kind])
            assert await counted(world) == claims
            if (kind, replicas) == ("PodClique", 2):
                assert used(await world.pods()) == wanted_claims(pods=2, groups=3)
        await world.user.delete(kinds.CLIQUESETS, Key("default", NAME))
        assert await counted(world) == 0
        assert guard.broken == []

    run_world(story)


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
