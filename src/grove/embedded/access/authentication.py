"""Who a bearer token belongs to: the administrator's token, configured tokens, and ServiceAccount tokens.

ServiceAccount tokens are issued through the `token` subresource, signed with a key of this cluster, and
valid while the account exists and the token has not expired. Anonymous requests are refused.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import datetime, timedelta

import msgspec

from grove.embedded.clock import rfc3339
from grove.embedded.errors import Cause, Manifest, invalid, not_found, unauthorized
from grove.embedded.identity import ADMIN, User
from grove.embedded.resource_type import ResourceType
from grove.embedded.verbs.api import API

DEFAULT_LIFETIME = 3600
SHORTEST = 600
LONGEST = 1 << 32


class Authenticator:
    def __init__(self, api: API, *, admin_token: str, key: bytes) -> None:
        self._api = api
        self._key = key
        self._users: dict[str, User] = {admin_token: ADMIN}

    def add(self, token: str, user: User) -> None:
        """Lets a token speak for a user from now on."""
        self._users[token] = user

    def user_of(self, authorization: str) -> User:
        """The user of an Authorization header; 401 when there is none."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise unauthorized()
        user = self.user_of_token(token.strip())
        if user is None:
            raise unauthorized()
        return user

    def user_of_token(self, token: str) -> User | None:
        return self._users.get(token) or self._service_account(token)

    def issue(self, namespace: str, name: str, request: Manifest) -> Manifest:
        """Answers a TokenRequest for a ServiceAccount."""
        account = self._api.find("", "serviceaccounts", namespace, name)
        if account is None:
            kind = self._api.catalog.registry.lookup("", "v1", "serviceaccounts")
            assert kind is not None
            raise not_found(kind, name)
        spec = request.get("spec") or {}
        seconds = max(SHORTEST, spec.get("expirationSeconds") or DEFAULT_LIFETIME)
        if seconds > LONGEST:
            why = f"Invalid value: {seconds}: may not specify a duration larger than 2^32 seconds"
            kind = ResourceType(
                "authentication.k8s.io", "v1", "TokenRequest", "tokenrequests", "tokenrequest"
            )
            raise invalid(kind, "", [Cause("spec.expirationSeconds", "FieldValueInvalid", why)])
        expires = self._api.clock.now() + timedelta(seconds=seconds)
        claims = [namespace, name, account["metadata"]["uid"], rfc3339(expires)]
        payload = base64.urlsafe_b64encode(msgspec.json.encode(claims)).rstrip(b"=").decode()
        spec = {"audiences": spec.get("audiences") or ["https://kubernetes.default.svc"], **spec}
        spec["expirationSeconds"] = seconds
        spec.setdefault("boundObjectRef", None)
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": name, "namespace": namespace, "creationTimestamp": self._api.now()},
            "spec": spec,
            "status": {
                "token": f"{payload}.{self._signature(payload)}",
                "expirationTimestamp": rfc3339(expires),
            },
        }

    def _signature(self, payload: str) -> str:
        return hmac.new(self._key, payload.encode(), hashlib.sha256).hexdigest()

    def _service_account(self, token: str) -> User | None:
        payload, dot, signature = token.partition(".")
        # A signature can be compared only if it is ASCII, which every token of ours is.
        if not dot or not token.isascii() or not hmac.compare_digest(signature, self._signature(payload)):
            return None
        padded = payload + "=" * (-len(payload) % 4)
        namespace, name, uid, expires = msgspec.json.decode(base64.urlsafe_b64decode(padded))
        account = self._api.find("", "serviceaccounts", namespace, name)
        if account is None or account["metadata"]["uid"] != uid:
            return None
        if datetime.fromisoformat(expires) < self._api.clock.now():
            return None
        return service_account_user(namespace, name, uid)


def service_account_user(namespace: str, name: str, uid: str = "") -> User:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return User(f"system:serviceaccount:{namespace}:{name}", groups, uid)
