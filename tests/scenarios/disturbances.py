"""What people do to a set and to everything that belongs to it, as a table of 34 disturbances.

Each is done at one moment of the gang's life: while it is `pending` for lack of room, when its gates have just
been `open`ed, or while it is `running`. What follows is the same for all: see `disturbing.play`. What is done
to the set itself is in `edits`.
"""

from typing import Final

from tests.scenarios.disturbing import Disturbance, Do, Scene, cordon
from tests.scenarios.edits import (
    add_a_priority,
    add_a_topology,
    change_and_remove_the_priority,
    delete_and_apply_at_once,
    delete_wait_and_apply,
    edit_image_environment_and_labels,
    leave_minimum_open,
    lower_the_minimum,
    orphan_the_children_and_apply,
    raise_replicas_of_a_role,
    raise_the_minimum,
    relax_the_topology,
    require_a_rack,
    scale_to_and_fro,
    scale_to_zero_and_back,
)
from tests.scenarios.stories import key, pass_time, uid_of

from grove.api import kinds, labels
from grove.backends.yunikorn.marks import APPLICATION, TASK_GROUPS
from grove.errors import Invalid
from grove.meta import Manifest
from grove.testing.world import NODES

#: What schedulers call the minimum of a gang.
MINIMA: Final = ("minMember", "minCount")


async def _both(scene: Scene, *parts: Do) -> None:
    for each in parts:
        await each(scene)
        await pass_time(2)


# Cliques ------------------------------------------------------------------------------------------


async def _scale_clique(scene: Scene, replicas: int, role: str = "worker") -> None:
    await scene.world.scale(f"train-0-{role}", replicas, kinds.CLIQUES)


async def scale_a_clique_up_and_down(scene: Scene) -> None:
    for replicas in (5, 2, 0, 4):
        await _scale_clique(scene, replicas)
        await pass_time(2 if replicas else 0)


async def let_a_clique_sleep(scene: Scene) -> None:
    await _scale_clique(scene, 0)
    await pass_time(30)
    await _scale_clique(scene, 3)


async def delete_a_clique(scene: Scene) -> None:
    await scene.delete(kinds.CLIQUES, "train-0-worker")


async def delete_a_clique_and_keep_its_pods(scene: Scene) -> None:
    scene.expected.allowed |= {uid_of(pod) for pod in await scene.pods("worker")}
    await scene.delete(kinds.CLIQUES, "train-0-worker", orphan=True)


async def relabel_and_disown_clique_and_gang(scene: Scene) -> None:
    """First other labels under the same owner, then no owner under the same labels."""
    relabelled = {"labels": {labels.PART_OF: "other", labels.MANAGED_BY: None, labels.SET_REPLICA_INDEX: "7"}}
    for change in (relabelled, {"ownerReferences": None}):
        await scene.patch(kinds.CLIQUES, "train-0-worker", {"metadata": change})
        await scene.patch(kinds.GANGS, "train-0", {"metadata": change})
        await pass_time(5)


# Gangs --------------------------------------------------------------------------------------------


async def delete_the_gang(scene: Scene) -> None:
    await scene.delete(kinds.GANGS, "train-0")


async def delete_the_gang_and_keep_its_objects(scene: Scene) -> None:
    scene.expected.allowed |= {uid_of(each) for _, each in await scene.objects()}
    await scene.delete(kinds.GANGS, "train-0", orphan=True)


async def _podgroups(scene: Scene) -> list[Manifest]:
    gang = await scene.world.gang("train-0")
    assert gang is not None
    groups: list[Manifest] = gang["spec"]["podgroups"]
    return groups


async def take_a_podgroup_from_the_gang(scene: Scene) -> None:
    kept = [group for group in await _podgroups(scene) if not group["name"].endswith("leader")]
    await scene.patch(kinds.GANGS, "train-0", {"spec": {"podgroups": kept}})


async def weaken_the_gang(scene: Scene) -> None:
    weak = [{**group, "minReplicas": 1, "podReferences": []} for group in await _podgroups(scene)]
    await scene.patch(kinds.GANGS, "train-0", {"spec": {"podgroups": weak}})


# Scheduler objects --------------------------------------------------------------------------------


async def delete_the_objects(scene: Scene) -> None:
    """Where the scheduler has no objects, what it goes by is on the pods."""
    if not scene.stage.objects:
        for pod in await scene.pods():
            bare = {"metadata": {"annotations": {APPLICATION: None, TASK_GROUPS: None}}}
            await scene.patch(kinds.PODS, pod["metadata"]["name"], bare)
    for resource, each in await scene.objects():
        await scene.delete(resource, each["metadata"]["name"])


