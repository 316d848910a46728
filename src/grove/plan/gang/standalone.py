"""Standalone gangs: PodGangs that another controller, or a person with kubectl, created. Pure.

Such a gang has no cliques and its pods are not ours to create. They say where they belong by two labels, and
get from us what their scheduler must find on them; what only their creator can set is told.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from grove.api import kinds, labels
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import Backend, Context
from grove.backends.podspec import PREFERRED
from grove.backends.shape import is_ours
from grove.errors import InvalidInput
from grove.meta import Manifest
from grove.plan.changes import Change, Patch

_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def is_standalone(gang: PodGang) -> bool:
    """Whether the gang comes from somebody else than this operator."""
    return not is_ours(gang)


def unusable_choice(gang: PodGang) -> str:
    """The backend that a gang's annotation asks for, if it can be nobody's name: no label could hold it."""
    asked = gang.annotations.get(labels.SCHEDULER_BACKEND, "")
    return asked if is_standalone(gang) and asked and not _LABEL_VALUE.fullmatch(asked) else ""


def wanted(gang: PodGang) -> dict[str, int]:
    """How many pods of each podgroup must exist before any may start."""
    return {group.name: group.min_replicas for group in gang.spec.podgroups}


def asked_scheduler(pods: Sequence[Pod]) -> str:
    """The schedulerName that the pods share; empty when they differ or there are none."""
    asked = {pod.spec.scheduler_name for pod in pods if not pod.terminating}
    return asked.pop() if len(asked) == 1 else ""


@dataclass(frozen=True, slots=True)
class Adoption:
    """The backend that a gang without one gets, and whether that backend has a process of its own."""

    backend: str
    external: bool = False


def may_be_adopted(gang: PodGang) -> bool:
    """Whether a backend is to be chosen for the gang: somebody else made it, and it has none yet."""
    if not is_standalone(gang) or labels.SCHEDULER_BACKEND in gang.labels:
        return False
    # A name that no label can hold cannot be written down; the gang says so instead.
    return not unusable_choice(gang)


def asked_backend(gang: PodGang, pods: Sequence[Pod]) -> str:
    """The backend or scheduler that a gang asks for by its annotation or its pods; empty for any."""
    return gang.annotations.get(labels.SCHEDULER_BACKEND) or asked_scheduler(pods)


def adoption_patch(gang: PodGang, adoption: Adoption) -> Patch:
    """Writes down which backend serves the gang; the change wakes the gang again."""
    marks: Manifest = {"labels": {labels.SCHEDULER_BACKEND: adoption.backend}}
    if adoption.external:
        marks["annotations"] = {labels.EXTERNAL_BACKEND: "true"}
    version = gang.metadata.resource_version
    return Patch(kinds.GANGS, gang.key, {"metadata": marks}, resource_version=version)


def members(gang: PodGang, pods: Sequence[Pod]) -> tuple[list[Pod], list[str]]:
    """The living pods that belong to a podgroup, and a sentence about each that points nowhere.

    A pod that nothing holds and that names no podgroup is a scheduler's own, holding a place.
    """
    known = {group.name for group in gang.spec.podgroups}
    found, lost = [], []
    for pod in sorted(pods, key=lambda each: each.key):
        role = pod.labels.get(labels.POD_CLIQUE, "")
        if pod.terminating:
            continue
        if role in known:
            found.append(pod)
        elif role or pod.spec.scheduling_gates:
            said = f"is {role!r}" if role else "is missing"
            lost.append(f"pod {pod.name}: label {labels.POD_CLIQUE} {said}; it must name a podgroup")
    return found, lost


def missing_indexes(pods: Sequence[Pod]) -> dict[str, str]:
    """The index label of pods that have none, by pod name: the lowest free ones, by name within a role."""
    taken: dict[str, set[str]] = {}
    for pod in pods:
        if index := pod.labels.get(labels.POD_INDEX):
            taken.setdefault(_role(pod), set()).add(index)
    given: dict[str, str] = {}
    free: dict[str, Iterator[str]] = {}
    for pod in pods:
        if labels.POD_INDEX not in pod.labels:
            role = _role(pod)
            numbers = free.setdefault(role, map(str, count()))
            given[pod.name] = next(each for each in numbers if each not in taken.get(role, ()))
    return given


def _role(pod: Pod) -> str:
    return pod.labels.get(labels.POD_CLIQUE, "")


@dataclass(frozen=True, slots=True)
class PodPreparation:
    """What is done about one pod of a gang of somebody else, and what only its creator can do."""

    change: Change | None = None
    problems: tuple[str, ...] = ()


def prepare(
    gang: PodGang, whole: Manifest, index: str | None, backend: Backend, context: Context
) -> PodPreparation:
    """Give a pod what its scheduler must find on it. `whole`: the pod as the API server has it.

    `index` is the index label that the pod lacks.
    """
    asked, metadata = dict(whole), dict(whole["metadata"])
    if index is not None:
        metadata["labels"] = {**metadata.get("labels", {}), labels.POD_INDEX: index}
        asked["metadata"] = metadata
    pod = gang.key._replace(name=metadata["name"])
    try:
        prepared = backend.prepare_pod(asked, gang, context)
    except InvalidInput as refusal:
        return PodPreparation(problems=tuple(f"pod {pod.name}: {each}" for each in refusal.errors))
    found = preparation(whole, prepared, backend.scheduling_gate)
    if _is_listed(gang, whole):
        # It was as it must be when it was listed. Since then its gate was opened, and what its backend would
        # make of a pod that is created now may be something else.
        found = Preparation(found.metadata)
    if not found.metadata:
        return PodPreparation(problems=found.troubles)
    version = metadata["resourceVersion"]
    change = Patch(kinds.PODS, pod, {"metadata": found.metadata}, resource_version=version)
    return PodPreparation(change, found.troubles)


def _is_listed(gang: PodGang, whole: Manifest) -> bool:
    """Whether the gang lists this very pod; a name alone may be of an earlier one, or its creator's word."""
    uid = whole["metadata"].get("uid", "")
    return any(uid and uid == each.uid for group in gang.spec.podgroups for each in group.pod_references)


