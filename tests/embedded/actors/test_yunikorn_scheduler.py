"""The simulated YuniKorn: applications, placeholders, timeouts, rejections, and what it does in silence."""

import json
from collections.abc import Sequence

import pytest
from tests.embedded.actors.cluster_objects import GPU, add, bound, node, pod, scheduled_condition, ungate
from tests.embedded.actors.fake_server import CLOCK, FakeServer, passes, play

from grove.embedded.actors.schedulers.yunikorn import YuniKornOptions, YuniKornScheduler
from grove.embedded.actors.schedulers.yunikorn_install import configuration, install
from grove.embedded.actors.schedulers.yunikorn_rules import Queues, Rejected, application_of, task_groups
from grove.embedded.errors import Manifest

DOMAIN = "yunikorn.apache.org/"
WAITING = "request is waiting for cluster resources become available"
SMALL = """
partitions:
  - name: default
    placementrules: [{name: provided}]
    queues:
      - name: root
        queues:
          - {name: small, resources: {max: {nvidia.com/gpu: 2, vcore: 8}}}
          - {name: fair, properties: {application.sort.policy: fair}}
          - {name: open}
"""


def yunikorn(server: FakeServer) -> YuniKornScheduler:
    return YuniKornScheduler(server, CLOCK)


def groups(*pairs: tuple[str, int], gpu: int = 1) -> list[Manifest]:
    asked = {"cpu": "1", GPU: str(gpu)}
    return [{"name": name, "minMember": least, "minResource": asked} for name, least in pairs]


TWO = groups(("leader", 2), ("worker", 2))


def member(
    name: str,
    group: str = "",
    *,
    listed: object = TWO,
    policy: str = "placeholderTimeoutInSeconds=60 gangSchedulingStyle=Hard",
    app: str = "app",
    gated: bool = False,
    queue: str = "",
) -> Manifest:
    body = pod(name, gpu=1, gated=gated, schedulerName="yunikorn")
    body["metadata"]["labels"] = {DOMAIN + "app-id": app, **({DOMAIN + "queue": queue} if queue else {})}
    body["metadata"]["annotations"] = {
        DOMAIN + "task-groups": listed if isinstance(listed, str) else json.dumps(listed),
        DOMAIN + "schedulingPolicyParameters": policy,
        **({DOMAIN + "task-group-name": group} if group else {}),
    }
    return body


def two_roles(**fields: object) -> list[Manifest]:
    names = [(f"{role}-{i}", role) for role in ("leader", "worker") for i in range(2)]
    return [member(name, role, **fields) for name, role in names]  # type: ignore[arg-type]


def placed(server: FakeServer) -> tuple[int, int]:
    """How many real pods and how many placeholders have a node."""
    names = bound(server)
    held = sum(name.startswith("tg-") for name in names)
    return len(names) - held, held


def ended(server: FakeServer) -> set[tuple[str, str]]:
    """Reason and message of the pods that were ended."""
    statuses = [each.get("status") or {} for each in server.all("pods")]
    return {(each["reason"], each["message"]) for each in statuses if each.get("phase") == "Failed"}


def after(seconds: float, *objects: Manifest, options: YuniKornOptions | None = None) -> FakeServer:
    """The server when YuniKorn has looked at these objects for a while."""

    async def scenario(server: FakeServer) -> None:
        await install(server)
        await add(server, *objects)
        await passes(seconds)

    return play(scenario, lambda server: YuniKornScheduler(server, CLOCK, options=options))


def nodes(*gpus: int) -> Sequence[Manifest]:
    return [node(f"n{index}", gpu=count) for index, count in enumerate(gpus)]


def test_a_gang_that_fits_takes_over_all_its_places() -> None:
    server = after(3, *nodes(2, 2), *two_roles())
    assert placed(server) == (4, 0)
    assert not [each for each in server.all("pods") if each["metadata"]["name"].startswith("tg-")]


def test_one_place_short_holds_the_others_and_says_so_on_the_placeholder_alone() -> None:
    server = after(3, *nodes(2, 1), *two_roles())
    assert placed(server) == (0, 3)
    (short,) = [
        each["metadata"]["name"]
        for each in server.all("pods")
        if each["metadata"]["name"].startswith("tg-") and not each["spec"].get("nodeName")
    ]
    told = scheduled_condition(server, short)
    assert (told["status"], told["reason"], told["message"]) == ("False", "Unschedulable", WAITING)
    assert all(
        not scheduled_condition(server, f"{role}-{i}") for role in ("leader", "worker") for i in (0, 1)
    )


