"""Deletes the Secrets with tokens of a service account with it, as Kubernetes' token controller does.

Fills no Secret: who creates one gives it its token.
"""

from __future__ import annotations

from grove.embedded.actors.mirror import Mirrors
from grove.embedded.actors.objects import Key, Resource, annotations_of, is_absent, key_of, uid_of
from grove.embedded.actors.work import Work
from grove.embedded.errors import ApiError, Manifest
from grove.embedded.local import ActorClient

ACCOUNTS = Resource("", "v1", "serviceaccounts", kind="ServiceAccount")
SECRETS = Resource("", "v1", "secrets", kind="Secret")
TYPE = "kubernetes.io/service-account-token"
ACCOUNT = "kubernetes.io/service-account.name"


class TokenSecrets:
    """Runs until cancelled."""

    def __init__(self, client: ActorClient, *, mirrors: Mirrors) -> None:
        self._client = client
        self._mirrors = mirrors
        self._secrets = mirrors.of(SECRETS)
        self._accounts = mirrors.of(ACCOUNTS)
        self._work: Work[Key] = Work("token secrets", self._step, workers=1)

    async def run(self) -> None:
        self._accounts.subscribe(self._account_changed)
        await self._mirrors.synced(ACCOUNTS)
        self._secrets.subscribe(self._secret_changed)
        await self._work.run()

    def _account_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if new is None and old is not None:
            self._work.add(key_of(old))

    def _secret_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        # One for an account that is gone already goes as well.
        if new is not None and (account := annotations_of(new).get(ACCOUNT)):
            self._work.add((key_of(new)[0], account))

    async def _step(self, account: Key) -> float | None:
        if self._accounts.get(account) is not None:
            return None
        for secret in list(self._secrets):
            if secret.get("type") != TYPE or key_of(secret)[0] != account[0]:
                continue
            if annotations_of(secret).get(ACCOUNT) == account[1]:
                await self._delete(secret)
        return None

    async def _delete(self, secret: Manifest) -> None:
        try:
            guard = {"preconditions": {"uid": uid_of(secret)}}
            await self._client.delete(SECRETS.path(key_of(secret)), guard)
        except ApiError as error:
            if not is_absent(error):
                raise
