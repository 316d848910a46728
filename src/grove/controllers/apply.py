"""The one applier: writes planned changes, a stage at a time, and reports each write to the barrier.

Interprets the API server's refusals: an object that already is as wanted counts as written, a name that
another owner holds is `NameTaken`. Decides nothing.

What a write was decided on goes with it, so that one which arrives late, after another leader has worked,
changes nothing: a patch names the version that it was made for, the opening of a gate and a deletion the UID,
an apply both, and what is created has a name and an owner by which a second one is recognised.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from grove.controllers.memory.own_writes import OwnWrites
from grove.controllers.pacing import WriteLoad
from grove.errors import (
    PASSING,
    AlreadyExists,
    Conflict,
    GroveError,
    Invalid,
    NotFound,
    OwnershipConflict,
)
from grove.kube.client import Client, Written
from grove.meta import Key, Manifest, Object, Resource, manifest_key
from grove.plan.changes import CLEARED_MANAGERS, Apply, Change, Create, Delete, JsonPatch, Patch
from grove.plan.children import Plan, Settled
from grove.plan.last_errors import CodedError, error_code
from grove.plan.slices import Work, first
from grove.runtime.slots import Slots
from grove.words import counted

#: Enough to keep an API server busy, few enough that its fairness queues do not mind us.
IN_FLIGHT = 64
#: However many namespaces write at once, each may have so many writes under way if there is room.
LEAST_SHARE = 8
#: How many children are created in one go, and as many repaired: a batch is held in memory until written.
MOST_AT_ONCE = 300
#: How many children are removed in one go: a deletion is small, and the pods of all of them go first.
MOST_REMOVED = 10_000

#: The version of no object, since a store counts on before it has any. An apply that names it creates its
#: object or is refused: a server compares versions only with what is there.
_NEVER = "1"
#: Not "replace", which fails where nothing is recorded.
_CLEARING = {"op": "add", "path": "/metadata/managedFields", "value": CLEARED_MANAGERS}

#: Field managers behind which a person sits: their edits of an object of ours are mended.
_PEOPLE = re.compile(r"^(kubectl|k9s|lens|helm|argocd|oc)\b", re.IGNORECASE)
# One conflict is told as "conflict with", several of one manager as "conflicts with".
_MANAGER = re.compile(r'conflicts? with "([^"]+)"')


class NameTaken(GroveError):
    """An object of the name we need exists and is not ours; it must go before we can go on."""

    code = "ERR_NAME_TAKEN"


@dataclass(frozen=True, slots=True)
class Batch:
    """Changes that are carried out together, and what is in order besides."""

    changes: tuple[Change, ...]
    settled: Settled
    #: Whether the plan has more; the next look takes it.
    more: bool = False


def first_batch(plan: Plan, most: int = MOST_AT_ONCE, most_removed: int = MOST_REMOVED) -> Work[Batch]:
    """The first changes of a plan: at most so many creations, then repairs; then removals."""
    created, more_to_create = yield from first(plan.creations(), most)
    repaired, more_to_repair = yield from first(plan.repairs(), most)
    removed, more_to_remove = yield from first(plan.removals(), most_removed)
    more = more_to_create or more_to_repair or more_to_remove
    return Batch((*created, *repaired, *removed), plan.settled, more)


def first_removals(plan: Plan, most: int = MOST_REMOVED) -> Work[Batch]:
    """The first removals of a plan whose other changes cannot be carried out now."""
    removed, more = yield from first(plan.removals(), most)
    return Batch(tuple(removed), Settled(), more)


class WriteBarrier(Protocol):
    """The barrier of one controller: what it wrote must be seen before its key is reconciled again."""

    def wrote(
        self, key: Key, resource: Resource, resource_version: str, *, about: Key | None = None
    ) -> None: ...
    def deleted(self, key: Key, resource: Resource, object_key: Key, uid: str) -> None: ...
    def wake(self, key: Key) -> None: ...


class _NoBarrier:
    """Remembers nothing: for a reconciler that nobody runs in a loop."""

    def wrote(self, key: Key, resource: Resource, resource_version: str, *, about: Key | None = None) -> None:
        """Nobody waits for it."""

    def deleted(self, key: Key, resource: Resource, object_key: Key, uid: str) -> None:
        """Nobody waits for it."""

    def wake(self, key: Key) -> None:
        """There is no loop that could look."""


NO_BARRIER: WriteBarrier = _NoBarrier()


@dataclass(slots=True)
class Applied:
    """What came of it: the changes that took effect, and the first failure of each that did not."""

    done: list[Change] = field(default_factory=list)
    failures: list[tuple[Change, GroveError]] = field(default_factory=list)
    #: What each written object has now.
    versions: dict[tuple[Resource, Key], str] = field(default_factory=dict)
    generations: dict[tuple[Resource, Key], int] = field(default_factory=dict)

    def raise_failure(self) -> None:
        """Raise the first failure, if there was one."""
        if self.failures:
            raise self.failures[0][1]

    @property
    def refusals(self) -> list[tuple[Change, GroveError]]:
        """The failures that are worth telling: a race or an outage is simply tried again."""
        return [failure for failure in self.failures if not isinstance(failure[1], PASSING)]

    def count(self, kind: type[Change], resource: Resource) -> int:
        """How many changes of this kind to this resource took effect."""
        if not self.done:
            return 0
        return sum(isinstance(change, kind) and change.resource == resource for change in self.done)


class Applier:
    """Carries out changes with bounded concurrency, for all controllers together."""

    def __init__(
        self,
        client: Client,
        load: WriteLoad | None = None,
        *,
        in_flight: int = IN_FLIGHT,
        tracks_managers: bool = True,
    ) -> None:
        self._client = client
        #: Whether API servers shall record who manages which field, of every object.
        self._tracks_managers = tracks_managers
        self._load = load or WriteLoad()
        self.own_writes = OwnWrites()
        self.slots = Slots(in_flight, least=LEAST_SHARE)

    async def apply(
        self, changes: Sequence[Change], *, barrier: WriteBarrier, key: Key, to_the_end: bool = False
    ) -> Applied:
        """Carry out one stage. The first failure stops what has not begun; what has begun is finished.

        Changes that do not depend on one another may all be tried, `to_the_end`.
        """
        applied = Applied()
        if len(changes) == 1:
            await self._one(changes[0], applied, barrier, key)
        elif changes:
            await self._all(changes, applied, barrier, key, to_the_end=to_the_end)
        return applied

    async def _all(
        self,
        changes: Sequence[Change],
        applied: Applied,
        barrier: WriteBarrier,
        key: Key,
        *,
        to_the_end: bool,
    ) -> None:
        """A fixed crew of workers rather than a task for each change: thousands of changes are common."""
        todo = iter(changes)

        async def work() -> None:
            for change in todo:
                if applied.failures and not to_the_end:
                    return
                await self._one(change, applied, barrier, key)

        async with asyncio.TaskGroup() as crew:
            for _ in range(min(len(changes), IN_FLIGHT)):
                crew.create_task(work())

    async def _one(self, change: Change, applied: Applied, barrier: WriteBarrier, key: Key) -> None:
        try:
            if isinstance(change, Patch) and change.subresource == "status":
                written = await self._report(change)
            else:
                written = await self._progress(change)
        except GroveError as failure:
            applied.failures.append((change, failure))
            return
        applied.done.append(change)
        if isinstance(change, Delete):
            barrier.deleted(key, change.resource, change.key, change.uid)
        elif written is not None:
            version = written.metadata.resource_version
            about = _key_of(change)
            applied.versions[change.resource, about] = version
            applied.generations[change.resource, about] = written.metadata.generation
            barrier.wrote(key, change.resource, version, about=about)

    async def _progress(self, change: Change) -> Written | Object | None:
        self._load.began()
        try:
            async with self.slots.of(_key_of(change).namespace):
                return await self._carry_out(change)
        finally:
            self._load.ended()

    async def _report(self, change: Patch) -> Written | Object | None:
        version = ""
        self.own_writes.writing(change.resource, change.key)
        try:
            async with self.slots.of(change.key.namespace):
                written = await self._carry_out(change)
            version = written.metadata.resource_version if written is not None else ""
            return written
        finally:
            self.own_writes.wrote(change.resource, change.key, version)

    async def _carry_out(self, change: Change) -> Written | Object | None:
        match change:
            case Create():
                return await self._create(change)
            case Patch():
                patch = self._complete(change)
                return await _unless_gone(
                    lambda: self._client.merge_patch(
                        change.resource, change.key, patch, subresource=change.subresource
                    )
                )
            case JsonPatch():
                return await self._json_patch(change)
            case Apply():
                return await self._server_side_apply(change)
            case Delete():
                await self._delete(change)
                return None

    def _complete(self, change: Patch) -> Manifest:
        """The patch with what it says about the object's metadata besides."""
        metadata: Manifest = {}
        if change.resource_version:
            metadata["resourceVersion"] = change.resource_version
        if change.may_clear_managers and not self._tracks_managers:
            metadata["managedFields"] = CLEARED_MANAGERS
        if not metadata:
            return change.patch
        return {**change.patch, "metadata": {**change.patch.get("metadata", {}), **metadata}}

    async def _create(self, change: Create) -> Written | Object:
        try:
            return await self._client.create(change.resource, change.manifest, strict=change.strict)
        except AlreadyExists as taken:
            key = manifest_key(change.manifest)
            try:
                there = await self._client.get(change.resource, key, type=Object)
            except NotFound:
                raise taken from None
            _refuse_unowned(change, there)
            return await self._relabel(change, there)

    async def _relabel(self, change: Create | Apply, there: Object) -> Written | Object:
        """Ours, and yet the cache did not show it: made a moment ago, or lost a label that we find it by."""
        if not _lacks_labels(change, there):
            return there
        marks = change.manifest["metadata"]["labels"]
        version = there.metadata.resource_version
        patch = {"metadata": {"labels": marks, "resourceVersion": version}}
        return await self._client.merge_patch(change.resource, there.key, patch)

    async def _json_patch(self, change: JsonPatch) -> Written | None:
        operations = change.operations
        if change.uid:
            operations = ({"op": "test", "path": "/metadata/uid", "value": change.uid}, *operations)
        if change.may_clear_managers and not self._tracks_managers:
            operations = (*operations, _CLEARING)
        try:
            return await _unless_gone(
                lambda: self._client.json_patch(
                    change.resource, change.key, operations, subresource=change.subresource
                )
            )
        except Invalid as refused:
            # A failed `test` operation: the object is not what the cache said. Look again.
            raise Conflict(
                f"{change.resource.kind} {change.key} was changed by another writer: {refused}"
            ) from None

    async def _server_side_apply(self, change: Apply) -> Written:
        if not change.uid:
            try:
                return await self._apply_once(replace(change, resource_version=_NEVER))
            except Conflict:
                change = await self._found(change)
        try:
            return await self._apply_once(change)
        except Conflict as conflict:
            managers = set(_MANAGER.findall(str(conflict)))
            if managers and all(_PEOPLE.match(manager) for manager in managers):
                return await self._apply_once(replace(change, force=True))
            if not managers:
                raise
            raise OwnershipConflict(
                f"{change.resource.kind} {manifest_key(change.manifest)}: {conflict}; "
                "make the other manager release the field, or remove it from the gang's scheduler settings"
            ) from None

    async def _apply_once(self, change: Apply) -> Written:
        seen = {"uid": change.uid, "resourceVersion": change.resource_version}
        metadata = {**change.manifest["metadata"], **{name: value for name, value in seen.items() if value}}
        manifest = {**change.manifest, "metadata": metadata}
        return await self._client.apply(change.resource, manifest, force=change.force)

    async def _found(self, change: Apply) -> Apply:
        """The change to an object that is there although the cache did not show it; only if it is ours."""
        key = manifest_key(change.manifest)
        try:
            there = await self._client.get(change.resource, key, type=Object)
        except NotFound:
            raise Conflict(f"{change.resource.kind} {key} existed and is gone now") from None
        if _owned_alike(change, there) and there.terminating and _lacks_labels(change, there):
            # The cache, which selects by label, shows it again and with it that it is being deleted.
            await self._relabel(change, there)
            raise Conflict(f"{change.resource.kind} {key} had lost its labels; look again")
        _refuse_unowned(change, there)
        return replace(change, uid=there.uid, resource_version=there.metadata.resource_version)

    async def _delete(self, change: Delete) -> None:
        try:
            await self._client.delete(
                change.resource,
                change.key,
                uid=change.uid,
                resource_version=change.resource_version,
                propagation="Background",
            )
        except NotFound:
            return
        except Conflict:
            # Another object has the name by now, so ours is gone; or it is not what it was, which matters.
            if change.resource_version:
                raise


