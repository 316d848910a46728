"""Sets that are updated: what is changed, how long an update lasts, and what the watches told of the pods meanwhile.

Everything goes through a `Scene`, so that the stories in `update_stories` play on real control planes and on the
embedded cluster alike. Each pod takes a node, and a second to start.
"""

import copy
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tests.e2e.judges import JUDGES
from tests.e2e.ledger import Ledger
from tests.e2e.scene import NAMESPACES, NODES, Scene, condition_of, holds_a_place, served
from tests.scenarios.stories import STAGES
from tests.scenarios.workloads import Counts, workload

from grove.api import kinds, labels
from grove.api.config import load
from grove.embedded.faults import Fault
from grove.meta import Key, Manifest, Resource, resource
from grove.testing.world import World, WorldOptions, run_world

NAME: Final = "wl"
TRIGGER: Final = "UPDATE_TRIGGER"
ROLES: Final = ("pc-a", "pc-b", "pc-c")
REVISIONS: Final = resource("apps", "v1", "ControllerRevision")
#: What a story follows besides what every set leads to.
ALSO: Final[tuple[Resource, ...]] = (kinds.SCALING_GROUPS, REVISIONS)
ROLLING: Final[Manifest] = {"type": "RollingRecreate"}
ON_DELETE: Final[Manifest] = {"type": "OnDelete"}
#: How long an update may take on a machine that does other things too.
PATIENCE: Final = 240.0
_NAMESPACE: Final = "story"


def shape(
    a: Counts,
    c: Counts,
    group: Counts,
    *,
    replicas: int = 1,
    strategy: Manifest | None = None,
    **template: Any,
) -> Manifest:
    """A role `pc-a` alone and a group `sg-x` of one `pc-b` and some `pc-c`."""
    made = workload(STAGES["1.36"], NAME, a, (1, 1), c, group, **template)
    made["spec"]["replicas"] = replicas
    if strategy is not None:
        made["spec"]["updateStrategy"] = strategy
    for role in made["spec"]["template"]["cliques"]:
        # An update that takes no time cannot be met in its middle.
        role["annotations"] = {"embedded.grove.io/startup": "1s"}
    return made


def wl1(replicas: int = 1, *, a: Counts = (2, 2), group: Counts = (2, 2), **fields: Any) -> Manifest:
    return shape(a, (3, 3), group, replicas=replicas, **fields)


def wl_od(replicas: int = 1) -> Manifest:
    return shape((2, 1), (3, 3), (2, 2), replicas=replicas, strategy=ON_DELETE)


def edited(manifest: Manifest, roles: tuple[str, ...], to: str) -> Manifest:
    """The set, some roles of which have another value of a variable; "" takes it away."""
    changed = copy.deepcopy(manifest)
    for role in changed["spec"]["template"]["cliques"]:
        if role["name"] in roles:
            (container,) = role["spec"]["podSpec"]["containers"]
            container["env"] = [{"name": TRIGGER, "value": to}] if to else []
    return changed


def version_of(pod: Manifest) -> str:
    """The variable by which templates differ; "" in the first one."""
    variables = pod["spec"]["containers"][0].get("env", ())
    return next((str(each["value"]) for each in variables if each["name"] == TRIGGER), "")


def clique_of(pod: Manifest) -> str:
    return str(pod["metadata"]["labels"][labels.POD_CLIQUE])


def place_of(pod: Manifest) -> str:
    return str(pod["spec"]["hostname"])


def role_of(pod: Manifest) -> str:
    return clique_of(pod)[-4:]


def is_going(pod: Manifest) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def is_ready(pod: Manifest) -> bool:
    return not is_going(pod) and condition_of(pod, "Ready").get("status") == "True"


def was_whole(clique: Manifest) -> bool:
    return condition_of(clique, "MinAvailableReached").get("status") == "True"