def test_the_minimum_of_each_group_counts_and_not_their_sum() -> None:
    listed = groups(
        (
            "leader",
            1,
        ),
        ("worker", 3),
    )
    wrong = [member(f"leader-{i}", "leader", listed=listed) for i in range(4)]
    server = after(3, *nodes(3), *wrong)
    assert placed(server) == (0, 3)


def test_gated_pods_start_nothing_and_the_first_open_gate_reserves_for_all() -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, *nodes(4), *two_roles(gated=True))
        await passes(2)
        assert len(server.all("pods")) == 4
        await ungate(server, "leader-0")
        await passes(2)

    assert placed(play(scenario, yunikorn)) == (1, 3)


def test_a_hard_timeout_ends_the_pods_and_gives_the_places_back() -> None:
    server = after(62, *nodes(2, 1), *two_roles())
    assert ended(server) == {
        ("ResourceReservationTimeout", "Scheduling has timed out due to insufficient resources")
    }
    assert placed(server) == (0, 0)
    assert len(server.all("pods")) == 4


def test_a_soft_timeout_places_pods_one_by_one() -> None:
    server = after(65, *nodes(2, 1), *two_roles(policy="placeholderTimeoutInSeconds=60"))
    assert placed(server) == (3, 0)


def test_gates_that_were_closed_longer_than_the_timeout_cost_the_gang() -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, *nodes(3), *two_roles(gated=True))
        await passes(100)
        for role in ("leader", "worker"):
            for index in (0, 1):
                await ungate(server, f"{role}-{index}")
        await passes(2)

    server = play(scenario, yunikorn)
    assert {reason for reason, _ in ended(server)} == {"ResourceReservationTimeout"}


@pytest.mark.parametrize(
    "listed",
    [
        "not json",
        "{}",
        json.dumps([{"minMember": 1, "minResource": {}}]),
        json.dumps([{"name": "a", "minMember": 0, "minResource": {}}]),
        json.dumps([{"name": "a", "minMember": 1}]),
    ],
)
def test_task_groups_with_one_mistake_make_an_ordinary_application(listed: str) -> None:
    server = after(3, *nodes(1), *two_roles(listed=listed))
    assert placed(server) == (1, 0)


@pytest.mark.parametrize(
    ("queue", "words"),
    [
        ("root.small", " queue root.small cannot fit application app"),
        ("root.fair", " queue root.fair cannot run application app with task group request"),
        ("root.nowhere", " failed to place application app"),
    ],
)
def test_a_gang_that_a_queue_cannot_take_is_rejected_for_good(queue: str, words: str) -> None:
    async def scenario(server: FakeServer) -> None:
        await server.create("/api/v1/namespaces/yunikorn/configmaps", configuration(SMALL))
        await add(server, *nodes(4), *two_roles(queue=queue))
        await passes(2)
        await add(server, member("late", "worker", queue="root.open"))
        await passes(2)

    server = play(scenario, yunikorn)
    assert ended(server) == {("ApplicationRejected", words)}
    assert placed(server) == (0, 0)


def test_the_id_of_a_failed_application_is_spent_unless_yunikorn_forgets() -> None:
    late = [member(f"late-{i}", "worker", listed=groups(("worker", 2))) for i in range(2)]

    def run(options: YuniKornOptions) -> tuple[int, int]:
        async def scenario(server: FakeServer) -> None:
            await add(server, *nodes(2), *two_roles())
            await passes(62)
            await add(server, *late)
            await passes(3)

        return placed(play(scenario, lambda server: YuniKornScheduler(server, CLOCK, options=options)))

    assert run(YuniKornOptions()) == (0, 0)
    assert run(YuniKornOptions(remembers_failures=False)) == (2, 0)


def test_pods_above_the_minimum_are_placed_like_ordinary_ones_afterwards() -> None:
    extra = [member(f"worker-{i}", "worker") for i in (2, 3)]
    server = after(3, *nodes(5), *two_roles(), *extra)
    assert placed(server) == (5, 0)


def test_applications_come_first_come_first_served() -> None:
    first = [member(f"a-{i}", "worker", listed=groups(("worker", 2)), app="a") for i in range(2)]
    second = [member(f"b-{i}", "worker", listed=groups(("worker", 2)), app="b") for i in range(2)]
    server = after(3, *nodes(3), *first, *second)
    assert placed(server) == (2, 1)
    assert {name for name in bound(server) if not name.startswith("tg-")} == {"a-0", "a-1"}


