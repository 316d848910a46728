"""What pods are made of, when their gates open, and which pods are whose."""

import pytest
from tests.scenarios.nvlink import DEFINITION, ENABLED, cliqueset, role
from tests.scenarios.stories import (
    QUOTAS,
    STAGES,
    History,
    Stage,
    gates_of,
    pass_time,
    until_running,
)
from tests.scenarios.workloads import in_order

from grove.api import kinds
from grove.api.labels import LEGACY_GATE
from grove.api.pod import Pod
from grove.errors import Invalid
from grove.meta import Key, Manifest, resource
from grove.testing import make
from grove.testing.world import CRDS, World, run_world

FOREIGN, QUOTA = "example.com/licence", "example.com/quota"
OURS = "the gate of the stage"


#: The gates that a template lists. Ours goes behind them, unless the template lists it itself somewhere.
LISTED = {
    "behind theirs": [FOREIGN, QUOTA],
    "between theirs": [FOREIGN, OURS, QUOTA],
    "before theirs": [OURS, FOREIGN, QUOTA],
    "two of ours around theirs": [LEGACY_GATE, FOREIGN, OURS, QUOTA],
}


@pytest.mark.parametrize("listed", LISTED.values(), ids=LISTED)
@pytest.mark.parametrize("stage", [STAGES["1.36"], STAGES["kai"]], ids=["1.36", "kai"])
def test_gates_of_others_stay_on_the_pod(stage: Stage, listed: list[str]) -> None:
    """grove#723: opening our gate leaves the gates of others on the pod."""

    async def story(world: World) -> None:
        gates = [each.replace(OURS, stage.gate) for each in listed]
        pod = {"schedulingGates": [{"name": each} for each in gates]}
        async with History(world, kinds.PODS) as history:
            await world.apply(stage.cliqueset(cliques=[make.template("worker", 2, pod=pod)]))
            await world.settle()
        made = [gates_of(seen.object) for seen in history.of("Pod", type_="ADDED")]
        assert made == [gates if OURS in listed else [*gates, stage.gate]] * 2
        pods = await world.pods()
        assert [gates_of(pod) for pod in pods] == [[FOREIGN, QUOTA]] * 2
        assert not any(pod["spec"].get("nodeName") for pod in pods)

    run_world(story, stage.options)


def named(length: int) -> Manifest:
    """A set, a group and a role in it whose names have so many characters together."""
    role = make.template("r" * (length - 20), 2)
    group = make.scaling_group("g" * 10, [role["name"]], replicas=2)
    manifest = make.cliqueset_manifest("s" * 10, [role], groups=[group])
    for stamped in ("uid", "generation", "creationTimestamp"):
        del manifest["metadata"][stamped]
    return manifest


def test_names_at_the_limit_run_and_longer_ones_are_refused() -> None:
    """grove#810, grove#660: names at the limit of 63 characters run, and longer ones are refused with the budget."""

    async def story(world: World) -> None:
        with pytest.raises(Invalid) as refused:
            await world.user.create(kinds.CLIQUESETS, named(46), strict=True)
        assert "45 characters together" in str(refused.value)
        assert await world.all(kinds.CLIQUESETS) == []
        await world.apply(named(45))
        await until_running(world, f"{'s' * 10}-0", f"{'s' * 10}-0-{'g' * 10}-0")
        for pod in await world.pods():
            assert max(len(pod["metadata"]["name"]), len(pod["spec"]["hostname"])) <= 63
            assert max(map(len, pod["metadata"]["labels"].values())) <= 63

    run_world(story)


def test_a_role_without_replicas_has_a_minimum_of_one() -> None:
    """grove#835: a role that leaves out its replicas has a minimum of one."""

    async def story(world: World) -> None:
        lone, grouped = make.template("lone"), make.template("grouped")
        group = make.scaling_group("group", ["grouped"])
        for each in (lone["spec"], grouped["spec"], group):
            del each["replicas"]
        del group["minAvailable"]
        await world.apply(make.cliqueset_manifest("train", [lone, grouped], groups=[group]))
        await until_running(world, "train-0")
        gang = await world.gang("train-0") or {}
        assert {each["name"]: each["minReplicas"] for each in gang["spec"]["podgroups"]} == {
            "train-0-lone": 1,
            "train-0-group-0-grouped": 1,
        }
        assert len(await world.pods()) == 2

    run_world(story)


