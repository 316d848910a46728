"""Lets a deleted native PodGroup go once no pod needs it any more (Kubernetes 1.36 and 1.37).

Removes the finalizer `scheduling.k8s.io/podgroup-protection` from PodGroups that are being deleted and that
no pod with an unfinished life refers to. Touches nothing else.
"""

from __future__ import annotations

from grove.embedded.actors.mirror import Mirrors
from grove.embedded.actors.objects import (
    PODS,
    Key,
    Resource,
    is_absent,
    is_deleting,
    is_terminal,
    key_of,
    uid_of,
)
from grove.embedded.actors.work import Work
from grove.embedded.clock import Clock
from grove.embedded.errors import ApiError, Manifest
from grove.embedded.local import ActorClient

FINALIZER = "scheduling.k8s.io/podgroup-protection"
VERSIONS = {"1.36": "v1alpha2", "1.37": "v1beta1"}


class PodGroupProtection:
    """Runs until cancelled; `minor` is "1.36" or "1.37"."""

    def __init__(
        self, client: ActorClient, clock: Clock, *, minor: str = "1.36", mirrors: Mirrors | None = None
    ) -> None:
        if minor not in VERSIONS:
            raise ValueError(f"Kubernetes {minor} has no PodGroups to protect; choose 1.36 or 1.37")
        self._client = client
        self._resource = Resource("scheduling.k8s.io", VERSIONS[minor], "podgroups", kind="PodGroup")
        self._own_mirrors = None if mirrors else Mirrors(client)
        self._mirrors = mirrors or self._own_mirrors or Mirrors(client)
        self._users: dict[Key, dict[Key, None]] = {}
        self._work: Work[Key] = Work("podgroup protection", self._step, workers=4)

    async def run(self) -> None:
        try:
            self._groups = self._mirrors.of(self._resource)
            self._mirrors.of(PODS).subscribe(self._pod_changed)
            await self._mirrors.synced(PODS)
            self._groups.subscribe(self._group_changed)
            await self._work.run()
        finally:
            if self._own_mirrors:
                await self._own_mirrors.close()

    def _pod_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        pod = new or old
        assert pod is not None
        name = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
        if not name:
            return
        group = (key_of(pod)[0], name)
        users = self._users.setdefault(group, {})
        if new is not None and not is_terminal(new):
            users[key_of(pod)] = None
            return
        users.pop(key_of(pod), None)
        if not users:
            del self._users[group]
            self._work.add(group)

    def _group_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if new is not None and is_deleting(new):
            self._work.add(key_of(new))

    async def _step(self, key: Key) -> float | None:
        group = self._groups.get(key)
        if group is None or not is_deleting(group) or self._users.get(key):
            return None
        meta = group["metadata"]
        finalizers = list(meta.get("finalizers") or ())
        if FINALIZER not in finalizers:
            return None
        finalizers.remove(FINALIZER)
        guard = {"uid": uid_of(group), "resourceVersion": meta.get("resourceVersion")}
        try:
            await self._client.patch(
                self._resource.path(key), {"metadata": {**guard, "finalizers": finalizers or None}}
            )
        except ApiError as error:
            if not is_absent(error):
                raise
        return None