def test_the_id_of_an_application_is_looked_for_in_this_order() -> None:
    body: Manifest = {"metadata": {"namespace": "d", "labels": {}, "annotations": {}}}
    assert application_of(body) == "yunikorn-d-autogen"
    body["metadata"]["labels"]["applicationId"] = "c"
    assert application_of(body) == "c"
    body["metadata"]["annotations"][DOMAIN + "app-id"] = "b"
    assert application_of(body) == "b"
    body["metadata"]["labels"][DOMAIN + "app-id"] = "a"
    assert application_of(body) == "a"


def test_queues_are_chosen_by_the_rules_in_their_order() -> None:
    plain = Queues.read("")
    assert plain.place("app", "root.research", "serving") == "root.serving"
    rules = Queues.read(SMALL)
    assert rules.place("app", "root.open", "serving") == "root.open"
    with pytest.raises(Rejected):
        rules.place("app", "", "serving")
    rules.refuse_gang("app", "root.open", task_groups(member("x")))


def informed(server: FakeServer) -> list[str]:
    """What events say about requests, with the names of pods for their UIDs; repeated ones are marked."""
    names = {each["metadata"]["uid"]: each["metadata"]["name"] for each in server.all("pods")}
    found = []
    for event in server.all("events"):
        if event["reason"] == "Informational":
            uid = event["involvedObject"]["uid"]
            text = event["message"].replace(uid, names.get(uid, "gone")[:2])
            found.append(f"{text}{' again' if 'series' in event else ''}")
    return sorted(set(found))


def test_a_full_cluster_is_a_queue_without_room_and_the_pod_says_that_nodes_are_in_the_way() -> None:
    server = after(3, *nodes(2, 1), *two_roles())
    assert informed(server) == [
        "Request 'tg' does not fit in queue 'root.default' "
        f"(requested map[{GPU}:1 pods:1 vcore:1000], available map[memory:68719476736 {GPU}:0 pods:217 "
        "vcore:13000])"
    ]


def test_nodes_with_room_say_what_they_hold_against_a_pod_and_those_without_nothing() -> None:
    tainted = node("tainted", gpu=1)
    tainted["spec"] = {"taints": [{"key": "gpu", "value": "only", "effect": "NoSchedule"}]}
    cordoned = node("cordoned", gpu=1)
    cordoned["spec"] = {"unschedulable": True}
    chosen = [{**each, "nodeSelector": {"kind": "h100"}} for each in TWO]
    server = after(3, tainted, cordoned, node("full"), node("other", gpu=1), *two_roles(listed=chosen))
    (said,) = {each.removesuffix(" again") for each in informed(server)}
    assert said == (
        "Unschedulable request 'tg': failed plugin: 'NodeAffinity'\nnode(s) didn't match Pod's node "
        "affinity/selector (1x); failed plugin: 'TaintToleration'\nnode(s) had untolerated taint(s) (1x); "
    )


def test_a_share_that_is_used_up_is_said_in_an_event_alone_and_so_is_its_end() -> None:
    one = [
        member(f"a-{i}", "worker", listed=groups(("worker", 2)), app="a", queue="root.small") for i in (0, 1)
    ]
    two = [
        member(f"b-{i}", "worker", listed=groups(("worker", 2)), app="b", queue="root.small") for i in (0, 1)
    ]
    seen: list[list[str]] = []

    async def scenario(server: FakeServer) -> None:
        await server.create("/api/v1/namespaces/yunikorn/configmaps", configuration(SMALL))
        await add(server, *nodes(4), *one)
        await passes(2)
        await add(server, *two)
        await passes(2)
        waiting = [each for each in server.all("pods") if each["metadata"]["name"].startswith("tg-b")]
        assert len(waiting) == 2
        assert not any(scheduled_condition(server, each["metadata"]["name"]) for each in waiting)
        seen.append(informed(server))
        for each in one:
            await server.delete(
                f"/api/v1/namespaces/default/pods/{each['metadata']['name']}", {"gracePeriodSeconds": 0}
            )
        await passes(2)
        seen.append(informed(server))

    server = play(scenario, yunikorn)
    ((before,), after_it) = seen
    assert before.startswith("Request 'tg' does not fit in queue 'root.small' (requested map[")
    assert f" {GPU}:0 " in before
    assert after_it
    assert all(each.endswith(" again") for each in after_it), (
        "the second text is not kept, as by the real one"
    )
    assert {name for name in bound(server) if not name.startswith("tg-")} == {"b-0", "b-1"}
