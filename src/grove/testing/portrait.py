"""What a world looks like without everything that chance decides, and what must never happen in it.

Two runs that went through different misfortunes must end in equal portraits. The `Guard` watches every change
while a run goes on: a promise that is broken only for a moment is broken.
"""

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from grove.api import conditions, kinds, labels, names
from grove.api.cliqueset import ON_DELETE
from grove.embedded.cluster import EmbeddedCluster
from grove.embedded.storage.store import Event
from grove.meta import Manifest, Resource
from grove.plan.places import STUCK_SECONDS
from grove.testing.deletions import LONGEST_LAG, PROMPT, Deletions
from grove.testing.headcount import is_ready
from grove.testing.world import OPERATOR, World

_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_REVISION: Final = re.compile(r"(?<![a-z0-9])([a-z0-9]{10})(?![a-z0-9])")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
#: The replica that an update waits for, in the words of its set.
_KEEPS_ITS_TURN: Final = "was recycled during its update; it keeps its turn until"
_WAITS_FOR: Final = re.compile(r"replica (\d+) (?:is being updated|must be available)")
#: Fields whose value depends on when something happened or on what was drawn.
_CHANCE: Final = re.compile(
    r"^(uid|resourceVersion|managedFields|generation|observedGeneration|lastTransitionTime)$|[tT]imestamp$"
    r"|^grove\.io/restarts$"
)


#: Sets and what is made of them, whether or not a set has any of it.
_CHILDREN: Final = (
    kinds.CLIQUESETS,
    kinds.SCALING_GROUPS,
    kinds.CLIQUES,
    kinds.GANGS,
    kinds.SERVICES,
    kinds.AUTOSCALERS,
    kinds.DISRUPTION_BUDGETS,
    kinds.RESOURCE_CLAIMS,
    kinds.ROLES,
    kinds.ROLE_BINDINGS,
)


async def portrait(world: World, scheduler_objects: tuple[Resource, ...] = ()) -> Manifest:
    """Everything that Grove is responsible for: pods by hostname, without times, UIDs and node names."""
    pods = await world.pods()
    hosts = {each["metadata"]["name"]: str(each["spec"].get("hostname")) for each in pods}
    # How often a gang was started until it stood is chance too.
    starts = {
        revision: "<revision>"
        for each in pods
        if (revision := (each["metadata"].get("annotations") or {}).get(labels.GANG_REVISION))
    }
    seen: Manifest = {"pods": sorted((_pod(pod, starts) for pod in pods), key=lambda pod: str(pod["host"]))}
    for resource in (*_CHILDREN, *scheduler_objects):
        items = [_object(each, {**hosts, **starts}) for each in await world.all(resource)]
        if resource in scheduler_objects:
            # What a scheduler wrote on the way there is its own, and Volcano never takes any of it back.
            items = [{name: part for name, part in item.items() if name != "status"} for item in items]
        seen[str(resource)] = sorted(items, key=lambda item: str(item["metadata"]["name"]))
    seen["templates"] = await _present_templates(world)
    return seen


async def _present_templates(world: World) -> Manifest:
    """The recorded pod templates that sets have now, by role.

    Which earlier ones there were is history, and so is what else a set said when a template was recorded.
    """
    present = {
        names.template_revision(each["metadata"]["name"], str(each["status"].get("currentGenerationHash")))
        for each in await world.all(kinds.CLIQUESETS)
    }
    return {
        each["metadata"]["name"]: {
            role["name"]: role["spec"]["podSpec"] for role in each["data"]["spec"]["template"]["cliques"]
        }
        for each in await world.all(kinds.CONTROLLER_REVISIONS)
        if each["metadata"]["name"] in present
    }


def without(value: Any, fields: Collection[str]) -> Any:
    """A portrait without some fields, wherever they stand."""
    if isinstance(value, dict):
        return {name: without(item, fields) for name, item in value.items() if name not in fields}
    return [without(item, fields) for item in value] if isinstance(value, list) else value


async def silent_updates(world: World) -> list[str]:
    """The sets that are not up to date, and neither are being updated nor say truly why they are not.

    For a world that has come to rest: whatever an update says that it will do by itself, it does not do.
    """
    silent = []
    pods, cliques = (
        await world.pods(),
        {each["metadata"]["name"]: each for each in await world.all(kinds.CLIQUES)},
    )
    for each in await world.all(kinds.CLIQUESETS):
        name, status = each["metadata"]["name"], each.get("status") or {}
        told = {one["type"]: one for one in status.get("conditions") or () if one["status"] == "True"}
        strategy = (each["spec"].get("updateStrategy") or {}).get("type")
        mine = [pod for pod in pods if pod["metadata"]["labels"].get(labels.PART_OF) == name]
        if (update := told.get(conditions.UPDATE_IN_PROGRESS)) is not None:
            if not _waits_truly(each, update["message"], mine, cliques):
                silent.append(f"the update of {name} stands still, and nothing that it tells is so: {update}")
            continue
        if strategy == ON_DELETE:
            continue
        if (progress := status.get("updateProgress")) and not progress.get("updateEndedAt"):
            silent.append(f"the update of {name} is not over, and the set says nothing of it")
        silent += [
            f"pod {pod['metadata']['name']} is outdated, and its set says nothing of it"
            for pod in mine
            if (clique := cliques.get(pod["metadata"]["labels"].get(labels.POD_CLIQUE, ""))) is not None
            and _hash(pod) != _hash(clique)
        ]
    return silent


