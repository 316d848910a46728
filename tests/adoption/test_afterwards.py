"""What happens to a set that was taken over is what happens to any other: it heals, scales, waits and goes."""

from typing import Final

import pytest
from tests.adoption.go_pods import condition
from tests.adoption.go_sets import SETS, cliqueset, install, is_ready, on_scheduler, role
from tests.adoption.go_shapes import KAI_PODGROUPS, VOLCANO_PODGROUPS, GoSet, objects_of
from tests.adoption.taking_over import (
    CLUSTERS,
    by_name,
    identities,
    is_whole,
    on_every_scheduler,
    pod_deletions,
    take_over,
)
from tests.scenarios.stories import pass_time

from grove.api import kinds
from grove.meta import Key
from grove.testing.world import NODES, World


@on_every_scheduler
def test_a_pod_that_is_lost_afterwards_is_replaced_and_placed(cluster: str) -> None:
    scheduler, options = CLUSTERS[cluster]

    async def story(world: World) -> None:
        await install(world, on_scheduler(scheduler))
        await world.start_operator()
        await world.settle()
        before = await by_name(world, kinds.PODS)
        for hostname in ("train-0-work-1", "train-0-lead-0", "train-0-g-1-more-0"):
            (lost,) = [name for name, pod in before.items() if pod["spec"]["hostname"] == hostname]
            await world.user.delete(kinds.PODS, Key("default", lost))
            await world.settle()
            await world.until(lambda: is_whole(world), f"{hostname} is back")
        after = await by_name(world, kinds.PODS)
        assert {pod["spec"]["hostname"] for pod in after.values()} == {
            pod["spec"]["hostname"] for pod in before.values()
        }
        kept = set(before) & set(after)
        assert len(kept) == 5
        assert {name: after[name]["metadata"]["uid"] for name in kept} == {
            name: before[name]["metadata"]["uid"] for name in kept
        }
        writes = world.writes()
        await pass_time(600)
        assert world.writes() == writes

    take_over(story, options)


@pytest.mark.parametrize("cluster", ["kai", "volcano"])
def test_what_the_go_operator_wrote_into_its_podgroup_is_ours_to_change(cluster: str) -> None:
    scheduler, options = CLUSTERS[cluster]
    podgroups = {"kai": KAI_PODGROUPS, "volcano": VOLCANO_PODGROUPS}[cluster]

    async def story(world: World) -> None:
        await install(world, on_scheduler(scheduler))
        # As it was told before an edit that the Go operator never passed on.
        key = Key("default", "train-0")
        await world.user.merge_patch(podgroups, key, {"spec": {"minMember": 3}})
        before = await identities(world)
        await world.start_operator()
        await world.settle()
        found = await by_name(world, podgroups)
        assert set(found) == {"train-0", "train-0-g-0"}
        assert found["train-0"]["spec"]["minMember"] == 5
        assert await world.condition("train-0", "OwnershipConflict") == {}
        assert await identities(world) == before

    take_over(story, options)


@on_every_scheduler
def test_a_gang_that_is_lost_as_a_whole_comes_back_as_one_of_ours(cluster: str) -> None:
    scheduler, options = CLUSTERS[cluster]

    async def story(world: World) -> None:
        await install(world, on_scheduler(scheduler))
        await world.start_operator()
        await world.settle()
        for name, pod in (await by_name(world, kinds.PODS)).items():
            if pod["metadata"]["labels"]["grove.io/podgang"] == "train-0":
                await world.user.delete(kinds.PODS, Key("default", name))
        await world.settle()
        await world.until(lambda: is_whole(world), "all pods are back")
        revisions = {
            pod["metadata"]["labels"]["grove.io/podgang"]: pod["metadata"]
            .get("annotations", {})
            .get("grove.io/gang-revision", "")
            for pod in await world.all(kinds.PODS)
        }
        assert revisions["train-0"] not in ("", "adopted")
        assert revisions["train-0-g-0"] == ""
        told = {
            gang: (await world.condition(gang, "GangGuarantee")).get("reason", "")
            for gang in ("train-0", "train-0-g-0")
        }
        native, none = scheduler == "default-scheduler", cluster == "no gang API"
        assert told["train-0"] == ("NoGangAPI" if none else "")
        assert told["train-0-g-0"] == ("NoGangAPI" if none else "PodsOutsideGang" if native else "")

    take_over(story, options)


