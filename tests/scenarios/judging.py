"""Whether a disturbed set ended right, and whether its gangs were gangs all the time.

`faults` reads the cluster through the API and says in sentences what is wrong with a set's end. `Sampler`
records pods and cliques from watches; `partials` and `early_gates` replay that record in the order of the
server's revisions. A pod belongs to a gang only by the UID of its owning clique.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.scenarios.stories import Stage, condition_of, gates_of, scheduler_objects, uid_of

from grove.api import kinds, labels
from grove.errors import ApiError
from grove.meta import Manifest, Resource
from grove.testing.virtual_time import virtual_loop
from grove.testing.world import PLACEHOLDER, World

#: A gang whose pods are bound one call at a time is partial for moments; longer than this it is not a gang.
LASTING: Final = 10.0
#: How long the operator may take for living what is already being deleted.
REACTION: Final = 1.0
#: A refusal must name a way out, not only the field.
WAY_OUT: Final = re.compile(
    r"\b(delete|apply|create|put|take|set|use|remove|restore|choose|instead|undo|back)\b", re.IGNORECASE
)


@dataclass(slots=True)
class Expected:
    """What a set must look like in the end."""

    name: str
    roles: Mapping[str, int]
    """The minimum of each role."""
    replicas: int = 1
    allowed: set[str] = field(default_factory=set)
    """UIDs of pods and objects that belong to the user: strangers, and what was orphaned on purpose."""
    may_be_refused: str = ""
    """The field whose edit may be refused; the set then stays as it was."""
    refused_roles: Mapping[str, int] | None = None
    """The minima that hold when that edit is refused."""

    def gangs(self) -> list[str]:
        return [f"{self.name}-{index}" for index in range(self.replicas)]


def owner_uid(obj: Manifest) -> str:
    """The UID of the controlling owner; empty when there is none."""
    for each in obj["metadata"].get("ownerReferences") or ():
        if each.get("controller"):
            return str(each["uid"])
    return ""


def is_leaving(obj: Manifest) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def is_over(pod: Manifest) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded")


def is_ready(pod: Manifest) -> bool:
    return condition_of(pod, "Ready").get("status") == "True"


# The end ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Picture:
    """Everything that the verdict is made of, read once."""

    cliqueset: Manifest | None
    gangs: dict[str, Manifest]
    cliques: dict[str, Manifest]
    services: dict[str, Manifest]
    pods: list[Manifest]
    objects: list[Manifest]


async def take_picture(world: World, stage: Stage, name: str) -> Picture:
    async def named(resource: Resource) -> dict[str, Manifest]:
        return {each["metadata"]["name"]: each for each in await world.all(resource)}

    return Picture(
        await world.get(kinds.CLIQUESETS, name),
        await named(kinds.GANGS),
        await named(kinds.CLIQUES),
        await named(kinds.SERVICES),
        await world.all(kinds.PODS),
        await scheduler_objects(world, stage),
    )


async def faults(world: World, stage: Stage, expected: Expected) -> list[str]:
    """What is wrong with the set, one sentence each; empty when it ended right."""
    seen = await take_picture(world, stage, expected.name)
    if seen.cliqueset is None:
        return [f"set {expected.name} does not exist"]
    refused, said = _refusal(seen.cliqueset, expected)
    found = list(said)
    minima = expected.refused_roles if refused and expected.refused_roles is not None else expected.roles
    members: set[str] = set()
    for gang in expected.gangs():
        found += _gang_faults(seen, gang, minima, members)
    found += _set_counts(seen.cliqueset, expected.replicas)
    found += _leftovers(seen, expected, members)
    return found


def _refusal(cliqueset: Manifest, expected: Expected) -> tuple[bool, list[str]]:
    accepted = condition_of(cliqueset, "Accepted")
    if accepted.get("status") == "True":
        return False, []
    message = str(accepted.get("message", ""))
    if not expected.may_be_refused:
        return True, [f"the set is not accepted: {message or accepted}"]
    if expected.may_be_refused not in message:
        return True, [f"the refusal does not name {expected.may_be_refused}: {message!r}"]
    if not WAY_OUT.search(message):
        return True, [f"the refusal names no way out: {message!r}"]
    return True, []


def _gang_faults(seen: Picture, name: str, minima: Mapping[str, int], members: set[str]) -> Iterator[str]:
    gang = seen.gangs.get(name)
    if gang is None or is_leaving(gang):
        yield f"gang {name} {'does not exist' if gang is None else 'is being deleted'}"
        return
    if owner_uid(gang) != uid_of(seen.cliqueset):
        yield f"gang {name} is not owned by the present set"
    if name not in seen.services:
        yield f"service {name} does not exist"
    groups = {group["name"]: group for group in gang["spec"]["podgroups"]}
    for role, minimum in minima.items():
        clique = seen.cliques.get(f"{name}-{role}")
        if clique is None or is_leaving(clique):
            yield f"clique {name}-{role} {'does not exist' if clique is None else 'is being deleted'}"
            continue
        own = [pod for pod in seen.pods if owner_uid(pod) == uid_of(clique) and not is_leaving(pod)]
        members.update(uid_of(pod) for pod in own)
        yield from _clique_faults(clique, own)
        yield from _podgroup_faults(clique, own, groups.get(f"{name}-{role}"), minimum)
        yield from _pod_faults(name, clique, own)
    for kind in ("Scheduled", "Ready"):
        told = condition_of(gang, kind)
        if told.get("status") != "True":
            yield f"gang {name} says {kind}={told.get('status')}: {told.get('message')}"
    phase = (gang.get("status") or {}).get("phase")
    if phase != "Running":
        yield f"gang {name} is {phase}, not Running"


def _clique_faults(clique: Manifest, own: list[Manifest]) -> Iterator[str]:
    name, wanted, status = clique["metadata"]["name"], clique["spec"]["replicas"], clique.get("status") or {}
    if len(own) != wanted:
        yield f"clique {name} has {len(own)} pods of its own, it wants {wanted}"
    for key in ("replicas", "readyReplicas", "scheduledReplicas"):
        if status.get(key, 0) != wanted:
            yield f"clique {name} says {key} {status.get(key, 0)}, it wants {wanted}"
    if status.get("scheduleGatedReplicas", 0):
        yield f"clique {name} says scheduleGatedReplicas {status['scheduleGatedReplicas']}"


def _podgroup_faults(
    clique: Manifest, own: list[Manifest], group: Manifest | None, minimum: int
) -> Iterator[str]:
    name = clique["metadata"]["name"]
    if group is None:
        yield f"the gang has no podgroup {name}"
        return
    if group["minReplicas"] != minimum:
        yield f"podgroup {name} needs {group['minReplicas']} pods, the set says {minimum}"
    listed = sorted(each["name"] for each in group["podReferences"])
    names = sorted(pod["metadata"]["name"] for pod in own)
    if listed != names:
        yield f"podgroup {name} lists {listed}, its own pods are {names}"


def _pod_faults(gang: str, clique: Manifest, own: list[Manifest]) -> Iterator[str]:
    for pod in own:
        name, marks = pod["metadata"]["name"], pod["metadata"].get("labels") or {}
        if gates_of(pod):
            yield f"pod {name} is behind the gate {', '.join(gates_of(pod))}"
        elif not pod["spec"].get("nodeName"):
            told = condition_of(pod, "PodScheduled")
            yield f"pod {name} is not placed: {told.get('message', 'the scheduler says nothing')}"
        elif not is_ready(pod):
            yield f"pod {name} is placed but not ready ({(pod.get('status') or {}).get('phase')})"
        wanted = {
            labels.POD_GANG: gang,
            labels.POD_CLIQUE: clique["metadata"]["name"],
            labels.MANAGED_BY: labels.MANAGER,
        }
        for key, value in wanted.items():
            if marks.get(key) != value:
                yield f"pod {name} has the label {key}={marks.get(key)!r} instead of {value!r}"


def _set_counts(cliqueset: Manifest, wanted: int) -> Iterator[str]:
    status = cliqueset.get("status") or {}
    for key in ("replicas", "scheduledReplicas", "availableReplicas"):
        if status.get(key, 0) != wanted:
            yield f"the set says {key} {status.get(key, 0)}, it has {wanted}"
    available = condition_of(cliqueset, "Available")
    if available.get("status") != "True":
        yield f"the set says Available={available.get('status')}: {available.get('message')}"


def _leftovers(seen: Picture, expected: Expected, members: set[str]) -> Iterator[str]:
    """What is there besides the gangs' own pods and objects."""
    gangs = {uid_of(gang) for name, gang in seen.gangs.items() if name in expected.gangs()}
    for pod in seen.pods:
        if uid_of(pod) not in members | expected.allowed and not is_leaving(pod):
            kind = (
                "a placeholder" if PLACEHOLDER in (pod["metadata"].get("annotations") or {}) else "no member"
            )
            yield f"pod {pod['metadata']['name']} is {kind} of any present clique and still there"
    for what, found in (("gang", seen.gangs), ("clique", seen.cliques)):
        for name, each in found.items():
            known = name in expected.gangs() or name.rpartition("-")[0] in expected.gangs()
            if not known and uid_of(each) not in expected.allowed:
                yield f"{what} {name} is superfluous"
    for each in seen.objects:
        title = f"{each['kind']} {each['metadata']['name']}"
        if uid_of(each) in expected.allowed or _is_used(each, seen.pods):
            continue
        if is_leaving(each):
            yield f"{title} is being deleted and does not go"
        elif not _belongs(each, gangs, seen.objects):
            yield f"{title} belongs to no present gang"


