"""Two writers insist on one field: Grove puts it back ever less often, and names the other one."""

import asyncio
from typing import cast

from tests.controllers.clocks import HandClock

from grove.api import kinds
from grove.controllers.memory.contests import (
    CONTESTED,
    FIRST_PAUSE_SECONDS,
    FORGET_SECONDS,
    LONGEST_PAUSE_SECONDS,
    Contests,
)
from grove.kube.client import Client
from grove.meta import Key, Manifest, Resource
from grove.plan.changes import Delete, Patch

SET = Key("default", "train")
GANG = Key("default", "train-0")
REPAIR = Patch(kinds.GANGS, GANG, {"metadata": {"labels": {"example.com/team": "a"}}})


class Server:
    """Knows who wrote the label."""

    async def get(self, resource: Resource, key: Key, *, type: type[Manifest]) -> Manifest:
        fields: Manifest = {"f:metadata": {"f:labels": {"f:example.com/team": {}}}}
        written = [
            {"manager": "policy-bot", "fieldsV1": fields},
            {"manager": "grove-operator", "fieldsV1": fields},
        ]
        return {"metadata": {"managedFields": written}}


class Scene:
    """Somebody undoes each repair at once."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.contests = Contests(cast(Client, Server()), self.clock)

    def repair(self) -> float | None:
        """How long the repair has to wait; None when it was made."""
        sifted = asyncio.run(self.contests.sift(SET, [REPAIR]))
        self.contests.put_back(SET, sifted.changes)
        return sifted.wait

    def repair_when_due(self) -> float:
        waited = 0.0
        while (wait := self.repair()) is not None:
            waited += wait
            self.clock.seconds += wait
        return waited


def test_the_first_edit_is_put_back_at_once_and_each_further_one_later() -> None:
    scene = Scene()
    waits = [scene.repair_when_due() for _ in range(4)]
    assert waits == [0.0, FIRST_PAUSE_SECONDS, 2 * FIRST_PAUSE_SECONDS, 4 * FIRST_PAUSE_SECONDS]


def test_the_pause_has_a_limit() -> None:
    scene = Scene()
    assert max(scene.repair_when_due() for _ in range(15)) == LONGEST_PAUSE_SECONDS


def test_the_other_writer_is_named_once_the_field_is_contested() -> None:
    scene = Scene()
    for _ in range(CONTESTED - 1):
        scene.repair_when_due()
    assert scene.contests.notices(SET) == []
    scene.repair_when_due()
    (notice,) = scene.contests.notices(SET)
    assert "PodGang train-0: metadata.labels[example.com/team]" in str(notice)
    assert 'by "policy-bot";' in str(notice)


def test_a_field_that_was_left_alone_for_long_is_no_longer_contested() -> None:
    scene = Scene()
    for _ in range(CONTESTED):
        scene.repair_when_due()
    scene.clock.seconds += FORGET_SECONDS + 1
    assert scene.contests.notices(SET) == []
    assert scene.repair() is None


def test_other_changes_do_not_wait_with_a_contested_one() -> None:
    scene = Scene()
    scene.repair()
    other = Delete(kinds.GANGS, GANG, "uid")
    sifted = asyncio.run(scene.contests.sift(SET, [REPAIR, other]))
    assert sifted.changes == (other,)


def test_nothing_is_remembered_of_a_set_that_is_gone() -> None:
    scene = Scene()
    scene.repair()
    scene.contests.forget(SET)
    assert scene.repair() is None
