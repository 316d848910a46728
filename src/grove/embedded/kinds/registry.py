"""Which kinds this server serves: the built-in ones of its Kubernetes minor, and CRDs as they come and go.

A lookup table and nothing else: it stores no objects and knows no schemas.
"""

from __future__ import annotations

from collections.abc import Iterator

from grove.embedded.kinds.builtins import builtin_types
from grove.embedded.resource_type import ResourceType


class Registry:
    """The kinds that are served right now; `revision` moves whenever that changes."""

    def __init__(self, minor: str = "1.36", features: frozenset[str] | None = None) -> None:
        self.minor = minor
        self.revision = 0
        self._types: dict[tuple[str, str, str], ResourceType] = {}
        self._kinds: dict[tuple[str, str], ResourceType] = {}
        for resource in builtin_types(minor, features):
            self.add(resource)

    def add(self, resource: ResourceType) -> None:
        """Serves a kind from now on, in place of what had its name before."""
        self._types[resource.group, resource.version, resource.plural] = resource
        self._kinds[resource.api_version, resource.kind] = resource
        self.revision += 1

    def remove(self, resource: ResourceType) -> None:
        self._types.pop((resource.group, resource.version, resource.plural), None)
        self._kinds.pop((resource.api_version, resource.kind), None)
        self.revision += 1

    def lookup(self, group: str, version: str, plural: str) -> ResourceType | None:
        return self._types.get((group, version, plural))

    def by_kind(self, api_version: str, kind: str) -> ResourceType | None:
        return self._kinds.get((api_version, kind))

    def any_version(self, group: str, plural: str) -> ResourceType | None:
        """The kind under whichever version it is served."""
        return next((t for t in self._types.values() if t.group == group and t.plural == plural), None)

    def stored(self, resource: ResourceType) -> ResourceType:
        """The kind in the version in which its objects are stored."""
        if not resource.stored_as:
            return resource
        return self._kinds.get((resource.stored_as, resource.kind), resource)

    def versions(self, resource: ResourceType) -> list[ResourceType]:
        """Every kind whose objects are the same ones, this one included."""
        return [found for found in self._types.values() if found.key == resource.key]

    def __iter__(self) -> Iterator[ResourceType]:
        return iter(list(self._types.values()))

    def groups(self) -> dict[str, list[str]]:
        """Each API group with its versions, the preferred one first."""
        found: dict[str, list[str]] = {}
        for resource in self._types.values():
            versions = found.setdefault(resource.group, [])
            if resource.version not in versions:
                versions.append(resource.version)
        return {group: sorted(versions, key=_preference) for group, versions in found.items()}


def _preference(version: str) -> tuple[int, int, int]:
    """Kubernetes' order of versions: stable before beta before alpha, newer before older."""
    for rank, stage in enumerate(("", "beta", "alpha")):
        major, _, minor = version.removeprefix("v").partition(stage) if stage else (version[1:], "", "")
        if major.isdigit() and (minor.isdigit() if stage else True):
            return (rank, -int(major), -int(minor or 0))
    return (3, 0, 0)
