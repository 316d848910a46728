"""Which claims pods can use, and who waits for one that is missing."""

import asyncio
import random
from typing import cast

import pytest
from tests.controllers.stores import cache

from grove.api import kinds
from grove.api.claim import ResourceClaim
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.controllers.devices import Devices
from grove.meta import Key
from grove.runtime.cache import Cache
from grove.runtime.clock import SystemClock
from grove.runtime.ports import Reader
from grove.testing import make

SET = make.cliqueset("train", {"worker": 2}, uid="uid-set")
CLIQUE = make.clique("train-0-worker", 2, uid="uid-clique", owner=(SET, kinds.CLIQUESETS))
OTHER = make.clique("other-0-worker", 2, uid="uid-other")


def claim(
    name: str = "gpus", owner: PodCliqueSet | PodClique | None = SET, *, deleted: bool = False
) -> ResourceClaim:
    manifest = make.object_manifest(kinds.RESOURCE_CLAIMS, name, {}, deleted=deleted)
    if owner is not None:
        reference = {
            "apiVersion": "v1",
            "kind": "X",
            "name": owner.name,
            "uid": owner.uid,
            "controller": True,
        }
        manifest["metadata"]["ownerReferences"] = [reference]
    return make.view(ResourceClaim, manifest)


def devices(there: Cache) -> Devices:
    return Devices(cast(Reader, None), there, SystemClock(), random.Random(0))


def with_claims(*claims: ResourceClaim) -> Cache:
    made = cache()
    made.add(kinds.RESOURCE_CLAIMS, ResourceClaim)
    for each in claims:
        made.store(ResourceClaim).put(each)
    return made


CASES: dict[str, tuple[list[ResourceClaim], list[str]]] = {
    "of its set": ([claim()], []),
    "of the clique itself": ([claim(owner=CLIQUE)], []),
    "missing": ([], ["gpus"]),
    "of another clique": ([claim(owner=OTHER)], ["gpus"]),
    "of nobody": ([claim(owner=None)], ["gpus"]),
    "about to go": ([claim(deleted=True)], ["gpus"]),
    "of another name": ([claim("others")], ["gpus"]),
}


@pytest.mark.parametrize(("claims", "want"), CASES.values(), ids=CASES)
def test_a_claim_that_is_not_there_for_a_pod_is_lacking(claims: list[ResourceClaim], want: list[str]) -> None:
    async def look() -> list[str]:
        return devices(with_claims(*claims)).lacking(CLIQUE, SET, ["gpus"])

    assert asyncio.run(look()) == want


def test_where_the_cluster_has_no_claims_all_are_lacking() -> None:
    async def look() -> list[str]:
        return devices(cache()).lacking(CLIQUE, SET, ["gpus", "links"])

    assert asyncio.run(look()) == ["gpus", "links"]


def test_whoever_waits_for_a_claim_is_found_by_it_until_it_waits_for_others() -> None:
    async def look() -> None:
        found = devices(cache())
        found.await_claims(CLIQUE.key, ["gpus"])
        found.await_claims(OTHER.key, ["gpus"])
        assert found.cliques_awaiting(claim()) == [OTHER.key, CLIQUE.key]
        found.await_claims(OTHER.key, ["links"])
        assert found.cliques_awaiting(claim()) == [CLIQUE.key]
        assert found.cliques_awaiting(claim("links")) == [OTHER.key]
        found.await_claims(CLIQUE.key, [])
        assert found.cliques_awaiting(claim()) == []
        assert (found.awaits(CLIQUE.key), found.awaits(OTHER.key)) == (False, True)

    asyncio.run(look())


def test_a_claim_of_the_same_name_in_another_namespace_is_not_waited_for() -> None:
    async def look() -> list[Key]:
        found = devices(cache())
        found.await_claims(Key("team-b", "train-0-worker"), ["gpus"])
        return found.cliques_awaiting(claim())

    assert asyncio.run(look()) == []
