"""Build one program from the Go module registry, in a throw-away copy of its tool module.

Checksums are verified by Go against the pinned `go.sum`. Never writes outside the folders it is given
and Go's own module cache.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from grove.real.child import dies_with_parent, signal_group
from grove.real.failure import BuildFailed
from grove.real.progress import ProgressLine
from grove.real.toolchain import Go
from grove.real.versions import Tool

MODULES = Path(__file__).parent / "modules"
TICK_SECONDS = 1.0
#: Lines of Go's output that a failure repeats.
TOLD_LINES = 6
_DOWNLOADING = re.compile(r"^go: downloading \S+ \S+$")


@dataclass(frozen=True, slots=True)
class Builder:
    """How programs are built on this machine."""

    go: Go
    environment: dict[str, str]
    jobs: int | None = None

    async def build(self, tool: Tool, place: Path, progress: ProgressLine) -> Path:
        """The finished program inside `place`."""
        source = place / "module"
        shutil.copytree(MODULES / tool.module, source)
        packages = await self._download(tool, source, progress)
        await self._compile(tool, source, packages=packages, progress=progress)
        return source / tool.name

    async def beside(self, tool: Tool, place: Path, progress: ProgressLine) -> list[Path]:
        """The files that are kept with a program, where Go has its module."""
        if not tool.beside:
            return []
        where = [str(self.go.path), "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", tool.source]
        said = await _Run(tool, self.environment, place / "module").go(
            where, heard=lambda _: None, state=lambda: "copying", progress=progress
        )
        files = [Path(said[0]) / name for name in tool.beside]
        missing = [str(file) for file in files if not file.is_file()]
        if missing:
            raise BuildFailed(f"{tool.label}: its module has no file {', '.join(missing)}")
        return files

    async def is_what_was_asked(self, tool: Tool, binary: Path, progress: ProgressLine) -> bool:
        """Whether the build information in a program names the module and version that we mean."""
        asking = [str(self.go.path), "version", "-m", str(binary)]
        said = await _Run(tool, self.environment, binary.parent).go(
            asking, heard=lambda _: None, state=lambda: "checking", progress=progress
        )
        # `dep  <module>  <version>  <checksum>`; a program of the module itself may stand as `mod`.
        named = [line.split()[1:3] for line in said if line.split()[:1] in (["dep"], ["mod"])]
        return [tool.source, f"v{tool.version}"] in named

    async def _download(self, tool: Tool, source: Path, progress: ProgressLine) -> int:
        """Fetches what the program needs and nothing else; answers of how many packages it consists."""
        fetched = 0

        def heard(line: str) -> None:
            nonlocal fetched
            fetched += bool(_DOWNLOADING.match(line))

        def state() -> str:
            return f"downloading, modules so far: {fetched}" if fetched else "downloading"

        listing = [str(self.go.path), "list", "-mod=readonly", *_tags(tool)]
        listing += ["-deps", "-f", "{{.ImportPath}}", tool.package]
        run = _Run(tool, self.environment, source)
        return len(await run.go(listing, heard=heard, state=state, progress=progress))

    async def _compile(self, tool: Tool, source: Path, *, packages: int, progress: ProgressLine) -> None:
        compiled = 0

        def heard(line: str) -> None:
            nonlocal compiled
            compiled += not line.startswith(("go:", "#"))

        def state() -> str:
            return f"building, {compiled} of at most {packages} packages" if compiled else "building"

        command = [str(self.go.path), "build", "-v", "-mod=readonly", "-trimpath", "-buildvcs=false"]
        command += _tags(tool)
        if self.jobs:
            command += ["-p", str(self.jobs)]
        command += [f"-ldflags={tool.linker_flags}", "-o", tool.name, tool.package]
        await _Run(tool, self.environment, source).go(command, heard=heard, state=state, progress=progress)


def _tags(tool: Tool) -> list[str]:
    return [f"-tags={','.join(tool.tags)}"] if tool.tags else []


@dataclass(frozen=True, slots=True)
class _Run:
    """One call of the Go command."""

    tool: Tool
    environment: dict[str, str]
    folder: Path

    async def go(
        self,
        command: Sequence[str],
        *,
        heard: Callable[[str], None],
        state: Callable[[], str],
        progress: ProgressLine,
    ) -> list[str]:
        """What Go wrote to its standard output; shows `state()` while it works."""
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=self.folder,
            env=self.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            preexec_fn=dies_with_parent(),
        )
        assert process.stdout is not None
        assert process.stderr is not None
        last: deque[str] = deque(maxlen=TOLD_LINES)

        async def listen(stream: asyncio.StreamReader) -> None:
            async for raw in stream:
                line = raw.decode(errors="replace").rstrip()
                last.append(line)
                heard(line)

        ticking = asyncio.create_task(_tick(state, progress))
        try:
            output, _ = await asyncio.gather(process.stdout.read(), listen(process.stderr))
            code = await process.wait()
        finally:
            ticking.cancel()
            if process.returncode is None:
                signal_group(process.pid, signal.SIGKILL)
                await process.wait()
        if code != 0:
            told = "".join(f"\n    {line}" for line in last)
            raise BuildFailed(
                f"{self.tool.label} could not be built: `go {command[1]}` ended with code {code}.{told}"
            )
        return output.decode(errors="replace").splitlines()


async def _tick(state: Callable[[], str], progress: ProgressLine) -> None:
    while True:
        progress.update(state())
        await asyncio.sleep(TICK_SECONDS)
