"""May this user do that? Roles and bindings, read from the stored objects at every question.

Answers yes or no (or raises 403 with the server's sentence); never writes. `system:masters` may do anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from grove.embedded.errors import ApiError, Manifest
from grove.embedded.identity import User

GROUP = "rbac.authorization.k8s.io"
_ALL: Manifest = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "nonResourceURLs": ["*"]}
_BUILTIN_ROLES: dict[str, list[Manifest]] = {"cluster-admin": [_ALL]}
# What every authenticated user of a real cluster may do: discover the API and ask about themselves.
_EVERYONE: tuple[Manifest, ...] = (
    {
        "verbs": ["get"],
        "nonResourceURLs": [
            *("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"),
            *("/healthz", "/livez", "/readyz", "/version", "/version/"),
        ],
    },
    {
        "verbs": ["create"],
        "apiGroups": ["authorization.k8s.io"],
        "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
    },
    {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]},
)


@dataclass(frozen=True, slots=True)
class Attributes:
    """What is asked for: a verb on a resource, or on a path that is no resource."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Authorizer:
    """`find` (group, plural, namespace, name) and `all_of` (without name) read stored objects."""

    def __init__(
        self,
        *,
        find: Callable[[str, str, str, str], Manifest | None],
        all_of: Callable[[str, str, str], list[Manifest]],
    ) -> None:
        self._find = find
        self._all_of = all_of

    def allows(self, user: User, asked: Attributes) -> bool:
        """Whether some rule that is bound to the user covers the request."""
        if user.is_master:
            return True
        return any(covers(rule, asked) for rule in self.rules(user, asked.namespace))

    def check(self, user: User, asked: Attributes) -> None:
        """Raises 403 unless the user may."""
        if not self.allows(user, asked):
            raise denied(user, asked)

    def rules(self, user: User, namespace: str) -> Iterator[Manifest]:
        """Every rule that holds for the user in a namespace ("" for cluster-wide requests)."""
        if user.is_master:
            yield _ALL
        yield from _EVERYONE
        for binding in self._all_of(GROUP, "clusterrolebindings", ""):
            if names(binding, user):
                yield from self._rules_of(binding["roleRef"], "")
        if namespace:
            for binding in self._all_of(GROUP, "rolebindings", namespace):
                if names(binding, user):
                    yield from self._rules_of(binding["roleRef"], namespace)

    def _rules_of(self, reference: Manifest, namespace: str) -> Iterator[Manifest]:
        if reference.get("kind") == "Role":
            role = self._find(GROUP, "roles", namespace, reference["name"]) if namespace else None
            yield from (role or {}).get("rules") or ()
            return
        role = self._find(GROUP, "clusterroles", "", reference["name"])
        if role is None:
            yield from _BUILTIN_ROLES.get(reference["name"], ())
            return
        yield from role.get("rules") or ()
        for selector in (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ():
            wanted = (selector.get("matchLabels") or {}).items()
            for other in self._all_of(GROUP, "clusterroles", ""):
                labels = other["metadata"].get("labels") or {}
                if all(labels.get(key) == value for key, value in wanted):
                    yield from other.get("rules") or ()


def names(binding: Manifest, user: User) -> bool:
    """Whether a binding is about this user."""
    home = binding["metadata"].get("namespace", "")
    for subject in binding.get("subjects") or ():
        kind, name = subject.get("kind"), subject.get("name")
        if kind == "User" and name == user.name:
            return True
        if kind == "Group" and name in user.groups:
            return True
        if kind == "ServiceAccount":
            namespace = subject.get("namespace") or home
            if user.name == f"system:serviceaccount:{namespace}:{name}":
                return True
    return False


def covers(rule: Manifest, asked: Attributes) -> bool:
    """Whether one rule of a role allows the request."""
    if not _matches(rule.get("verbs"), asked.verb):
        return False
    if asked.path:
        return any(_path_matches(url, asked.path) for url in rule.get("nonResourceURLs") or ())
    if not _matches(rule.get("apiGroups"), asked.group):
        return False
    if not _resource_matches(rule.get("resources") or [], asked):
        return False
    only = rule.get("resourceNames") or ()
    return not only or asked.name in only


def _matches(allowed: list[str] | None, wanted: str) -> bool:
    return allowed is not None and (wanted in allowed or "*" in allowed)


def _resource_matches(allowed: list[str], asked: Attributes) -> bool:
    if "*" in allowed or asked.full_resource in allowed:
        return True
    return bool(asked.subresource) and f"*/{asked.subresource}" in allowed


def _path_matches(pattern: str, path: str) -> bool:
    return pattern in ("*", path) or (pattern.endswith("*") and path.startswith(pattern[:-1]))


def denied(user: User, asked: Attributes) -> ApiError:
    """403 with the sentence that kubectl users know."""
    if asked.path:
        text = f'forbidden: User "{user.name}" cannot {asked.verb} path "{asked.path}"'
        return ApiError(403, "Forbidden", text, {})
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    qualified = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
    subject = f'{qualified} "{asked.name}"' if asked.name else qualified
    text = (
        f'{subject} is forbidden: User "{user.name}" cannot {asked.verb} resource "{asked.full_resource}" '
        f'in API group "{asked.group}" {where}'
    )
    details = {"name": asked.name, "group": asked.group, "kind": asked.resource}
    return ApiError(403, "Forbidden", text, {key: value for key, value in details.items() if value})
