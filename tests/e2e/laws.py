"""What must hold of everything that was ever seen, whatever broke in between."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from tests.e2e.ledger import Seen
from tests.e2e.scene import Scene, condition_of, gates_of, holds_a_place

from grove.api import kinds, labels

#: Pods of a gang are bound one call after the other; a part that is placed for longer does not end by itself.
PARTIAL_SECONDS: Final = 10.0


def assert_no_part_was_placed_for_long(scene: Scene, minima: Mapping[str, int]) -> None:
    """No gang had some of the nodes that it needs, and not all of them, for more than moments."""
    now = asyncio.get_running_loop().time()
    found = {gang: longest_partial(scene, gang, minimum, now=now) for gang, minimum in minima.items()}
    late = {gang: round(seconds, 1) for gang, seconds in found.items() if seconds > PARTIAL_SECONDS}
    assert late == {}, f"seconds for which a part of a gang was placed: {late}\n{scene.describe()}"


def longest_partial(scene: Scene, gang: str, minimum: int, *, now: float) -> float:
    """For how many seconds at most the gang had some of the nodes that it needs and not all."""
    on_nodes: set[str] = set()
    since: float | None = None
    longest = 0.0
    for seen in scene.ledger.of(kinds.PODS):
        pod = seen.object
        if _gang_of(seen) != gang or holds_a_place(pod):
            continue
        leaving = seen.type == "DELETED" or pod["metadata"].get("deletionTimestamp")
        placed = pod["spec"].get("nodeName") and not leaving
        (on_nodes.add if placed else on_nodes.discard)(pod["metadata"]["uid"])
        if since is not None:
            longest = max(longest, seen.at - since)
        if not 0 < len(on_nodes) < minimum:
            since = None
        elif since is None:
            since = seen.at
    return longest if since is None else max(longest, now - since)


def assert_no_pod_was_created_twice(scene: Scene) -> None:
    """One pod for each place in each clique, ever: the story deletes none."""
    born: dict[tuple[str, str], set[str]] = {}
    for seen in scene.ledger.of(kinds.PODS):
        if holds_a_place(seen.object):
            continue
        marks = seen.object["metadata"]["labels"]
        place = marks[labels.POD_CLIQUE], marks[labels.POD_INDEX]
        born.setdefault(place, set()).add(seen.object["metadata"]["uid"])
    assert born
    assert {place: uids for place, uids in born.items() if len(uids) != 1} == {}


def assert_gates_opened_on_whole_gangs_only(scene: Scene, gang: str, pods: int) -> None:
    """When the first gate of the gang opened, all its pods existed and it was Initialized."""
    states = [each for each in scene.ledger.of(kinds.PODS) if _gang_of(each) == gang]
    opened = [each for each in states if not each.missed and not gates_of(each.object)]
    assert opened, f"no gate of {gang} was seen opening"
    # What a list found after a gap was there before, nobody knows since when.
    born: dict[str, int] = {}
    for each in states:
        born.setdefault(each.object["metadata"]["uid"], 0 if each.missed else each.version)
    first = opened[0].version
    assert len([version for version in born.values() if version <= first]) >= pods
    whole = scene.ledger.first(
        kinds.GANGS,
        lambda item: (
            item["metadata"]["name"] == gang and condition_of(item, "Initialized").get("status") == "True"
        ),
    )
    assert whole is not None
    assert whole.missed or whole.version < first


def _gang_of(seen: Seen) -> str:
    return str((seen.object["metadata"].get("labels") or {}).get(labels.POD_GANG, ""))