async def make_the_objects_by_hand(scene: Scene) -> None:
    """Delete each one and create it again from what `kubectl get -o yaml` printed."""
    for resource, each in await scene.objects():
        name = each["metadata"]["name"]
        await scene.delete(resource, name)
        if await scene.world.get(resource, name) is not None or not scene.stage.objects:
            continue
        stamped = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "finalizers")
        meta = {field: value for field, value in each["metadata"].items() if field not in stamped}
        made = {**{field: value for field, value in each.items() if field != "status"}, "metadata": meta}
        await scene.world.user.create(resource, made)


async def weaken_the_objects(scene: Scene) -> None:
    before = await minima(scene)
    for resource, each in await scene.objects():
        if patch := _weaker(each["spec"]):
            try:
                await scene.patch(resource, each["metadata"]["name"], {"spec": patch})
            except Invalid:
                continue  # what cannot be changed in place is safe from this
    if not scene.stage.objects:
        for pod in await scene.pods():
            weak = {"metadata": {"annotations": {TASK_GROUPS: "[]"}}}
            await scene.patch(kinds.PODS, pod["metadata"]["name"], weak)
    await pass_time(10)
    assert await minima(scene) == before, "the minima of the scheduler's objects were not put back"


async def minima(scene: Scene) -> list[int]:
    """The minima that the scheduler's objects speak of, in order."""
    return sorted(number for _, each in await scene.objects() for number in _numbers(each["spec"]))


def _numbers(spec: object) -> list[int]:
    if not isinstance(spec, dict):
        return []
    own = [value for name, value in spec.items() if name in MINIMA and isinstance(value, int)]
    return own + [number for value in spec.values() for number in _numbers(value)]


def _weaker(spec: object) -> Manifest:
    """A patch that turns every minimum in mappings below into 1; lists are left alone."""
    if not isinstance(spec, dict):
        return {}
    found: Manifest = {}
    for name, value in spec.items():
        if name in MINIMA and isinstance(value, int) and value > 1:
            found[name] = 1
        elif below := _weaker(value):
            found[name] = below
    return found


# Pods ---------------------------------------------------------------------------------------------


async def delete_all_pods(scene: Scene) -> None:
    await scene.remove(await scene.pods())


async def delete_a_role_by_force(scene: Scene) -> None:
    await scene.remove(await scene.pods("worker"), grace=0)


async def relabel_pods(scene: Scene) -> None:
    """Each worker loses another of the labels by which it was found."""
    changes = ({labels.POD_GANG: None}, {labels.POD_CLIQUE: "elsewhere"}, {labels.MANAGED_BY: None})
    for pod, change in zip(await scene.pods("worker"), changes, strict=False):
        await scene.patch(kinds.PODS, pod["metadata"]["name"], {"metadata": {"labels": change}})


async def disown_a_pod(scene: Scene) -> None:
    pod = (await scene.pods("worker"))[0]
    scene.expected.allowed.add(uid_of(pod))
    await scene.patch(kinds.PODS, pod["metadata"]["name"], {"metadata": {"ownerReferences": None}})


async def put_strangers_among_them(scene: Scene) -> None:
    """Pods of somebody else with all of our labels, one without any owner and one with an owner that is not ours."""
    pods = await scene.pods("worker")
    marks = pods[0]["metadata"]["labels"]
    service = {"metadata": {"name": "theirs", "namespace": "default"}, "spec": {"ports": [{"port": 80}]}}
    theirs: Manifest = await scene.world.user.create(kinds.SERVICES, service, type=dict)
    other = {
        "apiVersion": "v1",
        "kind": "Service",
        "name": "theirs",
        "uid": uid_of(theirs),
        "controller": True,
    }
    for name, owners in (("stranger", []), ("guest", [other])):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": marks, "ownerReferences": owners},
            "spec": {"containers": [{"name": "main", "image": "registry.example/other:1"}]},
        }
        made: Manifest = await scene.world.user.create(kinds.PODS, pod, type=dict)
        scene.expected.allowed.add(uid_of(made))


async def fail_a_pod(scene: Scene) -> None:
    pod = (await scene.pods("worker"))[0]
    await scene.patch(
        kinds.PODS, pod["metadata"]["name"], {"status": {"phase": "Failed"}}, subresource="status"
    )


# Nodes and services -------------------------------------------------------------------------------


async def delete_a_node(scene: Scene) -> None:
    pod = (await scene.pods("leader"))[0]
    await scene.world.user.delete(NODES, key(pod["spec"]["nodeName"], ""))


