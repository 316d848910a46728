"""Whatever is written, the webhooks answer it; none of it is a defect. `make fuzz` tries 100,000 objects.

Each object is put to the review functions, and one in fifty, as the same bytes, to the HTTPS server too.
"""

import base64
import json
import os
import random
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.webhook.asking import PATHS, review, told
from tests.webhook.beside import Beside, Review
from tests.webhook.fuzzing import disturbed, seeds

from grove.api import kinds
from grove.api.cliqueset import PodCliqueSet
from grove.api.decode import decode
from grove.embedded.machinery.patch import json_patch
from grove.errors import InvalidInput
from grove.meta import Manifest
from grove.testing import make
from grove.testing.world import OPERATOR, World, WorldOptions, run_world
from grove.webhook.authorizer import Authorizer
from grove.webhook.registrations import AUTHORIZE, DEFAULT_CLIQUESET
from grove.webhook.review import read, written
from grove.webhook.reviews import reviews_by_path
from grove.webhook.surroundings import Surroundings

OBJECTS: Final = int(os.environ.get("GROVE_FUZZ", "3000"))
#: Of so many objects one goes over the wire.
WIRED: Final = 50


class Fuzzed:
    """Puts objects to the webhooks of a world's operator, and counts what they answer."""

    def __init__(self, world: World, server: Beside) -> None:
        self._server = server
        self._reviews = reviews_of(world)
        self.tally = {"allowed": 0, "refused": 0}
        self.wired = 0

    async def answer(self, path: str, body: bytes, what: str, *, wired: bool) -> bytes:
        """The review that comes back; from the server the same one, with status 200."""
        request = read(body)
        try:
            answered = written(request, await self._reviews[path](request))
        except Exception as defect:
            raise AssertionError(f"{path} failed with {defect!r} at {what}") from defect
        if wired:
            status, came = await self._server.send(path, body, self._reviews[path])
            assert (status, envelope(came)) == (200, envelope(answered)), what
            self.wired += 1
        return answered

    async def put(self, number: int, rng: random.Random) -> None:
        """One object, created or updated."""
        resource, seed = rng.choice(SEEDS)
        new = disturbed(rng, seed)
        old = rng.choice((None, None, seed, disturbed(rng, seed)))
        what = json.dumps({"number": number, "new": new, "old": old})[:4000]
        wired = number % WIRED == 0
        await self.answer(AUTHORIZE, review(resource, new, old), what, wired=wired)
        if resource == kinds.CLIQUESETS:
            body = await self.answer(DEFAULT_CLIQUESET, review(resource, new, old), what, wired=wired)
            new = defaulted(body, new, what)
        said = told(await self.answer(PATHS[resource], review(resource, new, old), what, wired=wired))
        self.tally["allowed" if said.allowed else "refused"] += 1
        assert said.allowed or said.message.strip(), what
        assert all(len(line) <= 256 for line in said.warnings), what


SEEDS: Final = seeds()


def reviews_of(world: World) -> Mapping[str, Review]:
    operator = world.operator
    assert operator is not None
    known = Surroundings(operator.cache, operator.scheduling, world.options.configuration)
    found = reviews_by_path(known, world._client(OPERATOR), OPERATOR.name)
    # It is off unless a configuration asks for it.
    return {**found, AUTHORIZE: Authorizer(known, operator=OPERATOR.name).authorize}


def envelope(body: bytes) -> Manifest:
    """A well-formed AdmissionReview with the answer to our request; anything else fails."""
    found: Manifest = json.loads(body)
    assert (found["apiVersion"], found["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response = found["response"]
    assert response["uid"] == "11111111-2222-3333-4444-555555555555"
    assert isinstance(response["allowed"], bool)
    # What cannot be read as Unicode by everybody, a lone surrogate for one, is no answer.
    json.dumps(found, ensure_ascii=False).encode()
    return found


def defaulted(body: bytes, new: Manifest, what: str) -> Manifest:
    """The set as the defaulting webhook leaves it; what it adds never makes a readable set unreadable."""
    response = json.loads(body)["response"]
    assert response["allowed"], what
    if "patch" not in response:
        return new
    patched: Manifest = json_patch(new, json.loads(base64.b64decode(response["patch"])))
    try:
        decode(new, PodCliqueSet)
    except InvalidInput:
        return patched
    decode(patched, PodCliqueSet)
    return patched


def test_no_object_is_too_odd_to_be_answered(tmp_path: Path) -> None:
    started = time.perf_counter()
    paths = (*PATHS.values(), DEFAULT_CLIQUESET, AUTHORIZE)
    with Beside(paths, tmp_path).running() as server:

        async def story(world: World) -> None:
            await world.apply(make.cliqueset_manifest("train"))
            fuzzed, rng = Fuzzed(world, server), random.Random(1)
            for number in range(OBJECTS):
                await fuzzed.put(number, rng)
            tell(fuzzed, time.perf_counter() - started)
            # Neither may be the only answer: such objects would test nothing.
            assert min(fuzzed.tally.values()) > OBJECTS / 50, fuzzed.tally
            assert fuzzed.wired >= OBJECTS / WIRED
            assert sum(server.count(path, "allowed") + server.count(path, "refused") for path in paths) == (
                fuzzed.wired
            )
            assert [path for path in paths if server.count(path, "defect")] == []

        run_world(story, WorldOptions(schedulers=("kai", "volcano")))


def tell(fuzzed: Fuzzed, seconds: float) -> None:
    """What was done, for whoever runs it by hand."""
    tally = fuzzed.tally
    print(
        f"{datetime.now(UTC):%Y-%m-%d}: {OBJECTS} objects in {seconds:.0f} s: {tally['allowed']} allowed, "
        f"{tally['refused']} refused; {fuzzed.wired} requests through the HTTPS server, each answered 200 with "
        "the same AdmissionReview; no crash"
    )