@dataclass(frozen=True, slots=True)
class Preparation:
    """What a pod still lacks: metadata that can be added, and what it had to be created with."""

    metadata: Manifest = field(default_factory=dict)
    troubles: tuple[str, ...] = ()


def preparation(pod: Manifest, prepared: Manifest, gate: str) -> Preparation:
    """How a pod differs from what its backend would have made of it.

    A gate cannot be added to a pod that exists: one without it never waited, and is only told of.
    """
    name = pod["metadata"]["name"]
    metadata = {
        kind: added
        for kind in ("labels", "annotations")
        if (added := _added(pod["metadata"].get(kind) or {}, prepared["metadata"].get(kind) or {}))
    }
    there, wants = pod.get("spec") or {}, prepared.get("spec") or {}
    troubles = [
        f"pod {name}: spec.{key} is {_shown(there.get(key))} but must be {_shown(value)}; "
        "create the pod again"
        for key, value in wants.items()
        if key != "schedulingGates" and not _is_met(key, there.get(key), value)
    ]
    gated = any(each.get("name") == gate for each in there.get("schedulingGates") or ())
    if not gated and not there.get("nodeName"):
        troubles.append(f"pod {name}: spec.schedulingGates lacks {gate!r}; create the pod again with it")
    return Preparation(metadata, tuple(troubles))


def _shown(value: object) -> str:
    """A value as it stands in a manifest."""
    return json.dumps(value, ensure_ascii=False) if value is not None else "not set"


def _added(there: Mapping[str, str], wants: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in wants.items() if there.get(key) != value}


def _is_met(key: str, there: object, wants: object) -> bool:
    """Whether a field of a pod is as its gang needs it; a preference need not be met."""
    if key == "priorityClassName" and there:
        # The creator chose one, which the gang's does not replace.
        return True
    if key == "affinity":
        return _required_affinity(there) == _required_affinity(wants)
    return there == wants


def _required_affinity(affinity: Any) -> Manifest:
    """An affinity without preferences for pods; those that are left without a rule are left out."""
    kinds_of_rules = dict(affinity or {})
    rules = dict(kinds_of_rules.pop("podAffinity", None) or {})
    rules.pop(PREFERRED, None)
    return {**kinds_of_rules, **({"podAffinity": rules} if rules else {})}
