"""Whether gangs were gangs all the time, from a record of every change of pods and cliques.

`Sampler` makes the record from watches; `watched_faults` replays it in the order of the server's revisions and
says where a gang held a part of its places for long, and where a gate opened before its gang was there.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tests.scenarios.judging import is_leaving, is_over, owner_uid
from tests.scenarios.stories import gates_of, uid_of

from grove.api import kinds
from grove.errors import ApiError
from grove.meta import Manifest, Resource
from grove.testing.virtual_time import virtual_loop
from grove.testing.world import World

#: A gang whose pods are bound one call at a time is partial for moments; longer than this it is not a gang.
LASTING: Final = 10.0
#: How long the operator may take for living what is already being deleted.
REACTION: Final = 1.0


@dataclass(frozen=True, slots=True)
class Seen:
    at: float
    version: int
    kind: str
    gone: bool
    object: Manifest


class Sampler:
    """Records every change of pods and cliques from watches, which are started again when they end."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._tasks: list[asyncio.Task[None]] = []
        self._seen: list[Seen] = []

    async def __aenter__(self) -> "Sampler":
        for each in (kinds.PODS, kinds.CLIQUES):
            listing = await self._world.user.list(each, type=dict)
            task = asyncio.create_task(self._watch(each, listing.resource_version), name=f"sampler of {each}")
            self._tasks.append(task)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _watch(self, resource: Resource, version: str) -> None:
        while True:
            try:
                async for event in self._world.user.watch(resource, type=dict, resource_version=version):
                    version = event.resource_version
                    if event.type != "BOOKMARK":
                        gone = event.type == "DELETED"
                        now = virtual_loop().time()
                        self._seen.append(Seen(now, int(version), resource.kind, gone, event.object))
            except ApiError:
                await asyncio.sleep(0.1)

    def record(self) -> list[Seen]:
        """Everything, in the order of the server's revisions."""
        return sorted(self._seen, key=lambda each: each.version)


@dataclass(slots=True)
class _Member:
    clique: str
    gated: bool
    bound: bool
    leaving: float | None


class Replay:
    """The pods of each gang as they were, event by event; a gang is `whole` until nothing of it is placed."""

    def __init__(self, record: list[Seen], minima: Mapping[str, int], gang: str) -> None:
        self._record = record
        self._minima = minima
        self._gang = gang
        self._cliques: dict[str, tuple[str, int]] = {}
        self._pods: dict[str, _Member] = {}
        self.partials: list[str] = []
        self.early: list[str] = []
        self._whole = False
        self._since: float | None = None
        self._now = 0.0

    def run(self, end: float) -> None:
        for each in self._record:
            self._pass_to(each.at)
            if each.kind == "PodClique":
                self._clique(each)
            else:
                self._pod(each)
            self._judge()
        self._pass_to(end)

    def _pass_to(self, at: float) -> None:
        if self._since is not None and at - self._since > LASTING >= self._now - self._since:
            self.partials.append(
                f"gang {self._gang} was partial for more than {LASTING:g} s from {self._since:.1f} s on: {self._say()}"
            )
        self._now = at

    def _clique(self, seen: Seen) -> None:
        name = seen.object["metadata"]["name"]
        if name.rpartition("-")[0] != self._gang:
            return
        if seen.gone:
            self._cliques.pop(name, None)
        else:
            self._cliques[name] = (uid_of(seen.object), seen.object["spec"]["replicas"])

    def _pod(self, seen: Seen) -> None:
        pod, before = seen.object, self._pods.get(uid_of(seen.object))
        if seen.gone or is_over(pod):
            self._pods.pop(uid_of(pod), None)
            return
        leaving = (
            (before.leaving if before and before.leaving is not None else seen.at)
            if is_leaving(pod)
            else None
        )
        member = _Member(owner_uid(pod), bool(gates_of(pod)), bool(pod["spec"].get("nodeName")), leaving)
        self._pods[uid_of(pod)] = member
        if not member.gated and leaving is None and (before is None or before.gated):
            self._opened(pod, member)

    def _opened(self, pod: Manifest, member: _Member) -> None:
        if self._whole or member.clique not in {uid for uid, _ in self._cliques.values()}:
            return
        for role, minimum in self._minima.items():
            there = sum(self._counts(each) for each in self._pods.values() if self._role(each) == role)
            needed = min(minimum, self._cliques.get(f"{self._gang}-{role}", ("", minimum))[1])
            if there < needed:
                self.early.append(
                    f"the gate of pod {pod['metadata']['name']} opened at {self._now:.1f} s while role "
                    f"{role} had {there} of {needed} pods"
                )

    def _counts(self, member: _Member) -> bool:
        return member.leaving is None or self._now - member.leaving < REACTION

    def _role(self, member: _Member) -> str:
        names = [name for name, (uid, _) in self._cliques.items() if uid == member.clique]
        return names[0].rpartition("-")[2] if names else ""

    def _bound(self) -> dict[str, int]:
        placed = [self._role(each) for each in self._pods.values() if each.bound and each.leaving is None]
        return {role: placed.count(role) for role in self._minima}

    def _judge(self) -> None:
        bound = self._bound()
        enough = all(
            count >= min(self._minima[role], self._cliques.get(f"{self._gang}-{role}", ("", 1 << 31))[1])
            for role, count in bound.items()
        )
        if not any(bound.values()):
            self._whole, self._since = False, None
        elif enough:
            self._whole, self._since = True, None
        elif not self._whole and self._since is None:
            self._since = self._now

    def _say(self) -> str:
        return ", ".join(
            f"{count} of {self._minima[role]} {role} placed" for role, count in self._bound().items()
        )


def watched_faults(record: list[Seen], minima: Mapping[str, int], *, end: float) -> list[str]:
    """What was wrong with any gang on the way, one sentence each."""
    cliques = {each.object["metadata"]["name"] for each in record if each.kind == "PodClique"}
    found: list[str] = []
    # Cliques of scaling groups have roles of their own, and are judged with their set.
    for gang in sorted({name.rpartition("-")[0] for name in cliques if name.rpartition("-")[2] in minima}):
        replay = Replay(record, minima, gang)
        replay.run(end)
        found += [*replay.partials, *replay.early]
    return found
