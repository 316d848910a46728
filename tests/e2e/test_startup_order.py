"""SO1 to SO4 on real control planes: the waiting program is a process with the pod's own account.

Judged by everything that a watch told: whenever a pod got past its waiting container, its parents had enough
ready pods at that moment. How long pods take to start differs from pod to pod.
"""

from __future__ import annotations

from typing import Final

import pytest
from tests.e2e.conftest import Plane
from tests.e2e.plane import ACCOUNTS, Act
from tests.e2e.scene import Scene, condition_of, holds_a_place, role, train
from tests.scenarios.startup import CASES, CLIQUES, NAME, PODS, Case, clique_of, waits, without_order
from tests.scenarios.stories import STAGES

from grove.api import kinds
from grove.api.cliqueset import IN_ORDER
from grove.embedded.errors import ApiError
from grove.embedded.remote import RemoteClient, address_from
from grove.meta import Manifest, Resource, resource

pytestmark = pytest.mark.real

RBAC: Final = (kinds.ROLES, kinds.ROLE_BINDINGS)
SECRETS: Final = resource("", "v1", "Secret")
NOT_READY: Final = "embedded.grove.io/not-ready"
ROLE: Final = "grove.io:pcs:train"
#: Three roles one after the other, up to two seconds each, and ten programs that start on few cores.
PATIENCE: Final = 60.0


def jittered(workload: Manifest, seconds: float = 2.0) -> Manifest:
    """The workload, whose pods take up to so long to start, each its own time."""
    for each in workload["spec"]["template"]["cliques"]:
        each["annotations"] = {"embedded.grove.io/startup-jitter": f"{seconds}s"}
    return workload


def is_ready(pod: Manifest) -> bool:
    return condition_of(pod, "Ready").get("status") == "True" and not pod["metadata"].get("deletionTimestamp")


def has_started(pod: Manifest) -> bool:
    """Whether it is past its waiting container: from then on its containers start."""
    status = pod.get("status") or {}
    waited = [each for each in status.get("initContainerStatuses") or () if each["name"] == "grove-initc"]
    own = status.get("containerStatuses") or ()
    return any("terminated" in each["state"] for each in waited) or any(
        each["state"].keys() & {"running", "terminated"} for each in own
    )


def started(scene: Scene) -> list[tuple[str, dict[str, int]]]:
    """Every pod that started, as its clique and the ready pods that each clique had at that moment, in order."""
    ready: dict[str, str] = {}
    found: dict[str, tuple[str, dict[str, int]]] = {}
    for seen in scene.ledger.of(kinds.PODS):
        assert not seen.missed, "the watch has a gap"
        pod, uid = seen.object, seen.object["metadata"]["uid"]
        if holds_a_place(pod):
            continue
        if uid not in found and has_started(pod):
            counts = dict.fromkeys(CLIQUES, 0)
            for clique in ready.values():
                counts[clique] += 1
            found[uid] = clique_of(pod), counts
        if seen.type != "DELETED" and is_ready(pod):
            ready[uid] = clique_of(pod)
        else:
            ready.pop(uid, None)
    return list(found.values())


def violations(case: Case, starts: list[tuple[str, dict[str, int]]]) -> list[str]:
    """Which pods started before enough pods of a parent were ready."""
    return [
        f"{child} while {counts[parent]} of {parent} were ready"
        for child, counts in starts
        for parent in case.after.get(child, ())
        if counts[parent] < case.needed(parent)
    ]


async def all_ready(scene: Scene, count: int = PODS) -> None:
    await scene.until(
        lambda: [is_ready(pod) for pod in scene.pods()] == [True] * count,
        f"{count} pods are ready",
        seconds=PATIENCE,
    )


async def in_their_order(act: Act, name: str) -> None:
    scene, case = act.scene, CASES[name]
    await scene.nodes(PODS)
    await scene.apply(jittered(case.workload(STAGES[scene.judge.name])))
    await all_ready(scene)
    starts = started(scene)
    assert sorted(child for child, _ in starts) == sorted(clique_of(pod) for pod in scene.pods())
    assert {child for child, _ in starts} == CLIQUES
    assert violations(case, starts) == []
    await scene.until(lambda: scene.phase(f"{NAME}-0") == "Running", "the gang runs")


