"""Learn which resources a cluster serves: aggregated in two requests, or the older way, group by group.

A group whose server is down is left out, as it serves nothing at the moment; it never fails the whole.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Final

from grove.errors import ApiError
from grove.kube.decoding import codec
from grove.kube.exchange import JSON, Call, Exchange
from grove.kube.failure import header_of
from grove.meta import GVK, Resource, View

log = logging.getLogger(__name__)

_AGGREGATED: Final = ",".join(
    [
        f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
        for version in ("v2", "v2beta1")
    ]
    + [JSON]
)


@dataclass(frozen=True, slots=True)
class Discovery:
    """What a cluster serves; `served` maps `group/version` to the plurals of its resources."""

    served: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, resources: Iterable[Resource]) -> "Discovery":
        """Discovery of the given resources."""
        plurals: dict[str, set[str]] = {}
        for resource in resources:
            plurals.setdefault(resource.api_version, set()).add(resource.plural)
        return cls({version: frozenset(names) for version, names in plurals.items()})


class VersionInfo(View):
    """What /version says."""

    major: str = ""
    minor: str = ""
    git_version: str = ""
    platform: str = ""

    @property
    def number(self) -> tuple[int, int]:
        """Major and minor as numbers; some providers write the minor as `35+`."""
        return _digits(self.major), _digits(self.minor)


class _Name(View):
    name: str = ""


class _ResponseKind(View):
    kind: str = ""


class _DiscoveredResource(View):
    resource: str
    response_kind: _ResponseKind = _ResponseKind()
    scope: str = ""


class _DiscoveredVersion(View):
    version: str
    resources: tuple[_DiscoveredResource, ...] = ()


class _DiscoveredGroup(View):
    metadata: _Name = _Name()
    versions: tuple[_DiscoveredVersion, ...] = ()


class _GroupVersion(View):
    group_version: str


class _Group(View):
    versions: tuple[_GroupVersion, ...] = ()


class _Root(View):
    """Any answer of /api and /apis: aggregated `items`, or the older `groups` and `versions`."""

    kind: str = ""
    items: tuple[_DiscoveredGroup, ...] = ()
    groups: tuple[_Group, ...] = ()
    versions: tuple[str, ...] = ()


class _LegacyResource(View):
    name: str
    kind: str = ""
    namespaced: bool = False


class _LegacyList(View):
    resources: tuple[_LegacyResource, ...] = ()


async def discover(exchange: Exchange) -> Discovery:
    """Everything that the server serves now."""
    roots = await asyncio.gather(_root(exchange, "/api"), _root(exchange, "/apis"))
    found: list[Resource] = []
    for root in roots:
        if root.kind == "APIGroupDiscoveryList":
            found += _aggregated(root)
            continue
        names = [*root.versions, *(each.group_version for group in root.groups for each in group.versions)]
        for resources in await asyncio.gather(*(_legacy(exchange, name) for name in names)):
            found += resources
    return Discovery.of(found)


async def version(exchange: Exchange) -> VersionInfo:
    """The server's version."""
    call = Call("GET", "/version")
    return codec(VersionInfo).one((await exchange.answer(call)).body, str(call))


async def server_time(exchange: Exchange) -> datetime | None:
    """The Date of an answer."""
    response = await exchange.answer(Call("GET", "/version"))
    try:
        return parsedate_to_datetime(header_of(response.headers, "Date"))
    except ValueError:
        return None


async def _root(exchange: Exchange, path: str) -> _Root:
    call = Call("GET", path, accept=_AGGREGATED)
    try:
        response = await exchange.answer(call)
    except ApiError as error:
        if error.status != 406:
            raise
        call = Call(
            "GET", path
        )  # a server that knows none of the newer forms and does not fall back by itself
        response = await exchange.answer(call)
    return codec(_Root).one(response.body, str(call))


def _aggregated(root: _Root) -> Iterable[Resource]:
    for group in root.items:
        for served in group.versions:
            for each in served.resources:
                if each.response_kind.kind:
                    gvk = GVK(group.metadata.name, served.version, each.response_kind.kind)
                    yield Resource(gvk, each.resource, each.scope == "Namespaced")


async def _legacy(exchange: Exchange, group_version: str) -> list[Resource]:
    group, _, name = group_version.rpartition("/")
    call = Call("GET", f"/apis/{group_version}" if group else f"/api/{name}")
    try:
        response = await exchange.answer(call)
    except ApiError as error:
        log.warning("an API group cannot be discovered", extra={"group": group_version, "why": str(error)})
        return []
    listed = codec(_LegacyList).one(response.body, str(call))
    return [
        Resource(GVK(group, name, each.kind), each.name, each.namespaced)
        for each in listed.resources
        if "/" not in each.name  # a subresource
    ]


def _digits(text: str) -> int:
    digits = "".join(char for char in text if char.isdigit())
    return int(digits) if digits else 0
