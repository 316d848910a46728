"""What a kind's strategy may know about the request besides the object itself.

A value made by `verbs/api.py` for each write. It reads other objects through `find`; it never writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from grove.embedded.errors import Manifest
from grove.embedded.identity import User
from grove.embedded.resource_type import ResourceType


@dataclass(frozen=True, slots=True)
class Context:
    resource: ResourceType
    now: str
    """RFC 3339, whole seconds: the timestamp for everything that this write stamps."""
    user: User
    minor: str
    """The Kubernetes minor that this cluster plays, such as "1.36"."""
    find: Callable[[str, str, str, str], Manifest | None]
    """(group, plural, namespace, name) -> the stored object; it is immutable, copy before changing."""
    all_of: Callable[[str, str, str], list[Manifest]]
    """(group, plural, namespace or "") -> the stored objects."""
    new_cluster_ip: Callable[[], str]
    subresource: str = ""
    dry_run: bool = False
    features: frozenset[str] | None = None
    """The feature gates that are on; None means all that the gang API knows."""
