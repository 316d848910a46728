"""What to write: desired x observed -> Create | Patch | Delete. Objects are compared here (`difference`).

Desired objects mention only the fields we own; `None` means "must be absent". A merge patch of the differing
owned fields is all that is ever sent for an object of ours, and nothing is sent when nothing differs.
Scheduler objects have several writers and go through server-side apply instead (`Apply`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from grove.meta import Key, Manifest, Resource

#: As the managedFields of a write, clears the record of who manages which field. Until somebody applies the
#: object server-side, none is kept of later writes either. Writes of a status cannot say it.
CLEARED_MANAGERS: Final[list[Manifest]] = [{}]


@dataclass(frozen=True, slots=True)
class Create:
    """POST a new object; meeting itself again (already exists, same owner) is success."""

    resource: Resource
    manifest: Manifest
    #: Refuse fields that the server does not know instead of dropping them.
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Patch:
    """Merge-patch the differing owned fields; `resource_version` makes it conditional."""

    resource: Resource
    key: Key
    patch: Manifest
    subresource: str = ""
    resource_version: str = ""
    #: The last write of the object itself before many of its status: where ownership of fields is not
    #: tracked, it clears the record of managers.
    may_clear_managers: bool = False


@dataclass(frozen=True, slots=True)
class JsonPatch:
    """A list of operations, for what a merge patch cannot say: test a value, remove one list item.

    With a `uid` it changes nothing but the object that was observed.
    """

    resource: Resource
    key: Key
    operations: tuple[Manifest, ...]
    subresource: str = ""
    uid: str = ""
    #: As of a `Patch`.
    may_clear_managers: bool = False


@dataclass(frozen=True, slots=True)
class Apply:
    """Server-side apply of an object that others write too; conflicts name who else wants the field.

    `uid` and `resource_version` are those of the object as it was observed: no other is changed, and none is
    created. Without them the object must not exist yet: one that does is never taken over.
    """

    resource: Resource
    manifest: Manifest
    force: bool = False
    uid: str = ""
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete exactly the object that was observed: `uid` guards against a namesake.

    With a `resource_version` it must also be as it was observed; otherwise the deletion fails.
    """

    resource: Resource
    key: Key
    uid: str
    resource_version: str = ""


Change = Create | Patch | JsonPatch | Apply | Delete


def difference(desired: Manifest, observed: Mapping[str, Any]) -> Manifest:
    """The merge patch that brings the owned fields from observed to desired; empty when they agree.

    Absent, null and empty mean the same, but for empty mappings within lists (see `agrees`). Lists are
    compared and sent whole, as a merge patch does.
    """
    patch: Manifest = {}
    for name, want in desired.items():
        have = observed.get(name)
        if want == have:
            # What most fields are: compared at once, at whatever depth.
            continue
        if isinstance(want, dict):
            nested = difference(want, have if isinstance(have, (dict, Mapping)) else {})
            if nested:
                patch[name] = nested
        elif isinstance(want, (list, tuple)):
            if not agrees(want, have):
                patch[name] = present(want)
        elif want is None:
            if have not in (None, {}, [], (), ""):
                patch[name] = None
        else:
            patch[name] = want
    return patch


class Exactly(list[Any]):
    """A list that agrees with no other: of a claim `storageClassName: ""` says that it has no class."""


def forgetting(desired: Manifest, applied: Mapping[str, Any]) -> Manifest:
    """The desired object plus a null for each field that was applied before and is no longer mentioned."""
    gone = {name: None for name in applied if name not in desired}
    kept = {
        name: forgetting(want, applied.get(name) or {}) if isinstance(want, dict) else want
        for name, want in desired.items()
    }
    return {**kept, **gone}


def agrees(want: Any, have: Any) -> bool:
    """Whether an observed value has everything that the desired one says, item by item.

    In an item of a list an empty mapping is a value: a term with `namespaceSelector: {}` selects every
    namespace, one without it the pod's own. An empty text is one only where the list says so (`Exactly`).
    """
    if want == have:
        return True
    if isinstance(want, Exactly):
        return False
    if isinstance(want, dict):
        if not isinstance(have, (dict, Mapping)):
            return bool(want) and all(agrees(value, None) for value in want.values())
        return all(agrees(value, have.get(key)) for key, value in want.items())
    if isinstance(want, (list, tuple)):
        items = have if isinstance(have, (list, tuple)) else ()
        return len(want) == len(items) and all(map(agrees, want, items))
    if want is None:
        return have in (None, [], (), "")
    return False


def replacing(desired: Any, observed: Any) -> Any:
    """The desired value plus a null for whatever the observed one has beyond it, at every depth."""
    if isinstance(desired, dict) and isinstance(observed, Mapping):
        gone = {key: None for key in observed if key not in desired}
        return {**gone, **{key: replacing(want, observed.get(key)) for key, want in desired.items()}}
    if isinstance(desired, list) and isinstance(observed, (list, tuple)) and len(desired) == len(observed):
        return [replacing(want, have) for want, have in zip(desired, observed, strict=True)]
    return desired


def present(value: Any) -> Any:
    """A value without the fields that are null. What is empty stays: it may be required, or mean "all"."""
    # First what most values are: to ask whether a string is a Mapping takes longest.
    if isinstance(value, (str, int)):
        return value
    if isinstance(value, (list, tuple)):
        return [present(item) for item in value]
    if isinstance(value, (dict, Mapping)):
        return {
            key: item if item.__class__ is str else present(item)
            for key, item in value.items()
            if item is not None
        }
    return value


def without_absent(manifest: Manifest) -> Manifest:
    """A manifest for creation: the fields that must be absent are left out, empty lists and maps stay."""
    return {
        key: without_absent(value) if isinstance(value, dict) else _listed(value)
        for key, value in manifest.items()
        if value is not None
    }


def _listed(value: Any) -> Any:
    if isinstance(value, list):
        return [without_absent(item) if isinstance(item, dict) else item for item in value]
    return value
