"""What goes takes its pods with it at once: the operator deletes them, not the garbage collector at its pace.

The collector of these worlds gets through twenty objects a second, as a real one does with default settings.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.scenarios.stories import History, gates_of, key, owner_of, uid_of, until_gone, until_running

from grove.api import kinds, labels
from grove.embedded.actors.kubelet import KubeletOptions
from grove.embedded.faults import Fault
from grove.meta import Manifest, Resource, resource
from grove.testing import make
from grove.testing.virtual_time import virtual_loop
from grove.testing.world import OPERATOR, World, WorldOptions, run_world

PACE = 20.0
#: Sixty pods take the collector alone more than six seconds: two for their cliques, two for gangs and services each.
REPLICAS, SIZE = 30, 2
PODS = REPLICAS * SIZE
CONFIG_MAPS = resource("", "v1", "ConfigMap")

at_once_or_slowly = pytest.mark.parametrize(
    "stop", [0.0, 8.0], ids=["pods that stop at once", "pods that stop slowly"]
)


def options(stop: float = 0.0) -> WorldOptions:
    kubelet = KubeletOptions(shutdown_seconds=stop)
    return WorldOptions(nodes=8, collected_per_second=PACE, kubelet=kubelet)


def workload(replicas: int = REPLICAS, size: int = SIZE) -> Manifest:
    return make.cliqueset_manifest("train", {"worker": size}, replicas=replicas)


async def running(world: World, replicas: int = REPLICAS, size: int = SIZE) -> list[Manifest]:
    await world.apply(workload(replicas, size))
    await world.settle()
    pods = await world.pods()
    assert [each["status"]["phase"] for each in pods] == ["Running"] * replicas * size
    world.cluster.requests.clear()
    return pods


async def seconds_until(world: World, holds: Callable[[], Awaitable[bool]], what: str) -> float:
    began = virtual_loop().time()
    await world.until(holds, what, seconds=300)
    return virtual_loop().time() - began


async def none_left_but(world: World, terminating: bool = False) -> bool:
    """Whether no pod is left; or none that is not on its way out."""
    return all(terminating and "deletionTimestamp" in pod["metadata"] for pod in await world.pods())


def deleted_pods(world: World, user: str = OPERATOR.name) -> int:
    return world.cluster.requests.count(verb="delete", resource="pods", user=user, failed=False)


@at_once_or_slowly
@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_the_pods_of_a_deleted_set_are_deleted_by_the_operator_faster_than_the_collector_could(
    propagation: str, stop: float
) -> None:
    async def story(world: World) -> None:
        await running(world)
        await world.user.delete(kinds.CLIQUESETS, key("train"), propagation=propagation)
        asked = await seconds_until(world, lambda: none_left_but(world, terminating=True), "all pods go")
        assert asked < 1.0
        assert deleted_pods(world) > 0.9 * PODS
        gone = await seconds_until(world, lambda: none_left_but(world), "no pod is left")
        assert gone <= stop + 1.0

    run_world(story, options(stop))


def test_everything_else_of_a_set_that_is_deleted_in_the_background_goes_with_its_pods() -> None:
    async def story(world: World) -> None:
        await running(world)

        async def nothing() -> bool:
            counted = (kinds.CLIQUES, kinds.GANGS, kinds.SERVICES, kinds.PODS)
            return not any([await world.all(each, labels=f"{labels.PART_OF}=train") for each in counted])

        await world.user.delete(kinds.CLIQUESETS, key("train"), propagation="Background")
        assert await seconds_until(world, nothing, "nothing is left") < PODS / PACE
        await world.settle()
        failed = [
            entry
            for entry in world.cluster.requests
            if entry.user == OPERATOR.name and entry.verb == "delete" and entry.status == 409
        ]
        assert failed == []

    run_world(story, options())


@at_once_or_slowly
def test_a_set_that_is_deleted_in_the_foreground_outlives_its_pods(stop: float) -> None:
    async def story(world: World) -> None:
        await running(world, 3)
        await world.user.delete(kinds.CLIQUESETS, key("train"), propagation="Foreground")
        while await world.get(kinds.CLIQUESETS, "train") is not None:
            pods = [owner_of(pod)[1] for pod in await world.pods()]
            for clique in set(pods):
                # The pods may have gone while we looked.
                alive = await world.get(kinds.CLIQUES, clique) is not None
                assert alive or clique not in [owner_of(pod)[1] for pod in await world.pods()]
            await asyncio.sleep(0.05)
        assert await world.pods() == []
        await world.settle()
        assert await world.all(kinds.CLIQUES) == []

    run_world(story, options(stop))


def test_a_set_that_is_deleted_in_the_foreground_says_so_once_and_not_what_it_was() -> None:
    async def story(world: World) -> None:
        await running(world, replicas=2)
        await world.user.delete(kinds.CLIQUESETS, key("train"), propagation="Foreground")
        await asyncio.sleep(4)
        assert len(await world.pods()) == 4, "they take eight seconds"
        cliqueset = await world.get(kinds.CLIQUESETS, "train") or {}
        assert cliqueset["status"]["availableReplicas"] == 0
        told = {each["type"]: (each["status"], each["reason"]) for each in cliqueset["status"]["conditions"]}
        assert told["Available"] == told["Ready"] == ("False", "BeingDeleted")
        assert told["Progressing"] == ("True", "InProgress")
        await until_gone(world, kinds.CLIQUESETS, "train", seconds=60)
        written = [
            each.path for each in world.cluster.requests if each.user == OPERATOR.name and each.is_write
        ]
        assert len([path for path in written if path.endswith("/podcliquesets/train/status")]) == 1

    run_world(story, options(8.0))


@at_once_or_slowly
def test_the_pods_of_an_orphaned_set_stay(stop: float) -> None:
    async def story(world: World) -> None:
        before = {uid_of(pod) for pod in await running(world, 5)}
        await world.user.delete(kinds.CLIQUESETS, key("train"), propagation="Orphan")
        await until_gone(world, kinds.CLIQUESETS, "train")
        await world.settle()
        assert {uid_of(pod) for pod in await world.pods()} == before
        assert deleted_pods(world) == 0

    run_world(story, options(stop))


@pytest.mark.parametrize("refused", [False, True], ids=["accepted", "refused"])
def test_orphans_of_a_replica_that_the_next_set_does_not_have_go_on_running(refused: bool) -> None:
    """Those of a scaling group too: the group is nobody's, and so is what belongs to it."""
    group = make.scaling_group("group", ["worker"])

    def of(replicas: int) -> Manifest:
        return make.cliqueset_manifest("train", {"leader": 1, "worker": 1}, replicas=replicas, groups=[group])

    async def story(world: World) -> None:
        await world.apply(of(2))
        await until_running(world, "train-0", "train-1")
        await world.settle()
        before = {uid_of(pod) for pod in await world.pods()}
        await world.user.delete(kinds.CLIQUESETS, key("train"), propagation="Orphan")
        await until_gone(world, kinds.CLIQUESETS, "train")
        await world.settle()
        again = of(1)
        if refused:
            again["metadata"]["annotations"] = {labels.UPDATE_PAUSED: "perhaps"}
        await world.apply(again)
        await world.settle()
        assert {uid_of(pod) for pod in await world.pods()} == before

    run_world(story)


