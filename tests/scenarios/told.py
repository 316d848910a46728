"""What schedulers are told of a set, so that two ways of coming to it can be compared."""

import copy
import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from tests.scenarios.judging import is_leaving
from tests.scenarios.stories import Stage, condition_of, scheduler_objects, uid_of

from grove.api import kinds, labels
from grove.meta import Manifest
from grove.testing.world import World

#: What of a pod differs from one making of it to the next, or comes from where it was placed.
_OF_ONE_POD: Final = ("nodeName", "schedulingGates", "tolerations")
#: What nobody is told: the time that KAI notes in its own objects, the hash that names a template, and what only
#: makes a scheduler look again.
_BESIDES: Final = ("kai.scheduler/last-start-timestamp", labels.POD_TEMPLATE_HASH, labels.RESYNCED_FOR)


@dataclass(frozen=True, slots=True)
class Told:
    """The gangs of a set, the objects of the scheduler and the pods, as sorted texts without names that are made up."""

    objects: tuple[str, ...]
    pods: tuple[str, ...]
    #: What the gangs say that the scheduler is not told.
    losses: tuple[str, ...]

    def difference(self, other: "Told") -> str:
        """Empty where both are the same."""
        pairs = [(self.objects, other.objects), (self.pods, other.pods), (self.losses, other.losses)]
        for mine, theirs in pairs:
            if mine != theirs:
                only = [each for each in mine if each not in theirs]
                missing = [each for each in theirs if each not in mine]
                return f"{len(mine)} against {len(theirs)}; only here: {only[:1]}; only there: {missing[:1]}"
        return ""

    def difference_of_some(self, other: "Told") -> str:
        """Empty where the objects are the same and the other set has the pods of this one, too."""
        shared = tuple(each for each in other.pods if each in self.pods)
        return self.difference(Told(other.objects, shared, self.losses))


async def told(world: World, stage: Stage, only: Collection[str] | None = None) -> Told:
    """What is told now; of the pods, of those with these UIDs or of all."""
    objects, gangs = await scheduler_objects(world, stage), await world.all(kinds.GANGS)
    pods = await living(world)
    revisions = {str(each["metadata"]["name"]).rpartition("-")[2] for each in objects}
    revisions |= {str(pod["metadata"]["annotations"][labels.GANG_REVISION]) for pod in pods}
    return Told(
        _texts([*map(_of_gang, gangs), *map(_of_object, objects)], revisions),
        _texts([_of_pod(pod) for pod in pods if only is None or uid_of(pod) in only], revisions),
        tuple(sorted(map(_loss, gangs))),
    )


async def living(world: World) -> list[Manifest]:
    """The pods that are not being deleted."""
    return [pod for pod in await world.pods() if not is_leaving(pod)]


def _of_pod(pod: Manifest) -> Manifest:
    metadata, spec = pod["metadata"], pod["spec"]
    kept = {key: value for key, value in spec.items() if key not in _OF_ONE_POD}
    return {**_marks(metadata), "spec": kept}


def _of_gang(gang: Manifest) -> Manifest:
    spec = copy.deepcopy(gang["spec"])
    for group in spec["podgroups"]:
        del group["podReferences"]
    return {"name": gang["metadata"]["name"], "spec": spec}


def _of_object(obj: Manifest) -> Manifest:
    metadata = obj["metadata"]
    return {"kind": obj["kind"], "name": metadata["name"], **_marks(metadata), "spec": obj["spec"]}


def _loss(gang: Manifest) -> str:
    return f"{gang['metadata']['name']}: {condition_of(gang, 'TranslationLoss').get('message', '')}"


def _marks(metadata: Manifest) -> Manifest:
    return {
        field: {key: value for key, value in (metadata.get(field) or {}).items() if key not in _BESIDES}
        for field in ("labels", "annotations")
    }


def _texts(manifests: Iterable[Manifest], revisions: Iterable[str]) -> tuple[str, ...]:
    made_up = re.compile("|".join(map(re.escape, sorted(filter(None, revisions)))) or "$^")
    return tuple(sorted(made_up.sub("*", json.dumps(each, sort_keys=True)) for each in manifests))
