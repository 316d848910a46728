"""ServiceAccounts as pods meet them: every namespace has `default`, and a pod's account must exist.

Kubernetes has a controller that makes `default` a moment after its namespace; here it is there at once, and
again when somebody deletes it. Pods get no token: nothing runs in them that could use it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from grove.embedded.errors import Manifest, NotStored, forbidden
from grove.embedded.resource_type import ResourceType

if TYPE_CHECKING:
    from grove.embedded.verbs.api import API

DEFAULT = "default"
ACCOUNTS = ("", "serviceaccounts")
NAMESPACES = ("", "namespaces")


class Accounts:
    def __init__(self, api: API) -> None:
        self._api = api

    def admit(self, pods: ResourceType, pod: Manifest) -> None:
        """Refuses a pod whose account does not exist; gives it the account's image pull secrets."""
        meta, spec = pod["metadata"], pod["spec"]
        namespace, name = meta["namespace"], spec.get("serviceAccountName") or DEFAULT
        if name == DEFAULT:
            self.ensure_default(namespace)
        account = self._api.find(*ACCOUNTS, namespace, name)
        if account is None:
            why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
            raise forbidden(pods, meta["name"], why)
        if account.get("imagePullSecrets") and not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [dict(each) for each in account["imagePullSecrets"]]

    def after_creation(self, resource: ResourceType, obj: Manifest) -> None:
        """A new namespace gets its account; one that could not be stored comes with the first pod."""
        if resource.key == NAMESPACES:
            with contextlib.suppress(NotStored):
                self.ensure_default(obj["metadata"]["name"])

    def after_removal(self, resource: ResourceType, obj: Manifest) -> None:
        meta = obj["metadata"]
        if resource.key == ACCOUNTS and meta["name"] == DEFAULT:
            with contextlib.suppress(NotStored):
                self.ensure_default(meta["namespace"])

    def ensure_default(self, namespace: str) -> None:
        """Makes the account of a namespace that has none and is not on its way out."""
        found = self._api.find(*NAMESPACES, "", namespace)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return
        if self._api.find(*ACCOUNTS, namespace, DEFAULT) is not None:
            return
        home = self._api.catalog.registry.lookup("", "v1", "serviceaccounts")
        assert home is not None
        meta = {
            "name": DEFAULT,
            "namespace": namespace,
            "uid": self._api.generator.uid(),
            "creationTimestamp": self._api.now(),
        }
        self._api.commit(home, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
