"""Which resources a server serves, and news when a CRD comes or goes.

Reads the plain discovery documents, which every API server has; watches CustomResourceDefinitions to know
when to read them again. One resource per group and plural: of several versions the group's first.
"""

from __future__ import annotations

from collections.abc import Callable

from grove.embedded.actors.mirror import Mirrors
from grove.embedded.actors.objects import CRDS, Resource, condition
from grove.embedded.errors import Manifest
from grove.embedded.local import ActorClient

NEEDED = frozenset(("delete", "list", "watch"))
UNCOLLECTED = frozenset((("", "events"), ("events.k8s.io", "events")))
"""Events own nothing and expire by themselves."""


class Discovery:
    """The deletable resources of a server, by what names them in an owner reference."""

    def __init__(self, client: ActorClient) -> None:
        self._client = client
        self.resources: tuple[Resource, ...] = ()
        self._by_kind: dict[tuple[str, str], Resource] = {}

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource behind an owner reference; any version of its group will do."""
        group = api_version.rpartition("/")[0]
        return self._by_kind.get((group, kind))

    async def refresh(self) -> None:
        rows: dict[tuple[str, str], Resource] = {}
        for version in await self._versions():
            document = await self._client.get(f"/apis/{version}" if "/" in version else f"/api/{version}")
            for row in document.get("resources") or ():
                resource = _resource(version, row)
                if resource is not None:
                    rows.setdefault((resource.group, resource.plural), resource)
        self.resources = tuple(rows.values())
        self._by_kind = {(resource.group, resource.kind): resource for resource in self.resources}

    async def _versions(self) -> list[str]:
        core = await self._client.get("/api")
        groups = await self._client.get("/apis")
        found = list(core.get("versions") or ())
        for group in groups.get("groups") or ():
            listed = [version["groupVersion"] for version in group.get("versions") or ()]
            first = (group.get("preferredVersion") or {}).get("groupVersion")
            found += sorted(listed, key=lambda version: version != first)
        return found


def _resource(api_version: str, row: Manifest) -> Resource | None:
    group, _, version = api_version.rpartition("/")
    name = row["name"]
    if "/" in name or not set(row.get("verbs") or ()) >= NEEDED:
        return None
    return Resource(group, version, name, namespaced=bool(row.get("namespaced")), kind=row["kind"])


def follow_crds(mirrors: Mirrors, changed: Callable[[], None]) -> None:
    """Call `changed` whenever a CRD is established, changes its versions, or goes."""

    def told(old: Manifest | None, new: Manifest | None) -> None:
        if _served(old) != _served(new):
            changed()

    mirrors.of(CRDS).subscribe(told)


def _served(crd: Manifest | None) -> tuple[str, ...]:
    if crd is None or condition(crd, "Established").get("status") != "True":
        return ()
    spec = crd.get("spec") or {}
    return tuple(version["name"] for version in spec.get("versions") or () if version.get("served"))
