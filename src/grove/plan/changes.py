"""What to write: desired x observed -> Create | Patch | Delete. The only diff in the tree.

Desired objects mention only the fields we own; `None` means "must be absent". A merge patch of the differing
owned fields is all that is ever sent for an object of ours, and nothing is sent when nothing differs.
Scheduler objects have several writers and go through server-side apply instead (`Apply`).
"""

from dataclasses import dataclass, field

from grove.meta import Key, Manifest, Resource


@dataclass(frozen=True, slots=True)
class Create:
    """POST a new object; meeting itself again (already exists, same owner) is success."""

    resource: Resource
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Patch:
    """Merge-patch the differing owned fields; `resource_version` makes it conditional."""

    resource: Resource
    key: Key
    patch: Manifest
    subresource: str = ""
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class JsonPatch:
    """A list of operations, for what a merge patch cannot say: test a value, remove one list item."""

    resource: Resource
    key: Key
    operations: tuple[Manifest, ...]
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Apply:
    """Server-side apply of an object that others write too; conflicts name who else wants the field."""

    resource: Resource
    manifest: Manifest
    force: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete exactly the object that was observed: `uid` guards against a namesake."""

    resource: Resource
    key: Key
    uid: str


Change = Create | Patch | JsonPatch | Apply | Delete


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes in the order in which they must happen: stages one after another, a stage all at once."""

    stages: tuple[tuple[Change, ...], ...] = field(default=())

    def __bool__(self) -> bool:
        return any(self.stages)
