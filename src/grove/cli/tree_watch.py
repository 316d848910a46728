"""Draw the tree again whenever something that it shows changes; watches say when, nothing is polled."""

import asyncio
import contextlib
import shutil
import sys
from contextlib import aclosing
from typing import Final

from grove.api import kinds, labels
from grove.cli.connect import Reached, connected
from grove.cli.loop import Interrupted, stop_on_signals, unless_stopped
from grove.cli.talk import emit
from grove.cli.tree import drawn, seen
from grove.errors import Forbidden, Gone, Stalled, Unreachable
from grove.meta import Object, Resource

#: What a tree is drawn from; pods only of gangs.
_SHOWN: Final = (
    (kinds.CLIQUESETS, ""),
    (kinds.SCALING_GROUPS, ""),
    (kinds.CLIQUES, ""),
    (kinds.GANGS, ""),
    (kinds.PODS, labels.POD_GANG),
)
#: Seconds in which changes are gathered: a gang changes with each of its pods.
_GATHER: Final = 0.2
#: Seconds until a server that does not answer any more is asked again.
_AGAIN: Final = 1.0
_CLEAR: Final = "\x1b[H\x1b[2J\x1b[3J"


async def follow(
    kubeconfig: str | None, context: str | None, namespace: str | None, name: str, *, wide: bool
) -> None:
    """Draw until asked to stop."""
    with stop_on_signals() as stop, contextlib.suppress(Interrupted):
        async with connected(kubeconfig, context) as reached:
            where = "" if namespace is None else namespace or reached.connection.namespace
            await unless_stopped(_follow(reached, where, name, wide=wide), stop)


async def _follow(reached: Reached, where: str, name: str, *, wide: bool) -> None:
    changed = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for resource, selector in _SHOWN:
            group.create_task(_notice(reached, resource, selector, where, changed))
        shown = ""
        while True:
            changed.clear()
            with contextlib.suppress(Unreachable):
                forest = await seen(reached, where, name, wide=wide)
                text = drawn(forest, wide=wide) or "(no PodCliqueSets and no PodGangs)"
                if text != shown:
                    emit(_screen(text, first=not shown))
                    shown = text
            await changed.wait()
            await asyncio.sleep(_GATHER)


async def _notice(
    reached: Reached, resource: Resource, selector: str, where: str, changed: asyncio.Event
) -> None:
    """Tell of every change of one kind, for as long as it may be seen."""
    while True:
        try:
            page = await reached.client.list(resource, type=Object, namespace=where, labels=selector, limit=1)
            changed.set()
            events = reached.client.watch(
                resource,
                type=Object,
                namespace=where,
                labels=selector,
                resource_version=page.resource_version,
            )
            async with aclosing(events):
                async for event in events:
                    if event.type != "BOOKMARK":
                        changed.set()
        except Forbidden:
            return
        except (Gone, Stalled):
            continue
        except Unreachable:
            await asyncio.sleep(_AGAIN)


def _screen(text: str, *, first: bool) -> str:
    """A drawing as the output can show it: a terminal is cleared and filled, anything else gets one more."""
    if not sys.stdout.isatty():
        return text if first else f"\n{text}"
    height = shutil.get_terminal_size().lines - 1
    lines = text.splitlines()
    if len(lines) > height:
        hidden = len(lines) - height + 1
        lines = [*lines[: height - 1], f"... {hidden} more lines; name a set to see less"]
    return _CLEAR + "\n".join(lines)