@pytest.mark.parametrize(
    "lagging",
    [kinds.CLIQUESETS, kinds.CLIQUES, kinds.GANGS, kinds.PODS, kinds.SERVICES],
    ids=lambda resource: resource.kind,
)
def test_orphans_stay_although_the_cache_does_not_know_yet_that_they_are(lagging: Resource) -> None:
    """It hears that the set is gone, and not yet that its children were released before; or the other way round."""

    async def story(world: World) -> None:
        before = {uid_of(pod) for pod in await running(world, 5)}
        cliques = {uid_of(each) for each in await world.all(kinds.CLIQUES)}
        gangs = {uid_of(each) for each in await world.all(kinds.GANGS)}
        world.cluster.faults.add(Fault("delay", resource=_name(lagging), user=OPERATOR.name, seconds=20))
        world.cluster.drop_watches()
        await asyncio.sleep(5)
        await world.user.delete(kinds.CLIQUESETS, key("train"), propagation="Orphan")
        await until_gone(world, kinds.CLIQUESETS, "train")
        await world.settle(quiet=60)
        assert {uid_of(pod) for pod in await world.pods()} == before
        assert {uid_of(each) for each in await world.all(kinds.CLIQUES)} == cliques
        assert {uid_of(each) for each in await world.all(kinds.GANGS)} == gangs

    run_world(story, options())


def _name(resource: Resource) -> str:
    """As requests name a kind."""
    return f"{resource.plural}.{resource.gvk.group}".rstrip(".")


