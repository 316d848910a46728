"""Serves gangs that somebody else made: chooses their backend, prepares their pods.

The gang's creator keeps its spec but for the references; pods are patched in their metadata only. Whatever
has to be in a pod from its birth and is not there holds the gang back, with a sentence for each such pod.
"""

from collections.abc import Sequence

from grove.api import kinds, labels
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import Backend, Context
from grove.controllers.apply import Remembers
from grove.controllers.shell import Shell
from grove.errors import InvalidInput, NotFound
from grove.kube.client import Client
from grove.meta import Key, Manifest
from grove.plan.changes import Change, Patch
from grove.plan.foreign import (
    asked_scheduler,
    is_foreign,
    members,
    missing_indexes,
    preparation,
    unusable_choice,
)

#: A pod as it was judged: the same pod for the same gang needs no second look.
Judged = tuple[str, str, int]


class ForeignGangs:
    """The part of the gang controller that only gangs without a set need."""

    def __init__(self, shell: Shell, client: Client) -> None:
        self._shell = shell
        self._client = client
        self._known: dict[str, tuple[Judged, tuple[str, ...]]] = {}

    async def adopt(self, gang: PodGang, pods: Sequence[Pod], barrier: Remembers) -> bool:
        """Write down which backend serves a gang that names none; True when the gang changed."""
        scheduling = self._shell.scheduling
        if not is_foreign(gang) or labels.SCHEDULER_BACKEND in gang.labels or scheduling.only:
            return False
        if unusable_choice(gang):
            # No label can hold it, so that the choice cannot be written down: the gang says so.
            return False
        asked = gang.annotations.get(labels.SCHEDULER_BACKEND) or asked_scheduler(pods)
        backend = scheduling.registry.find(asked) if asked else scheduling.registry.default
        chosen = backend.name if backend is not None else asked
        marks: Manifest = {"labels": {labels.SCHEDULER_BACKEND: chosen}}
        if chosen in scheduling.external:
            marks["annotations"] = {labels.EXTERNAL_BACKEND: "true"}
        version = gang.metadata.resource_version
        change = Patch(kinds.GANGS, gang.key, {"metadata": marks}, resource_version=version)
        applied = await self._shell.applier.apply([change], barrier=barrier, key=gang.key)
        applied.raise_failure()
        return True

    async def prepare(
        self, gang: PodGang, pods: Sequence[Pod], backend: Backend, context: Context, barrier: Remembers
    ) -> tuple[str, ...]:
        """Give the pods what their scheduler must find on them; tell what cannot be given."""
        found, troubles = members(gang, pods)
        indexes = missing_indexes(found)
        changes: list[Change] = []
        for pod in found:
            if pod.bound:
                continue
            judged = (pod.uid, pod.metadata.resource_version, gang.metadata.generation)
            known = self._known.get(pod.uid)
            if known is None or known[0] != judged:
                change, said = await self._judge(gang, pod, indexes.get(pod.name), backend, context)
                known = (judged, said)
                if pod.key in self._shell.cache.store(Pod):
                    self._known[pod.uid] = known
                changes += [change] if change is not None else []
            troubles += known[1]
        applied = await self._shell.applier.apply(changes, barrier=barrier, key=gang.key)
        applied.raise_failure()
        return tuple(troubles)

    def forget(self, uid: str) -> None:
        """A pod is gone."""
        self._known.pop(uid, None)

    async def _judge(
        self, gang: PodGang, pod: Pod, index: str | None, backend: Backend, context: Context
    ) -> tuple[Change | None, tuple[str, ...]]:
        """The whole pod is asked for: the cache keeps a small part of it."""
        try:
            whole: Manifest = await self._client.get(kinds.PODS, Key(pod.namespace, pod.name), type=dict)
        except NotFound:
            return None, ()
        asked = dict(whole)
        if index is not None:
            metadata = dict(whole["metadata"])
            metadata["labels"] = {**metadata.get("labels", {}), labels.POD_INDEX: index}
            asked["metadata"] = metadata
        try:
            prepared = backend.prepare_pod(asked, gang, context)
        except InvalidInput as refusal:
            return None, tuple(f"pod {pod.name}: {each}" for each in refusal.errors)
        result = preparation(whole, prepared, backend.scheduling_gate)
        if not result.metadata:
            return None, result.troubles
        version = whole["metadata"]["resourceVersion"]
        change = Patch(kinds.PODS, pod.key, {"metadata": result.metadata}, resource_version=version)
        return change, result.troubles