def _refuse_unowned(change: Create | Apply, there: Object) -> None:
    """An object that is not ours, or that goes, is never taken over, whoever wrote it."""
    if _owned_alike(change, there) and not there.terminating:
        return
    holder = f"{there.owner.kind} {there.owner.name}" if there.owner else ""
    owned = f"belongs to {holder}" if holder else "has no controlling owner"
    state = "is still being deleted" if there.terminating else owned
    raise NameTaken(
        f"{change.resource.kind} {there.key} already exists and {state}; Grove waits until it is gone"
    )


def _owned_alike(change: Create | Apply, there: Object) -> bool:
    """Whether an object has the owner that ours would have; its labels say nothing about that."""
    ours = {reference["uid"] for reference in change.manifest["metadata"].get("ownerReferences", ())}
    return there.owner is not None and there.owner.uid in ours


def _lacks_labels(change: Create | Apply, there: Object) -> bool:
    marks = change.manifest["metadata"].get("labels") or {}
    return not marks.items() <= there.labels.items()


def _key_of(change: Change) -> Key:
    if isinstance(change, (Create, Apply)):
        return manifest_key(change.manifest)
    return change.key


async def _unless_gone(write: Callable[[], Awaitable[Written]]) -> Written | None:
    """The answer to a write, or None when its object is gone: its going wakes whom it concerns."""
    try:
        return await write()
    except NotFound:
        return None


def failures_text(failures: Iterable[tuple[Change, GroveError]]) -> str:
    """Failures for people: each refusal once, however many objects it met."""
    return "; ".join(error.text for error in distinct_errors(failures))


def distinct_errors(failures: Iterable[tuple[Change, GroveError]]) -> list[CodedError]:
    """The code and the sentence of each refusal; those that differ in the object's name alone are one."""
    alike: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for change, failure in failures:
        name = _key_of(change).name if not isinstance(change, Create) or change.manifest else ""
        text = str(failure)
        meaning = text.replace(name, "") if name else text
        code = error_code(change, failure)
        alike.setdefault((code, meaning), []).append((text, change.resource.kind))
    found = []
    for (code, _), group in alike.items():
        text, kind = min(group)
        more = len(group) - 1
        found.append(CodedError(code, f"{text} ({counted(more, f'more {kind}')} alike)" if more else text))
    return found
