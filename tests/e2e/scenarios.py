"""What gangs do on a cluster, as stories that play on a real control plane and on the embedded one alike.

Each story asserts what is promised and returns what the scheduler did, as plain data: how many pods of each
gang were placed, and which kind of reason the gang gave. The two clusters must agree on that, scheduler by
scheduler.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from tests.e2e import remade
from tests.e2e.ledger import Seen
from tests.e2e.scene import (
    RACK,
    ZONE,
    Scene,
    condition_of,
    holds_a_place,
    packed,
    reason_class,
    role,
    topology,
    train,
)

from grove.api import kinds
from grove.meta import Manifest, Resource

#: From the scheduler's verdict to the gang's own condition.
TOLD_SECONDS: Final = 2.0

Outcome = dict[str, str]
Scenario = Callable[[Scene], Awaitable[Outcome]]


def outcome(scene: Scene, **gangs: int) -> Outcome:
    """What became of gangs that should have so many pods: `3 of 3`, or `0 of 3, capacity`."""
    return {
        gang.replace("_", "-"): f"{scene.bound(gang.replace('_', '-'))} of {pods}"
        + (
            f", {reason_class(scene.said(gang.replace('_', '-')))}"
            if scene.waiting(gang.replace("_", "-"))
            else ""
        )
        for gang, pods in gangs.items()
    }


async def a_gang_that_fits_is_bound_whole(scene: Scene) -> Outcome:
    await scene.nodes(3)
    await scene.apply(train(role("worker", 2), role("leader", 1)))
    await scene.until_running("train-0", 3)
    assert scene.condition(kinds.GANGS, "train-0", "Scheduled")["status"] == "True"
    await scene.until(lambda: _status(scene, "train").get("availableReplicas") == 1, "the set is available")
    assert {item.kind for item, _ in scene.objects()} == {item.kind for item in scene.judge.objects}
    return outcome(scene, train_0=3)


async def one_pod_short_binds_none_and_a_new_node_releases_all(scene: Scene) -> Outcome:
    await scene.nodes(2)
    await scene.apply(train())
    said = await scene.until_waiting("train-0")
    assert "0 of 3 pods placed" in said
    # The group's word and the pods' need not come at once.
    word = "gpu" if scene.judge.names_resources else "queue"
    await scene.until(lambda: word in scene.said("train-0").lower(), f"the reason names the {word}")
    _assert_told_in_time(scene, "train-0")
    before = outcome(scene, train_0=3)
    await scene.node("more")
    await scene.until_running("train-0", 3)
    _assert_none_bound_before_it_was_told(scene)
    return {"short": before["train-0"], "after a node more": outcome(scene, train_0=3)["train-0"]}


async def two_roles_wait_for_each_other(scene: Scene) -> Outcome:
    """Room for the workers but not for the leader: nobody runs."""
    await scene.nodes(2)
    await scene.apply(train(role("worker", 2), role("leader", 1)))
    await scene.until_waiting("train-0")
    before = outcome(scene, train_0=3)
    assert scene.bound() == 0
    await scene.node("more")
    await scene.until_running("train-0", 3)
    return {"short": before["train-0"], "after a node more": outcome(scene, train_0=3)["train-0"]}


async def the_wrong_mix_is_no_quorum(scene: Scene) -> Outcome:
    """As many pods fit as the gang needs, but none of the role that it cannot do without."""
    await scene.nodes(3)
    leader = role("leader", 1, gpus=4, pod={"nodeSelector": {"kubernetes.io/hostname": "small"}})
    await scene.apply(train(role("worker", 3, minAvailable=1), leader))
    await scene.until_waiting("train-0")
    # The cause may follow: YuniKorn gathers its events for two seconds.
    await scene.until(lambda: "selector" in scene.said("train-0"), "the gang names the node selector")
    before = outcome(scene, train_0=4)
    assert scene.bound() == 0
    await scene.node("small", gpus=4)
    await scene.until_running("train-0", 4)
    return {"short": before["train-0"], "after a node for the leader": outcome(scene, train_0=4)["train-0"]}


async def two_gangs_that_compete_do_not_deadlock(scene: Scene) -> Outcome:
    await scene.nodes(3)
    await scene.apply(train(role("worker", 2), name="one"), train(role("worker", 2), name="two"))
    gangs = ("one-0", "two-0")

    def one_won() -> bool:
        return sorted((scene.running(each, 2), scene.waiting(each)) for each in gangs) == [
            (False, True),
            (True, False),
        ]

    # 1.35 lets a part of a gang hold room until it gives up; one of the two must win all the same.
    await scene.until(one_won, "one gang runs whole and the other waits", seconds=60)
    winner = next(each for each in gangs if scene.running(each, 2))
    (loser,) = set(gangs) - {winner}
    assert scene.bound(loser) == 0
    found = outcome(scene, one_0=2, two_0=2)
    await scene.delete(kinds.CLIQUESETS, winner.removesuffix("-0"))
    await scene.until_running(loser, 2)
    return {
        "winner": found[winner],
        "loser": found[loser],
        "loser after the winner": outcome(scene, **{loser.replace("-", "_"): 2})[loser],
    }


async def a_required_rack_holds_all_pods(scene: Scene) -> Outcome:
    for name, rack in (("a-0", "a"), ("b-0", "b"), ("b-1", "b")):
        await scene.node(name, rack=rack)
    await scene.apply(topology(rack=RACK), train(role("worker", 2), topologyConstraint=packed("rack")))
    if scene.judge.packs < 1:
        return await _refused(scene)
    await scene.until_running("train-0", 2)
    assert {pod["spec"]["nodeName"] for pod in scene.pods()} == {"b-0", "b-1"}
    return outcome(scene, train_0=2)


async def a_rack_too_small_is_waited_for(scene: Scene) -> Outcome:
    """The cluster has the room, but no single rack."""
    for name, rack in (("a-0", "a"), ("a-1", "a"), ("b-0", "b"), ("b-1", "b")):
        await scene.node(name, rack=rack)
    await scene.apply(topology(rack=RACK), train(topologyConstraint=packed("rack")))
    if scene.judge.packs < 1:
        return await _refused(scene)
    await scene.until_waiting("train-0")
    before = outcome(scene, train_0=3)
    assert scene.bound() == 0
    await scene.node("b-2", rack="b")
    await scene.until_running("train-0", 3)
    assert {pod["spec"]["nodeName"] for pod in scene.pods()} == {"b-0", "b-1", "b-2"}
    return {"short": before["train-0"], "after a node in the rack": outcome(scene, train_0=3)["train-0"]}


async def racks_within_a_zone(scene: Scene) -> Outcome:
    """The gang in one zone, each role in one rack: two levels at once."""
    places = {"x-a": 1, "x-b": 2, "y-a": 2, "y-b": 2}
    for place, count in places.items():
        zone = place.partition("-")[0]
        for index in range(count):
            await scene.node(f"{place}-{index}", zone=zone, rack=place)
    roles = [role(name, 2, topologyConstraint=packed("rack")) for name in ("prefill", "decode")]
    await scene.apply(topology(zone=ZONE, rack=RACK), train(*roles, topologyConstraint=packed("zone")))
    if scene.judge.packs < 2:
        return await _refused(scene)
    await scene.until_running("train-0", 4)
    racks: dict[str, set[str]] = {}
    for pod in scene.pods():
        clique = pod["metadata"]["labels"]["grove.io/podclique"]
        racks.setdefault(clique, set()).add(pod["spec"]["nodeName"].rpartition("-")[0])
    assert sorted(map(sorted, racks.values())) == [["y-a"], ["y-b"]]
    return outcome(scene, train_0=4)


async def a_priority_class_reaches_gang_and_pods(scene: Scene) -> Outcome:
    urgent: Manifest = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    urgent |= {"metadata": {"name": f"urgent-{scene.namespace}"}, "value": 1000}
    await scene.nodes(2)
    name = urgent["metadata"]["name"]
    await scene.apply(urgent, train(role("worker", 2), priorityClassName=name))
    await scene.until_running("train-0", 2)
    gang = scene.ledger.get(kinds.GANGS, "train-0")
    assert gang is not None
    assert gang["spec"]["priorityClassName"] == name
    assert [(pod["spec"]["priorityClassName"], pod["spec"]["priority"]) for pod in scene.pods()] == [
        (name, 1000)
    ] * 2
    groups = [item for of, item in scene.objects() if of.kind != "Workload"]
    if scene.judge.prioritizes:
        assert {item["spec"].get("priorityClassName") for item in groups} == {name}
    return outcome(scene, train_0=2)


async def a_set_is_scaled_out_and_in(scene: Scene) -> Outcome:
    await scene.nodes(4)
    await scene.apply(train(role("worker", 2)))
    await scene.until_running("train-0", 2)
    kept = {pod["metadata"]["uid"] for pod in scene.pods()}
    await scene.scale(kinds.CLIQUESETS, "train", 2)
    await scene.until_running("train-1", 2)
    out = outcome(scene, train_0=2, train_1=2)
    await scene.scale(kinds.CLIQUESETS, "train", 1)
    await scene.until(
        lambda: len(scene.ledger.all(kinds.PODS)) == 2 and not scene.ledger.get(kinds.GANGS, "train-1"),
        "the second replica is gone",
    )
    await scene.until(lambda: not _about(scene, "train-1"), "its scheduler objects are gone")
    assert {pod["metadata"]["uid"] for pod in scene.pods()} == kept
    return {**out, "train-0 after": outcome(scene, train_0=2)["train-0"]}


async def a_clique_is_scaled(scene: Scene) -> Outcome:
    await scene.nodes(3)
    await scene.apply(train(role("worker", 2, minAvailable=2)))
    await scene.until_running("train-0", 2)
    await scene.scale(kinds.CLIQUES, "train-0-worker", 3)
    await scene.until_running("train-0", 3)
    out = outcome(scene, train_0=3)
    await scene.scale(kinds.CLIQUES, "train-0-worker", 2)
    await scene.until(lambda: len(scene.ledger.all(kinds.PODS)) == 2, "the third pod is gone")
    await scene.until_running("train-0", 2)
    return {"out": out["train-0"], "in": outcome(scene, train_0=2)["train-0"]}


async def pods_beyond_the_minimum_do_not_hold_up_the_gang(scene: Scene) -> Outcome:
    """Room for the minimum and not for all: the gang runs, and the rest follows when there is room."""
    await scene.nodes(3)
    await scene.apply(train(role("worker", 3, minAvailable=2), role("leader", 1)))
    await scene.until(lambda: scene.phase("train-0") == "Running", "the gang runs with its minimum")
    await scene.until(lambda: scene.bound("train-0") == 3, "three pods are placed")
    before = outcome(scene, train_0=4)
    assert scene.condition(kinds.GANGS, "train-0", "Scheduled")["status"] == "True"
    await scene.node("more")
    await scene.until_running("train-0", 4)
    return {"minimum": before["train-0"], "after a node more": outcome(scene, train_0=4)["train-0"]}


async def a_lost_pod_is_replaced(scene: Scene) -> Outcome:
    await scene.nodes(3)
    await scene.apply(train(role("worker", 2), role("leader", 1)))
    await scene.until_running("train-0", 3)
    lost = scene.pods("train-0")[0]["metadata"]
    kept = {pod["metadata"]["uid"] for pod in scene.pods("train-0")} - {lost["uid"]}
    await scene.delete(kinds.PODS, lost["name"])
    await scene.until(
        lambda: lost["uid"] not in {pod["metadata"]["uid"] for pod in scene.ledger.all(kinds.PODS)},
        "the pod is gone",
    )
    await scene.until_running("train-0", 3)
    assert kept < {pod["metadata"]["uid"] for pod in scene.pods("train-0")}
    return outcome(scene, train_0=3)


async def a_deleted_set_leaves_nothing_behind(scene: Scene) -> Outcome:
    await scene.nodes(2)
    await scene.apply(train(role("worker", 1), role("leader", 1)))
    await scene.until_running("train-0", 2)
    assert all(scene.ledger.all(each) for each in scene.judge.resources)
    await scene.delete(kinds.CLIQUESETS, "train")
    await scene.until(lambda: _nothing(scene), "nothing is left")
    return {"left": "nothing"}


async def a_set_deleted_while_it_waits_leaves_nothing_behind(scene: Scene) -> Outcome:
    await scene.nodes(1)
    await scene.apply(train(role("worker", 2)))
    await scene.until_waiting("train-0")
    await scene.delete(kinds.CLIQUESETS, "train")
    await scene.until(lambda: _nothing(scene), "nothing is left")
    return {"left": "nothing"}


async def scheduler_objects_deleted_by_hand_come_back(scene: Scene) -> Outcome:
    if not scene.judge.objects:
        return {"objects": "none"}
    await scene.nodes(2)
    await scene.apply(train(role("worker", 1), role("leader", 1)))
    await scene.until_running("train-0", 2)
    await remade.delete_objects(scene)
    assert scene.bound("train-0") == 2
    return {"objects": "back", **outcome(scene, train_0=2)}


async def a_scheduler_object_edited_by_hand_is_mended(scene: Scene) -> Outcome:
    """Labels are ours on every kind; the minimum can be edited where the API server lets it."""
    if not scene.judge.objects:
        return {"objects": "none"}
    await scene.nodes(2)
    await scene.apply(train(role("worker", 2)))
    await scene.until_running("train-0", 2)
    await scene.ledger.quiet(0.5)
    of, item = scene.objects()[-1]
    wanted = item["metadata"]["labels"]
    mark = next(
        each for each in ("grove.io/scheduler-backend", "app.kubernetes.io/part-of") if each in wanted
    )
    await _edited_and_mended(scene, of, item, ("metadata", "labels", mark), "elsewhere")
    found = {"label": "put back"}
    if "minMember" in item["spec"]:
        await _edited_and_mended(scene, of, item, ("spec", "minMember"), 1)
        found["minimum"] = "put back"
    return {**found, **outcome(scene, train_0=2)}


async def _edited_and_mended(
    scene: Scene, of: Resource, item: Manifest, path: tuple[str, ...], value: object
) -> None:
    """Somebody writes another value into a field of ours; it is seen, and then ours is back."""
    name, ours = item["metadata"]["name"], _at(item, path)
    edited: object = value
    for step in reversed(path):
        edited = {step: edited}
    assert isinstance(edited, dict)
    await scene.edit(of, name, edited)
    await scene.until(
        lambda: any(seen.name == name and _at(seen.object, path) == value for seen in scene.ledger.of(of)),
        f"the edit of {'.'.join(path)} was seen",
    )
    await scene.until(
        lambda: _at(scene.ledger.get(of, name) or {}, path) == ours, f"{'.'.join(path)} is put back"
    )


def _at(item: Manifest, path: tuple[str, ...]) -> object:
    found: object = item
    for step in path:
        found = found.get(step) if isinstance(found, dict) else None
    return found


SCENARIOS: Final[dict[str, Scenario]] = {
    each.__name__.replace("_", " "): each
    for each in (
        a_gang_that_fits_is_bound_whole,
        one_pod_short_binds_none_and_a_new_node_releases_all,
        two_roles_wait_for_each_other,
        the_wrong_mix_is_no_quorum,
        two_gangs_that_compete_do_not_deadlock,
        a_required_rack_holds_all_pods,
        a_rack_too_small_is_waited_for,
        racks_within_a_zone,
        a_priority_class_reaches_gang_and_pods,
        a_set_is_scaled_out_and_in,
        a_clique_is_scaled,
        pods_beyond_the_minimum_do_not_hold_up_the_gang,
        a_lost_pod_is_replaced,
        a_deleted_set_leaves_nothing_behind,
        a_set_deleted_while_it_waits_leaves_nothing_behind,
        scheduler_objects_deleted_by_hand_come_back,
        remade.objects_deleted_while_a_gang_waits_do_not_keep_it_from_running,
        remade.a_pod_lost_after_the_objects_were_deleted_is_replaced,
        remade.objects_deleted_while_a_replacement_waits_do_not_keep_it_from_its_node,
        a_scheduler_object_edited_by_hand_is_mended,
    )
}


# What the stories look at


async def _refused(scene: Scene) -> Outcome:
    """A constraint that this scheduler cannot honour is refused, and nothing is created."""
    await scene.until(
        lambda: bool(scene.condition(kinds.CLIQUESETS, "train", "Accepted")), "the set is judged"
    )
    accepted = scene.condition(kinds.CLIQUESETS, "train", "Accepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "Unsupported")
    assert "required" in accepted["message"]
    assert not scene.pods()
    return {"train": "refused"}


def _status(scene: Scene, name: str) -> Manifest:
    return (scene.ledger.get(kinds.CLIQUESETS, name) or {}).get("status") or {}


def _about(scene: Scene, gang: str) -> list[str]:
    """The scheduler objects that a gang owns."""
    return [
        item["metadata"]["name"]
        for _, item in scene.objects()
        if any(owner["name"] == gang for owner in item["metadata"].get("ownerReferences") or ())
    ]


def _nothing(scene: Scene) -> bool:
    return not any(scene.ledger.all(each) for each in scene.judge.resources)


def _verdict(seen: Seen) -> bool:
    """Whether the scheduler itself says here that something does not fit."""
    types = ("PodScheduled", "PodGroupScheduled", "PodGroupInitiallyScheduled")
    found = [condition_of(seen.object, each) for each in types]
    return any((each.get("status"), each.get("reason")) == ("False", "Unschedulable") for each in found)


def _assert_told_in_time(scene: Scene, gang: str) -> None:
    """The gang says why within two seconds of the scheduler's first word."""
    known = [
        seen.at
        for seen in scene.ledger.history
        if seen.resource.kind in ("Pod", "PodGroup") and _verdict(seen)
    ]
    told = scene.ledger.first(
        kinds.GANGS,
        lambda each: (
            each["metadata"]["name"] == gang
            and condition_of(each, "Scheduled").get("reason") == "Unschedulable"
        ),
    )
    assert known, "no word of the scheduler was seen"
    assert told is not None
    assert told.at - min(known) < TOLD_SECONDS


def _assert_none_bound_before_it_was_told(scene: Scene) -> None:
    """From the first pod to the last, nothing was bound until the gang had said that it waits."""
    told = scene.ledger.first(
        kinds.GANGS, lambda each: condition_of(each, "Scheduled").get("reason") == "Unschedulable"
    )
    bound = scene.ledger.first(
        kinds.PODS, lambda each: bool(each["spec"].get("nodeName")) and not holds_a_place(each)
    )
    assert told is not None
    assert bound is not None
    assert bound.version > told.version
