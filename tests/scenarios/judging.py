"""Whether a disturbed set ended right: `faults` reads the cluster through the API and says what is wrong.

A pod belongs to a gang only by the UID of its owning clique, whatever its labels say.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.scenarios.stories import Stage, condition_of, gates_of, scheduler_objects, uid_of

from grove.api import kinds, labels
from grove.meta import Manifest, Resource
from grove.testing.world import World, holds_place

#: A refusal must name a way out, not only the field.
WAY_OUT: Final = re.compile(
    r"\b(delete|apply|create|put|take|set|use|remove|restore|choose|move|instead|undo|back)\b", re.IGNORECASE
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
            kind = "a placeholder" if holds_place(pod) else "no member"
            yield f"pod {pod['metadata']['name']} is {kind} of any present clique and still there"
    for what, found in (("gang", seen.gangs), ("clique", seen.cliques)):
        for name, each in found.items():
            known = name in expected.gangs() or name.rpartition("-")[0] in expected.gangs()
            if not known and uid_of(each) not in expected.allowed:
                yield f"{what} {name} is superfluous"
    for each in seen.objects:
        title = f"{each['kind']} {each['metadata']['name']}"
        if uid_of(each) in expected.allowed or is_used(each, seen.pods):
            continue
        if is_leaving(each):
            yield f"{title} is being deleted and does not go"
        elif not _belongs(each, gangs, seen.objects):
            yield f"{title} belongs to no present gang"


def is_used(obj: Manifest, pods: list[Manifest]) -> bool:
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