@on_every_scheduler
def test_pods_of_a_gang_that_lacks_some_run_on_while_the_others_fit_nowhere(cluster: str) -> None:
    scheduler, options = CLUSTERS[cluster]

    async def story(world: World) -> None:
        await install(world, on_scheduler(scheduler))
        for node in await by_name(world, NODES):
            await world.user.merge_patch(NODES, Key("", node), {"spec": {"unschedulable": True}})
        (lost,) = [
            name
            for name, pod in (await by_name(world, kinds.PODS)).items()
            if pod["spec"]["hostname"] == "train-0-lead-0"
        ]
        await world.user.delete(kinds.PODS, Key("default", lost))
        await world.settle()
        before = await identities(world)
        await world.start_operator()
        await pass_time(300)
        after = await identities(world)
        assert {name: after.get(name) for name in before} == before
        assert len(after) == len(before) + 1
        for node in await by_name(world, NODES):
            await world.user.merge_patch(NODES, Key("", node), {"spec": {"unschedulable": None}})
        await world.until(lambda: is_whole(world), "the lost pod is back")

    take_over(story, options)


async def lose_for_good(world: World, hostname: str) -> None:
    """Take a pod for which there is no other node."""
    for node in await by_name(world, NODES):
        await world.user.merge_patch(NODES, Key("", node), {"spec": {"unschedulable": True}})
    found = (await by_name(world, kinds.PODS)).items()
    (lost,) = [name for name, pod in found if pod["spec"]["hostname"] == hostname]
    await world.user.delete(kinds.PODS, Key("default", lost), grace_seconds=0)


def with_delay(scheduler: str, delay: str) -> GoSet:
    """A role alone and one that needs two pods, recycled after this time."""
    pods = {} if scheduler == "default-scheduler" else {"schedulerName": scheduler}
    roles = [role("lead", pods=pods), role("work", 2, 2, pods=pods)]
    queue = {"kai.scheduler/queue": "default-queue"} if scheduler == "kai-scheduler" else {}
    return GoSet(cliqueset("train", roles, terminationDelay=delay, labels=queue))


@on_every_scheduler
def test_a_gang_that_the_go_operator_saw_whole_is_recycled_though_it_lost_a_pod_before_we_came(
    cluster: str,
) -> None:
    scheduler, options = CLUSTERS[cluster]

    async def story(world: World) -> None:
        await install(world, with_delay(scheduler, "30s"))
        await lose_for_good(world, "train-0-work-0")
        before = await identities(world)
        assert len(before) == 2
        await world.start_operator()
        await pass_time(25)
        assert before.items() <= (await identities(world)).items(), "nothing is recycled early"
        await pass_time(20)
        assert not before.keys() & (await identities(world)).keys(), "the rest gave its nodes back"

    take_over(story, options)


#: What the Go operator may have told of a clique that does not prove that it was whole.
NOT_WHOLE: Final = {
    "it was never placed": [("PodCliqueScheduled", "False"), ("MinAvailableBreached", "True")],
    "its pods failed": [("PodCliqueScheduled", "True"), ("MinAvailableBreached", "True")],
    "an update went on": [("PodCliqueScheduled", "True"), ("MinAvailableBreached", "Unknown")],
    "nothing was told": [],
}


@pytest.mark.parametrize("told", NOT_WHOLE.values(), ids=NOT_WHOLE)
def test_a_gang_that_the_go_operator_did_not_see_whole_is_not_recycled(told: list[tuple[str, str]]) -> None:
    async def story(world: World) -> None:
        await install(world, with_delay("default-scheduler", "30s"))
        said = {"conditions": [condition(type_, status, "Because") for type_, status in told]}
        key = Key("default", "train-0-work")
        await world.user.merge_patch(kinds.CLIQUES, key, {"status": said}, subresource="status")
        await lose_for_good(world, "train-0-work-0")
        before = await identities(world)
        await world.start_operator()
        await pass_time(600)
        assert before.items() <= (await identities(world)).items()

    take_over(story)


