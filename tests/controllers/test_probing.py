"""A probe that was not allowed proves nothing: it is asked again, and what was refused by it comes alive."""

from tests.deploy.test_rbac import ACCOUNT, CLUSTER_ROLES, document, install
from tests.scenarios.stories import STAGES, gpu_role, rack_binding, set_condition, until_running

from grove.meta import Key, Manifest
from grove.testing.world import World, WorldOptions, run_world

PODGROUPS = "podgroups"


def without_podgroups() -> list[Manifest]:
    """The shipped rules of an API server that does not know about PodGroups yet."""
    rules: list[Manifest] = document("ClusterRole")["rules"]
    return [
        {
            **rule,
            "verbs": [
                verb for verb in rule["verbs"] if verb != "create" or PODGROUPS not in rule["resources"]
            ],
        }
        for rule in rules
    ]


def test_a_topology_whose_probe_was_forbidden_is_asked_about_again() -> None:
    async def story(world: World) -> None:
        await install(world)
        name = document("ClusterRole")["metadata"]["name"]
        await world.user.merge_patch(CLUSTER_ROLES, Key("", name), {"rules": without_podgroups()})
        await world.start_operator()
        constraint = {"topologyName": "cluster", "pack": {"required": "rack"}}
        packed = STAGES["1.36"].cliqueset(
            cliques=[gpu_role("worker", 2)], template={"topologyConstraint": constraint}
        )
        await world.apply(rack_binding(), packed)
        await world.settle()
        assert (await set_condition(world, "train", "Accepted"))["status"] == "False"
        await world.user.merge_patch(
            CLUSTER_ROLES, Key("", name), {"rules": document("ClusterRole")["rules"]}
        )
        await until_running(world, "train-0", seconds=60)
        assert (await set_condition(world, "train", "Accepted"))["status"] == "True"

    run_world(story, WorldOptions(kubernetes="1.36", operator_user=ACCOUNT), operator=False)