def _is_used(obj: Manifest, pods: list[Manifest]) -> bool:
    """Whether a living pod was made with this object's name: it cannot be moved, and the object waits for it."""
    name = obj["metadata"]["name"]
    for pod in pods:
        spec, meta = pod["spec"], pod["metadata"]
        links = [*(spec.get("schedulingGroup") or {}).values(), *(spec.get("workloadRef") or {}).values()]
        marks = [*(meta.get("labels") or {}).values(), *(meta.get("annotations") or {}).values()]
        if name in (*links, *marks) and spec.get("nodeName") and not is_leaving(pod):
            return True
    return False


def _belongs(obj: Manifest, gangs: set[str], objects: list[Manifest]) -> bool:
    """Whether an object belongs to a gang, directly or through another object of the scheduler."""
    owners = {each["uid"] for each in obj["metadata"].get("ownerReferences") or ()}
    if owners & gangs:
        return True
    return any(
        uid_of(each) in owners and _belongs(each, gangs, objects) for each in objects if each is not obj
    )


# All the time -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Seen:
    at: float
    version: int
    kind: str
    gone: bool
    object: Manifest


class Sampler:
    """Records every change of pods and cliques from watches, which are begun anew when they end."""

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
                    f"the gate of pod {pod['metadata']['name']} opened at {seen_at(self._now)} while role "
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


def seen_at(at: float) -> str:
    return f"{at:.1f} s"


def watched_faults(record: list[Seen], minima: Mapping[str, int], *, end: float) -> list[str]:
    """What was wrong with any gang on the way, one sentence each."""
    cliques = {each.object["metadata"]["name"] for each in record if each.kind == "PodClique"}
    found: list[str] = []
    for gang in sorted({name.rpartition("-")[0] for name in cliques}):
        replay = Replay(record, minima, gang)
        replay.run(end)
        found += [*replay.partials, *replay.early]
    return found
