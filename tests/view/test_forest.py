"""The read model: what is found becomes trees, each object in its place, with all that is known about it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from grove.api import kinds, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.scaling_group import PodCliqueScalingGroup
from grove.meta import Key, Manifest, owner_reference
from grove.testing import make
from grove.view.forest import forest
from grove.view.model import CliqueView, EventView, Forest, GangView, NodeView, ScalingGroupView
from grove.view.pods import ShownPod
from grove.view.world import World

#: An hour after `make` says that everything was created.
NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)


def cliqueset(name: str = "train", *, replicas: int = 1, namespace: str = "default") -> PodCliqueSet:
    return make.cliqueset(name, replicas=replicas, namespace=namespace)


def gang(name: str, *, of: str = "", status: Manifest | None = None, namespace: str = "default") -> PodGang:
    marks: dict[str, str] = {}
    if of:
        marks = {**labels.owned_by(of), labels.SET_REPLICA_INDEX: name.removeprefix(f"{of}-")}
    manifest = make.gang_manifest(name, {f"{name}-worker": 2}, labels=marks, namespace=namespace)
    return make.view(PodGang, {**manifest, "status": status or {}})


def scaled(name: str, group: str, replica: int, *, base: str = "train-0", of: str = "train") -> PodGang:
    marks = {
        **labels.owned_by(of),
        labels.SET_REPLICA_INDEX: "0",
        labels.BASE_POD_GANG: base,
        labels.SCALING_GROUP: group,
        labels.SCALING_GROUP_REPLICA_INDEX: str(replica),
    }
    return make.view(PodGang, make.gang_manifest(name, {f"{group}-{replica}-x": 1}, labels=marks))


def scaling_group(
    name: str,
    *,
    of: str = "train",
    set_replica: str = "0",
    replicas: int = 2,
    minimum: int = 1,
    roles: Sequence[str] = ("x",),
) -> PodCliqueScalingGroup:
    marks = {**labels.owned_by(of), labels.SET_REPLICA_INDEX: set_replica}
    spec: Manifest = {"replicas": replicas, "minAvailable": minimum, "cliqueNames": [*roles]}
    return make.view(
        PodCliqueScalingGroup, make.object_manifest(kinds.SCALING_GROUPS, name, spec, labels=marks)
    )


def clique(name: str, *, of: str, gang: str, group: str = "") -> PodClique:
    marks = {**labels.owned_by(of), labels.POD_GANG: gang}
    if group:
        number, _, _ = name.removeprefix(f"{group}-").partition("-")
        marks |= {labels.SCALING_GROUP: group, labels.SCALING_GROUP_REPLICA_INDEX: number}
    spec: Manifest = {"replicas": 2, "podSpec": {}}
    return make.view(PodClique, make.object_manifest(kinds.CLIQUES, name, spec, labels=marks))


def pod(
    name: str,
    *,
    gang: str,
    clique: str = "",
    node: str = "",
    status: Manifest | None = None,
    gone: bool = False,
    owned: bool = True,
) -> ShownPod:
    marks = {labels.POD_GANG: gang, labels.POD_CLIQUE: clique}
    manifest = make.object_manifest(kinds.PODS, name, {"nodeName": node}, labels=marks, deleted=gone)
    if owned:
        manifest["metadata"]["ownerReferences"] = [owner_reference(make.clique(clique), kinds.CLIQUES.gvk)]
    return make.view(ShownPod, {**manifest, "status": status or {}})


def scheduler_object(name: str, owner: PodGang, *, kind: str = "PodGroup") -> Manifest:
    return {
        "apiVersion": "scheduling.example.com/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": owner.namespace, "ownerReferences": [{"uid": owner.uid}]},
    }


Shape = Mapping[str, object]


def shape(found: Forest) -> dict[str, Shape | Sequence[str]]:
    """The names of a forest alone, below one another."""
    sets: dict[str, Shape | Sequence[str]] = {
        str(each.key): {
            **{gang.name: gang_shape(gang) for gang in each.gangs},
            **{clique.name: clique_shape(clique) for clique in each.cliques},
            **{group.name: group_shape(group) for group in each.scaling_groups},
        }
        for each in found.cliquesets
    }
    return {**sets, **{str(each.key): gang_shape(each) for each in found.gangs}}


def gang_shape(view: GangView) -> Shape:
    return {
        **{each.name: [] for each in view.objects},
        **{each.name: clique_shape(each) for each in view.cliques},
        **{each.name: group_shape(each) for each in view.scaling_groups},
        **{each.name: [] for each in view.pods},
        **{each.name: gang_shape(each) for each in view.scaled_gangs},
    }


def group_shape(view: ScalingGroupView) -> Shape:
    return {each.name: clique_shape(each) for each in view.cliques}


def clique_shape(view: CliqueView) -> Sequence[str]:
    return [each.name for each in view.pods]


OURS = gang("train-0", of="train")


@dataclass(frozen=True)
class Case:
    world: World
    want: Shape


CASES = {
    "nothing": Case(World([]), {}),
    "a set of which nothing exists yet": Case(World([cliqueset()]), {"default/train": {}}),
    "a set with everything below it": Case(
        World(
            [cliqueset()],
            [OURS],
            [clique("train-0-worker", of="train", gang="train-0")],
            [
                pod("b", gang="train-0", clique="train-0-worker"),
                pod("a", gang="train-0", clique="train-0-worker"),
            ],
            [scheduler_object("train-0-x", OURS)],
        ),
        {"default/train": {"train-0": {"train-0-x": [], "train-0-worker": ["a", "b"]}}},
    ),
    "replicas are in the order of their numbers": Case(
        World([cliqueset(replicas=11)], [gang(f"train-{number}", of="train") for number in (10, 2, 0)]),
        {"default/train": {"train-0": {}, "train-2": {}, "train-10": {}}},
    ),
    "sets come before gangs without a set, each by namespace and name": Case(
        World(
            [cliqueset("b"), cliqueset("a"), cliqueset("z", namespace="a")],
            [gang("solo"), gang("other", namespace="a")],
        ),
        {"a/z": {}, "default/a": {}, "default/b": {}, "a/other": {}, "default/solo": {}},
    ),
    "a gang that somebody else made, with pods that have no clique": Case(
        World(
            [], [gang("solo")], [], [pod("one", gang="solo", clique="solo-worker"), pod("two", gang="solo")]
        ),
        {"default/solo": {"one": [], "two": []}},
    ),
    "somebody else's gang that carries a set's label by chance": Case(
        World(
            [cliqueset()],
            [make.view(PodGang, make.gang_manifest("guest", {"g": 1}, labels={labels.PART_OF: "train"}))],
        ),
        {"default/train": {}, "default/guest": {}},
    ),
    "somebody else's gang with the name of a set's gang": Case(
        World(
            [cliqueset()],
            [gang("train-0")],
            [clique("train-0-worker", of="train", gang="train-0")],
            [
                pod("a", gang="train-0", clique="train-0-worker"),
                pod("theirs", gang="train-0", clique="train-0-worker", owned=False),
            ],
        ),
        {"default/train": {"train-0-worker": ["a"]}, "default/train-0": {"theirs": []}},
    ),
    "somebody else's gang with the name of a base gang": Case(
        World(
            [cliqueset()],
            [gang("train-0"), scaled("train-0-x-0", "train-0-x", 1)],
            [clique("train-0-x-1-worker", of="train", gang="train-0-x-0", group="train-0-x")],
            scaling_groups=[scaling_group("train-0-x")],
        ),
        {
            "default/train": {"train-0-x-0": {"train-0-x-1-worker": []}, "train-0-x": {}},
            "default/train-0": {},
        },
    ),
    "a set's gang with the name of another set's gang": Case(
        World(
            [cliqueset("train"), cliqueset("train-0-x")],
            [gang("train-0-x-0", of="train-0-x")],
            [clique("train-0-x-1-worker", of="train", gang="train-0-x-0", group="train-0-x")],
            [pod("a", gang="train-0-x-0", clique="train-0-x-1-worker")],
        ),
        {"default/train": {"train-0-x-1-worker": ["a"]}, "default/train-0-x": {"train-0-x-0": {}}},
    ),
    "a gang whose set is gone": Case(World([], [OURS]), {"default/train-0": {}}),
    "a clique whose gang does not exist": Case(
        World(
            [cliqueset()],
            [],
            [clique("train-0-worker", of="train", gang="train-0")],
            [pod("a", gang="train-0", clique="train-0-worker")],
        ),
        {"default/train": {"train-0-worker": ["a"]}},
    ),
    "scaling groups with their minimum, and scaled gangs, below the base gang": Case(
        World(
            [cliqueset()],
            [
                scaled("train-0-x-10", "train-0-x", 11),
                scaled("train-0-x-2", "train-0-x", 3),
                scaled("train-0-decode-0", "train-0-decode", 1),
                OURS,
            ],
            [
                clique("train-0-x-3-worker", of="train", gang="train-0-x-2", group="train-0-x"),
                clique("train-0-x-0-worker", of="train", gang="train-0", group="train-0-x"),
                clique("train-0-router", of="train", gang="train-0"),
            ],
            [pod("a", gang="train-0", clique="train-0-x-0-worker")],
            scaling_groups=[scaling_group("train-0-x"), scaling_group("train-0-decode", replicas=0)],
        ),
        {
            "default/train": {
                "train-0": {
                    "train-0-router": [],
                    "train-0-x": {"train-0-x-0-worker": ["a"]},
                    "train-0-decode": {},
                    "train-0-decode-0": {},
                    "train-0-x-2": {"train-0-x-3-worker": []},
                    "train-0-x-10": {},
                }
            }
        },
    ),
    "each replica has its own scaling groups and scaled gangs": Case(
        World(
            [cliqueset(replicas=2)],
            [OURS, gang("train-1", of="train"), scaled("train-1-x-0", "train-1-x", 1, base="train-1")],
            scaling_groups=[scaling_group("train-1-x", set_replica="1"), scaling_group("train-0-x")],
        ),
        {"default/train": {"train-0": {"train-0-x": {}}, "train-1": {"train-1-x": {}, "train-1-x-0": {}}}},
    ),
    "scaling groups and scaled gangs without a base gang": Case(
        World(
            [cliqueset()],
            [scaled("train-0-x-0", "train-0-x", 1)],
            scaling_groups=[scaling_group("train-0-x"), scaling_group("train-x", set_replica="none")],
        ),
        {"default/train": {"train-0-x-0": {}, "train-x": {}, "train-0-x": {}}},
    ),
    "cliques of a scaling group that is gone": Case(
        World([cliqueset()], [OURS], [clique("w", of="train", gang="train-0", group="train-0-x")]),
        {"default/train": {"train-0": {"w": []}}},
    ),
    "base and scaled gangs whose set is gone": Case(
        World([], [OURS, scaled("train-0-x-0", "train-0-x", 1)]),
        {"default/train-0": {"train-0-x-0": {}}},
    ),
    "gangs that say that they wait for one another": Case(
        World(
            [cliqueset()],
            [scaled("train-0", "train-0-x", 1, base="train-1"), scaled("train-1", "train-0-x", 2)],
        ),
        {"default/train": {"train-0": {}, "train-1": {}}},
    ),
    "scheduler objects by kind and name, and none of others": Case(
        World(
            [],
            [gang("solo")],
            objects=[
                scheduler_object("b", gang("solo"), kind="Workload"),
                scheduler_object("c", gang("solo")),
                scheduler_object("a", gang("solo"), kind="Workload"),
                scheduler_object("elsewhere", gang("another")),
            ],
        ),
        {"default/solo": {"c": [], "a": [], "b": []}},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_everything_stands_in_its_place(case: Case) -> None:
    found = shape(forest(case.world, now=NOW))
    # As text, because the order counts.
    assert json.dumps(found, indent=1) == json.dumps(case.want, indent=1)


READY: Manifest = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def test_pods_are_counted_while_they_fill_their_place() -> None:
    name = "train-0-worker"
    pods = [
        pod("a", gang="train-0", clique=name, node="n1", status=READY),
        pod("b", gang="train-0", clique=name, node="n1"),
        pod("c", gang="train-0", clique=name),
        pod("d", gang="train-0", clique=name, node="n1", status=READY, gone=True),
        pod("e", gang="train-0", clique=name, node="n1", status={"phase": "Failed"}),
        pod("stranger", gang="train-0", clique=name, node="n1", status=READY, owned=False),
    ]
    world = World([cliqueset()], [OURS], [clique(name, of="train", gang="train-0")], pods)
    ((found,),) = [each.gangs for each in forest(world, now=NOW).cliquesets]
    assert (found.pod_count, found.placed, found.ready, found.minimum) == (3, 2, 1, 2)
    assert [(each.replicas, each.ready) for each in found.cliques] == [(2, 1)]


def test_a_set_counts_its_placed_gangs() -> None:
    placed: Manifest = {"phase": "Starting", "conditions": [{"type": "Scheduled", "status": "True"}]}
    gangs = [gang("train-0", of="train", status=placed), gang("train-1", of="train")]
    (found,) = forest(World([cliqueset(replicas=3)], gangs), now=NOW).cliquesets
    assert (found.replicas, found.available, found.placed) == (3, 0, 1)
    assert [(each.replica, each.phase) for each in found.gangs] == [(0, "Starting"), (1, "Pending")]


def test_a_set_counts_its_scaled_gangs_too() -> None:
    gangs = [OURS, scaled("train-0-x-0", "train-0-x", 2)]
    (found,) = forest(World([cliqueset()], gangs), now=NOW).cliquesets
    assert (found.gang_count, found.placed) == (2, 0)
    (base,) = found.gangs
    assert (base.replica, base.scaling_group, base.group_replica) == (0, "", None)
    (further,) = base.scaled_gangs
    assert (further.replica, further.scaling_group, further.group_replica) == (0, "train-0-x", 2)


def test_the_available_replicas_of_a_scaling_group_are_counted_by_its_pods() -> None:
    """Replica 0 has too few ready pods, 1 lacks a clique, 2 is available, 3 is too much."""
    name = "train-0-x"
    there = [f"{name}-0-x", f"{name}-0-y", f"{name}-1-x", f"{name}-2-x", f"{name}-2-y"]
    there += [f"{name}-3-x", f"{name}-3-y"]
    cliques = [clique(each, of="train", gang="train-0", group=name) for each in there]
    pods = [
        pod(f"{each}-{number}", gang="train-0", clique=each, node="n1", status=READY)
        for each in there
        for number in range(2)
        if (each, number) != (f"{name}-0-y", 1)
    ]
    group = scaling_group(name, replicas=3, minimum=2, roles=("x", "y"))
    world = World([cliqueset()], [OURS], cliques, pods, scaling_groups=[group])
    ((found,),) = [each.gangs[0].scaling_groups for each in forest(world, now=NOW).cliquesets]
    assert (found.replicas, found.minimum, found.available, found.why) == (3, 2, 1, ())


def test_a_gang_without_a_set_is_no_replica() -> None:
    guest = make.gang_manifest("guest", {"g": 1}, labels={labels.SET_REPLICA_INDEX: "3"})
    (found,) = forest(World([], [make.view(PodGang, guest)]), now=NOW).gangs
    assert found.replica is None


def test_every_object_has_an_age_where_it_says_when_it_was_made() -> None:
    world = World([cliqueset()], [OURS], objects=[scheduler_object("x", OURS)])
    (found,) = forest(world, now=NOW).cliquesets
    assert found.age == timedelta(hours=1)
    assert found.gangs[0].age == timedelta(hours=1)
    assert found.gangs[0].objects[0].age is None


def test_a_pod_knows_its_node_as_far_as_nodes_were_looked_at() -> None:
    node: Manifest = {
        "metadata": {
            "name": "n1",
            "labels": {"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/rack": "r"},
        },
        "status": {"capacity": {"nvidia.com/gpu": "8"}},
    }
    pods = [pod("a", gang="solo", node="n1"), pod("b", gang="solo", node="n2"), pod("c", gang="solo")]
    (found,) = forest(World([], [gang("solo")], pods=pods, nodes=[node]), now=NOW).gangs
    assert [each.node for each in found.pods] == [NodeView("n1", "z", "r", 8), NodeView("n2"), None]


def test_a_pod_with_a_stuck_container_is_called_by_what_it_is_stuck_at() -> None:
    stuck = {"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "again"}}}
    one = pod("a", gang="solo", node="n1", status={"phase": "Running", "containerStatuses": [stuck]})
    (found,) = forest(World([], [gang("solo")], pods=[one]), now=NOW).gangs
    assert [(each.phase, each.active, [*map(str, each.why)]) for each in found.pods] == [
        ("CrashLoopBackOff", True, ["container main: again"])
    ]


def event(about: str, reason: str, **times: str) -> Manifest:
    return {
        "type": "Warning",
        "reason": reason,
        "message": f"{reason} happened",
        "involvedObject": {"uid": about},
        **times,
    }


def test_one_gang_can_be_described_with_all_its_conditions_events_and_pods() -> None:
    said = [
        {"type": "Initialized", "status": "True"},
        {"type": "Scheduled", "status": "False", "reason": "Unschedulable", "message": "no room"},
        {"type": "StrayPods", "status": "True", "message": "one: owned by nobody"},
    ]
    solo = gang("solo", status={"phase": "Pending", "conditions": said})
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no GPUs"}
    one = pod("one", gang="solo", status={"phase": "Pending", "conditions": [refused]})
    events = [
        event(solo.uid, "Old", lastTimestamp="2026-01-01T00:10:00Z"),
        event("another", "Elsewhere", lastTimestamp="2026-01-01T00:10:00Z"),
        event(solo.uid, "New", eventTime="2026-01-01T00:20:00.500000Z"),
        event(solo.uid, "Timeless"),
        event(one.uid, "FailedScheduling", lastTimestamp="2026-01-01T00:10:00Z"),
    ]
    (found,) = forest(World([], [solo], pods=[one], events=events), now=NOW).gangs
    assert (found.kind, found.key, found.phase) == ("PodGang", Key("default", "solo"), "Pending")
    assert [str(each) for each in found.why] == ["not placed: no room", "stray pods: one: owned by nobody"]
    assert [each.type for each in found.conditions] == ["Initialized", "Scheduled", "StrayPods"]
    assert [each.reason for each in found.events] == ["New", "Old", "Timeless"]
    assert found.events[1] == EventView(
        "Warning", "Old", "Old happened", 1, datetime(2026, 1, 1, 0, 10, tzinfo=UTC)
    )
    (placed,) = found.pods
    assert [str(each) for each in placed.why] == ["not placed: no GPUs"]
    assert [each.reason for each in placed.events] == ["FailedScheduling"]


def test_the_order_in_which_things_were_found_does_not_matter() -> None:
    world = World(
        [cliqueset("a"), cliqueset("b")],
        [gang("a-0", of="a"), gang("b-0", of="b"), gang("solo")],
        [clique("a-0-worker", of="a", gang="a-0"), clique("a-0-head", of="a", gang="a-0")],
        [pod("x", gang="a-0", clique="a-0-head"), pod("y", gang="a-0", clique="a-0-head")],
    )
    turned = replace(
        world,
        cliquesets=world.cliquesets[::-1],
        gangs=world.gangs[::-1],
        cliques=world.cliques[::-1],
        pods=world.pods[::-1],
    )
    assert forest(turned, now=NOW) == forest(world, now=NOW)
