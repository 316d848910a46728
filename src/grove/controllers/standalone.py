"""Reads the pods of standalone gangs in full; the cache keeps only a few fields of each pod.

What a pod lacks is decided by `plan.gang.standalone`; the answer is remembered for as long as the pod and its
gang stay as they are.
"""

from grove.api import kinds
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import Backend, Context
from grove.errors import NotFound
from grove.kube.client import Client
from grove.meta import Manifest
from grove.plan.gang.standalone import PodPreparation, members, missing_indexes, prepare
from grove.runtime.cache import Cache

#: A pod and its gang as they were judged: uid, resourceVersion, the gang's generation.
_Judged = tuple[str, str, int]


class StandalonePods:
    """What each pod of a standalone gang lacks for its scheduler."""

    def __init__(self, client: Client, cache: Cache) -> None:
        self._client = client
        self._cache = cache
        #: By the pod's UID.
        self._known: dict[str, tuple[_Judged, PodPreparation]] = {}

    async def preparations(
        self, gang: PodGang, pods: list[Pod], backend: Backend, context: Context
    ) -> list[PodPreparation]:
        """What to do about the pods that are not placed, and what is wrong with any of them."""
        found, troubles = members(gang, pods)
        indexes = missing_indexes(found)
        answers = [PodPreparation(problems=tuple(troubles))]
        for pod in found:
            if pod.bound:
                continue
            judged = (pod.uid, pod.metadata.resource_version, gang.metadata.generation)
            known = self._known.get(pod.uid)
            if known is None or known[0] != judged:
                answer = await self._judge(gang, pod, indexes.get(pod.name), backend, context)
                known = (judged, answer)
                if pod.key in self._cache.store(Pod):
                    self._known[pod.uid] = known
            answers.append(known[1])
        return answers

    def forget(self, uid: str) -> None:
        """A pod is gone."""
        self._known.pop(uid, None)

    async def _judge(
        self, gang: PodGang, pod: Pod, index: str | None, backend: Backend, context: Context
    ) -> PodPreparation:
        try:
            whole: Manifest = await self._client.get(kinds.PODS, pod.key, type=dict)
        except NotFound:
            return PodPreparation()
        return prepare(gang, whole, index, backend, context)
