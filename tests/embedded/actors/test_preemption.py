"""Who goes when something more urgent comes: the rules of the simulated schedulers that preempt."""

import pytest
from tests.embedded.actors.cluster_objects import add, bound, node, pod
from tests.embedded.actors.fake_server import CLOCK, FakeServer, passes, play
from tests.embedded.actors.test_kai_scheduler import install_kai, kai

from grove.embedded.actors.schedulers.native import NativeScheduler
from grove.embedded.errors import Manifest

ZONE = "topology.kubernetes.io/zone"
GROUPS = "scheduling.k8s.io/v1alpha2"


def native(server: FakeServer) -> NativeScheduler:
    return NativeScheduler(server, CLOCK, minor="1.36")


def gang(name: str, count: int, priority: int = 0, **spec: object) -> list[Manifest]:
    """A PodGroup that is preempted as a whole, with as many pods of 3 CPUs as it needs."""
    body = {"schedulingPolicy": {"gang": {"minCount": count}}, "priority": priority, **spec}
    body.setdefault("disruptionMode", "PodGroup")
    meta = {"name": name, "namespace": "default"}
    group: Manifest = {"apiVersion": GROUPS, "kind": "PodGroup", "metadata": meta, "spec": body}
    link = {"podGroupName": name}
    pods = [pod(f"{name}-{i}", cpu="3", priority=priority, schedulingGroup=link) for i in range(count)]
    return [group, *pods]


def leaving(server: FakeServer) -> set[str]:
    """Pods that are being deleted, all of which must say that they were preempted."""
    found = [each for each in server.all("pods") if each["metadata"].get("deletionTimestamp")]
    for each in found:
        (target,) = [c for c in each["status"]["conditions"] if c["type"] == "DisruptionTarget"]
        assert (target["status"], target["reason"]) == ("True", "PreemptionByScheduler")
    return {each["metadata"]["name"] for each in found}


def preempted(*steps: list[Manifest]) -> set[str]:
    """Which pods are leaving after these objects came one after the other, with a while between them."""

    async def scenario(server: FakeServer) -> None:
        for step in steps:
            await add(server, *step)
            await passes(30)

    return leaving(play(scenario, native))


FULL = [node("n1", cpu="6"), node("n2", cpu="6")]


def test_a_group_that_is_disrupted_as_a_whole_goes_as_a_whole() -> None:
    assert preempted([*FULL, *gang("calm", 4)], gang("urgent", 1, 10)) == {f"calm-{i}" for i in range(4)}


def test_of_a_group_that_is_disrupted_by_pod_only_as_many_go_as_must() -> None:
    calm = gang("calm", 4, disruptionMode="Pod")
    assert len(preempted([*FULL, *calm], gang("urgent", 1, 10))) == 1


def test_the_least_important_group_goes() -> None:
    running = [*FULL, *gang("less", 2, 1), *gang("more", 2, 2)]
    assert preempted(running, gang("urgent", 2, 10)) == {"less-0", "less-1"}


@pytest.mark.parametrize("priority", [0, 5])
def test_nobody_goes_for_a_group_of_the_same_or_a_lower_priority(priority: int) -> None:
    assert preempted([*FULL, *gang("calm", 4, 5)], gang("later", 1, priority)) == set()


def test_nobody_goes_where_it_would_not_help() -> None:
    assert preempted([*FULL, *gang("calm", 4)], gang("urgent", 5, 10)) == set()


def test_a_group_with_a_topology_constraint_preempts_nobody_in_1_36() -> None:
    nodes = [node(name, cpu="6", labels={ZONE: "a"}) for name in ("n1", "n2")]
    constraint = {"topology": [{"key": ZONE}]}
    urgent = gang("urgent", 1, 10, schedulingConstraints=constraint)
    assert preempted([*nodes, *gang("calm", 4)], urgent) == set()


def test_pods_that_are_already_leaving_are_enough() -> None:
    running = [*FULL, *gang("one", 2), *gang("two", 2)]
    more = [node("n3", cpu="1"), node("n4", cpu="1")]
    # Nodes that are of no use wake the urgent group while its victims stop.
    assert len(preempted(running, gang("urgent", 1, 10), more)) == 2


def test_an_urgent_pod_goes_where_the_least_important_pods_are() -> None:
    first = pod("first", cpu="6", priority=2, nodeSelector={"kubernetes.io/hostname": "n1"})
    second = pod("second", cpu="6", priority=1, nodeSelector={"kubernetes.io/hostname": "n2"})
    nodes = [node(name, cpu="6", labels={"kubernetes.io/hostname": name}) for name in ("n1", "n2")]
    assert preempted([*nodes, first, second], [pod("urgent", cpu="3", priority=10)]) == {"second"}


def test_a_pod_that_never_preempts_waits() -> None:
    patient = pod("patient", cpu="3", priority=10, preemptionPolicy="Never")
    assert preempted([node("n1", cpu="3"), pod("calm", cpu="3")], [patient]) == set()


def test_an_urgent_pod_is_bound_when_its_victim_is_gone() -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1", cpu="3"), pod("calm", cpu="3", terminationGracePeriodSeconds=0))
        await passes(5)
        await add(server, pod("urgent", cpu="3", priority=10))
        await passes(5)

    assert bound(play(scenario, native)) == {"urgent": "n1"}


# KAI ----------------------------------------------------------------------------------------------


def kai_gang(name: str, count: int, **spec: object) -> list[Manifest]:
    meta = {"name": name, "namespace": "default"}
    body = {"queue": "default-queue", "minMember": count, **spec}
    group: Manifest = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": meta,
        "spec": body,
    }
    pods = [pod(f"{name}-{i}", gpu=1, schedulerName="kai-scheduler") for i in range(count)]
    for each in pods:
        each["metadata"]["annotations"] = {"pod-group-name": name}
    return [group, *pods]


def priority_class(name: str, value: int) -> Manifest:
    meta = {"name": name}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value}


@pytest.mark.parametrize(
    ("calm", "gone"),
    [
        ({}, {"calm-0", "calm-1"}),
        ({"preemptibility": "non-preemptible"}, set()),
        ({"priorityClassName": "build"}, set()),
        ({"priorityClassName": "build", "preemptibility": "preemptible"}, {"calm-0", "calm-1"}),
        ({"queue": "other"}, set()),
    ],
    ids=["lower", "never", "from 100 on never", "from 100 on if it says so", "another queue"],
)
def test_kai_preempts_whole_groups_of_the_same_queue_that_may_be(
    calm: dict[str, str], gone: set[str]
) -> None:
    async def scenario(server: FakeServer) -> None:
        await install_kai(server)
        for each in (priority_class("build", 100), priority_class("urgent", 1000)):
            await server.create("/apis/scheduling.k8s.io/v1/priorityclasses", each)
        other = {"parentQueue": "default-parent-queue"}
        meta = {"name": "other"}
        await add(
            server, {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": meta, "spec": other}
        )
        await add(server, node("n1", gpu=2), *kai_gang("calm", 2, **calm))
        await passes(5)
        assert set(bound(server)) == {"calm-0", "calm-1"}
        await add(server, *kai_gang("urgent", 1, priorityClassName="urgent"))
        await passes(5)

    assert leaving(play(scenario, kai)) == gone