def _waits_truly(cliqueset: Manifest, told: str, pods: list[Manifest], cliques: Manifest) -> bool:
    """Whether an update is paused, as it tells, or tells of a replica of which a pod does not serve.

    Or of one that was recycled: for that one to be available for a while, nothing is written.
    """
    annotations = cliqueset["metadata"].get("annotations", {})
    if f"annotation {labels.UPDATE_PAUSED}" in told:
        return bool(annotations.get(labels.UPDATE_PAUSED) == "true")
    if _KEEPS_ITS_TURN in told:
        return True
    if (waits_for := _WAITS_FOR.search(told)) is None:
        return False
    serving = Counter(pod["metadata"]["labels"].get(labels.POD_CLIQUE) for pod in pods if is_ready(pod))
    of_replica = (
        each
        for each in cliques.values()
        if each["metadata"]["labels"].get(labels.PART_OF) == cliqueset["metadata"]["name"]
        and each["metadata"]["labels"].get(labels.SET_REPLICA_INDEX) == waits_for[1]
    )
    return any(serving[each["metadata"]["name"]] < each["spec"]["replicas"] for each in of_replica)


def _hash(item: Manifest) -> str:
    return str(item["metadata"]["labels"].get(labels.POD_TEMPLATE_HASH))


def _pod(pod: Manifest, starts: dict[str, str]) -> Manifest:
    spec, metadata = pod["spec"], pod["metadata"]
    return {
        "host": spec.get("hostname"),
        "placed": bool(spec.get("nodeName")),
        "gates": [gate["name"] for gate in spec.get("schedulingGates") or ()],
        "phase": pod["status"].get("phase"),
        "going": "deletionTimestamp" in metadata,
        "labels": _cleaned(metadata["labels"], starts),
        "claims": spec.get("resourceClaims") or [],
        "waits": [each.get("args") for each in spec.get("initContainers") or ()],
    }


def _object(item: Manifest, hosts: dict[str, str]) -> Manifest:
    cleaned: Manifest = _cleaned(item, hosts)
    return cleaned


def _cleaned(value: Any, hosts: dict[str, str]) -> Any:
    if isinstance(value, dict):
        kept = {name: _cleaned(item, hosts) for name, item in value.items() if not _CHANCE.search(name)}
        return {name: item for name, item in kept.items() if item != {}}
    if isinstance(value, list):
        cleaned = [_cleaned(item, hosts) for item in value]
        return sorted(cleaned, key=str) if value and _unordered(value) else cleaned
    if isinstance(value, str):
        plain = _TIME.sub("<time>", _UID.sub("<uid>", value))
        return hosts.get(value) or _without_revision(plain, hosts)
    return value


def _without_revision(text: str, known: dict[str, str]) -> str:
    """A name that ends in the revision of a gang, or a text that lists such names."""
    return _REVISION.sub(lambda found: known.get(found[1], found[1]), text)


def _unordered(items: list[Manifest]) -> bool:
    """Lists in which order means nothing: conditions, and references sorted by a name that chance made."""
    first = items[0]
    return isinstance(first, dict) and (
        "lastTransitionTime" in first or set(first) - {"uid"} == {"namespace", "name"}
    )


