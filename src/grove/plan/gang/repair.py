"""How a scheduler's object differs from its translation, and whose doing that is. Pure."""

from collections.abc import Sequence

from grove.api import labels
from grove.api.gang import PodGang
from grove.api.kinds import GANGS
from grove.backends.base import FixedFields
from grove.meta import Manifest, UntypedObject
from grove.plan.changes import difference, forgetting


def differing(manifest: Manifest, there: UntypedObject) -> Manifest:
    """How an object differs from its translation, fields that it has from an earlier one included."""
    wanted = forgetting(manifest, there.applied.get(labels.MANAGER, {}))
    return difference(wanted, there.manifest)


def taken_over(patch: Manifest, there: UntypedObject) -> bool:
    """Whether somebody else wrote what differs; otherwise it is our own word that has changed."""
    return not _all_in(patch, there.applied.get(labels.MANAGER, {}))


def _all_in(patch: Manifest, fields: Manifest) -> bool:
    return all(
        name in fields and (not isinstance(value, dict) or _all_in(value, fields[name] or {}))
        for name, value in patch.items()
    )


def is_ours(there: UntypedObject, gang: PodGang) -> bool:
    """Whether a scheduler's object belongs to the gang: by its owner, or, without one, by who applied it."""
    if there.owner is None:
        return labels.MANAGER in there.applied
    return there.owner.uid == gang.uid


def is_remade(there: UntypedObject, gang: PodGang) -> bool:
    """Whether somebody deleted a scheduler's object of the gang and created it again by hand."""
    owned = there.owner is not None and there.owner.uid == gang.uid
    return owned and labels.MANAGER not in there.applied


def of_an_earlier(there: UntypedObject, gang: PodGang) -> bool:
    """Whether a scheduler's object belongs to an earlier gang of the same name, with which it goes."""
    owner = there.owner
    if owner is None or owner.kind != GANGS.kind:
        return False
    return owner.name == gang.name and owner.uid != gang.uid


def cannot_change(fixed: FixedFields, patch: Manifest) -> bool:
    """Whether something differs that the API server refuses to change in place."""
    return any(_touches(patch, path.split(".")) for path in fixed.paths)


def _touches(patch: Manifest, path: Sequence[str]) -> bool:
    value: object = patch
    for step in path:
        if not isinstance(value, dict) or step not in value:
            return False
        value = value[step]
    return True