async def drain_a_node(scene: Scene) -> None:
    pods = await scene.pods()
    node = pods[0]["spec"]["nodeName"]
    await cordon(scene.world, node, True)
    await scene.remove([pod for pod in pods if pod["spec"].get("nodeName") == node])


async def delete_and_bend_services(scene: Scene) -> None:
    await scene.patch(kinds.SERVICES, "train-0", {"spec": {"selector": {"app": "elsewhere"}}})
    await pass_time(1)
    await scene.delete(kinds.SERVICES, "train-0")


async def take_a_name(scene: Scene) -> None:
    """Somebody's clique has the name that a new replica needs; later it goes."""
    theirs = {
        "apiVersion": kinds.CLIQUES.api_version,
        "kind": "PodClique",
        "metadata": {"name": "train-1-worker", "namespace": "default", "labels": {"team": "red"}},
        "spec": {
            "roleName": "worker",
            "replicas": 0,
            "podSpec": {"containers": [{"name": "a", "image": "b"}]},
        },
    }
    made: Manifest = await scene.world.user.create(kinds.CLIQUES, theirs, type=dict)
    await scene.world.scale("train", 2)
    scene.manifest["spec"]["replicas"] = 2
    scene.expected.replicas = 2
    await pass_time(5)
    left = await scene.world.get(kinds.CLIQUES, "train-1-worker")
    assert uid_of(left) == uid_of(made), "the stranger's clique was deleted"
    assert left is not None
    assert left["metadata"]["labels"] == {"team": "red"}, "the stranger's clique was taken over"
    await scene.delete(kinds.CLIQUES, "train-1-worker")


DISTURBANCES: Final = (
    Disturbance("set deleted and applied at once", "running", delete_and_apply_at_once),
    Disturbance("set deleted and applied at once", "pending", delete_and_apply_at_once),
    Disturbance("set deleted and applied at once", "open", delete_and_apply_at_once),
    Disturbance("set deleted, gone, applied", "running", delete_wait_and_apply),
    Disturbance("set deleted, children orphaned, applied", "running", orphan_the_children_and_apply),
    Disturbance("set scaled to 0 and back", "running", scale_to_zero_and_back),
    Disturbance("set scaled 0,4,1,3,0,2 in a second", "running", scale_to_and_fro),
    Disturbance("image, environment and labels edited", "running", edit_image_environment_and_labels),
    Disturbance(
        "role's replicas raised, minimum never written",
        "running",
        raise_replicas_of_a_role,
        leave_minimum_open,
    ),
    Disturbance("minimum lowered", "pending", lower_the_minimum),
    Disturbance("minimum raised", "running", raise_the_minimum),
    Disturbance("priority added", "running", add_a_priority),
    Disturbance("priority added and removed", "pending", change_and_remove_the_priority),
    Disturbance("topology relaxed", "pending", relax_the_topology, require_a_rack),
    Disturbance("topology added", "running", add_a_topology),
    Disturbance("clique scaled up and down", "running", scale_a_clique_up_and_down),
    Disturbance("clique asleep for a while", "running", let_a_clique_sleep),
    Disturbance("clique deleted", "running", delete_a_clique),
    Disturbance("clique deleted, pods orphaned", "running", delete_a_clique_and_keep_its_pods),
    Disturbance("clique and gang relabelled and disowned", "running", relabel_and_disown_clique_and_gang),
    Disturbance("gang deleted", "running", delete_the_gang),
    Disturbance("gang deleted, objects orphaned", "pending", delete_the_gang_and_keep_its_objects),
    Disturbance("podgroup taken from the gang", "pending", take_a_podgroup_from_the_gang),
    Disturbance("gang's minimum and references weakened", "running", weaken_the_gang),
    Disturbance("scheduler objects deleted", "running", delete_the_objects),
    Disturbance("scheduler objects made by hand", "pending", make_the_objects_by_hand),
    Disturbance("scheduler objects weakened", "pending", weaken_the_objects),
    Disturbance("all pods deleted", "open", delete_all_pods),
    Disturbance("a role's pods deleted by force", "running", delete_a_role_by_force),
    Disturbance("pods relabelled", "running", relabel_pods),
    Disturbance("strangers with our labels", "pending", put_strangers_among_them),
    Disturbance(
        "a pod fails and another is disowned", "running", lambda scene: _both(scene, fail_a_pod, disown_a_pod)
    ),
    Disturbance(
        "node drained and another deleted", "running", lambda scene: _both(scene, drain_a_node, delete_a_node)
    ),
    Disturbance(
        "service bent and deleted, name taken",
        "running",
        lambda scene: _both(scene, delete_and_bend_services, take_a_name),
    ),
)
