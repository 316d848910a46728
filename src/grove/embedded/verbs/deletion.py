"""Deleting objects: preconditions, grace, finalizers, propagation, whole collections.

An object goes at once when nothing keeps it; otherwise it is marked and goes with the write that removes
the last thing that keeps it (`api.finished`). Dependents are the garbage collector's business.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from grove.embedded.clock import rfc3339
from grove.embedded.errors import ApiError, Manifest, conflict
from grove.embedded.kinds import crds
from grove.embedded.machinery.options import DeleteOptions, ListOptions, WriteOptions
from grove.embedded.resource_type import ResourceType
from grove.embedded.storage.store import Entry
from grove.embedded.verbs.api import API, finished
from grove.embedded.verbs.custom import CLEANUP

_FINALIZER = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}


class Deletions:
    def __init__(self, api: API) -> None:
        self._api = api

    async def delete(
        self,
        resource: ResourceType,
        namespace: str,
        name: str,
        options: DeleteOptions,
        write: WriteOptions,
        *,
        named: bool = True,
    ) -> tuple[Manifest, bool]:
        """Deletes one object; returns its last state and whether it is already gone.

        `named` by the request, and not one of a collection.
        """
        home = self._api.catalog.registry.stored(resource)
        entry = self._api.get(home, namespace, name)
        self.check_preconditions(home, entry.obj, options)
        if self._api.dynamic.concerns(write):
            await self._api.dynamic.admit_deletion(resource, entry.obj, write, named=named)
            entry = self._api.get(home, namespace, name)
            self.check_preconditions(home, entry.obj, options)
        marked = self._marked(home, entry.obj, options, write)
        if finished(home, marked):
            if not options.dry_run:
                self._api.remove(home, entry.obj)
            # A kind with a grace period is shown as the deletion marked it, also when there was none to wait.
            return (marked if home.key == ("", "pods") else entry.obj), True
        is_crd = home.key == (crds.GROUP, crds.PLURAL)
        if options.dry_run or (marked == entry.obj and not is_crd):
            return marked, False
        if marked != entry.obj:
            if is_crd:
                self._api.custom.before_store(marked)
            marked = self._api.store.put(home.key, marked).obj
        if is_crd:
            await self._delete_instances(name, write)
        return marked, False

    async def resume(self) -> None:
        """Goes on with the CRDs that were being deleted when an earlier process ended."""
        for crd in self._api.all_of(crds.GROUP, crds.PLURAL):
            if crd["metadata"].get("deletionTimestamp"):
                await self._delete_instances(crd["metadata"]["name"], WriteOptions())

    def check_preconditions(self, home: ResourceType, obj: Manifest, options: DeleteOptions) -> None:
        meta = obj["metadata"]
        for label, wanted, actual in (
            ("UID", options.uid, meta["uid"]),
            ("ResourceVersion", options.resource_version, meta["resourceVersion"]),
        ):
            if wanted and wanted != actual:
                why = (
                    f"Precondition failed: {label} in precondition: {wanted}, "
                    f"{label} in object meta: {actual}"
                )
                raise conflict(home, meta["name"], why)

    def _marked(
        self, home: ResourceType, obj: Manifest, options: DeleteOptions, write: WriteOptions
    ) -> Manifest:
        """The object as a deletion leaves it: timestamp, grace period, finalizers."""
        grace = self._grace(home, obj, options, write)
        meta: dict[str, Any] = {**obj["metadata"]}
        marked = {**obj, "metadata": meta}
        finalizers = self._finalizers(home, meta, options)
        if finalizers:
            meta["finalizers"] = finalizers
        else:
            meta.pop("finalizers", None)
        if not meta.get("deletionTimestamp"):
            meta["deletionTimestamp"] = rfc3339(self._api.clock.now() + timedelta(seconds=grace))
            meta["deletionGracePeriodSeconds"] = grace
            if meta.get("generation"):
                meta["generation"] += 1
            if home.key == ("", "namespaces"):
                marked["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        elif grace < (meta.get("deletionGracePeriodSeconds") or 0):
            meta["deletionTimestamp"] = rfc3339(self._api.clock.now() + timedelta(seconds=grace))
            meta["deletionGracePeriodSeconds"] = grace
        return marked

    def _finalizers(self, home: ResourceType, meta: Manifest, options: DeleteOptions) -> list[str]:
        """The finalizers that a propagation policy leaves; background deletion takes the others' marks
        away."""
        kept = list(meta.get("finalizers") or ())
        if options.policy:
            wanted = _FINALIZER.get(options.policy)
            kept = [name for name in kept if name not in _FINALIZER.values() or name == wanted]
            if wanted and wanted not in kept:
                kept.append(wanted)
        if home.key == (crds.GROUP, crds.PLURAL) and CLEANUP not in kept:
            kept.append(CLEANUP)
        return kept

    def _grace(self, home: ResourceType, obj: Manifest, options: DeleteOptions, write: WriteOptions) -> int:
        context = self._api.context(home, write)
        return self._api.catalog.strategy(home).graceful_delete(obj, options, context)

    async def _delete_instances(self, name: str, write: WriteOptions) -> None:
        """Deletes the objects of a CRD that is being deleted; the CRD goes with the last of them."""
        crd = self._api.find(crds.GROUP, crds.PLURAL, "", name)
        if crd is None:
            return
        for home, obj in self._api.custom.instances(crd):
            # Nobody asked for this deletion, so that no webhook is asked about it.
            own = replace(write, admitted=True)
            await self._quietly(home, obj["metadata"], DeleteOptions(policy="Background"), own)
        crd = self._api.find(crds.GROUP, crds.PLURAL, "", name)
        if crd is not None and not self._api.custom.instances(crd):
            self._api.custom.finish(crd)

    async def delete_collection(
        self,
        resource: ResourceType,
        namespace: str,
        selection: ListOptions,
        options: DeleteOptions,
        write: WriteOptions,
    ) -> list[Entry]:
        """Deletes everything that a selection lists; returns what it listed."""
        page = self._api.page(resource, namespace, selection)
        for entry in page.entries:
            await self._quietly(resource, entry.obj["metadata"], options, write)
        return page.entries

    async def _quietly(
        self, resource: ResourceType, meta: Manifest, options: DeleteOptions, write: WriteOptions
    ) -> None:
        """Deletes; that somebody else was faster is no error."""
        try:
            await self.delete(resource, meta.get("namespace", ""), meta["name"], options, write, named=False)
        except ApiError as error:
            if error.status != 404:
                raise