def _assert_little(lacking: Mapping[str, int]) -> None:
    """Of the cliques of which so many pods are down, that is not more than an update may take down."""
    alone = {name: number for name, number in lacking.items() if "-sg-x-" not in name}
    assert max(alone.values(), default=0) <= 1, f"more than one pod of a clique was down: {lacking}"
    groups = {name.rpartition("-pc-")[0] for name in lacking if "-sg-x-" in name}
    by_group = Counter(name.rpartition("-")[0] for name in groups)
    assert max(by_group.values(), default=0) <= 1, f"more than one replica of a group was down: {groups}"
    replicas = {name.split("-")[1] for name in lacking}
    assert len(replicas) <= 1, f"more than one replica of the set was down: {lacking}"


async def _cannot() -> None:
    raise NotImplementedError("nobody said how to restart the operator")


@dataclass
class Rollout:
    """A set in a scene, and everything that is done with it."""

    scene: Scene
    manifest: Manifest = field(default_factory=wl1)
    #: Ends the operator as SIGKILL does, and starts another one.
    restart: Callable[[], Awaitable[None]] = _cannot
    #: For how long nothing may happen where nothing is to happen.
    quiet: float = 60.0
    #: The generation that the last write of ours gave the set; the watches may be behind.
    asked: int = 1
    #: The last version that the watches told before the template was changed.
    began: int = 0
    #: The places whose pods were ready then, each with its clique.
    places: Mapping[str, str] = field(default_factory=dict)
    #: The last version that the watches told before something was scaled, if anything was.
    scaled: int | None = None

    # What a user does

    async def start(self, manifest: Manifest, pods: int, nodes: int = 0) -> None:
        self.manifest = manifest
        await self.scene.nodes(nodes or pods)
        await self.scene.apply(manifest)
        await self.until_ready(pods)
        # What was never seen whole is not missed when it goes.
        await self.scene.until(
            lambda: all(map(was_whole, self.scene.ledger.all(kinds.CLIQUES))), "the cliques were seen whole"
        )
        self._mark()

    async def change(self, *roles: str, to: str = "2", **spec: object) -> None:
        """Another template for some roles, or for all; `spec` replaces fields of the set."""
        self._mark()
        self.manifest = edited(self.manifest, roles or ROLES, to)
        self.manifest["spec"].update(spec)
        await self.apply()

    async def apply(self) -> None:
        """Write the set as it is here."""
        await self.scene.apply(self.manifest)
        await self._ask()

    async def scale(self, of: Resource, replicas: int, *names: str) -> None:
        if self.scaled is None:
            self.scaled = self._latest()
        for name in names:
            await self.scene.scale(of, name, replicas)

    async def scale_set(self, replicas: int) -> None:
        self.manifest["spec"]["replicas"] = replicas
        await self.scale(kinds.CLIQUESETS, replicas, NAME)
        await self._ask()

    async def scale_groups(self, replicas: int, count: int = 2) -> None:
        await self.scale(kinds.SCALING_GROUPS, replicas, *(f"{NAME}-{index}-sg-x" for index in range(count)))

    async def scale_role(self, replicas: int, count: int = 2) -> None:
        await self.scale(kinds.CLIQUES, replicas, *(f"{NAME}-{index}-pc-a" for index in range(count)))

    async def cordon(self, *, usable: bool = False) -> None:
        for node in [name for of, name in self.scene.made if of == NODES]:
            patch = {"spec": {"unschedulable": None if usable else True}}
            await self.scene.user.merge_patch(NODES, Key("", node), patch)

    async def cordon_one(self, node: str) -> None:
        await self.scene.user.merge_patch(NODES, Key("", node), {"spec": {"unschedulable": True}})

    async def lose(self, clique: str, index: int | None = None) -> Manifest:
        """Delete a ready pod by hand, whichever or that with an index; returns it once it is gone."""
        pods = [pod for pod in self.pods(clique) if is_ready(pod)]
        pod = next(pod for pod in pods if index is None or place_of(pod) == f"{clique}-{index}")
        await self.scene.delete(kinds.PODS, pod["metadata"]["name"])
        uid = pod["metadata"]["uid"]
        await self.scene.until(lambda: uid not in self.uids(), "the pod is gone")
        return pod

    # What a user sees

    def pods(self, clique: str = "") -> list[Manifest]:
        return [pod for pod in self.scene.pods() if clique_of(pod).startswith(clique)]

    def uids(self, *cliques: str) -> set[str]:
        return {pod["metadata"]["uid"] for each in cliques or ("",) for pod in self.pods(each)}

    def uids_of(self, *roles: str) -> set[str]:
        return {pod["metadata"]["uid"] for pod in self.pods() if role_of(pod) in roles}

    def versions(self, *roles: str) -> list[str]:
        return [version_of(pod) for pod in self.pods() if role_of(pod) in (roles or ROLES)]

    @property
    def cliqueset(self) -> Manifest:
        return self.scene.ledger.get(kinds.CLIQUESETS, NAME) or {}

    @property
    def status(self) -> Manifest:
        return self.cliqueset.get("status") or {}

    @property
    def progress(self) -> Manifest:
        return self.status.get("updateProgress") or {}

    @property
    def told(self) -> Manifest:
        """The condition about the update under way."""
        return condition_of(self.cliqueset, "UpdateInProgress")

    def clique(self, name: str) -> Manifest:
        return self.scene.ledger.get(kinds.CLIQUES, name) or {}

    def is_observed(self) -> bool:
        """Whether the status speaks of the set as it is."""
        return bool(self.status.get("observedGeneration", 0) >= self.asked)

    def is_finished(self) -> bool:
        """What clients of the incumbent wait for."""
        wanted = self.manifest["spec"]["replicas"]
        ended = self.progress.get("updateEndedAt")
        return self.is_observed() and self.status.get("updatedReplicas") == wanted and bool(ended)

    def is_touched(self, replica: int) -> bool:
        """Whether a pod of a replica of the set was taken down since the template was changed."""
        return any(
            is_going(seen.object) or seen.type == "DELETED"
            for seen in self.history()
            if clique_of(seen.object).startswith(f"{NAME}-{replica}-")
        )

    # Waiting

    async def until(self, holds: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
        await self.scene.until(holds, what, seconds=seconds)

    async def until_ready(self, pods: int) -> None:
        def ready() -> bool:
            found = self.pods()
            return len(found) == pods and all(map(is_ready, found))

        await self.until(ready, f"{pods} pods are ready")

    async def until_touched(self, replica: int) -> None:
        await self.until(lambda: self.is_touched(replica), f"replica {replica} is being updated")

    async def finish(self, pods: int, *, to: str = "2", roles: tuple[str, ...] = ROLES) -> None:
        """The update ends, with so many pods, and those of the roles that changed are on the new template."""
        await self.until(self.is_finished, "the set says that its update has ended")
        await self.until_ready(pods)
        assert Counter(self.versions(*roles)) == {to: len(self.versions(*roles))}
        await self.until(self._all_counted, "every clique says that its pods are up to date")
        await self.until(lambda: not self.told or self.told["status"] == "False", "no update is under way")

    async def stays(self, holds: Callable[[], bool]) -> None:
        """Something holds, and goes on to hold."""
        assert holds(), self.scene.describe()
        await self.scene.ledger.holds(holds, self.quiet, self.scene.describe)

    def _all_counted(self) -> bool:
        cliques = self.scene.ledger.all(kinds.CLIQUES)
        return all(each["status"].get("updatedReplicas") == each["spec"]["replicas"] for each in cliques)

    async def _ask(self) -> None:
        key = Key(self.scene.namespace, NAME)
        written: Manifest = await self.scene.user.get(kinds.CLIQUESETS, key, type=dict)
        self.asked = written["metadata"]["generation"]

    def _mark(self) -> None:
        self.began = self._latest()
        self.places = {place_of(pod): clique_of(pod) for pod in self.pods() if is_ready(pod)}

    def _latest(self) -> int:
        return max((seen.version for seen in self.scene.ledger.history), default=0)

    # What the watches told

    def history(self) -> Iterator[Any]:
        """Every state of a pod since the template was changed, in the order of the server's versions."""
        for seen in self.scene.ledger.of(kinds.PODS):
            if seen.version > self.began and not holds_a_place(seen.object):
                yield seen

    def moments(self) -> Iterator[list[Manifest]]:
        """The pods that existed, after each change of one of them since the template was changed."""
        return (pods for _, pods in self._versions())

    def _versions(self) -> Iterator[tuple[int, list[Manifest]]]:
        there: dict[str, Manifest] = {}
        for seen in self.scene.ledger.of(kinds.PODS):
            if holds_a_place(seen.object):
                continue
            if seen.type == "DELETED":
                there.pop(seen.object["metadata"]["uid"], None)
            else:
                there[seen.object["metadata"]["uid"]] = seen.object
            if seen.version > self.began:
                yield seen.version, list(there.values())

    def assert_gently(self) -> None:
        """Of what was there before the change, little was down at a time, and nothing was there twice.

        One pod of a clique, one replica of a group, one replica of the set. From the moment on at which
        something was scaled, what is scaled away is not missed.
        """
        shrunk = Counter(self.places.values()) - Counter(map(clique_of, self.pods()))
        for version, pods in self._versions():
            ready = {place_of(pod) for pod in pods if is_ready(pod)}
            lacking = Counter(clique for place, clique in self.places.items() if place not in ready)
            scaled = self.scaled is not None and version > self.scaled
            _assert_little(lacking - shrunk if scaled else lacking)
        self.assert_deleted_first()

    def assert_deleted_first(self) -> None:
        """Nobody came before the one in whose place it is had gone, and nobody was replaced twice."""
        for pods in self.moments():
            places = Counter(pod["spec"]["hostname"] for pod in pods)
            assert max(places.values(), default=0) <= 1, f"two pods in one place: {places}"
        made: dict[tuple[str, str], set[str]] = {}
        for seen in self.history():
            place = (seen.object["spec"]["hostname"], version_of(seen.object))
            # One that never had a node did no work that could be lost.
            if seen.object["spec"].get("nodeName"):
                made.setdefault(place, set()).add(seen.object["metadata"]["uid"])
        newest = {version_of(pod) for pod in self.pods()}
        twice = {place for place, uids in made.items() if len(uids) > 1 and place[1] in newest}
        assert twice == set(), f"replaced more than once: {twice}"


# Where a story plays on the embedded cluster --------------------------------------------------------


def play(
    story: Callable[[Rollout], Any],
    judge: str = "1.36",
    *,
    options: Mapping[str, Any] | None = None,
    faults: Iterable[Fault] = (),
) -> None:
    """A story on the embedded cluster with the scheduler of a judge."""
    played = JUDGES[judge]

    async def told(world: World) -> None:
        for fault in faults:
            world.cluster.faults.add(fault)
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}
        await world.user.create(NAMESPACES, manifest)
        for each in played.furniture:
            await world.user.create(served(each), each)
        followed = (*played.resources, *ALSO)
        async with Ledger(world.user, *followed, namespace=_NAMESPACE) as ledger:
            scene = Scene(played, _NAMESPACE, world.user, ledger, patience=120)

            async def restart() -> None:
                await world.kill_operator()
                await world.start_operator()

            await story(Rollout(scene, restart=restart))

    chosen = WorldOptions(
        kubernetes=played.minor,
        nodes=0,
        schedulers=(played.third_party,) if played.third_party else (),
        configuration=load(played.configuration),
    )
    run_world(told, replace(chosen, **(options or {})))