@dataclass
class Guard:
    """Watches a cluster and writes down every promise that is broken, however briefly."""

    cluster: EmbeddedCluster
    broken: list[str] = field(default_factory=list)
    #: How many seconds the operator may see the world later than it is.
    lag: float = LONGEST_LAG
    #: The gangs that were placed at some time, by namespace and name.
    _placed: set[tuple[str, str]] = field(default_factory=set)
    _deletions: Deletions = field(init=False)

    def __post_init__(self) -> None:
        self.cluster.store.listeners.append(self._changed)
        self._deletions = Deletions(self.cluster, OPERATOR.name, self.broken, self.lag)

    def expect_promptness(self) -> None:
        """From now on nothing keeps the operator from seeing the world as it is."""
        self._deletions.lag = PROMPT

    def _changed(self, table: tuple[str, str], event: Event) -> None:
        if table == ("", "pods") and event.type != "DELETED":
            self._look(event.previous.obj if event.previous is not None else None, event.entry.obj)
            self._twins()
        if (
            table == (kinds.RESOURCE_CLAIMS.gvk.group, kinds.RESOURCE_CLAIMS.plural)
            and event.type == "DELETED"
        ):
            self._claim_lost(event.entry.obj)

    def _look(self, before: Manifest | None, pod: Manifest) -> None:
        metadata = pod["metadata"]
        gang_name = metadata.get("labels", {}).get(labels.POD_GANG)
        if not gang_name or not _of_a_clique(pod):
            # Somebody else's, or one that a scheduler made to hold a place.
            return
        gated = bool(pod["spec"].get("schedulingGates"))
        # A pod that is created although its clique has just gone is collected, and never starts.
        if before is None and self._has_owner(pod):
            self._claims_first(pod)
        if before is None and not gated:
            self.broken.append(f"pod {metadata['name']} was born without a gate")
        if before is not None and before["spec"].get("schedulingGates") and not gated:
            self._opened(pod, str(gang_name))
        if pod["spec"].get("nodeName") and not (before or pod)["spec"].get("nodeName"):
            self._note_placed(metadata["namespace"], str(gang_name))

    def _opened(self, pod: Manifest, gang_name: str) -> None:
        metadata = pod["metadata"]
        gang = self.cluster.api.find(kinds.GANGS.gvk.group, "podgangs", metadata["namespace"], gang_name)
        if gang is None:
            self.broken.append(f"pod {metadata['name']} was released although its gang is gone")
            return
        listed = {
            reference["name"]
            for group in gang["spec"]["podgroups"]
            for reference in group.get("podReferences") or ()
        }
        if metadata["name"] not in listed:
            self.broken.append(f"pod {metadata['name']} was released although its gang does not list it")
        told = {each["type"]: each["status"] for each in gang["status"].get("conditions", ())}
        if told.get("Initialized") != "True":
            self.broken.append(f"pod {metadata['name']} was released before its gang was Initialized")
        base = gang["metadata"]["labels"].get(labels.BASE_POD_GANG)
        if base and (metadata["namespace"], base) not in self._placed:
            self.broken.append(f"pod {metadata['name']} was released before the base gang {base} was placed")

    def _note_placed(self, namespace: str, gang_name: str) -> None:
        """Remember a gang that has just got enough pods on nodes."""
        gang = self.cluster.api.find(kinds.GANGS.gvk.group, "podgangs", namespace, gang_name)
        if gang is None:
            return
        bound = Counter(
            pod["metadata"].get("labels", {}).get(labels.POD_CLIQUE)
            for pod in self.cluster.api.all_of("", "pods")
            if pod["metadata"]["namespace"] == namespace and pod["spec"].get("nodeName")
        )
        if all(bound[group["name"]] >= group["minReplicas"] for group in gang["spec"]["podgroups"]):
            self._placed.add((namespace, gang_name))

    def _claims_first(self, pod: Manifest) -> None:
        namespace, group = pod["metadata"]["namespace"], kinds.RESOURCE_CLAIMS.gvk.group
        for each in pod["spec"].get("resourceClaims") or ():
            name = each.get("resourceClaimName")
            claim = self.cluster.api.find(group, "resourceclaims", namespace, name) if name else {}
            if claim is None:
                self.broken.append(f"pod {pod['metadata']['name']} was created before its claim {name}")

    def _claim_lost(self, claim: Manifest) -> None:
        """A claim may go before its pods only where it goes with its owner, or where the pods lost theirs."""
        name, namespace = claim["metadata"]["name"], claim["metadata"]["namespace"]
        if not self._has_owner(claim):
            return
        for pod in self.cluster.api.all_of("", "pods"):
            used = [each.get("resourceClaimName") for each in pod["spec"].get("resourceClaims") or ()]
            if name in used and pod["metadata"]["namespace"] == namespace and self._has_owner(pod):
                self.broken.append(f"claim {name} was removed while pod {pod['metadata']['name']} used it")

    def _has_owner(self, item: Manifest) -> bool:
        for reference in item["metadata"].get("ownerReferences") or ():
            group, plural = reference["apiVersion"].partition("/")[0], f"{reference['kind'].lower()}s"
            owner = self.cluster.api.find(group, plural, item["metadata"]["namespace"], reference["name"])
            if owner is not None and owner["metadata"]["uid"] == reference["uid"]:
                return "deletionTimestamp" not in owner["metadata"]
        return False

    def _twins(self) -> None:
        places: dict[str, str] = {}
        for pod in self.cluster.api.all_of("", "pods"):
            if not _of_a_clique(pod) or not _has_hostname(pod, self.cluster.clock.now()):
                continue
            place = f"{pod['metadata']['namespace']}/{pod['spec'].get('hostname')}"
            if place in places:
                self.broken.append(f"{pod['metadata']['name']} and {places[place]} both live at {place}")
            places[place] = pod["metadata"]["name"]


def _of_a_clique(pod: Manifest) -> bool:
    """Whether a clique owns the pod, a present or an earlier one; what was disowned is its user's."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(each.get("controller") and each["kind"] == kinds.CLIQUES.kind for each in owners)


def _has_hostname(pod: Manifest, now: datetime) -> bool:
    """Whether nobody else may have the pod's hostname: it runs, may yet run, or ran to its end and stays."""
    phase, ends = pod["status"].get("phase"), pod["metadata"].get("deletionTimestamp")
    if ends is None:
        return bool(phase != "Failed")
    if phase in ("Failed", "Succeeded") or not pod["spec"].get("nodeName"):
        return False
    return (now - datetime.fromisoformat(ends)).total_seconds() < STUCK_SECONDS - 1