def test_init_containers_keep_their_order() -> None:
    """grove#830: init containers keep their order, and ours comes last."""

    async def story(world: World) -> None:
        wanted = ["zeta", "alpha", "mid"]
        init = [{"name": name, "image": "registry.example/init:1"} for name in wanted]
        roles = [make.template("leader"), make.template("worker", 2, pod={"initContainers": init})]
        await world.apply(in_order(make.cliqueset_manifest("train", roles)))
        await world.settle()
        found = {
            pod["spec"]["hostname"]: [each["name"] for each in pod["spec"].get("initContainers", ())]
            for pod in await world.pods()
        }
        assert found == {
            "train-0-leader-0": [],
            "train-0-worker-0": [*wanted, "grove-initc"],
            "train-0-worker-1": [*wanted, "grove-initc"],
        }

    run_world(story)


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_gates_open_within_a_second_of_the_last_pod(stage: Stage) -> None:
    """grove#847: gates open within a second of the last pod, not with the next resync."""

    async def story(world: World) -> None:
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "few"},
            "spec": {"hard": {"pods": "4"}},
        }
        await world.apply(quota, stage.cliqueset(cliques={"worker": 5}))
        async with History(world, kinds.PODS) as history:
            await pass_time(60)
            assert [bool(gates_of(pod)) for pod in await world.pods()] == [True] * 4
            await world.user.delete(QUOTAS, Key("default", "few"))
            await until_running(world, "train-0", seconds=300)
        last = max(each.at for each in history.of("Pod", type_="ADDED"))
        gated: set[str] = set()
        opened: dict[str, float] = {}
        for seen in history.of("Pod"):
            if gates_of(seen.object):
                gated.add(seen.name)
            elif seen.name in gated:
                opened.setdefault(seen.name, seen.at)
        assert len(opened) == 5
        assert max(opened.values()) - last < 1

    run_world(story, stage.options)


def test_pods_of_others_are_not_cached() -> None:
    """grove#530: pods that Grove does not manage are not cached."""

    async def story(world: World) -> None:
        others = [f"other-{number}" for number in range(20)]
        for name in others:
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": make.pod_spec()}
            await world.apply(pod)
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}))
        await until_running(world, "train-0")
        assert world.operator is not None
        cached = {pod.name for pod in world.operator.cache.store(Pod)}
        assert len(cached) == 2
        assert not cached & set(others)
        assert len(await world.all(kinds.PODS)) == 22

    run_world(story)


def test_pods_of_a_compute_domain_are_all_released() -> None:
    """grove#209, grove#215: pods of a ComputeDomain that become ready only together are all released."""

    async def story(world: World) -> None:
        await world.user.create(CRDS, DEFINITION)
        # Nothing is ready here before the domain is, and that needs all of its pods on nodes.
        worker = role("gpu", 2, annotations={"embedded.grove.io/not-ready": "true"})
        group = make.scaling_group("sg", ["gpu"], replicas=3, minAvailable=1)
        await world.apply(cliqueset([worker], group="a", groups=[group]))

        async def placed() -> bool:
            pods = await world.pods()
            return len(pods) == 6 and all(pod["spec"].get("nodeName") for pod in pods)

        await world.until(placed, "all pods are on nodes although none is ready")
        assert len(await world.all(kinds.COMPUTE_DOMAINS)) == 1

    run_world(story, ENABLED)


def test_the_token_of_the_waiting_container_is_there_with_the_pod() -> None:
    """grove#218: the token of the waiting container needs no other controller before it can be read."""

    async def story(world: World) -> None:
        roles = resource("rbac.authorization.k8s.io", "v1", "Role")
        bindings = resource("rbac.authorization.k8s.io", "v1", "RoleBinding")
        async with History(world, kinds.PODS, roles, bindings) as history:
            manifest = make.cliqueset_manifest("train", {"leader": 1, "worker": 1})
            await world.apply(in_order(manifest))
            await until_running(world, "train-0")
        waiting = history.first("Pod", lambda pod: "initContainers" in pod["spec"])
        # A kubelet asks for a projected token itself; a Secret would be filled by somebody later.
        volumes = {each["name"]: each for each in waiting.object["spec"]["volumes"]}
        (container,) = waiting.object["spec"]["initContainers"]
        mounted = [volumes[each["name"]] for each in container["volumeMounts"]]
        sources = [source for each in mounted for source in each.get("projected", {}).get("sources", ())]
        assert any("serviceAccountToken" in source for source in sources)
        assert not any("secret" in each for each in [*volumes.values(), *sources])
        # What the token allows is there before whoever uses it.
        assert history.first("Role").version < waiting.version
        assert history.first("RoleBinding").version < waiting.version

    run_world(story)
