"""One kind as a path of the API names it: group, version, plural, and what may be done with it.

A value that nearly every module passes on; which of them a server serves is the registry's business.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, eq=False)
class ResourceType:
    """One kind in one API version, as a path names it; compared by identity."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()
    verbs: tuple[str, ...] = ALL_VERBS
    list_kind: str = ""
    custom: bool = False
    """Defined by a CRD."""
    has_generation: bool = False
    """metadata.generation counts changes of the desired state."""
    storage: tuple[str, str] | None = None
    """(group, plural) of the table that holds the objects, when another resource shares it."""
    stored_as: str = ""
    """The apiVersion in which objects are stored, when it is not this one."""

    @cached_property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def key(self) -> tuple[str, str]:
        """(group, plural): the table in which objects of this kind are stored, whatever their version."""
        return self.storage or (self.group, self.plural)

    @cached_property
    def has_status(self) -> bool:
        return "status" in self.subresources

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural
