"""The review APIs: may I do this, what may I do, who am I, whose token is this.

Answers from the same authoriser and authenticator that requests go through; stores nothing.
"""

from __future__ import annotations

from grove.embedded.access.authentication import Authenticator
from grove.embedded.access.rbac import Attributes, Authorizer
from grove.embedded.errors import Manifest, bad_request
from grove.embedded.identity import User
from grove.embedded.resource_type import ResourceType


class Reviews:
    def __init__(self, authorizer: Authorizer, authenticator: Authenticator) -> None:
        self._authorizer = authorizer
        self._authenticator = authenticator

    def answer(self, resource: ResourceType, namespace: str, review: Manifest, user: User) -> Manifest:
        """The review with its status filled in."""
        match resource.kind:
            case "SelfSubjectReview":
                status: Manifest = {"userInfo": user_info(user)}
            case "TokenReview":
                status = self._token(review)
            case "SelfSubjectRulesReview":
                wanted = (review.get("spec") or {}).get("namespace", "")
                if not wanted:
                    raise bad_request("no namespace on request")
                status = self._rules(user, wanted)
            case _:
                status = self._access(resource.kind, namespace, review, user)
        meta = {"creationTimestamp": None, **(review.get("metadata") or {})}
        body = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
        return {**body, "spec": review.get("spec") or {}, "status": status}

    def _access(self, kind: str, namespace: str, review: Manifest, user: User) -> Manifest:
        spec = review.get("spec") or {}
        if not kind.startswith("Self"):
            user = User(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "")
        paths = spec.get("nonResourceAttributes")
        if paths:
            asked_for = Attributes(verb=paths.get("verb", ""), path=paths.get("path", ""))
        else:
            asked = dict(spec.get("resourceAttributes") or {})
            if namespace:
                asked["namespace"] = namespace
            asked_for = attributes_of(asked)
        return {"allowed": self._authorizer.allows(user, asked_for)}

    def _rules(self, user: User, namespace: str) -> Manifest:
        rules = list(self._authorizer.rules(user, namespace))
        return {
            "resourceRules": [_without(rule, "nonResourceURLs") for rule in rules if rule.get("resources")],
            "nonResourceRules": [
                {"verbs": rule["verbs"], "nonResourceURLs": rule["nonResourceURLs"]}
                for rule in rules
                if rule.get("nonResourceURLs")
            ],
            "incomplete": False,
        }

    def _token(self, review: Manifest) -> Manifest:
        found = self._authenticator.user_of_token((review.get("spec") or {}).get("token") or "")
        if found is None:
            return {"authenticated": False, "error": "invalid bearer token"}
        return {"authenticated": True, "user": user_info(found)}


def _without(rule: Manifest, name: str) -> Manifest:
    return {key: value for key, value in rule.items() if key != name}


def attributes_of(asked: Manifest) -> Attributes:
    return Attributes(
        verb=asked.get("verb", ""),
        group=asked.get("group", ""),
        resource=asked.get("resource", ""),
        subresource=asked.get("subresource", ""),
        namespace=asked.get("namespace", ""),
        name=asked.get("name", ""),
    )


def user_info(user: User) -> Manifest:
    info: Manifest = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        info["uid"] = user.uid
    return info
