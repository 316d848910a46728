"""What `grove rollout` reads from a cluster and writes into it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from grove.api import kinds, labels
from grove.api.cliqueset import PodCliqueSet
from grove.api.controller_revision import ControllerRevision
from grove.api.gang import PodGang
from grove.cli.connect import connected
from grove.cli.talk import Failed
from grove.errors import Conflict, Gone, NotFound, Unreachable
from grove.kube.client import Client
from grove.kube.reading import Listing
from grove.meta import Key, Manifest
from grove.plan.update.history import HistoryEntry, history
from grove.view.rollout import RolloutView, Stage, rollout

T = TypeVar("T")

#: Kubeconfig, context and namespace, as options say them.
Where = tuple[str | None, str | None, str]

#: How often a set is read again because somebody wrote it meanwhile; while it is updated its status changes.
_ATTEMPTS: Final = 5
#: Seconds until a server that ended a watch, or does not answer any more, is asked again.
_AGAIN: Final = 1.0
#: Seconds without any answer after which nobody waits for a server any longer.
_SILENCE: Final = 60.0


@dataclass(frozen=True, slots=True)
class Found:
    """A set, as it is stored and as it is understood, and its recorded templates."""

    manifest: Manifest
    cliqueset: PodCliqueSet
    entries: list[HistoryEntry]


async def look(where: Where, name: str) -> RolloutView:
    """How far the update of a set is now."""
    async with _reached(where, name) as (client, key):
        return rollout(await _get(client, key, PodCliqueSet))


async def follow(where: Where, name: str, show: Callable[[RolloutView], None], timeout: float) -> RolloutView:
    """Show every step of an update until it is finished or refused or the time is up; how it stands then."""
    async with _reached(where, name) as (client, key):
        return await followed(client, key, show, timeout)


async def followed(
    client: Client, key: Key, show: Callable[[RolloutView], None], timeout: float
) -> RolloutView:
    """As `follow`, with a client. Fails when the set goes, and when the server does not answer any more."""
    first = await _get(client, key, PodCliqueSet)
    last = rollout(first)
    show(last)
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout or None):
            while not _over(last):
                async with aclosing(_changes(client, key, first.uid)) as changes:
                    async for view in changes:
                        if view != last:
                            show(view)
                        last = view
                        if _over(last):
                            break
    return last


def _over(view: RolloutView) -> bool:
    return view.finished or view.stage is Stage.REFUSED


async def _changes(client: Client, key: Key, uid: str) -> AsyncGenerator[RolloutView, None]:
    """How a set is, and then every change of it, until the watch ends.

    Raises Failed for a set that goes: nothing of it is updated any more. Another set of its name, made while
    nobody watched, has no part in the update that is waited for.
    """
    fields = f"metadata.name={key.name}"
    page = await _answered(client, key, fields)
    yield _living(page.items[0] if page.items else None, key, uid)
    try:
        watch = client.watch(
            kinds.CLIQUESETS,
            type=PodCliqueSet,
            namespace=key.namespace,
            fields=fields,
            resource_version=page.resource_version,
        )
        async with aclosing(watch) as events:
            async for event in events:
                if event.type != "BOOKMARK":
                    yield _living(None if event.type == "DELETED" else event.object, key, uid)
    except (Gone, Unreachable):
        pass
    await asyncio.sleep(_AGAIN)


async def _answered(client: Client, key: Key, fields: str) -> Listing[PodCliqueSet]:
    """The set, from a server that may be away for a moment; one that stays away is an error."""
    loop = asyncio.get_running_loop()
    patience = loop.time() + _SILENCE
    while True:
        try:
            return await client.list(
                kinds.CLIQUESETS, type=PodCliqueSet, namespace=key.namespace, fields=fields
            )
        except Unreachable:
            if loop.time() >= patience:
                raise
        await asyncio.sleep(_AGAIN)


def _living(found: PodCliqueSet | None, key: Key, uid: str) -> RolloutView:
    if found is None or found.uid != uid:
        raise Failed(f"PodCliqueSet {key} was deleted")
    if found.terminating:
        raise Failed(f"PodCliqueSet {key} is being deleted")
    return rollout(found)


async def read(where: Where, name: str) -> Found:
    """A set and its recorded templates."""
    async with _reached(where, name) as (client, key):
        return await _read(client, key)


async def hold(where: Where, name: str, *, paused: bool) -> PodCliqueSet:
    """Pause or resume the updates of a set; the set as it was before."""
    async with _reached(where, name) as (client, key):
        before = await _get(client, key, PodCliqueSet)
        value = "true" if paused else None
        await client.merge_patch(
            kinds.CLIQUESETS, key, {"metadata": {"annotations": {labels.UPDATE_PAUSED: value}}}
        )
        return before


async def change(where: Where, name: str, plan: Callable[[Found], list[Manifest]]) -> PodCliqueSet:
    """Patch a set as planned from what is there; planned again where somebody wrote it meanwhile."""
    async with _reached(where, name) as (client, key):
        for _ in range(_ATTEMPTS):
            operations = plan(await _read(client, key))
            try:
                return await client.json_patch(kinds.CLIQUESETS, key, operations, type=PodCliqueSet)
            except Conflict:
                continue
        raise Failed(f"PodCliqueSet {key} is being written by somebody else again and again; try it later")


async def _read(client: Client, key: Key) -> Found:
    manifest = await _get(client, key, dict)
    cliqueset = msgspec.convert(manifest, PodCliqueSet, strict=False)
    ours = labels.selector(labels.owned_by(key.name))
    recorded, gangs = await asyncio.gather(
        client.list_all(
            kinds.CONTROLLER_REVISIONS, type=ControllerRevision, namespace=key.namespace, labels=ours
        ),
        client.list_all(kinds.GANGS, type=PodGang, namespace=key.namespace, labels=ours),
    )
    own = [each for each in recorded if each.owner is not None and each.owner.uid == cliqueset.uid]
    return Found(manifest, cliqueset, history(cliqueset, own, gangs))


async def _get(client: Client, key: Key, type_: type[T]) -> T:
    try:
        return await client.get(kinds.CLIQUESETS, key, type=type_)
    except NotFound:
        raise Failed(f"there is no PodCliqueSet {key.name!r} in namespace {key.namespace!r}") from None


@asynccontextmanager
async def _reached(where: Where, name: str) -> AsyncIterator[tuple[Client, Key]]:
    """A client, and the key of the set that is meant."""
    kubeconfig, context, namespace = where
    async with connected(kubeconfig, context) as reached:
        yield reached.client, Key(namespace or reached.connection.namespace, set_name(name))


def set_name(text: str) -> str:
    """The name of a set as somebody gives it: alone, or behind its kind as kubectl prints it."""
    kind, slash, name = text.rpartition("/")
    plural, singular, group = (
        kinds.CLIQUESETS.plural,
        kinds.CLIQUESETS.kind.lower(),
        kinds.CLIQUESETS.gvk.group,
    )
    if slash and kind.lower().removesuffix(f".{group}") not in (plural, singular, "pcs"):
        raise Failed(f"{text}: {kind} is no PodCliqueSet; give the name of the set alone")
    return name