@at_once_or_slowly
@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
@pytest.mark.parametrize("writes", [1, PODS // 2, PODS - 1])
def test_an_operator_that_is_started_again_in_the_middle_goes_on(
    propagation: str, stop: float, writes: int
) -> None:
    async def story(world: World) -> None:
        await running(world)
        death = world.cluster.faults.add(
            Fault("lose", verb="write", user=OPERATOR.name, skip=writes, times=1, after=True)
        )
        await world.kill_operator()
        await world.start_operator(dies_with_a_request=True)
        await world.user.delete(kinds.CLIQUESETS, key("train"), propagation=propagation)
        await world.until(lambda: _died(world), "the operator dies", seconds=20)
        assert death.happened
        await world.kill_operator()
        world.cluster.faults.clear()
        began = virtual_loop().time()
        await world.start_operator()
        await world.until(lambda: none_left_but(world), "no pod is left")
        assert virtual_loop().time() - began <= stop + 1.0
        await world.settle()
        assert await world.all(kinds.CLIQUESETS) == []
        assert await world.all(kinds.CLIQUES) == []

    run_world(story, options(stop))


async def _died(world: World) -> bool:
    return world.operator_died


@at_once_or_slowly
def test_pods_of_replicas_that_are_scaled_in_are_deleted_at_once_and_the_others_stay(stop: float) -> None:
    async def story(world: World) -> None:
        pods = await running(world)
        kept = {uid_of(each) for each in pods if _replica(each) < REPLICAS // 2}
        await world.scale("train", REPLICAS // 2)

        async def shrunk() -> bool:
            return {uid_of(pod) for pod in await world.pods()} == kept

        assert await seconds_until(world, shrunk, "the others are gone") <= stop + 1.0
        assert deleted_pods(world) == PODS // 2
        await world.settle()
        assert len(await world.all(kinds.CLIQUES)) == REPLICAS // 2

    run_world(story, options(stop))


def _replica(pod: Manifest) -> int:
    return int(pod["metadata"]["labels"][labels.SET_REPLICA_INDEX])


@pytest.mark.parametrize("act", ["scaled to nothing", "Background", "Foreground"])
def test_no_pod_is_made_and_no_gate_opened_for_what_goes(act: str) -> None:
    async def story(world: World) -> None:
        await running(world)
        # Of two gangs more one waits for its gates to be opened, the other for a pod that is not allowed.
        quota: Manifest = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}}
        world.cluster.faults.add(Fault("error", verb="patch", resource="pods", user=OPERATOR.name))
        await world.apply({**quota, "spec": {"hard": {"pods": str(PODS + 3)}}}, workload(REPLICAS + 2))
        await asyncio.sleep(20)
        gated = {pod["metadata"]["name"] for pod in await world.pods() if gates_of(pod)}
        assert len(gated) == 3
        requests = world.cluster.requests
        requests.clear()
        async with History(world, kinds.PODS) as history:
            world.cluster.faults.clear()
            if act == "scaled to nothing":
                await world.scale("train", 0)
            else:
                await world.user.delete(kinds.CLIQUESETS, key("train"), propagation=act)
            await world.until(lambda: none_left_but(world), "no pod is left")
            await world.settle()
        assert history.of("Pod", type_="ADDED") == []
        opened = {seen.name for seen in history.of("Pod") if not gates_of(seen.object)}
        assert not opened & gated
        assert len(history.of("Pod", type_="DELETED")) == PODS + 3
        assert requests.count(verb="create", resource="pods", user=OPERATOR.name) == 0
        assert requests.count(verb="patch", resource="pods", user=OPERATOR.name) == 0
        assert await world.pods() == []

    run_world(story, options(8.0))


def test_pods_that_wait_go_before_those_that_run_so_that_none_takes_a_place_that_becomes_free() -> None:
    async def story(world: World) -> None:
        role = make.template("worker", 2, pod=_whole_node())
        await world.apply(make.cliqueset_manifest("train", [role], replicas=6))
        await world.settle()
        waiting = [uid_of(pod) for pod in await world.pods() if not pod["spec"].get("nodeName")]
        assert len(waiting) == 4
        bound: list[str] = []
        world.cluster.store.listeners.append(
            lambda table, event: (
                bound.append(event.entry.obj["metadata"]["uid"])
                if table == ("", "pods") and event.entry.obj["spec"].get("nodeName")
                else None
            )
        )
        await world.user.delete(kinds.CLIQUESETS, key("train"), propagation="Background")
        await world.settle()
        assert await world.pods() == []
        assert not set(waiting) & set(bound)

    run_world(story, options())


def _whole_node() -> Manifest:
    limits = {"limits": {"nvidia.com/gpu": "8"}}
    return {"containers": [{"name": "main", "image": "registry.example/serve:1", "resources": limits}]}


@at_once_or_slowly
@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_the_pods_of_a_clique_that_is_deleted_by_hand_go_at_once_and_come_back(
    propagation: str, stop: float
) -> None:
    async def story(world: World) -> None:
        before = {uid_of(pod) for pod in await running(world, 1, 60)}
        await world.user.delete(kinds.CLIQUES, key("train-0-worker"), propagation=propagation)

        async def replaced() -> bool:
            pods = await world.pods()
            return not before & {uid_of(pod) for pod in pods}

        assert await seconds_until(world, replaced, "its pods are gone") <= stop + 1.0
        assert deleted_pods(world) > 50
        await until_running(world, "train-0")
        assert len(await world.pods()) == 60

    run_world(story, options(stop))


def test_the_pods_of_a_clique_that_is_deleted_without_them_stay() -> None:
    async def story(world: World) -> None:
        before = {uid_of(pod) for pod in await running(world, 1, 4)}
        await world.user.delete(kinds.CLIQUES, key("train-0-worker"), propagation="Orphan")
        await world.settle()
        assert before <= {uid_of(pod) for pod in await world.pods()}
        assert deleted_pods(world) == 0

    run_world(story, options())


@at_once_or_slowly
def test_the_pods_of_a_group_that_is_deleted_by_hand_go_at_once_and_come_back(stop: float) -> None:
    async def story(world: World) -> None:
        roles = [make.template("leader", 1), make.template("worker", 29)]
        group = {"name": "dec", "cliqueNames": ["leader", "worker"], "replicas": 2, "minAvailable": 1}
        await world.apply(make.cliqueset_manifest("train", roles, groups=[group]))
        await world.settle()
        before = {uid_of(pod) for pod in await world.pods()}
        assert len(before) == 60
        world.cluster.requests.clear()
        await world.user.delete(kinds.SCALING_GROUPS, key("train-0-dec"), propagation="Background")

        async def replaced() -> bool:
            return not before & {uid_of(pod) for pod in await world.pods()}

        assert await seconds_until(world, replaced, "its pods are gone") <= stop + 2.0
        assert deleted_pods(world) > 50
        await world.settle()
        assert [each["status"]["phase"] for each in await world.pods()] == ["Running"] * 60

    run_world(story, options(stop))


@at_once_or_slowly
def test_a_set_that_is_made_again_at_once_under_its_name_gets_its_pods_without_waiting_for_the_collector(
    stop: float,
) -> None:
    async def story(world: World) -> None:
        before = {uid_of(pod) for pod in await running(world)}
        began = virtual_loop().time()
        await world.user.delete(kinds.CLIQUESETS, key("train"), propagation="Background")
        await world.apply(workload())

        async def made_again() -> bool:
            pods = await world.pods()
            new = [pod for pod in pods if uid_of(pod) not in before and pod["status"]["phase"] == "Running"]
            return len(new) == len(pods) == PODS

        await world.until(made_again, "the new set runs")
        # Scheduler objects of the earlier set are left to the collector, and are in nobody's way.
        assert virtual_loop().time() - began <= stop + 6.0
        assert {owner_of(each)[2] for each in await world.all(kinds.GANGS)} == {
            uid_of(await world.get(kinds.CLIQUESETS, "train"))
        }

    run_world(story, options(stop))


def test_what_somebody_else_owns_too_is_left_to_the_collector_which_keeps_it() -> None:
    async def story(world: World) -> None:
        pods = await running(world, 1)
        keeper: Manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "keeper", "namespace": "default"},
        }
        made = await world.user.create(CONFIG_MAPS, keeper)
        kept = pods[0]["metadata"]
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "keeper",
            "uid": made.metadata.uid,
        }
        patch = {"metadata": {"ownerReferences": [*kept["ownerReferences"], reference]}}
        await world.user.merge_patch(kinds.PODS, key(kept["name"]), patch)
        await world.user.delete(kinds.CLIQUESETS, key("train"), propagation="Background")
        await world.settle(quiet=10)
        assert [uid_of(pod) for pod in await world.pods()] == [kept["uid"]]

    run_world(story, options())


def test_a_gated_pod_of_a_set_that_goes_never_starts() -> None:
    async def story(world: World) -> None:
        await world.stop_scheduler("default")
        await world.apply(workload(4))
        await world.until(lambda: _some_pods(world), "pods are made")
        await world.user.delete(kinds.CLIQUESETS, key("train"), propagation="Foreground")
        await world.settle()
        assert [gates_of(pod) for pod in await world.pods()] == []
        assert await world.all(kinds.CLIQUESETS) == []

    run_world(story, options())


async def _some_pods(world: World) -> bool:
    return bool(await world.pods())
