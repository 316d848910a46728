"""The life of custom kinds: a CRD is checked, served once stored, and takes its objects along when it goes.

Also what a changed schema does to objects that are already stored: they are read with the new defaults and
without fields that no longer exist, at an unchanged resourceVersion.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

import msgspec

from grove.embedded.errors import Cause, Manifest, NotStored
from grove.embedded.kinds import crds
from grove.embedded.machinery.schema import custom_schema
from grove.embedded.machinery.structural import crd_errors
from grove.embedded.resource_type import ResourceType
from grove.embedded.storage.store import encode

if TYPE_CHECKING:
    from grove.embedded.verbs.api import API

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
decode = msgspec.json.Decoder().decode


class CustomKinds:
    def __init__(self, api: API) -> None:
        self._api = api

    def errors(self, crd: Manifest) -> list[Cause]:
        """Why a CRD may not be stored."""
        causes = crd_errors(crd)
        if causes:
            return causes
        for index, version in enumerate(crd["spec"]["versions"]):
            where = f"spec.versions[{index}].schema.openAPIV3Schema"
            try:
                schema = custom_schema(version["schema"]["openAPIV3Schema"])
            except re.error as error:
                why = f"Invalid value: must be a valid regular expression, but isn't: {error}"
                causes.append(Cause(where, "FieldValueInvalid", why))
                continue
            for cause in schema.check_rules():
                field = f"{where}.{cause.field}" if cause.field else where
                causes.append(Cause(field, cause.reason, cause.message))
        return causes

    def before_store(self, crd: Manifest) -> None:
        """Writes the status that the server itself keeps of a CRD."""
        others = [t for t in self._api.catalog.registry if t.plural != crd["spec"]["names"]["plural"]]
        conflict = crds.name_conflict(crd, others)
        status = crds.status_of(crd, conflict=conflict, now=self._api.now())
        if crd["metadata"].get("deletionTimestamp"):
            terminating = {
                "type": "Terminating",
                "status": "True",
                "lastTransitionTime": self._api.now(),
                "reason": "InstanceDeletionInProgress",
                "message": "CustomResource deletion is in progress",
            }
            status["conditions"].append(terminating)
        crd["status"] = status

    def after_store(self, crd: Manifest) -> None:
        """Serves what the stored CRD defines."""
        if not crds.is_established(crd):
            return
        for resource in self._api.catalog.serve(crd):
            if not resource.stored_as:
                self._refresh(resource)

    def _refresh(self, resource: ResourceType) -> None:
        """Shows stored objects as the new schema reads them."""
        schema = self._api.catalog.schema(resource)
        if schema is None:
            return
        for entry in self._api.store.table(resource.key).entries.values():
            obj = decode(entry.raw)
            obj["apiVersion"] = resource.api_version
            schema.prune(obj)
            schema.default(obj)
            if obj != entry.obj:
                entry.obj, entry.raw = obj, encode(obj)

    def instances(self, crd: Manifest) -> list[tuple[ResourceType, Manifest]]:
        """Every object of the kind that a CRD defines."""
        spec = crd["spec"]
        resource = self._api.catalog.registry.any_version(spec["group"], spec["names"]["plural"])
        if resource is None:
            return []
        home = self._api.catalog.registry.stored(resource)
        return [(home, entry.obj) for _, entry in self._api.store.table(home.key).in_order()]

    def after_removal(self, resource: ResourceType, obj: Manifest) -> None:
        """Stops serving a removed CRD; finishes a CRD that only waited for its last object."""
        if resource.key == (crds.GROUP, crds.PLURAL):
            for gone in self._api.catalog.withdraw(obj["metadata"]["name"]):
                self._api.store.end_watches(gone.key)
            return
        if not resource.custom or self._api.store.table(resource.key).entries:
            return
        crd = self._api.find(crds.GROUP, crds.PLURAL, "", f"{resource.plural}.{resource.group}")
        if crd is not None and crd["metadata"].get("deletionTimestamp"):
            # The object is gone whatever becomes of its CRD, which `Deletions.resume` looks at again.
            with contextlib.suppress(NotStored):
                self.finish(crd)

    def finish(self, crd: Manifest) -> None:
        """Takes away the cleanup finalizer, and the CRD with it when nothing else keeps it."""
        home = self._api.catalog.registry.lookup(crds.GROUP, "v1", crds.PLURAL)
        assert home is not None
        meta = {**crd["metadata"]}
        left = [name for name in meta.get("finalizers") or () if name != CLEANUP]
        meta["finalizers"] = left
        if not left:
            del meta["finalizers"]
            self._api.remove(home, crd)
            return
        self._api.store.put(home.key, {**crd, "metadata": meta})
