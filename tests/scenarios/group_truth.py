"""Whether a set with scaling groups is what it asks for, and says so: read through the API, counted from the pods.

Nothing here asks the operator's own layout: which gangs, cliques and pods there must be is worked out from the
set's template and from the replicas of the groups and cliques as they stand.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.scenarios.judging import is_leaving, is_ready, is_used, owner_uid
from tests.scenarios.stories import Stage, condition_of, gates_of, scheduler_objects, uid_of

from grove.api import kinds, labels
from grove.meta import Manifest
from grove.testing.world import World


@dataclass(slots=True)
class Cluster:
    """Everything that the verdict is made of, read once, by name."""

    cliqueset: Manifest
    groups: dict[str, Manifest]
    cliques: dict[str, Manifest]
    gangs: dict[str, Manifest]
    services: dict[str, Manifest]
    pods: list[Manifest]
    objects: list[Manifest]
    #: What was found that should be there.
    known: set[str] = field(default_factory=set)
    #: The base gangs that have pods.
    placed: set[str] = field(default_factory=set)

    def pods_of(self, clique: str) -> list[Manifest]:
        owner = uid_of(self.cliques.get(clique))
        return [pod for pod in self.pods if owner and owner_uid(pod) == owner and not is_leaving(pod)]


@dataclass(frozen=True, slots=True)
class Clique:
    """A clique that there should be, or whose podgroup should be there: its minimum if it has any pods."""

    name: str
    owner: str
    minimum: int
    exists: bool = True


async def untruths(
    world: World, stage: Stage, name: str, *, allowed: frozenset[str] = frozenset()
) -> list[str]:
    """What is wrong with a set at rest, one sentence each; what has an `allowed` UID is not looked at."""
    cliqueset = await world.get(kinds.CLIQUESETS, name)
    if cliqueset is None:
        return [f"set {name} does not exist"]
    listed = [
        {each["metadata"]["name"]: each for each in await world.all(kind) if uid_of(each) not in allowed}
        for kind in (kinds.SCALING_GROUPS, kinds.CLIQUES, kinds.GANGS, kinds.SERVICES)
    ]
    pods = [pod for pod in await world.pods() if uid_of(pod) not in allowed]
    objects = [each for each in await scheduler_objects(world, stage) if uid_of(each) not in allowed]
    seen = Cluster(cliqueset, listed[0], listed[1], listed[2], listed[3], pods, objects)
    found = [fault for replica in range(cliqueset["spec"]["replicas"]) for fault in _replica(seen, replica)]
    return [*found, *_set_counts(seen), *_leftovers(seen)]


def _replica(seen: Cluster, replica: int) -> Iterator[str]:
    template, base = seen.cliqueset["spec"]["template"], f"{seen.cliqueset['metadata']['name']}-{replica}"
    minima = {each["name"]: _minimum(each["spec"]) for each in template["cliques"]}
    configs = template.get("podCliqueScalingGroups") or ()
    grouped = {role for config in configs for role in config["cliqueNames"]}
    own = uid_of(seen.cliqueset)
    members = [Clique(f"{base}-{role}", own, least) for role, least in minima.items() if role not in grouped]
    scaled: dict[str, list[Clique]] = {}
    for config in configs:
        name, least = f"{base}-{config['name']}", config.get("minAvailable", 1)
        group = seen.groups.get(name)
        yield from _exists(seen, "group", name, group, own)
        replicas = group["spec"]["replicas"] if group is not None else 0
        for number in range(max(replicas, least)):
            cliques = [
                Clique(f"{name}-{number}-{role}", uid_of(group), minima[role], number < replicas)
                for role in config["cliqueNames"]
            ]
            if number < least:
                members += cliques
            else:
                scaled[f"{name}-{number - least}"] = cliques
        if group is not None:
            yield from _group_counts(seen, group)
    yield from _exists(seen, "service", base, seen.services.get(base), own)
    for gang, cliques in {base: members, **scaled}.items():
        yield from _gang(seen, gang, cliques)
        for clique in cliques:
            if clique.exists:
                yield from _clique(seen, clique, gang)


def _exists(seen: Cluster, what: str, name: str, found: Manifest | None, owner: str) -> Iterator[str]:
    if found is None:
        yield f"{what} {name} does not exist"
        return
    seen.known.add(uid_of(found))
    if is_leaving(found):
        yield f"{what} {name} is being deleted"
    if owner_uid(found) != owner:
        yield f"{what} {name} does not belong to its owner"
    if found["metadata"]["labels"].get(labels.PART_OF) != seen.cliqueset["metadata"]["name"]:
        yield f"{what} {name} has lost its labels"


def _clique(seen: Cluster, clique: Clique, gang: str) -> Iterator[str]:
    found = seen.cliques.get(clique.name)
    yield from _exists(seen, "clique", clique.name, found, clique.owner)
    if found is None:
        return
    pods = seen.pods_of(clique.name)
    seen.known.update(map(uid_of, pods))
    wanted = found["spec"]["replicas"]
    if len(pods) != wanted:
        yield f"clique {clique.name} has {len(pods)} pods of {wanted}"
    for pod in pods:
        marks = pod["metadata"]["labels"]
        if (marks.get(labels.POD_GANG), marks.get(labels.POD_CLIQUE)) != (gang, clique.name):
            yield f"pod {pod['metadata']['name']} is not labelled as one of {gang} and {clique.name}"
        if not is_ready(pod):
            yield f"pod {pod['metadata']['name']} is not ready"
    counted = {
        "replicas": len(pods),
        "readyReplicas": sum(map(is_ready, pods)),
        "scheduledReplicas": sum("nodeName" in pod["spec"] for pod in pods),
        "scheduleGatedReplicas": sum(bool(gates_of(pod)) for pod in pods),
    }
    yield from _says(found, counted)


def _gang(seen: Cluster, name: str, cliques: list[Clique]) -> Iterator[str]:
    gang = seen.gangs.get(name)
    yield from _exists(seen, "gang", name, gang, uid_of(seen.cliqueset))
    if gang is None:
        return
    groups = {each["name"]: each for each in gang["spec"]["podgroups"]}
    if sorted(groups) != sorted(each.name for each in cliques):
        yield f"gang {name} has the podgroups {sorted(groups)}"
        return
    total = 0
    for each in cliques:
        pods, clique = seen.pods_of(each.name), seen.cliques.get(each.name)
        least = each.minimum if clique is not None and each.exists and clique["spec"]["replicas"] else 0
        total += len(pods)
        if groups[each.name]["minReplicas"] != least:
            yield f"podgroup {each.name} needs {groups[each.name]['minReplicas']} pods instead of {least}"
        listed = sorted(one["name"] for one in groups[each.name]["podReferences"])
        if listed != sorted(pod["metadata"]["name"] for pod in pods):
            yield f"podgroup {each.name} lists {listed}"
    phase = (gang.get("status") or {}).get("phase")
    if phase != ("Running" if total else "Pending"):
        yield f"gang {name} with {total} pods is {phase}"
    if total:
        seen.placed.add(name)
    for item in seen.objects:
        if any(one["uid"] == uid_of(gang) for one in item["metadata"].get("ownerReferences") or ()):
            seen.known.add(uid_of(item))


def _group_counts(seen: Cluster, group: Manifest) -> Iterator[str]:
    """The counts of a group's status, counted from the pods of its cliques."""
    name, wanted, spec = group["metadata"]["name"], group["spec"]["replicas"], group["spec"]
    placed = ready = updated = 0
    for number in range(wanted):
        names = [f"{name}-{number}-{role}" for role in spec["cliqueNames"]]
        cliques = [seen.cliques.get(each) for each in names]
        if any(each is None for each in cliques):
            continue
        needed = [_minimum(each["spec"]) if each["spec"]["replicas"] else 0 for each in cliques if each]
        pods = [seen.pods_of(each) for each in names]
        bound = [sum("nodeName" in pod["spec"] for pod in each) for each in pods]
        placed += all(count >= least for count, least in zip(bound, needed, strict=True))
        enough = all(sum(map(is_ready, each)) >= least for each, least in zip(pods, needed, strict=True))
        ready += enough
        updated += enough and all(
            sum(_is_current(pod, clique) for pod in each) >= least
            for each, clique, least in zip(pods, cliques, needed, strict=True)
        )
    yield from _says(
        group,
        {
            "replicas": wanted,
            "scheduledReplicas": placed,
            "availableReplicas": ready,
            "updatedReplicas": updated,
        },
    )
    breached = "False" if ready >= min(wanted, spec["minAvailable"]) else "True"
    if condition_of(group, "MinAvailableBreached").get("status") != breached:
        yield f"group {name} does not say MinAvailableBreached={breached}"
    if condition_of(group, "Ready").get("status") != str(ready >= wanted):
        yield f"group {name} does not say Ready={ready >= wanted}"


