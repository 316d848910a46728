"""Whatever is written, the webhooks answer it; none of it is a defect. `GROVE_FUZZ=100000` for more."""

import base64
import json
import os
import random
from typing import Final

from tests.webhook.asking import PATHS, review, told
from tests.webhook.fuzzing import disturbed, seeds

from grove.api import kinds
from grove.api.cliqueset import PodCliqueSet
from grove.api.decode import decode
from grove.embedded.machinery.patch import json_patch
from grove.errors import InvalidInput
from grove.meta import Manifest, Resource
from grove.testing import make
from grove.testing.world import OPERATOR, World, WorldOptions, run_world
from grove.webhook.authorizer import Authorizer
from grove.webhook.registrations import DEFAULT_CLIQUESET
from grove.webhook.review import Request, read, written
from grove.webhook.reviews import reviews_by_path
from grove.webhook.surroundings import Surroundings

OBJECTS: Final = int(os.environ.get("GROVE_FUZZ", "3000"))


def test_no_object_is_too_odd_to_be_answered() -> None:
    tally = {"allowed": 0, "refused": 0}

    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train"))
        operator = world.operator
        assert operator is not None
        known = Surroundings(operator.cache, operator.scheduling, world.options.configuration)
        reviews = reviews_by_path(known, world._client(OPERATOR), OPERATOR.name)
        authorizer = Authorizer(known, operator=OPERATOR.name)
        rng, good = random.Random(1), seeds()

        async def answer(path: str, request: Request, what: str) -> bytes:
            try:
                body = written(request, await reviews[path](request))
                await authorizer.authorize(request)
            except Exception as defect:
                raise AssertionError(f"{path} failed with {defect!r} at {what}") from defect
            return body

        for number in range(OBJECTS):
            resource, seed = rng.choice(good)
            new = disturbed(rng, seed)
            old = rng.choice((None, None, seed, disturbed(rng, seed)))
            what = json.dumps({"number": number, "new": new, "old": old})[:4000]
            if resource == kinds.CLIQUESETS:
                new = await defaulted(answer, new, old, what)
            said = told(await answer(PATHS[resource], asked(resource, new, old), what))
            tally["allowed" if said.allowed else "refused"] += 1
            assert said.allowed or said.message.strip(), what
            assert all(len(line) <= 256 for line in said.warnings), what

    run_world(story, WorldOptions(schedulers=("kai", "volcano")))
    # Neither may be the only answer: such objects would test nothing.
    assert min(tally.values()) > OBJECTS / 50, tally


def asked(resource: Resource, new: Manifest, old: Manifest | None) -> Request:
    return read(review(resource, new, old))


async def defaulted(answer, new: Manifest, old: Manifest | None, what: str) -> Manifest:  # type: ignore[no-untyped-def]
    """The set as the defaulting webhook leaves it; what it adds never makes a readable set unreadable."""
    body = json.loads(await answer(DEFAULT_CLIQUESET, asked(kinds.CLIQUESETS, new, old), what))["response"]
    assert body["allowed"], what
    if "patch" not in body:
        return new
    patched: Manifest = json_patch(new, json.loads(base64.b64decode(body["patch"])))
    try:
        decode(new, PodCliqueSet)
    except InvalidInput:
        return patched
    decode(patched, PodCliqueSet)
    return patched
