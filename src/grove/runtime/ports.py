"""What the runtime asks of a Kubernetes client, and no more; `grove.kube.client.Client` fits.

Declared here, so that a test can stand in with a few lines and so that nobody guesses which verbs the
runtime needs.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol, TypeVar

from grove.meta import Key, Manifest, Resource

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Page(Protocol[T_co]):
    """One page of a list; `restarted` says that the pages before it are void."""

    @property
    def items(self) -> Sequence[T_co]: ...
    @property
    def resource_version(self) -> str: ...
    @property
    def restarted(self) -> bool: ...


class Change(Protocol[T_co]):
    """One event of a watch."""

    @property
    def type(self) -> str: ...
    @property
    def object(self) -> T_co: ...
    @property
    def resource_version(self) -> str: ...


class Reader(Protocol):
    """Lists and watches."""

    def pages(
        self,
        resource: Resource,
        *,
        type: type[T],
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        limit: int = 500,
    ) -> AsyncIterator[Page[T]]: ...

    def watch(
        self,
        resource: Resource,
        *,
        type: type[T],
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        resource_version: str,
        timeout_seconds: int = 300,
    ) -> AsyncIterator[Change[T]]: ...


class LeaseClient(Protocol):
    """Reads and writes one Lease; `replace` must refuse a stale resourceVersion with Conflict."""

    async def get(self, resource: Resource, key: Key, *, type: type[T]) -> T: ...
    async def create(self, resource: Resource, manifest: Manifest, *, type: type[T]) -> T: ...
    async def replace(self, resource: Resource, manifest: Manifest, *, type: type[T]) -> T: ...


class EventClient(Protocol):
    """Creates events and bumps their counts."""

    async def create(self, resource: Resource, manifest: Manifest) -> object: ...
    async def merge_patch(self, resource: Resource, key: Key, patch: Manifest) -> object: ...
