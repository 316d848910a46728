"""Install the programs of minors and schedulers: what is there is used, what is missing is built.

An interrupted installation is continued by the next: finished programs stay, and so does Go's build cache
until the minor or the scheduler that needed it is complete.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from grove.real.binaries import Locator, suits
from grove.real.build import Builder
from grove.real.cache import Cache, default_root
from grove.real.failure import BuildFailed, NotInstalled, RealFailure
from grove.real.progress import ProgressLine, say
from grove.real.third_party import ThirdParty
from grove.real.toolchain import build_environment, find_go
from grove.real.versions import MINORS, Tool, tools

#: Room that the build of one minor takes at its height: build cache, new modules and the programs.
NEEDED_BYTES = 6 << 30


@dataclass(frozen=True, slots=True)
class Installer:
    """Brings programs into a cache."""

    cache: Cache = field(default_factory=lambda: Cache(default_root()))
    environ: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    jobs: int | None = None
    say: Callable[[str], None] = say

    async def install(self, minors: Sequence[str] = MINORS, schedulers: Sequence[ThirdParty] = ()) -> None:
        """Leaves every program of the minors and of the schedulers ready to run."""
        wanted = _wanted(minors, schedulers)
        async with self.cache.lock(waiting=self.say):
            for what, programs in wanted.items():
                await self._install(what, programs)
            # What an earlier installation left that was interrupted after its last build.
            await self.cache.discard(self._own_build_cache)
        self.say(f"{', '.join(wanted)}: ready in {self.cache.root}.")

    async def install_tool(self, tool: Tool) -> Path:
        """Leaves one program ready to run; where it is."""
        async with self.cache.lock(waiting=self.say):
            await self._install(f"{tool.name} {tool.version}", (tool,))
        return self.cache.path(tool)

    def verify(self, minors: Sequence[str] = MINORS, schedulers: Sequence[ThirdParty] = ()) -> None:
        """Reads every byte of what the cache holds; raises with a list of what is not as it was built."""
        wrong = []
        for tool in _tools(minors, schedulers):
            damage = self.cache.damage(tool)
            wrong += [f"{tool.label} {damage}"] if damage else []
            self.say(f"  {tool.label}: {damage or 'as it was built'}")
        if wrong:
            also = f" --schedulers {','.join(each.name for each in schedulers)}" if schedulers else ""
            raise RealFailure(
                f"{'; '.join(wrong)}. `python -m grove.real install --repair --minors {','.join(minors)}"
                f"{also}` builds what is damaged or missing."
            )

    async def repair(self, minors: Sequence[str] = MINORS, schedulers: Sequence[ThirdParty] = ()) -> None:
        """Removes what is not as it was built, then installs what is missing."""
        async with self.cache.lock(waiting=self.say):
            for tool in _tools(minors, schedulers):
                if self.cache.folder(tool).exists() and self.cache.damage(tool):
                    self.cache.remove(tool)
        await self.install(minors, schedulers)

    async def _install(self, what: str, programs: Sequence[Tool]) -> None:
        self.say(f"{what}:")
        missing = [tool for tool in programs if not self._is_there(tool)]
        if not missing:
            return
        self._check_room(what)
        go = find_go()
        # A build cache that the user chose is the user's; ours is gigabytes that nobody needs afterwards.
        chosen = self.environ.get("GOCACHE")
        build_cache = Path(chosen) if chosen else self._own_build_cache
        builder = Builder(go, build_environment(build_cache, self.environ), self.jobs)
        for tool in missing:
            await self._build(tool, builder)
        await self.cache.discard(self._own_build_cache)

    @property
    def _own_build_cache(self) -> Path:
        return self.cache.root / "go-build"

    def _is_there(self, tool: Tool) -> bool:
        found = Locator(self.cache, self.environ).find(tool)
        if found is not None:
            self.say(f"  {tool.label}: there ({found.origin}: {found.path})")
        return found is not None

    async def _build(self, tool: Tool, builder: Builder) -> None:
        progress = ProgressLine(tool.label)
        with self.cache.workspace() as place:
            try:
                binary = await builder.build(tool, place, progress)
                right = await self._is_right(tool, binary, builder, progress)
                beside = await builder.beside(tool, place, progress)
            except BaseException:
                progress.finish("not finished")
                raise
            if not right:
                raise BuildFailed(f"{tool.label} was built but does not run here or says another version")
            stored = self.cache.store(tool, binary, built_with=builder.go.version, beside=beside)
        progress.finish(f"built, {stored.stat().st_size / 1e6:.0f} MB")

    async def _is_right(self, tool: Tool, binary: Path, builder: Builder, progress: ProgressLine) -> bool:
        if tool.source:
            return await builder.is_what_was_asked(tool, binary, progress)
        return suits(tool, binary)

    def _check_room(self, what: str) -> None:
        self.cache.root.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self.cache.root).free
        if free < NEEDED_BYTES:
            raise NotInstalled(
                f"Building {what} takes up to {NEEDED_BYTES >> 30} GiB and {self.cache.root} has "
                f"{free / (1 << 30):.1f} GiB left; make room, or set XDG_CACHE_HOME to a larger disk."
            )


def _wanted(minors: Sequence[str], schedulers: Sequence[ThirdParty]) -> dict[str, Sequence[Tool]]:
    """The programs by what they are for; each of these is built in one go."""
    return {
        **{f"Kubernetes {minor}": tools(minor) for minor in minors},
        **{each.label: each.programs for each in schedulers},
    }


def _tools(minors: Sequence[str], schedulers: Sequence[ThirdParty]) -> list[Tool]:
    listed = (tool for programs in _wanted(minors, schedulers).values() for tool in programs)
    return list(dict.fromkeys(listed))
