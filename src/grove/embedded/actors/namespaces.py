"""Deletion of namespaces: empty them, say how far it got, then let them go.

Acts on namespaces that are being deleted and on nothing else. Finalizers of the content are respected: a
namespace stays Terminating, with conditions that say why, until its last object is gone.
"""

from __future__ import annotations

from grove.embedded.actors.discovery import Discovery, follow_crds
from grove.embedded.actors.mirror import Mirrors
from grove.embedded.actors.objects import NAMESPACES, Resource, is_absent, is_deleting, key_of, same_condition
from grove.embedded.actors.work import Work
from grove.embedded.clock import Clock, rfc3339
from grove.embedded.errors import ApiError, Manifest
from grove.embedded.local import ActorClient

FINALIZER = "kubernetes"
LOOK_AGAIN = 1.0
LOOK_AGAIN_AT_MOST = 15.0


class NamespaceDeleter:
    """Runs until cancelled."""

    def __init__(self, client: ActorClient, clock: Clock, *, mirrors: Mirrors | None = None) -> None:
        self._client = client
        self._clock = clock
        self._own_mirrors = None if mirrors else Mirrors(client)
        self._mirrors = mirrors or self._own_mirrors or Mirrors(client)
        self._discovery = Discovery(client)
        self._stale = True
        self._looks: dict[str, int] = {}
        self._work: Work[str] = Work("namespaces", self._step, workers=4)

    async def run(self) -> None:
        self._namespaces = self._mirrors.of(NAMESPACES)
        follow_crds(self._mirrors, self._resources_changed)
        self._namespaces.subscribe(self._changed)
        try:
            await self._work.run()
        finally:
            if self._own_mirrors:
                await self._own_mirrors.close()

    def _resources_changed(self) -> None:
        self._stale = True

    def _changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if new is None:
            self._looks.pop((old or {"metadata": {"name": ""}})["metadata"]["name"], None)
        elif is_deleting(new) and (old is None or not is_deleting(old)):
            self._work.add(new["metadata"]["name"])

    async def _step(self, name: str) -> float | None:
        namespace = self._namespaces.get(("", name))
        if namespace is None or not is_deleting(namespace):
            return None
        if FINALIZER not in ((namespace.get("spec") or {}).get("finalizers") or ()):
            return None
        if self._stale:
            await self._discovery.refresh()
            self._stale = False
        left: dict[str, list[Manifest]] = {}
        for resource in self._discovery.resources:
            if resource.namespaced:
                remaining = await self._empty(resource, name)
                if remaining:
                    left[str(resource.plural)] = remaining
        if left:
            await self._report(namespace, left)
            looks = self._looks[name] = self._looks.get(name, 0) + 1
            return float(min(LOOK_AGAIN * 1.5 ** (looks - 1), LOOK_AGAIN_AT_MOST))
        await self._release(name)
        return None

    async def _empty(self, resource: Resource, namespace: str) -> list[Manifest]:
        """Delete everything of one resource; what is left, waiting for finalizers or a grace period."""
        path = resource.collection(namespace)
        try:
            found = (await self._client.list(path)).get("items") or []
            if any(not is_deleting(obj) for obj in found):
                await self._delete_all(resource, found)
                found = (await self._client.list(path)).get("items") or []
        except ApiError as error:
            if not is_absent(error):
                raise
            self._stale = True
            return []
        return list(found)

    async def _delete_all(self, resource: Resource, found: list[Manifest]) -> None:
        try:
            await self._client.delete(
                resource.collection(key_of(found[0])[0]),
                {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"},
            )
            return
        except ApiError as error:
            if error.status not in (405, 501):
                raise
        for obj in found:
            try:
                await self._client.delete(resource.path(key_of(obj)))
            except ApiError as error:
                if not is_absent(error):
                    raise

    async def _report(self, namespace: Manifest, left: dict[str, list[Manifest]]) -> None:
        finalizers: dict[str, int] = {}
        for obj in (obj for objects in left.values() for obj in objects):
            for finalizer in obj["metadata"].get("finalizers") or ():
                finalizers[finalizer] = finalizers.get(finalizer, 0) + 1
        content = ", ".join(
            f"{plural}. has {len(found)} resource instances" for plural, found in left.items()
        )
        held = ", ".join(
            f"{name} in {count} resource instances" for name, count in sorted(finalizers.items())
        )
        wanted = [
            self._condition("NamespaceDeletionContentFailure", "ContentDeleted", "", met=False),
            self._condition("NamespaceContentRemaining", "SomeResourcesRemain", content, met=True),
            self._condition("NamespaceFinalizersRemaining", "SomeFinalizersRemain", held, met=bool(held)),
        ]
        if all(same_condition(namespace, each) for each in wanted):
            return
        kept = [
            each
            for each in (namespace.get("status") or {}).get("conditions") or ()
            if each["type"] not in {new["type"] for new in wanted}
        ]
        status = {"phase": "Terminating", "conditions": kept + wanted}
        try:
            await self._client.patch(NAMESPACES.path(key_of(namespace), "status"), {"status": status})
        except ApiError as error:
            if not is_absent(error):
                raise

    def _condition(self, kind: str, reason: str, what: str, *, met: bool) -> Manifest:
        texts = {
            "NamespaceDeletionContentFailure": "All content successfully deleted, "
            "may be waiting on finalization",
            "NamespaceContentRemaining": f"Some resources are remaining: {what}",
            "NamespaceFinalizersRemaining": f"Some content in the namespace has finalizers remaining: {what}",
        }
        message = texts[kind]
        if kind == "NamespaceFinalizersRemaining" and not met:
            reason, message = "ContentHasNoFinalizers", "All content-preserving finalizers finished"
        return {
            "type": kind,
            "status": "True" if met else "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": rfc3339(self._clock.now()),
        }

    async def _release(self, name: str) -> None:
        try:
            live = await self._client.get(NAMESPACES.path(("", name)))
            finalizers = (live.get("spec") or {}).get("finalizers") or []
            spec = {**(live.get("spec") or {}), "finalizers": [f for f in finalizers if f != FINALIZER]}
            await self._client.update(NAMESPACES.path(("", name), "finalize"), {**live, "spec": spec})
        except ApiError as error:
            if not is_absent(error):
                raise
