"""A set of which one field is edited, while nothing of it is placed or while all of it runs: the scene of a cell."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from scripts import edits
from tests.scenarios.disturbing import cordon
from tests.scenarios.group_truth import untruths
from tests.scenarios.judging import is_ready
from tests.scenarios.stories import (
    GPU,
    KOORDINATOR_RACKS,
    RACK,
    STAGES,
    Stage,
    condition_of,
    key,
    rack_binding,
    uid_of,
)
from tests.scenarios.told import Told, living, told

from grove.api import kinds, labels
from grove.backends.koordinator.topology import TOPOLOGIES
from grove.meta import Manifest
from grove.testing.kits import kit_for
from grove.testing.world import NODES, World, run_world

PENDING: Final = "pending"
RUNNING: Final = "running"
#: The gang that every edit concerns, and cliques of it.
BASE: Final = "train-0"
WORKER: Final = "train-0-worker"
MEMBER: Final = "train-0-group-0-member"
ROWS: Final = {row.field: row for row in edits.rows()}
_PRIORITY_CLASS: Final[Manifest] = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": edits.PRIORITY},
    "value": 1000,
}
#: What is in one rack once a rack is required: the label of the pods, and its value.
_TOGETHER: Final[Mapping[str, tuple[str, str]]] = {
    "`topologyConstraint` of the set, required": (labels.POD_GANG, BASE),
    "`topologyConstraint` of a role, required": (labels.POD_CLIQUE, WORKER),
}


def original(stage: Stage) -> Manifest:
    """The set of the table, for this scheduler, with pods that take room."""
    manifest = edits.original()
    manifest["metadata"]["annotations"] |= stage.annotations
    for role in manifest["spec"]["template"]["cliques"]:
        role["spec"]["podSpec"]["containers"][0]["resources"] = {"limits": {GPU: "2"}}
    return manifest


def edited(stage: Stage, row: str) -> Manifest:
    """The same after the edit of a row; without a row, as it was."""
    manifest = original(stage)
    if row:
        edits.FIELDS[row](manifest["spec"])
    return manifest


def edited_field(row: str) -> str:
    """The field that the edit of a row changes, as messages name it."""
    before, after = edits.original(), edits.original()
    edits.FIELDS[row](after["spec"])
    (path,) = _differing(before["spec"], after["spec"], "spec")
    return path


def _differing(one: object, other: object, path: str) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted(one.keys() | other.keys()):
            yield from _differing(one.get(name), other.get(name), f"{path}.{name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, pair in enumerate(zip(one, other, strict=True)):
            yield from _differing(*pair, f"{path}[{index}]")
    elif one != other:
        yield path


@dataclass(frozen=True, slots=True)
class Claim:
    """That the schedulers are told what they are told, at a moment, of a set created with an edit or without."""

    told: Told
    row: str
    when: str
    #: Whether there are pods besides, which are left out.
    partly: bool


@dataclass(slots=True)
class Scene:
    """A set one of whose fields is edited at a moment."""

    world: World
    stage: Stage
    #: The row of the table; without one, nothing is edited.
    row: str
    when: str
    #: To be compared when the story is over: another world cannot run inside of this one.
    claims: list[Claim] = field(default_factory=list)

    async def begin(self, manifest: Manifest) -> None:
        """Bring a set to the moment."""
        await self.world.apply(rack_binding(edits.TOPOLOGY), _PRIORITY_CLASS)
        if self.stage.backend == "koordinator":
            await self.world.user.create(TOPOLOGIES, KOORDINATOR_RACKS)
        await self.close_nodes(self.when == PENDING)
        await self.world.apply(manifest)
        await self.settle()
        placed = [bool(pod["spec"].get("nodeName")) for pod in await living(self.world)]
        assert placed
        assert all(placed) if self.when == RUNNING else not any(placed)

    async def settle(self) -> None:
        await self.world.settle(seconds=3600)

    async def close_nodes(self, closed: bool) -> None:
        for node in await self.world.all(NODES):
            await cordon(self.world, node["metadata"]["name"], closed)

    def expected(self) -> str:
        """What the table says about this cluster."""
        operator, kit = self.world.operator, kit_for(self.stage.backend)
        assert operator is not None
        assert kit is not None
        row, edit = ROWS[self.row], edits.edited_by(edits.FIELDS[self.row])
        context = operator.scheduling.context(kit.backend, edit.cliqueset)
        if self.when == PENDING:
            here, there = edit.pending(kit, context), row.pending
        else:
            here, there = edit.running(kit, context), row.running
        assert here in there[self.stage.backend], "the table has no such entry"
        return here

    # What a user does -----------------------------------------------------------------------------

    async def edit(self) -> None:
        """Apply the changed file, as `kubectl apply` does."""
        await self.world.apply(edited(self.stage, self.row))
        await self.settle()

    async def lose(self, clique: str) -> str:
        """A pod of this clique is deleted: another one takes its place, and no third is touched. Returns its UID."""
        before = await self.places()
        lost = next(pod for pod in await living(self.world) if clique_of(pod) == clique)
        await self.world.user.delete(kinds.PODS, key(lost["metadata"]["name"]), uid=uid_of(lost))
        await self.settle()
        del before[uid_of(lost)]
        assert before.items() <= (await self.places()).items()
        (new,) = [pod for pod in await living(self.world) if uid_of(pod) not in before]
        assert (clique_of(new), is_ready(new)) == (clique, True)
        assert await self.world.phase(BASE) == "Running"
        return uid_of(new)

    # What a user sees -----------------------------------------------------------------------------

    async def places(self) -> dict[str, str]:
        """The pods by UID, and their nodes."""
        return {uid_of(pod): pod["spec"].get("nodeName", "") for pod in await living(self.world)}

    async def pods_of(self, label: str, value: str) -> list[Manifest]:
        return [pod for pod in await living(self.world) if pod["metadata"]["labels"].get(label) == value]

    async def condition(self, type_: str) -> Manifest:
        return condition_of(await self.world.get(kinds.CLIQUESETS, "train"), type_)

    async def is_accepted(self) -> bool:
        return (await self.condition("Accepted")).get("status") == "True"

    async def is_right(self) -> None:
        """All of the set runs, and it says so."""
        assert await untruths(self.world, self.stage, "train") == []
        assert await self.is_accepted()
        assert await self.condition("EditPending") == {}

    async def is_told_as_created(self, row: str, when: str, only: Collection[str] | None = None) -> None:
        """Schedulers are told what they are told of a set that was created with this edit, or without any.

        Of the pods only those with these UIDs, where they are given.
        """
        said = await told(self.world, self.stage, only)
        self.claims.append(Claim(said, row, when, partly=only is not None))

    async def is_together(self) -> None:
        """What must be in one rack is in one."""
        racks = {
            node["metadata"]["name"]: node["metadata"]["labels"][RACK] for node in await self.world.all(NODES)
        }
        pods = await self.pods_of(*_TOGETHER[self.row]) if self.row in _TOGETHER else []
        assert len({racks[pod["spec"]["nodeName"]] for pod in pods}) <= 1


def clique_of(pod: Manifest) -> str:
    return str(pod["metadata"]["labels"][labels.POD_CLIQUE])


@cache
def created(name: str, row: str, when: str) -> Told:
    """What is told on a stage of a set that was created with an edit, or without any."""
    stage, found = STAGES[name], list[Told]()

    async def story(world: World) -> None:
        scene = Scene(world, stage, row, when)
        await scene.begin(edited(stage, row))
        found.append(await told(world, stage))

    run_world(story, stage.options)
    return found[0]
