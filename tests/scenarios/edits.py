"""What people do to a set itself: deletions, scales, and edits of its template."""

from tests.scenarios.disturbing import Scene
from tests.scenarios.stories import RACK, condition_of, pass_time, until_gone

from grove.api import kinds
from grove.meta import Manifest
from grove.testing.world import NODES


def role_of(template: Manifest, name: str) -> Manifest:
    found: Manifest = next(each for each in template["cliques"] if each["name"] == name)
    return found


# The set ------------------------------------------------------------------------------------------


async def delete_and_apply_at_once(scene: Scene) -> None:
    await scene.delete(kinds.CLIQUESETS, "train")
    await scene.apply()


async def delete_wait_and_apply(scene: Scene) -> None:
    await scene.delete(kinds.CLIQUESETS, "train")
    await until_gone(scene.world, kinds.CLIQUESETS, "train")
    await pass_time(3)
    await scene.apply()


async def orphan_the_children_and_apply(scene: Scene) -> None:
    await scene.delete(kinds.CLIQUESETS, "train", orphan=True)
    await until_gone(scene.world, kinds.CLIQUESETS, "train")
    await pass_time(2)
    await scene.apply()


async def scale_to_zero_and_back(scene: Scene) -> None:
    """At once, and again with time for the operator to begin."""
    for pause in (0.0, 1.0):
        await scene.world.scale("train", 0)
        await pass_time(pause)
        await scene.world.scale("train", 1)
        await pass_time(3)


async def scale_to_and_fro(scene: Scene) -> None:
    for replicas in (0, 4, 1, 3, 0, 2):
        await scene.world.scale("train", replicas)
        await pass_time(0.15)
    scene.manifest["spec"]["replicas"] = 2
    scene.expected.replicas = 2


# The template -------------------------------------------------------------------------------------


async def edit_image_environment_and_labels(scene: Scene) -> None:
    def change(template: Manifest) -> None:
        worker = role_of(template, "worker")
        worker["labels"] = {"team": "blue"}
        container = worker["spec"]["podSpec"]["containers"][0]
        container |= {"image": "registry.example/serve:2", "env": [{"name": "LEVEL", "value": "2"}]}

    await scene.edit(change)


def leave_minimum_open(template: Manifest) -> None:
    worker = role_of(template, "worker")
    worker["spec"].pop("minAvailable")
    worker["spec"]["replicas"] = 2


async def raise_replicas_of_a_role(scene: Scene) -> None:
    def change(template: Manifest) -> None:
        role_of(template, "worker")["spec"]["replicas"] = 3

    await scene.edit(change)


async def _minimum(scene: Scene, minimum: int) -> bool:
    def change(template: Manifest) -> None:
        role_of(template, "worker")["spec"]["minAvailable"] = minimum

    scene.expected.refused_roles = dict(scene.expected.roles)
    scene.expected.roles = {**scene.expected.roles, "worker": minimum}
    return await scene.edit(change, refusable="minAvailable")


async def lower_the_minimum(scene: Scene) -> None:
    """What is needed now fits into the room that there is."""
    if await _minimum(scene, 1):
        await scene.take_the_way_out({"worker": 1, "leader": 1})

    async def placed() -> bool:
        return (await scene.world.condition("train-0", "Scheduled")).get("status") == "True"

    await scene.world.until(placed, "the lowered minimum takes effect: one worker and the leader are placed")


async def raise_the_minimum(scene: Scene) -> None:
    """Where the scheduler of a placed gang cannot be told, the set says what to do, and that helps."""
    await _minimum(scene, 3)
    pending = condition_of(await scene.world.get(kinds.CLIQUESETS, "train"), "EditPending")
    if pending.get("status") != "True":
        return
    assert "spec.template.cliques[0].spec.minAvailable" in pending["message"]
    assert "kubectl delete pods -n default -l grove.io/podgang=train-0" in pending["message"]
    for pod in await scene.pods():
        await scene.delete(kinds.PODS, pod["metadata"]["name"])


async def add_a_priority(scene: Scene) -> None:
    urgent = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 1000,
    }
    await scene.world.apply(urgent)
    await scene.edit(
        lambda template: template.update(priorityClassName="urgent"), refusable="priorityClassName"
    )


async def change_and_remove_the_priority(scene: Scene) -> None:
    await add_a_priority(scene)
    await pass_time(2)
    await scene.edit(lambda template: template.pop("priorityClassName", None), refusable="priorityClassName")


def require_a_rack(template: Manifest) -> None:
    template["topologyConstraint"] = {"topologyName": "cluster", "pack": {"required": "rack"}}


async def relax_the_topology(scene: Scene) -> None:
    def change(template: Manifest) -> None:
        template["topologyConstraint"]["pack"] = {"preferred": "rack"}

    if await scene.edit(change, refusable="topologyConstraint"):
        await scene.take_the_way_out()
    racks = {
        each["metadata"]["name"]: each["metadata"]["labels"][RACK] for each in await scene.world.all(NODES)
    }
    (open_node,) = set(racks) - set(scene.cordoned)
    # From now on there is room for all of it, but not within one rack.
    scene.cordoned = [name for name in scene.cordoned if racks[name] != racks[open_node]][:1]


async def add_a_topology(scene: Scene) -> None:
    await scene.edit(
        lambda template: template.update(
            topologyConstraint={"topologyName": "cluster", "pack": {"preferred": "rack"}}
        ),
        refusable="topologyConstraint",
    )