@pytest.mark.parametrize("name", CASES)
def test_no_pod_starts_before_its_parents_are_ready(plane: Plane, name: str) -> None:
    plane.play(name.lower(), lambda act: in_their_order(act, name))


@pytest.mark.parametrize("name", CASES)
def test_no_pod_starts_before_its_parents_are_ready_with_the_scheduler_of_others(
    other_plane: Plane, name: str
) -> None:
    other_plane.play(name.lower(), lambda act: in_their_order(act, name))


@pytest.mark.parametrize("name", ["SO2", "SO4"])
def test_a_scaled_gang_waits_for_itself_alone_and_others_for_the_minimum(plane: Plane, name: str) -> None:
    case = CASES[name]

    def of(scene: Scene, prefix: str) -> list[Manifest]:
        return [pod for pod in scene.pods() if clique_of(pod).startswith(prefix)]

    async def release(scene: Scene, pod: Manifest) -> None:
        mark = {"metadata": {"annotations": {NOT_READY: "false"}}}
        await scene.edit(kinds.PODS, pod["metadata"]["name"], mark)

    async def story(act: Act) -> None:
        scene = act.scene
        await scene.nodes(PODS)
        workload = case.workload(STAGES[scene.judge.name])
        workload["spec"]["template"]["cliques"][0]["annotations"] = {NOT_READY: "true"}
        await scene.apply(workload)
        # The base gang's first role runs and never gets ready.
        await scene.until(
            lambda: [is_ready(pod) for pod in of(scene, "sg-x-1")] == [True] * 4, "the scaled gang is ready"
        )
        await scene.until(lambda: all(map(has_started, of(scene, "pc-a"))), "the first role runs")
        assert {child for child, _ in started(scene)} == {"pc-a", "sg-x-1-pc-b", "sg-x-1-pc-c"}
        one, other = of(scene, "pc-a")
        await release(scene, one)
        await all_ready_but(scene, other)
        assert violations(case, started(scene)) == []
        await release(scene, other)
        await all_ready(scene)

    plane.play(f"held-{name.lower()}", story)


async def all_ready_but(scene: Scene, other: Manifest) -> None:
    name = other["metadata"]["name"]
    await scene.until(
        lambda: {pod["metadata"]["name"] for pod in scene.pods() if not is_ready(pod)} == {name},
        f"all but {name} are ready",
        seconds=PATIENCE,
    )


# Who gets what ------------------------------------------------------------------------------------


async def names_of(scene: Scene, of: Resource) -> list[str]:
    listing = await scene.user.list(of, type=dict, namespace=scene.namespace)
    return sorted(item["metadata"]["name"] for item in listing.items)


async def left_for_waiting(scene: Scene) -> dict[str, list[str]]:
    """What a namespace holds of the kinds that waiting needs."""
    return {of.kind: await names_of(scene, of) for of in (*RBAC, SECRETS, ACCOUNTS)}


NOTHING: Final[dict[str, list[str]]] = {
    "Role": [],
    "RoleBinding": [],
    "Secret": [],
    "ServiceAccount": ["default"],
}


def test_a_set_that_needs_no_order_gets_no_container_account_or_role(plane: Plane) -> None:
    """Its pods start as it happens: what the tests above would notice if nobody waited."""
    case = CASES["SO1"]

    async def story(act: Act) -> None:
        scene = act.scene
        await scene.nodes(PODS)
        await scene.apply(jittered(without_order(case.workload(STAGES[scene.judge.name]))))
        await all_ready(scene)
        assert [pod["spec"].get("initContainers") for pod in scene.pods()] == [None] * PODS
        volumes = {each["name"].partition("-")[0] for pod in scene.pods() for each in pod["spec"]["volumes"]}
        # The API server's own, kube-api-access.
        assert volumes == {"kube"}
        assert await left_for_waiting(scene) == NOTHING
        assert violations(case, started(scene)) != []

    plane.play("any-order", story)


