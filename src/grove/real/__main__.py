"""`python -m grove.real install | tool | fetch | start | list`: data on standard output, talk beside it."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path

from grove.errors import GroveError
from grove.real.binaries import Locator
from grove.real.control_plane import RealControlPlane
from grove.real.fetching import fetched
from grove.real.install import Installer
from grove.real.options import Options
from grove.real.progress import say
from grove.real.third_party import THIRD_PARTIES, ThirdParty, chosen
from grove.real.versions import FILES, MINORS, TOOLS, release, tools

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    try:
        if asked.command == "list":
            _list()
        elif asked.command == "start":
            _run(_start(asked))
        elif asked.command == "tool":
            _run(_tool(asked.name, asked.jobs))
        elif asked.command == "fetch":
            print("\n".join(map(str, fetched(FILES[asked.name]()))))
        else:
            _install(asked)
    except GroveError as error:
        say(str(error))
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        if asked.command == "start":
            return 0
        say("Stopped. What is finished is kept; the same command goes on from there.")
        return INTERRUPTED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m grove.real", description="A real Kubernetes control plane on this machine."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    install = commands.add_parser("install", help="build what is missing from the Go module registry")
    install.add_argument("--minors", type=_minors, default=MINORS, help=f"default: {','.join(MINORS)}")
    install.add_argument(
        "--schedulers",
        type=_schedulers,
        default=(),
        help=f"schedulers of others too: {','.join(THIRD_PARTIES)}, or all (default: none)",
    )
    install.add_argument(
        "--jobs", type=int, help="how many packages Go compiles at a time (default: all cores)"
    )
    checks = install.add_mutually_exclusive_group()
    checks.add_argument("--verify", action="store_true", help="only check the checksums of what is there")
    checks.add_argument("--repair", action="store_true", help="check, and build again what is damaged")
    tool = commands.add_parser("tool", help="build a program that is no part of a control plane")
    tool.add_argument("name", choices=sorted(TOOLS))
    tool.add_argument("--jobs", type=int, help="how many packages Go compiles at a time (default: all cores)")
    fetch = commands.add_parser("fetch", help="fetch files that tests need of another project")
    fetch.add_argument("name", choices=sorted(FILES))
    start = commands.add_parser("start", help="run a control plane until Ctrl-C")
    start.add_argument("--minor", choices=MINORS, help="default: 1.36, or what the scheduler is run on")
    start.add_argument(
        "--scheduler", choices=tuple(THIRD_PARTIES), default="", help="in place of kube-scheduler"
    )
    start.add_argument("--kubeconfig", type=Path, help="where to write the administrator's kubeconfig")
    start.add_argument("--directory", type=Path, help="where to keep its files (default: a temporary folder)")
    start.add_argument("--keep", action="store_true", help="keep the files afterwards")
    start.add_argument("--no-scheduler", action="store_true", help="leave kube-scheduler out")
    commands.add_parser("list", help="show which programs are there")
    return parser


def _minors(text: str) -> tuple[str, ...]:
    minors = tuple(part.strip() for part in text.replace(",", " ").split())
    try:
        for minor in minors:
            release(minor)
    except GroveError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return minors or MINORS


def _schedulers(text: str) -> tuple[ThirdParty, ...]:
    try:
        return chosen(tuple(part.strip() for part in text.replace(",", " ").split()))
    except GroveError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _install(asked: argparse.Namespace) -> None:
    installer = Installer(jobs=asked.jobs)
    if asked.verify:
        installer.verify(asked.minors, asked.schedulers)
    elif asked.repair:
        _run(installer.repair(asked.minors, asked.schedulers))
    else:
        _run(installer.install(asked.minors, asked.schedulers))


async def _tool(name: str, jobs: int | None) -> None:
    print(await Installer(jobs=jobs).install_tool(TOOLS[name]()), flush=True)


async def _start(asked: argparse.Namespace) -> None:
    usual = THIRD_PARTIES[asked.scheduler].minor if asked.scheduler else Options().minor
    options = Options(
        minor=asked.minor or usual,
        scheduler=not asked.no_scheduler,
        third_party=asked.scheduler,
        directory=asked.directory,
        keep=asked.keep,
    )
    async with RealControlPlane(options) as plane:
        print(plane.kubeconfig(asked.kubeconfig), flush=True)
        say("Ready. `export KUBECONFIG=` the file above to use it; Ctrl-C ends it.")
        await plane.wait()


def _list() -> None:
    locator = Locator()
    own = [tool for minor in MINORS for tool in tools(minor)]
    others = [tool for each in THIRD_PARTIES.values() for tool in each.programs]
    for tool in dict.fromkeys((*own, *others, *(make() for make in TOOLS.values()))):
        found = locator.find(tool)
        print(f"{tool.label}\t{found.path if found else 'not installed'}")


def _run(work: Coroutine[None, None, None]) -> None:
    """Runs to the end; a closed terminal and a polite request to end are like Ctrl-C."""

    async def until_asked_to_end() -> None:
        task = asyncio.ensure_future(work)

        def end() -> None:
            # Once is enough: a second cancellation would interrupt the cleaning up, which takes seconds.
            if not task.cancelling():
                task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, end)
        await task

    asyncio.run(until_asked_to_end())


if __name__ == "__main__":
    sys.exit(main())
