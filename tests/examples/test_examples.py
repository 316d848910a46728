"""The sets in examples/: each applies and runs on the embedded cluster, and does what its comments say."""

import re
from pathlib import Path
from typing import Final

import pytest
import yaml

from grove.api import kinds, labels
from grove.backends.registry import BUILT_INS
from grove.cli.local import configuration
from grove.meta import Manifest
from grove.testing.world import World, WorldOptions, run_world

EXAMPLES: Final = Path(__file__).resolve().parents[2] / "examples"
FILES: Final = sorted(file.name for file in EXAMPLES.glob("*.yaml"))
#: GPUs of a node, where a set is about nodes that are larger than those of `grove up`.
GPUS: Final = {"too-big.yaml": 24}
PREFILL: Final = "llm-0-prefill"


def documents(file: str) -> list[Manifest]:
    return [each for each in yaml.safe_load_all((EXAMPLES / file).read_text()) if each]


def options(file: str, *, nodes: int = 4) -> WorldOptions:
    """A cluster like that of `grove up`."""
    others = tuple(name for name in BUILT_INS if name != "default")
    return WorldOptions(nodes=nodes, gpus=GPUS.get(file, 8), schedulers=others, configuration=configuration())


async def phases(world: World) -> dict[str, str]:
    return {each["metadata"]["name"]: each["status"]["phase"] for each in await world.all(kinds.GANGS)}


def is_ready(pod: Manifest) -> bool:
    listed = pod["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in listed)


@pytest.mark.parametrize("file", FILES)
def test_an_example_applies_and_all_of_it_runs(file: str) -> None:
    async def story(world: World) -> None:
        await world.apply(*documents(file))
        await world.settle()
        found = await phases(world)
        assert set(found.values()) == {"Running"}, await world.describe()
        cliques = await world.all(kinds.CLIQUES)
        pods = await world.pods()
        assert len(pods) == sum(each["spec"]["replicas"] for each in cliques) > 1
        assert all(map(is_ready, pods)), await world.describe()

    run_world(story, options(file))


def test_prefill_decode_has_a_base_gang_and_a_scaled_gang_and_can_be_scaled() -> None:
    async def story(world: World) -> None:
        await world.apply(*documents("prefill-decode.yaml"))
        await world.settle()
        assert await phases(world) == {"llm-0": "Running", f"{PREFILL}-0": "Running"}
        await world.scale(PREFILL, 3, of=kinds.SCALING_GROUPS)
        await world.settle()
        assert await phases(world) == {
            "llm-0": "Running",
            f"{PREFILL}-0": "Running",
            f"{PREFILL}-1": "Pending",
        }
        assert (await world.condition(f"{PREFILL}-1", "Scheduled"))["reason"] == "Unschedulable"
        await world.scale(PREFILL, 0, of=kinds.SCALING_GROUPS)
        await world.settle()
        assert await phases(world) == {"llm-0": "Running"}
        assert len(await world.pods()) == 3
        await world.scale(PREFILL, 2, of=kinds.SCALING_GROUPS)
        await world.settle()
        assert await phases(world) == {"llm-0": "Running", f"{PREFILL}-0": "Running"}
        assert all(map(is_ready, await world.pods()))

    run_world(story, options("prefill-decode.yaml"))


def test_on_a_small_cluster_the_scaled_gang_of_prefill_decode_waits_for_its_base() -> None:
    """The two nodes have room for the scaled gang, and not for the base gang."""

    async def story(world: World) -> None:
        await world.apply(*documents("prefill-decode.yaml"))
        await world.settle()
        assert (await world.condition("llm-0", "Scheduled"))["reason"] == "Unschedulable"
        told = await world.condition(f"{PREFILL}-0", "Scheduled")
        assert (told["reason"], told["message"]) == (
            "WaitingForBaseGang",
            "0 of 2 pods placed; its base gang llm-0 must be placed first.",
        )
        assert [pod for pod in await world.pods() if pod["spec"].get("nodeName")] == []
        await world.add_node("more-0")
        await world.add_node("more-1")
        await world.settle()
        assert await phases(world) == {"llm-0": "Running", f"{PREFILL}-0": "Running"}

    run_world(story, options("prefill-decode.yaml", nodes=2))


def test_the_workers_of_prefill_decode_follow_the_leader_of_their_own_instance() -> None:
    async def story(world: World) -> None:
        await world.apply(*documents("prefill-decode.yaml"))
        await world.settle()
        pods = await world.pods()
        addresses = {
            f"{pod['spec']['hostname']}.{pod['spec']['subdomain']}.default.svc.cluster.local": pod
            for pod in pods
        }
        workers = [pod for pod in pods if "-worker-" in pod["metadata"]["name"]]
        assert len(workers) == 3
        for worker in workers:
            leader = addresses[environment(worker)["LEADER"]]
            assert "-leader-" in leader["metadata"]["name"]
            assert instance(leader) == instance(worker)

    run_world(story, options("prefill-decode.yaml"))


def instance(pod: Manifest) -> tuple[str, str]:
    marks = pod["metadata"]["labels"]
    return marks[labels.SCALING_GROUP], marks[labels.SCALING_GROUP_REPLICA_INDEX]


def environment(pod: Manifest) -> dict[str, str]:
    """The variables of a pod's first container, as its kubelet would set them."""
    found: dict[str, str] = {}
    for variable in pod["spec"]["containers"][0]["env"]:
        if "valueFrom" in variable:
            path = variable["valueFrom"]["fieldRef"]["fieldPath"]
            value = pod["metadata"]["labels"][path.removeprefix("metadata.labels['").removesuffix("']")]
        else:
            value = re.sub(r"\$\((\w+)\)", lambda match: found[match[1]], variable["value"])
        found[variable["name"]] = value
    return found