def pair(account: str) -> Manifest:
    """A frontend of two that is not ready, then two workers with an account of their own."""
    frontend = {**role("fe", 2), "annotations": {NOT_READY: "true"}}
    worker = role("work", 2)
    worker["spec"]["podSpec"]["serviceAccountName"] = account
    return train(frontend, worker, cliqueStartupType=IN_ORDER)


async def may_list(act: Act, account: str, of: Resource, namespace: str = "") -> bool:
    """Whether an account of the act's namespace may list a kind, by the API server's own answer."""
    admin = RemoteClient(address_from(act.world.control.kubeconfig()), agent="test")
    try:
        async with admin.account(act.scene.namespace, account) as client:
            await client.list(of.path(namespace or act.scene.namespace))
    except ApiError as error:
        if error.status != 403:
            raise
        return False
    finally:
        await admin.close()
    return True


def test_who_waits_may_see_pods_and_nothing_else_whatever_somebody_does_to_the_role(plane: Plane) -> None:
    async def waiting(act: Act) -> None:
        """Both workers say that they wait."""
        scene, world = act.scene, act.world
        await scene.until(
            lambda: sum(bool(pod["spec"].get("nodeName") and waits(pod)) for pod in scene.pods()) == 2,
            "two workers are on nodes",
        )
        names = [pod["metadata"]["name"] for pod in scene.pods() if waits(pod)]

        def said() -> list[list[str]]:
            return [world.kubelet.log_lines(scene.namespace, name, "grove-initc")[-1:] for name in names]

        wanted = [["waiting for train-0-fe: 0 of 2 ready"]] * 2
        await world.processes.until_said(lambda: said() == wanted, seconds=PATIENCE)

    async def story(act: Act) -> None:
        scene = act.scene
        await scene.nodes(4)
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "mine"}}
        await scene.apply(account, pair("mine"))
        await waiting(act)
        assert await left_for_waiting(scene) == {
            **NOTHING,
            "Role": [ROLE],
            "RoleBinding": [ROLE],
            "ServiceAccount": ["default", "mine"],
        }
        assert await may_list(act, "mine", kinds.PODS)
        assert not await may_list(act, "mine", SECRETS)
        assert not await may_list(act, "mine", kinds.PODS, "default")
        assert not await may_list(act, "default", kinds.PODS)

        # Somebody takes the permission away; pods that come afterwards wait all the same.
        former = {(scene.ledger.get(of, ROLE) or {})["metadata"]["uid"] for of in RBAC}
        await scene.delete(kinds.ROLE_BINDINGS, ROLE)
        await scene.delete(kinds.ROLES, ROLE)
        gone = next(pod for pod in scene.pods() if waits(pod))["metadata"]
        await scene.delete(kinds.PODS, gone["name"])
        await scene.until(
            lambda: (
                gone["uid"] not in {pod["metadata"]["uid"] for pod in scene.pods()} and len(scene.pods()) == 4
            ),
            "the pod is replaced",
        )
        await waiting(act)
        assert not former & {(scene.ledger.get(of, ROLE) or {})["metadata"]["uid"] for of in RBAC}

        for pod in scene.pods():
            if not waits(pod):
                mark = {"metadata": {"annotations": {NOT_READY: "false"}}}
                await scene.edit(kinds.PODS, pod["metadata"]["name"], mark)
        await all_ready(scene, 4)
        (message,) = {
            each["state"]["terminated"]["message"]
            for pod in scene.pods()
            for each in pod["status"].get("initContainerStatuses") or ()
        }
        assert message == "nothing to wait for any more: train-0-fe: 2 of 2 ready"

        await scene.delete(kinds.CLIQUESETS, "train")
        await scene.until(lambda: not scene.ledger.all(kinds.CLIQUESETS), "the set is gone")
        followed = (kinds.PODS, *RBAC)
        await scene.until(
            lambda: not any(scene.ledger.all(of) for of in followed), "all that belongs to it is gone"
        )
        assert await left_for_waiting(scene) == {**NOTHING, "ServiceAccount": ["default", "mine"]}

    plane.play("who-may", story, also=RBAC)
