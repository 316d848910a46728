"""Every cell of the table of edits is what happens: each field, on each scheduler, pending and running.

What is expected is read from the functions that make the table (`scripts/edits.py`), asked about the cluster of
the story. Whether something took effect is told by a set that was created with the edit: the schedulers are told
the same of both.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import pytest
from scripts import edits
from tests.scenarios.editing import (
    BASE,
    MEMBER,
    PENDING,
    RUNNING,
    WORKER,
    Scene,
    created,
    edited_field,
    original,
)
from tests.scenarios.judging import WAY_OUT
from tests.scenarios.stories import STAGES, key, revision_of, uid_of

from grove.api import kinds, labels
from grove.errors import Invalid
from grove.testing.world import World, run_world

_COMMAND: Final = re.compile(r"kubectl delete pods -n (\S+) -l (\S+) does that at once")


# Pending ------------------------------------------------------------------------------------------


async def edited_in_place_while_pending(scene: Scene) -> None:
    before = await scene.places()
    await scene.edit()
    assert before.items() <= (await scene.places()).items()
    await _took_effect_while_pending(scene)


async def edited_with_new_pods(scene: Scene) -> None:
    before = await scene.pods_of(labels.POD_GANG, BASE)
    await scene.edit()
    after = await scene.pods_of(labels.POD_GANG, BASE)
    assert not set(map(uid_of, before)) & set(map(uid_of, after))
    assert not set(map(revision_of, before)) & set(map(revision_of, after))
    await _took_effect_while_pending(scene)


async def _took_effect_while_pending(scene: Scene) -> None:
    assert await scene.is_accepted()
    assert await scene.condition("EditPending") == {}
    await scene.is_told_as_created(scene.row, PENDING)
    assert not any((await scene.places()).values())
    await _has_room(scene)
    await scene.is_right()
    await scene.is_together()
    await scene.is_told_as_created(scene.row, RUNNING)


async def refused_while_pending(scene: Scene) -> None:
    await _is_refused(scene)
    await _has_room(scene)
    await scene.is_right()
    await scene.is_told_as_created("", RUNNING)


async def unsupported_while_pending(scene: Scene) -> None:
    await _is_unsupported(scene)
    await _has_room(scene)
    await _is_taken_back(scene)


async def _has_room(scene: Scene) -> None:
    """There is room now: the pods that wait are placed."""
    before = set(await scene.places())
    await scene.close_nodes(False)
    await scene.settle()
    after = await scene.places()
    assert set(after) == before
    assert all(after.values())


# Running ------------------------------------------------------------------------------------------


async def edited_in_place(scene: Scene) -> None:
    before = await scene.places()
    await scene.edit()
    assert before.items() <= (await scene.places()).items()
    await scene.is_right()
    new = set(await scene.places()) - set(before)
    await scene.is_told_as_created(scene.row, RUNNING, new)
    new |= await _loses_pods(scene)
    await scene.is_right()
    await scene.is_told_as_created(scene.row, RUNNING, new & set(await scene.places()))


async def updated(scene: Scene) -> None:
    before = await scene.places()
    workers = set(map(uid_of, await scene.pods_of(labels.POD_CLIQUE, WORKER)))
    await scene.edit()
    after = await scene.places()
    assert not workers & after.keys()
    assert {uid: node for uid, node in before.items() if uid not in workers}.items() <= after.items()
    await scene.is_right()
    await scene.is_told_as_created(scene.row, RUNNING)
    await _loses_pods(scene)
    await scene.is_right()
    await scene.is_told_as_created(scene.row, RUNNING)


async def waited_for(scene: Scene) -> None:
    before = await scene.places()
    await scene.edit()
    assert await scene.is_accepted()
    pending = await scene.condition("EditPending")
    assert pending["status"] == "True"
    assert pending["message"].startswith(f"{edited_field(scene.row)}: ")
    assert await scene.places() == before
    await scene.is_told_as_created("", RUNNING)
    await _loses_pods(scene)
    await scene.is_told_as_created("", RUNNING)
    await _is_taken_back(scene)
    await scene.edit()
    await _is_placed_again(scene)
    await scene.is_right()
    await scene.is_together()
    await scene.is_told_as_created(scene.row, RUNNING)


async def _is_placed_again(scene: Scene) -> None:
    """What the set says is done: it names one gang, and then the other."""
    for _ in range(2):
        pending = await scene.condition("EditPending")
        if not pending:
            return
        command = _COMMAND.search(pending["message"])
        assert command is not None
        assert command[1] == "default"
        for pod in await scene.world.all(kinds.PODS, labels=command[2]):
            await scene.world.user.delete(kinds.PODS, key(pod["metadata"]["name"]))
        await scene.settle()


async def refused(scene: Scene) -> None:
    await _is_refused(scene)
    await _loses_pods(scene)
    await scene.is_right()
    await scene.is_told_as_created("", RUNNING)


async def unsupported(scene: Scene) -> None:
    await _is_unsupported(scene)
    await _loses_pods(scene)
    await _is_taken_back(scene)


async def _loses_pods(scene: Scene) -> set[str]:
    """Two pods of the gang are lost, one after the other; returns those in their place."""
    return {await scene.lose(clique) for clique in (WORKER, MEMBER)}


# What is not taken --------------------------------------------------------------------------------


async def _is_refused(scene: Scene) -> None:
    """The API server does not store the edit, names the field and a way out."""
    before, stored = await scene.places(), await scene.world.get(kinds.CLIQUESETS, "train")
    with pytest.raises(Invalid, match=re.escape(f"{edited_field(scene.row)}: ")) as refusal:
        await scene.edit()
    assert WAY_OUT.search(str(refusal.value))
    await scene.settle()
    assert await scene.world.get(kinds.CLIQUESETS, "train") == stored
    assert await scene.places() == before


async def _is_unsupported(scene: Scene) -> None:
    """The set says which field, and what to write instead; what is there stays."""
    before = await scene.places()
    await scene.edit()
    accepted = await scene.condition("Accepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "Unsupported")
    assert accepted["message"].startswith(f"{edited_field(scene.row)}.pack.required: ")
    assert WAY_OUT.search(accepted["message"])
    assert await scene.condition("EditPending") == {}
    assert await scene.places() == before
    await scene.is_told_as_created("", scene.when)


async def _is_taken_back(scene: Scene) -> None:
    """All went on as without the edit, and does so when it is taken back."""
    await scene.is_told_as_created("", RUNNING)
    before = await scene.places()
    await scene.world.apply(original(scene.stage))
    await scene.settle()
    assert await scene.places() == before
    await scene.is_right()


# The table ----------------------------------------------------------------------------------------

OUTCOMES: Final[Mapping[tuple[str, str], Callable[[Scene], Awaitable[None]]]] = {
    (PENDING, edits.IN_PLACE): edited_in_place_while_pending,
    (PENDING, edits.NEW_PODS): edited_with_new_pods,
    (PENDING, edits.REFUSED): refused_while_pending,
    (PENDING, edits.UNSUPPORTED): unsupported_while_pending,
    (RUNNING, edits.IN_PLACE): edited_in_place,
    (RUNNING, edits.UPDATE): updated,
    (RUNNING, edits.WAITS): waited_for,
    (RUNNING, edits.REFUSED): refused,
    (RUNNING, edits.UNSUPPORTED): unsupported,
}


@pytest.mark.parametrize("when", [PENDING, RUNNING])
@pytest.mark.parametrize("name", STAGES)
@pytest.mark.parametrize("row", edits.FIELDS, ids=[each.replace("`", "") for each in edits.FIELDS])
def test_an_edit_does_what_the_table_says(row: str, name: str, when: str) -> None:
    stage, scenes, outcomes = STAGES[name], list[Scene](), list[str]()

    async def story(world: World) -> None:
        scene = Scene(world, stage, row, when)
        scenes.append(scene)
        await scene.begin(original(stage))
        outcomes.append(scene.expected())
        await OUTCOMES[when, outcomes[0]](scene)

    run_world(story, stage.options)
    for claim in scenes[0].claims:
        there = created(name, claim.row, claim.when)
        different = claim.told.difference_of_some(there) if claim.partly else claim.told.difference(there)
        assert not different, f"told otherwise than of a set created like this, {claim.when}: {different}"
    if outcomes[0] not in (edits.REFUSED, edits.UNSUPPORTED):
        # Otherwise that would prove nothing.
        assert created(name, row, RUNNING) != created(name, "", RUNNING)
