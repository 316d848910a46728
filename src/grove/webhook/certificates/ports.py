"""What keeping a certificate asks of a Kubernetes client, and no more; `grove.kube.client.Client` fits."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from grove.meta import Key, Manifest, Resource

T = TypeVar("T")


class CertificateClient(Protocol):
    """Reads and writes one Secret and some webhook configurations.

    `replace` must refuse a stale resourceVersion with Conflict, `json_patch` a failed test with Invalid.
    """

    async def get(self, resource: Resource, key: Key, *, type: type[T]) -> T: ...
    async def create(self, resource: Resource, manifest: Manifest) -> object: ...
    async def replace(self, resource: Resource, manifest: Manifest) -> object: ...
    async def json_patch(self, resource: Resource, key: Key, operations: Sequence[Manifest]) -> object: ...
