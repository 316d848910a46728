"""`grove bundle`: what a maintainer needs to see, in one file, without secrets."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grove.cli.options import ContextOption, KubeconfigOption
from grove.cli.talk import Failed, emit, say

if TYPE_CHECKING:
    from datetime import timedelta

    from grove.cli.bundling.archive import Archive


def bundle(
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace of the sets; the context's if omitted.")
    ] = "",
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Every namespace.")] = False,
    since: Annotated[str, typer.Option(help="How far back events and logs go, for example 30m.")] = "1h",
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", help="File to write; grove-bundle-TIME.tar.gz if omitted.", show_default=False
        ),
    ] = None,
    max_size: Annotated[int, typer.Option(min=1, max=1024, help="Most MiB before compression.")] = 64,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Collect objects, events, logs and metrics into one file.

    Secrets are not read. Values of environment variables, credentials in arguments, annotations and URLs, and
    whatever looks like a token are removed; names stay. What you may not read is left out, and index.json in
    the file says so.
    """
    from grove.api import durations
    from grove.cli.bundling.archive import Archive
    from grove.cli.loop import run_loop
    from grove.runtime import logs

    if namespace and all_namespaces:
        raise typer.BadParameter("--namespace and --all-namespaces exclude each other")
    try:
        back = durations.parse(since)
    except ValueError as error:
        raise typer.BadParameter(f"--since: {error}") from None
    logs.configure(level="error", format="text")
    target = file or Path(f"grove-bundle-{datetime.now(UTC):%Y%m%d-%H%M%S}.tar.gz")
    archive = Archive(max_size << 20)
    where = None if all_namespaces else namespace
    run_loop(_collected(kubeconfig, context, where, back, archive, target))
    _tell(archive, target)


def _tell(archive: "Archive", target: Path) -> None:
    for each in archive.skipped:
        say(f"grove: left out: {each['what']}: {each['why']}")
    say(f"grove: {len(archive.entries)} entries; look through them before you hand the file on")
    emit(str(target))


async def _collected(
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    since: "timedelta",
    archive: "Archive",
    target: Path,
) -> None:
    from grove.cli.bundling.collection import Wanted, collect
    from grove.cli.connect import connected
    from grove.errors import Unreachable

    async with connected(kubeconfig, context) as reached:
        where = "" if namespace is None else namespace or reached.connection.namespace
        server = reached.connection.server
        wanted = Wanted(reached.client, server, where, since, lambda: datetime.now(UTC), _progress)
        try:
            facts = await collect(wanted, archive)
        except Unreachable as error:
            raise Failed(f"cannot reach the API server {server}: {error}") from None
        finally:
            _progress("")
    archive.write(target, facts, datetime.now(UTC))


def _progress(step: str) -> None:
    """One line that is written over on a terminal; nothing elsewhere."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{f'collecting {step}' if step else ''}")
        sys.stderr.flush()