@on_every_scheduler
def test_pods_that_still_wait_behind_the_go_operators_gate_start(cluster: str) -> None:
    scheduler, options = CLUSTERS[cluster]

    async def story(world: World) -> None:
        await install(world, on_scheduler(scheduler, gated=frozenset({"train-0", "train-0-g-0"})))
        before = await identities(world)
        await world.start_operator()
        await world.settle()
        await world.until(lambda: is_whole(world), "all pods run")
        assert {name: uid for name, (uid, _) in (await identities(world)).items()} == {
            name: uid for name, (uid, _) in before.items()
        }
        assert pod_deletions(world) == []

    take_over(story, options)


@on_every_scheduler
def test_it_scales_out_and_in(cluster: str) -> None:
    scheduler, options = CLUSTERS[cluster]

    async def story(world: World) -> None:
        await install(world, on_scheduler(scheduler))
        await world.start_operator()
        await world.settle()
        before = await identities(world)

        async def pods_are(count: int) -> bool:
            pods = await world.all(kinds.PODS)
            return len(pods) == count and all(map(is_ready, pods))

        await world.scale("train-0-work", 5, kinds.CLIQUES)
        await world.scale("train-0-g", 3, kinds.SCALING_GROUPS)
        await world.settle()
        await world.until(lambda: pods_are(12), "scaled out")
        await world.scale("train", 2)
        await world.settle()
        await world.until(lambda: pods_are(20), "two replicas")
        await world.scale("train", 1)
        await world.scale("train-0-work", 3, kinds.CLIQUES)
        await world.scale("train-0-g", 2, kinds.SCALING_GROUPS)
        await world.settle()
        await world.until(lambda: pods_are(8), "scaled in")
        assert set(before.items()) == set((await identities(world)).items())

    take_over(story, options)


@on_every_scheduler
def test_an_edit_of_a_template_replaces_the_pods_of_its_role_and_no_others(cluster: str) -> None:
    scheduler, options = CLUSTERS[cluster]

    async def story(world: World) -> None:
        await install(world, on_scheduler(scheduler))
        await world.start_operator()
        await world.settle()
        before = await identities(world)
        found = await world.get(kinds.CLIQUESETS, "train") or {}
        cliques = found["spec"]["template"]["cliques"]
        cliques[1]["spec"]["podSpec"]["containers"][0]["image"] = "registry.example.com/app:2"
        change = {"spec": {"template": {"cliques": cliques}}}
        await world.user.merge_patch(kinds.CLIQUESETS, Key("default", "train"), change)

        async def updated() -> bool:
            status = (await world.get(kinds.CLIQUESETS, "train") or {})["status"]
            ended = (status.get("updateProgress") or {}).get("updateEndedAt")
            return bool(ended) and status["updatedReplicas"] == 1 and await is_whole(world)

        await world.until(updated, "the update has ended", seconds=600)
        await world.settle()
        after = await identities(world)
        kept = {name for name in before if "-work-" not in name}
        assert {name: after.get(name) for name in kept} == {name: before[name] for name in kept}
        assert not [name for name in before if "-work-" in name and name in after]
        images = {
            pod["spec"]["containers"][0]["image"]
            for pod in await world.all(kinds.PODS)
            if "-work-" in pod["metadata"]["name"]
        }
        assert images == {"registry.example.com/app:2"}

    take_over(story, options)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("adopted", [True, False], ids=["adopted", "not yet"])
def test_deleting_the_set_removes_everything_that_the_go_operator_made(name: str, adopted: bool) -> None:
    async def story(world: World) -> None:
        await install(world, SETS[name])
        made = {each.resource for each in objects_of(SETS[name])}
        if adopted:
            await world.start_operator()
            await world.settle()
        await world.user.delete(kinds.CLIQUESETS, Key("default", name))
        if not adopted:
            await world.start_operator()
        await world.settle()
        left = [
            (str(resource), child)
            for resource in made
            for child, each in (await by_name(world, resource)).items()
            if resource == kinds.CLIQUESETS
            or each["metadata"].get("labels", {}).get("app.kubernetes.io/part-of") == name
        ]
        assert left == []

    take_over(story)