def _is_current(pod: Manifest, clique: Manifest | None) -> bool:
    """Whether a pod was made from the template that its clique has now."""
    name = labels.POD_TEMPLATE_HASH
    return clique is not None and pod["metadata"]["labels"].get(name) == clique["metadata"]["labels"].get(
        name
    )


def _set_counts(seen: Cluster) -> Iterator[str]:
    """A replica all of whose roles are scaled to zero lacks nothing, and nothing of it is on a node."""
    wanted, name = seen.cliqueset["spec"]["replicas"], seen.cliqueset["metadata"]["name"]
    placed = sum(f"{name}-{replica}" in seen.placed for replica in range(wanted))
    yield from _says(
        seen.cliqueset, {"replicas": wanted, "scheduledReplicas": placed, "availableReplicas": wanted}
    )


def _says(found: Manifest, counted: dict[str, int]) -> Iterator[str]:
    kind, name, status = found["kind"], found["metadata"]["name"], found.get("status") or {}
    for key, number in counted.items():
        if status.get(key, 0) != number:
            yield f"{kind} {name} says {key} {status.get(key, 0)}, and there are {number}"
    if status.get("observedGeneration") != found["metadata"]["generation"]:
        yield f"{kind} {name} speaks of generation {status.get('observedGeneration')}"


def _leftovers(seen: Cluster) -> Iterator[str]:
    found = [*seen.groups.values(), *seen.cliques.values(), *seen.gangs.values(), *seen.services.values()]
    for each in (*found, *seen.pods):
        marked = labels.MANAGED_BY in (each["metadata"].get("labels") or {})
        if uid_of(each) not in seen.known and (marked or each["kind"] != "Service"):
            yield f"{each['kind']} {each['metadata']['name']} is superfluous"
    for each in seen.objects:
        if not is_used(each, seen.pods) and not _belongs(seen, each):
            yield f"{each['kind']} {each['metadata']['name']} belongs to no present gang"


def _belongs(seen: Cluster, obj: Manifest) -> bool:
    owners = {each["uid"] for each in obj["metadata"].get("ownerReferences") or ()}
    if owners & seen.known:
        return True
    return any(uid_of(each) in owners and _belongs(seen, each) for each in seen.objects if each is not obj)


def _minimum(spec: Manifest) -> int:
    least: int = spec["replicas"] if spec.get("minAvailable") is None else spec["minAvailable"]
    return least
